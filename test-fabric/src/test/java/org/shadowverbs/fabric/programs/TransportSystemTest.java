// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.programs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.LocalPort;
import org.shadowverbs.fabric.harness.Running;

/**
 * Debian's ping-pong programs of the other transports: saved with resume, then killed and restarted in the midst, with ids
 * that are the real ones at first and with scrambled ones. The software HCA is slow until the restart.
 */
final class TransportSystemTest {
    private static final int ITERATIONS = 10_000;
    /** Iterations over a shared receive queue, whose program ends sooner. */
    private static final int SHARED_ITERATIONS = 40_000;
    private static final Duration ENDING = Running.DEADLINE;

    /** The option that has the program compare what it receives, where it has one. */
    @ParameterizedTest
    @CsvSource({
        "ibv_ud_pingpong, -c, identity", "ibv_ud_pingpong, -e, scrambled",
        "ibv_srq_pingpong, -c, identity", "ibv_srq_pingpong, -c, scrambled", "ibv_srq_pingpong, -e, identity",
        "ibv_uc_pingpong, -c, identity", "ibv_uc_pingpong, -e, scrambled",
        "ibv_xsrq_pingpong, -e, scrambled",
    })
    void endsAfterResumeAndRestart(final String program, final String option, final String ids) throws Exception {
        try (Job job = Distribution.start(Map.of("SHADOWVERBS_IDS", ids))) {
            job.configure(Job.SLOW);
            final int port = LocalPort.free();
            final int iterations = program.equals("ibv_srq_pingpong") ? SHARED_ITERATIONS : ITERATIONS;
            final List<String> command = new ArrayList<>(List.of("stdbuf", "-oL", program, "-n",
                    Integer.toString(iterations), "-p", Integer.toString(port), option));
            final Running server = job.launch("server", command.toArray(new String[0]));
            job.await("the server to listen", LocalPort.listens(port), server);
            command.add("127.0.0.1");
            final Running client = job.launch("client", command.toArray(new String[0]));
            job.awaitRanks(2, server, client);
            job.awaitLines(client, "remote", 1);

            job.checkpoint();
            final String folder = job.checkpoint("--kill").get("folder").asText();
            job.configure("");
            job.restartAndAwait(folder, 2).succeed(ENDING);
            for (final Running running : List.of(server, client)) {
                assertEquals(1, running.lines(iterations + " iters in") + running.lines("success"),
                        running.output() + running.errors());
                assertEquals(0, running.lines("invalid data"), running.output() + running.errors());
            }
        }
    }
}
