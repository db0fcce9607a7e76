// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.ib2tcp;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.EnoughRounds;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Pair;
import org.shadowverbs.fabric.harness.Perftest;
import org.shadowverbs.fabric.harness.Running;

/** Debian's verbs programs of all transports on the verbs device over TCP, and between it and the software HCA. */
final class Ib2TcpProgramsSystemTest {
    /** More than a program makes over TCP until it is saved; else there are more. On the HCA they are slow. */
    private static final int ITERATIONS = 800;
    /** So many more of datagrams, which are smaller: it is the bytes that take time, on a crowded machine, too. */
    private static final int SMALL = 40;
    /** What a program says at its end. */
    private static final String ITERATIONS_IN = " iters in ";
    private static final Duration ENDING = Running.DEADLINE;

    /** Programs that compare what they receive go from the HCA to TCP, back, and to TCP, each time killed in the midst. */
    @Test
    void pingPongsGoOverToTcpTwice() throws Exception {
        EnoughRounds.from(ITERATIONS, rounds -> goOverToTcpTwice(List.of("ibv_rc_pingpong -s 4194304 -n " + rounds,
                "ibv_uc_pingpong -s 4194304 -n " + rounds, "ibv_srq_pingpong -s 4194304 -n " + rounds,
                "ibv_ud_pingpong -e -s 1024 -n " + rounds * SMALL)));
    }

    /** @return whether there were so many iterations that none had ended before it was to be saved */
    private static boolean goOverToTcpTwice(final List<String> programs) throws Exception {
        try (Job job = Distribution.start()) {
            job.configure(Job.SLOW);
            final List<Pair> pairs = new ArrayList<>();
            for (final String program : programs) {
                pairs.add(Pair.launch(job, "pair-" + pairs.size(), ("stdbuf -oL " + program + " -c -g 0").split(" ")));
            }
            job.awaitRanks(2 * pairs.size(), Pair.programs(pairs));
            for (final Pair pair : pairs) {
                job.awaitLines(pair.client(), "remote address", 1);
            }
            if (goOn(job, "ib2tcp", pairs) == null || goOn(job, "hca", pairs) == null) {
                return false;
            }
            final Running restarted = goOn(job, "ib2tcp", pairs);
            if (restarted == null) {
                return false;
            }
            // More than enough rounds take a crowded machine long.
            final int status = restarted.awaitEnd(ENDING.multipliedBy(2));
            for (final Running running : Pair.programs(pairs)) {
                final String said = running.name() + ": " + running.output() + running.errors();
                assertEquals(0, status, said);
                assertEquals(1, running.lines(ITERATIONS_IN), said);
                assertEquals(0, running.lines("invalid data"), said);
            }
            return true;
        }
    }

    /** Kills and restarts them. @return null if one had ended before it could be saved */
    private static Running goOn(final Job job, final String backend, final List<Pair> pairs) throws Exception {
        final Running checkpoint = job.startCheckpoint("--kill");
        checkpoint.awaitEnd(ENDING);
        if (hasEnded(pairs)) {
            return null;
        }
        final JsonNode saved = job.checkpointed(checkpoint);
        final int ranks = 2 * pairs.size();
        assertEquals(ranks, saved.get("ranks").asInt());
        job.backend(backend);
        job.startCoordinator();
        final Running restart = job.restart(saved.get("folder").asText());
        // One that was near its end comes to it before it is seen to run.
        job.await("the ranks of the restart, or the end of one", () -> job.hasRunningRanks(ranks) || hasEnded(pairs) || !restart.isRunning());
        return restart;
    }

    private static boolean hasEnded(final List<Pair> pairs) {
        return Stream.of(Pair.programs(pairs)).anyMatch(program -> program.lines(ITERATIONS_IN) > 0);
    }

    /** One after the other: they spin. */
    @Test
    void measureAndMeasureOnAfterACheckpoint() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            for (final String program : List.of("ib_send_bw", "ib_send_bw --use-srq -q 4", "ib_write_bw -c UC", "ib_send_lat -c UD",
                    "ib_send_bw -c UD --use-srq", "ib_send_bw -c XRC -b")) {
                measure(job, program + " -s 2048", true);
            }
            for (final String program : List.of("ib_send_bw -s 2048 -c UC", "ib_send_bw -s 2048 -c UD", "ib_send_lat -s 2048 -c UD -g",
                    "ib_write_bw -s 2048", "ib_read_lat -s 2048", "ib_atomic_bw")) {
                measure(job, program, false);
            }
        }
    }

    private static void measure(final Job job, final String program, final boolean checkpoint) throws Exception {
        final Pair pair = Pair.launch(job, program.replace(' ', '_'), Perftest.command(program));
        job.awaitRanks(2, pair.server(), pair.client());
        Perftest.work(job, pair.client());
        if (checkpoint) {
            assertEquals(2, job.checkpoint().get("ranks").asInt());
            Perftest.work(job, pair.client());
        }
        Perftest.end(pair.client(), pair.server());
        Perftest.assertPlausible(pair.client());
    }

    /** One process is both ends of XRC: its queue pairs send to the other's shared receive queue, and it has one. */
    @Test
    void pingPongOfXrc() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            final Pair pair = Pair.launch(job, "pair", "ibv_xsrq_pingpong", "-g", "0", "-n", "1000");
            for (final Running running : pair.both().reversed()) {
                running.succeed(ENDING);
                assertEquals(1, running.lines("success"), running.output() + running.errors());
            }
        }
    }
}
