// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.time.Duration;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * Has checkpoints made now and then: at a fixed interval, or at the one that {@link CheckpointInterval} finds best by what the
 * checkpoints of this job have cost and how often it has failed. Then the first one is made early, to know the cost, and the
 * interval begins anew with each checkpoint, whoever asked for it. Safe for use by several threads.
 */
final class PeriodicCheckpoints {
    /** When the first one is made to learn its cost; doubled each time that none could be made. */
    static final Duration EARLY = Duration.ofMinutes(1);
    private static final int DOUBLED_AT_MOST = 6;

    private final ScheduledExecutorService timer;
    private final Executor conductor;
    private final Job job;
    private final LongSupplier clock;
    private final Runnable checkpoint;

    private Interval interval = Interval.NONE;
    private ScheduledFuture<?> pending;
    /** Smoothed: the mean of the last one and of what it was before. Null: not known. */
    private Duration cost;
    /** By the clock, when the last checkpoint was over, or the restart; null: there has been none. */
    private Long last;
    private int inVain;

    /**
     * What is being done.
     *
     * @param period from a checkpoint to the next one; null: none are made
     * @param cost null: not known yet
     */
    record Plan(Interval interval, Duration period, Duration cost, Duration mtbf) {
    }

    /**
     * @param timer only begins them: it has agents to give up that are lost meanwhile
     * @param conductor makes them
     * @param clock nanoseconds, as System.nanoTime
     * @param checkpoint makes one, and tells {@link #made}
     */
    PeriodicCheckpoints(final ScheduledExecutorService timer, final Executor conductor, final Job job, final LongSupplier clock,
            final Runnable checkpoint) {
        this.timer = timer;
        this.conductor = conductor;
        this.job = job;
        this.clock = clock;
        this.checkpoint = checkpoint;
    }

    /** They are made from now on; once they are, another interval changes nothing. Automatic ones wait for a program. */
    void begin(final Interval asked) {
        if (!asked.isAsked() || asked.automatic() && job.isIdle()) {
            return;
        }
        synchronized (this) {
            if (!interval.isAsked()) {
                interval = asked;
                schedule(period());
            }
        }
    }

    /** A checkpoint is over, whoever asked for it. To be called on the conductor's thread. */
    synchronized void made(final CheckpointRun.Outcome outcome) {
        if (outcome.stoppedNanos() > 0) {
            costs(Duration.ofNanos(outcome.stoppedNanos()));
        } else if (outcome.folder() == null) {
            inVain = Math.min(inVain + 1, DOUBLED_AT_MOST);
        }
    }

    /** The job has come back from a checkpoint that took that long. */
    synchronized void restarted(final Duration costThen) {
        costs(costThen);
    }

    private void costs(final Duration measured) {
        cost = cost == null ? measured : cost.plus(measured).dividedBy(2);
        last = clock.getAsLong();
        inVain = 0;
        if (interval.automatic()) {
            schedule(period());
        }
    }

    synchronized Plan plan() {
        return new Plan(interval, interval.isAsked() ? period() : null, cost, mtbf());
    }

    private Duration mtbf() {
        return interval.mtbf().isPositive() ? interval.mtbf() : job.history().mtbf();
    }

    private Duration period() {
        if (!interval.automatic()) {
            return interval.every();
        }
        return cost == null ? EARLY.multipliedBy(1L << inVain) : CheckpointInterval.of(cost, mtbf());
    }

    private synchronized void schedule(final Duration wait) {
        if (pending != null) {
            pending.cancel(false);
        }
        try {
            pending = timer.schedule(() -> conductor.execute(this::due), wait.toNanos(), TimeUnit.NANOSECONDS);
        } catch (RejectedExecutionException e) {
            pending = null; // the coordinator ends
        }
    }

    private void due() {
        if (!isDue(job.isIdle())) {
            return;
        }
        try {
            checkpoint.run();
        } catch (RuntimeException e) {
            job.log().add("periodic checkpoint failed: " + e);
        } finally {
            again();
        }
    }

    /** One that was asked for while this one waited for its turn puts it off, and a job that is over ends them. */
    private synchronized boolean isDue(final boolean idle) {
        if (!interval.automatic()) {
            return true;
        }
        if (idle) {
            interval = Interval.NONE;
            return false;
        }
        final Duration left = last == null ? Duration.ZERO : period().minusNanos(clock.getAsLong() - last);
        if (left.isPositive()) {
            schedule(left);
            return false;
        }
        return true;
    }

    private synchronized void again() {
        schedule(period());
    }
}
