// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.shadowverbs.coordinator.images.Compression;

/** What the tests of {@link Criu} start: real processes, a real CRIU, a real SIGKILL. What is left of them is ended. */
@Timeout(90)
abstract class RealProcesses {
    static final Duration SOON = Duration.ofSeconds(30);
    /** All trees of a test are of one restore. */
    static final RestoreGate OPEN = new RestoreGate() {
        @Override
        public void arrived() {
            return;
        }

        @Override
        public boolean await(final Duration timeout) {
            return true;
        }
    };

    @TempDir
    Path folder;

    final Criu criu = new Criu();
    TestPrograms programs;
    Path out;
    private final List<Process> started = new ArrayList<>();
    private final List<RestoredTrees> restored = new ArrayList<>();
    private int images;

    @BeforeEach
    void ready() {
        final Readiness readiness = criu.check();
        assertTrue(readiness.ready(), () -> "these tests need root and CRIU: " + readiness.findings());
        programs = new TestPrograms(folder);
        out = folder.resolve("out");
    }

    @AfterEach
    void end() {
        restored.forEach(RestoredTrees::close);
        for (final Process process : started) {
            process.descendants().forEach(ProcessHandle::destroyForcibly);
            process.destroyForcibly();
        }
    }

    void runsOn() {
        TestPrograms.awaitLines(out, TestPrograms.lines(out).size() + 5);
    }

    ProcessBuilder process(final String... command) {
        return new ProcessBuilder(TestPrograms.command(command))
                .redirectInput(ProcessBuilder.Redirect.from(new java.io.File("/dev/null")))
                .redirectError(ProcessBuilder.Redirect.INHERIT);
    }

    Process start(final Path output, final String... command) throws IOException {
        return start(process(command).redirectOutput(output.toFile()).redirectError(folder.resolve("err").toFile()));
    }

    Process start(final ProcessBuilder builder) throws IOException {
        final Process process = builder.start();
        started.add(process);
        return process;
    }

    static ProcessRoot root(final String name, final Process process) {
        return new ProcessRoot(name, process.pid());
    }

    static FreezeRequest request(final ProcessRoot... roots) {
        return FreezeRequest.of(List.of(roots), Set.of(), Duration.ofSeconds(10), Progress.UNTOLD);
    }

    Path images() throws IOException {
        return Files.createDirectory(folder.resolve("images-" + images++));
    }

    static HostImages save(final FrozenTrees frozen, final Path directory) throws CheckpointException {
        return frozen.write(directory, ImagePlan.WHOLE).seal(Compression.NONE, Progress.UNTOLD);
    }

    HostImages save(final Path directory, final FreezeRequest request) throws CheckpointException {
        try (FrozenTrees frozen = criu.freeze(request)) {
            return save(frozen, directory);
        }
    }

    RestoredTrees restore(final Path directory, final HostImages saved) throws CheckpointException {
        return restore(new RestoreRequest(
                directory, saved, "ckpt", Map.of(), RestoreStreams.of(Path.of("/dev/null"), out, out), SOON, Progress.UNTOLD,
                Map.of(), false, OPEN));
    }

    RestoredTrees restore(final RestoreRequest request) throws CheckpointException {
        final RestoredTrees trees = criu.restore(request);
        restored.add(trees);
        return trees;
    }

    static int status(final RestoredTrees trees, final String name) throws Exception {
        assertTrue(trees.await(SOON), "waited " + SOON + " for " + name + " to end");
        return trees.exitStatuses().get(name).get();
    }

    /** "rank 0", "rank 1" and so on. */
    static ProcessRoot[] roots(final List<ProcessHandle> ranks) {
        return ranks.stream().map(rank -> new ProcessRoot("rank " + ranks.indexOf(rank), rank.pid())).toArray(ProcessRoot[]::new);
    }

    static void kill(final Process process) throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    static void kill(final ProcessHandle process) {
        process.destroyForcibly();
        TestPrograms.await("the end of " + process.pid(), () -> Proc.ended(process.pid()));
    }

    Path fifo(final String name) throws IOException, InterruptedException {
        run("mkfifo", folder.resolve(name).toString());
        return folder.resolve(name);
    }

    static void run(final String... command) throws IOException, InterruptedException {
        final CriuCommand.Result result = CriuCommand.run(List.of(command), SOON);
        assertEquals(0, result.status(), result::output);
    }

    /** The lines of a terminal's output that are numbers, whole ones. */
    static List<String> numbers(final Path file) {
        return TestPrograms.lines(file).stream().map(String::strip).filter(line -> line.matches("[0-9]+")).toList();
    }

    static void assertCounted(final List<String> lines, final int count) {
        assertEquals(IntStream.range(0, count).mapToObj(Integer::toString).toList(), lines);
    }
}
