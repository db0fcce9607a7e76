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
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.coordinator.system.Libc;

/** What a tree shares with others, and is given again: pipes, terminals, memory, pids, clocks and connections. */
final class CriuSurroundingsTest extends RealProcesses {
    private static final int SIGSTOP = 19;

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
        final Process process = start(process(programs.counter(), "600", "4", "0"));
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
}
