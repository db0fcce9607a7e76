// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.programs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Pair;
import org.shadowverbs.fabric.harness.Running;

/**
 * Debian's ibv_rc_pingpong, which validates what it receives: killed and restarted again and again, it ends as if nothing
 * had happened. The software HCA is slow until the last restart, so that the programs can't end before.
 */
final class PingPongSystemTest {
    private static final int ITERATIONS = 20_000;
    private static final int GENERATIONS = 3;
    private static final Duration ENDING = Running.DEADLINE;

    /** Its other way to post, and its other way to poll. */
    @Test
    void endsAfterThreeGenerations() throws Exception {
        try (Job job = Distribution.start()) {
            job.configure(Job.SLOW);
            final Pair pair = Pair.launch(job, "pair", "stdbuf", "-oL", "ibv_rc_pingpong", "-c", "-N", "-t", "-n",
                    Integer.toString(ITERATIONS));
            job.awaitRanks(2, pair.server(), pair.client());
            job.awaitLines(pair.client(), "remote address", 1);

            List<Running> running = pair.both();
            for (int generation = 1; generation <= GENERATIONS; generation++) {
                final String folder = job.checkpoint().get("folder").asText();
                for (final Running program : running) {
                    program.killHard();
                }
                job.configure(generation < GENERATIONS ? Job.SLOW : "");
                running = List.of(job.restartAndAwait(folder, 2));
            }
            running.getFirst().succeed(ENDING);
            for (final Running program : pair.both()) {
                assertEquals(1, program.lines(ITERATIONS + " iters in"), program.output() + program.errors());
                assertEquals(0, program.lines("invalid data"), program.output() + program.errors());
            }
        }
    }
}
