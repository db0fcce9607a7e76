// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.verbs;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_global_route;
import org.shadowverbs.bindings.verbs.ibv_pd;
import org.shadowverbs.bindings.verbs.ibv_qp;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_cap;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.ib2tcp.engine.Device;
import org.shadowverbs.ib2tcp.engine.QpStates;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.engine.SharedQueue;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.DeviceException;
import org.shadowverbs.ib2tcp.system.Events;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Limits;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.system.TcpStructs;
import org.shadowverbs.ib2tcp.wire.Frame;

/** A queue pair as the control verbs see it: its struct, its rings, and its attributes. */
public final class QueuePairObject {
    private static final ValueLayout.OfLong NETWORK_LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);
    private static final int SQ_PSN_BITS = 0xffffff;
    /**
     * Inline data of a datagram, in bytes; like HCAs this gives more than was asked for. UCX posts its requests for connections
     * inline where they fit. Otherwise it may write to their memory before the engine has seen them (see
     * {@link org.shadowverbs.ib2tcp.unreliable.UnreliableRequester}).
     */
    private static final int LEAST_INLINE = 256;
    /** Bits of enum ibv_wr_opcode. */
    private static final int UD_OPCODES = 1 << Frame.SEND | 1 << Frame.SEND_IMM;
    private static final int UC_OPCODES = UD_OPCODES | 1 << Frame.WRITE | 1 << Frame.WRITE_IMM | 1 << Frame.SEND_INV
            | 1 << Frame.LOCAL_INV | 1 << Frame.BIND_MW;
    private static final int RC_OPCODES = UC_OPCODES | 1 << Frame.READ | 1 << Frame.COMPARE_SWAP | 1 << Frame.FETCH_ADD;

    private final Posix posix;
    private final QueuePair qp;
    private final int maxSend;
    private final int maxRecv;
    private final int sendSge;
    private final int recvSge;
    private final int inline;
    // Attributes that change nothing here.
    private int port;
    private int mtu;
    private int pkeyIndex;

    private QueuePairObject(final Posix posix, final QueuePair qp, final MemorySegment cap) {
        this.posix = posix;
        this.qp = qp;
        maxSend = ibv_qp_cap.max_send_wr(cap);
        maxRecv = ibv_qp_cap.max_recv_wr(cap);
        sendSge = ibv_qp_cap.max_send_sge(cap);
        recvSge = ibv_qp_cap.max_recv_sge(cap);
        inline = ibv_qp_cap.max_inline_data(cap);
    }

    /** @param init what the type does not have is left out of its cap */
    public static QueuePairObject create(final Device device, final Posix posix, final Events async, final long pd,
            final MemorySegment init, final ObjectTable<CompletionQueue> queues, final SharedQueue shared) {
        final int type = ibv_qp_init_attr.qp_type(init);
        if (type != QueuePair.RC && type != QueuePair.UC && type != QueuePair.UD && type != QueuePair.XRC_SEND) {
            throw new DeviceException(Posix.EOPNOTSUPP, "create a queue pair of type " + type);
        }
        final boolean receives = type != QueuePair.XRC_SEND;
        final MemorySegment cap = ibv_qp_init_attr.cap(init);
        if (shared != null || !receives) {
            ibv_qp_cap.max_recv_wr(cap, 0);
            ibv_qp_cap.max_recv_sge(cap, 0);
        }
        final CompletionQueue sendCq = queues.find(ibv_qp_init_attr.send_cq(init).address());
        final CompletionQueue recvCq = receives ? queues.find(ibv_qp_init_attr.recv_cq(init).address()) : null;
        if (sendCq == null || receives && recvCq == null) {
            throw new DeviceException(Posix.EINVAL, "create a queue pair without completion queues");
        }
        if (shared != null && (!receives || shared.xrcDomain != 0)) {
            throw new DeviceException(Posix.EINVAL, "create a queue pair with a shared receive queue that it cannot have");
        }
        return create(device, posix, async, ibv_pd.context(TcpStructs.at(pd, ibv_pd.sizeof())), pd, 0, init, sendCq,
                recvCq, shared);
    }

    /** Of XRC, to receive: it has no queue of its own. */
    public static QueuePairObject createReceiver(final Device device, final Posix posix, final Events async, final long context,
            final int xrcDomain, final MemorySegment init) {
        ibv_qp_init_attr.cap(init).fill((byte) 0);
        return create(device, posix, async, MemorySegment.ofAddress(context), 0, xrcDomain, init, null, null, null);
    }

    private static QueuePairObject create(final Device device, final Posix posix, final Events async,
            final MemorySegment context, final long pd, final int xrcDomain, final MemorySegment init,
            final CompletionQueue sendCq, final CompletionQueue recvCq, final SharedQueue shared) {
        final MemorySegment cap = ibv_qp_init_attr.cap(init);
        final int type = ibv_qp_init_attr.qp_type(init);
        if (beyond(ibv_qp_cap.max_send_wr(cap), Limits.MAX_WR) || beyond(ibv_qp_cap.max_recv_wr(cap), Limits.MAX_WR)
                || beyond(ibv_qp_cap.max_send_sge(cap), Limits.MAX_SGE)
                || beyond(ibv_qp_cap.max_recv_sge(cap), Limits.MAX_SGE)
                || beyond(ibv_qp_cap.max_inline_data(cap), Limits.MAX_INLINE)) {
            throw new DeviceException(Posix.EINVAL, "create a queue pair of that size");
        }
        if (type == QueuePair.UD) {
            ibv_qp_cap.max_inline_data(cap, Math.max(ibv_qp_cap.max_inline_data(cap), LEAST_INLINE));
        }
        final int bell = device.newBell();
        final long address = posix.allocate(Layouts.QP_SIZE);
        final MemorySegment struct = TcpStructs.at(address, ibv_qp.sizeof());
        ibv_qp.context(struct, context);
        ibv_qp.qp_context(struct, ibv_qp_init_attr.qp_context(init));
        ibv_qp.pd(struct, MemorySegment.ofAddress(pd));
        ibv_qp.send_cq(struct, ibv_qp_init_attr.send_cq(init));
        ibv_qp.recv_cq(struct, ibv_qp_init_attr.recv_cq(init));
        ibv_qp.srq(struct, ibv_qp_init_attr.srq(init));
        ibv_qp.qp_num(struct, device.number(bell));
        ibv_qp.qp_type(struct, type);
        Memory.i32(address + Layouts.QP_BELL, bell);
        Memory.i32(address + Layouts.QP_OPCODES, opcodes(type));
        ring(posix, address + Layouts.QP_SEND, Layouts.SEND_SIZE, ibv_qp_cap.max_send_wr(cap),
                ibv_qp_cap.max_send_sge(cap), ibv_qp_cap.max_inline_data(cap));
        ring(posix, address + Layouts.QP_RECV, Layouts.RECV_SIZE, ibv_qp_cap.max_recv_wr(cap),
                ibv_qp_cap.max_recv_sge(cap), 0);
        final QueuePair qp = new QueuePair(device, address, bell, type, pd, xrcDomain,
                ibv_qp_init_attr.sq_sig_all(init) != 0, sendCq, recvCq, shared, async);
        device.add(bell, qp);
        count(qp, 1);
        return new QueuePairObject(posix, qp, cap);
    }

    private static int opcodes(final int type) {
        return switch (type) {
            case QueuePair.RC, QueuePair.XRC_SEND -> RC_OPCODES;
            case QueuePair.UC -> UC_OPCODES;
            case QueuePair.UD -> UD_OPCODES;
            default -> 0;
        };
    }

    /** Counts it among the users of its queues. */
    private static void count(final QueuePair qp, final int one) {
        if (qp.sendQueue != null) {
            qp.sendQueue.users += one;
        }
        if (qp.recvQueue != null) {
            qp.recvQueue.users += one;
        }
        if (qp.shared != null) {
            qp.shared.users += one;
        }
    }

    private static boolean beyond(final int value, final int limit) {
        return value < 0 || value > limit;
    }

    public static void ring(final Posix posix, final long at, final long header, final int requests, final int sges,
            final int inline) {
        final long stride = header + Math.max(sges * Layouts.SGE_SIZE, inline) + 63 & -64L;
        final int size = ringSize(requests);
        Memory.i64(at + Layouts.RING_ENTRIES, posix.allocate(size * stride));
        Memory.i32(at + Layouts.RING_STRIDE, (int) stride);
        Memory.i32(at + Layouts.RING_MASK, size - 1);
        Memory.i32(at + Layouts.RING_MAX, requests);
        Memory.i32(at + Layouts.RING_MAX_SGE, sges);
        Memory.i32(at + Layouts.RING_MAX_INLINE, inline);
    }

    /** Entries of a ring for so many requests. */
    static int ringSize(final int requests) {
        return Integer.highestOneBit(Math.max(1, requests - 1)) * 2;
    }

    public long address() {
        return qp.address;
    }

    public long domain() {
        return qp.domain;
    }

    Events async() {
        return qp.async;
    }

    /** @param gid of a multicast group */
    void attach(final MemorySegment gid, final int lid) {
        qp.device.multicast.attach(qp, gid.get(NETWORK_LONG, 0), gid.get(NETWORK_LONG, 8), lid);
    }

    void detach(final MemorySegment gid, final int lid) {
        qp.device.multicast.detach(qp, gid.get(NETWORK_LONG, 0), gid.get(NETWORK_LONG, 8), lid);
    }

    boolean attached() {
        return qp.device.multicast.attached(qp);
    }

    void detachAll() {
        qp.device.multicast.detachAll(qp);
    }

    boolean is(final QueuePair other) {
        return qp == other;
    }

    /** ibv_open_qp. @return address of a further struct ibv_qp that stands for it */
    public long open(final long qpContext) {
        final long handle = posix.allocate(Layouts.QP_SIZE);
        final MemorySegment struct = TcpStructs.at(handle, ibv_qp.sizeof());
        ibv_qp.context(struct, ibv_qp.context(TcpStructs.at(qp.address, ibv_qp.sizeof())));
        ibv_qp.qp_context(struct, MemorySegment.ofAddress(qpContext));
        ibv_qp.qp_num(struct, qp.number);
        ibv_qp.qp_type(struct, qp.type);
        Memory.i32(handle + Layouts.QP_BELL, qp.bell);
        qp.addHandle(handle);
        return handle;
    }

    /** The queue pair ends with the last handle. */
    public void close(final long handle) {
        final boolean last = qp.removeHandle(handle);
        if (handle != qp.address) {
            posix.free(handle);
        }
        if (last) {
            destroy();
        }
    }

    public void modify(final MemorySegment attr, final int given) {
        final int mask = QpStates.relevant(qp.type, given);
        final int target = has(mask, verbs_h.IBV_QP_STATE()) ? ibv_qp_attr.qp_state(attr) : qp.state;
        if (!QpStates.allows(qp.type, qp.state, target, mask) || has(mask, verbs_h.IBV_QP_CUR_STATE())
                && ibv_qp_attr.cur_qp_state(attr) != qp.state) {
            throw refusal("in state " + qp.state + " to state " + target + " with mask 0x" + Integer.toHexString(mask));
        }
        check(attr, mask);
        if (has(mask, verbs_h.IBV_QP_AV())) {
            final MemorySegment gid = ibv_global_route.dgid(ibv_ah_attr.grh(ibv_qp_attr.ah_attr(attr)));
            qp.peerPrefix = gid.get(NETWORK_LONG, 0);
            qp.peerId = gid.get(NETWORK_LONG, 8);
        }
        if (has(mask, verbs_h.IBV_QP_ACCESS_FLAGS())) {
            qp.access = ibv_qp_attr.qp_access_flags(attr);
        }
        if (has(mask, verbs_h.IBV_QP_DEST_QPN())) {
            qp.peerNumber = ibv_qp_attr.dest_qp_num(attr);
        }
        if (has(mask, verbs_h.IBV_QP_RQ_PSN())) {
            qp.recvSequence = ibv_qp_attr.rq_psn(attr) & SQ_PSN_BITS;
        }
        if (has(mask, verbs_h.IBV_QP_SQ_PSN())) {
            qp.sendSequence = ibv_qp_attr.sq_psn(attr) & SQ_PSN_BITS;
        }
        if (has(mask, verbs_h.IBV_QP_MAX_DEST_RD_ATOMIC())) {
            qp.maxPeerReads = ibv_qp_attr.max_dest_rd_atomic(attr) & 0xff;
        }
        if (has(mask, verbs_h.IBV_QP_MAX_QP_RD_ATOMIC())) {
            qp.maxReads = ibv_qp_attr.max_rd_atomic(attr) & 0xff;
        }
        if (has(mask, verbs_h.IBV_QP_MIN_RNR_TIMER())) {
            qp.minRnrTimer = ibv_qp_attr.min_rnr_timer(attr);
        }
        if (has(mask, verbs_h.IBV_QP_TIMEOUT())) {
            qp.timeout = ibv_qp_attr.timeout(attr);
        }
        if (has(mask, verbs_h.IBV_QP_RETRY_CNT())) {
            qp.retries = ibv_qp_attr.retry_cnt(attr);
        }
        if (has(mask, verbs_h.IBV_QP_RNR_RETRY())) {
            qp.rnrRetries = ibv_qp_attr.rnr_retry(attr);
        }
        if (has(mask, verbs_h.IBV_QP_QKEY())) {
            qp.qkey = ibv_qp_attr.qkey(attr);
        }
        if (has(mask, verbs_h.IBV_QP_PORT())) {
            port = ibv_qp_attr.port_num(attr);
        }
        if (has(mask, verbs_h.IBV_QP_PATH_MTU())) {
            mtu = ibv_qp_attr.path_mtu(attr);
        }
        if (has(mask, verbs_h.IBV_QP_PKEY_INDEX())) {
            pkeyIndex = ibv_qp_attr.pkey_index(attr) & 0xffff;
        }
        if (has(mask, verbs_h.IBV_QP_STATE())) {
            if (target == QueuePair.SQD && qp.state != QueuePair.SQD) {
                qp.drainEvent = has(mask, verbs_h.IBV_QP_EN_SQD_ASYNC_NOTIFY()) && ibv_qp_attr.en_sqd_async_notify(attr) != 0;
            }
            qp.enter(target);
        }
    }

    /** Values out of their range are refused before anything has changed. */
    private static void check(final MemorySegment attr, final int mask) {
        if (has(mask, verbs_h.IBV_QP_AV()) && !AddressHandle.names(ibv_qp_attr.ah_attr(attr))) {
            throw refusal("to an address without a GID, or from another GID index than 0");
        }
        if (has(mask, verbs_h.IBV_QP_PORT()) && ibv_qp_attr.port_num(attr) != 1
                || has(mask, verbs_h.IBV_QP_PKEY_INDEX()) && (ibv_qp_attr.pkey_index(attr) & 0xffff) >= Limits.PKEYS
                || has(mask, verbs_h.IBV_QP_DEST_QPN()) && (ibv_qp_attr.dest_qp_num(attr) & ~SQ_PSN_BITS) != 0
                || has(mask, verbs_h.IBV_QP_MAX_DEST_RD_ATOMIC())
                        && (ibv_qp_attr.max_dest_rd_atomic(attr) & 0xff) > Limits.MAX_READS
                || has(mask, verbs_h.IBV_QP_MAX_QP_RD_ATOMIC())
                        && (ibv_qp_attr.max_rd_atomic(attr) & 0xff) > Limits.MAX_READS
                || has(mask, verbs_h.IBV_QP_MIN_RNR_TIMER()) && (ibv_qp_attr.min_rnr_timer(attr) & ~31) != 0
                || has(mask, verbs_h.IBV_QP_TIMEOUT()) && (ibv_qp_attr.timeout(attr) & ~31) != 0
                || has(mask, verbs_h.IBV_QP_RETRY_CNT()) && (ibv_qp_attr.retry_cnt(attr) & ~7) != 0
                || has(mask, verbs_h.IBV_QP_RNR_RETRY()) && (ibv_qp_attr.rnr_retry(attr) & ~7) != 0) {
            throw refusal("with a value out of range");
        }
    }

    private static DeviceException refusal(final String what) {
        return new DeviceException(Posix.EINVAL, "modify a queue pair " + what);
    }

    private static boolean has(final int mask, final int bit) {
        return (mask & bit) != 0;
    }

    public void query(final MemorySegment attr, final MemorySegment init) {
        ibv_qp_attr.qp_state(attr, qp.state);
        ibv_qp_attr.cur_qp_state(attr, qp.state);
        ibv_qp_attr.sq_draining(attr, (byte) (qp.requester.draining() ? 1 : 0));
        ibv_qp_attr.path_mtu(attr, mtu);
        ibv_qp_attr.rq_psn(attr, qp.recvSequence);
        ibv_qp_attr.sq_psn(attr, qp.sendSequence);
        ibv_qp_attr.dest_qp_num(attr, qp.peerNumber);
        ibv_qp_attr.qp_access_flags(attr, qp.access);
        ibv_qp_attr.pkey_index(attr, (short) pkeyIndex);
        ibv_qp_attr.port_num(attr, (byte) port);
        ibv_qp_attr.max_rd_atomic(attr, (byte) qp.maxReads);
        ibv_qp_attr.max_dest_rd_atomic(attr, (byte) qp.maxPeerReads);
        ibv_qp_attr.min_rnr_timer(attr, (byte) qp.minRnrTimer);
        ibv_qp_attr.timeout(attr, (byte) qp.timeout);
        ibv_qp_attr.retry_cnt(attr, (byte) qp.retries);
        ibv_qp_attr.rnr_retry(attr, (byte) qp.rnrRetries);
        ibv_qp_attr.qkey(attr, qp.qkey);
        if (qp.type != QueuePair.UD) {
            final MemorySegment ah = ibv_qp_attr.ah_attr(attr);
            final MemorySegment gid = ibv_global_route.dgid(ibv_ah_attr.grh(ah));
            gid.set(NETWORK_LONG, 0, qp.peerPrefix);
            gid.set(NETWORK_LONG, 8, qp.peerId);
            ibv_ah_attr.is_global(ah, (byte) 1);
            ibv_ah_attr.port_num(ah, (byte) port);
        }
        cap(ibv_qp_attr.cap(attr));
        cap(ibv_qp_init_attr.cap(init));
        ibv_qp_init_attr.qp_type(init, qp.type);
        ibv_qp_init_attr.sq_sig_all(init, qp.signalAll ? 1 : 0);
    }

    private void cap(final MemorySegment cap) {
        ibv_qp_cap.max_send_wr(cap, maxSend);
        ibv_qp_cap.max_recv_wr(cap, maxRecv);
        ibv_qp_cap.max_send_sge(cap, sendSge);
        ibv_qp_cap.max_recv_sge(cap, recvSge);
        ibv_qp_cap.max_inline_data(cap, inline);
    }

    private void destroy() {
        qp.device.remove(qp);
        count(qp, -1);
        posix.free(Memory.i64(qp.address + Layouts.QP_SEND + Layouts.RING_ENTRIES));
        posix.free(Memory.i64(qp.address + Layouts.QP_RECV + Layouts.RING_ENTRIES));
        posix.free(qp.address);
    }
}
