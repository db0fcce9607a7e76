// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.programs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Pair;
import org.shadowverbs.fabric.harness.Running;

/**
 * Debian's ping-pong programs of all transports, side by side in one job: saved with resume, then killed and restarted in the
 * midst, with ids that are the real ones at first and with scrambled ones. The software HCA is slow until the restart.
 */
final class TransportSystemTest {
    private static final int ITERATIONS = 3_000;
    /** Iterations over a shared receive queue, whose program ends sooner. */
    private static final int SHARED_ITERATIONS = 40_000;
    private static final Duration ENDING = Running.DEADLINE;

    /** The option that has the program compare what it receives, where it has one. */
    @ParameterizedTest
    @CsvSource({
        "identity, ibv_ud_pingpong -c; ibv_srq_pingpong -c; ibv_srq_pingpong -e; ibv_uc_pingpong -c; ibv_rc_pingpong -c; "
                + "ibv_rc_pingpong -c -e",
        // The last from device memory.
        "scrambled, ibv_ud_pingpong -e; ibv_srq_pingpong -c; ibv_uc_pingpong -e; ibv_xsrq_pingpong -e; ibv_rc_pingpong -c -j",
    })
    void endAfterResumeAndRestart(final String ids, final String commands) throws Exception {
        try (Job job = Distribution.start(Map.of("SHADOWVERBS_IDS", ids))) {
            job.configure(Job.SLOW);
            final Map<String, Pair> pairs = new LinkedHashMap<>();
            for (final String command : commands.split("; ")) {
                final String all = "stdbuf -oL " + command + " -n " + iterations(command);
                pairs.put(command, Pair.launch(job, "pair-" + pairs.size(), all.split(" ")));
            }
            job.awaitRanks(2 * pairs.size(), Pair.programs(pairs.values()));
            for (final Pair pair : pairs.values()) {
                job.awaitLines(pair.client(), "remote", 1);
            }

            job.checkpoint();
            final String folder = job.checkpoint("--kill").get("folder").asText();
            job.configure("");
            job.restartAndAwait(folder, 2 * pairs.size()).succeed(ENDING);
            for (final Map.Entry<String, Pair> each : pairs.entrySet()) {
                assertEnded(each.getKey(), each.getValue());
            }
        }
    }

    private static void assertEnded(final String command, final Pair pair) throws IOException {
        for (final Running running : pair.both()) {
            final String said = command + ": " + running.output() + running.errors();
            final String end = command.startsWith("ibv_xsrq") ? "success" : iterations(command) + " iters in";
            assertEquals(1, running.lines(end), said);
            assertEquals(0, running.lines("invalid data"), said);
        }
    }

    private static int iterations(final String command) {
        return command.startsWith("ibv_srq_pingpong") ? SHARED_ITERATIONS : ITERATIONS;
    }
}
