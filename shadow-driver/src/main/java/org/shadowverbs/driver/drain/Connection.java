// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import java.util.LinkedHashSet;
import java.util.Set;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.model.DomainMember;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.QpAttributes;
import org.shadowverbs.ids.QpRecord;

/** A queue pair during one checkpoint: its peer, and how far its drain has come. */
public final class Connection implements Pool.User {
    private static final int INFINITE_RNR_RETRY = 7;

    public final Qp qp;
    public Pairing pairing = Pairing.UNCONNECTED;
    /** What the peer published about itself; null where nobody did. */
    public QpRecord peer;

    /** What this rank says of the queue pair in an exchange: as it was when that began. */
    public QpRecord own;
    /** What the peer said last in the drain. */
    DrainRecord heard;
    /** What this rank said last in the drain. */
    DrainRecord said;
    public final DrainPolicy.End end = new DrainPolicy.End();
    DrainPolicy.Decision decision = DrainPolicy.Decision.of(DrainPolicy.Action.WAIT, "the peer's bookmark");
    /** The real queue pair allows remote writes although the application did not. */
    boolean granted;
    /** The longest RNR timer was set. */
    public boolean timerRaised;

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

    /** What becomes of the real queue pair when the process keeps its devices. */
    public enum Fate {
        /** It goes on: what it still holds waits, and may wait on. */
        STAYS,
        /** The drain has put it where it must not stay, or what it holds does not wait for ever. */
        RESETS,
        /** Nobody knows what has taken effect: the application sees an error. */
        FAILS
    }

    /** After the drain. */
    public Fate fate() {
        final Bookmark b = end.bookmark;
        final QpAttributes a = qp.attributes;
        if (end.failAfterwards) {
            return Fate.FAILS;
        }
        if (a.state() == verbs_h.IBV_QPS_ERR() || a.state() == verbs_h.IBV_QPS_RESET()) {
            return Fate.STAYS;
        }
        final boolean changed = end.withdrawn || end.flushing || b.landings > 0 || b.marker == Bookmark.MARKER_POSTED
                || granted && a.state() == verbs_h.IBV_QPS_RTR();
        // Retries of a request that cannot take effect run out: where they are finite, and where there is no answer at all. Of one
        // whose peer is gone they would have run out without a checkpoint, too.
        final boolean runsOut = qp.reliable() && a.sends() && b.retired < b.posted && pairing != Pairing.GONE
                && (a.rnrRetry() < INFINITE_RNR_RETRY || pairing == Pairing.UNREADY);
        return changed || runsOut ? Fate.RESETS : Fate.STAYS;
    }

    /** What has become of the peer, for what is made of this end from now on. */
    public void rememberPeer() {
        qp.peerGone = pairing == Pairing.GONE || qp.peerGone && pairing != Pairing.CONNECTED;
    }

    /** The peer's end must be reset with this one. */
    public boolean resetsWithPeer() {
        return pairing == Pairing.CONNECTED;
    }

    /** The real queue pair has other access flags than the application has set. */
    public boolean granted() {
        return granted;
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
