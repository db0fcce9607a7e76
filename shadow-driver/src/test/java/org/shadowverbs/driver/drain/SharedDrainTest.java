// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.constraints.IntRange;

/**
 * The drain of several connections whose receivers share a receive queue, or by XRC several of them: any history, and a
 * network that gives each receive to whom it likes.
 */
class SharedDrainTest {
    private static final int MOST_ROUNDS = 1000;

    /** A process: its queue pairs, and the one queue that they may share. */
    private static final class Rank {
        final List<SimulatedEnd> ends = new ArrayList<>();
        SimulatedPool pool;
        SimulatedDomain.Member member;
        boolean left;

        void round(final Random random, final Runnable network) {
            if (member != null) {
                member.hear();
                member.look(random, network);
            }
            ends.forEach(e -> e.look(random));
            if (pool != null) {
                pool.look();
            }
            ends.forEach(SimulatedEnd::act);
            if (pool != null) {
                pool.land();
            }
            if (member != null) {
                member.act();
            }
        }

        boolean settled() {
            return ends.stream().allMatch(SimulatedEnd::settled) && (pool == null || pool.seen.isKnownTo(pool.users))
                    && (member == null || member.part.settled());
        }

        boolean settledOnBothSides() {
            return ends.stream().allMatch(e -> e.settled() && e.heard != null && e.heard.settled
                    && (!e.heard.pool.shared || e.heard.pool.settled))
                    && (pool == null || pool.seen.settled(pool.users)) && (member == null || member.part.finished());
        }

        /** What a round has to say: to whom it is. */
        Map<SimulatedEnd, DrainRecord> said() {
            final Map<SimulatedEnd, DrainRecord> said = new LinkedHashMap<>();
            for (final SimulatedEnd end : ends) {
                final DrainRecord record = end.record();
                if (record != null) {
                    said.put(end.peer, record);
                }
            }
            return said;
        }

        void publish(final Map<SimulatedEnd, DrainRecord> said) {
            said.forEach((peer, record) -> peer.heard = record);
            if (member != null) {
                member.publish();
            }
        }
    }

    @Provide
    Arbitrary<List<List<SimulatedEnd.Sent>>> queues() {
        return Combinators.combine(
                Arbitraries.of(DrainPolicy.SEND, DrainPolicy.SEND_WITH_IMM, DrainPolicy.RDMA_WRITE,
                        DrainPolicy.RDMA_WRITE_WITH_IMM, SimulatedEnd.READ, SimulatedEnd.FETCH_ADD),
                Arbitraries.of(true, false, false)).as((opcode, signaled) -> new SimulatedEnd.Sent(opcode, signaled))
                .list().ofMaxSize(8).list().ofSize(6);
    }

    /** Three senders to one queue; what goes back meets queues of their own, or one that they share. */
    private static List<Rank> job(final List<List<SimulatedEnd.Sent>> queues, final int receives,
            final int receivesBack, final boolean sharedBack, final boolean oneProcess) {
        final Rank owner = new Rank();
        owner.pool = new SimulatedPool(receives);
        final List<Rank> ranks = new ArrayList<>(List.of(owner));
        Rank sender = null;
        for (int i = 0; i < queues.size() / 2; i++) {
            if (sender == null || !oneProcess) {
                sender = new Rank();
                sender.pool = sharedBack ? new SimulatedPool(receivesBack) : null;
                ranks.add(sender);
            }
            final SimulatedEnd a = new SimulatedEnd("A" + i);
            final SimulatedEnd b = new SimulatedEnd("B" + i);
            a.peer = b;
            b.peer = a;
            a.sent.addAll(queues.get(2 * i));
            b.sent.addAll(queues.get(2 * i + 1));
            b.pool = owner.pool;
            owner.pool.users.add(b);
            if (sender.pool == null) {
                a.receivesPosted = receivesBack;
            } else {
                a.pool = sender.pool;
                sender.pool.users.add(a);
            }
            owner.ends.add(b);
            sender.ends.add(a);
        }
        return ranks;
    }

    private static void progress(final List<Rank> ranks, final Random random, final int steps) {
        for (int i = 0; i < steps; i++) {
            final Rank rank = ranks.get(random.nextInt(ranks.size()));
            if (!rank.ends.isEmpty()) {
                rank.ends.get(random.nextInt(rank.ends.size())).step(random);
            }
        }
    }

    private static void failed(final List<Rank> ranks) {
        final StringBuilder state = new StringBuilder();
        for (final Rank rank : ranks) {
            rank.ends.forEach(e -> state.append(e.name).append(' ').append(e.decision.action).append(' ')
                    .append(e.decision.why).append("; "));
        }
        assertEquals("", state + "after " + MOST_ROUNDS + " rounds");
    }

