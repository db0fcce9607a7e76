// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.recovery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.fabric.harness.CriuWithObstacle;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;

/** A job on one host heals itself: it is the same launching command that ends with the right result, whatever died meanwhile. */
@Timeout(480)
final class RecoverySystemTest {
    private static final int TIMES = 3;

    private Job job;
    private Selfcheck selfcheck;
    private Running first;
    private Running second;

    /** Between checkpoints, while images are saved, and by an error status; the agent dies, too, which costs nothing. */
    @Test
    void theLaunchingCommandEndsWithTheResultWhateverDied() throws Exception {
        try (CriuWithObstacle criu = CriuWithObstacle.thatWaits(); Job one = Distribution.start(criu.environment())) {
            launch(one);
            job.checkpoint();
            killRank();
            awaitRecovered(1);
            selfcheck.work();

            criu.put();
            final Running checkpoint = job.startCheckpoint();
            job.await("CRIU to be run", criu::isMet, checkpoint);
            killRank();
            criu.remove();
            awaitRecovered(2);
            assertTrue(job.failed(checkpoint).get("problem").asText().contains(" died"), checkpoint.output());
            selfcheck.work();

            job.checkpoint(); // of a job that has come back
            ProcessHandle.of(job.agentPids().getFirst()).orElseThrow().destroyForcibly(); // and its processes end with it
            awaitRecovered(3);
            selfcheck.work();
            selfcheck.stopAndVerify();
            job.await("the end of the agent", () -> job.agentPids().isEmpty());
        }
    }

    /** Its user learns what has happened, and the status says it. */
    @Test
    void endsWithWhatHasHappenedWhenThereIsNothingToGoOnFrom() throws Exception {
        try (Job one = Distribution.start()) {
            launch(one);
            killRank();
            // Of the killed rank, or of its program, which has noticed it.
            final int status = first.awaitEnd(Running.DEADLINE);
            assertTrue(status == 137 || status == 1, status + ": " + first.errors());
            assertEquals(status, second.awaitEnd(Running.DEADLINE), second.errors());
            assertEquals(1, first.lines(", and there is no checkpoint to go on from")
                    + second.lines(", and there is no checkpoint to go on from"), first.errors() + second.errors());
        }
    }

    /** From one checkpoint it comes back so often at most; a status that is not 0 counts as a failure. */
    @Test
    void aProgramThatAlwaysFailsFailsAtLast() throws Exception {
        try (Job one = Distribution.start()) {
            job = one;
            job.backend("hca", "--recover", "2");
            final Path go = job.work().resolve("go");
            final Running program = job.launch("failing", "sh", "-c", "until [ -e " + go + " ]; do sleep 0.05; done; echo ends; exit 7");
            job.await("the program", () -> programs(job) == 1, program);
            final Path checkpoint = Path.of(job.checkpoint().get("folder").asText());
            Files.createFile(go);
            assertEquals(7, program.awaitEnd(Running.DEADLINE), program.errors());
            assertEquals(2, log(" of at most 2)")); // it may fail again before it is back
            assertEquals(1, program.lines("it was brought back from " + checkpoint.getFileName() + " 2 times already"),
                    program.errors());
            // What it wrote before it was brought back is kept beside its output.
            assertEquals("ends\n", program.output());
        }
    }

    private static int programs(final Job job) {
        try {
            int programs = 0;
            for (final JsonNode agent : job.status().get("agents")) {
                programs += agent.get("programs").size();
            }
            return programs;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void launch(final Job one) throws Exception {
        job = one;
        job.startCoordinator("--exit-on-last");
        job.backend("hca", "--recover", Integer.toString(TIMES));
        selfcheck = new Selfcheck(job);
        first = selfcheck.launch("first", 2);
        second = selfcheck.launch("second", 2);
        selfcheck.awaitConnected();
        selfcheck.work();
    }

    private void killRank() throws Exception {
        final JsonNode ranks = job.status().get("ranks");
        ProcessHandle.of(ranks.get(ranks.size() - 1).get("pid").asLong()).orElseThrow().destroyForcibly();
    }

    private void awaitRecovered(final int times) throws Exception {
        job.await("recovery " + times, () -> log(" recovered in ") == times, first, second);
        // For docs/PERFORMANCE.md: on a machine that has little else to do this is what users see.
        Files.readAllLines(job.runDirectory().resolve("coordinator.log")).stream().filter(line -> line.contains(" recovered in "))
                .reduce((one, last) -> last).ifPresent(System.out::println);
    }

    /** Lines of the coordinator's log: the standard error of the programs is a file here, which is put back with them. */
    private long log(final String text) {
        try {
            return Files.readAllLines(job.runDirectory().resolve("coordinator.log")).stream().filter(l -> l.contains(text)).count();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
