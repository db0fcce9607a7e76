// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.util.LinkedHashSet;
import java.util.Set;
import org.shadowverbs.ids.QpRecord;

/** A queue pair during one checkpoint: its peer, and how far its drain has come. */
final class Connection implements Pool.User {
    final Qp qp;
    Pairing pairing = Pairing.UNCONNECTED;
    /** What the peer published about itself; null where nobody did. */
    QpRecord peer;

    /** What the peer said last in the drain. */
    DrainRecord heard;
    final DrainPolicy.End end = new DrainPolicy.End();
    DrainPolicy.Decision decision = DrainPolicy.Decision.of(DrainPolicy.Action.WAIT, "the peer's bookmark");
    /** The real queue pair allows remote writes although the application did not. */
    boolean granted;
    /** The longest RNR timer was set. */
    boolean timerRaised;
    /** What was said in the last round, to say only what is new. */
    byte[] said;

    /** Of XRC, sending: it has named shared receive queues of others than the peer; null: it has not. */
    Crossing crossing;

    /** Whose domain the peer is in, and with whom that must go on to be shared. */
    static final class Crossing {
        final SharedDomains.Member peer;
        final Set<SharedDomains.Member> others = new LinkedHashSet<SharedDomains.Member>();

        Crossing(final SharedDomains.Member peer) {
            this.peer = peer;
        }
    }

    Connection(final Qp qp) {
        this.qp = qp;
        end.reliable = qp.reliable();
    }

    boolean settled() {
        return decision.action == DrainPolicy.Action.SETTLED;
    }

    @Override
    public long received() {
        return end.bookmark.received;
    }

    @Override
    public DrainRecord heard() {
        return heard;
    }

    /** For messages: the queue pair and who it talks to. */
    String name() {
        final QpAttributes a = qp.attributes;
        if (!a.connected()) {
            return qp.name();
        }
        return qp.name() + " (peer: queue pair 0x" + Integer.toHexString(a.destQpNum())
                + (a.destGid().isZero() ? " at lid 0x" + Integer.toHexString(a.destLid()) : " at GID " + a.destGid())
                + (peer == null ? "" : " of rank " + peer.rank) + ")";
    }
}
