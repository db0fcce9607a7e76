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
        process = new ProcessBuilder("setsid", new TestPrograms(folder).counter(), "10000", "0", "1")
                .redirectInput(Path.of("/dev/null").toFile()).redirectOutput(out.toFile())
                .redirectError(ProcessBuilder.Redirect.DISCARD).start();
        TestPrograms.awaitLines(out, 5);
        request = FreezeRequest.of(List.of(new ProcessRoot("rank 0", process.pid())), Set.of(), Duration.ofSeconds(10),
                Progress.UNTOLD);
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
