// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.images;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.LongFunction;

/** The cores of this host, for blocks of any number of files at the same time. */
public final class Cores implements AutoCloseable {
    private static final long END_SECONDS = 60;

    /** A block, and as much more as its frame may be longer. */
    static final int BUFFER = PackedFile.BLOCK + (16 << 10);

    private final ConcurrentLinkedDeque<ByteBuffer> buffers = new ConcurrentLinkedDeque<>();
    private final int threads = Runtime.getRuntime().availableProcessors();
    private final ExecutorService pool = Executors.newFixedThreadPool(threads,
            Thread.ofPlatform().daemon().name("blocks-", 1).factory());

    /** What is done with the result of a block. */
    interface Next<R> {
        void with(R result) throws IOException;
    }

    /** How many there are. */
    public int count() {
        return threads;
    }

    /** A direct buffer of so many bytes, at most those of a frame of a block, until it is given back. */
    ByteBuffer buffer(final int bytes) {
        final ByteBuffer free = buffers.poll();
        return (free != null ? free : ByteBuffer.allocateDirect(BUFFER)).clear().limit(bytes);
    }

    /** It is not used any more. Those that never come back are collected. */
    void giveBack(final ByteBuffer buffer) {
        buffers.push(buffer);
    }

    /**
     * Does something with each block, several at a time, and hands the results out in order, to this thread. Only few are ahead of
     * what was handed out, so that memory stays bounded.
     */
    <R> void inOrder(final long blocks, final LongFunction<Callable<R>> task, final Next<R> next)
            throws IOException, InterruptedException {
        final Deque<Future<R>> ahead = new ArrayDeque<>();
        try {
            for (long begun = 0, done = 0; done < blocks; done++) {
                while (begun < blocks && ahead.size() <= threads) {
                    ahead.add(pool.submit(task.apply(begun++)));
                }
                next.with(ahead.remove().get());
            }
        } catch (final ExecutionException e) {
            switch (e.getCause()) {
                case final IOException x -> throw x;
                case final RuntimeException x -> throw x;
                case final Error x -> throw x;
                default -> throw new IllegalStateException(e.getCause());
            }
        } finally {
            ahead.forEach(left -> left.cancel(true));
        }
    }

    @Override
    public void close() {
        pool.shutdownNow();
        final boolean interrupted = Thread.interrupted();
        try {
            if (!pool.awaitTermination(END_SECONDS, TimeUnit.SECONDS)) {
                System.getLogger(Cores.class.getName())
                        .log(System.Logger.Level.WARNING, "work on images has not ended within {0} s", END_SECONDS);
            }
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
