// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.ib2tcp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.LocalPort;
import org.shadowverbs.fabric.harness.Perftest;
import org.shadowverbs.fabric.harness.Running;

/** Programs that find each other by lids, and refuse a port without one, on the verbs device over TCP. */
final class LinkLayerSystemTest {
    private static final Duration ENDING = Running.DEADLINE;

    /** Debian's qperf knows lids only. Its server starts a process for each client. */
    @ParameterizedTest
    @ValueSource(strings = {"rc_lat", "rc_bw", "ud_lat"})
    void qperfMeasuresOnAfterCheckpointAndAfterRestart(final String measurement) throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp", "--link", "infiniband");
            final String port = Integer.toString(LocalPort.free());
            final Running server = job.launch("server", "qperf", "-lp", port);
            job.await("the server to listen", LocalPort.listens(Integer.parseInt(port)), server);
            final Running client = job.launch("client", "qperf", "-lp", port, "-t", "1000", "-vv", "127.0.0.1", measurement);
            job.awaitRanks(2, server, client);
            Perftest.work(job, client);
            assertEquals(2, job.checkpoint().get("ranks").asInt());
            Perftest.work(job, client);
            final JsonNode checkpoint = job.checkpointed(job.startCheckpoint("--kill"));
            assertEquals(2, checkpoint.get("ranks").asInt());

            final Running restart = job.restartAndAwait(checkpoint.get("folder").asText(), 2);
            Perftest.work(job, restart);
            Perftest.alarm(restart);
            job.await("the client to print what it has measured", () -> client.lines("msg_rate") > 0, restart);
            final String result = client.output() + client.errors();
            assertTrue(result.lines().anyMatch(line -> line.strip().matches("(latency|bw) +=.*")), result);
            assertEquals("", server.output() + server.errors());
        }
    }

    /** A port that was InfiniBand's stays so, for programs of the job that come later, too. */
    @Test
    void jobThatComesFromInfinibandKeepsItsLids() throws Exception {
        try (Job job = Distribution.start()) {
            final Path go = job.work().resolve("go");
            final String port = Integer.toString(LocalPort.free());
            final Running program = job.launch("program", "sh", "-c", "ibv_asyncwatch & until [ -e '" + go
                    + "' ]; do sleep 0.1; done; ibv_devinfo; ibv_rc_pingpong -p " + port + " & server=$!; "
                    + "until ibv_rc_pingpong -p " + port
                    + " 127.0.0.1; do sleep 0.1; done; wait $server; s=$?; kill %1; exit $s");
            job.awaitRanks(1, program);
            final JsonNode checkpoint = job.checkpointed(job.startCheckpoint("--kill"));
            job.backend("ib2tcp");
            final Running restart = job.restartAndAwait(checkpoint.get("folder").asText(), 1);
            Files.createFile(go);
            restart.succeed(ENDING);
            final String said = program.output() + program.errors() + restart.errors();
            assertTrue(program.output().contains("hca_id:\ttcp0"), said);
            assertEquals(List.of("InfiniBand"), program.output().lines().filter(line -> line.contains("link_layer"))
                    .map(line -> line.substring(line.lastIndexOf('\t') + 1)).toList(), said);
            assertEquals(2, program.lines("1000 iters in"), said);
        }
    }
}
