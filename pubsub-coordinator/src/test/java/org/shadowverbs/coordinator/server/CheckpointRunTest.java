// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.shadowverbs.coordinator.agent.Agent;
import org.shadowverbs.coordinator.agent.AgentOptions;
import org.shadowverbs.coordinator.client.Contribution;
import org.shadowverbs.coordinator.client.LinkLostException;
import org.shadowverbs.coordinator.client.OwnKey;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.client.RankLink;
import org.shadowverbs.coordinator.client.ReceiverRegister;
import org.shadowverbs.coordinator.client.Reply;
import org.shadowverbs.coordinator.client.Verdict;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentWelcome;
import org.shadowverbs.coordinator.protocol.HostMessages.Tree;
import org.shadowverbs.coordinator.protocol.HostMessages.TreeState;
import org.shadowverbs.coordinator.protocol.LaunchMessages.RegisterTree;
import org.shadowverbs.coordinator.protocol.LaunchMessages.Registered;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.RunDirectory;
import org.shadowverbs.coordinator.store.MemoryStore;
import org.shadowverbs.coordinator.store.TestWait;

/** The checkpoint with ranks over real sockets: all phases, and what happens when something goes wrong in each. */
@Timeout(120)
class CheckpointRunTest {
    private TestJob job;

    @BeforeEach
    void start() throws Exception {
        job = new TestJob(20);
    }

    @AfterEach
    void stop() throws Exception {
        job.close();
    }

