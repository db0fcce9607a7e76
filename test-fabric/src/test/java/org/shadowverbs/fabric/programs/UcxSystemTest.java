// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.programs;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Pair;
import org.shadowverbs.fabric.harness.Running;

/**
 * UCX over its generic verbs transports, which it must choose by itself: through a checkpoint, and killed and restarted, on
 * the software HCA, on ib2tcp and from one to the other. Small messages go by RC and UD with shared receive queues, large
 * ones by rendezvous. On Ethernet (ib2tcp) UCX drops datagrams with a route header that is not for a GID of its own.
 */
final class UcxSystemTest {
    private static final Path NODE = Path.of("/dev/infiniband/uverbs0");
    private static final String PROGRESS = "[thread 0]";

    /** Over ib2tcp: on a host that has no file for the device, nor any other of InfiniBand's. */
    @ParameterizedTest
    @CsvSource({"hca, ib2tcp, rc tag_lat 8; rc tag_bw 262144; ud tag_lat 1024", "ib2tcp, hca, rc tag_lat 8; ud tag_lat 1024",
        "ib2tcp, hca, rc tag_bw 65536"})
    void goesOnAfterCheckpointAndAfterRestartsOnBothBackends(final String first, final String second, final String tests)
            throws Exception {
        try (Job job = start(first)) {
            final List<Pair> pairs = launch(job, tests.split("; "));
            job.checkpoint();
            goesOn(job, pairs, Pair.programs(pairs));
            final Running restarted = job.killAndRestart(first, 2 * pairs.size(), Pair.programs(pairs));
            goesOn(job, pairs, restarted);
            goesOn(job, pairs, job.killAndRestart(second, 2 * pairs.size(), restarted));
        }
    }

    /**
     * The TSC, by which UCX measures time, goes on while the job does not exist. What UCX's file says stands in for its own 30 s,
     * for which a test would have to wait.
     */
    @Test
    void takesNoPeerForDeadThatDidNotExist() throws Exception {
        try (Job job = start("hca")) {
            Files.writeString(job.work().resolve("ucx.conf"), "UCX_UD_TIMEOUT=2s\n");
            final List<Pair> pairs = launch(job, "ud tag_lat 8");
            for (final String next : List.of("hca", "ib2tcp", "ib2tcp")) {
                final String folder = job.checkpoint("--kill").get("folder").asText();
                final long begin = System.nanoTime();
                job.await("more than its time-out", () -> System.nanoTime() - begin > 3_000_000_000L);
                job.backend(next);
                goesOn(job, pairs, job.restartAndAwait(folder, 2 * pairs.size()));
            }
        }
    }

    private static Job start(final String backend) throws Exception {
        final Job job = Distribution.start(Map.of("SHADOWVERBS_IDS", "scrambled"));
        try {
            if (backend.equals("hca")) {
                assumeDeviceOf(job);
            }
            job.backend(backend);
            return job;
        } catch (Exception | Error e) {
            job.close();
            throw e;
        }
    }

    /** UCX looks for a file of the software HCA's device, too. */
    static void assumeDeviceOf(final Job job) throws Exception {
        job.runNative("devices", "ibv_devices").succeed(Running.DEADLINE);
        assumeTrue(Files.isWritable(NODE), "the software HCA may not make the node that UCX looks for, " + NODE);
    }

    /**
     * @param tests of the pairs, which run side by side: transport, test, and bytes of a message
     * @return pairs that have made progress
     */
    private static List<Pair> launch(final Job job, final String... tests) throws Exception {
        final List<Pair> pairs = new ArrayList<>();
        for (final String test : tests) {
            final String[] words = test.split(" ");
            pairs.add(Pair.launch(job, String.join("-", words), "env", "UCX_TLS=" + words[0], "ucx_perftest", "-t", words[1],
                    "-s", words[2], "-n", "1000000000"));
        }
        for (final Pair pair : pairs) {
            job.awaitLines(pair.client(), PROGRESS, 1);
        }
        return pairs;
    }

    private static void goesOn(final Job job, final List<Pair> pairs, final Running... running) throws Exception {
        final List<Long> before = pairs.stream().map(pair -> pair.client().lines(PROGRESS)).toList();
        for (int i = 0; i < pairs.size(); i++) {
            final Running client = pairs.get(i).client();
            final long enough = before.get(i) + 2;
            job.await("progress of " + client.name(), () -> client.lines(PROGRESS) >= enough, running);
        }
    }
}
