// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.time.Duration;
import java.util.function.LongSupplier;
import org.shadowverbs.coordinator.protocol.JobHistory;

/**
 * How long the programs of the job have run, through all its restarts, and how often they failed meanwhile. A failure is a restart
 * from a checkpoint that was not made to end the job. What ran between a checkpoint and the failure after it is known only
 * to the coordinator that saw both; another one does not count it. Safe for use by several threads.
 */
final class FailureHistory {
    /**
     * The mean time between failures of a job that nobody has said anything of. The interval changes with the square root: where
     * this is wrong by a factor of 4, the job loses a quarter more than the least possible to checkpoints and failures.
     */
    static final Duration DEFAULT_MTBF = Duration.ofHours(24);

    private final LongSupplier clock;
    private Duration ranBefore;
    private int failures;
    /** By the clock, when the programs began to run that run now; null: none has. */
    private Long since;

    /** @param clock nanoseconds, as System.nanoTime */
    FailureHistory(final LongSupplier clock, final Duration ran, final int failures) {
        this.clock = clock;
        this.ranBefore = ran;
        this.failures = failures;
    }

    /** The first program has come, or one more. */
    synchronized void runs() {
        if (since == null) {
            since = clock.getAsLong();
        }
    }

    /** The coordinator serves another job from now on. */
    synchronized void forget() {
        ranBefore = Duration.ZERO;
        failures = 0;
        since = null;
    }

    /** The job has come back from a checkpoint with this history; this coordinator may know more. */
    synchronized void restarted(final JobHistory saved) {
        final Duration before = Duration.ofMillis(saved.ranMillis());
        final Duration known = ran();
        ranBefore = before.compareTo(known) > 0 ? before : known;
        failures = Math.max(failures, saved.failures()) + (saved.failed() ? 1 : 0);
        since = clock.getAsLong();
    }

    synchronized Duration ran() {
        return since == null ? ranBefore : ranBefore.plusNanos(clock.getAsLong() - since);
    }

    synchronized int failures() {
        return failures;
    }

    /** What is to be expected by {@link #DEFAULT_MTBF}, which counts as one failure in that time, and what has been seen. */
    synchronized Duration mtbf() {
        return DEFAULT_MTBF.plus(ran()).dividedBy(1 + failures);
    }
}
