// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.coordinator.images.Compression;
import org.shadowverbs.coordinator.memory.WriteCount;
import org.shadowverbs.coordinator.system.Libc;

/** Images: that they are whole, what stands in their way, and the processes that go on from them. */
final class CriuImagesTest extends RealProcesses {
    private static final int SIGTERM = 15;
    private static final int SIGKILL = 9;

    @Test
    void isTriedOut() {
        assertEquals(List.of(), criu.tryOut());
    }

    /** As CRIU before 4.2 does in a virtual machine without breakpoints. */
    @Test
    void oneThatPassesItsCheckAndNeverEndsADumpIsNamed() throws Exception {
        final Path hanging = script("hanging-criu", "exec sleep 1000");
        final long before = ProcessHandle.current().children().count();
        assertEquals("its dump of a process that sleeps was not done within 1 s", CriuTrial.of(hanging, Duration.ofSeconds(1)));
        // One that has ended is a child until the JVM has asked for its status.
        TestPrograms.await("both to be gone", () -> ProcessHandle.current().children().count() == before);
        final Path failing = script("failing-criu", "echo 'Error (criu/none.c:1): no breakpoints'; exit 1");
        assertEquals("its dump of a process that sleeps failed: no breakpoints", CriuTrial.of(failing, Duration.ofSeconds(30)));
    }

    @Test
    void runsOnFromItsImageWithFileOutputPutBack() throws Exception {
        final Process process = start(out, programs.counter(), "300", "7", "1");
        TestPrograms.awaitLines(out, 20);
        final Path directory = images();
        final HostImages saved = save(directory, request(root("rank 0", process)));
        // It runs on, and its output grows, before it is killed.
        final int length = TestPrograms.lines(out).size();
        TestPrograms.awaitLines(out, length + 20);
        kill(process);
        final String whole = Files.readString(out);

        final RestoredTrees trees = restore(directory, saved);
        assertEquals(7, status(trees, "rank 0"));
        assertCounted(TestPrograms.lines(out), 300);
        final long cut = saved.trees().getFirst().outputs().getFirst().bytes();
        assertEquals(whole.substring((int) cut), Files.readString(folder.resolve("out.tail-ckpt")));
    }

    /** What is safe does not depend on what the processes do meanwhile. */
    @ParameterizedTest
    @ValueSource(strings = {"lz4", "zstd", "auto"})
    void comesBackFromCompressedImagesAndNamesOneThatIsDamaged(final String method) throws Exception {
        final Process process = start(out, programs.counter(), "300", "7", "20");
        TestPrograms.awaitLines(out, 20);
        final Path directory = images();
        final WrittenImages written;
        try (FrozenTrees frozen = criu.freeze(request(root("rank 0", process)))) {
            written = frozen.write(directory, ImagePlan.WHOLE);
        }
        TestPrograms.awaitLines(out, TestPrograms.lines(out).size() + 20);
        final HostImages saved = written.seal(Compression.of(method), Progress.UNTOLD);
        kill(process);
        final ImageFile pages = saved.trees().getFirst().files().stream().filter(f -> f.name().startsWith("pages-1.img"))
                .findFirst().orElseThrow();
        if (!method.equals("auto")) {
            assertEquals("pages-1.img" + Compression.of(method).suffix(), pages.name());
            assertTrue(pages.bytes() < 4 << 20, "20 MiB with a period of 251 bytes are " + pages.bytes() + " bytes");
        }
        assertEquals("", saved.damage(directory));
        assertEquals(7, status(restore(directory, saved), "rank 0"));
        assertCounted(TestPrograms.lines(out), 300);

        final Path file = directory.resolve("tree-0").resolve(pages.name());
        try (RandomAccessFile cut = new RandomAccessFile(file.toFile(), "rw")) {
            cut.setLength(pages.bytes() - 1);
        }
        final CheckpointException refused = assertThrows(CheckpointException.class, () -> restore(directory, saved));
        assertTrue(refused.getMessage().contains(file + " is damaged: it has"), refused::getMessage);
        assertTrue(saved.damage(directory).contains(file + " is damaged: it has"), saved.damage(directory));
    }

