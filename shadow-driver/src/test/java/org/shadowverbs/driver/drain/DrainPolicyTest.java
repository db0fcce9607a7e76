// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Random;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.constraints.IntRange;
import org.junit.jupiter.api.Test;

/** The drain against a model of two connected queue pairs with any history, and a network that does as it likes. */
class DrainPolicyTest {
    private static final int MOST_ROUNDS = 500;

    @Provide
    Arbitrary<List<SimulatedEnd.Sent>> queues() {
        return Combinators.combine(
                Arbitraries.of(DrainPolicy.SEND, DrainPolicy.SEND_WITH_IMM, DrainPolicy.RDMA_WRITE,
                        DrainPolicy.RDMA_WRITE_WITH_IMM, SimulatedEnd.READ, SimulatedEnd.FETCH_ADD,
                        DrainPolicy.SEND_WITH_INV, DrainPolicy.BIND_MW, DrainPolicy.LOCAL_INV),
                Arbitraries.of(true, false, false)).as(SimulatedEnd.Sent::new).list().ofMaxSize(10);
    }

    /** Nothing is lost, nothing is doubled, and it ends: whatever each application has posted, wherever it stands. */
    @Property(tries = 4000)
    void whatIsLeftHasTakenNoEffectAndWhatIsRetiredHas(
            @ForAll("queues") final List<SimulatedEnd.Sent> ofA,
            @ForAll("queues") final List<SimulatedEnd.Sent> ofB,
            @ForAll @IntRange(max = 10) final int receivesAtA, @ForAll @IntRange(max = 10) final int receivesAtB,
            @ForAll @IntRange(max = 30) final int before, @ForAll final long seed) {
        final Random random = new Random(seed);
        final SimulatedEnd a = pair(ofA, ofB, receivesAtA, receivesAtB);
        progress(a, random, before);
        drain(a, random, false);
        assertExact(a);
        assertExact(a.peer);
        progress(a, random, 100);
        assertExact(a);
        assertExact(a.peer);
    }

    /** Retries may run out after ANNOUNCE: the checkpoint's doing, of which neither application may learn. */
    @Property(tries = 4000)
    void retriesThatRunOutAreWithdrawn(
            @ForAll("queues") final List<SimulatedEnd.Sent> ofA,
            @ForAll("queues") final List<SimulatedEnd.Sent> ofB,
            @ForAll @IntRange(max = 6) final int receivesAtA, @ForAll @IntRange(max = 6) final int receivesAtB,
            @ForAll @IntRange(max = 30) final int before, @ForAll final long seed) {
        final Random random = new Random(seed);
        final SimulatedEnd a = pair(ofA, ofB, receivesAtA, receivesAtB);
        progress(a, random, before);
        drain(a, random, true);
        assertNoAtomicTwice(a);
        assertNoAtomicTwice(a.peer);
        assertNothingLost(a);
        assertNothingLost(a.peer);
    }

    /**
     * A send queue in SQD: what it holds back stays unexecuted, and where that begins is known exactly, also behind requests
     * that complete without a word; what comes from the peer is not touched by it.
     */
    @Property(tries = 4000)
    void whatASendQueueHoldsBackIsKnown(
            @ForAll("queues") final List<SimulatedEnd.Sent> ofA,
            @ForAll("queues") final List<SimulatedEnd.Sent> ofB,
            @ForAll @IntRange(max = 10) final int receivesAtA, @ForAll @IntRange(max = 10) final int receivesAtB,
            @ForAll @IntRange(max = 30) final int before, @ForAll final boolean both, @ForAll final long seed) {
        final Random random = new Random(seed);
        final SimulatedEnd a = pair(ofA, ofB, receivesAtA, receivesAtB);
        progress(a, random, before);
        a.hold(random.nextBoolean());
        if (both) {
            a.peer.hold(random.nextBoolean());
        }
        progress(a, random, random.nextInt(10));
        drain(a, random, false);
        assertExact(a);
        assertExact(a.peer);
    }

