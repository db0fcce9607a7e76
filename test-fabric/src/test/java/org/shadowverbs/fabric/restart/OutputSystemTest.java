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
 * Programs that are checkpointed, run on for some seconds, are killed and restarted, with their output to a file, a pipe and
 * a terminal. What they had printed after the checkpoint is taken back where that is possible.
 */
final class OutputSystemTest {
    private static final Duration ENDING = Running.DEADLINE;
    private static final String PASSED = "lost 0, doubled 0, damaged 0, unexpected 0: passed";

    /** coreutils' timeout calls signal(3), of which libjsig has something to say. The other is told what it needs and has not. */
    @Test
    void programsPrintNothingOfOursButWhatTheyMustKnow() throws Exception {
        try (Job job = Distribution.start()) {
            final Running program = job.launch("timeout", "timeout", "60", "echo", "its own");
            program.succeed(ENDING);
            assertEquals("its own", (program.output() + program.errors()).strip());
            assumeFalse(Files.exists(Path.of("/dev/infiniband/rdma_cm")), "this host has a connection manager");
            final Running other = job.launch("rping", "rping", "-s", "-a", "127.0.0.1", "-C", "1");
            assertTrue(other.awaitEnd(ENDING) != 0);
            assertEquals(1, other.lines("shadowverbs: rdma_create_event_channel: there is no connection manager on this host"),
                    other.errors());
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void goesOnWithOutputToAFileAPipeAndATerminal(final boolean inJobRoot) throws Exception {
        try (Job job = inJobRoot ? Distribution.startInJobRoot(Map.of()) : Distribution.start()) {
            final Path file = job.work().resolve("in-file");
            final Path pipe = job.work().resolve("of-pipe");
            final Path terminal = job.work().resolve("of-terminal");
            final Running[] programs = {launch(job, "file", " >'" + file + "'"), launch(job, "pipe", " | cat >'" + pipe + "'"),
                job.runCommandLine("terminal", "script", "-qfec", launchCommand(job), terminal.toString())};
            final List<Path> outputs = List.of(file, pipe, terminal);
            for (final Path output : outputs) {
                job.await("two ranks that are ready, in " + output, () -> count(output, ": connected: ") >= 2, programs);
            }
            job.awaitRanks(2 * programs.length, programs);
            final String folder = job.checkpoint().get("folder").asText();
            for (final Path output : outputs) {
                final long printed = Files.size(output);
                job.await("output after the checkpoint, in " + output, () -> output.toFile().length() > printed, programs);
            }
            for (final Running program : programs) {
                program.killHard();
            }
            final long grown = Files.size(file);

            final Running restart = job.restartAndAwait(folder, 2 * programs.length);
            Files.createFile(job.work().resolve("stop"));
            restart.succeed(ENDING);
            final List<String> lines = Files.readAllLines(file);
            assertEquals(2, lines.stream().filter(l -> l.contains(": connected: ")).count(), lines.toString());
            assertEquals(1, lines.stream().filter(l -> l.endsWith(PASSED)).count(), lines.toString());
            try (Stream<Path> files = Files.list(job.work())) {
                final List<Path> tails = files.filter(f -> f.getFileName().toString().startsWith("in-file.tail-")).toList();
                assertEquals(1, tails.size(), "what was printed after the checkpoint is kept beside the file");
                assertTrue(Files.size(tails.getFirst()) > 0 && Files.size(tails.getFirst()) < grown);
            }
            // The pipe, its reader and the terminal are gone: the restart's own output takes their place.
            assertEquals(2, restart.lines(PASSED), restart.output() + restart.errors());
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

    private static long count(final Path file, final String text) {
        try (Stream<String> lines = Files.lines(file)) {
            return lines.filter(l -> l.contains(text)).count();
        } catch (java.io.IOException e) {
            return 0;
        }
    }
}
