// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
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
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.coordinator.images.Compression;
import org.shadowverbs.coordinator.memory.WriteCount;
import org.shadowverbs.coordinator.system.Libc;

/** Real processes, a real CRIU, a real SIGKILL. */
@Timeout(90)
final class CriuTest {
    private static final Duration SOON = Duration.ofSeconds(30);
    /** All trees of a test are of one restore. */
    private static final RestoreGate OPEN = new RestoreGate() {
        @Override
        public void arrived() {
            return;
        }

        @Override
        public boolean await(final Duration timeout) {
            return true;
        }
    };
    private static final int SIGKILL = 9;
    private static final int SIGTERM = 15;
    private static final int SIGSTOP = 19;

    @TempDir
    Path folder;

    private final Criu criu = new Criu();
    private final List<Process> started = new ArrayList<>();
    private final List<RestoredTrees> restored = new ArrayList<>();
    private TestPrograms programs;
    private Path out;
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
            final Thread saving = Thread.ofPlatform().start(() -> {
                try {
                    save(frozen, given);
                } catch (final CheckpointException e) {
                    failures.add(e);
                }
            });
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

    private Path script(final String name, final String text) throws IOException {
        final Path script = folder.resolve(name);
        Files.writeString(script, "#!/bin/sh\n" + text + "\n");
        assertTrue(script.toFile().setExecutable(true));
        return script;
    }

    @Test
    void restoresASecondAndAThirdTimeAndWhilePidsAreInUse() throws Exception {
        final Process process = start(out, programs.counter(), "1500", "9", "1");
        TestPrograms.awaitLines(out, 10);
        Path directory = images();
        HostImages saved = save(directory, request(root("rank 0", process)));
        // The original lives on with the same pid; it writes to a file that no longer has the name.
        Files.move(out, folder.resolve("moved"));
        Files.writeString(out, Files.readString(folder.resolve("moved")));
        for (int round = 0; round < 2; round++) {
            final RestoredTrees trees = restore(directory, saved);
            final int length = TestPrograms.lines(out).size();
            TestPrograms.awaitLines(out, length + 10);
            directory = images();
            saved = save(directory, request(new ProcessRoot("rank 0", trees.hostPids().get("rank 0"))));
            assertEquals(process.pid(), saved.trees().getFirst().rootPid());
            assertTrue(process.isAlive());
            trees.close();
        }
        assertEquals(9, status(restore(directory, saved), "rank 0"));
        assertCounted(TestPrograms.lines(out), 1500);
    }

