// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.shadowverbs.coordinator.images.Compression;

/** Processes that are saved by a user's commands: here by what a shell can do, a word that comes back. */
final class CommandCheckpointerTest {
    private static final Duration SOON = Duration.ofSeconds(60);
    private static final String RESTORE = "sleep 1000 & echo $! >\"$SHADOWVERBS_PID_FILE\"; wait $!";

    @TempDir
    private Path folder;
    private final List<Process> processes = new ArrayList<>();

    @AfterEach
    void end() {
        processes.forEach(process -> process.descendants().forEach(ProcessHandle::destroyForcibly));
        processes.forEach(Process::destroyForcibly);
    }

    private static char state(final long pid) {
        try {
            return Proc.ids(pid).state();
        } catch (final IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private Process start(final String... command) throws IOException {
        processes.add(new ProcessBuilder(command).start());
        return processes.getLast();
    }

    private static FreezeRequest request(final Process process) {
        return FreezeRequest.of(List.of(new ProcessRoot("rank 0", process.pid())), Set.of(), SOON, Progress.UNTOLD);
    }

    private static ProcessCheckpointer by(final String save, final String restore) {
        return new ChosenCheckpointer(new Criu(), () -> new UserCommands(save, restore));
    }

    private Path images() throws IOException {
        return Files.createDirectory(folder.resolve("images"));
    }

    private HostImages save(final ProcessCheckpointer checkpointer, final Process process) throws Exception {
        final Path images = images();
        try (FrozenTrees frozen = checkpointer.freeze(request(process))) {
            final HostImages saved = frozen.write(images, ImagePlan.WHOLE).seal(Compression.of("lz4"), Progress.UNTOLD);
            frozen.kill();
            return saved;
        }
    }

    private RestoreRequest restore(final HostImages saved) {
        final Path nothing = Path.of("/dev/null");
        return new RestoreRequest(folder.resolve("images"), saved, "ckpt", Map.of(), RestoreStreams.of(nothing, nothing, nothing),
                Duration.ofSeconds(20), Progress.UNTOLD, Map.of(), false, null);
    }

    @Test
    void stopsAllAndLetsAllRunOn() throws Exception {
        final Process process = start("sh", "-c", "sleep 1000 & sleep 1000");
        TestPrograms.await("two children", () -> process.descendants().count() == 2);
        final List<Long> all = new ArrayList<>(List.of(process.pid()));
        process.descendants().forEach(child -> all.add(child.pid()));
        final ProcessCheckpointer checkpointer = by("true", "true");
        try (FrozenTrees frozen = checkpointer.freeze(request(process))) {
            assertEquals(List.of(List.of("rank 0")), frozen.trees());
            for (final long pid : all) {
                assertEquals('T', state(pid));
            }
        }
        for (final long pid : all) {
            TestPrograms.await("pid " + pid + " to run on", () -> state(pid) == 'S');
        }
    }

    @Test
    void theRestoreCommandGetsWhatTheOtherHasLeft() throws Exception {
        final ProcessCheckpointer checkpointer = by("echo word of $SHADOWVERBS_PID >\"$SHADOWVERBS_FOLDER/word\"", "cat word >'"
                + folder + "/read'; " + RESTORE);
        final Process process = start("sleep", "1000");
        final HostImages saved = save(checkpointer, process);
        assertTrue(process.waitFor(60, TimeUnit.SECONDS));
        assertEquals(List.of("word"), saved.trees().getFirst().files().stream().map(ImageFile::name).toList());
        assertEquals(List.of(), checkpointer.verify(folder.resolve("images"), saved));
        try (RestoredTrees trees = checkpointer.restore(restore(saved))) {
            assertEquals("word of " + process.pid() + "\n", Files.readString(folder.resolve("read")));
            final long now = trees.hostPids().get("rank 0");
            assertEquals("sleep", Proc.ids(now).command());
            assertFalse(trees.exitStatuses().get("rank 0").isDone());
            trees.signal(15);
            assertEquals(128 + 15, trees.exitStatuses().get("rank 0").get(60, TimeUnit.SECONDS));
        }
        Files.writeString(folder.resolve("images/tree-0/word"), "lies of " + process.pid() + "\n");
        assertTrue(checkpointer.verify(folder.resolve("images"), saved).getFirst().problem().contains("is damaged"));
    }

    @Test
    void whatACommandDoesNotDoIsNamed() throws Exception {
        final Process process = start("sleep", "1000");
        final CheckpointException failed = assertThrows(CheckpointException.class, () -> save(by("echo why; exit 9", "true"), process));
        assertTrue(failed.getMessage().endsWith("the save command has failed (status 9): why"), failed.getMessage());
        TestPrograms.await("the process to run on", () -> state(process.pid()) == 'S');
        Files.delete(folder.resolve("images/tree-0"));
        Files.delete(folder.resolve("images"));
        final CheckpointException nothing = assertThrows(CheckpointException.class, () -> save(by("true", "true"), process));
        assertTrue(nothing.getMessage().contains("the save command has left no file in "), nothing.getMessage());
        Files.delete(folder.resolve("images/tree-0"));
        Files.delete(folder.resolve("images"));
        final ProcessCheckpointer ends = by("echo x >x", "exit 4");
        final HostImages saved = save(ends, process);
        final CheckpointException ended = assertThrows(CheckpointException.class, () -> ends.restore(restore(saved)));
        assertTrue(ended.getMessage().contains("the restore command has ended (status 4)"), ended.getMessage());
    }
}
