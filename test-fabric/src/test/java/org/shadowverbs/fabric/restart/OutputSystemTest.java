// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.restart;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;

/**
 * A job that is checkpointed, runs on for some seconds, is killed and restarted, with its output to a file, a pipe and
 * a terminal. What it had printed after the checkpoint is taken back where that is possible.
 */
final class OutputSystemTest {
    private static final Duration ENDING = Running.DEADLINE;
    private static final String PASSED = "lost 0, doubled 0, damaged 0, unexpected 0: passed";

    /** coreutils' timeout calls signal(3), of which libjsig has something to say. */
    @Test
    void aProgramThatInstallsHandlersPrintsNothingOfOurs() throws Exception {
        try (Job job = Distribution.start()) {
            final Running program = job.launch("timeout", "timeout", "60", "echo", "its own");
            program.succeed(ENDING);
            assertEquals("its own", (program.output() + program.errors()).strip());
        }
    }

    @Test
    void aProgramThatNeedsAConnectionManagerIsToldThatThereIsNone() throws Exception {
        assumeFalse(Files.exists(Path.of("/dev/infiniband/rdma_cm")), "this host has a connection manager");
        try (Job job = Distribution.start()) {
            final Running program = job.launch("rping", "rping", "-s", "-a", "127.0.0.1", "-C", "1");
            assertTrue(program.awaitEnd(ENDING) != 0);
            assertEquals(1, program.lines("shadowverbs: rdma_create_event_channel: there is no connection manager on this host"),
                    program.errors());
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void goesOnWithOutputToAFile(final boolean inJobRoot) throws Exception {
        try (Job job = inJobRoot ? Distribution.startInJobRoot(Map.of()) : Distribution.start()) {
            final Path output = job.work().resolve("printed");
            final Running program = launch(job, "program", " >'" + output + "'");
            final String folder = checkpointRunOnAndKill(job, program, output);
            final long grown = Files.size(output);
            finish(job, folder);
            final List<String> lines = Files.readAllLines(output);
            assertEquals(2, lines.stream().filter(l -> l.contains(": connected: ")).count(), lines.toString());
            assertEquals(1, lines.stream().filter(l -> l.endsWith(PASSED)).count(), lines.toString());
            try (Stream<Path> files = Files.list(job.work())) {
                final List<Path> tails = files.filter(f -> f.getFileName().toString().startsWith("printed.tail-"))
                        .toList();
                assertEquals(1, tails.size(), "what was printed after the checkpoint is kept beside the file");
                assertTrue(Files.size(tails.getFirst()) > 0 && Files.size(tails.getFirst()) < grown);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void goesOnWithOutputToAPipe(final boolean inJobRoot) throws Exception {
        try (Job job = inJobRoot ? Distribution.startInJobRoot(Map.of()) : Distribution.start()) {
            final Path output = job.work().resolve("printed");
            final Running program = launch(job, "program", " | cat >'" + output + "'");
            final Running restart = finish(job, checkpointRunOnAndKill(job, program, output));
            // The pipe and its reader are gone: the restart's own output takes their place.
            assertEquals(1, restart.lines(PASSED), restart.output() + restart.errors());
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void goesOnWithOutputToATerminal(final boolean inJobRoot) throws Exception {
        try (Job job = inJobRoot ? Distribution.startInJobRoot(Map.of()) : Distribution.start()) {
            final Path output = job.work().resolve("printed");
            final String command = launchCommand(job);
            final Running program = job.runCommandLine("program", "script", "-qfec", command, output.toString());
            final Running restart = finish(job, checkpointRunOnAndKill(job, program, output));
            assertEquals(1, restart.lines(PASSED), restart.output() + restart.errors());
        }
    }

    // ---- two ranks that print a line of counts every second, until the stop file is there ----

    private static Running launch(final Job job, final String name, final String redirection) throws Exception {
        return job.runCommandLine(name, "sh", "-c", launchCommand(job) + redirection);
    }

    private static String launchCommand(final Job job) {
        return "exec '" + Distribution.DIST.resolve("bin/shadowverbs") + "' launch " + String.join(" ", job.at())
                + " --test-fabric -- '" + job.program("selfcheck") + "' -n 2 --progress 1 --stop-file '"
                + job.work().resolve("stop") + "'";
    }

    private static String checkpointRunOnAndKill(final Job job, final Running program, final Path output)
            throws Exception {
        job.await("two ranks that are ready", () -> count(output, ": connected: ") >= 2, program);
        job.awaitRanks(2, program);
        final String folder = job.checkpoint().get("folder").asText();
        final long printed = Files.size(output);
        job.await("output after the checkpoint", () -> output.toFile().length() > printed, program);
        program.killHard();
        return folder;
    }

    private static Running finish(final Job job, final String folder) throws Exception {
        final Running restart = job.restartAndAwait(folder, 2);
        Files.createFile(job.work().resolve("stop"));
        restart.succeed(ENDING);
        return restart;
    }

    private static long count(final Path file, final String text) {
        try (Stream<String> lines = Files.lines(file)) {
            return lines.filter(l -> l.contains(text)).count();
        } catch (java.io.IOException e) {
            return 0;
        }
    }
}
