// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.ib2tcp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.LocalPort;
import org.shadowverbs.fabric.harness.Pair;
import org.shadowverbs.fabric.harness.Perftest;
import org.shadowverbs.fabric.harness.Running;

/** Programs that find each other by lids, and refuse a port without one, on the verbs device over TCP. */
final class LinkLayerSystemTest {
    private static final Duration ENDING = Running.DEADLINE;

    /** Debian's qperf knows lids only. A server of it has one client at a time, and starts a process for each. */
    @Test
    void qperfMeasuresOnAfterCheckpointAndAfterRestart() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp", "--link", "infiniband");
            final List<Pair> pairs = new ArrayList<>();
            for (final String measurement : List.of("rc_lat", "rc_bw", "ud_lat")) {
                final String port = Integer.toString(LocalPort.free());
                final Running server = job.launch("server-" + measurement, "qperf", "-lp", port);
                job.await("the server to listen", LocalPort.listens(Integer.parseInt(port)), server);
                pairs.add(new Pair(server, job.launch("client-" + measurement, "qperf", "-lp", port, "-t", "1000", "-vv", "127.0.0.1",
                        measurement)));
            }
            final Running[] clients = pairs.stream().map(Pair::client).toArray(Running[]::new);
            final int ranks = 2 * pairs.size();
            job.awaitRanks(ranks, Pair.programs(pairs));
            Perftest.work(job, clients);
            assertEquals(ranks, job.checkpoint().get("ranks").asInt());
            Perftest.work(job, clients);
            final JsonNode checkpoint = job.checkpointed(job.startCheckpoint("--kill"));
            assertEquals(ranks, checkpoint.get("ranks").asInt());

            final Running restart = job.restartAndAwait(checkpoint.get("folder").asText(), ranks);
            Perftest.work(job, restart);
            Perftest.alarm(restart);
            for (final Pair pair : pairs) {
                final Running client = pair.client();
                job.await("the client to print what it has measured", () -> client.lines("msg_rate") > 0, restart);
                final String result = client.output() + client.errors();
                assertTrue(result.lines().anyMatch(line -> line.strip().matches("(latency|bw) +=.*")), result);
                assertEquals("", pair.server().output() + pair.server().errors());
            }
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
