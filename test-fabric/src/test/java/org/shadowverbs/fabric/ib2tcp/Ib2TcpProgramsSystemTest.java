// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.ib2tcp;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.EnoughRounds;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Pair;
import org.shadowverbs.fabric.harness.Perftest;
import org.shadowverbs.fabric.harness.Running;

/** Debian's verbs programs of all transports on the verbs device over TCP, and between it and the software HCA. */
final class Ib2TcpProgramsSystemTest {
    /** More than the programs make over TCP until they are saved; else there are more. On the HCA they are slow. */
    private static final int ITERATIONS = 1_000;
    /** So large that it is the bytes that take time, on a crowded machine, too. */
    private static final int LARGE = 4 << 20;
    /** For each of the others' messages. They sleep until events: so they need not take turns with those that spin. */
    private static final int DATAGRAMS = 150;
    private static final int DATAGRAM = 1 << 10;
    /** What a program says at its end. */
    private static final String ITERATIONS_IN = " iters in ";
    private static final Duration ENDING = Running.DEADLINE;

    /** Programs that compare what they receive: from the HCA to TCP, back, and to TCP, each time killed in the midst. */
    @Test
    void pingPongsGoOverToTcpTwice() throws Exception {
        EnoughRounds.from(ITERATIONS, Ib2TcpProgramsSystemTest::goOverToTcpTwice);
    }

    /** @return whether there were so many iterations that no program had ended before it was to be saved */
    private static boolean goOverToTcpTwice(final int iterations) throws Exception {
        try (Job job = Distribution.start()) {
            job.configure(Job.SLOW);
            final List<Pair> pairs = new ArrayList<>();
            final String messages = " -s " + LARGE + " -n " + iterations;
            final String datagrams = " -e -s " + DATAGRAM + " -n " + iterations * DATAGRAMS;
            for (final String program : List.of("ibv_rc_pingpong" + messages, "ibv_uc_pingpong" + messages,
                    "ibv_srq_pingpong" + messages, "ibv_ud_pingpong" + datagrams)) {
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
            final StringBuilder said = new StringBuilder();
            for (final Running program : Pair.programs(pairs)) {
                said.append(program.name()).append(": ").append(program.output()).append(program.errors()).append('\n');
            }
            assertEquals(0, status, said::toString);
            for (final Running running : Pair.programs(pairs)) {
                assertEquals(1, running.lines(ITERATIONS_IN), running.output() + running.errors());
                assertEquals(0, running.lines("invalid data"), running.output() + running.errors());
            }
            return true;
        }
    }

    /** Kills and restarts all. @return null if one had ended before it could be saved */
    private static Running goOn(final Job job, final String backend, final List<Pair> pairs) throws Exception {
        final Running checkpoint = job.startCheckpoint("--kill");
        checkpoint.awaitEnd(ENDING);
        if (Stream.of(Pair.programs(pairs)).anyMatch(program -> program.lines(ITERATIONS_IN) > 0)) {
            return null;
        }
        final JsonNode saved = job.checkpointed(checkpoint);
        assertEquals(2 * pairs.size(), saved.get("ranks").asInt());
        job.backend(backend);
        return job.restartAndAwait(saved.get("folder").asText(), 2 * pairs.size());
    }

    @ParameterizedTest
    @ValueSource(strings = {"ib_send_bw", "ib_send_bw --use-srq -q 4", "ib_write_bw -c UC", "ib_send_lat -c UD",
        "ib_send_bw -c UD --use-srq", "ib_send_bw -c XRC -b"})
    void measuresOnAfterACheckpoint(final String program) throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            final Pair pair = Pair.launch(job, "pair", Perftest.command(program + " -s 2048"));
            job.awaitRanks(2, pair.server(), pair.client());
            Perftest.work(job, pair.client());
            assertEquals(2, job.checkpoint().get("ranks").asInt());
            Perftest.work(job, pair.client());
            Perftest.end(pair.client(), pair.server());
            Perftest.assertPlausible(pair.client());
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
