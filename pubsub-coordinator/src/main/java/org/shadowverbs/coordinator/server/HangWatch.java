// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.function.LongSupplier;

/**
 * Finds out that a job hangs: no rank has posted a request, or seen one completed, for so long. Each rank is asked now and then for
 * a number that changes with that; what its queues count anyway is enough, so its verbs cost nothing more. Ranks that come or go are
 * progress, and so is a checkpoint. A job without ranks never hangs. Guarded by the job's lock.
 */
final class HangWatch {
    private final LongSupplier clock;
    private final Map<String, Long> work = new HashMap<>();
    /** By the clock, when it was last known to go on. */
    private long last;

    /** @param clock nanoseconds, as System.nanoTime */
    HangWatch(final LongSupplier clock) {
        this.clock = clock;
        last = clock.getAsLong();
    }

    /** The rank has done so much by now. */
    void works(final String uid, final long now) {
        final Long before = work.put(uid, now);
        if (before == null || before != now) {
            last = clock.getAsLong();
        }
    }

    /** Something else goes on than the ranks' own work, or there are none. */
    void goesOn() {
        work.clear();
        last = clock.getAsLong();
    }

    /** Whether nothing has gone on for so long. Who has been told so is told again after as long: what it does needs its time. */
    boolean hangs(final Duration time) {
        final boolean hangs = clock.getAsLong() - last > time.toNanos();
        if (hangs) {
            goesOn();
        }
        return hangs;
    }
}
