// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.stream.Stream;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.shadowverbs.coordinator.protocol.EventLog;

/** What counts as a failure, and what is done about it, with steps that only say what they are to do. */
class RecoveryTest {
    private final Path root = folder();
    private final Path checkpoints = root.resolve("checkpoints");
    private final Deque<Runnable> conductor = new ArrayDeque<>();
    private final Job job = new Job("j", 3, new Lineage(3, 0), new FailureHistory(System::nanoTime, Duration.ZERO, 0), 20,
            System::nanoTime, new TestStore().ofJob(), new EventLog(root.resolve("log")), () -> { });
    private final Recovery recovery = new Recovery(job, conductor::add, () -> checkpoints, Steps::new);
    private final List<String> said = new ArrayList<>();
    private final List<String> restored = new ArrayList<>();
    private final Deque<Outcome> outcomes = new ArrayDeque<>();
    private int ended;
    private int overs;

    /** What becomes of a restore. */
    enum Outcome {
        RUNS, STOPPED, DAMAGED, A_RANK_DIES, A_HOST_IS_LOST_AND_IT_STOPS, SOMEBODY_WANTS_ITS_END
    }

    private final class Steps implements Recovery.Steps {
        @Override
        public void say(final String line) {
            said.add(line);
        }

        @Override
        public void endWhatIsLeft() {
            ended++;
        }

        @Override
        public void restore(final Path folder, final long since, final String why) throws Recovery.Damaged, Stopped {
            restored.add(folder.getFileName().toString());
            switch (outcomes.isEmpty() ? Outcome.RUNS : outcomes.remove()) {
                case STOPPED -> throw new Stopped("as if", false);
                case DAMAGED -> throw new Recovery.Damaged(folder + " is damaged");
                case A_RANK_DIES -> die("rank 1 died", 139);
                case A_HOST_IS_LOST_AND_IT_STOPS -> {
                    job.locked(() -> {
                        recovery.hostLost("host b is lost");
                        return null;
                    });
                    throw new Stopped("host b is lost", false);
                }
                case SOMEBODY_WANTS_ITS_END -> job.endsOnPurpose();
                default -> { }
            }
        }

        @Override
        public void over() {
            overs++;
        }
    }

    RecoveryTest() throws IOException {
        job.recovery(recovery);
        job.locked(() -> {
            recovery.options(new RecoveryOptions(2, 0, 1_000));
            return null;
        });
        for (final String name : List.of("ckpt-j-1", "ckpt-j-3", "ckpt-j-4", "ckpt-other-3")) { // 4 was abandoned
            Files.createDirectories(checkpoints.resolve(name));
        }
    }

