// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.shadowverbs.coordinator.protocol.RankMessages.AskCheckpoint;
import org.shadowverbs.coordinator.protocol.RankMessages.Asked;

/**
 * Checkpoints that programs ask for, each by itself or several together. All that wait when one begins have the same.
 *
 * <p>Guarded by the job's lock, which each method takes. Nobody waits here but for the checkpoint, on the conductor.
 */
final class ProgramCheckpoints {
    private final Job job;
    private final Executor conductor;
    private final LongSupplier clock;
    private final Supplier<CheckpointRun.Outcome> checkpoint;
    /** By rank: each has one at most, for in a process calls follow each other. */
    private final Map<Rank, Call> calls = new LinkedHashMap<>();
    private boolean due;

    private record Call(long number, int processes, long epoch, long written, long since) {
    }

    /**
     * @param conductor makes them
     * @param clock nanoseconds, as System.nanoTime
     * @param checkpoint makes one, and tells {@link #made}
     */
    ProgramCheckpoints(final Job job, final Executor conductor, final LongSupplier clock,
            final Supplier<CheckpointRun.Outcome> checkpoint) {
        this.job = job;
        this.conductor = conductor;
        this.clock = clock;
        this.checkpoint = checkpoint;
    }

    /** The rank's program asks, perhaps not for the first time. */
    void asked(final Rank rank, final AskCheckpoint m) {
        job.locked(() -> {
            if (m.written() != 0 && m.written() == job.lineage().last()) {
                calls.remove(rank);
                tell(rank, m.call(), m.written(), ""); // it has not heard
                return null;
            }
            final Call before = calls.get(rank);
            final boolean again = before != null && before.number() == m.call();
            calls.put(rank, new Call(m.call(), m.processes(), m.epoch(), m.written(), again ? before.since() : clock.getAsLong()));
            tell(rank, m.call(), 0, "");
            if (!again) {
                job.log().add(rank + " asks for a checkpoint" + (m.processes() == 0 ? "" : ", together with all of "
                        + m.processes()));
            }
            if (!isComplete(m.processes())) {
                giveUpIfLate(m.processes());
            } else if (!due) {
                begin();
            }
            return null;
        });
    }

    private void begin() {
        try {
            conductor.execute(this::run);
            due = true;
        } catch (RejectedExecutionException e) {
            due = false; // the coordinator ends, and with it the wait
        }
    }

    /** The rank has ended, or lost its link: then it asks again. */
    void gone(final Rank rank) {
        job.locked(() -> calls.remove(rank));
    }

    /** Whether a checkpoint that begins now ends calls that are made together: before all have made theirs it would part them. */
    boolean together() {
        return job.locked(() -> calls.values().stream().anyMatch(call -> call.processes() != 0 && isComplete(call.processes())));
    }

    private boolean isComplete(final int processes) {
        return calls.values().stream().filter(call -> call.processes() == processes).count() >= processes;
    }

    private void giveUpIfLate(final int processes) {
        final Map<Rank, Call> waiting = new LinkedHashMap<>(calls);
        waiting.values().removeIf(call -> call.processes() != processes);
        final Duration deadline = job.epoch().phaseDeadline();
        if (waiting.values().stream().anyMatch(call -> clock.getAsLong() - call.since() > deadline.toNanos())) {
            fail(waiting, "only " + waiting.size() + " of " + processes + " processes have called shadowverbs_checkpoint_together"
                    + " within " + Sizes.deadline(deadline) + ": "
                    + waiting.keySet().stream().map(Rank::toString).collect(Collectors.joining(", ")));
        }
    }

    private void run() {
        final Map<Rank, Call> served = job.locked(() -> {
            due = false;
            final Map<Rank, Call> now = new LinkedHashMap<>(calls);
            now.values().removeIf(call -> !isComplete(call.processes()));
            return now;
        });
        if (served.isEmpty()) {
            return; // another checkpoint has served them
        }
        String problem = "";
        try {
            final CheckpointRun.Outcome outcome = checkpoint.get();
            if (outcome.folder() == null) {
                problem = outcome.problem();
            }
        } catch (RuntimeException e) {
            problem = e.toString();
        }
        final String why = problem;
        if (!why.isEmpty()) {
            job.locked(() -> {
                fail(served, why);
                return null;
            });
        }
    }

    /**
     * A checkpoint is over, whoever asked for it.
     *
     * @param together whether it ended calls that were made together
     */
    void made(final CheckpointRun.Outcome outcome, final boolean together) {
        if (outcome.folder() == null) {
            return;
        }
        job.locked(() -> {
            List.copyOf(calls.keySet()).forEach(rank -> {
                final Call call = calls.get(rank);
                // Who had not gone through it when it asked waited when the image was made.
                if (call.written() == outcome.epoch()
                        || call.epoch() < outcome.epoch() && (call.processes() == 0 || together)) {
                    calls.remove(rank);
                    tell(rank, call.number(), outcome.epoch(), "");
                }
            });
            return null;
        });
    }

    private void fail(final Map<Rank, Call> which, final String why) {
        which.forEach((rank, call) -> {
            final Call now = calls.get(rank);
            if (now != null && now.number() == call.number()) {
                calls.remove(rank);
                tell(rank, call.number(), 0, why);
            }
        });
    }

    private static void tell(final Rank rank, final long call, final long safe, final String problem) {
        rank.agent.toRanks(List.of(rank.uid), new Asked(call, safe, problem));
    }
}