    @Test
    void givesPipesAnew() throws Exception {
        final Process process = process(programs.counter(), "600", "4", "0").start();
        started.add(process);
        final var reader = process.inputReader();
        final List<String> lines = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            lines.add(reader.readLine());
        }
        final Path directory = images();
        final HostImages saved;
        try (FrozenTrees frozen = criu.freeze(request(root("rank 0", process)))) {
            saved = save(frozen, directory);
            frozen.kill();
        }
        reader.lines().forEach(lines::add);
        Files.createFile(out);
        final RestoredTrees trees = restore(directory, saved);
        TestPrograms.awaitLines(out, 20);
        // What was given in place of the pipes can be saved, too.
        final Path again = images();
        final HostImages savedAgain = save(again, request(new ProcessRoot("rank 0", trees.hostPids().get("rank 0"))));
        trees.close();
        assertEquals(4, status(restore(again, savedAgain), "rank 0"));
        lines.addAll(TestPrograms.lines(out));
        assertCounted(lines, 600);
    }

    /** As mpirun does for its ranks: the terminal's master is in the tree, and is nothing that could be given anew. */
    @Test
    void keepsATerminalThatTheTreeHasMade() throws Exception {
        Files.createFile(out);
        final Process process = start(out, programs.terminal(), programs.counter(), "900", "4", "0");
        TestPrograms.await("20 lines in " + out, () -> numbers(out).size() >= 20);
        Path directory = images();
        HostImages saved;
        try (FrozenTrees frozen = criu.freeze(request(root("rank 0", process)))) {
            saved = save(frozen, directory);
            frozen.kill();
        }
        for (int round = 0; round < 2; round++) {
            final RestoredTrees trees = restore(directory, saved);
            final int lines = numbers(out).size();
            TestPrograms.await("20 lines more in " + out, () -> numbers(out).size() >= lines + 20);
            directory = images();
            saved = save(directory, request(new ProcessRoot("rank 0", trees.hostPids().get("rank 0"))));
            trees.close();
        }
        assertEquals(4, status(restore(directory, saved), "rank 0"));
        assertCounted(numbers(out), 900);
    }

    @Test
    void givesAnotherTerminal() throws Exception {
        final Path typescript = folder.resolve("typescript");
        final Process process = start(folder.resolve("shown"),
                "script", "-qfc", "exec " + programs.counter() + " 300 4 0", typescript.toString());
        TestPrograms.await("20 lines in " + typescript, () -> numbers(typescript).size() >= 20);
        final Path directory = images();
        final HostImages saved;
        try (FrozenTrees frozen =
                criu.freeze(request(new ProcessRoot("rank 0", process.children().findFirst().orElseThrow().pid())))) {
            saved = save(frozen, directory);
            frozen.kill();
        }
        assertTrue(process.waitFor(20, TimeUnit.SECONDS));
        final List<String> lines = new ArrayList<>(numbers(typescript));
        Files.createFile(out);
        final RestoredTrees trees = restore(directory, saved);
        assertEquals(4, status(trees, "rank 0"));
        trees.close();
        lines.addAll(numbers(out));
        assertCounted(lines, 300);
    }

    @Test
    void replacesThePipeThatTellsTheVerdict() throws Exception {
        final Path first = fifo("first");
        final Path second = fifo("second");
        final HostImages saved;
        final Path directory = images();
        final RestoredTrees verdict;
        try (RandomAccessFile writer = new RandomAccessFile(first.toFile(), "rw")) {
            // A pipe without a name, made by the shell; its writer stays outside the tree. The shell would say "Killed".
            final Process process = start(out, "sh", "-c",
                    "exec 2>/dev/null; cat " + first + " | { exec 5<&0 </dev/null; exec " + programs.listener() + " 5; }");
            TestPrograms.awaitLines(out, 1);
            writer.write('a');
            TestPrograms.await("got a", () -> TestPrograms.lines(out).contains("got a"));
            final ProcessHandle rank = process.descendants()
                    .filter(child -> child.info().command().orElse("").endsWith("listener"))
                    .findFirst().orElseThrow();
            final ProcessRoot root = new ProcessRoot("rank 0", rank.pid());
            final long pipe = Proc.descriptors(rank.pid()).stream()
                    .filter(descriptor -> descriptor.fd() == 5).findFirst().orElseThrow().inode();

            final List<Finding> findings = criu.inspect(request(root), null);
            assertEquals(1, findings.size(), findings::toString);
            assertTrue(findings.getFirst().toString().contains("fd 5): a pipe to pid"), findings::toString);

            saved = save(directory,
                    FreezeRequest.of(List.of(root), Set.of(pipe), Duration.ofSeconds(10), Progress.UNTOLD));
            kill(rank);
            try (RandomAccessFile other = new RandomAccessFile(second.toFile(), "rw")) {
                final RestoredTrees trees = restore(new RestoreRequest(directory, saved, "ckpt", Map.of(pipe, second),
                        RestoreStreams.of(Path.of("/dev/null"), out, out), SOON, Progress.UNTOLD, Map.of(), false, OPEN));
                other.write('b');
                TestPrograms.await("got b", () -> TestPrograms.lines(out).contains("got b"));
                assertFalse(trees.exitStatuses().get("rank 0").isDone());
                verdict = trees;
            }
            // The pipe has no writer any more.
            assertEquals(3, status(verdict, "rank 0"));
        }
    }

    /** Its process goes by this name until it is the program, and then it can be saved. */
    @Test
    void aLaunchThatIsBeingHandedOverPasses() throws Exception {
        final Path go = fifo("go");
        final Path child = Files.copy(Path.of("/bin/sh"), folder.resolve("shadowverbs-job"),
                java.nio.file.StandardCopyOption.COPY_ATTRIBUTES);
        final Process process = start(out, "sh", "-c", child + " -c 'echo up; read -r x <" + go + "; exec sleep 1000' & wait");
        TestPrograms.awaitLines(out, 1);
        assertThrows(PassingStateException.class, () -> criu.inspect(request(root("rank 0", process)), null));
        assertThrows(PassingStateException.class, () -> criu.freeze(request(root("rank 0", process))));
        Files.writeString(go, "\n");
        TestPrograms.await("the program", () -> process.descendants()
                .anyMatch(p -> p.info().command().orElse("").endsWith("/sleep")));
        save(images(), request(root("rank 0", process)));
    }

    @Test
    void keepsSharedMemoryShared() throws Exception {
        final Process process = start(out, programs.turns(), "600");
        TestPrograms.awaitLines(out, 20);
        final Path directory = images();
        final HostImages saved = save(directory, request(root("both", process)));
        assertEquals(2, saved.trees().getFirst().processes().size());
        process.descendants().forEach(ProcessHandle::destroyForcibly);
        kill(process);
        assertEquals(5, status(restore(directory, saved), "both"));
        assertCounted(TestPrograms.lines(out), 300);
    }

    /** Another program of the host it comes to may have a file of that name; and it takes its own along from there. */
    @Test
    void hasItsFilesOfSharedMemoryBesideOthersOfTheSameName() throws Exception {
        final Path go = folder.resolve("go");
        final Path file = Files.createTempFile(Path.of("/dev/shm"), "shadowverbs-test-", "");
        try {
            final Process process = start(out, "sh", "-c", "exec 7<>" + file + "; echo kept >&7; echo ready; while [ ! -e " + go
                    + " ]; do sleep 0.02; done; cat " + file + "; exit 3");
            TestPrograms.awaitLines(out, 1);
            final Path first = images();
            final HostImages saved = save(first, request(root("rank 0", process)));
            kill(process);
            Files.writeString(file, "of another program\n");

            final RestoredTrees trees = restoreBesideOthers(first, saved);
            final Path second = images();
            final HostImages again = save(second, request(new ProcessRoot("rank 0", trees.hostPids().get("rank 0"))));
            assertEquals(0, saved.trees().getFirst().memory());
            assertNotEquals(0, again.trees().getFirst().memory());
            trees.close();
            final RestoredTrees last = restoreBesideOthers(second, again);
            Files.createFile(go);
            assertEquals(3, status(last, "rank 0"));
            assertEquals(List.of("ready", "kept"), TestPrograms.lines(out));
            assertEquals("of another program\n", Files.readString(file));
        } finally {
            Files.delete(file);
        }
    }

    private RestoredTrees restoreBesideOthers(final Path directory, final HostImages saved) throws CheckpointException {
        return restore(new RestoreRequest(
                directory, saved, "ckpt", Map.of(), RestoreStreams.of(Path.of("/dev/null"), out, out), SOON, Progress.UNTOLD,
                Map.of(), true, OPEN));
    }

    @Test
    void carriesTcpWithinATree() throws Exception {
        final Process process = start(out, programs.opener(), "tcp");
        TestPrograms.awaitLines(out, 10);
        final Path directory = images();
        final HostImages saved;
        try (FrozenTrees frozen = criu.freeze(request(root("both", process)))) {
            saved = save(frozen, directory);
        }
        runsOn();
        try (FrozenTrees frozen = criu.freeze(request(root("both", process)))) {
            frozen.kill();
        }
        assertEquals(8, status(restore(directory, saved), "both"));
        assertCounted(TestPrograms.lines(out), 300);
    }

    @Test
    void saysWhichTcpConnectionCannotBeMadeAgain() throws Exception {
        final Process process = start(out, programs.opener(), "tcp");
        TestPrograms.awaitLines(out, 10);
        final Path directory = images();
        final HostImages saved = save(directory, request(root("both", process)));
        try (FrozenTrees frozen = criu.freeze(request(root("both", process)))) {
            frozen.kill();
        }
        final TreeImage tree = saved.trees().getFirst();
        final TreeImage wrong = new TreeImage(tree.name(), tree.directory(), tree.processes(), tree.files(), tree.outputs(), tree.pipes(),
                tree.mapped(), tree.shellJob(), tree.connections(), tree.listeners(), tree.alive(),
                List.of(new UnacceptedConnection(new TcpConnection("127.0.0.1", 1, "127.0.0.1", 2), null, false, "")), tree.memory(),
                tree.dumpNanos(), tree.layers(), tree.clocks());
        final CheckpointException refused = assertThrows(CheckpointException.class, () -> restore(directory, new HostImages(
                saved.implementation(), saved.host(), saved.kernel(), saved.cpuModel(), saved.cpuFlags(), List.of(wrong), saved.bytes(),
                saved.freezeNanos(), saved.saveNanos())));
        assertTrue(refused.getMessage().contains("no socket has the connection from port 1 to port 2"), refused::getMessage);
    }

    /** This process is as one on another host, to which connections have come from here that it had not accepted. */
    @Test
    void makesAConnectionAgainWhoseClientHadClosedIt() throws Exception {
        try (ServerSocket listener = new ServerSocket(0, 8, InetAddress.getLoopbackAddress())) {
            listener.setSoTimeout(20_000);
            final Process process = start(out, programs.counter(), "300", "7", "1");
            TestPrograms.awaitLines(out, 20);
            final UnacceptedEnd first = closed(listener, "all that was sent");
            try (FrozenTrees frozen = criu.freeze(request(root("rank 0", process)))) {
                assertEquals(TcpEnds.NONE, frozen.holdConnections());
                assertEquals(List.of(), frozen.acceptConnections());
                frozen.makeAgain(List.of(first));
                save(frozen, images());
            }
            assertComes(first, listener);

            final UnacceptedEnd second = closed(listener, "");
            final Path directory = images();
            final HostImages saved;
            try (FrozenTrees frozen = criu.freeze(request(root("rank 0", process)))) {
                frozen.holdConnections();
                frozen.acceptConnections();
                frozen.makeAgain(List.of(second));
                saved = save(frozen, directory);
                frozen.kill();
            }
            final RestoredTrees trees = restore(directory, saved);
            assertComes(second, listener);
            assertEquals(7, status(trees, "rank 0"));
        }
    }

    private static UnacceptedEnd closed(final ServerSocket listener, final String data) throws IOException {
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return new UnacceptedEnd(new TcpConnection("127.0.0.1", free.getLocalPort(), "127.0.0.1", listener.getLocalPort()), 7L,
                    data.getBytes(StandardCharsets.UTF_8));
        }
    }

    private static void assertComes(final UnacceptedEnd expected, final ServerSocket listener) throws IOException {
        try (Socket socket = listener.accept()) {
            assertEquals(expected.connection().localPort(), socket.getPort());
            assertArrayEquals(expected.data(), socket.getInputStream().readAllBytes());
        }
    }

    /** Also when others are restored much later, and nobody answers an end that asks whether the other is alive. */
    @ParameterizedTest
    @ValueSource(ints = {0, 6})
    void carriesTcpBetweenTrees(final int seconds) throws Exception {
        final Process process = start(out, programs.opener(), "tcp", "300");
        TestPrograms.awaitLines(out, 10);
        final List<ProcessHandle> ranks = process.children().toList();
        assertEquals(2, ranks.size());
        final ProcessRoot[] roots = roots(ranks);
        final Path directory = images();
        final HostImages saved = save(directory, request(roots));
        assertEquals(2, saved.trees().size());
        runsOn();
        try (FrozenTrees frozen = criu.freeze(request(roots))) {
            frozen.kill();
        }
        kill(process);
        final long opens = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        final RestoredTrees trees = restore(new RestoreRequest(
                directory, saved, "ckpt", Map.of(), RestoreStreams.of(Path.of("/dev/null"), out, out), SOON, Progress.UNTOLD,
                Map.of(), false, new RestoreGate() {
                    @Override
                    public void arrived() {
                        return;
                    }

                    @Override
                    public boolean await(final Duration timeout) throws InterruptedException {
                        Thread.sleep(timeout);
                        return System.nanoTime() - opens > 0;
                    }
                }));
        assertTrue(trees.await(SOON));
        assertEquals(Set.of(0, 8), Set.of(trees.exitStatuses().get("rank 0").get(),
                trees.exitStatuses().get("rank 1").get()));
        assertCounted(TestPrograms.lines(out), 300);
    }

    /** They have their connections for as long as they have not ended. */
    @Test
    void waitsForKilledProcessesThatHaveNotEndedYet() throws Exception {
        final Process process = start(out, programs.opener(), "tcp", "300");
        TestPrograms.awaitLines(out, 10);
        final List<ProcessHandle> ranks = process.children().toList();
        final ProcessRoot[] roots = roots(ranks);
        final Path directory = images();
        final HostImages saved = save(directory, request(roots));
        final List<ProcessHandle> all = Stream.concat(Stream.of(process.toHandle()), ranks.stream()).toList();
        for (final ProcessHandle each : all) {
            assertTrue(Libc.kill(each.pid(), SIGSTOP));
        }
        final CompletableFuture<Boolean> late = CompletableFuture.supplyAsync(
                () -> all.stream().allMatch(ProcessHandle::destroyForcibly), CompletableFuture.delayedExecutor(500, TimeUnit.MILLISECONDS));
        final RestoredTrees trees = restore(directory, saved);
        assertTrue(late.get());
        assertEquals(Set.of(0, 8), Set.of(status(trees, "rank 0"), status(trees, "rank 1")));
        assertCounted(TestPrograms.lines(out), 300);
    }

    @Test
    void refusesTreesThatShareMemoryWithNothingLaunchedAboveThem() throws Exception {
        final Process process = start(out, programs.turns(), "100000", "three");
        TestPrograms.awaitLines(out, 3);
        final List<ProcessRoot> roots = process.children()
                .map(child -> new ProcessRoot("rank " + child.pid(), child.pid())).toList();
        assertEquals(2, roots.size());
        final CheckpointException refused = assertThrows(CheckpointException.class,
                () -> criu.freeze(FreezeRequest.of(roots, Set.of(), Duration.ofSeconds(10), Progress.UNTOLD)));
        assertTrue(refused.getMessage().contains("shares memory"), refused::getMessage);
        runsOn();
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

    private void runsOn() {
        TestPrograms.awaitLines(out, TestPrograms.lines(out).size() + 5);
    }

    private ProcessBuilder process(final String... command) {
        return new ProcessBuilder(TestPrograms.command(command))
                .redirectInput(ProcessBuilder.Redirect.from(new java.io.File("/dev/null")))
                .redirectError(ProcessBuilder.Redirect.INHERIT);
    }

    private Process start(final Path output, final String... command) throws IOException {
        final Process process = process(command)
                .redirectOutput(output.toFile())
                .redirectError(folder.resolve("err").toFile())
                .start();
        started.add(process);
        return process;
    }

    private static ProcessRoot root(final String name, final Process process) {
        return new ProcessRoot(name, process.pid());
    }

    /** Of one host: what one process has read another may compare with its own. */
    @Test
    void theClocksOfAllTreesGoOnFromWhereTheyStood() throws Exception {
        final Process first = start(out, programs.counter(), "100000", "1", "0");
        final Process second = start(folder.resolve("out of another"), programs.counter(), "100000", "1", "0");
        Path directory = images();
        HostImages saved;
        try (FrozenTrees frozen = criu.freeze(request(root("rank 0", first), root("rank 1", second)))) {
            saved = save(frozen, directory);
            frozen.kill();
        }
        Clocks before = new Clocks(0, 0);
        for (int round = 0; round < 2; round++) {
            final Clocks pause = pause();
            final RestoredTrees trees = restore(directory, saved);
            final long pid = trees.hostPids().get("rank 0");
            final Clocks ahead = Clocks.offsets(pid);
            assertEquals(ahead, Clocks.offsets(trees.hostPids().get("rank 1")));
            final Clocks lost = before.minus(ahead).minus(pause);
            assertTrue(lost.monotonic() >= 0 && lost.boottime() >= 0, before + ", then " + ahead + ", for " + pause);
            before = ahead;
            directory = images();
            saved = save(directory, request(new ProcessRoot("rank 0", pid),
                    new ProcessRoot("rank 1", trees.hostPids().get("rank 1"))));
            trees.close();
        }
        final Clocks later = new Clocks(1_000_000_000_000_000L, 2_000_000_000_000_000L);
        final HostImages elsewhere = new HostImages(saved.implementation(), saved.host(), saved.kernel(), saved.cpuModel(),
                saved.cpuFlags(), saved.trees().stream().map(tree -> new TreeImage(tree.name(), tree.directory(),
                        tree.processes(), tree.files(), tree.outputs(), tree.pipes(), tree.mapped(), tree.shellJob(), tree.connections(),
                        tree.listeners(), tree.alive(), tree.unaccepted(), tree.memory(), tree.dumpNanos(), tree.layers(),
                        tree.clocks().plus(later))).toList(),
                saved.bytes(), saved.freezeNanos(), saved.saveNanos());
        final Clocks now = Clocks.now();
        final Clocks ahead = Clocks.offsets(restore(directory, elsewhere).hostPids().get("rank 0"));
        final Clocks seen = ahead.plus(now).minus(elsewhere.trees().getFirst().clocks());
        assertTrue(seen.monotonic() <= 0 && seen.monotonic() > -later.monotonic() && ahead.monotonic() > 0, seen.toString());
        assertTrue(ahead.boottime() > ahead.monotonic(), ahead.toString());
    }

    /** How much time it has let pass, on each clock. */
    private static Clocks pause() {
        final Clocks begin = Clocks.now();
        TestPrograms.await("a while", () -> Clocks.now().minus(begin).monotonic() > 300_000_000);
        return Clocks.now().minus(begin);
    }

    private static FreezeRequest request(final ProcessRoot... roots) {
        return FreezeRequest.of(List.of(roots), Set.of(), Duration.ofSeconds(10), Progress.UNTOLD);
    }

    private Path images() throws IOException {
        return Files.createDirectory(folder.resolve("images-" + images++));
    }

    private static HostImages save(final FrozenTrees frozen, final Path directory) throws CheckpointException {
        return frozen.write(directory, ImagePlan.WHOLE).seal(Compression.NONE, Progress.UNTOLD);
    }

    private HostImages save(final Path directory, final FreezeRequest request) throws CheckpointException {
        try (FrozenTrees frozen = criu.freeze(request)) {
            return save(frozen, directory);
        }
    }

    private RestoredTrees restore(final Path directory, final HostImages saved) throws CheckpointException {
        return restore(new RestoreRequest(
                directory, saved, "ckpt", Map.of(), RestoreStreams.of(Path.of("/dev/null"), out, out), SOON, Progress.UNTOLD,
                Map.of(), false, OPEN));
    }

    private RestoredTrees restore(final RestoreRequest request) throws CheckpointException {
        final RestoredTrees trees = criu.restore(request);
        restored.add(trees);
        return trees;
    }

    private static int status(final RestoredTrees trees, final String name) throws Exception {
        assertTrue(trees.await(SOON), "waited " + SOON + " for " + name + " to end");
        return trees.exitStatuses().get(name).get();
    }

    /** "rank 0", "rank 1" and so on. */
    private static ProcessRoot[] roots(final List<ProcessHandle> ranks) {
        return ranks.stream().map(rank -> new ProcessRoot("rank " + ranks.indexOf(rank), rank.pid())).toArray(ProcessRoot[]::new);
    }

    private static void kill(final Process process) throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    private static void kill(final ProcessHandle process) {
        process.destroyForcibly();
        TestPrograms.await("the end of " + process.pid(), () -> Proc.ended(process.pid()));
    }

    private Path fifo(final String name) throws IOException, InterruptedException {
        run("mkfifo", folder.resolve(name).toString());
        return folder.resolve(name);
    }

    private static void run(final String... command) throws IOException, InterruptedException {
        final CriuCommand.Result result = CriuCommand.run(List.of(command), SOON);
        assertEquals(0, result.status(), result::output);
    }

    /** The lines of a terminal's output that are numbers, whole ones. */
    private static List<String> numbers(final Path file) {
        return TestPrograms.lines(file).stream().map(String::strip).filter(line -> line.matches("[0-9]+")).toList();
    }

    private static void assertCounted(final List<String> lines, final int count) {
        assertEquals(IntStream.range(0, count).mapToObj(Integer::toString).toList(), lines);
    }
}
