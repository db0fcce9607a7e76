// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_global_route;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.drain.Connection;
import org.shadowverbs.driver.drain.Pairing;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Pd;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.nativelib.Structs;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.IdMasks;
import org.shadowverbs.ids.PortIds;
import org.shadowverbs.ids.QpRecord;

/** Who talks to whom, from what ranks publish. */
class PeerTableTest {
    private static final QpRecord.Kind CLOSED = QpRecord.Kind.CLOSED;
    private static final Gid GID = new Gid(0xfe80_0000_0000_0000L, 5);

    private final Map<String, byte[]> published = new HashMap<>();

    /** A rank with one device at that lid. */
    private final class RankAt {
        final Model model = new Model(IdMasks.IDENTITY);
        final Context context;
        final PeerTable table;
        final int lid;
        private long pointer = 1;

        RankAt(final int rank, final int lid) {
            this.lid = lid;
            context = new Context(pointer++, 1, 1, "shadow0", 1, 0, 0, IdMasks.IDENTITY);
            context.ports = new PortIds[] {new PortIds(1, lid, lid, 0, 1,
                    new PortIds.GidPair[] {new PortIds.GidPair(0, 0, new Gid(GID.prefix(), lid), 0, GID)})};
            table = new PeerTable(model, rank);
        }

        Qp qp(final int number, final int state, final int destNumber, final RankAt dest, final boolean global) {
            final Pd pd = new Pd(pointer++, 1, context);
            final Qp qp = new Qp(pointer++, 1, model.nextSequence(), pd.context, pd, null, null, null, null, 2, number, false, 0, 1, 1, 1, 1, 0);
            final MemorySegment attr = ibv_qp_attr.allocate(Arena.ofAuto());
            ibv_qp_attr.qp_state(attr, state);
            ibv_qp_attr.port_num(attr, (byte) 1);
            ibv_qp_attr.dest_qp_num(attr, destNumber);
            int mask = verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_PORT();
            if (dest != null) {
                final MemorySegment ah = ibv_qp_attr.ah_attr(attr);
                ibv_ah_attr.dlid(ah, (short) (global ? 0 : dest.lid));
                ibv_ah_attr.is_global(ah, (byte) (global ? 1 : 0));
                Structs.gid(ibv_global_route.dgid(ibv_ah_attr.grh(ah)), new Gid(GID.prefix(), dest.lid));
                mask |= verbs_h.IBV_QP_AV() | verbs_h.IBV_QP_DEST_QPN();
            }
            qp.attributes.record(attr, mask);
            model.qps.add(qp);
            return qp;
        }

        void publish() {
            table.refresh();
            published.putAll(table.published(CLOSED));
        }

        Pairing pairing(final boolean ranksHaveLeft) {
            table.refresh();
            table.pair(CLOSED, published, ranksHaveLeft);
            return table.connections().get(0).pairing;
        }
    }

    private final RankAt a = new RankAt(0, 10);
    private final RankAt b = new RankAt(1, 20);

    @Test
    void twoThatNameEachOtherAreConnected() {
        for (final boolean global : List.of(false, true)) {
            published.clear();
            final RankAt x = new RankAt(0, 10);
            final RankAt y = new RankAt(1, 20);
            x.qp(100, 3, 200, y, global);
            y.qp(200, 2, 100, x, global);
            x.publish();
            y.publish();
            assertTrue(published.keySet().containsAll(x.table.wanted(CLOSED)));
            assertEquals(Pairing.CONNECTED, x.pairing(false));
            assertEquals(Pairing.CONNECTED, y.pairing(false));
            assertEquals(1, x.table.connections().get(0).peer.rank);
            assertEquals(1, x.table.connections().get(0).qp.peerRank);
        }
    }

    @Test
    void aQueuePairConnectedToItselfIsItsOwnPeer() {
        a.qp(100, 3, 100, a, false);
        a.publish();
        assertEquals(Pairing.CONNECTED, a.pairing(false));
    }

    @Test
    void aPeerThatIsNotReadyHasTakenNothing() {
        a.qp(100, 3, 200, b, false);
        b.qp(200, 1, 0, null, false);
        a.publish();
        b.publish();
        assertEquals(Pairing.UNREADY, a.pairing(false));
        assertEquals(Pairing.UNCONNECTED, b.pairing(false));
        assertEquals(-1, b.table.connections().get(0).qp.peerRank);
    }