    private static void exhaust(final List<Rank> ranks, final Random random) {
        for (final Rank rank : ranks) {
            for (final SimulatedEnd end : rank.ends) {
                // Retries run out after ANNOUNCE.
                if (random.nextInt(12) == 0 && end.blocked()) {
                    end.die(end.peer.dead ? DrainPolicy.RETRY_EXC_ERR : DrainPolicy.RNR_RETRY_EXC_ERR);
                }
            }
        }
    }

    /** In rounds of all ranks, until all agree. */
    private static void drain(final List<Rank> ranks, final Random random, final boolean retriesRunOut) {
        for (int round = 0; round < MOST_ROUNDS; round++) {
            final List<Rank> order = new ArrayList<>(ranks);
            java.util.Collections.shuffle(order, random);
            for (final Rank rank : order) {
                rank.round(random, () -> progress(ranks, random, random.nextInt(4)));
                progress(ranks, random, random.nextInt(8));
            }
            if (ranks.stream().allMatch(Rank::settled)) {
                return;
            }
            final List<Map<SimulatedEnd, DrainRecord>> said = ranks.stream().map(Rank::said).toList();
            for (int i = 0; i < said.size(); i++) {
                ranks.get(i).publish(said.get(i));
            }
            progress(ranks, random, random.nextInt(8));
            if (retriesRunOut) {
                exhaust(ranks, random);
            }
        }
        failed(ranks);
    }

    /** Without rounds: each looks when it likes, hears what was said last, and leaves when its own are through. */
    private static void drainPairwise(final List<Rank> ranks, final Random random) {
        for (int turn = 0; turn < MOST_ROUNDS * 4; turn++) {
            final Rank rank = ranks.get(random.nextInt(ranks.size()));
            if (!rank.left) {
                rank.round(random, () -> progress(ranks, random, random.nextInt(4)));
                final Map<SimulatedEnd, DrainRecord> said = rank.said();
                rank.left = rank.settledOnBothSides();
                rank.publish(said);
            }
            if (ranks.stream().allMatch(r -> r.left)) {
                return;
            }
            progress(ranks, random, random.nextInt(10));
        }
        failed(ranks);
    }

    private static void assertExact(final List<Rank> ranks) {
        for (final Rank rank : ranks) {
            for (final SimulatedEnd end : rank.ends) {
                assertEquals(end.retired, end.executed, end.name + " of " + end.sent);
                for (int p = 0; p < end.retired; p++) {
                    assertTrue(end.sent.get(p).opcode() <= DrainPolicy.SEND_WITH_IMM || p < end.answered,
                            end.name + ": the answer to " + p + " is still on its way");
                }
                assertEquals(end.taken.size(), end.domain == null ? end.received : end.domain.seenByAll(end), end.name);
            }
        }
    }

    @Property(tries = 3000)
    void whatIsLeftHasTakenNoEffectAndWhatIsRetiredHas(@ForAll("queues") final List<List<SimulatedEnd.Sent>> queues,
            @ForAll @IntRange(max = 16) final int receives, @ForAll @IntRange(max = 6) final int receivesBack,
            @ForAll final boolean sharedBack, @ForAll final boolean oneProcess,
            @ForAll @IntRange(max = 40) final int before, @ForAll final long seed) {
        final Random random = new Random(seed);
        final List<Rank> ranks = job(queues, receives, receivesBack, sharedBack, oneProcess);
        progress(ranks, random, before);
        drain(ranks, random, false);
        assertExact(ranks);
        progress(ranks, random, 200);
        assertExact(ranks);
    }

    @Property(tries = 3000)
    void pairwiseToo(@ForAll("queues") final List<List<SimulatedEnd.Sent>> queues,
            @ForAll @IntRange(max = 16) final int receives, @ForAll @IntRange(max = 6) final int receivesBack,
            @ForAll final boolean sharedBack, @ForAll final boolean oneProcess,
            @ForAll @IntRange(max = 40) final int before, @ForAll final long seed) {
        final Random random = new Random(seed);
        final List<Rank> ranks = job(queues, receives, receivesBack, sharedBack, oneProcess);
        progress(ranks, random, before);
        drainPairwise(ranks, random);
        assertExact(ranks);
        progress(ranks, random, 200);
        assertExact(ranks);
    }

