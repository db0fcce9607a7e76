// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.programs;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.LocalPort;
import org.shadowverbs.fabric.harness.Running;

/**
 * UCX over its generic verbs transports, which it must choose by itself: through a checkpoint, and killed and restarted, on
 * the software HCA, on ib2tcp and from one to the other. Small messages go by RC and UD with shared receive queues, large
 * ones by rendezvous. On Ethernet (ib2tcp) UCX drops datagrams with a route header that is not for a GID of its own.
 */
final class UcxSystemTest {
    private static final Path NODE = Path.of("/dev/infiniband/uverbs0");
    private static final String PROGRESS = "[thread 0]";

    @ParameterizedTest
    @CsvSource({"tag_lat, 8, rc", "tag_bw, 262144, rc", "tag_lat, 1024, ud"})
    void goesOnAfterCheckpointAndAfterRestart(final String test, final String size, final String transport)
            throws Exception {
        try (Job job = start(transport)) {
            assumeDeviceOf(job);
            final Running[] programs = launch(job, test, size);
            job.checkpoint();
            goesOn(job, programs[1], programs);
            goesOn(job, programs[1], killAndRestart(job, "hca", programs));
        }
    }

    /** On a host that has no file for the device, nor any other of InfiniBand's. */
    @ParameterizedTest
    @CsvSource({"tag_lat, 8, rc", "tag_bw, 262144, rc", "tag_lat, 1024, ud"})
    void goesOnOnIb2Tcp(final String test, final String size, final String transport) throws Exception {
        try (Job job = start(transport)) {
            job.backend("ib2tcp");
            final Running[] programs = launch(job, test, size);
            job.checkpoint();
            goesOn(job, programs[1], programs);
            goesOn(job, programs[1], killAndRestart(job, "ib2tcp", programs));
        }
    }

    @ParameterizedTest
    @CsvSource({"ib2tcp, hca, tag_bw, 65536, rc", "hca, ib2tcp, tag_bw, 65536, rc", "ib2tcp, hca, tag_lat, 1024, ud",
        "hca, ib2tcp, tag_lat, 1024, ud"})
    void goesOverToTheOtherBackend(final String first, final String second, final String test, final String size,
            final String transport) throws Exception {
        try (Job job = start(transport)) {
            if (first.equals("hca")) {
                assumeDeviceOf(job);
            }
            job.backend(first);
            final Running[] programs = launch(job, test, size);
            goesOn(job, programs[1], killAndRestart(job, second, programs));
        }
    }

    /**
     * The TSC, by which UCX measures time, goes on while the job does not exist. What UCX's file says stands in for its own 30 s,
     * for which a test would have to wait.
     */
    @ParameterizedTest
    @ValueSource(strings = {"hca", "ib2tcp"})
    void takesNoPeerForDeadThatDidNotExist(final String backend) throws Exception {
        try (Job job = start("ud")) {
            if (backend.equals("hca")) {
                assumeDeviceOf(job);
            }
            job.backend(backend);
            Files.writeString(job.work().resolve("ucx.conf"), "UCX_UD_TIMEOUT=2s\n");
            final Running[] programs = launch(job, "tag_lat", "8");
            final String folder = job.checkpoint("--kill").get("folder").asText();
            final long begin = System.nanoTime();
            job.await("more than its time-out", () -> System.nanoTime() - begin > 3_000_000_000L);
            goesOn(job, programs[1], job.restartAndAwait(folder, programs.length));
        }
    }

    private static Job start(final String transport) throws Exception {
        return Distribution.start(Map.of("UCX_TLS", transport, "SHADOWVERBS_IDS", "scrambled"));
    }

    /** UCX looks for a file of the software HCA's device, too. */
    static void assumeDeviceOf(final Job job) throws Exception {
        job.runNative("devices", "ibv_devices").succeed(Running.DEADLINE);
        assumeTrue(Files.isWritable(NODE), "the software HCA may not make the node that UCX looks for, " + NODE);
    }

    /** @return the server and the client, which has made progress */
    private static Running[] launch(final Job job, final String test, final String size) throws Exception {
        final String port = Integer.toString(LocalPort.free());
        final Running server = job.launch("server", "ucx_perftest", "-p", port);
        job.await("the server to listen", LocalPort.listens(Integer.parseInt(port)), server);
        final Running client = job.launch("client", "ucx_perftest", "127.0.0.1", "-p", port, "-t", test, "-s", size,
                "-n", "1000000000");
        job.awaitLines(client, PROGRESS, 1);
        return new Running[] {server, client};
    }

    private static Running killAndRestart(final Job job, final String backend, final Running... programs) throws Exception {
        final String folder = job.checkpoint().get("folder").asText();
        for (final Running program : programs) {
            program.killHard();
        }
        job.backend(backend);
        return job.restartAndAwait(folder, programs.length);
    }

    private static void goesOn(final Job job, final Running client, final Running... running) throws Exception {
        final long before = client.lines(PROGRESS);
        job.await("progress of UCX", () -> client.lines(PROGRESS) >= before + 2, running);
    }
}