    @Test
    void aNumberThatIsAnotherQueuePairsByNowIsGone() {
        a.qp(100, 3, 200, b, false);
        b.qp(200, 3, 555, a, false);
        a.publish();
        b.publish();
        assertEquals(Pairing.GONE, a.pairing(false));
    }

    @Test
    void aDestroyedPeerIsGoneAndOneThatNobodyKnowsIsOutside() {
        final Qp peer = b.qp(200, 3, 100, a, false);
        a.qp(100, 3, 200, b, false);
        a.publish();
        assertEquals(Pairing.OUTSIDE, a.pairing(false));
        assertEquals(Pairing.GONE, a.pairing(true));
        published.putAll(PeerTable.exitRecords(b.model, 1, Set.of()));
        assertEquals(Pairing.GONE, a.pairing(false));
        b.publish();
        assertEquals(Pairing.CONNECTED, a.pairing(false));
        b.model.qps.remove(peer);
        published.clear();
        a.publish();
        assertEquals(Pairing.GONE, a.pairing(false), "it was there before");
    }

    /** One port's numbers are one device's: it gives a number again, to another rank, and both say so of one address. */
    @Test
    void aNumberThatTheDeviceHasGivenToAnotherRankIsThatRanks() {
        final RankAt c = new RankAt(2, 20);
        b.model.bury(b.qp(200, 3, 100, a, false));
        b.model.qps.remove(b.model.qps.inOrder().get(0));
        a.qp(100, 3, 200, c, false);
        c.qp(200, 3, 100, a, false);
        for (final List<RankAt> order : List.of(List.of(a, b, c), List.of(c, b, a))) {
            published.clear();
            order.forEach(RankAt::publish);
            assertEquals(Pairing.CONNECTED, c.pairing(false));
            assertEquals(Pairing.CONNECTED, a.pairing(false));
            assertEquals(2, a.table.connections().get(0).peer.rank);
        }
    }

    /** What was said while the gates were open does not hold when they are closed. */
    @Test
    void aQueuePairThatWasDestroyedSinceItWasAnnouncedIsGone() {
        a.qp(100, 3, 200, b, false);
        final Qp peer = b.qp(200, 3, 100, a, false);
        b.table.refresh();
        published.putAll(b.table.published(QpRecord.Kind.ANNOUNCED));
        b.model.bury(peer);
        b.model.qps.remove(peer);
        a.publish();
        b.publish();
        assertEquals(Pairing.GONE, a.pairing(false));
        assertEquals(Set.of(QpRecord.keyByLid(QpRecord.Kind.DESTROYED, 20, 200)), a.table.missing(CLOSED, Map.of()));
        assertEquals(Set.of(), a.table.missing(CLOSED, Map.of(QpRecord.keyByLid(CLOSED, 20, 200), new byte[0])));
    }

    @Test
    void whatHasChangedSinceItWasAnnouncedIsSeen() {
        final Qp qp = a.qp(100, 2, 200, b, false);
        b.qp(200, 3, 100, a, false);
        publishAsAnnounced();
        assertTrue(a.table.areAsAnnounced() && b.table.areAsAnnounced());
        final MemorySegment attr = ibv_qp_attr.allocate(Arena.ofAuto());
        ibv_qp_attr.qp_state(attr, 3);
        qp.attributes.record(attr, verbs_h.IBV_QP_STATE());
        assertFalse(a.table.areAsAnnounced());
        publishAsAnnounced();
        a.qp(101, 0, 0, null, false);
        assertFalse(a.table.areAsAnnounced());
        publishAsAnnounced();
        assertTrue(a.table.areAsAnnounced());
        a.qp(102, 3, 300, b, false);
        publishAsAnnounced();
        assertFalse(a.table.areAsAnnounced(), "its peer is unknown");
        assertTrue(b.table.areAsAnnounced());
    }

