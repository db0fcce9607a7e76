// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.shadowverbs.coordinator.process.TcpEnd;
import org.shadowverbs.coordinator.protocol.HostMessages.NetAddress;
import org.shadowverbs.coordinator.protocol.HostMessages.TcpSocket;

/**
 * Which TCP connections between hosts are connections within the job: those whose both ends hosts of the job have told of. Each host
 * sees its own ends only.
 */
final class Connections {
    private static final int ESTABLISHED = 1;
    private static final int SYN_RECEIVED = 3;

    private final Map<Ends, Told> all = new HashMap<>();
    private final Set<String> addresses = new HashSet<>();
    private final List<Told> leaving = new ArrayList<>();

    /** The addresses and ports of a connection, as one of its ends has it. */
    private record Ends(String local, int localPort, String remote, int remotePort) {
        static Ends of(final TcpSocket socket) {
            return new Ends(socket.local(), socket.localPort(), socket.remote(), socket.remotePort());
        }

        Ends mirrored() {
            return new Ends(remote, remotePort, local, localPort);
        }
    }

    private record Told(String host, TcpSocket socket, boolean ofJob) {
    }

    /** The addresses of all hosts of a job but for one. */
    static Set<String> addressesBut(final AgentSession one, final Iterable<AgentSession> agents) {
        final Set<String> addresses = new HashSet<>();
        agents.forEach(agent -> {
            if (agent != one) {
                addresses.addAll(agent.addresses().stream().map(NetAddress::address).collect(Collectors.toSet()));
            }
        });
        return addresses;
    }

    /** What a host has told. */
    void add(final AgentSession agent, final List<TcpSocket> ofJob, final List<TcpSocket> foreign) {
        add(agent.host(), agent.addresses(), ofJob, foreign);
    }

    void add(final String host, final List<NetAddress> own, final List<TcpSocket> ofJob, final List<TcpSocket> foreign) {
        own.forEach(address -> addresses.add(address.address()));
        for (final TcpSocket socket : ofJob) {
            final Told told = new Told(host, socket, true);
            leaving.add(told);
            all.put(Ends.of(socket), told);
        }
        foreign.forEach(socket -> all.put(Ends.of(socket), new Told(host, socket, false)));
    }

    /**
     * What of the job's connections can't be saved. Whoever asks while the programs run has to ask again: connections come and go
     * between the looks of two hosts.
     */
    List<String> problems() {
        return leaving.stream().map(told -> problem(told, false)).filter(problem -> !problem.isEmpty()).toList();
    }

    /** What stands in the way now, and not for long. */
    List<String> passing() {
        return leaving.stream().map(told -> problem(told, true)).filter(problem -> !problem.isEmpty()).toList();
    }

    private String problem(final Told told, final boolean passing) {
        final TcpSocket socket = told.socket();
        final Told other = all.get(Ends.of(socket).mirrored());
        if (other != null && !other.ofJob() && !other.socket().holder().isEmpty()) {
            return passing ? "" : line(told, other.socket().holder() + " on host " + other.host() + " is outside the job",
                    "close it before the checkpoint");
        }
        if (other != null && !other.ofJob() && notAccepted(other.socket())) {
            return passing ? line(told, "nobody has accepted it yet on host " + other.host(), "") : "";
        }
        if (other != null && !other.ofJob() && stillSends(other.socket())) {
            return passing ? line(told, "it was closed on host " + other.host() + ", and not all of it has come", "") : "";
        }
        // One whose other end is not there any more, at a host of the job, is over; its process has yet to hear of that. One that is
        // being made is begun anew.
        if (other != null || addresses.contains(socket.remote())) {
            return "";
        }
        return passing ? "" : line(told, "no host of the job has that address",
                "close it before the checkpoint, or launch what it leads to with shadowverbs, too");
    }

    private static boolean stillSends(final TcpSocket socket) {
        return new TcpEnd(socket.holder(), null, socket.state()).sending();
    }

    private static boolean notAccepted(final TcpSocket socket) {
        return socket.state() == ESTABLISHED || socket.state() == SYN_RECEIVED;
    }

    private static String line(final Told told, final String what, final String mend) {
        final TcpSocket socket = told.socket();
        return "host " + told.host() + ": " + socket.holder() + ": a TCP connection to " + socket.remote() + ":"
                + socket.remotePort() + ": " + what + (mend.isEmpty() ? "" : "; " + mend);
    }
}
