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
    /** By then a program has found its peers, mostly. */
    private static final long SOON_SECONDS = 3;
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
    /** Only used by its thread. */
    private boolean said;

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
            later(SOON_SECONDS, () -> {
                due.set(false);
                look(true);
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

    private void look(final boolean first) {
        try {
            final boolean running = job.epoch().disturbsNobody() && !job.isEmpty();
            final Inspection.Answer before = last;
            if (!running || inspect().reasons().isEmpty() || said) {
                return;
            }
            final List<String> reasons = first || before == null ? List.of()
                    : last.reasons().stream().filter(before.reasons()::contains).toList();
            if (first) {
                later(AGAIN_SECONDS, () -> look(false));
            } else if (!reasons.isEmpty()) {
                said = true;
                say("no checkpoint of this job can be made as it is: " + reasons.getFirst() + (reasons.size() == 1 ? ""
                        : " (and " + (reasons.size() - 1) + " more: shadowverbs checkpoint --check)"));
            }
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