    private void publishAsAnnounced() {
        publish(new Random(1), List.of(a, b), QpRecord.Kind.ANNOUNCED);
        List.of(a, b).forEach(rank -> rank.table.pair(QpRecord.Kind.ANNOUNCED, published, false));
    }

    private record End(RankAt rank, Qp qp) {
    }

    /** Ranks of one port connect and destroy queue pairs, whose numbers come again at once; then all are paired. */
    @Property
    void numbersThatComeAgainPairWithWhomTheyAreConnectedTo(@ForAll @IntRange(min = 1, max = 4) final int ranks,
            @ForAll @IntRange(max = 80) final int steps, @ForAll final boolean global, @ForAll final long seed) {
        final Random random = new Random(seed);
        final List<RankAt> all = new ArrayList<>();
        for (int i = 0; i < ranks; i++) {
            all.add(new RankAt(i, 10));
        }
        final Map<End, End> living = new LinkedHashMap<>();
        published.clear();
        for (int i = 0; i < steps; i++) {
            change(random, all, living, global);
        }
        publish(random, all, QpRecord.Kind.ANNOUNCED);
        all.forEach(rank -> pair(rank, QpRecord.Kind.ANNOUNCED));
        final Map<End, End> announced = Map.copyOf(living);
        assertTrue(all.stream().allMatch(rank -> rank.table.areAsAnnounced()));
        for (int i = 0; i < steps / 8; i++) {
            change(random, all, living, global);
        }
        final boolean asAnnounced = all.stream().allMatch(rank -> rank.table.areAsAnnounced());
        // What was made and destroyed since is among the living neither then nor now, and has left its number.
        assertTrue(!asAnnounced || announced.equals(living));
        if (!asAnnounced) {
            publish(random, all, CLOSED);
            all.forEach(rank -> pair(rank, CLOSED));
        }
        for (final RankAt rank : all) {
            for (final Connection c : rank.table.connections()) {
                final End peer = living.get(new End(rank, c.qp));
                assertEquals(living.containsKey(peer) ? Pairing.CONNECTED : Pairing.GONE, c.pairing);
                if (c.pairing == Pairing.CONNECTED) {
                    assertEquals(all.indexOf(peer.rank), c.peer.rank);
                    assertEquals(peer.qp.sequence, c.peer.sequence);
                }
            }
        }
    }

    private void pair(final RankAt rank, final QpRecord.Kind living) {
        final Map<String, byte[]> found = new HashMap<>(published);
        found.keySet().retainAll(rank.table.wanted(living));
        final Set<String> missing = rank.table.missing(living, found);
        assertTrue(published.keySet().containsAll(missing));
        missing.forEach(key -> found.put(key, published.get(key)));
        rank.table.pair(living, found, false);
    }

    /** Two queue pairs more, or one less. @param living of each queue pair its peer, which may be gone */
    private static void change(final Random random, final List<RankAt> all, final Map<End, End> living, final boolean global) {
        if (random.nextBoolean() && living.size() < 8) {
            final int number = unused(random, living, 0);
            final int another = unused(random, living, number);
            final RankAt x = all.get(random.nextInt(all.size()));
            final RankAt y = all.get(random.nextInt(all.size()));
            final End one = new End(x, x.qp(number, 3, another, y, global));
            final End other = new End(y, y.qp(another, 3, number, x, global));
            living.put(one, other);
            living.put(other, one);
        } else if (!living.isEmpty()) {
            final End end = List.copyOf(living.keySet()).get(random.nextInt(living.size()));
            end.rank.model.qps.remove(end.qp);
            end.rank.model.bury(end.qp);
            living.remove(end);
        }
    }

    private static int unused(final Random random, final Map<End, End> living, final int but) {
        for (;;) {
            final int number = 1 + random.nextInt(24);
            if (number != but && living.entrySet().stream().allMatch(e -> e.getKey().qp.virtualQpNum != number
                    && e.getValue().qp.virtualQpNum != number)) {
                return number;
            }
        }
    }

    private void publish(final Random random, final List<RankAt> all, final QpRecord.Kind living) {
        final List<RankAt> order = new ArrayList<>(all);
        Collections.shuffle(order, random);
        for (final RankAt rank : order) {
            rank.table.refresh();
            published.putAll(rank.table.published(living));
        }
    }
}
