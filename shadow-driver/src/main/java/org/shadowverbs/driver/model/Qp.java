// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.ids.PortIds;

/**
 * A queue pair. One that receives by XRC may have further handles, and lives as long as one of them; the real object here is
 * its own handle, or, when the application has destroyed that, the first of those.
 */
public final class Qp extends Resource {
    /** Its number in order of creation: with the rank's number its name in the job. */
    public final int sequence;
    private final Context context;
    /** Null for an XRC receive queue pair, as are its completion queues. */
    public final Pd pd;
    /** The domain of an XRC receive queue pair, else null. */
    public final Xrcd xrcd;
    public final Cq sendCq;
    /** Null for XRC. */
    public final Cq receiveCq;
    /** Null: a receive queue of its own. */
    public final Srq srq;
    /** {@code enum ibv_qp_type}. */
    public final int type;
    public final int virtualQpNum;
    public final boolean signalAll;
    /** The application's, for query_qp. */
    public final long qpContext;
    /** What the application sees, and what the real queue pair is made anew with (one send request more). */
    public final int maxSendWr;
    public final int maxRecvWr;
    public final int maxSendSge;
    public final int maxRecvSge;
    public final int maxInlineData;
    /** The multicast groups that a datagram queue pair listens to. */
    public final List<MulticastGroup> groups = new ArrayList<MulticastGroup>(0);
    /** The handles that ibv_open_qp made (XRC), oldest first. */
    public final List<QpHandle> handles = new ArrayList<QpHandle>(0);
    /** Made by another process, and opened by this one. */
    public final boolean foreign;
    /** If several processes may have it open: where it is registered, and who has it open, as of the last closed gate. */
    public Path shared;
    public final List<Holder> holders = new ArrayList<Holder>(0);
    /** This process is its home: it speaks for it in checkpoints. */
    public boolean home;
    /** If foreign: the ports of its maker, by whose addresses the peer knows it; else null. */
    public final List<PortIds> ports;
    /** Its own handle was destroyed. */
    public boolean closed;
    /** What modify_qp has set. */
    public final QpAttributes attributes = new QpAttributes();
    /** The native table of the peer's remote keys, or 0. */
    public long remoteKeyMap;
    /** For an XRC send queue pair: the native table of the peer's SRQ numbers, or 0. */
    public long srqNumberMap;
    /** The peer's end was destroyed, or its process ended: nobody answers, and nobody sends. Until the next reset. */
    public boolean peerGone;
    /** The rank of its peer at the last checkpoint; -1: it was connected to none. */
    public int peerRank = -1;
    /** A peer was found at an earlier checkpoint: should nobody know it now, it has ended. */
    public boolean wasPaired;

    public Qp(final long virtual, final long real, final int sequence, final Context context, final Pd pd, final Xrcd xrcd,
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
        this.foreign = false;
        this.home = true;
        this.ports = null;
    }

    /** One that receives by XRC and that another process has made. */
    public Qp(final long virtual, final long real, final int sequence, final Xrcd xrcd, final int virtualQpNum, final long qpContext,
            final Path shared, final List<PortIds> ports) {
        super(virtual, real);
        this.sequence = sequence;
        this.context = xrcd.context;
        this.pd = null;
        this.xrcd = xrcd;
        this.sendCq = null;
        this.receiveCq = null;
        this.srq = null;
        this.type = verbs_h.IBV_QPT_XRC_RECV();
        this.virtualQpNum = virtualQpNum;
        this.signalAll = false;
        this.qpContext = qpContext;
        this.maxSendWr = 0;
        this.maxRecvWr = 0;
        this.maxSendSge = 0;
        this.maxRecvSge = 0;
        this.maxInlineData = 0;
        this.foreign = true;
        this.shared = shared;
        this.ports = ports;
    }

    /** The peer acknowledges: what one end knows of the other counts. */
    public boolean reliable() {
        return type == verbs_h.IBV_QPT_RC() || ofXrc();
    }

    /** What is sent says where it goes. */
    public boolean datagrams() {
        return type == verbs_h.IBV_QPT_UD();
    }

    public boolean ofXrc() {
        return type == verbs_h.IBV_QPT_XRC_SEND() || type == verbs_h.IBV_QPT_XRC_RECV();
    }

    /** The virtual handle that its real queue pair is made with. */
    public long maker() {
        return closed ? handles.get(0).virtual : virtual;
    }

    /** The domain that its real queue pair is made in; null: not an XRC receive queue pair. */
    public Xrcd makersDomain() {
        return closed ? handles.get(0).xrcd : xrcd;
    }

    /** The port of that number by whose addresses its peer knows it; null: there is none, or it is not known yet. */
    public PortIds port(final int number) {
        if (ports == null) {
            return context.ports == null || number < 1 || number > context.portCount ? null : context.port(number);
        }
        for (final PortIds port : ports) {
            if (port.number == number) {
                return port;
            }
        }
        return null;
    }

    public Context context() {
        return context;
    }

    /** For messages. */
    public String name() {
        return "queue pair 0x" + Integer.toHexString(virtualQpNum);
    }

    /** Of a handle that could not be made, what there is of it; real 0: nothing. */
    public static void discard(final Native library, final Backend backend, final long virtual, final long real) {
        if (real != 0) {
            backend.destroyQp(real);
        }
        library.qpFree(virtual);
    }
}
