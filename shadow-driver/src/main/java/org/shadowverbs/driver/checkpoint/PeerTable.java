// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.driver.drain.Connection;
import org.shadowverbs.driver.drain.Pairing;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.QpAttributes;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.PortIds;
import org.shadowverbs.ids.QpRecord;

/**
 * Pairs the queue pairs of the job. Each rank publishes its own under every address that a peer may know them by, and
 * looks up those that its own are connected to.
 */
public final class PeerTable {
    private static final int RESET = 0;
    private static final int INIT = 1;

    private final Model model;
    private final int rank;
    private final List<Connection> connections = new ArrayList<Connection>();
    /** As they were published. */
    private List<Model.Tombstone> buried = List.of();

    public PeerTable(final Model model, final int rank) {
        this.model = model;
        this.rank = rank;
    }

    /** In order of the queue pairs' creation. */
    public List<Connection> connections() {
        return connections;
    }

    /** Takes up the queue pairs that there are now, as they are now; what is known about those of before stays. */
    public void refresh() {
        final Map<Qp, Connection> known = new LinkedHashMap<Qp, Connection>();
        for (final Connection c : connections) {
            known.put(c.qp, c);
        }
        connections.clear();
        buried = model.tombstones();
        for (final Qp qp : model.qps.inOrder()) {
            final Connection c = known.get(qp);
            if (qp.home) {
                final Connection now = c == null ? new Connection(qp) : c;
                now.own = model.record(qp, rank);
                connections.add(now);
            }
        }
    }

    /**
     * Whether there is nothing to publish but what there was at the last {@link #refresh}, and each peer was found then. The program
     * ran on while they were paired, and may have changed a queue pair there and back.
     */
    public boolean areAsAnnounced() {
        if (!buried.equals(model.tombstones()) || !connections.stream().allMatch(PeerTable::isPairedAsItIs)) {
            return false;
        }
        final Iterator<Connection> announced = connections.iterator();
        for (final Qp qp : model.qps.inOrder()) {
            if (qp.home) {
                final Connection c = announced.hasNext() ? announced.next() : null;
                if (c == null || c.qp != qp || !c.own.equals(model.record(qp, rank))) {
                    return false;
                }
            }
        }
        return !announced.hasNext();
    }

    private static boolean isPairedAsItIs(final Connection c) {
        final QpAttributes a = c.qp.attributes;
        if (!a.connected()) {
            return c.pairing == Pairing.UNCONNECTED && (c.own.state == RESET || c.qp.port(a.port()) != null);
        }
        return c.pairing != Pairing.UNCONNECTED && c.pairing != Pairing.OUTSIDE && (c.peer != null || c.qp.peerGone)
                && c.qp.port(a.port()) != null;
    }

    /**
     * What the peers of a process that ends are to find in place of its queue pairs. Those without a port have no peer.
     *
     * @param others queue pairs that other processes go on with
     */
    public static Map<String, byte[]> exitRecords(final Model model, final int rank, final Set<Qp> others) {
        final Map<String, byte[]> values = new LinkedHashMap<String, byte[]>();
        bury(values, model.tombstones(), rank);
        for (final Qp qp : model.qps.inOrder()) {
            if (qp.attributes.connected() && !others.contains(qp)) {
                bury(values, new Model.Tombstone(qp), rank);
            }
        }
        return values;
    }

    private static void bury(final Map<String, byte[]> values, final List<Model.Tombstone> tombstones, final int rank) {
        for (final Model.Tombstone t : tombstones) {
            bury(values, t, rank);
        }
    }

    private static void bury(final Map<String, byte[]> values, final Model.Tombstone t, final int rank) {
        put(values, QpRecord.Kind.DESTROYED, t.ids, new QpRecord(rank, t.sequence, t.qpNum, QpRecord.DESTROYED, t.destQpNum, 0,
                Gid.ZERO, 0));
    }

