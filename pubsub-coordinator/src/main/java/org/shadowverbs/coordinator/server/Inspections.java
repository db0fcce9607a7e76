// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.protocol.HostMessages.Say;

/**
 * When it is asked whether a checkpoint could be made: by a command, and by itself soon after something new has come into the job,
 * so that nobody learns after hours that there can be none. One at a time, and beside whatever else goes on: no checkpoint waits
 * for it.
 */
final class Inspections {
    /** After something new has come. By the first a program has found its peers, mostly; a slow one has by the others. */
    private static final long[] SOON_SECONDS = {3, 30, 300};
    /** Who is to be told is told when it is so again after this. */
    private static final long AGAIN_SECONDS = 5;
    private static final int MOST_TRIES = 5;
    private static final int MOST_LOGGED = 20;

    private final Job job;
    private final Supplier<Path> directory;
    private final ScheduledExecutorService timer;
    private final ExecutorService thread = Executors.newSingleThreadExecutor(
            Thread.ofPlatform().daemon().name("inspections").factory());
    private final AtomicBoolean due = new AtomicBoolean();
    private volatile Inspection.Answer last;
    /** Both are only used by its thread. */
    private boolean said;
    /** How many times something new has come and was looked for: a look of an earlier time is none any more. */
    private int time;

    Inspections(final Job job, final Supplier<Path> directory, final ScheduledExecutorService timer) {
        this.job = job;
        this.directory = directory;
        this.timer = timer;
    }

    /** The last answer; null when nobody has asked yet. */
    Inspection.Answer last() {
        return last;
    }

    /** Asks now, when no checkpoint goes on any more. */
    Inspection.Answer ask() throws InterruptedException, java.util.concurrent.ExecutionException {
        return thread.submit(this::inspect).get();
    }

    /** A program or a rank has come. */
    void changed() {
        if (due.compareAndSet(false, true)) {
            later(SOON_SECONDS[0], () -> {
                due.set(false);
                look(++time, 0);
            });
        }
    }

    private void later(final long seconds, final Runnable what) {
        try {
            timer.schedule(() -> thread.execute(what), seconds, TimeUnit.SECONDS);
        } catch (RejectedExecutionException e) {
            return; // the coordinator ends
        }
    }

    private void look(final int now, final int looks) {
        guarded(() -> {
            if (said || now != time || job.isEmpty()) {
                return;
            }
            if (job.epoch().disturbsNobody() && !inspect().reasons().isEmpty()) {
                later(AGAIN_SECONDS, () -> confirm(now, looks));
            } else {
                lookLater(now, looks + 1);
            }
        });
    }

    private void lookLater(final int now, final int looks) {
        if (looks < SOON_SECONDS.length) {
            later(SOON_SECONDS[looks], () -> look(now, looks));
        }
    }

    private void confirm(final int now, final int looks) {
        guarded(() -> {
            if (said || !job.epoch().disturbsNobody() || job.isEmpty()) {
                return;
            }
            final List<String> before = last.reasons();
            final List<String> reasons = inspect().reasons().stream().filter(before::contains).toList();
            if (reasons.isEmpty()) {
                lookLater(now, looks + 1);
                return;
            }
            said = true;
            say("no checkpoint of this job can be made as it is: " + reasons.getFirst() + (reasons.size() == 1 ? ""
                    : " (and " + (reasons.size() - 1) + " more: shadowverbs checkpoint --check)"));
        });
    }

    private interface Look {
        void run() throws InterruptedException;
    }

    private void guarded(final Look look) {
        try {
            look.run();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException e) {
            job.log().add("whether a checkpoint can be made: " + e);
        }
    }

    /** In the log, and to who has launched the job. */
    private void say(final String line) {
        job.log().add(line);
        job.locked(() -> {
            job.agents().stream().filter(agent -> !agent.trees.isEmpty()).findFirst().ifPresent(agent -> agent.send(new Say(line)));
            return null;
        });
    }

    /** What is found while a checkpoint goes on is of no use. */
    private Inspection.Answer inspect() throws InterruptedException {
        final Duration deadline = job.epoch().phaseDeadline();
        for (int tries = 1;; tries++) {
            try {
                job.epoch().await(job.epoch()::disturbsNobody, deadline, () -> "a checkpoint goes on");
            } catch (Stopped e) {
                job.log().add("whether a checkpoint can be made is asked while one goes on");
            }
            final long before = job.epoch().number();
            final Inspection inspection = new Inspection(job, directory.get(), deadline);
            job.inspection(inspection);
            final Inspection.Answer answer = inspection.run();
            if (job.epoch().number() == before || tries == MOST_TRIES) {
                last = answer;
                final List<String> reasons = answer.all();
                reasons.stream().limit(MOST_LOGGED).forEach(reason ->
                        job.log().add("no checkpoint can be made now: " + reason));
                if (reasons.size() > MOST_LOGGED) {
                    job.log().add("no checkpoint can be made now: " + (reasons.size() - MOST_LOGGED) + " more reasons");
                }
                return answer;
            }
        }
    }

    void close() {
        thread.shutdownNow();
    }
}
