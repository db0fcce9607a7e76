// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.IOException;
import java.util.concurrent.LinkedBlockingQueue;

/** Sends in order on a thread of its own, so that nobody who holds a lock waits for a slow reader. Safe for use by several threads. */
public final class Outbox implements AutoCloseable {
    private static final byte[][] END = {};

    private final FrameChannel channel;
    private final LinkedBlockingQueue<byte[][]> queue = new LinkedBlockingQueue<>();
    private final Thread writer;
    private volatile boolean closing;

    public Outbox(final FrameChannel channel, final String name) {
        this.channel = channel;
        writer = Thread.ofVirtual().name("send " + name).start(this::run);
    }

    /**
     * Queues the message.
     *
     * @throws IllegalArgumentException the message is longer than a frame may be: nothing of it is sent, and the link goes on
     */
    public void send(final Message message) {
        queue.add(Codec.frames(message));
    }

    /** Queues a whole frame, as {@link Codec#frame} makes it; it may be in several queues. */
    public void send(final byte[] frame) {
        queue.add(new byte[][] {frame});
    }

    private void run() {
        try {
            for (;;) {
                final byte[][] frame = queue.take();
                if (frame == END) {
                    break;
                }
                channel.write(frame);
            }
        } catch (IOException e) {
            queue.clear(); // the reading side sees the broken connection, after what has arrived before it broke
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException | Error e) {
            queue.clear();
            channel.fail("sending failed: " + e); // nothing is sent any more, and the reading side is to know
        }
        if (closing) {
            channel.close();
        }
    }

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
