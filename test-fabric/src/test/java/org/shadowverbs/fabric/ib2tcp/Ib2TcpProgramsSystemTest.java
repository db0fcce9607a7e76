// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.ib2tcp;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.EnoughRounds;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Pair;
import org.shadowverbs.fabric.harness.Perftest;
import org.shadowverbs.fabric.harness.Running;

/** Debian's verbs programs of all transports on the verbs device over TCP, and between it and the software HCA. */
final class Ib2TcpProgramsSystemTest {
    /** More than a program makes over TCP until it is saved; else there are more. On the HCA they are slow. */
    private static final int ITERATIONS = 700;
    /** What a program says at its end. */
    private static final String ITERATIONS_IN = " iters in ";
    private static final Duration ENDING = Running.DEADLINE;

    /**
     * A program that compares what it receives goes from the HCA to TCP, back, and to TCP, each time killed in the midst. Its messages
     * are so large that it is the bytes that take time, on a crowded machine, too; datagrams are smaller, and so many more.
     */
    @ParameterizedTest
    @CsvSource({"ibv_rc_pingpong -s 4194304, 1", "ibv_uc_pingpong -s 4194304, 1", "ibv_srq_pingpong -s 4194304, 1",
        "ibv_ud_pingpong -e -s 1024, 40"})
    void pingPongGoesOverToTcpTwice(final String program, final int more) throws Exception {
        EnoughRounds.from(ITERATIONS * more, rounds -> goesOverToTcpTwice(program + " -n " + rounds));
    }

    /** @return whether there were so many iterations that the program had not ended before it was to be saved */
    private static boolean goesOverToTcpTwice(final String program) throws Exception {
        try (Job job = Distribution.start()) {
            job.configure(Job.SLOW);
            final Pair pair = Pair.launch(job, "pair", ("stdbuf -oL " + program + " -c -g 0").split(" "));
            job.awaitRanks(2, pair.server(), pair.client());
            job.awaitLines(pair.client(), "remote address", 1);

            if (goOn(job, "ib2tcp", pair) == null || goOn(job, "hca", pair) == null) {
                return false;
            }
            final Running restarted = goOn(job, "ib2tcp", pair);
            if (restarted == null) {
                return false;
            }
            // More than enough rounds take a crowded machine long.
            final int status = restarted.awaitEnd(ENDING.multipliedBy(2));
            for (final Running running : pair.both()) {
                final String said = running.name() + ": " + running.output() + running.errors();
                assertEquals(0, status, said);
                assertEquals(1, running.lines(ITERATIONS_IN), said);
                assertEquals(0, running.lines("invalid data"), said);
            }
            return true;
        }
    }

    /** Kills and restarts it. @return null if it had ended before it could be saved */
    private static Running goOn(final Job job, final String backend, final Pair pair) throws Exception {
        final Running checkpoint = job.startCheckpoint("--kill");
        checkpoint.awaitEnd(ENDING);
        if (hasEnded(pair)) {
            return null;
        }
        final JsonNode saved = job.checkpointed(checkpoint);
        assertEquals(2, saved.get("ranks").asInt());
        job.backend(backend);
        job.startCoordinator();
        final Running restart = job.restart(saved.get("folder").asText());
        // One that was near its end comes to it before it is seen to run.
        job.await("the ranks of the restart, or their end", () -> job.hasRunningRanks(2) || hasEnded(pair) || !restart.isRunning());
        return restart;
    }

    private static boolean hasEnded(final Pair pair) {
        return pair.both().stream().anyMatch(program -> program.lines(ITERATIONS_IN) > 0);
    }

    @Test
    void measuresOnAfterACheckpoint() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            for (final String program : List.of("ib_send_bw", "ib_send_bw --use-srq -q 4", "ib_write_bw -c UC", "ib_send_lat -c UD",
                    "ib_send_bw -c UD --use-srq", "ib_send_bw -c XRC -b")) {
                final Pair pair = Pair.launch(job, program.replace(' ', '_'), Perftest.command(program + " -s 2048"));
                job.awaitRanks(2, pair.server(), pair.client());
                Perftest.work(job, pair.client());
                assertEquals(2, job.checkpoint().get("ranks").asInt());
                Perftest.work(job, pair.client());
                Perftest.end(pair.client(), pair.server());
                Perftest.assertPlausible(pair.client());
            }
        }
    }

    @Test
    void measures() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            int n = 0;
            for (final String program : List.of("ib_send_bw -s 2048 -c UC", "ib_send_bw -s 2048 -c UD", "ib_send_lat -s 2048 -c UD -g",
                    "ib_write_bw -s 2048", "ib_read_lat -s 2048", "ib_atomic_bw")) {
                final Pair pair = Pair.launch(job, "pair-" + n++, Perftest.command(program));
                job.awaitRanks(2, pair.server(), pair.client());
                Perftest.work(job, pair.client());
                Perftest.end(pair.client(), pair.server());
                Perftest.assertPlausible(pair.client());
            }
        }
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
