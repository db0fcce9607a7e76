// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.EOFException;
import java.io.IOException;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import org.shadowverbs.coordinator.protocol.RankMessages.Refused;

/**
 * Accepts what comes to a listening socket, and has it served by a virtual thread for each. Whoever comes says first what it is; one
 * that is not welcome is told why, and the reason is logged.
 */
public final class Acceptor implements AutoCloseable {
    private static final int END_MILLIS = 10_000;

    private final ServerSocketChannel listener;
    private final EventLog log;
    private final Wrapper wrapper;
    private final Service service;
    private final Thread thread;

    /** Makes the connection of an accepted socket. */
    public interface Wrapper {
        FrameChannel wrap(SocketChannel socket) throws IOException;
    }

    /** What is done for one that has come; the connection is closed when it returns or throws. */
    public interface Service {
        void serve(Message first, FrameChannel channel) throws IOException, InterruptedException;
    }

    /** {@link #open} is to follow. */
    public Acceptor(final ServerSocketChannel listener, final EventLog log, final Wrapper wrapper, final Service service) {
        this.listener = listener;
        this.log = log;
        this.wrapper = wrapper;
        this.service = service;
        thread = Thread.ofPlatform().daemon().name("accept").unstarted(this::acceptAll);
    }

    /** Begins to accept. */
    public void open() {
        thread.start();
    }

    private void acceptAll() {
        for (;;) {
            final SocketChannel socket;
            try {
                socket = listener.accept();
            } catch (AsynchronousCloseException e) {
                return;
            } catch (IOException e) {
                if (!listener.isOpen()) {
                    return;
                }
                log.add("accept failed: " + e);
                continue;
            }
            Thread.ofVirtual().name("connection").start(() -> serve(socket));
        }
    }

    private void serve(final SocketChannel socket) {
        try (socket; FrameChannel channel = wrapper.wrap(socket)) {
            try {
                service.serve(channel.read(), channel);
            } catch (EOFException e) {
                // whoever it was only looked whether somebody listens
            } catch (IOException | RuntimeException e) {
                log.add("connection closed: " + e.getMessage());
                refuse(channel, String.valueOf(e.getMessage()));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (IOException e) {
            log.add("connection closed: " + e.getMessage());
        }
    }

    private static void refuse(final FrameChannel channel, final String why) {
        try {
            channel.write(new Refused(why));
        } catch (IOException e) {
            channel.close(); // it does not listen any more
        }
    }

    /** Those that are connected stay so. */
    @Override
    public void close() throws IOException {
        listener.close();
    }

    /** After {@link #close}: blocks until the port is free, which it is once nobody is within accept. */
    public void join() throws InterruptedException {
        thread.join(END_MILLIS);
    }
}
