// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import java.util.LinkedHashSet;
import java.util.Set;
import org.shadowverbs.driver.model.DomainMember;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.QpAttributes;
import org.shadowverbs.ids.QpRecord;

/** A queue pair during one checkpoint: its peer, and how far its drain has come. */
public final class Connection implements Pool.User {
    public final Qp qp;
    public Pairing pairing = Pairing.UNCONNECTED;
    /** What the peer published about itself; null where nobody did. */
    public QpRecord peer;

    /** What the peer said last in the drain. */
    DrainRecord heard;
    public final DrainPolicy.End end = new DrainPolicy.End();
    DrainPolicy.Decision decision = DrainPolicy.Decision.of(DrainPolicy.Action.WAIT, "the peer's bookmark");
    /** The real queue pair allows remote writes although the application did not. */
    boolean granted;
    /** The longest RNR timer was set. */
    public boolean timerRaised;
    /** What was said in the last round, to say only what is new. */
    byte[] said;

    /** An XRC sender that has named shared receive queues of others than the peer; null: it has not. */
    public Crossing crossing;

    /** The domain of the peer, and the other processes that must go on to share it. */
    public static final class Crossing {
        public final DomainMember peer;
        public final Set<DomainMember> others = new LinkedHashSet<DomainMember>();

        public Crossing(final DomainMember peer) {
            this.peer = peer;
        }
    }

    public Connection(final Qp qp) {
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
    public String name() {
        final QpAttributes a = qp.attributes;
        if (!a.connected()) {
            return qp.name();
        }
        return qp.name() + " (peer: queue pair 0x" + Integer.toHexString(a.destQpNum())
                + (a.destGid().isZero() ? " at lid 0x" + Integer.toHexString(a.destLid()) : " at GID " + a.destGid())
                + (peer == null ? "" : " of rank " + peer.rank) + ")";
    }
}
