// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.shadowverbs.coordinator.store.TestWait.await;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.client.Verdict;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.store.RedisStore;
import org.shadowverbs.coordinator.store.Seat;
import org.shadowverbs.coordinator.store.SilentListener;
import org.shadowverbs.coordinator.store.TestRedis;

/** A coordinator in the place of another, at another address, with what that one has left in Redis; and what a store that fails does. */
@Timeout(240)
class TakeoverTest {
    private TestRedis redis;
    private TestJob job;

    @BeforeEach
    void start() throws Exception {
        redis = new TestRedis();
        job = new TestJob(20, redis.place());
    }

    @AfterEach
    void stop() throws Exception {
        job.close();
        redis.close();
    }

    /** What the coordinator now has heard of. */
    private void awaitRanks(final int ranks) throws Exception {
        await("the ranks to be with the coordinator",
                () -> job.coordinator.job().locked(() -> job.coordinator.job().ranks().size()) == ranks);
    }

    @Test
    void betweenCheckpointsTheJobGoesOnAsIfNothingHadBeen() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        a.link.publish(Map.of("kept", new byte[] {7}));
        assertEquals(1, a.link.lookup(Set.of("kept"), Duration.ofSeconds(20)).size());
        final CheckpointRun.Outcome first = job.checkpoint();
        assertEquals("", first.problem());
        a.awaitOpen(1);
        b.awaitOpen(1);
        final Coordinator before = job.coordinator;
        await("what was published to be kept",
                () -> !redis.ask("HKEYS", "shadowverbs:{" + before.job().name() + "}:published").isEmpty());
        before.vanish("as if its host were lost");
        job.takeOver(20);
        assertNotEquals(before.port(), job.coordinator.port());
        awaitRanks(2);
        assertEquals(before.job().name(), job.coordinator.job().name());
        assertEquals(7, b.link.lookup(Set.of("kept"), Duration.ofSeconds(20)).get("kept")[0]);
        final CheckpointRun.Outcome second = job.checkpoint();
        assertEquals("", second.problem());
        assertTrue(second.epoch() > first.epoch());
        assertEquals(first.epoch(), ManifestFile.read(second.folder()).parent());
        a.awaitOpen(second.epoch());
        b.awaitOpen(second.epoch());
        assertEquals(List.of(0, 1), List.of(a.number(), b.number()));
    }

    @Test
    void aCheckpointUnderWayIsGivenUp() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        job.beginToSave();
        job.coordinator.vanish("as if its host were lost");
        job.takeOver(20);
        job.images.saveMayEnd.complete(null);
        a.awaitOpen(1);
        b.awaitOpen(1);
        assertEquals(Verdict.Outcome.ABORTED, a.verdicts.getFirst().outcome());
        assertEquals(List.of(), job.folders());
        job.images.saveBegun = null;
        final CheckpointRun.Outcome next = job.checkpoint();
        assertEquals("", next.problem());
        assertTrue(next.epoch() > 1, "the number of the one that was given up is not used again");
    }

    /** Its folder has no name yet: that is all that its coordinator did not come to. */
    @Test
    void aCheckpointThatWasDecidedIsFinished() throws Exception {
        job.rank("a");
        final Coordinator before = job.coordinator;
        final String name = before.job().name();
        before.vanish("as if its host were lost");
        final CheckpointFolder folder = CheckpointFolder.begin(job.checkpoints, name, 5);
        final Manifest manifest = new Manifest(Manifest.SCHEMA, name, 5, 0L, null, "", false, 0, Map.of(), 1, 0, List.of(), List.of(),
                Manifest.History.NONE, "");
        ManifestFile.write(folder.temporary(), manifest);
        final Path undecided = Files.createDirectory(folder.temporary().resolveSibling(".ckpt-" + name + "-6.tmp"));
        decide(name, 5);
        job.takeOver(20);
        await("the checkpoint to be there", () -> Files.exists(folder.place()));
        await("what was not decided to be gone", () -> !Files.exists(undecided));
        assertEquals(folder.place().toRealPath(), job.checkpoints.resolve("latest").toRealPath());
        awaitRanks(1);
        final CheckpointRun.Outcome next = job.checkpoint();
        assertEquals("", next.problem());
        assertEquals(7, next.epoch());
        assertEquals(5, ManifestFile.read(next.folder()).parent());
    }

    private void decide(final String name, final long epoch) throws Exception {
        final RedisStore[] store = new RedisStore[1];
        await("the lease to run out", () -> {
            try {
                store[0] = RedisStore.open(redis.place(), name, true);
                return true;
            } catch (IOException e) {
                return false;
            }
        });
        final JobState state = JobState.of(store[0].before());
        store[0].begin(new SilentListener());
        store[0].decide(new JobState(state.job(), epoch + 1, 0, 0, 0, 0, state.agents(), state.host(), state.addresses(),
                state.busyHosts(), false, epoch, state.settings(), state.exitOnLast(), state.deadlineSeconds()).text(),
                new Seat(name, "nowhere", List.of("localhost"), 1));
        store[0].close();
    }

    /** It stood still, and another has its place: none of its checkpoints is one any more. */
    @Test
    void ofTwoCoordinatorsThatBothThinkTheyAreItOneIsRefused() throws Exception {
        final TestRank a = job.rank("a");
        a.before = (rank, phase, round) -> {
            if (phase == Phase.ANNOUNCE && rank.replies.isEmpty()) {
                try {
                    redis.ask("DEL", "shadowverbs:{" + job.coordinator.job().name() + "}:lease");
                    RedisStore.open(redis.place(), job.coordinator.job().name(), true).abandon();
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
            }
        };
        final Coordinator first = job.coordinator;
        final Future<CheckpointRun.Outcome> outcome = job.begin();
        await("it to end", () -> {
            try {
                return Files.readString(first.runDirectory().resolve("coordinator.log"))
                        .contains("coordinator ends: another coordinator has taken over the job");
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
        try {
            assertEquals(null, outcome.get(60, TimeUnit.SECONDS).folder());
        } catch (ExecutionException | CancellationException e) {
            assertTrue(e.getMessage() != null, "it ended in the middle");
        }
        assertTrue(job.folders().stream().noneMatch(folder -> folder.startsWith("ckpt-")), job.folders()::toString);
        job.takeOver(20);
        a.awaitOpen(1);
        assertEquals("", job.checkpoint().problem());
    }

    @Test
    void whileTheStoreIsAwayTheJobRunsOnWithoutCheckpoints() throws Exception {
        final TestRank a = job.rank("a");
        assertEquals("", job.checkpoint().problem());
        a.awaitOpen(1);
        redis.pause();
        await("the store to be missed", () -> !job.coordinator.job().keeper().problem().isEmpty());
        final CheckpointRun.Outcome refused = job.checkpoint();
        assertTrue(refused.problem().contains("the store at redis://localhost:"), refused.problem());
        assertEquals(1, job.coordinator.job().locked(() -> job.coordinator.job().agents().size()));
        final TestRank b = job.rank("b"); // joins all the same
        assertEquals(1, b.number());
        redis.resume();
        await("the store to be back", () -> job.coordinator.job().keeper().problem().isEmpty());
        assertEquals("", job.checkpoint().problem());
        a.awaitOpen(2);
        b.awaitOpen(2);
        assertEquals(List.of(0, 1), List.of(a.number(), b.number()));
    }

    /** It begins when all is well, and the store is away when it is to be decided. */
    @Test
    void aCheckpointThatCanNotBeDecidedIsGivenUpAndTheRanksGoOn() throws Exception {
        final TestRank a = job.rank("a");
        final Future<CheckpointRun.Outcome> outcome = job.beginToSave();
        redis.stop();
        job.images.saveMayEnd.complete(null);
        final CheckpointRun.Outcome failed = outcome.get(60, TimeUnit.SECONDS);
        assertEquals(null, failed.folder());
        assertTrue(failed.problem().contains("the store at redis://localhost:"), failed.problem());
        a.awaitOpen(1);
        assertEquals(List.of(), job.folders());
        redis.start(); // with nothing in it
        await("the store to be back", () -> job.coordinator.job().keeper().problem().isEmpty());
        job.images.saveBegun = null;
        assertEquals("", job.checkpoint().problem());
        a.awaitOpen(2);
    }

    @Test
    void aFullStoreRefusesCheckpointsWithItsReason() throws Exception {
        final TestRank a = job.rank("a");
        redis.ask("CONFIG", "SET", "maxmemory", "1");
        final CheckpointRun.Outcome refused = job.checkpoint();
        assertEquals(null, refused.folder());
        assertTrue(refused.problem().contains("OOM command not allowed"), refused.problem());
        assertEquals(List.of(), job.folders());
        redis.ask("CONFIG", "SET", "maxmemory", "0");
        await("the store to be back", () -> job.coordinator.job().keeper().problem().isEmpty());
        final CheckpointRun.Outcome made = job.checkpoint();
        assertEquals("", made.problem());
        assertEquals(0, job.images.frozen.get());
    }
}
