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
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Pair;
import org.shadowverbs.fabric.harness.Perftest;
import org.shadowverbs.fabric.harness.Running;

/**
 * Debian's perftest goes on after a checkpoint in the midst, and killed and restarted. It posts with ibv_wr_* where it can, and its
 * two ends keep a TCP connection all the time.
 */
final class PerftestSystemTest {
    private static final Duration ENDING = Running.DEADLINE;

    @Test
    void measuresOnAfterCheckpointAndAfterRestart() throws Exception {
        try (Job job = Distribution.start()) {
            final List<Pair> pairs = new ArrayList<>();
            for (final String program : List.of("ib_send_bw -s 4096", "ib_write_lat -s 4096", "ib_read_bw -s 4096", "ib_atomic_bw")) {
                pairs.add(Pair.launch(job, "pair-" + pairs.size(), Perftest.command(program)));
            }
            final int ranks = 2 * pairs.size();
            final Running[] clients = pairs.stream().map(Pair::client).toArray(Running[]::new);
            job.awaitRanks(ranks, Pair.programs(pairs));
            Perftest.work(job, clients);
            assertEquals(ranks, job.checkpoint().get("ranks").asInt());
            Perftest.work(job, clients);
            final JsonNode checkpoint = job.checkpoint();
            assertEquals(ranks, checkpoint.get("ranks").asInt());
            for (final Running one : Pair.programs(pairs)) {
                one.killHard();
            }
            final Running restart = job.restartAndAwait(checkpoint.get("folder").asText(), ranks);
            Perftest.work(job, restart);
            Perftest.end(restart);
            for (final Running client : clients) {
                Perftest.assertPlausible(client);
            }
        }
    }

    /** On the other transports, with events, inline, many queue pairs: the software HCA is slow until the restart. */
    @Test
    void endsAfterRestart() throws Exception {
        try (Job job = Distribution.start(Map.of("SHADOWVERBS_IDS", "scrambled"))) {
            job.configure(Job.SLOW);
            final List<Pair> pairs = new ArrayList<>();
            for (final String program : List.of("ib_send_bw -c XRC -b -n 20000 -t 4", "ib_send_bw -c UD -e -n 20000 -t 4",
                    "ib_send_lat --use-srq -I 64 -s 64 -n 4000", "ib_write_bw -c UC -q 16 -n 4000 -t 4")) {
                pairs.add(Pair.launch(job, "pair-" + pairs.size(), ("stdbuf -oL " + program + " -F").split(" ")));
            }
            for (final Pair pair : pairs) {
                job.awaitLines(pair.client(), "#bytes", 1);
            }
            job.awaitRanks(2 * pairs.size(), Pair.programs(pairs));
            final String folder = job.checkpoint("--kill").get("folder").asText();
            job.configure("");
            final Running restart = job.restartAndAwait(folder, 2 * pairs.size());
            final int status = restart.awaitEnd(ENDING);
            final StringBuilder said = new StringBuilder(restart.errors());
            for (final Running one : Pair.programs(pairs)) {
                said.append("\n---- ").append(one.name()).append('\n').append(one.output()).append(one.errors());
            }
            assertEquals(0, status, said.toString());
            for (final Pair pair : pairs) {
                Perftest.assertPlausible(pair.client());
            }
        }
    }

    /** ib_read_bw takes as many READs at once as the device has: 128 as Soft-RoCE, 16 as mlx5. */
    @Test
    void aDeviceWithSmallerLimitsIsRefusedBeforeAnythingIsRestored() throws Exception {
        try (Job job = Distribution.start(Map.of("SV_HCA_PERSONALITY", "rxe"))) {
            final Pair pair = Pair.launch(job, "reader", Perftest.command("ib_read_bw -s 4096"));
            job.awaitRanks(2, pair.server(), pair.client());
            Perftest.work(job, pair.client());
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
}
