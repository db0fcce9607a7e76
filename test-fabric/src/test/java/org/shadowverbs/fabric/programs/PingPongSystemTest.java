// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.programs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.LocalPort;
import org.shadowverbs.fabric.harness.Running;

/**
 * Debian's ibv_rc_pingpong, which validates what it receives: killed and restarted in the midst, it ends as if nothing
 * had happened. The software HCA is slow until the last restart, so that the programs can't end before.
 */
final class PingPongSystemTest {
    private static final int ITERATIONS = 20_000;
    private static final Duration ENDING = Running.DEADLINE;

    @Test
    void endsAfterKillAndRestart() throws Exception {
        killAndRestart(1, Map.of());
    }

    /** From device memory. */
    @Test
    void endsWhenAllIdsDifferFromTheStart() throws Exception {
        killAndRestart(1, Map.of("SHADOWVERBS_IDS", "scrambled"), "-j");
    }

    @Test
    void endsWhenItSleepsUntilEvents() throws Exception {
        killAndRestart(1, Map.of(), "-e");
    }

    /** Its other way to post, and its other way to poll. */
    @Test
    void endsAfterThreeGenerations() throws Exception {
        killAndRestart(3, Map.of(), "-N", "-t");
    }

    private static void killAndRestart(final int generations, final Map<String, String> environment,
            final String... options) throws Exception {
        try (Job job = Distribution.start(environment)) {
            job.configure(Job.SLOW);
            final int port = LocalPort.free();
            final Running server = job.launch("server", command(port, options));
            job.await("the server to listen", LocalPort.listens(port), server);
            final List<String> client = new ArrayList<>(List.of(command(port, options)));
            client.add("127.0.0.1");
            final Running other = job.launch("client", client.toArray(new String[0]));
            job.awaitRanks(2, server, other);
            job.awaitLines(other, "remote address", 1);

            Running running = null;
            for (int generation = 1; generation <= generations; generation++) {
                final String folder = job.checkpoint().get("folder").asText();
                if (running == null) {
                    server.killHard();
                    other.killHard();
                } else {
                    running.killHard();
                }
                job.configure(generation < generations ? Job.SLOW : "");
                running = job.restartAndAwait(folder, 2);
            }
            running.succeed(ENDING);
            for (final Running program : List.of(server, other)) {
                assertEquals(1, program.lines(ITERATIONS + " iters in"), program.output() + program.errors());
                assertEquals(0, program.lines("invalid data"), program.output() + program.errors());
            }
        }
    }

    private static String[] command(final int port, final String... options) {
        final List<String> command = new ArrayList<>(List.of("stdbuf", "-oL", "ibv_rc_pingpong", "-c", "-n",
                Integer.toString(ITERATIONS), "-p", Integer.toString(port)));
        command.addAll(List.of(options));
        return command.toArray(new String[0]);
    }
}
