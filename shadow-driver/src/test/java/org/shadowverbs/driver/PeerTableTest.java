// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_global_route;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.IdMasks;
import org.shadowverbs.ids.PortIds;

/** Who talks to whom, from what ranks publish. */
class PeerTableTest {
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
            published.putAll(table.published());
        }

        Pairing pairing(final boolean ranksHaveLeft) {
            table.refresh();
            table.pair(published, ranksHaveLeft);
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
            assertTrue(published.keySet().containsAll(x.table.wanted()));
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
        published.putAll(PeerTable.lastWords(b.model, 1, Set.of()));
        assertEquals(Pairing.GONE, a.pairing(false));
        b.publish();
        assertEquals(Pairing.CONNECTED, a.pairing(false));
        b.model.qps.remove(peer);
        published.clear();
        a.publish();
        assertEquals(Pairing.GONE, a.pairing(false), "it was there before");
    }
}