    private static Path folder() {
        try {
            return Files.createTempDirectory("sv-test");
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    @AfterEach
    void remove() throws IOException {
        if (!Files.exists(root)) {
            return;
        }
        try (Stream<Path> all = Files.walk(root)) {
            for (final Path path : all.sorted(Collections.reverseOrder()).toList()) {
                Files.delete(path);
            }
        }
    }

    private void die(final String what, final int status) {
        job.locked(() -> {
            recovery.rankGone(what, true, status);
            return null;
        });
    }

    private void conduct() {
        while (!conductor.isEmpty()) {
            conductor.remove().run();
        }
    }

    private boolean underWay() {
        return job.locked(recovery::isUnderWay);
    }

    /** Ctrl-C while images are read. */
    @Test
    void aJobWhoseEndIsAskedForWhileItComesBackEnds() {
        outcomes.add(Outcome.SOMEBODY_WANTS_ITS_END);
        die("rank 1 died", 139);
        conduct();
        assertEquals(List.of("ckpt-j-3"), restored);
        assertEquals(1, overs);
        assertFalse(underWay());
    }

    @Test
    void aRankThatDiesBringsTheJobBackFromTheNewestCheckpointThatItHasComeFrom() {
        die("rank 1 died", 137);
        assertTrue(underWay());
        assertTrue(job.epoch().isAbandoned());
        conduct();
        assertFalse(underWay());
        assertEquals(List.of("ckpt-j-3"), restored);
        assertEquals(List.of("rank 1 died: the job goes on from ckpt-j-3 (1 of at most 2)"), said);
        assertEquals(0, job.locked(recovery::jobEnded), "what it was brought back from is not how it ends");
    }

    @Test
    void whatEndsWellOrLivesOrWasToEndIsNoFailure() {
        job.locked(() -> {
            recovery.rankGone("rank 0 ended", true, 0);
            recovery.rankGone("rank 1 lost its link", false, 0);
            recovery.programEnded("a", "x", 0);
            recovery.endsOnPurpose();
            recovery.rankGone("rank 2 died", true, 143);
            recovery.programEnded("a", "x", 143);
            return null;
        });
        assertFalse(underWay());
        assertEquals(143, job.locked(recovery::jobEnded));
    }

    @Test
    void aJobThatIsNotToHealItselfDoesNot() {
        job.locked(() -> {
            recovery.options(RecoveryOptions.NONE);
            return null;
        });
        die("rank 1 died", 137);
        assertFalse(underWay());
        assertEquals(137, job.locked(recovery::jobEnded));
    }

    @Test
    void whatIsOverIsForgottenByTheNextFailure() {
        for (int times = 0; times < 2; times++) {
            die("rank 1 died", 137);
            conduct();
        }
        assertEquals(0, overs);
        die("rank 1 died", 9);
        conduct();
        assertEquals(1, overs);
        assertEquals("the job ends: rank 1 died; it was brought back from ckpt-j-3 2 times already", said.getLast());
        assertEquals(9, job.locked(recovery::jobEnded));
    }

    @Test
    void aDamagedCheckpointGivesWayToAnOlderOneAndThereMayBeNone() {
        outcomes.addAll(List.of(Outcome.DAMAGED, Outcome.DAMAGED));
        job.locked(() -> {
            recovery.hostLost("host b is lost");
            return null;
        });
        conduct();
        assertEquals(List.of("ckpt-j-3", "ckpt-j-1"), restored);
        assertEquals(1, overs);
        assertEquals("the job ends: host b is lost, and there is no checkpoint to go on from that is good", said.getLast());
        assertEquals(1, job.locked(recovery::jobEnded));
    }

    /** Whatever happens: it ends what is left before each restore, uses no checkpoint too often, and comes to an end, of one kind. */
    @Property
    void comesToAnEnd(@ForAll @Size(max = 12) final List<Outcome> script, @ForAll @IntRange(min = 1, max = 4) final int times)
            throws IOException {
        final RecoveryTest one = new RecoveryTest();
        try {
            one.run(script, times);
        } finally {
            one.remove();
            remove(); // what this one has made nobody else removes: jqwik knows no AfterEach
        }
    }

    private void run(final List<Outcome> script, final int times) {
        outcomes.addAll(script);
        job.locked(() -> {
            recovery.options(new RecoveryOptions(times, 0, 1_000));
            return null;
        });
        die("rank 0 died", 137);
        conduct();
        assertFalse(underWay());
        for (final String folder : List.of("ckpt-j-1", "ckpt-j-3")) {
            assertTrue(Collections.frequency(restored, folder) <= times, restored + " of at most " + times);
        }
        assertFalse(restored.contains("ckpt-j-4") || restored.contains("ckpt-other-3"), restored.toString());
        assertTrue(ended >= restored.size(), "what is left is ended before each restore");
        final boolean runs = restored.size() > script.size() || script.get(restored.size() - 1) == Outcome.RUNS;
        assertEquals(runs ? 0 : 1, overs, said.toString());
        final boolean wanted = !runs && script.get(restored.size() - 1) == Outcome.SOMEBODY_WANTS_ITS_END;
        assertEquals(runs || wanted ? 0 : 1, said.stream().filter(line -> line.startsWith("the job ends: ")).count(), said.toString());
    }
}