    /**
     * Whole images, increments and copies in any order, of memory that changes in every way; and back from any of them, where the
     * program goes on to check what it holds.
     */
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3})
    void memoryIsRightAfterAnyChain(final long seed) throws Exception {
        final Path go = folder.resolve("go");
        final Process process = start(out, programs.changes(), go.toString());
        TestPrograms.awaitLines(out, 1);
        final WriteCount count = new WriteCount(
                Libc.descriptorOf(process.pid(), Integer.parseInt(TestPrograms.lines(out).getFirst())));
        Files.createFile(go);
        assertTrue(count.works() || CriuCommand.hasSoftDirty(CriuCommand.find()), "this kernel counts no writes");
        final Random random = new Random(seed);
        final Path checkpoints = Files.createDirectory(folder.resolve("checkpoints"));
        final List<HostImages> all = new ArrayList<>();
        final FreezeRequest request = request(root("rank 0", process));
        String base = "";
        for (int i = 0; i < 6; i++) {
            TestPrograms.awaitLines(out, TestPrograms.lines(out).size() + 1 + random.nextInt(20));
            final ImagePlan plan = new ImagePlan("ckpt-" + i, base, 4, Map.of(process.pid(), count));
            final Path images = Files.createDirectories(checkpoints.resolve(plan.name()).resolve("host"));
            if (random.nextInt(3) == 0) {
                assertTrue(criu.preCopy(request, images, plan) > 0, "something is copied");
            }
            final WrittenImages written;
            try (FrozenTrees frozen = criu.freeze(request)) {
                written = frozen.write(images, plan);
            }
            all.add(written.seal(random.nextBoolean() ? Compression.LZ4 : Compression.NONE, Progress.UNTOLD));
            base = random.nextInt(5) == 0 ? "" : plan.name(); // the next one is whole
        }
        count.close();
        assertTrue(all.stream().anyMatch(image -> !image.trees().getFirst().layers().isEmpty()), "none builds on another");
        kill(process);
        for (final int i : new int[] {5, random.nextInt(5)}) {
            final Path images = checkpoints.resolve("ckpt-" + i).resolve("host");
            assertEquals("", all.get(i).damage(images));
            try (RestoredTrees trees = restore(images, all.get(i))) {
                final int length = TestPrograms.lines(out).size();
                final CompletableFuture<Integer> ended = trees.exitStatuses().get("rank 0");
                TestPrograms.await("60 more lines of ckpt-" + i + ", or its end",
                        () -> TestPrograms.lines(out).size() >= length + 60 || ended.isDone());
                assertFalse(ended.isDone(), () -> "ckpt-" + i + " of " + all.get(i).trees().getFirst().layers() + " ended with "
                        + ended.join() + " after " + TestPrograms.lines(out).getLast());
            }
        }
        final ImageLayer layer = all.reversed().stream().flatMap(image -> image.trees().getFirst().layers().stream())
                .filter(l -> !l.checkpoint().isEmpty()).findFirst().orElseThrow();
        final HostImages last = all.reversed().stream().filter(image -> image.trees().getFirst().layers().contains(layer))
                .findFirst().orElseThrow();
        final Path images = checkpoints.resolve("ckpt-" + all.indexOf(last)).resolve("host");
        final Path pages = layer.folder(images).resolve(layer.files().stream().filter(file -> file.name().startsWith("pages-"))
                .findFirst().orElseThrow().name());
        Files.delete(pages);
        assertEquals("image " + pages + " is missing", last.damage(images));
    }

    /** The tree has been restored, so it has namespaces of its own, and CRIU is not a child of this process but a grandchild. */
    @Test
    void aSaveThatIsGivenUpEndsTheCriuInTheTreesOwnNamespacesAndTheTreeRunsOn() throws Exception {
        final Process process = start(out, programs.counter(), "100000", "9", "1");
        TestPrograms.awaitLines(out, 10);
        final Path directory = images();
        final HostImages saved = save(directory, request(root("rank 0", process)));
        kill(process);
        final RestoredTrees trees = restore(directory, saved);
        final ProcessRoot root = new ProcessRoot("rank 0", trees.hostPids().get("rank 0"));

        final Path held = fifo("held");
        final Path met = folder.resolve("met");
        final Path action = script("action", "[ \"$CRTOOLS_SCRIPT_ACTION\" != post-dump ] || { echo $PPID >'" + met
                + "'; cat '" + held + "'; }");
        final Path slow = script("criu", "exec '" + CriuCommand.find() + "' \"$@\" --action-script '" + action + "'");
        try (FrozenTrees frozen = new Criu(Path.of("/proc/self/mountinfo"), slow).freeze(request(root))) {
            final Path given = images();
            final List<Exception> failures = new CopyOnWriteArrayList<>();
            final Thread saving = startSaving(frozen, given, failures);
            TestPrograms.await("CRIU has read the tree", () -> Files.exists(met) && !TestPrograms.lines(met).isEmpty());
            final List<ProcessHandle> all = ProcessHandle.current().descendants()
                    .filter(p -> p.info().commandLine().orElse("").contains(given.toString())).toList();
            assertTrue(all.size() > 1, "nsenter and CRIU: " + all);
            saving.interrupt();
            saving.join();
            assertEquals("saving to " + given + ": interrupted", failures.getFirst().getMessage());
            all.forEach(p -> assertTrue(Proc.ended(p.pid()), p.info()::toString));
        }
        final int length = TestPrograms.lines(out).size();
        TestPrograms.awaitLines(out, length + 20);
        save(images(), request(root));
    }

    /** At any moment; of several processes, since CRIU takes the longest part of a small tree's time for what each of them has. */
    @Test
    void aSaveThatIsGivenUpInTheMidstLeavesTheProgramsAsTheyWere() throws Exception {
        final Path script = script("several",
                "for i in 1 2 3 4 5; do '" + programs.counter() + "' 1000000 0 1 >\"$0.$i\" & done; wait");
        final Process process = start(out, script.toString());
        final List<Path> outs = IntStream.rangeClosed(1, 5).mapToObj(i -> folder.resolve("several." + i)).toList();
        outs.forEach(file -> TestPrograms.awaitLines(file, 5));
        final FreezeRequest request = request(root("rank 0", process));
        final List<Exception> failures = new CopyOnWriteArrayList<>();
        for (int round = 0; round < 20; round++) {
            final Path given = images();
            try (FrozenTrees frozen = criu.freeze(request)) {
                final Thread saving = startSaving(frozen, given, failures);
                TestPrograms.await("CRIU to begin", () -> Files.exists(given.resolve("tree-0").resolve(CriuCommand.LOG)));
                Thread.sleep(round * 4L);
                saving.interrupt();
                saving.join();
            }
        }
        for (final Path file : outs) {
            TestPrograms.awaitLines(file, TestPrograms.lines(file).size() + 5);
        }
        assertEquals(5, process.children().count());
        assertTrue(failures.size() > 3, failures.size() + " of 20");
        save(images(), request);
    }

    /** What the process reads soon cannot be saved now. */
    @Test
    void sayWhatPassesByItself() throws Exception {
        final Process process = start(out, programs.opener(), "netlink");
        TestPrograms.awaitLines(out, 1);
        final PassingStateException e =
                assertThrows(PassingStateException.class, () -> save(images(), request(root("rank 0", process))));
        assertTrue(e.getMessage().contains("The socket has data to read"), e.getMessage());
    }

    @Test
    void whatDoesSomethingMayTakeLongerThanItsDeadline() throws Exception {
        final List<String> command = List.of("sleep", "2");
        final AtomicLong done = new AtomicLong();
        final List<Long> told = new CopyOnWriteArrayList<>();
        assertEquals(0, CriuCommand.run(command,
                new Stall(Duration.ofMillis(1), done::incrementAndGet, new Progress(told::add))).status());
        assertFalse(told.isEmpty());
        assertEquals(-1, CriuCommand.run(command, new Stall(Duration.ofMillis(1), () -> 7, Progress.UNTOLD)).status());
    }

    @Test
    void namesTheDeadlineWhenATreeDoesNotStandStillInTime() throws Exception {
        final Process process = start(out, programs.counter(), "100000", "9", "1");
        TestPrograms.awaitLines(out, 1);
        final CheckpointException e = assertThrows(CheckpointException.class, () -> criu.freeze(
                FreezeRequest.of(List.of(root("rank 0", process)), Set.of(), Duration.ZERO, Progress.UNTOLD)));
        assertTrue(e.getMessage().startsWith("rank 0: the deadline of 0 s has passed"), e.getMessage());
    }

    @Test
    void namesADamagedImageAndRestoresNothing() throws Exception {
        final Process process = start(out, programs.counter(), "1000", "0", "1");
        TestPrograms.awaitLines(out, 5);
        final Path directory = images();
        final HostImages saved = save(directory, request(root("rank 0", process)));
        kill(process);
        final Path pages = directory.resolve("tree-0").resolve("pages-1.img");
        try (RandomAccessFile file = new RandomAccessFile(pages.toFile(), "rw")) {
            file.seek(file.length() / 2);
            final int old = file.read();
            file.seek(file.length() / 2);
            file.write(old ^ 1);
        }
        final String before = Files.readString(out);
        final CheckpointException refused =
                assertThrows(CheckpointException.class, () -> restore(directory, saved));
        assertTrue(refused.getMessage().contains(pages + " is damaged"), refused::getMessage);
        assertEquals(before, Files.readString(out));
    }

    @Test
    void runsOnWhenThereIsNoSpace() throws Exception {
        final Process process = start(out, programs.counter(), "10000", "0", "30");
        TestPrograms.awaitLines(out, 5);
        final Path small = Files.createDirectory(folder.resolve("small"));
        run("mount", "-t", "tmpfs", "-o", "size=8m", "none", small.toString());
        try {
            final CheckpointException refused = assertThrows(CheckpointException.class,
                    () -> save(small, request(root("rank 0", process))));
            assertTrue(refused.getMessage().startsWith("no space for the images in " + small), refused::getMessage);
        } finally {
            run("umount", small.toString());
        }
        runsOn();
    }

    @Test
    void saysWhyAndLetsTheOthersRunOnWhenOneIsKilledInTheMiddle() throws Exception {
        final Process process = start(out, programs.counter(), "10000", "0", "1");
        final Process victim = start(folder.resolve("other"), programs.counter(), "10000", "0", "1");
        TestPrograms.awaitLines(out, 5);
        TestPrograms.awaitLines(folder.resolve("other"), 5);
        try (FrozenTrees frozen = criu.freeze(request(root("rank 0", process), root("rank 1", victim)))) {
            Libc.signal(victim.pid(), SIGKILL);
            final CheckpointException failed =
                    assertThrows(CheckpointException.class, () -> save(frozen, images()));
            assertTrue(failed.getMessage().startsWith("rank 1 (pid " + victim.pid() + ", counter): has ended"),
                    failed::getMessage);
        }
        runsOn();
        assertTrue(victim.waitFor(20, TimeUnit.SECONDS));
    }

    @Test
    void standsStillWhileFrozen() throws Exception {
        final Process process = start(out, programs.counter(), "10000", "0", "1");
        TestPrograms.awaitLines(out, 5);
        try (FrozenTrees frozen = criu.freeze(request(root("rank 0", process)))) {
            final long length = Files.size(out);
            save(frozen, images());
            assertEquals(length, Files.size(out));
            save(frozen, images());
            assertEquals(length, Files.size(out));
        }
        runsOn();
    }

    @Test
    void savesWithEachKindOfFreezer() throws Exception {
        final List<String> mounts = Files.readAllLines(Path.of("/proc/self/mountinfo")).stream()
                .filter(line -> line.contains(" - cgroup2 ") || line.matches(".* - cgroup .*[ ,]freezer.*")).toList();
        for (final String mount : mounts) {
            final Criu one = new Criu(Files.writeString(folder.resolve("mountinfo"), mount + "\n"));
            Files.deleteIfExists(out);
            final Process process = start(out, programs.counter(), "300", "6", "1");
            TestPrograms.awaitLines(out, 5);
            final Path directory = images();
            final HostImages saved;
            final String group = Files.readString(Proc.path(process.pid(), "cgroup"));
            try (FrozenTrees frozen = one.freeze(request(root("rank 0", process)))) {
                final long length = Files.size(out);
                saved = save(frozen, directory);
                assertEquals(length, Files.size(out), mount);
            }
            assertEquals(group, Files.readString(Proc.path(process.pid(), "cgroup")), mount);
            runsOn();
            try (FrozenTrees frozen = one.freeze(request(root("rank 0", process)))) {
                frozen.kill();
            }
            final RestoredTrees trees = restore(directory, saved);
            assertEquals(6, status(trees, "rank 0"), mount);
            trees.close();
            assertCounted(TestPrograms.lines(out), 300);
        }
    }

    @Test
    void passesSignalsOnAndEndsWithTheStatus() throws Exception {
        final Process process = start(out, programs.counter(), "100000", "0", "1");
        TestPrograms.awaitLines(out, 5);
        final Path directory = images();
        final HostImages saved = save(directory, request(root("rank 0", process)));
        kill(process);
        final RestoredTrees trees = restore(directory, saved);
        assertFalse(trees.exitStatuses().get("rank 0").isDone());
        trees.signal(SIGTERM);
        assertEquals(128 + SIGTERM, status(trees, "rank 0"));
    }

    private static Thread startSaving(final FrozenTrees frozen, final Path directory, final List<Exception> failures) {
        return Thread.ofPlatform().start(() -> {
            try {
                save(frozen, directory);
            } catch (final CheckpointException e) {
                failures.add(e);
            }
        });
    }

    private Path script(final String name, final String text) throws IOException {
        final Path script = folder.resolve(name);
        Files.writeString(script, "#!/bin/sh\n" + text + "\n");
        assertTrue(script.toFile().setExecutable(true));
        return script;
    }
}
