// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.CheckpointKinds;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;

/**
 * Devices stay open while the image is made. Also in turn with checkpoints that close them, and with kills and restarts, no
 * operation is lost, doubled or damaged. For a storm: -Dshadowverbs.attached.checkpoints=200 -Dshadowverbs.attached.restarts=60,
 * and -Dshadowverbs.attached.seed=N for another order.
 */
final class AttachedSystemTest {
    private static final int CHECKPOINTS = Integer.getInteger("shadowverbs.attached.checkpoints", 4);
    private static final int RESTARTS = Integer.getInteger("shadowverbs.attached.restarts", 2);
    private static final long SEED = Long.getLong("shadowverbs.attached.seed", 1);
    private static final int RANKS = 2;
    private static final List<String> PROGRAMS = List.of("--rnr --churn --events --unreliable uc,ud,multicast",
            "--srq --extended --threads 2", "--xrc --rnr", "--windows --churn --verify-ids");
    /** As native/src/base/device_path.h has it. */
    private static final String LEFT_OVER = "shadowverbs-lost-device";

    @ParameterizedTest
    @ValueSource(strings = {"strict", "mlx5", "hostile:11"})
    void bothKindsInTurnLoseNothing(final String personality) throws Exception {
        try (Job job = Distribution.start(Map.of("SV_HCA_PERSONALITY", personality))) {
            System.out.println("AttachedSystemTest " + personality + ": seed " + SEED);
            job.kinds(CheckpointKinds.mixed(SEED));
            final Random kills = new Random(SEED);
            final Selfcheck selfcheck = new Selfcheck(job);
            for (final String options : PROGRAMS) {
                selfcheck.launch("selfcheck " + options, RANKS, options.split(" "));
            }
            selfcheck.awaitConnected();
            Running restart = null;
            for (int i = 0; i < CHECKPOINTS; i++) {
                if (restart == null) {
                    selfcheck.work();
                } else {
                    selfcheck.work(restart);
                }
                if (kills.nextInt(CHECKPOINTS) < RESTARTS || i == CHECKPOINTS - 1 && restart == null) {
                    restart = job.restartAndAwait(job.checkpoint("--kill").get("folder").asText(), selfcheck.ranks());
                } else {
                    job.checkpoint();
                }
            }
            selfcheck.work(restart);
            selfcheck.stop(restart);
            selfcheck.verify();
        }
    }

    @Test
    void devicesStayOpenAndTheRestoredProcessHasNothingLeftOfThem() throws Exception {
        try (Job job = Distribution.start()) {
            job.kinds(CheckpointKinds.attached());
            final Selfcheck selfcheck = new Selfcheck(job);
            selfcheck.launch("selfcheck", RANKS, "--events");
            selfcheck.awaitConnected();
            selfcheck.work();
            assertStaysOpen(job.checkpoint(), 0);
            assertFalse(job.checkpoint("--detached").get("attached").asBoolean());
            selfcheck.work();
            final JsonNode saved = job.checkpoint("--kill");
            assertStaysOpen(saved, 0);
            final Running restart = job.restartAndAwait(saved.get("folder").asText(), RANKS);
            for (final JsonNode rank : job.status().get("ranks")) {
                assertFalse(holds(rank.get("pid").asLong()), "rank " + rank);
            }
            selfcheck.work(restart);
            assertStaysOpen(job.checkpoint(), 0);
            selfcheck.stop(restart);
            selfcheck.verify();
        }
    }

    private static void assertStaysOpen(final JsonNode checkpoint, final int resets) {
        assertTrue(checkpoint.get("attached").asBoolean(), checkpoint.toString());
        assertEquals(resets, checkpoint.get("queue_pairs_reset").asInt(), checkpoint.toString());
    }

    private static boolean holds(final long pid) throws IOException {
        final Path process = Path.of("/proc/" + pid);
        try (Stream<Path> descriptors = Files.list(process.resolve("fd"))) {
            for (final Path descriptor : descriptors.toList()) {
                if (Files.readSymbolicLink(descriptor).toString().contains(LEFT_OVER)) {
                    return true;
                }
            }
        }
        return Files.readString(process.resolve("maps")).contains(LEFT_OVER);
    }

    /** Connections over TCP cannot stay. */
    @Test
    void devicesOverTcpAreClosed() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            job.kinds(CheckpointKinds.attached());
            final Selfcheck selfcheck = new Selfcheck(job);
            selfcheck.launch("selfcheck", RANKS);
            selfcheck.awaitConnected();
            assertFalse(job.checkpoint().get("attached").asBoolean());
            selfcheck.work();
            selfcheck.stopAndVerify();
        }
    }
}
