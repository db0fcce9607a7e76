// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.shadowverbs.coordinator.images.Compression;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;
import org.shadowverbs.coordinator.manifest.Level;
import org.shadowverbs.coordinator.manifest.Levels;
import org.shadowverbs.coordinator.manifest.Levels.Copy;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.protocol.HostMessages.Save;
import org.shadowverbs.coordinator.protocol.HostMessages.Seal;
import org.shadowverbs.coordinator.protocol.HostMessages.Sealed;
import org.shadowverbs.coordinator.protocol.LevelMessages.CopyImages;
import org.shadowverbs.coordinator.protocol.LevelMessages.ImagesAt;
import org.shadowverbs.coordinator.protocol.LevelMessages.ImagesCopied;
import org.shadowverbs.coordinator.protocol.LevelMessages.RetainImages;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.store.EmbeddedStore;

/** What a coordinator has copied, when, and what it says of it, with the agents of two hosts that copy nothing. */
@Timeout(120)
final class LevelCopiesTest {
    private static final String LOCAL = "/local/%h";

    @TempDir
    private Path root;
    private final List<String> lines = new CopyOnWriteArrayList<>();
    private final List<Host> hosts = new ArrayList<>();
    private Coordinator coordinator;

    /** An agent. */
    private final class Host extends FakeAgent {
        final BlockingQueue<CopyImages> copies = new LinkedBlockingQueue<>();
        final BlockingQueue<RetainImages> kept = new LinkedBlockingQueue<>();

        Host(final String name, final long epoch) throws IOException {
            super(coordinator.port(), name, epoch, List.of());
            channel.write(new ImagesAt(1, "token of " + name));
            start();
        }

        @Override
        void answer(final Message message) throws IOException {
            switch (message) {
                case Save m -> {
                    assertEquals(LOCAL, m.plan().local());
                    super.answer(m);
                }
                case Seal m -> channel.write(new Sealed(m.epoch(), BYTES, part(), "/local/" + name + "/job"));
                case CopyImages m -> copies.add(m);
                case RetainImages m -> kept.add(m);
                default -> super.answer(message);
            }
        }

        CopyImages next() throws InterruptedException {
            final CopyImages copy = copies.poll(60, TimeUnit.SECONDS);
            assertNotNull(copy, "no copy is asked of host " + name);
            return copy;
        }

        void copied(final CopyImages m, final String problem) throws IOException {
            channel.write(new ImagesCopied(m.id(), m.from().isEmpty() ? "" : "/local/" + name + "/job", 5, problem));
        }
    }

    @BeforeEach
    void start() throws Exception {
        coordinator = coordinator(0, false);
        join(0);
    }

    private Coordinator coordinator(final int port, final boolean recover) throws IOException {
        return new Coordinator(new CoordinatorOptions("localhost", port, null, root.resolve("run"), root.resolve("checkpoints"),
                Interval.NONE, RecoveryOptions.NONE, 1, new ImageChoice(Compression.AUTO, 1, false, new LevelChoice(LOCAL, true, 2)),
                false, "", 20, recover), (run, job) -> new EmbeddedStore(run, new TestStore(), recover));
    }

    private void join(final long epoch) throws IOException {
        hosts.clear();
        hosts.add(new Host("a", epoch));
        hosts.add(new Host("b", epoch));
    }

    @AfterEach
    void stop() {
        hosts.forEach(host -> host.channel.close());
        coordinator.close();
    }

    private Future<CheckpointRun.Outcome> begin(final boolean kill) {
        return coordinator.conductor().submit(() -> coordinator.checkpoint(kill, false, false, lines::add));
    }

    private Path checkpoint() throws Exception {
        final CheckpointRun.Outcome outcome = begin(false).get(60, TimeUnit.SECONDS);
        assertEquals("", outcome.problem());
        return outcome.folder();
    }

    private static Levels levels(final Path folder) throws Exception {
        return Levels.read(folder, ManifestFile.read(folder));
    }

    private static Copy copy(final Level level, final String whose, final String at) {
        return level == Level.SHARED ? Copy.shared("host-" + whose) : new Copy("host-" + whose, level, at, "/local/" + at + "/job");
    }

    private void awaitDone() throws InterruptedException {
        while (!coordinator.job().locked(() -> coordinator.job().copies().isDone())) {
            Thread.sleep(5);
        }
    }

    /** Does all that hosts are asked for one checkpoint. */
    private void copyAll(final int each) throws Exception {
        for (final Host host : hosts) {
            for (int i = 0; i < each; i++) {
                host.copied(host.next(), "");
            }
        }
        awaitDone();
    }

    @Test
    void whatIsConfirmedIsClaimedAndNothingElse() throws Exception {
        final Path folder = checkpoint();
        assertEquals(List.of(copy(Level.LOCAL, "a", "a"), copy(Level.LOCAL, "b", "b")), levels(folder).copies());
        assertTrue(lines.stream().anyMatch(line -> line.contains("COMMIT") && line.endsWith("level local: a, b")), lines.toString());
        final CopyImages toB = hosts.get(1).next();
        assertEquals("host-a", toB.directory());
        assertEquals("token of a", toB.from().getFirst().token());
        final CopyImages toA = hosts.get(0).next();
        hosts.get(1).copied(toB, "");
        hosts.get(0).copied(toA, "no space");
        awaitDone();
        assertEquals(List.of(copy(Level.LOCAL, "a", "a"), copy(Level.LOCAL, "b", "b"), copy(Level.PARTNER, "a", "b")),
                levels(folder).copies());
        assertTrue(hosts.get(0).copies.isEmpty() && hosts.get(1).copies.isEmpty(), "one of two is flushed");
    }