    /**
     * What this rank tells the others about its queue pairs, living and destroyed.
     *
     * @param living what the living ones are published as
     */
    public Map<String, byte[]> published(final QpRecord.Kind living) {
        final Map<String, byte[]> values = new LinkedHashMap<String, byte[]>();
        bury(values, buried, rank);
        for (final Connection c : connections) {
            // A queue pair in RESET has no port yet: it may come to be any.
            final Context context = c.qp.context();
            if (c.own.state == RESET) {
                for (int port = 1; port <= context.portCount; port++) {
                    put(values, living, c.qp.port(port), c.own);
                }
            } else {
                put(values, living, c.qp.port(c.qp.attributes.port()), c.own);
            }
        }
        return values;
    }

    private static void put(final Map<String, byte[]> values, final QpRecord.Kind kind, final PortIds port,
            final QpRecord record) {
        if (port == null) {
            return;
        }
        final byte[] bytes = record.encode();
        if (port.virtualLid != 0) {
            for (int path = 0; path < 1 << port.lmc; path++) {
                values.put(QpRecord.keyByLid(kind, port.virtualLid + path, record.qpNum), bytes);
            }
        }
        for (int i = 0; i < port.gidCount(); i++) {
            values.put(QpRecord.keyByGid(kind, port.gidAt(i).virtual, record.qpNum), bytes);
        }
    }

    /** The keys of the peers. */
    Set<String> wanted(final QpRecord.Kind living) {
        final Set<String> keys = new HashSet<String>();
        for (final Connection c : connections) {
            if (c.qp.attributes.connected()) {
                keys.add(c.own.destKey(living));
            }
        }
        return keys;
    }

    /** The keys that peers have left word under which do not live any more. */
    Set<String> missing(final QpRecord.Kind living, final Map<String, byte[]> found) {
        final Set<String> keys = new HashSet<String>();
        for (final Connection c : connections) {
            if (c.qp.attributes.connected() && !found.containsKey(c.own.destKey(living))) {
                keys.add(c.own.destKey(QpRecord.Kind.DESTROYED));
            }
        }
        return keys;
    }

    /**
     * Finds each queue pair's peer in what was published. One that lives goes before one that had its number.
     *
     * @param living what the living ones were published as
     * @param ranksHaveLeft some process of the job has ended: an unknown peer may have been its own
     */
    public void pair(final QpRecord.Kind living, final Map<String, byte[]> found, final boolean ranksHaveLeft) {
        for (final Connection c : connections) {
            final QpAttributes a = c.qp.attributes;
            c.qp.peerRank = -1;
            if (!a.connected()) {
                c.pairing = Pairing.UNCONNECTED;
                c.peer = null;
                continue;
            }
            final byte[] alive = found.get(c.own.destKey(living));
            final byte[] bytes = alive != null ? alive : found.get(c.own.destKey(QpRecord.Kind.DESTROYED));
            c.peer = bytes == null ? null : QpRecord.decode(bytes);
            final Pairing now = classify(c.qp, c.peer, ranksHaveLeft);
            // What was published of a peer's end was so only once.
            c.pairing = c.qp.peerGone && now != Pairing.CONNECTED ? Pairing.GONE : now;
            if (c.pairing == Pairing.CONNECTED) {
                c.qp.wasPaired = true;
                c.qp.peerRank = c.peer.rank;
            }
        }
    }

    private static Pairing classify(final Qp qp, final QpRecord peer, final boolean ranksHaveLeft) {
        if (peer == null) {
            return ranksHaveLeft || qp.wasPaired ? Pairing.GONE : Pairing.OUTSIDE;
        }
        if (peer.state == QpRecord.DESTROYED) {
            return Pairing.GONE;
        }
        if (peer.state == RESET || peer.state == INIT) {
            return Pairing.UNREADY;
        }
        final PortIds port = qp.port(qp.attributes.port());
        return peer.destQpNum == qp.virtualQpNum && port != null && port.answersTo(peer.destLid, peer.destGid)
                ? Pairing.CONNECTED : Pairing.GONE;
    }
}
