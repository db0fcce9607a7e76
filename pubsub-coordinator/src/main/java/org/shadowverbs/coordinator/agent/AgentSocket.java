// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Files;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.protocol.Acceptor;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.LaunchMessages.RegisterTree;
import org.shadowverbs.coordinator.protocol.LaunchMessages.Registered;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.PrivateFiles;
import org.shadowverbs.coordinator.protocol.PmiMessages.PmiState;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RankMessages.Hello;
import org.shadowverbs.coordinator.protocol.RankMessages.Refused;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.StandIn;
import org.shadowverbs.coordinator.protocol.ShellMessages.AskShell;

/**
 * The Unix socket of a host's agent. Whoever comes says first what it is: a rank, which stays for as long as its process
 * lives; a launch or a tree that speaks for its ranks, which are answered at once; one that asks for a command on another host; or
 * a launching command that stands in for its program.
 */
final class AgentSocket implements AutoCloseable {
    private static final int BACKLOG = 128;

    private final AgentOptions options;
    private final EventLog log;
    private final LocalRanks ranks;
    private final LaunchedPrograms programs;
    private final PmiTrees pmi;
    private final ShellRequests shells;
    private final StandIns standIns;
    private final Supplier<String> job;
    private final Acceptor acceptor;

    /**
     * Binds the socket, in place of one that is there; {@link #open} is to follow.
     *
     * @param job the job's name; empty as long as no coordinator has said it
     * @throws IOException when the socket can't be made
     */
    AgentSocket(final AgentOptions options, final EventLog log, final LocalRanks ranks,
            final LaunchedPrograms programs, final PmiTrees pmi, final ShellRequests shells,
            final StandIns standIns, final Supplier<String> job) throws IOException {
        this.options = options;
        this.log = log;
        this.ranks = ranks;
        this.programs = programs;
        this.pmi = pmi;
        this.shells = shells;
        this.standIns = standIns;
        this.job = job;
        Files.deleteIfExists(options.socket());
        final ServerSocketChannel listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            listener.bind(UnixDomainSocketAddress.of(options.socket()), BACKLOG);
            Files.setPosixFilePermissions(options.socket(), PrivateFiles.FILE.value());
        } catch (IOException | RuntimeException e) {
            listener.close();
            throw new IOException("the agent's socket " + options.socket() + " can't be made: " + e.getMessage(), e);
        }
        acceptor = new Acceptor(listener, log, FrameChannel::new, this::serve);
    }

    /** Begins to accept. */
    void open() {
        acceptor.open();
        log.add("agent of host " + options.host() + " listens at " + options.socket());
    }

    private void serve(final Message first, final FrameChannel channel) throws IOException {
        switch (first) {
            case Hello hello -> {
                check(hello.version());
                check(hello.secret());
                ranks.serve(hello, channel);
            }
            case RegisterTree tree -> {
                check(tree.version());
                check(tree.secret());
                final String problem = programs.register(tree);
                channel.write(problem.isEmpty() ? new Registered(job.get()) : new Refused(problem));
            }
            // Of no use to whoever has no program of the job: so it shows no secret.
            case PmiState state -> {
                check(state.version());
                channel.write(pmi.said(state));
            }
            // From within the job, to whose user the socket belongs.
            case AskShell ask -> {
                check(ask.version());
                shells.serve(ask, channel);
            }
            // What the launch has shown it has shown before it became this.
            case StandIn command -> {
                check(command.version());
                standIns.serve(command, channel);
            }
            default -> throw new ProtocolException("a connection begins with message type " + first.type());
        }
    }

    private static void check(final int version) throws ProtocolException {
        if (version != FrameType.VERSION) {
            throw new ProtocolException("peer of protocol version " + version + ", this agent has version "
                    + FrameType.VERSION + ": restart the program with this installation");
        }
    }

    private void check(final String secret) throws ProtocolException {
        if (options.secretGiven() && !options.secret().equals(secret)) {
            throw new ProtocolException("wrong job secret (SHADOWVERBS_SECRET)");
        }
    }

    /** Those that are connected stay so. The file goes first: once nobody answers, it may be the next agent's. */
    @Override
    public void close() throws IOException {
        Files.deleteIfExists(options.socket());
        acceptor.close();
    }
}
