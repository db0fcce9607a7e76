// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.shadowverbs.coordinator.images.Compression;

/** A real CRIU that stands by for a real process. */
@Timeout(90)
final class CriuPreparationTest {
    @TempDir
    Path folder;

    private final Criu criu = new Criu();
    private Path out;
    private Process process;
    private FreezeRequest request;
    private Path images;

    @BeforeEach
    void ready() throws Exception {
        final Readiness readiness = criu.check();
        assertTrue(readiness.ready(), () -> "these tests need root and CRIU: " + readiness.findings());
        out = folder.resolve("out");
        images = Files.createDirectory(folder.resolve("images"));
        process = counter("out");
        request = FreezeRequest.of(List.of(new ProcessRoot("rank 0", process.pid())), Set.of(), Duration.ofSeconds(10),
                Progress.UNTOLD);
    }

    private Process counter(final String name) throws Exception {
        final Path lines = folder.resolve(name);
        final Process started = new ProcessBuilder("setsid", new TestPrograms(folder).counter(), "10000", "0", "1")
                .redirectInput(Path.of("/dev/null").toFile()).redirectOutput(lines.toFile())
                .redirectError(ProcessBuilder.Redirect.DISCARD).start();
        TestPrograms.awaitLines(lines, 5);
        return started;
    }

    @AfterEach
    void end() {
        process.destroyForcibly();
    }

    @Test
    void theImageIsMadeByTheOneThatStoodBy() throws Exception {
        final Preparation prepared = criu.prepare(request, images, ImagePlan.WHOLE);
        assertEquals(1, standingBy().size());
        TestPrograms.awaitLines(out, TestPrograms.lines(out).size() + 20);
        final Path log = Files.createLink(folder.resolve("log"), log());
        save(prepared);
        assertTrue(Files.isSameFile(log, log()));
    }

    @Test
    void nothingStaysOfACheckpointThatIsGivenUpBefore() throws Exception {
        final Preparation prepared = criu.prepare(request, images, ImagePlan.WHOLE);
        assertEquals(1, standingBy().size());
        prepared.close();
        assertNothingStays();
    }

    @Test
    void nothingStaysOfACheckpointThatIsGivenUpWhenAllStandStill() throws Exception {
        criu.freeze(request, criu.prepare(request, images, ImagePlan.WHOLE)).close();
        assertNothingStays();
    }

    @Test
    void anotherOneMakesTheImageWhenTheOneThatStoodByIsGone() throws Exception {
        final Preparation prepared = criu.prepare(request, images, ImagePlan.WHOLE);
        final Path log = Files.createLink(folder.resolve("log"), log());
        for (final ProcessHandle one : standingBy()) {
            one.destroyForcibly();
            TestPrograms.await("the end of " + one.pid(), () -> Proc.ended(one.pid()));
        }
        save(prepared);
        assertFalse(Files.isSameFile(log, log()));
    }

    /** The second tree becomes the first, and a new one the second. */
    @Test
    void treesThatHaveOtherNumbersSinceAnotherOneHasEndedAreSaved() throws Exception {
        final Process second = counter("second");
        final Preparation prepared = criu.prepare(FreezeRequest.of(List.of(new ProcessRoot("rank 0", process.pid()),
                new ProcessRoot("rank 1", second.pid())), Set.of(), Duration.ofSeconds(10), Progress.UNTOLD), images, ImagePlan.WHOLE);
        assertEquals(2, standingBy().size());
        process.destroyForcibly().waitFor();
        final Process third = counter("third");
        try (FrozenTrees frozen = criu.freeze(FreezeRequest.of(List.of(new ProcessRoot("rank 1", second.pid()),
                new ProcessRoot("rank 2", third.pid())), Set.of(), Duration.ofSeconds(10), Progress.UNTOLD), prepared)) {
            final HostImages saved = frozen.write(images, ImagePlan.WHOLE).seal(Compression.NONE, Progress.UNTOLD);
            assertEquals("", saved.damage(images));
            assertEquals(List.of("rank 1", "rank 2"), saved.trees().stream().map(TreeImage::name).toList());
        } finally {
            second.destroyForcibly();
            third.destroyForcibly();
        }
        assertEquals(List.of(), standingBy());
    }

    @Test
    void whatWasNotPreparedToTheEndIsNotInTheWay() throws Exception {
        for (final String left : List.of("tree-0", "tree-1", "parent-of-tree-0")) {
            Files.writeString(Files.createDirectory(images.resolve(left)).resolve(CriuCommand.LOG), "ended early");
        }
        save(Preparation.NOTHING);
        try (Stream<Path> files = Files.list(images)) {
            assertEquals(List.of(images.resolve("tree-0")), files.toList());
        }
    }

    private void save(final Preparation prepared) throws Exception {
        try (FrozenTrees frozen = criu.freeze(request, prepared)) {
            final HostImages saved = frozen.write(images, ImagePlan.WHOLE).seal(Compression.NONE, Progress.UNTOLD);
            assertEquals("", saved.damage(images));
            assertTrue(Files.exists(images.resolve("tree-0/inventory.img")));
        }
        assertNothingStays();
    }

    private void assertNothingStays() {
        assertEquals(List.of(), standingBy());
        TestPrograms.awaitLines(out, TestPrograms.lines(out).size() + 20);
    }

    private Path log() {
        return images.resolve("tree-0").resolve(CriuCommand.LOG);
    }

    private List<ProcessHandle> standingBy() {
        return ProcessHandle.current().descendants()
                .filter(one -> one.info().commandLine().orElse("").contains(images.toString())).toList();
    }
}
