// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/** A deadline that begins again whenever more is done. For one thread. */
final class Stall {
    /** How long to sleep before asking again whether it has passed. */
    static final long ASK_NANOS = TimeUnit.MILLISECONDS.toNanos(200);
    private static final long LOOK_NANOS = TimeUnit.SECONDS.toNanos(1);

    private final Duration deadline;
    private final LongSupplier amount;
    private final Progress progress;
    private long last;
    private long since = System.nanoTime();
    private long looked = since;

    /**
     * Begins to wait.
     *
     * @param deadline how long nothing may be done
     * @param amount what changes when something is done; asked for by this thread, each second
     * @param progress is told of what is done
     */
    Stall(final Duration deadline, final LongSupplier amount, final Progress progress) {
        this.deadline = deadline;
        this.amount = amount;
        this.progress = progress;
        last = amount.getAsLong();
    }

    /** Whether nothing has been done for too long. */
    boolean passed() {
        final long now = System.nanoTime();
        if (now - looked >= LOOK_NANOS || now - since > deadline.toNanos()) {
            looked = now;
            final long amountNow = amount.getAsLong();
            if (amountNow != last) {
                progress.more(Math.max(1, amountNow - last));
                last = amountNow;
                since = now;
            }
        }
        return now - since > deadline.toNanos();
    }

    /** For messages. */
    String deadline() {
        return deadline.toMillis() % 1000 == 0 ? deadline.toSeconds() + " s" : deadline.toMillis() + " ms";
    }
}
