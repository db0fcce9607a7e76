// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.shadowverbs.coordinator.process.TcpConnection;
import org.shadowverbs.coordinator.process.TcpEnd;
import org.shadowverbs.coordinator.protocol.HostMessages.NetAddress;
import org.shadowverbs.coordinator.protocol.HostMessages.TcpSocket;
import org.shadowverbs.coordinator.protocol.HostMessages.TcpSockets;

/**
 * Which TCP connections between hosts are connections within the job: those whose both ends hosts of the job have told of. Each host
 * sees its own ends only.
 */
final class Connections {
    /** By the connection as that end has it. */
    private final Map<TcpConnection, Told> all = new HashMap<>();
    /** Hosts by their addresses. */
    private final Map<String, String> hosts = new HashMap<>();
    private final List<Told> leaving = new ArrayList<>();
    /** Likewise: listeners' ends that nobody has accepted. */
    private final Map<TcpConnection, Told> waiting = new LinkedHashMap<>();

    private record Told(String host, TcpSocket socket, boolean ofJob) {
        TcpConnection connection() {
            return new TcpConnection(socket.local(), socket.localPort(), socket.remote(), socket.remotePort());
        }

        TcpEnd end() {
            return new TcpEnd(socket.holder(), connection(), socket.state());
        }
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
    void add(final AgentSession agent, final TcpSockets sockets) {
        add(agent.host(), agent.addresses(), sockets);
    }

    void add(final String host, final List<NetAddress> own, final TcpSockets sockets) {
        own.forEach(address -> hosts.put(address.address(), host));
        for (final TcpSocket socket : sockets.leaving()) {
            final Told told = new Told(host, socket, true);
            leaving.add(told);
            all.put(told.connection(), told);
        }
        for (final TcpSocket socket : sockets.foreign()) {
            final Told told = new Told(host, socket, false);
            all.put(told.connection(), told);
        }
        for (final TcpSocket socket : sockets.waiting()) {
            final Told told = new Told(host, socket, false);
            waiting.put(told.connection(), told);
        }
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
        final TcpConnection mirrored = told.connection().mirrored();
        final Told other = all.get(mirrored);
        if (other != null && !other.ofJob() && !other.socket().holder().isEmpty()) {
            return passing ? "" : line(told, other.socket().holder() + " on host " + other.host() + " is outside the job",
                    "close it before the checkpoint");
        }
        if (other != null && !other.ofJob() && other.end().notAccepted() && !waiting.containsKey(mirrored)) {
            return passing ? "" : line(told, "what listens there on host " + other.host() + " is outside the job",
                    "close it before the checkpoint");
        }
        if (other != null && !other.ofJob() && other.end().sending()) {
            return passing ? line(told, "it was closed on host " + other.host() + ", and not all of it has come", "") : "";
        }
        // One whose other end is not there any more, at a host of the job, is over; its process has yet to hear of that. One that is
        // being made is begun anew.
        if (other != null || hosts.containsKey(told.socket().remote())) {
            return "";
        }
        return passing ? "" : line(told, "no host of the job has that address",
                "close it before the checkpoint, or launch what it leads to with shadowverbs, too");
    }

    /** Whether one may come to a listener, or wait there, while hosts stand still one after the other. */
    boolean mayWait() {
        return !waiting.isEmpty() || leaving.stream().anyMatch(told -> told.end().connecting()
                || !all.containsKey(told.connection().mirrored()) && told.end().hasBegun());
    }

    /**
     * Which of those that nobody has accepted can't be made again now. Only where all hosts hold their connections.
     *
     * @param standing the hosts that programs of the job stand still on
     */
    List<String> notToBeMadeAgain(final Set<String> standing) {
        return waiting.values().stream().map(told -> obstacle(told, standing)).filter(problem -> !problem.isEmpty()).toList();
    }

    private String obstacle(final Told told, final Set<String> standing) {
        final Told client = all.get(told.connection().mirrored());
        if (client != null && client.ofJob()) {
            return "";
        }
        if (client != null && !client.socket().holder().isEmpty()) {
            return line(told, "nobody has accepted it yet, and " + client.socket().holder() + " on host " + client.host()
                    + ", from which it comes, is outside the job", "");
        }
        final String host = client != null ? client.host() : hosts.get(told.socket().remote());
        if (!told.end().ending() || client != null && client.end().sending()) {
            return line(told, "nobody has accepted it yet, and it was closed on host " + host + " before all of it had come", "");
        }
        return standing.contains(host) ? "" : line(told, "nobody has accepted it yet, and host " + host
                + ", from which it comes, has no program of the job any more", "");
    }

    /**
     * Those that nobody has accepted, and that their clients' hosts are to make again. One that is being made asks again by itself.
     *
     * @return names of these hosts, by the connections as the clients have them
     */
    Map<TcpConnection, String> unaccepted() {
        final Map<TcpConnection, String> unaccepted = new LinkedHashMap<>();
        waiting.keySet().forEach(connection -> {
            final Told client = all.get(connection.mirrored());
            if (client == null || !client.end().connecting()) {
                unaccepted.put(connection.mirrored(), client != null ? client.host() : hosts.get(connection.remoteAddress()));
            }
        });
        return unaccepted;
    }

    private static String line(final Told told, final String what, final String mend) {
        final TcpSocket socket = told.socket();
        return "host " + told.host() + ": " + socket.holder() + ": a TCP connection to " + socket.remote() + ":"
                + socket.remotePort() + ": " + what + (mend.isEmpty() ? "" : "; " + mend);
    }
}
