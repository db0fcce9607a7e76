// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.EOFException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.LaunchMessages.RegisterTree;
import org.shadowverbs.coordinator.protocol.LaunchMessages.Registered;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RankMessages.Hello;
import org.shadowverbs.coordinator.protocol.RankMessages.Refused;

/**
 * The Unix socket of a host's agent. Whoever comes says first what it is: a rank, which stays for as long as its process
 * lives, or a launch, which is answered at once. Each has a virtual thread; there is no state to guard but the socket.
 */
final class AgentSocket implements AutoCloseable {
    private static final int BACKLOG = 128;

    private final AgentOptions options;
    private final EventLog log;
    private final LocalRanks ranks;
    private final LaunchedPrograms programs;
    private final Supplier<String> job;
    private final ServerSocketChannel listener;

    /**
     * Binds the socket, in place of one that is there; {@link #open} is to follow.
     *
     * @param job the job's name; empty as long as no coordinator has said it
     * @throws IOException when the socket can't be made
     */
    AgentSocket(final AgentOptions options, final EventLog log, final LocalRanks ranks,
            final LaunchedPrograms programs, final Supplier<String> job) throws IOException {
        this.options = options;
        this.log = log;
        this.ranks = ranks;
        this.programs = programs;
        this.job = job;
        Files.deleteIfExists(options.socket());
        listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            listener.bind(UnixDomainSocketAddress.of(options.socket()), BACKLOG);
        } catch (IOException | RuntimeException e) {
            listener.close();
            throw new IOException("the agent's socket " + options.socket() + " can't be made: " + e.getMessage(), e);
        }
    }

    /** Begins to accept. */
    void open() {
        Thread.ofPlatform().daemon().name("accept").start(this::acceptLoop);
        log.add("agent of host " + options.host() + " listens at " + options.socket());
    }

    private void acceptLoop() {
        for (;;) {
            final SocketChannel channel;
            try {
                channel = listener.accept();
            } catch (AsynchronousCloseException e) {
                return;
            } catch (IOException e) {
                if (!listener.isOpen()) {
                    return;
                }
                log.add("accept failed: " + e);
                continue;
            }
            Thread.ofVirtual().name("rank").start(() -> serve(channel));
        }
    }

    private void serve(final SocketChannel socket) {
        final FrameChannel channel = new FrameChannel(socket);
        try {
            final Message first = channel.read();
            switch (first) {
                case Hello hello -> {
                    check(hello.version(), hello.secret());
                    ranks.serve(hello, channel);
                }
                case RegisterTree tree -> {
                    check(tree.version(), tree.secret());
                    programs.register(tree);
                    channel.write(new Registered(job.get()));
                }
                default -> throw new ProtocolException("a connection begins with message type " + first.type());
            }
        } catch (EOFException e) {
            // whoever it was only looked whether somebody listens
        } catch (IOException | RuntimeException e) {
            log.add("connection closed: " + e.getMessage());
            try {
                channel.write(new Refused(String.valueOf(e.getMessage())));
            } catch (IOException gone) {
                channel.close(); // it does not listen any more
            }
        } finally {
            channel.close();
        }
    }

    private void check(final int version, final String secret) throws ProtocolException {
        if (version != FrameType.VERSION) {
            throw new ProtocolException("peer of protocol version " + version + ", this agent has version "
                    + FrameType.VERSION + ": restart the program with this installation");
        }
        if (options.secretGiven() && !options.secret().equals(secret)) {
            throw new ProtocolException("wrong job secret (SHADOWVERBS_SECRET)");
        }
    }

    /** Those that are connected stay so. */
    @Override
    public void close() throws IOException {
        listener.close();
        Files.deleteIfExists(options.socket());
    }
}
