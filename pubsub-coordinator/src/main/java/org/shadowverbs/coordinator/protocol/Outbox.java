// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.IOException;
import java.util.concurrent.LinkedBlockingQueue;

/** Sends in order on a thread of its own, so that nobody who holds a lock waits for a slow reader. Safe for use by several threads. */
public final class Outbox implements AutoCloseable {
    private final FrameChannel channel;
    private final LinkedBlockingQueue<Message> queue = new LinkedBlockingQueue<>();
    private final Thread writer;
    private volatile boolean closing;

    public Outbox(final FrameChannel channel, final String name) {
        this.channel = channel;
        writer = Thread.ofVirtual().name("send " + name).start(this::run);
    }

    public void send(final Message message) {
        queue.add(message);
    }

    private void run() {
        try {
            for (;;) {
                final Message message = queue.take();
                if (message == END) {
                    break;
                }
                channel.write(message);
            }
        } catch (IOException e) {
            queue.clear(); // the reading side sees the broken connection and acts on it
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        if (closing) {
            channel.close();
        }
    }

    private static final Message END = new RankMessages.Shutdown("");

    /** Sends what is queued, then closes the connection. */
    public void closeAfterSending() {
        closing = true;
        queue.add(END);
    }

    @Override
    public void close() {
        channel.close();
        queue.add(END);
    }

    /** Waits until all is sent or the connection is broken, for at most so long. */
    public void join(final long millis) throws InterruptedException {
        writer.join(millis);
    }
}
