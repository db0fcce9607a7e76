// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What cannot be saved is named, with its process and descriptor, while everything runs. */
@Timeout(60)
final class SharingTest {
    @TempDir
    Path folder;

    private TestPrograms programs;
    private Path out;
    private Process process;

    @BeforeEach
    void prepare() {
        programs = new TestPrograms(folder);
        out = folder.resolve("out");
    }

    @AfterEach
    void end() {
        process.descendants().forEach(ProcessHandle::destroyForcibly);
        process.destroyForcibly();
    }

    @Test
    void namesAUnixSocketToAProcessOutside() throws Exception {
        start("unix");
        final long child = process.children().findFirst().orElseThrow().pid();
        assertEquals("rank 0 (pid " + child + ", opener, fd " + fd(child, "socket:[") + "): a Unix socket to pid "
                + process.pid() + " (opener) outside the job; close it before the checkpoint", only(child));
    }

    @Test
    void acceptsAUnixSocketWithinTheTree() throws Exception {
        start("unix");
        assertEquals(List.of(), findings(process.pid()));
    }

    /** As the top of a restored job root is for a moment, when it asks for its ranks. */
    @Test
    void aConnectionToTheAgentItselfPasses() throws Exception {
        final Path socket = folder.resolve("agent");
        try (ServerSocketChannel agent = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            agent.bind(UnixDomainSocketAddress.of(socket));
            start("connected", socket.toString());
            try (SocketChannel accepted = agent.accept()) {
                assertTrue(accepted.isConnected());
                final Sharing sharing = Sharing.of(ProcessTree.of(List.of(new ProcessRoot("rank 0", process.pid()))), request(process.pid()));
                assertEquals(List.of(), sharing.findings());
                assertEquals("rank 0 (pid " + process.pid() + ", opener, fd " + fd(process.pid(), "socket:[") + "): asks its agent",
                        sharing.passing().getFirst().toString());
            }
        }
    }

    @Test
    void namesADevice() throws Exception {
        start("device", "/dev/loop-control", "/dev/fuse");
        assertTrue(only(process.pid()).contains("): the device /dev/"), () -> findings(process.pid()).toString());
    }

    @Test
    void namesSystemVSharedMemory() throws Exception {
        start("shm");
        assertTrue(only(process.pid()).contains("System V shared memory"), () -> findings(process.pid()).toString());
    }

    @Test
    void namesALargeDeletedFile() throws Exception {
        final Path file = folder.resolve("large");
        start("deleted", file.toString());
        assertTrue(only(process.pid()).contains(file + " was deleted and is larger than 64 MiB"),
                () -> findings(process.pid()).toString());
    }

    /** Children of a shell come and go while it is looked at; those of this one have its terminal. */
    @Test
    void whatHasEndedMeanwhileIsLeftOut() throws Exception {
        process = new ProcessBuilder("setsid", "script", "-qfc", "sleep 1000; true", "/dev/null").redirectErrorStream(true)
                .redirectOutput(out.toFile()).start();
        while (process.descendants().noneMatch(child -> "sleep".equals(command(child)))) {
            Thread.onSpinWait();
        }
        final List<ProcessTree> trees = ProcessTree.of(List.of(new ProcessRoot("rank 0", process.pid())));
        assertTrue(trees.getFirst().members().getLast().descriptors().getFirst().target().startsWith("/dev/pts/"), trees.toString());
        final List<ProcessHandle> children = process.descendants().toList();
        children.forEach(ProcessHandle::destroyForcibly);
        for (final ProcessHandle child : children) {
            child.onExit().get();
        }
        assertEquals(List.of(), Sharing.of(trees, request(process.pid())).findings());
    }

    private static String command(final ProcessHandle process) {
        try {
            return Proc.ids(process.pid()).command();
        } catch (java.io.IOException e) {
            return ""; // it has ended
        }
    }

    @Test
    void refusesATreeThatHoldsThisProcess() throws Exception {
        start("none");
        final ProcessRoot self = new ProcessRoot("rank 0", ProcessHandle.current().pid());
        final CheckpointException refused = assertThrows(CheckpointException.class,
                () -> new Criu().freeze(FreezeRequest.of(List.of(self), Set.of(),
                        Duration.ofSeconds(10), Progress.UNTOLD)));
        assertTrue(refused.getMessage().contains("is itself below what is to be saved"), refused::getMessage);
    }

    private void start(final String... arguments) throws Exception {
        final List<String> command = TestPrograms.command(programs.opener());
        command.addAll(List.of(arguments));
        process = new ProcessBuilder(command)
                .redirectInput(new java.io.File("/dev/null"))
                .redirectOutput(out.toFile())
                .redirectError(folder.resolve("err").toFile())
                .start();
        TestPrograms.awaitLines(out, 1);
    }

    private static int fd(final long pid, final String target) throws Exception {
        return Proc.descriptors(pid).stream()
                .filter(descriptor -> descriptor.target().startsWith(target)).findFirst().orElseThrow().fd();
    }

    private static String only(final long pid) {
        final List<Finding> findings = findings(pid);
        assertEquals(1, findings.size(), findings::toString);
        return findings.getFirst().toString();
    }

    private static FreezeRequest request(final long pid) {
        return FreezeRequest.of(List.of(new ProcessRoot("rank 0", pid)), Set.of(), Duration.ofSeconds(10), Progress.UNTOLD);
    }

    private static List<Finding> findings(final long pid) {
        try {
            return new Criu().inspect(request(pid), null);
        } catch (final CheckpointException e) {
            throw new AssertionError(e);
        }
    }
}