    /** The same of an unreliable connection, which nobody counts. */
    @Property(tries = 2000)
    void whatAnUnreliableSendQueueHoldsBackIsKnown(@ForAll("queues") final List<SimulatedEnd.Sent> sent,
            @ForAll @IntRange(max = 10) final int before, @ForAll final long seed) {
        final Random random = new Random(seed);
        final SimulatedEnd a = pair(sent.stream().filter(s -> s.opcode() < SimulatedEnd.READ).toList(), List.of(), 0, 100);
        a.unacknowledged = true;
        progress(a, random, before);
        a.hold(random.nextBoolean());
        for (int round = 0; round < MOST_ROUNDS && !a.settled(); round++) {
            a.round(random);
            progress(a, random, random.nextInt(4));
        }
        assertTrue(a.settled(), a.decision.why);
        a.flush(random);
        assertEquals(a.executed, a.retired);
    }

    private static DrainPolicy.Action decideWithError(final int status, final Pairing pairing, final DrainRecord peer,
            final int rounds) {
        final SimulatedEnd end = new SimulatedEnd("A");
        end.sent.add(new SimulatedEnd.Sent(DrainPolicy.SEND, true));
        end.end.bookmark = new Bookmark(1, 0, 1, 0, 0, status, 0, 0, 0, false, false, 0);
        end.end.roundsInError = rounds;
        return DrainPolicy.decide(end.end, pairing, peer, end).action;
    }

    private static DrainRecord peer(final boolean withdrawn, final boolean undecided) {
        return new DrainRecord(0, 0, 0, false, withdrawn, undecided, false, false, false, false, 0, 0,
                PoolRecord.NONE);
    }

    @Test
    void whoseErrorItIs() {
        final int rnr = DrainPolicy.RNR_RETRY_EXC_ERR;
        final int retry = DrainPolicy.RETRY_EXC_ERR;
        final int remoteAccess = 10;
        assertEquals(DrainPolicy.Action.WITHDRAW, decideWithError(rnr, Pairing.CONNECTED, peer(false, false), 1));
        assertEquals(DrainPolicy.Action.WITHDRAW, decideWithError(retry, Pairing.UNREADY, null, 1));
        assertEquals(DrainPolicy.Action.WITHDRAW, decideWithError(retry, Pairing.CONNECTED, peer(true, false), 1));
        assertEquals(DrainPolicy.Action.WAIT, decideWithError(retry, Pairing.CONNECTED, peer(false, false), 2));
        assertEquals(DrainPolicy.Action.WAIT, decideWithError(retry, Pairing.CONNECTED, peer(false, true), 9));
        assertEquals(DrainPolicy.Action.DELIVER, decideWithError(retry, Pairing.CONNECTED, peer(false, false), 3));
        assertEquals(DrainPolicy.Action.DELIVER, decideWithError(retry, Pairing.GONE, null, 1));
        assertEquals(DrainPolicy.Action.DELIVER,
                decideWithError(remoteAccess, Pairing.CONNECTED, peer(false, false), 1));
    }

    @Test
    void aPeerThatCannotAnswerIsNotWaitedFor() {
        assertEquals(DrainPolicy.Action.SETTLED, decideWithError(0, Pairing.UNREADY, null, 0));
        assertEquals(DrainPolicy.Action.SETTLED, decideWithError(0, Pairing.GONE, null, 0));
        assertEquals(DrainPolicy.Action.WAIT, decideWithError(0, Pairing.CONNECTED, null, 0));
    }

    /** An unreliable connection, which waits for nobody: what has completed is done, and a marker proves the tail. */
    @Property(tries = 2000)
    void unacknowledgedRequestsAreDoneWhenTheyComplete(@ForAll("queues") final List<SimulatedEnd.Sent> sent,
            @ForAll @IntRange(max = 10) final int before, @ForAll final long seed) {
        final Random random = new Random(seed);
        final SimulatedEnd a = pair(sent.stream().filter(s -> s.opcode() < SimulatedEnd.READ).toList(), List.of(), 0, 100);
        a.unacknowledged = true;
        a.peer.remoteWrite = true;
        progress(a, random, before);
        for (int round = 0; round < MOST_ROUNDS && !a.settled(); round++) {
            a.round(random);
            progress(a, random, random.nextInt(4));
        }
        assertTrue(a.settled(), a.decision.action + " " + a.decision.why);
        assertEquals(a.sent.size(), a.retired);
        assertExact(a);
    }

