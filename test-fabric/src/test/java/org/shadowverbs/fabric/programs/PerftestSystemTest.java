// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.programs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.LocalPort;
import org.shadowverbs.fabric.harness.Perftest;
import org.shadowverbs.fabric.harness.Running;

/**
 * Debian's perftest goes on after a checkpoint in the midst, and killed and restarted. It posts with ibv_wr_* where it can, and its
 * two ends keep a TCP connection all the time.
 */
final class PerftestSystemTest {
    private static final Duration ENDING = Running.DEADLINE;

    @ParameterizedTest
    @ValueSource(strings = {"ib_send_bw", "ib_write_lat", "ib_read_bw", "ib_atomic_bw"})
    void measuresOnAfterCheckpointAndAfterRestart(final String program) throws Exception {
        try (Job job = Distribution.start()) {
            final List<Running> launched = launch(job, "measuring", program);
            assertEquals(2, job.checkpoint().get("ranks").asInt());
            Perftest.work(job, launched.getLast());
            final JsonNode checkpoint = job.checkpoint();
            assertEquals(2, checkpoint.get("ranks").asInt());
            for (final Running one : launched) {
                one.killHard();
            }
            final Running restart = job.restartAndAwait(checkpoint.get("folder").asText(), 2);
            Perftest.work(job, restart);
            Perftest.end(restart);
            Perftest.assertPlausible(launched.getLast());
        }
    }

    /** On the other transports, with events, inline, many queue pairs: the software HCA is slow until the restart. */
    @ParameterizedTest
    @ValueSource(strings = {
        "ib_send_bw -c XRC -b -n 20000 -t 4", "ib_send_bw -c UD -e -n 20000 -t 4", "ib_write_bw -c UC -q 16 -n 2000 -t 4",
        "ib_send_lat --use-srq -I 64 -s 64 -n 8000"
    })
    void endsAfterRestart(final String program) throws Exception {
        try (Job job = Distribution.start(Map.of("SHADOWVERBS_IDS", "scrambled"))) {
            job.configure(Job.SLOW);
            final int port = LocalPort.free();
            final List<String> command = new ArrayList<>(List.of("stdbuf", "-oL"));
            command.addAll(List.of(program.split(" ")));
            command.addAll(List.of("-F", "-p", Integer.toString(port)));
            final Running server = job.launch("server", command.toArray(new String[0]));
            job.await("the server to listen", LocalPort.listens(port), server);
            command.add("127.0.0.1");
            final Running client = job.launch("client", command.toArray(new String[0]));
            job.awaitLines(client, "#bytes", 1);
            job.awaitRanks(2, server, client);
            final String folder = job.checkpoint("--kill").get("folder").asText();
            job.configure("");
            job.restartAndAwait(folder, 2).succeed(ENDING);
            Perftest.assertPlausible(client);
        }
    }

    /** ib_read_bw takes as many READs at once as the device has: 128 as Soft-RoCE, 16 as mlx5. */
    @Test
    void aDeviceWithSmallerLimitsIsRefusedBeforeAnythingIsRestored() throws Exception {
        try (Job job = Distribution.start(Map.of("SV_HCA_PERSONALITY", "rxe"))) {
            launch(job, "reader", "ib_read_bw -s 64");
            final String folder = job.checkpointed(job.startCheckpoint("--kill")).get("folder").asText();
            job.environment("SV_HCA_PERSONALITY", "mlx5");
            job.startCoordinator();
            final Running refused = job.restart(folder);
            assertEquals(1, refused.awaitEnd(ENDING), refused.errors());
            assertTrue(refused.errors().matches("(?s).*restart: rank [01]: max_qp_(init_)?rd_atom 128 was used on device shadow0,"
                    + " and shadow0 has 16\\s*"), refused.errors());
            job.environment("SV_HCA_PERSONALITY", "rxe");
            final Running restart = job.restartAndAwait(folder, 2);
            Perftest.work(job, restart);
            Perftest.end(restart);
        }
    }

    /** Server and client, in the midst of measuring. */
    private static List<Running> launch(final Job job, final String name, final String program) throws Exception {
        final int port = LocalPort.free();
        final Running server = job.launch(name + "-server", command(program, port));
        job.await("the server to listen", LocalPort.listens(port), server);
        final Running client = job.launch(name + "-client", command(program, port, "127.0.0.1"));
        job.awaitRanks(2, server, client);
        Perftest.work(job, client);
        return List.of(server, client);
    }

    private static String[] command(final String program, final int port, final String... more) {
        return Perftest.command(program.contains("atomic") ? program : program + " -s 4096", port, more);
    }
}
