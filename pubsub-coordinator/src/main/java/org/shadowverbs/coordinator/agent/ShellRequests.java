// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.EOFException;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.shadowverbs.coordinator.process.Rights;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.ShellMessages.AskShell;
import org.shadowverbs.coordinator.protocol.ShellMessages.ShellAnswer;
import org.shadowverbs.coordinator.protocol.ShellMessages.ShellFailed;
import org.shadowverbs.coordinator.protocol.ShellMessages.StartShell;

/**
 * Commands that processes of this host ask to have run on others. Whoever asks stays connected until the command has come to it by
 * its own connection, and hears here only of what goes wrong. For any thread.
 */
final class ShellRequests {
    private final AgentOptions options;
    private final EventLog log;
    private final CoordinatorLink coordinator;
    private final RemoteAgents agents;
    private final String origin;
    private final Map<Long, Request> pending = new ConcurrentHashMap<>();
    private final AtomicLong ids = new AtomicLong();

    /** @param agentStarted whether one was started there for it: that is done once */
    private record Request(AskShell ask, FrameChannel channel, boolean agentStarted) {
    }

    /** @param origin this agent, as the coordinator knows it */
    ShellRequests(final AgentOptions options, final EventLog log, final CoordinatorLink coordinator, final String origin) {
        this.options = options;
        this.log = log;
        this.coordinator = coordinator;
        this.origin = origin;
        agents = new RemoteAgents(options, log);
    }

    /** Passes it on, and returns when the one that asks has gone. */
    void serve(final AskShell ask, final FrameChannel channel) throws IOException {
        if (!Rights.overConnections()) {
            channel.write(new ShellAnswer("a launcher's TCP connections to other hosts can't be saved without CAP_NET_ADMIN, so nothing"
                    + " is started there; as root it works, and without in Slurm: srun --mpi=pmi2 shadowverbs launch PROGRAM"));
            return;
        }
        final long id = ids.incrementAndGet();
        pending.put(id, new Request(ask, channel, false));
        try {
            log.add("host " + ask.host() + " is to run: " + ask.shell().command());
            send(id, ask, ask.host());
            channel.read();
            log.add("a process that waits for a command on host " + ask.host() + " says more than that");
        } catch (EOFException e) {
            return; // it has what it asked for, or nobody wants it any more
        } finally {
            pending.remove(id);
        }
    }

    private void send(final long id, final AskShell ask, final String host) {
        final List<String> addresses = HostAddresses.of(host);
        if (!coordinator.send(new StartShell(id, origin, host, addresses,
                HostAddresses.ofThisHost(options.tcpAddress(), addresses), ask.shell()))) {
            answer(id, "the coordinator is not there, which finds host " + host);
        }
    }

    /** The command does not run. Where only an agent is missing one is started, and it is tried again. */
    void failed(final ShellFailed m) {
        final Request request = pending.get(m.id());
        if (request == null) {
            return; // It runs, or ran; or the one that asked has gone.
        }
        if (!m.noAgent() || request.agentStarted()) {
            answer(m.id(), m.problem());
            return;
        }
        pending.replace(m.id(), new Request(request.ask(), request.channel(), true));
        Thread.ofPlatform().daemon().name("agent-of-" + request.ask().host()).start(() -> again(m, request.ask()));
    }

    private void again(final ShellFailed m, final AskShell ask) {
        try {
            send(m.id(), ask, agents.start(ask.host(), m.coordinator().isEmpty() ? options.coordinatorHost() : m.coordinator(),
                    HostEnvironment.beforeLaunch(ask.shell().environment(), options.secret())));
        } catch (IOException e) {
            answer(m.id(), e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void answer(final long id, final String problem) {
        final Request request = pending.get(id);
        log.add("no command on another host: " + problem);
        try {
            if (request != null) {
                request.channel().write(new ShellAnswer(problem));
            }
        } catch (IOException e) {
            log.add("which nobody waits for any more: " + e.getMessage());
        }
    }
}