    @Property(tries = 3000)
    void retriesThatRunOutAreWithdrawn(@ForAll("queues") final List<List<SimulatedEnd.Sent>> queues,
            @ForAll @IntRange(max = 12) final int receives, @ForAll @IntRange(max = 4) final int receivesBack,
            @ForAll final boolean sharedBack, @ForAll @IntRange(max = 40) final int before, @ForAll final long seed) {
        final Random random = new Random(seed);
        final List<Rank> ranks = job(queues, receives, receivesBack, sharedBack, false);
        progress(ranks, random, before);
        drain(ranks, random, true);
        for (final Rank rank : ranks) {
            for (final SimulatedEnd end : rank.ends) {
                assertTrue(end.retired <= end.executed, end.name + " lost " + end.executed + " of " + end.sent);
                for (int p = end.retired; p < end.executed; p++) {
                    final SimulatedEnd.Sent s = end.sent.get(p);
                    assertTrue(end.end.failAfterwards || !s.consumer() && s.opcode() != SimulatedEnd.FETCH_ADD,
                            end.name + " would do " + p + " again of " + end.sent);
                }
            }
        }
    }

    /** By XRC: three senders, each of whose messages names one of three queues; nothing goes back. */
    @Provide
    Arbitrary<List<List<SimulatedEnd.Sent>>> numbered() {
        return Combinators.combine(
                Arbitraries.of(DrainPolicy.SEND, DrainPolicy.SEND_WITH_IMM, DrainPolicy.RDMA_WRITE,
                        DrainPolicy.RDMA_WRITE_WITH_IMM, SimulatedEnd.READ, SimulatedEnd.FETCH_ADD),
                Arbitraries.of(true, false, false), Arbitraries.integers().between(0, 2))
                .as(SimulatedEnd.Sent::new).list().ofMaxSize(8).list().ofSize(3)
                .map(senders -> List.of(senders.get(0), List.of(), senders.get(1), List.of(), senders.get(2),
                        List.of()));
    }

    /**
     * A domain whose queues and receiving queue pairs are of one process or several.
     *
     * @param places of the three queues, the three queue pairs, and the three senders: which process has them; of a sender that
     *        is beyond those of the domain, one of its own
     */
    private static List<Rank> domain(final List<List<SimulatedEnd.Sent>> queues, final int processes,
            final List<Integer> places, final int... receives) {
        final SimulatedDomain domain = new SimulatedDomain(receives);
        final List<Rank> ranks = new ArrayList<>();
        for (int i = 0; i < processes; i++) {
            final Rank rank = new Rank();
            rank.member = domain.new Member(i);
            domain.members.add(rank.member);
            ranks.add(rank);
        }
        for (int i = 0; i < receives.length; i++) {
            domain.members.get(places.get(i) % processes).queues.add(i);
        }
        for (int i = 0; i < queues.size() / 2; i++) {
            final SimulatedEnd a = new SimulatedEnd("A" + i);
            final SimulatedEnd b = new SimulatedEnd("B" + i);
            a.peer = b;
            b.peer = a;
            a.sent.addAll(queues.get(2 * i));
            b.domain = domain;
            b.number = 100 + i;
            final Rank owner = ranks.get(places.get(3 + i) % processes);
            b.owner = owner.member;
            owner.ends.add(b);
            domain.users.add(b);
            Rank sender = new Rank();
            if (places.get(6 + i) < processes) {
                sender = ranks.get(places.get(6 + i));
            } else {
                ranks.add(sender);
            }
            sender.ends.add(a);
        }
        domain.members.forEach(SimulatedDomain.Member::begin);
        return ranks;
    }

    @Provide
    Arbitrary<List<Integer>> places() {
        return Arbitraries.integers().between(0, 3).list().ofSize(9);
    }

    @Property(tries = 20000)
    void queuesThatMessagesName(@ForAll("numbered") final List<List<SimulatedEnd.Sent>> queues,
            @ForAll @IntRange(min = 1, max = 3) final int processes, @ForAll("places") final List<Integer> places,
            @ForAll("left") final List<Integer> receives, @ForAll final boolean pairwise,
            @ForAll final boolean retriesRunOut, @ForAll @IntRange(max = 12) final int before,
            @ForAll final long seed) {
        final Random random = new Random(seed);
        final List<Rank> ranks = domain(queues, processes, places, receives.get(0), receives.get(1), receives.get(2));
        progress(ranks, random, before);
        if (pairwise) {
            drainPairwise(ranks, random);
        } else {
            drain(ranks, random, retriesRunOut);
        }
        if (pairwise || !retriesRunOut) {
            assertExact(ranks);
            progress(ranks, random, 200);
            assertExact(ranks);
        }
    }

    @Provide
    Arbitrary<List<Integer>> left() {
        return Arbitraries.integers().between(0, 4).list().ofSize(3);
    }
}