    @Test
    void anErrorOfAnUnreliableConnectionIsTheApplications() {
        final SimulatedEnd end = new SimulatedEnd("A");
        end.sent.add(new SimulatedEnd.Sent(DrainPolicy.SEND, true));
        end.end.bookmark = new Bookmark(1, 0, 1, 0, 0, 4, 0, 0, 0, false, false, 0);
        assertEquals(DrainPolicy.Action.DELIVER, DrainPolicy.decideUnacknowledged(end.end, end).action);
        end.end.bookmark = new Bookmark(1, 0, 1, 0, 0, 0, 5, 0, 0, false, false, 0);
        assertEquals(DrainPolicy.Action.WAIT, DrainPolicy.decideUnacknowledged(end.end, end).action);
    }

    private static SimulatedEnd pair(final List<SimulatedEnd.Sent> ofA, final List<SimulatedEnd.Sent> ofB,
            final int receivesAtA, final int receivesAtB) {
        final SimulatedEnd a = new SimulatedEnd("A");
        final SimulatedEnd b = new SimulatedEnd("B");
        a.peer = b;
        b.peer = a;
        a.sent.addAll(ofA);
        b.sent.addAll(ofB);
        a.receivesPosted = receivesAtA;
        b.receivesPosted = receivesAtB;
        return a;
    }

    private static void progress(final SimulatedEnd a, final Random random, final int steps) {
        for (int i = 0; i < steps; i++) {
            (random.nextBoolean() ? a : a.peer).step(random);
        }
    }

    private static void drain(final SimulatedEnd a, final Random random, final boolean retriesRunOut) {
        final SimulatedEnd b = a.peer;
        for (int round = 0; round < MOST_ROUNDS; round++) {
            // Both ends work at the same time: what one does may have shown its effect at the other before it is told.
            final boolean aFirst = random.nextBoolean();
            (aFirst ? a : b).round(random);
            progress(a, random, random.nextInt(6));
            (aFirst ? b : a).round(random);
            if (a.decision.action == DrainPolicy.Action.SETTLED && b.decision.action == DrainPolicy.Action.SETTLED) {
                return;
            }
            final DrainRecord ofA = a.record();
            a.heard = b.record();
            b.heard = ofA;
            progress(a, random, random.nextInt(4));
            if (retriesRunOut && random.nextInt(4) == 0) {
                final SimulatedEnd end = random.nextBoolean() ? a : b;
                if (end.blocked()) {
                    end.die(end.peer.dead ? DrainPolicy.RETRY_EXC_ERR : DrainPolicy.RNR_RETRY_EXC_ERR);
                }
            }
        }
        assertEquals("", a.decision.action + " " + a.decision.why + " / " + b.decision.action + " " + b.decision.why
                + " after " + MOST_ROUNDS + " rounds: " + a.sent + b.sent);
    }

    /** What was retired was executed and answered; what was not retired was not executed. */
    private static void assertExact(final SimulatedEnd end) {
        assertEquals(end.retired, end.executed, end.name + " of " + end.sent);
        for (int p = 0; p < end.retired; p++) {
            assertTrue(!end.sent.get(p).hasAnswer() || p < end.answered,
                    end.name + ": the answer to " + p + " is still on its way");
        }
        assertEquals(end.taken.size(), end.received, end.name + " has not counted all");
    }

    private static void assertNoAtomicTwice(final SimulatedEnd end) {
        for (int p = end.retired; p < end.executed; p++) {
            final SimulatedEnd.Sent s = end.sent.get(p);
            assertTrue(end.end.failAfterwards || !s.consumer() && s.opcode() != SimulatedEnd.FETCH_ADD,
                    end.name + " would do " + p + " again of " + end.sent);
        }
    }

    private static void assertNothingLost(final SimulatedEnd end) {
        assertTrue(end.retired <= end.executed, end.name + " lost " + end.executed + " of " + end.sent);
    }
}
