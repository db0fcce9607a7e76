// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.client.ProgramAnswer;

/** What programs have to say of checkpoints, as ranks bring it: they ask for one, or are in a section that is kept free of them. */
@Timeout(120)
final class ProgramCheckpointsTest {
    private TestJob job;

    @BeforeEach
    void start() throws Exception {
        job = new TestJob(20);
    }

    @AfterEach
    void stop() throws Exception {
        job.close();
    }

    private static void heard(final TestRank rank, final long call) throws InterruptedException {
        assertEquals(new ProgramAnswer(call, 0, ""), rank.answers.poll(40, TimeUnit.SECONDS));
    }

    private static void safe(final TestRank rank, final long call, final long epoch) throws InterruptedException {
        rank.awaitOpen(epoch);
        assertEquals(new ProgramAnswer(call, epoch, ""), rank.answers.poll(40, TimeUnit.SECONDS));
    }

    private static String refused(final TestRank rank, final long call) throws InterruptedException {
        final ProgramAnswer answer = rank.answers.poll(40, TimeUnit.SECONDS);
        assertEquals(call, answer.call());
        return answer.problem();
    }

    /** The coordinator begins no checkpoint before this is counted down. */
    private CountDownLatch busy() {
        final CountDownLatch busy = new CountDownLatch(1);
        job.coordinator.conductor().submit(() -> {
            busy.await();
            return null;
        });
        return busy;
    }

    private void idle() throws Exception {
        job.coordinator.conductor().submit(() -> { }).get(40, TimeUnit.SECONDS);
    }

    @Test
    void allThatWaitWhenItBeginsHaveTheSame() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final CountDownLatch busy = busy();
        a.link.askCheckpoint(1, 0, 0, 0);
        heard(a, 1);
        b.link.askCheckpoint(5, 0, 0, 0);
        heard(b, 5);
        a.link.askCheckpoint(1, 0, 0, 0);
        heard(a, 1);
        busy.countDown();
        safe(a, 1, 1);
        safe(b, 5, 1);
        idle();
        assertEquals(1, job.coordinator.job().epoch().number());
        // One that has not heard so asks again.
        b.link.askCheckpoint(5, 0, 1, 1);
        assertEquals(new ProgramAnswer(5, 1, ""), b.answers.poll(40, TimeUnit.SECONDS));
        a.link.askCheckpoint(2, 0, 1, 0);
        heard(a, 2);
        safe(a, 2, 2);
        b.awaitOpen(2);
        idle();
        assertEquals(2, job.coordinator.job().epoch().number());
    }

    /** Asked for before the rank has heard of the one that is about to begin. */
    @Test
    void oneThatSomebodyElseHasAskedForServes() throws Exception {
        final TestRank a = job.rank("a");
        final CountDownLatch busy = busy();
        final var users = job.begin();
        a.link.askCheckpoint(1, 0, 0, 0);
        heard(a, 1);
        busy.countDown();
        assertEquals("", users.get(60, TimeUnit.SECONDS).problem());
        safe(a, 1, 1);
        idle();
        assertEquals(1, job.coordinator.job().epoch().number());
        assertFalse(a.requests.getFirst().together());
    }

    @Test
    void whoAsksHearsWhyThereIsNone() throws Exception {
        final TestRank a = job.rank("a");
        job.images.saveFails = "no space is left";
        a.link.askCheckpoint(3, 0, 0, 0);
        heard(a, 3);
        assertTrue(refused(a, 3).contains("no space is left"));
    }

    @Test
    void thoseThatAskTogetherWaitForEachOther() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final TestRank c = job.rank("c");
        a.link.askCheckpoint(1, 2, 0, 0);
        heard(a, 1);
        assertEquals("", job.checkpoint().problem());
        a.awaitOpen(1);
        assertFalse(a.requests.getFirst().together(), "one of two waits");
        c.link.askCheckpoint(8, 2, 1, 0);
        heard(c, 8);
        safe(a, 1, 2);
        c.awaitOpen(1);
        safe(c, 8, 2);
        b.awaitOpen(1);
        b.awaitOpen(2);
        assertTrue(a.requests.get(1).together());
        assertTrue(b.requests.get(1).together());
        idle();
        assertEquals(2, job.coordinator.job().epoch().number());
    }

    @Test
    void whoWaitsForOthersInVainIsTold() throws Exception {
        job.close();
        job = new TestJob(1);
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        b.link.askCheckpoint(1, 3, 0, 0);
        heard(b, 1);
        b.die();
        a.link.askCheckpoint(1, 2, 0, 0);
        heard(a, 1);
        String problem = "";
        while (problem.isEmpty()) {
            a.link.askCheckpoint(1, 2, 0, 0);
            problem = refused(a, 1);
        }
        assertTrue(problem.startsWith("only 1 of 2 processes have called shadowverbs_checkpoint_together within 1 s: rank 0 (host "),
                problem);
        assertEquals(0, job.coordinator.job().epoch().number());
    }

    /** No gate is closed before all ranks are out of their sections in the same round. */
    @Test
    void sectionsAreWaitedForInRounds() throws Exception {
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        final AtomicInteger before = new AtomicInteger();
        a.outsideAfter = 1;
        b.outsideAfter = 3;
        a.before = (rank, phase, round) -> {
            if (phase == Phase.CLOSE) {
                before.set(b.replies.size());
            }
        };
        assertEquals("", job.checkpoint().problem());
        a.awaitOpen(1);
        b.awaitOpen(1);
        assertTrue(before.get() >= 3, "replies to b before a gate was closed: " + before.get());
        assertEquals(List.of(false, false, false, true), a.replies.subList(0, 4).stream().map(r -> r.unanimous()).toList());
    }

    @Test
    void aSectionThatDoesNotEndIsNamed() throws Exception {
        job.close();
        job = new TestJob(2);
        final TestRank a = job.rank("a");
        final TestRank b = job.rank("b");
        b.outsideAfter = Integer.MAX_VALUE;
        b.before = (rank, phase, round) -> pause();
        final String problem = job.checkpoint().problem();
        assertTrue(problem.startsWith("rank 1 (host "), problem);
        assertTrue(problem.contains(", waiting for QP 7 of a peer, did not finish ANNOUNCE within 2 s"), problem);
        a.awaitOpen(1);
        b.awaitOpen(1);
        assertFalse(a.aborts.getFirst().reattach());
        b.outsideAfter = 0;
        assertEquals("", job.checkpoint().problem());
    }

    private static void pause() {
        try {
            Thread.sleep(20);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