    @Test
    void theNextOneWaitsAndTheOneBeforeStaysUntilTheNewOneHasItsCopies() throws Exception {
        final Path first = checkpoint();
        final CopyImages toA = hosts.get(0).next();
        hosts.get(1).copied(hosts.get(1).next(), "");
        final Future<CheckpointRun.Outcome> next = begin(false);
        // Which of the two it names depends on whether it has heard of the other one already.
        while (lines.stream().noneMatch(line -> line.matches("the checkpoint waits for the copy of host [ab]'s images in "
                + first.getFileName() + " to level partner on [ab]"))) {
            Thread.sleep(5);
        }
        assertFalse(next.isDone());
        hosts.get(0).copied(toA, "");
        final Path second = next.get(60, TimeUnit.SECONDS).folder();
        assertTrue(Files.exists(first), "of two hosts only one need be lost now");
        assertEquals(0, levels(second).unflushed());
        copyAll(2);
        assertFalse(Files.exists(first), "one is kept");
        assertTrue(levels(second).allShared(ManifestFile.read(second)));
    }

    @Test
    void theNewestThatIsFlushedStays() throws Exception {
        checkpoint();
        copyAll(1);
        final Path flushed = checkpoint();
        copyAll(2);
        final Path third = checkpoint();
        hosts.forEach(host -> host.kept.clear());
        copyAll(1);
        assertTrue(Files.exists(flushed) && Files.exists(third));
        final RetainImages kept = hosts.get(0).kept.poll(60, TimeUnit.SECONDS);
        assertEquals(List.of(flushed.getFileName().toString(), third.getFileName().toString()), kept.names());
        assertEquals(CheckpointFolder.epoch(third), kept.epoch());
        final Path fourth = checkpoint();
        copyAll(2);
        assertFalse(Files.exists(flushed) || Files.exists(third));
        assertTrue(Files.exists(fourth));
    }

    @Test
    void whatCouldNotBeFlushedIsMadeUpForByTheNextOne() throws Exception {
        checkpoint();
        copyAll(1);
        final Path second = checkpoint();
        for (final Host host : hosts) {
            for (int i = 0; i < 2; i++) {
                final CopyImages copy = host.next();
                host.copied(copy, copy.from().isEmpty() ? "the file system is full" : "");
            }
        }
        awaitDone();
        assertFalse(levels(second).allShared(ManifestFile.read(second)));
        final Path third = checkpoint();
        copyAll(2);
        assertTrue(levels(third).allShared(ManifestFile.read(third)));
    }

    @Test
    void theOneThatEndsTheJobIsFlushedBeforeAnybodyHearsOfTheEnd() throws Exception {
        final Future<CheckpointRun.Outcome> last = begin(true);
        hosts.get(0).copied(hosts.get(0).next(), "");
        hosts.get(1).copied(hosts.get(1).next(), "");
        hosts.get(0).copied(hosts.get(0).next(), "");
        final CopyImages flush = hosts.get(1).next();
        assertTrue(flush.from().isEmpty());
        while (lines.stream().noneMatch(line -> line.startsWith("the end of the job waits for the copy of host "))) {
            Thread.sleep(5);
        }
        assertFalse(last.isDone());
        hosts.get(1).copied(flush, "the file system is full");
        final CheckpointRun.Outcome outcome = last.get(60, TimeUnit.SECONDS);
        assertTrue(outcome.problem().endsWith("failed: the file system is full"), outcome.problem());
        assertEquals(1, levels(outcome.folder()).copies().stream().filter(copy -> copy.level() == Level.SHARED).count());
    }

    @Test
    void whenAllIsFlushedAtTheEndAPartnerIsNotMissed() throws Exception {
        final Future<CheckpointRun.Outcome> last = begin(true);
        for (final Host host : hosts) {
            for (int i = 0; i < 2; i++) {
                final CopyImages copy = host.next();
                host.copied(copy, copy.from().isEmpty() ? "" : "no space");
            }
        }
        final CheckpointRun.Outcome outcome = last.get(60, TimeUnit.SECONDS);
        assertEquals("", outcome.problem());
        assertTrue(lines.stream().anyMatch(line -> line.startsWith("COPY") && line.endsWith("to level shared")), lines.toString());
    }

    @Test
    void aCopyIsGivenUpWhenItsHostIsLost() throws Exception {
        final Path folder = checkpoint();
        hosts.get(0).next();
        hosts.get(1).copied(hosts.get(1).next(), "");
        hosts.get(0).channel.close();
        awaitDone();
        assertEquals(List.of(copy(Level.LOCAL, "a", "a"), copy(Level.LOCAL, "b", "b"), copy(Level.PARTNER, "a", "b")),
                levels(folder).copies());
    }

    @Test
    void aCoordinatorThatIsStartedAnewClaimsNothingThatItHasNotHeard() throws Exception {
        final Path folder = checkpoint();
        final CopyImages before = hosts.get(1).next();
        final int port = coordinator.port();
        coordinator.vanish("as if it were killed");
        coordinator = coordinator(port, true);
        join(CheckpointFolder.epoch(folder));
        hosts.get(1).copied(before, "");
        final Path next = checkpoint();
        final CopyImages now = hosts.get(1).next();
        assertNotEquals(before.id(), now.id());
        assertEquals(List.of(copy(Level.LOCAL, "a", "a"), copy(Level.LOCAL, "b", "b")), levels(folder).copies());
        assertEquals(0, levels(next).unflushed(), "it goes on counting where the other one stopped");
    }
}
