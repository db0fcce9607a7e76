// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.checkpoint;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Selfcheck;

/**
 * Four ranks that do all operations of reliable connections at random and verify each one. After checkpoints, a kill
 * and a restart none may be lost, doubled or damaged.
 */
final class SelfcheckSystemTest {
    private static final int RANKS = 4;
    /** Of each of several programs: a rank with two different peers. */
    private static final int RANKS_OF_SEVERAL = 3;
    private static final int RESTARTS = 5;
    /** Of a rank, in bytes. The virtual machine's share is 14 MB of them, compiled code comes on top with time. */
    private static final long LARGEST_IMAGE = 24 << 20;
    private static final long LARGEST_GROWTH = 3 << 20;

    @Test
    void survivesKillAndRestartOnADeviceThatAnswersAsSoftRoce() throws Exception {
        killAndRestart(Map.of("SV_HCA_PERSONALITY", "rxe"));
    }

    /** All ranks have one port. Real ids are drawn from a few: new ones are those of others before, real and virtual. */
    @Test
    void createsObjectsWhoseRealIdsAreVirtualOnesOfOthers() throws Exception {
        killAndRestart(Map.of("SV_HCA_ID_SPACE", "256"), "--churn", "--verify-ids");
    }

    /** Each process is given numbers one after the other, from where the device's begin. */
    @Test
    void survivesWhenNumbersComeAgainInAnotherRank() throws Exception {
        killAndRestart(Map.of("SV_HCA_PERSONALITY", "mlx5"), "--srq", "--extended", "--churn");
    }

    @Test
    void survivesWithSleepersInCompletionChannels() throws Exception {
        killAndRestart(Map.of("SV_HCA_PERSONALITY", "hostile:8"), "--events");
    }

    @Test
    void survivesOnADeviceThatIsSlowAndReorders() throws Exception {
        killAndRestart(Map.of("SV_HCA_EXEC_DELAY_US", "200", "SV_HCA_COMPLETION_DELAY_US", "500", "SV_HCA_REORDER",
                "1", "SV_HCA_WITHHOLD_POLLS", "3"));
    }

    /**
     * Programs side by side, each with its options: threads that post to one queue pair, memory that all ranks map, receives that
     * are posted late, shared receive queues, XRC, unreliable transports, windows. After the restart each also verifies what it
     * saw between the two checkpoints.
     */
    @ParameterizedTest
    @CsvSource({
        "hca, hca, identity, --threads 3; --shared-memory; --rnr; --srq --rnr --events",
        "hca, hca, scrambled, '--xrc --churn --verify-ids; --unreliable uc,ud,multicast --extended --churn; --churn --verify-ids;"
                + " --extended --srq --churn'",
        "hca, ib2tcp, identity, --xrc --extended --rnr; --unreliable multicast",
        "hca, ib2tcp, scrambled, --windows --extended --srq",
        "ib2tcp, hca, identity, '--xrc; --windows --rnr; --unreliable uc,ud,multicast'",
    })
    void surviveResumeAndThenKillAndRestart(final String first, final String second, final String ids, final String programs)
            throws Exception {
        try (Job job = Distribution.start(Map.of("SHADOWVERBS_IDS", ids))) {
            job.backend(first);
            final Selfcheck selfcheck = new Selfcheck(job);
            for (final String options : programs.split("; ")) {
                selfcheck.launch("selfcheck " + options, RANKS_OF_SEVERAL, options.split(" "));
            }
            selfcheck.awaitConnected();
            selfcheck.work();
            job.checkpoint();
            selfcheck.work();
            final String folder = job.checkpoint("--kill").get("folder").asText();
            job.backend(second);
            selfcheck.restartAndVerify(folder);
        }
    }

    /** Nor does anything that a process keeps for itself: what is left of a restart would be in the next image, and so on. */
    @Test
    void imagesDoNotGrowFromRestartToRestart() throws Exception {
        try (Job job = Distribution.start()) {
            job.startCoordinator("--compress", "none"); // which pays depends on what else the machine does
            final Selfcheck selfcheck = new Selfcheck(job);
            selfcheck.launch("selfcheck", 2, "--rnr", "--churn", "--events", "--unreliable", "uc,ud");
            selfcheck.awaitConnected();
            selfcheck.work();
            final List<Long> sizes = new ArrayList<>();
            for (int i = 0; i < RESTARTS; i++) {
                final JsonNode saved = job.checkpoint("--kill");
                sizes.add(saved.get("image_bytes").asLong() / 2);
                selfcheck.work(job.restartAndAwait(saved.get("folder").asText(), 2, "--compress", "none"));
            }
            final long smallest = sizes.stream().mapToLong(Long::longValue).min().orElseThrow();
            assertTrue(sizes.stream().allMatch(size -> size < LARGEST_IMAGE && size < smallest + LARGEST_GROWTH),
                    "bytes of a rank's image: " + sizes);
        }
    }

    /** Several checkpoints that it runs on after, and then a restart from the last. */
    @Test
    void survivesAsFourProgramsLaunchedOneByOne() throws Exception {
        try (Job job = Distribution.start()) {
            final Selfcheck selfcheck = new Selfcheck(job);
            selfcheck.launchOneByOne(RANKS);
            selfcheck.awaitConnected();
            for (int i = 0; i < 3; i++) {
                selfcheck.work();
                job.checkpoint();
            }
            checkpointKillRestart(job, selfcheck);
        }
    }

    private static void killAndRestart(final Map<String, String> environment, final String... options)
            throws Exception {
        try (Job job = Distribution.start(environment)) {
            final Selfcheck selfcheck = new Selfcheck(job);
            selfcheck.launch("selfcheck", RANKS, options);
            checkpointKillRestart(job, selfcheck);
        }
    }

    /** It runs on after the checkpoint; what it does then is undone by the restart. */
    private static void checkpointKillRestart(final Job job, final Selfcheck selfcheck) throws Exception {
        selfcheck.awaitConnected();
        selfcheck.work();
        final String folder = job.checkpoint().get("folder").asText();
        selfcheck.work();
        selfcheck.killRestartAndVerify(folder);
    }
}
