// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;

/**
 * How far a step has come whose length is that of its data. Nobody knows how long it takes, so it may take as long as it
 * goes on. Safe for use by several threads.
 */
public final class Progress {
    /** For who does not want to know. */
    public static final Progress UNTOLD = new Progress(done -> { });

    private static final long SAY_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

    private final LongConsumer told;
    private final AtomicLong done = new AtomicLong();
    private final AtomicLong readNanos = new AtomicLong();
    private final AtomicLong said = new AtomicLong(System.nanoTime() - SAY_NANOS);

    /**
     * Makes one.
     *
     * @param told is told from time to time, while something is done, how much that is by now
     */
    public Progress(final LongConsumer told) {
        this.told = told;
    }

    /** So much more is done; bytes, as far as they can be counted. */
    public void more(final long amount) {
        final long now = done.addAndGet(amount);
        final long last = said.get();
        final long time = System.nanoTime();
        if (time - last >= SAY_NANOS && said.compareAndSet(last, time)) {
            told.accept(now);
        }
    }

    /** So much longer the data has been read and verified, before anything was done with it. */
    public void read(final long nanos) {
        readNanos.addAndGet(nanos);
    }

    /**
     * How long that has been.
     *
     * @return nanoseconds
     */
    public long readNanos() {
        return readNanos.get();
    }
}
