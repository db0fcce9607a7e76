// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * UCX over its generic verbs transports, which it must choose by itself: through a checkpoint, and killed and restarted.
 * Small messages go by RC and UD with shared receive queues, large ones by rendezvous.
 */
@Timeout(240)
final class UcxSystemTest {
    private static final Path NODE = Path.of("/dev/infiniband/uverbs0");
    private static final String PROGRESS = "[thread 0]";

    @ParameterizedTest
    @CsvSource({"tag_lat, 8, rc", "tag_bw, 262144, rc", "tag_lat, 1024, ud"})
    void goesOnAfterCheckpointAndAfterRestart(final String test, final String size, final String transport)
            throws Exception {
        try (Job job = Distribution.start(Map.of("UCX_TLS", transport, "SHADOWVERBS_IDS", "scrambled"))) {
            job.runNative("devices", "ibv_devices").succeed(Duration.ofSeconds(30));
            assumeTrue(Files.isWritable(NODE), "the software HCA may not make the node that UCX looks for, " + NODE);
            final String port = Integer.toString(LocalPort.free());
            final Running server = job.launch("server", "ucx_perftest", "-p", port);
            job.await("the server to listen", LocalPort.listens(Integer.parseInt(port)), server);
            final Running client = job.launch("client", "ucx_perftest", "127.0.0.1", "-p", port, "-t", test, "-s", size,
                    "-n", "1000000000");
            job.awaitLines(client, PROGRESS, 2);
            job.checkpoint();
            goesOn(job, client, server, client);
            final String folder = job.checkpoint().get("folder").asText();
            server.killHard();
            client.killHard();
            goesOn(job, client, job.restartAndAwait(folder, 2));
        }
    }

    private static void goesOn(final Job job, final Running client, final Running... running) throws Exception {
        final long before = client.lines(PROGRESS);
        job.await("progress of UCX", () -> client.lines(PROGRESS) >= before + 2, running);
    }
}
