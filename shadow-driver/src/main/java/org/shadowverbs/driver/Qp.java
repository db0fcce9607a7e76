// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.util.ArrayList;
import java.util.List;
import org.shadowverbs.bindings.verbs.verbs_h;

/**
 * A queue pair. One that receives by XRC may have further handles, and lives as long as one of them; the real object here is
 * its own handle, or, when the application has destroyed that, the first of those.
 */
final class Qp extends Resource {
    /** Its number in order of creation: with the rank's number its name in the job. */
    final int sequence;
    private final Context context;
    /** Null of an XRC receive queue pair, as are its completion queues. */
    final Pd pd;
    /** Of an XRC receive queue pair, else null. */
    final Xrcd xrcd;
    final Cq sendCq;
    /** Null of XRC. */
    final Cq receiveCq;
    /** Null: a receive queue of its own. */
    final Srq srq;
    /** {@code enum ibv_qp_type}. */
    final int type;
    final int virtualQpNum;
    final boolean signalAll;
    /** The application's, for query_qp. */
    final long qpContext;
    /** What the application sees, and what the real queue pair is made anew with (one send request more). */
    final int maxSendWr;
    final int maxRecvWr;
    final int maxSendSge;
    final int maxRecvSge;
    final int maxInlineData;
    /** The multicast groups that it listens to, of datagrams. */
    final List<MulticastGroup> groups = new ArrayList<MulticastGroup>(0);
    /** Of XRC: those of ibv_open_qp, oldest first. */
    final List<QpHandle> handles = new ArrayList<QpHandle>(0);
    /** Its own handle was destroyed. */
    boolean closed;
    /** What modify_qp has set. */
    final QpAttributes attributes = new QpAttributes();
    /** The native table of the peer's remote keys, or 0. */
    long remoteKeyMap;
    /** Of an XRC send queue pair, the native table of the peer's SRQ numbers, or 0. */
    long srqNumberMap;
    /** The peer's end was destroyed, or its process ended: nobody answers. Until the next reset. */
    boolean peerGone;
    /** A peer was found at an earlier checkpoint: should nobody know it now, it has ended. */
    boolean wasPaired;

    Qp(final long virtual, final long real, final int sequence, final Context context, final Pd pd, final Xrcd xrcd,
            final Cq sendCq, final Cq receiveCq, final Srq srq, final int type, final int virtualQpNum,
            final boolean signalAll, final long qpContext, final int maxSendWr, final int maxRecvWr,
            final int maxSendSge, final int maxRecvSge, final int maxInlineData) {
        super(virtual, real);
        this.sequence = sequence;
        this.context = context;
        this.pd = pd;
        this.xrcd = xrcd;
        this.sendCq = sendCq;
        this.receiveCq = receiveCq;
        this.srq = srq;
        this.type = type;
        this.virtualQpNum = virtualQpNum;
        this.signalAll = signalAll;
        this.qpContext = qpContext;
        this.maxSendWr = maxSendWr;
        this.maxRecvWr = maxRecvWr;
        this.maxSendSge = maxSendSge;
        this.maxRecvSge = maxRecvSge;
        this.maxInlineData = maxInlineData;
    }

    /** The peer acknowledges: what one end knows of the other counts. */
    boolean reliable() {
        return type == verbs_h.IBV_QPT_RC() || ofXrc();
    }

    /** What is sent says where it goes. */
    boolean datagrams() {
        return type == verbs_h.IBV_QPT_UD();
    }

    boolean ofXrc() {
        return type == verbs_h.IBV_QPT_XRC_SEND() || type == verbs_h.IBV_QPT_XRC_RECV();
    }

    /** The virtual handle that its real queue pair is made with. */
    long maker() {
        return closed ? handles.get(0).virtual : virtual;
    }

    /** The domain that its real queue pair is made in; null: not an XRC receive queue pair. */
    Xrcd makersDomain() {
        return closed ? handles.get(0).xrcd : xrcd;
    }

    Context context() {
        return context;
    }

    /** For messages. */
    String name() {
        return "queue pair 0x" + Integer.toHexString(virtualQpNum);
    }
}