    @Test
    void goesThroughAllPhasesAndTheJobRunsOn() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final TestRank c = job.rank("c");
        b.drainRounds = 4;
        final CheckpointRun.Outcome o = job.checkpoint();
        assertEquals("", o.problem());
        assertEquals(job.checkpoints.resolve("ckpt-" + job.agent.job() + "-1"), o.folder());
        assertEquals(3, o.ranks());
        assertEquals(4, o.rounds());
        for (final TestRank rank : List.of(a, b, c)) {
            rank.awaitOpen(1);
            assertEquals(1, rank.verdicts.size());
            assertEquals(Verdict.Outcome.RESUMED, rank.verdicts.getFirst().outcome());
            assertEquals(1, rank.verdicts.getFirst().epoch());
            assertEquals("hca", rank.verdicts.getFirst().backend());
            assertEquals(12, rank.replies.size()); // ANNOUNCE CLOSE 4xDRAIN 2xDETACH and four on the way back
            assertEquals("a DRAIN 3", text(rank, 5, "state-a"));
            assertEquals("b DRAIN 3", text(rank, 5, "state-b"));
            assertEquals(Set.of("state-a", "state-b"), rank.replies.get(5).found().keySet());
            assertFalse(rank.replies.get(4).unanimous());
            assertTrue(rank.replies.get(5).unanimous());
            assertEquals(3, rank.replies.get(6).ranks());
        }
        assertEquals(0, job.images.frozen.get());
        final Manifest m = ManifestFile.read(o.folder());
        assertEquals(1, m.epoch());
        assertEquals(List.of("a", "b", "c"),
                m.hosts().getFirst().ranks().stream().map(Manifest.RankPart::uid).toList());
        assertEquals(Set.copyOf(m.hosts().getFirst().ranks().stream().map(Manifest.RankPart::verdictInode).toList()),
                job.images.lastRequest.replacedPipes());
        assertEquals(List.of("ckpt-" + m.job() + "-1", "latest"), job.folders());
        assertEquals(o.folder(), job.checkpoints.resolve("latest").toRealPath());
    }

    /** It is there when its folder has been renamed; what fails then does not make it invalid. */
    @Test
    void whatFailsAfterTheRenameIsAWarningAboutAGoodCheckpoint() throws Exception {
        final TestRank a = job.rank("a");
        Files.createDirectories(job.checkpoints.resolve("latest").resolve("in the way"));
        final CheckpointRun.Outcome o = job.checkpoint();
        assertEquals("", o.problem());
        a.awaitOpen(1);
        assertEquals(Verdict.Outcome.RESUMED, a.verdicts.getFirst().outcome());
        assertEquals(1, ManifestFile.read(o.folder()).epoch());
        assertEquals(1, job.lines.stream().filter(line -> line.startsWith("warning: ") && line.contains("latest")).count(),
                job.lines.toString());
    }

    /** Nothing has begun, so nothing stays open: the next one finds the job as it was. */
    @Test
    void aCheckpointDirectoryThatCannotBeUsedLeavesNoEpochOpen() throws Exception {
        final TestRank a = job.rank("a");
        Files.writeString(job.checkpoints, "a file");
        final CheckpointRun.Outcome failed = job.checkpoint();
        assertNull(failed.folder());
        assertTrue(failed.problem().contains(job.checkpoints.toString()), failed.problem());
        Files.delete(job.checkpoints);
        final CheckpointRun.Outcome o = job.checkpoint();
        assertEquals("", o.problem());
        assertNotNull(o.folder());
        a.awaitOpen(2);
    }

    /** What ranks want in a round grows with their queue pairs, and a drain that does not end has thousands of rounds. */
    @Test
    void keepsNothingOfRoundsThatAreAnswered() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final AtomicInteger most = new AtomicInteger();
        b.drainRounds = 100;
        a.before = (rank, phase, round) -> most.accumulateAndGet(unanswered(), Math::max);
        final CheckpointRun.Outcome o = job.checkpoint();
        assertEquals("", o.problem());
        assertEquals(100, o.rounds());
        a.awaitOpen(1);
        b.awaitOpen(1);
        assertEquals(1, most.get());
    }

    /** Each round changes some values and wants some more; a rank that adds up its replies knows what has been published. */
    @Test
    void theRoundsOfADrainSayWhatIsNew() throws Exception {
        final int rounds = 60;
        final int ranks = 3;
        final int keys = 8;
        final List<TestRank> all = List.of(job.rank("a"), job.rank("b"), job.rank("c"));
        for (final TestRank rank : all) {
            final int number = rank.number();
            rank.drainRounds = rounds;
            rank.brings = (phase, round, agree) -> {
                final Map<String, byte[]> values = new HashMap<>();
                final Set<String> wanted = new HashSet<>();
                for (int key = 0; phase == Phase.DRAIN && key < ranks * keys; key++) {
                    if (key / keys == number && chosen(key, round)) {
                        values.put("k" + key, bytes(round + ""));
                    }
                    if (wanted(number, key) == round) {
                        wanted.add("k" + key);
                    }
                }
                return new Contribution(values, wanted, agree, "");
            };
        }
        assertEquals("", job.checkpoint().problem());
        for (final TestRank rank : all) {
            rank.awaitOpen(1);
            final Map<String, String> known = new HashMap<>();
            final Map<String, String> published = new HashMap<>();
            for (int round = 0; round < rounds; round++) {
                final Map<String, byte[]> found = rank.replies.get(2 + round).found(); // after ANNOUNCE and CLOSE
                found.forEach((key, value) -> known.put(key, new String(value, StandardCharsets.UTF_8)));
                for (int key = 0; key < ranks * keys; key++) {
                    if (chosen(key, round)) {
                        published.put("k" + key, round + "");
                    }
                    final String expected = wanted(rank.number(), key) > round ? null : published.get("k" + key);
                    assertEquals(expected, known.get("k" + key), rank.uid + " k" + key + " in round " + round);
                    assertEquals(expected != null && (wanted(rank.number(), key) == round || chosen(key, round)),
                            found.containsKey("k" + key), "only what is new: k" + key + " in round " + round);
                }
            }
        }
    }

    /** Whether the key gets a new value in that round: some soon, some late, all but the first of each rank more than once. */
    private static boolean chosen(final int key, final int round) {
        return round % (key % 8 * 5 + 3) == key % 3 && (key % 8 > 0 || round < 3);
    }

    /** The round in which that rank begins to want the key. */
    private static int wanted(final int rank, final int key) {
        return (key * 7 + rank * 3) % 5 * 4;
    }

    private int unanswered() {
        return job.coordinator.job().epoch().unanswered();
    }

    @Test
    void aCoordinatorThatFailsInTheMidstGivesUpTheCheckpointAndTheJobRunsOn() throws Exception {
        final TestRank a = job.rank("a");
        final CheckpointRun.Outcome o = job.coordinator.conductor().submit(() -> job.coordinator.checkpoint(false, false, false, line -> {
            if (line.startsWith("DRAIN")) {
                throw new OutOfMemoryError("as if");
            }
        })).get(60, TimeUnit.SECONDS);
        assertEquals("java.lang.OutOfMemoryError: as if", o.problem());
        a.awaitOpen(1);
        assertEquals(List.of(), job.folders());
        assertEquals("", job.checkpoint().problem());
        a.awaitOpen(2);
    }

    private static String text(final TestRank rank, final int reply, final String key) {
        return new String(rank.replies.get(reply).found().get(key), StandardCharsets.UTF_8);
    }

    @Test
    void keepsThePreviousCheckpointAndRemovesOlderOnes() throws Exception {
        final TestRank a = job.rank("a");
        for (int epoch = 1; epoch <= 3; epoch++) {
            assertEquals("", job.checkpoint().problem());
            a.awaitOpen(epoch);
        }
        final String name = "ckpt-" + job.agent.job() + "-";
        assertEquals(List.of(name + 2, name + 3, "latest"), job.folders());
    }

    @ParameterizedTest
    @EnumSource(value = Phase.class, names = {"ANNOUNCE", "CLOSE", "DRAIN", "DETACH"})
    void aRankThatDiesStopsTheCheckpointAndTheOthersRunOn(final Phase when) throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        b.before = (rank, phase, round) -> {
            if (phase == when) {
                rank.die();
            }
        };
        final CheckpointRun.Outcome o = job.checkpoint();
        assertNull(o.folder());
        assertTrue(o.problem().startsWith("rank 1 (host testhost, pid " + b.process.pid() + ") died"), o.problem());
        assertTrue(o.problem().contains(when.name()), o.problem());
        a.awaitOpen(1);
        assertEquals(List.of(), job.folders());
        assertEquals("", job.checkpoint().problem());
        a.awaitOpen(2);
    }

    @Test
    void aRankThatDiesDetachedIsAbsentInTheReattachment() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final Future<CheckpointRun.Outcome> outcome = job.beginToSave();
        b.process.destroyForcibly();
        // The save that is no longer wanted is interrupted: saveMayEnd stays as it is.
        final CheckpointRun.Outcome o = outcome.get(60, TimeUnit.SECONDS);
        assertNull(o.folder());
        assertTrue(o.problem().contains("rank 1") && o.problem().contains("died") && o.problem().contains("SAVE"),
                o.problem());
        a.awaitOpen(1);
        assertEquals(Verdict.Outcome.ABORTED, a.verdicts.getFirst().outcome());
        assertEquals(List.of(1), a.replies.getLast().departed());
        assertEquals(0, job.images.frozen.get());
        assertEquals(List.of(), job.folders());
    }

    /** A gap in the numbers tells of ranks between the others. */
    @Test
    void ofTheRanksThatLeftBeforeTheLastOneIsTold() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final TestRank c = job.rank("c");
        b.die();
        c.die();
        final Job all = job.coordinator.job();
        final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (all.locked(() -> all.ranks().size()) > 1) {
            assertTrue(System.nanoTime() < end, "the two have not been missed within 20 s");
            Thread.sleep(5);
        }
        assertEquals("", job.checkpoint().problem());
        a.awaitOpen(1);
        assertEquals(Set.of(List.of(2)), Set.copyOf(a.replies.stream().map(Reply::departed).toList()));
        final TestRank d = job.rank("d");
        assertEquals("", job.checkpoint().problem());
        a.awaitOpen(2);
        assertEquals(3, d.number.get());
        assertEquals(Set.of(List.of()), Set.copyOf(d.replies.stream().map(Reply::departed).toList()));
    }

    @Test
    void aRankThatFailsSaysWhy() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final AtomicBoolean once = new AtomicBoolean(true);
        b.before = (rank, phase, round) -> {
            if (phase == Phase.DRAIN && once.getAndSet(false)) {
                rank.link.fail(1, phase, "QP 0x11: its peer is outside the job");
            }
        };
        final CheckpointRun.Outcome o = job.checkpoint();
        assertNull(o.folder());
        assertEquals("rank 1 (host testhost, pid " + b.process.pid()
                + ") failed in DRAIN: QP 0x11: its peer is outside the job", o.problem());
        a.awaitOpen(1);
        b.awaitOpen(1);
        assertTrue(a.aborts.getFirst().reattach());
        assertEquals(o.problem(), a.aborts.getFirst().getMessage());
    }

    @Test
    void queuePairsThatAreAsAnnouncedArePairedAlready() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final List<String> exchanges = new CopyOnWriteArrayList<>();
        b.before = (rank, phase, round) -> {
            if (phase != null && phase.ordinal() < Phase.DRAIN.ordinal()) {
                exchanges.add(phase + " " + round);
            }
        };
        assertEquals("", job.checkpoint().problem());
        b.awaitOpen(1);
        assertEquals(List.of("ANNOUNCE 0", "CLOSE 0"), exchanges);
        a.asAnnounced = false; // and of b they are
        exchanges.clear();
        assertEquals("", job.checkpoint().problem());
        b.awaitOpen(2);
        assertEquals(List.of("ANNOUNCE 0", "CLOSE 0", "CLOSE 1", "PAIRED 0"), exchanges);
    }

    @Test
    void whoRefusesBeforeAllArePairedHarmsNobody() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final AtomicBoolean once = new AtomicBoolean(true);
        a.asAnnounced = false;
        b.before = (rank, phase, round) -> {
            if (phase == Phase.PAIRED && once.getAndSet(false)) {
                rank.link.fail(1, Phase.CLOSE, "QP 0x11: its peer is outside the job");
            }
        };
        final CheckpointRun.Outcome o = job.checkpoint();
        assertNull(o.folder());
        assertTrue(o.problem().endsWith("failed in CLOSE: QP 0x11: its peer is outside the job"), o.problem());
        a.awaitOpen(1);
        b.awaitOpen(1);
        assertFalse(a.aborts.getFirst().reattach());
        assertFalse(b.aborts.getFirst().reattach());
    }

    @Test
    void aDeadlineNamesRankPhaseAndWhatItWaitsFor() throws Exception {
        job.close();
        job = new TestJob(2);
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final CompletableFuture<Void> go = new CompletableFuture<>();
        final AtomicBoolean once = new AtomicBoolean(true);
        b.before = (rank, phase, round) -> {
            if (phase == Phase.CLOSE && once.getAndSet(false)) {
                rank.link.progress(1, phase, 3, 4, "thread 77 in ibv_reg_mr");
                go.orTimeout(30, TimeUnit.SECONDS).join();
            }
        };
        final Future<CheckpointRun.Outcome> outcome = job.begin();
        a.awaitOpen(1);
        go.complete(null);
        b.awaitOpen(1);
        assertEquals("rank 1 (host testhost, pid " + b.process.pid()
                + "), waiting for thread 77 in ibv_reg_mr, did not finish CLOSE within 2 s",
                outcome.get(60, TimeUnit.SECONDS).problem());
    }

    @Test
    void aDrainThatDoesNotEndNamesWhoDisagrees() throws Exception {
        job.close();
        job = new TestJob(1);
        final TestRank a = job.rank("a");
        a.drainRounds = Integer.MAX_VALUE;
        final CheckpointRun.Outcome o = job.checkpoint();
        assertTrue(o.problem().startsWith("rank 0 (host testhost, pid " + a.process.pid()
                + "), waiting for QP 7 of a peer, did not finish DRAIN within 1 s"), o.problem());
        a.awaitOpen(1);
    }

    /** A rank whose agent was lost before may run, and be connected to those that have one. */
    @Test
    void aRankWithoutAnAgentIsNotLeftOut() throws Exception {
        final TestRank a = job.rank("a");
        job.agent.close();
        job.coordinator.job().epoch().await(() -> job.coordinator.job().agents().isEmpty(), Duration.ofSeconds(20),
                () -> "the agent is still there");
        // Its last session: one that is closed in mid-connection may have had two.
        final AgentSession lost = job.coordinator.job().locked(() -> job.coordinator.job().ranks().iterator().next().agent);
        final Path run = Files.createDirectories(job.root.resolve("other"));
        try (Agent other = new Agent(new AgentOptions("localhost", job.coordinator.port(), "other", run,
                RunDirectory.agentSocket(run), "", false, "same", "", List.of(), false, List.of(), List.of()), job.images,
                new MemoryStore())) {
            assertTrue(other.awaitJoined(20_000), other.refusal());
            final Future<CheckpointRun.Outcome> outcome = job.begin();
            job.coordinator.job().epoch().await(() -> job.coordinator.job().epoch().participants() == 1, Duration.ofSeconds(20),
                    () -> "the checkpoint does not begin");
            job.coordinator.job().giveUpAgent(lost);
            final CheckpointRun.Outcome o = outcome.get(60, TimeUnit.SECONDS);
            assertNull(o.folder());
            assertEquals("rank 0 (host testhost, pid " + a.process.pid()
                    + ") has no agent; start one on its host: shadowverbs agent --daemon -h HOST -p PORT", o.problem());
            assertEquals(o.problem(), job.checkpoint().problem());
            // It finds one.
            final TestRank again = new TestRank("a", RunDirectory.agentSocket(run));
            job.ranks.add(again);
            assertEquals(a.number(), again.number());
            assertEquals("", job.checkpoint().problem());
        }
    }

    /** Each host writes its images itself. */
    @Test
    void aHostThatDoesNotSeeTheDirectoryIsToldWhy() throws Exception {
        final TestRank a = job.rank("a");
        a.before = (rank, phase, round) -> {
            if (phase == null) { // all have detached; nothing is saved yet
                Files.move(job.checkpoints.resolve(job.folders().getFirst()), job.checkpoints.resolveSibling("elsewhere"));
            }
        };
        final CheckpointRun.Outcome o = job.checkpoint();
        assertNull(o.folder());
        assertTrue(o.problem().startsWith("SAVE failed on host testhost: this host does not see " + job.checkpoints),
                o.problem());
        a.awaitOpen(1);
    }

    @Test
    void aRankThatJoinsMakesItBeginAgain() throws Exception {
        final TestRank a = job.rank("a");
        final AtomicBoolean once = new AtomicBoolean(true);
        a.before = (rank, phase, round) -> {
            if (phase == Phase.DRAIN && once.getAndSet(false)) {
                try {
                    job.rank("b");
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }
        };
        final CheckpointRun.Outcome o = job.checkpoint();
        assertEquals("", o.problem());
        assertEquals(2, o.ranks());
        assertEquals(2, o.epoch());
        assertTrue(job.lines.stream().anyMatch(l -> l.startsWith("the checkpoint begins again: rank 1 ")),
                job.lines.toString());
        a.awaitOpen(1);
        a.awaitOpen(2);
        assertEquals(List.of("ckpt-" + job.agent.job() + "-2", "latest"), job.folders());
    }

    @Test
    void aRankThatEndsNormallyMakesItBeginAgain() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        b.before = (rank, phase, round) -> {
            if (phase == Phase.CLOSE) {
                rank.link.goodbye(0);
                rank.die();
            }
        };
        final CheckpointRun.Outcome o = job.checkpoint();
        assertEquals("", o.problem());
        assertEquals(1, o.ranks());
        a.awaitOpen(1);
        a.awaitOpen(2);
    }

    @Test
    void whatCannotBeFrozenIsNamedAndTheJobRunsOn() throws Exception {
        final TestRank a = job.rank("a");
        job.images.freezeFails = "rank 0: fd 7 is a socket to pid 1; close it";
        final CheckpointRun.Outcome o = job.checkpoint();
        assertNull(o.folder());
        assertEquals("FREEZE failed on host testhost: rank 0: fd 7 is a socket to pid 1; close it", o.problem());
        a.awaitOpen(1);
        assertEquals(Verdict.Outcome.ABORTED, a.verdicts.getFirst().outcome());
        assertTrue(a.verdicts.getFirst().reason().contains("fd 7"));
        assertEquals(List.of(), job.folders());
    }

    @Test
    void aSaveThatFailsLeavesThePreviousCheckpoint() throws Exception {
        final TestRank a = job.rank("a");
        final CheckpointRun.Outcome good = job.checkpoint();
        a.awaitOpen(1);
        job.images.saveFails = "no space left for the image";
        final CheckpointRun.Outcome o = job.checkpoint();
        assertNull(o.folder());
        assertEquals("SAVE failed on host testhost: no space left for the image", o.problem());
        a.awaitOpen(2);
        assertEquals(List.of(good.folder().getFileName().toString(), "latest"), job.folders());
        assertEquals(1, ManifestFile.read(job.checkpoints.resolve("latest")).epoch());
        job.images.saveFails = null;
        assertEquals("", job.checkpoint().problem());
        a.awaitOpen(3);
        assertEquals(0, job.images.frozen.get());
    }

    /** The ranks run on before the images are safe; what becomes of these is no matter of theirs. */
    @Test
    void imagesThatCannotBeMadeSafeLeaveThePreviousCheckpoint() throws Exception {
        final TestRank a = job.rank("a");
        final CheckpointRun.Outcome good = job.checkpoint();
        a.awaitOpen(1);
        job.images.sealFails = "no space left for what is compressed";
        final CheckpointRun.Outcome o = job.checkpoint();
        assertNull(o.folder());
        assertEquals(0, o.stoppedNanos());
        assertEquals("SEAL failed on host testhost: no space left for what is compressed", o.problem());
        a.awaitOpen(2);
        assertEquals(Verdict.Outcome.RESUMED, a.verdicts.getLast().outcome());
        assertEquals(List.of(good.folder().getFileName().toString(), "latest"), job.folders());
        assertEquals(1, ManifestFile.read(job.checkpoints.resolve("latest")).epoch());
        assertEquals(0, job.images.frozen.get());
        job.images.sealFails = null;
        final CheckpointRun.Outcome next = job.checkpoint();
        assertEquals("", next.problem());
        assertEquals(1L, ManifestFile.read(next.folder()).parent());
        a.awaitOpen(3);
    }

    /** With --kill the job waits for that. */
    @Test
    void imagesThatCannotBeMadeSafeEndNoJob() throws Exception {
        final TestRank a = job.rank("a");
        job.images.sealFails = "no space left for what is compressed";
        final CheckpointRun.Outcome o = job.coordinator.conductor().submit(
                () -> job.coordinator.checkpoint(true, false, false, job.lines::add)).get(60, TimeUnit.SECONDS);
        assertNull(o.folder());
        a.awaitOpen(1);
        assertEquals(Verdict.Outcome.ABORTED, a.verdicts.getFirst().outcome());
        assertEquals(0, job.images.killed.get());
        assertEquals(List.of(), job.folders());
    }

    @Test
    void aCheckpointDirectoryThatCannotBeMadeIsNamed() throws Exception {
        job.rank("a");
        Files.writeString(job.checkpoints, "a file");
        final CheckpointRun.Outcome o = job.checkpoint();
        assertNull(o.folder());
        assertTrue(o.problem().contains(job.checkpoints.toString()), o.problem());
        Files.delete(job.checkpoints);
        assertEquals("", job.checkpoint().problem());
    }

    @Test
    void killEndsTheJobAfterTheCommit() throws Exception {
        final TestRank a = job.rank("a");
        final CheckpointRun.Outcome o = job.coordinator.conductor().submit(
                () -> job.coordinator.checkpoint(true, false, false, job.lines::add)).get(60, TimeUnit.SECONDS);
        assertNotNull(o.folder());
        assertTrue(a.process.waitFor(10, TimeUnit.SECONDS));
        assertEquals(1, job.images.killed.get());
        assertTrue(ManifestFile.read(o.folder()).killed());
    }

    @Test
    void withNothingToSaveItSaysSo() throws Exception {
        assertEquals("no program runs in this job: there is nothing to save", job.checkpoint().problem());
    }

    @Test
    void theCoordinatorIsLostBeforeDetach() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final TestRank.Held held = a.holdBefore(Phase.DRAIN);
        job.begin();
        held.await();
        job.replaceCoordinator(20);
        held.goOn();
        a.awaitOpen(1);
        b.awaitOpen(1);
        assertEquals("the coordinator was lost", b.aborts.getFirst().getMessage());
        assertTrue(b.aborts.getFirst().reattach());
        final CheckpointRun.Outcome o = job.checkpoint();
        assertEquals("", o.problem());
        assertEquals(2, o.epoch());
        assertEquals(List.of(0, 1), List.of(a.number(), b.number()));
    }

    @Test
    void theCoordinatorIsLostWhileImagesAreSaved() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        job.beginToSave();
        job.replaceCoordinator(20);
        job.images.saveMayEnd.complete(null);
        a.awaitOpen(1);
        b.awaitOpen(1);
        assertEquals(Verdict.Outcome.ABORTED, a.verdicts.getFirst().outcome());
        assertEquals("the coordinator was lost", a.verdicts.getFirst().reason());
        assertEquals(0, job.images.frozen.get());
        job.images.saveBegun = null;
        assertEquals("", job.checkpoint().problem());
        a.awaitOpen(2);
    }

    @Test
    void theCoordinatorIsLostInTheReattachment() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final TestRank.Held held = a.holdBefore(Phase.CONNECTED);
        job.begin();
        held.await();
        job.replaceCoordinator(20);
        held.goOn();
        a.awaitOpen(1);
        b.awaitOpen(1);
        assertEquals("", job.checkpoint().problem());
        a.awaitOpen(2);
        b.awaitOpen(2);
    }

    /** The coordinator's thread has not looked before: it has come, and its ranks come with another. */
    @Test
    void anAgentThatHasComeBackAndIsLostAgainIsNotWaitedFor() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final TestRank.Held held = a.holdBefore(Phase.CONNECTED);
        job.begin();
        held.await();
        job.replaceCoordinator(20);
        final CompletableFuture<Void> looks = new CompletableFuture<>();
        job.coordinator.conductor().execute(looks::join);
        final Job all = job.coordinator.job();
        TestWait.await("the agent to come back", () -> all.locked(() -> !all.agents().isEmpty()));
        job.replaceAgent();
        a.link.close();
        b.link.close();
        looks.complete(null);
        held.goOn();
        a.awaitOpen(1);
        b.awaitOpen(1);
        final String log = Files.readString(job.coordinator.runDirectory().resolve("coordinator.log"));
        assertFalse(log.contains("not all agents have come back"), log);
    }

    @Test
    void publishedOutsideOfCheckpointsIsFound() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final byte[] large = new byte[100_000];
        large[99_999] = 7;
        a.link.publish(Map.of("large", large, "empty", new byte[0]));
        // One link keeps its order, so a's own lookup comes after its publish.
        assertEquals(7, a.link.lookup(Set.of("large"), Duration.ofSeconds(20)).get("large")[99_999]);
        final Map<String, byte[]> found = b.link.lookup(Set.of("large", "empty", "none"), Duration.ofSeconds(20));
        assertEquals(Set.of("large", "empty"), found.keySet());
        assertEquals(100_000, found.get("large").length);
    }

    @Test
    void ranksTellEachOther() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        a.link.tell(1, bytes("hello"));
        a.link.tell(7, bytes("nobody"));
        assertEquals("0: hello", b.heard.poll(20, TimeUnit.SECONDS));
        assertEquals("", job.checkpoint().problem());
        b.awaitOpen(1);
        b.link.tell(0, bytes("back"));
        assertEquals("1: back", a.heard.poll(20, TimeUnit.SECONDS));
    }

    @Test
    void anAgentThatHasNoCoordinatorDoesNotAnswerForIt() throws Exception {
        final TestRank a = job.rank("a");
        a.link.awaitCoordinator(Duration.ofSeconds(20));
        job.coordinator.vanish("as if it were killed");
        final Exception e = assertThrows(LinkLostException.class, () -> a.link.awaitCoordinator(Duration.ofMillis(200)));
        assertEquals("no sign of life of the coordinator within 200 ms", e.getMessage());
        job.replaceCoordinator(20);
    }

    /** What is told before a rank's gate closes has been heard before the other's process can be saved. */
    @Test
    void whatIsToldBeforeACheckpointIsHeardBeforeIt() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final List<Integer> heard = new CopyOnWriteArrayList<>();
        a.before = (rank, phase, round) -> {
            if (phase == Phase.CLOSE) {
                rank.link.tell(1, bytes("in time"));
            }
        };
        b.before = (rank, phase, round) -> {
            if (phase == Phase.DRAIN && round == 0) {
                heard.add(rank.heard.size());
            }
        };
        assertEquals("", job.checkpoint().problem());
        assertEquals(List.of(1), heard);
    }

    @Test
    void aWillIsCarriedOutWhenTheProcessHasEndedHowever() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final TestRank c = job.rank("c");
        a.link.leaveExitMessages(List.of(2), List.of(bytes("replaced")));
        a.link.leaveExitMessages(List.of(2, 1), List.of(bytes("one"), bytes("two")));
        b.link.leaveExitMessages(List.of(2), List.of(bytes("three")));
        assertEquals("", job.checkpoint().problem());
        c.awaitOpen(1);
        assertTrue(c.heard.isEmpty());
        a.awaitOpen(1);
        a.die();
        assertEquals("0: one", c.heard.poll(20, TimeUnit.SECONDS));
        assertEquals("0: two", b.heard.poll(20, TimeUnit.SECONDS));
        b.awaitOpen(1);
        b.link.goodbye(0);
        assertEquals("1: three", c.heard.poll(20, TimeUnit.SECONDS));
    }

    @Test
    void nothingIsLeftOfAProcessThatHasEnded() throws Exception {
        final TestRank a = job.rank("a");
        final Set<String> before = job.published.keys();
        for (int i = 1; i <= 4; i++) {
            final TestRank newcomer = job.rank("newcomer " + i);
            for (final OwnKey key : OwnKey.values()) {
                newcomer.link.publish(Map.of(key.of(i), bytes("mine")));
            }
            newcomer.link.leaveExitMessages(List.of(0), List.of(bytes("gone")));
            newcomer.link.awaitCoordinator(Duration.ofSeconds(20));
            assertEquals(before.size() + 4, publishedKeys().size());
            if (i % 2 == 0) {
                newcomer.die();
            } else {
                newcomer.link.goodbye(0);
            }
            assertEquals(i + ": gone", a.heard.poll(20, TimeUnit.SECONDS));
            assertEquals(before, publishedKeys());
        }
    }

    /** Whether it is refused with open gates, or in its midst, when the ranks finish what is left in pairs. */
    @ParameterizedTest
    @EnumSource(value = Phase.class, names = {"CLOSE", "DRAIN"})
    void nothingIsLeftOfACheckpointThatWasGivenUp(final Phase when) throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        b.before = (rank, phase, round) -> {
            if (phase == when) {
                rank.link.fail(job.coordinator.job().epoch().number(), phase, "not today");
            } else if (phase == Phase.CONNECTED) {
                final String key = RankLink.OF_EPOCH + job.coordinator.job().epoch().number();
                rank.link.publish(Map.of(key, bytes("mine")));
                assertEquals(Set.of(key), rank.link.lookup(Set.of(key), Duration.ofSeconds(20)).keySet());
            }
        };
        int[] first = null;
        for (int epoch = 1; epoch <= 3; epoch++) {
            assertTrue(job.checkpoint().problem().contains("not today"));
            a.awaitOpen(epoch);
            b.awaitOpen(epoch);
            final int[] now = {publishedKeys().size(), job.fetched.keys().size()};
            first = first == null ? now : first;
            assertArrayEquals(first, now, job.published.keys() + " " + job.fetched.keys());
        }
    }

    @Test
    void anAgentForgetsWhatItsFormerRanksWanted() throws Exception {
        final TestRank a = job.rank("a");
        assertEquals("", job.checkpoint().problem());
        a.awaitOpen(1);
        assertEquals(Set.of("1/state-a"), job.fetched.keys());
        final TestRank b = job.rank("b");
        a.link.leaveExitMessages(List.of(1), List.of(bytes("gone")));
        a.link.goodbye(0);
        assertEquals("0: gone", b.heard.poll(20, TimeUnit.SECONDS));
        assertEquals("", job.checkpoint().problem());
        b.awaitOpen(2);
        assertEquals(Set.of("2/state-b"), job.fetched.keys());
    }

    /** Between two messages. */
    private Set<String> publishedKeys() {
        return job.coordinator.job().locked(job.published::keys);
    }

    private static byte[] bytes(final String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Which the ranks that are left go on to use. */
    @Test
    void whatRanksHaveRegisteredIsKeptAsLongAsOneIsLeft() throws Exception {
        final Path folder = Files.createDirectory(ReceiverRegister.folder(job.coordinator.runDirectory()));
        final Path lock = Files.createFile(ReceiverRegister.lock(folder));
        final Path registered = Files.createFile(folder.resolve("registered"));
        job.rank("a");
        job.agent.close();
        assertTrue(Files.exists(registered) && Files.exists(lock));
    }

    @Test
    void whatRanksHaveRegisteredIsRemovedAtTheEndButNotTheLock() throws Exception {
        final Path folder = Files.createDirectory(ReceiverRegister.folder(job.coordinator.runDirectory()));
        final Path lock = Files.createFile(ReceiverRegister.lock(folder));
        final Path registered = Files.createFile(folder.resolve("registered"));
        job.agent.close();
        assertTrue(!Files.exists(registered) && Files.exists(lock));
    }

    @Test
    void aLaunchMayAskForCheckpointsNowAndThen() throws Exception {
        final TestRank a = job.rank("a");
        try (FrameChannel launch = FrameChannel.connect(RunDirectory.agentSocket(job.coordinator.runDirectory()))) {
            launch.write(new RegisterTree(FrameType.VERSION, "", a.process.pid(), List.of("test"), "/",
                    Map.of("interval", "1")));
            assertTrue(launch.read() instanceof Registered);
        }
        a.awaitOpen(1);
        a.awaitOpen(2);
    }

    @Test
    void whatPassesByItselfIsTriedAgainAFewTimes() throws Exception {
        final TestRank a = job.rank("a");
        job.images.passing.set(2);
        final CheckpointRun.Outcome o = job.checkpoint();
        assertEquals("", o.problem());
        assertEquals(3, o.epoch());
        assertTrue(job.lines.contains("the checkpoint begins again: SAVE failed on host testhost: a socket has data to read"),
                job.lines.toString());
        for (int epoch = 1; epoch <= 3; epoch++) {
            a.awaitOpen(epoch);
        }
        job.images.passing.set(Integer.MAX_VALUE);
        assertEquals("SAVE failed on host testhost: a socket has data to read", job.checkpoint().problem());
    }

    /** It is waited for as long as it says that it goes on. */
    @Test
    void anAgentMayTakeLongerThanTheDeadlineAsLongAsItGoesOn() throws Exception {
        job.images.saveBegun = new CompletableFuture<>();
        job.images.saveMayEnd = new CompletableFuture<>();
        job.rank("a");
        final Future<CheckpointRun.Outcome> outcome = job.begin();
        job.images.saveBegun.get(60, TimeUnit.SECONDS);
        final Epoch epoch = job.coordinator.job().epoch();
        final Duration deadline = Duration.ofSeconds(2);
        final Future<Map<AgentSession, Message>> waiting;
        try (ExecutorService waiter = Executors.newSingleThreadExecutor()) {
            waiting = waiter.submit(() -> epoch.awaitAgents(Stage.SAVE, deadline));
            final long end = System.nanoTime() + 2 * deadline.toNanos();
            while (System.nanoTime() - end < 0) {
                job.images.lastRequest.progress().more(1);
                Thread.sleep(50); // at most two a second are passed on
            }
            assertFalse(waiting.isDone());
            final ExecutionException e =
                    assertThrows(ExecutionException.class, () -> waiting.get(60, TimeUnit.SECONDS));
            assertTrue(e.getCause().getMessage().endsWith(
                    " B were done when it stopped going on, 2 s ago"), e.getCause().getMessage());
        }
        job.images.saveMayEnd.complete(null);
        assertEquals("", outcome.get(60, TimeUnit.SECONDS).problem());
    }

    /** It gives up agents that are lost, and a periodic checkpoint may wait for one. */
    @Test
    void theTimerIsFreeWhileAPeriodicCheckpointGoesOn() throws Exception {
        try (TestJob periodic = new TestJob(20, Interval.every(Duration.ofMillis(1)))) {
            periodic.images.saveMayEnd = new CompletableFuture<>();
            periodic.images.saveBegun = new CompletableFuture<>();
            final TestRank a = periodic.rank("a");
            try {
                periodic.images.saveBegun.get(60, TimeUnit.SECONDS);
                periodic.coordinator.timer().submit(() -> { }).get(60, TimeUnit.SECONDS);
                assertEquals(Stage.SAVE, periodic.coordinator.job().epoch().stage());
            } finally {
                periodic.images.saveMayEnd.complete(null);
            }
            a.opened.poll(40, TimeUnit.SECONDS);
        }
    }

    @Test
    void theStateOfTheJobNamesAllAgentsThatJoinTogether() throws Exception {
        final List<FrameChannel> agents = new ArrayList<>();
        final Set<String> expected = ConcurrentHashMap.newKeySet();
        try (ExecutorService joining = Executors.newFixedThreadPool(8)) {
            final List<Future<FrameChannel>> joined = new ArrayList<>();
            for (int i = 0; i < 64; i++) {
                final String id = "agent-" + i;
                expected.add(id);
                joined.add(joining.submit(() -> {
                    final FrameChannel channel = FrameChannel.connect(
                            new InetSocketAddress("localhost", job.coordinator.port()), 5_000);
                    channel.write(new AgentHello(FrameType.VERSION, "", id, id, 1, "", 0, 0, false, List.of(),
                            List.of(), Map.of(), List.of(), List.of()));
                    return channel;
                }));
            }
            for (final Future<FrameChannel> one : joined) {
                agents.add(one.get(60, TimeUnit.SECONDS));
            }
        }
        try {
            for (final FrameChannel agent : agents) {
                assertTrue(agent.read() instanceof AgentWelcome);
                // What its connection's thread does next is written by then.
                agent.write(new TreeState(new Tree(1, List.of("x"), "/"), true, Map.of()));
            }
            job.coordinator.job().epoch().await(() -> job.coordinator.job().agents().stream()
                    .filter(a -> !a.trees.isEmpty()).count() == 64, Duration.ofSeconds(60), () -> "not all have joined");
            final JobState state = JobState.of(Files.readString(job.coordinator.runDirectory().resolve("job.properties")));
            assertTrue(state.agents().containsAll(expected), state.toString());
            assertFalse(Files.readString(job.coordinator.runDirectory().resolve("coordinator.log"))
                    .contains("could not be written"));
        } finally {
            agents.forEach(FrameChannel::close);
            job.coordinator.job().epoch().await(() -> job.coordinator.job().agents().size() == 1,
                    Duration.ofSeconds(60), () -> "not all have left");
        }
    }

    @Test
    void quitTellsTheRanks() throws Exception {
        final TestRank a = job.rank("a");
        job.coordinator.quit("enough");
        assertEquals("shutdown: enough", a.ended.poll(20, TimeUnit.SECONDS));
    }
}
