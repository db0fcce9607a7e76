// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.TwoHosts;

/** Processes that shared an XRC domain have ended, and those that are left go on, through checkpoints and restarts. */
final class XrcSystemTest {
    private static final Duration ENDING = Running.DEADLINE;

    /** Its queue pair is that of the one who has it open, on resume and on restart, whatever has become of the maker. */
    @Test
    void aReceiveQueuePairOutlivesItsMaker() throws Exception {
        try (Job job = Distribution.start()) {
            final Path go = job.work().resolve("go");
            final List<Running> survivors = survivors(job, go, "destroyed", "ended", "killed", "replaced");
            job.checkpoint();
            final String folder = job.checkpoint().get("folder").asText();
            for (final Running survivor : survivors) {
                survivor.killHard();
            }
            final Running restarted = job.restartAndAwait(folder, survivors.size());
            Files.createFile(go);
            restarted.succeed(ENDING);
            for (final Running survivor : survivors) {
                assertDone(survivor);
            }
        }
    }

    /** Nobody knows what had come to its queue: that is said, each time, and the job runs on. */
    @Test
    void whoHasNamedQueuesOfAProcessThatHasEndedIsNotCheckpointed() throws Exception {
        try (Job job = Distribution.start()) {
            final Path go = job.work().resolve("go");
            final Running survivor = survivors(job, go, "named").getFirst();
            for (int i = 0; i < 2; i++) {
                final String problem = job.failCheckpoint().get("problem").asText();
                assertTrue(problem.contains("queue pair 0x") && problem.contains("its requests have named XRC's shared receive queue 0x")
                        && problem.contains("which nobody has any more"), problem);
            }
            Files.createFile(go);
            survivor.succeed(ENDING);
            assertDone(survivor);
        }
    }

    /**
     * On two hosts a sender does not reach the queues of another process than its peer's, nor has a queue pair of another
     * process open: that is said, and on one host the same checkpoint goes on.
     */
    @ParameterizedTest
    @CsvSource({"crossed, whose domain is not the peer's any more: both must be restarted on one host and device",
        "opened-by-sender, which has not made it anew here: those that have it open must be restarted on one host and device"})
    void whatProcessesShareKeepsThemOnOneHost(final String mode, final String refusal) throws Exception {
        try (TwoHosts hosts = TwoHosts.start()) {
            final Path go = hosts.work().resolve("go");
            final Path meet = Files.createDirectory(hosts.work().resolve("meet"));
            final Path domain = hosts.work().resolve("domain");
            final List<Running> programs = new ArrayList<>();
            for (int rank = 0; rank < 2; rank++) {
                programs.add(hosts.launch(0, List.of("--backend", "hca", "--test-fabric"),
                        Distribution.DIST.resolve("programs/xrc").toString(), "--mode", mode, "--domain", domain.toString(),
                        "--rank", Integer.toString(rank), "--dir", meet.toString(), "--go", go.toString()));
            }
            for (final Running program : programs) {
                TwoHosts.await("READY", () -> program.lines("READY ") == 1, program);
            }
            hosts.checkpoint();
            for (final Running program : programs) {
                program.killHard();
            }
            hosts.endCoordinator();
            if (mode.equals("crossed")) {
                hosts.ownFileOnSecond(domain);
            }
            hosts.startCoordinator();
            final List<Running> restarts = new ArrayList<>();
            for (int host = 0; host < 2; host++) {
                restarts.add(hosts.command(host, "restart", "--hosts", "2", hosts.checkpoints().toString()));
            }
            for (final Running restart : restarts) {
                assertEquals(1, restart.awaitEnd(ENDING), restart.output());
                assertTrue(restart.errors().contains(refusal), restart.errors());
            }
            Files.createFile(go);
            hosts.endCoordinator();
            hosts.startCoordinator();
            hosts.command(0, "restart", hosts.checkpoints().toString()).succeed(ENDING);
            for (final Running program : programs) {
                assertDone(program);
            }
        }
    }

    /**
     * One for each mode, which is at its READY; of the processes that they have survived nothing is left, and their numbers in
     * the job are the last.
     */
    private static List<Running> survivors(final Job job, final Path go, final String... modes) throws Exception {
        final List<Running> survivors = new ArrayList<>();
        final List<Running> makers = new ArrayList<>();
        for (int rank = 0; rank < 2; rank++) {
            for (final String mode : modes) {
                final Path meet = Files.createDirectories(job.work().resolve("meet-" + mode));
                (rank == 0 ? survivors : makers).add(job.launch(mode + "-" + rank, job.program("xrc-survivor"), "--mode", mode,
                        "--rank", Integer.toString(rank), "--dir", meet.toString(), "--go", go.toString()));
            }
            job.awaitRanks(modes.length, survivors.toArray(new Running[0]));
        }
        for (final Running survivor : survivors) {
            job.awaitLines(survivor, "READY ", 1);
        }
        for (final Running maker : makers) {
            maker.awaitEnd(ENDING);
        }
        job.await("their leaving the job", () -> ranks(job) == survivors.size(), survivors.toArray(new Running[0]));
        return survivors;
    }

    private static int ranks(final Job job) {
        try {
            return job.status().get("ranks").size();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    private static void assertDone(final Running program) throws Exception {
        assertEquals(1, program.lines("DONE ok "), program.name() + ": " + program.output() + program.errors());
    }
}
