// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_global_route;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_cap;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.ib2tcp.engine.Device;
import org.shadowverbs.ib2tcp.engine.Link;
import org.shadowverbs.ib2tcp.engine.MulticastWay;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.engine.Requester;
import org.shadowverbs.ib2tcp.engine.Responder;
import org.shadowverbs.ib2tcp.engine.SharedQueue;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.Events;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.system.Waiters;
import org.shadowverbs.ib2tcp.verbs.ObjectTable;
import org.shadowverbs.ib2tcp.verbs.QueuePairObject;
import org.shadowverbs.ib2tcp.wire.Frame;

/** A process on the simulated network: its engine, and what its application does. */
public final class SimulatedDevice extends Device {
    static final long PD = 77;
    private static final int CQE = 4096;

    final SimulatedNetwork network;
    final int id;
    final Events async = new Events(posix);
    final CompletionQueue queue;
    final List<String> said = new ArrayList<>();
    /** Of the queue pairs made from then on. */
    public int requests = 32;
    public int sges = 4;
    public int inline = 128;
    private final long cq;
    private final ObjectTable<CompletionQueue> queues = new ObjectTable<>("a completion queue");

    SimulatedDevice(final SimulatedNetwork network, final int id) {
        super(new Posix(), network.secret);
        this.network = network;
        this.id = id;
        cq = posix.allocate(Layouts.CQ_SIZE);
        Memory.i32(cq + Layouts.CQ_MASK, CQE - 1);
        Memory.i64(cq + Layouts.CQ_ENTRIES, posix.allocate(CQE * Layouts.WC_SIZE));
        queue = new CompletionQueue(cq, null, async, new Waiters(posix, 0));
        queues.add(cq, queue);
    }

    @Override
    public long now() {
        return network.time;
    }

    @Override
    public Requester requester(final QueuePair qp) {
        return Transports.requester(qp);
    }

    @Override
    public Responder responder(final QueuePair qp) {
        return Transports.responder(qp);
    }

    @Override
    public long gidPrefix() {
        return 0;
    }

    @Override
    public long gidInterface() {
        return id;
    }

    @Override
    public Link connect(final long prefix, final long peer) {
        return network.connect(this, (int) peer);
    }

    @Override
    public MulticastWay multicastWay() {
        return network.new Channels(this);
    }

    @Override
    public void say(final String line) {
        said.add(line);
    }

    /** A queue pair of a reliable connection, in state RESET. */
    public QueuePairObject create(final boolean signalAll) {
        return create(QueuePair.RC, signalAll, null);
    }

    QueuePairObject create(final int type, final boolean signalAll, final SharedQueue shared) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment pd = MemorySegment.ofAddress(posix.allocate(64));
            final MemorySegment init = ibv_qp_init_attr.allocate(arena);
            final MemorySegment cap = ibv_qp_init_attr.cap(init);
            ibv_qp_cap.max_send_wr(cap, requests);
            ibv_qp_cap.max_recv_wr(cap, requests);
            ibv_qp_cap.max_send_sge(cap, sges);
            ibv_qp_cap.max_recv_sge(cap, sges);
            ibv_qp_cap.max_inline_data(cap, inline);
            ibv_qp_init_attr.qp_type(init, type);
            ibv_qp_init_attr.sq_sig_all(init, signalAll ? 1 : 0);
            ibv_qp_init_attr.send_cq(init, MemorySegment.ofAddress(cq));
            ibv_qp_init_attr.recv_cq(init, MemorySegment.ofAddress(cq));
            return QueuePairObject.create(this, posix, async, pd.address(), init, queues, shared);
        }
    }

    /** Of XRC, to receive. */
    QueuePairObject createReceiver(final int xrcDomain) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment init = ibv_qp_init_attr.allocate(arena);
            ibv_qp_init_attr.qp_type(init, QueuePair.XRC_RECV);
            return QueuePairObject.createReceiver(this, posix, async, 0, xrcDomain, init);
        }
    }

    /** Of XRC: the one sends, the other receives. */
    static void connectXrc(final SimulatedDevice a, final QueuePairObject sender, final SimulatedDevice b,
            final QueuePairObject receiver) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_qp_attr.allocate(arena);
            ibv_qp_attr.port_num(attr, (byte) 1);
            ibv_qp_attr.qp_access_flags(attr, 15);
            ibv_qp_attr.max_dest_rd_atomic(attr, (byte) 4);
            ibv_qp_attr.max_rd_atomic(attr, (byte) 3);
            ibv_qp_attr.min_rnr_timer(attr, (byte) 1);
            ibv_qp_attr.timeout(attr, (byte) 8);
            ibv_qp_attr.retry_cnt(attr, (byte) 7);
            ibv_qp_attr.rnr_retry(attr, (byte) 7);
            ibv_qp_attr.qp_state(attr, QueuePair.INIT);
            final int init = verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_PKEY_INDEX() | verbs_h.IBV_QP_PORT()
                    | verbs_h.IBV_QP_ACCESS_FLAGS();
            sender.modify(attr, init);
            receiver.modify(attr, init);
            ibv_qp_attr.qp_state(attr, QueuePair.RTR);
            final int path = verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_AV() | verbs_h.IBV_QP_PATH_MTU()
                    | verbs_h.IBV_QP_DEST_QPN() | verbs_h.IBV_QP_RQ_PSN();
            address(ibv_qp_attr.ah_attr(attr), b.id);
            ibv_qp_attr.dest_qp_num(attr, number(receiver));
            sender.modify(attr, path);
            address(ibv_qp_attr.ah_attr(attr), a.id);
            ibv_qp_attr.dest_qp_num(attr, number(sender));
            receiver.modify(attr, path | verbs_h.IBV_QP_MAX_DEST_RD_ATOMIC() | verbs_h.IBV_QP_MIN_RNR_TIMER());
            ibv_qp_attr.qp_state(attr, QueuePair.RTS);
            sender.modify(attr, verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_TIMEOUT() | verbs_h.IBV_QP_RETRY_CNT()
                    | verbs_h.IBV_QP_RNR_RETRY() | verbs_h.IBV_QP_SQ_PSN() | verbs_h.IBV_QP_MAX_QP_RD_ATOMIC());
        }
    }

    /** Up to RTS. */
    public static void connect(final QueuePairObject from, final SimulatedDevice to, final int number, final int ownPsn,
            final int peerPsn, final int rnrRetry) {
        connect(from, to, number, ownPsn, peerPsn, rnrRetry, 3, 4);
    }

    /** @param reads that it has under way at most @param peerReads that its peer has */
    public static void connect(final QueuePairObject from, final SimulatedDevice to, final int number, final int ownPsn,
            final int peerPsn, final int rnrRetry, final int reads, final int peerReads) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_qp_attr.allocate(arena);
            ibv_qp_attr.qp_state(attr, QueuePair.INIT);
            ibv_qp_attr.port_num(attr, (byte) 1);
            ibv_qp_attr.qp_access_flags(attr, 15);
            from.modify(attr, verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_PKEY_INDEX() | verbs_h.IBV_QP_PORT()
                    | verbs_h.IBV_QP_ACCESS_FLAGS());
            ibv_qp_attr.qp_state(attr, QueuePair.RTR);
            address(ibv_qp_attr.ah_attr(attr), to.id);
            ibv_qp_attr.dest_qp_num(attr, number);
            ibv_qp_attr.rq_psn(attr, peerPsn);
            ibv_qp_attr.max_dest_rd_atomic(attr, (byte) peerReads);
            ibv_qp_attr.min_rnr_timer(attr, (byte) 1);
            from.modify(attr, verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_AV() | verbs_h.IBV_QP_PATH_MTU()
                    | verbs_h.IBV_QP_DEST_QPN() | verbs_h.IBV_QP_RQ_PSN() | verbs_h.IBV_QP_MAX_DEST_RD_ATOMIC()
                    | verbs_h.IBV_QP_MIN_RNR_TIMER());
            ibv_qp_attr.qp_state(attr, QueuePair.RTS);
            ibv_qp_attr.sq_psn(attr, ownPsn);
            ibv_qp_attr.max_rd_atomic(attr, (byte) reads);
            ibv_qp_attr.timeout(attr, (byte) 8);
            ibv_qp_attr.retry_cnt(attr, (byte) 7);
            ibv_qp_attr.rnr_retry(attr, (byte) rnrRetry);
            from.modify(attr, verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_TIMEOUT() | verbs_h.IBV_QP_RETRY_CNT()
                    | verbs_h.IBV_QP_RNR_RETRY() | verbs_h.IBV_QP_SQ_PSN() | verbs_h.IBV_QP_MAX_QP_RD_ATOMIC());
        }
    }

    /** A queue pair of an unreliable connection, taken to RTS. */
    static void connectUnreliable(final QueuePairObject from, final SimulatedDevice to, final int number) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_qp_attr.allocate(arena);
            ibv_qp_attr.port_num(attr, (byte) 1);
            ibv_qp_attr.qp_access_flags(attr, 15);
            ibv_qp_attr.qp_state(attr, QueuePair.INIT);
            from.modify(attr, verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_PKEY_INDEX() | verbs_h.IBV_QP_PORT()
                    | verbs_h.IBV_QP_ACCESS_FLAGS());
            address(ibv_qp_attr.ah_attr(attr), to.id);
            ibv_qp_attr.dest_qp_num(attr, number);
            ibv_qp_attr.qp_state(attr, QueuePair.RTR);
            from.modify(attr, verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_AV() | verbs_h.IBV_QP_PATH_MTU()
                    | verbs_h.IBV_QP_DEST_QPN() | verbs_h.IBV_QP_RQ_PSN());
            ibv_qp_attr.qp_state(attr, QueuePair.RTS);
            from.modify(attr, verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_SQ_PSN());
        }
    }

    /** A queue pair for datagrams, taken to RTS. */
    static void ready(final QueuePairObject qp, final int qkey) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_qp_attr.allocate(arena);
            ibv_qp_attr.port_num(attr, (byte) 1);
            ibv_qp_attr.qkey(attr, qkey);
            ibv_qp_attr.qp_state(attr, QueuePair.INIT);
            qp.modify(attr, verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_PKEY_INDEX() | verbs_h.IBV_QP_PORT()
                    | verbs_h.IBV_QP_QKEY());
            ibv_qp_attr.qp_state(attr, QueuePair.RTR);
            qp.modify(attr, verbs_h.IBV_QP_STATE());
            ibv_qp_attr.qp_state(attr, QueuePair.RTS);
            qp.modify(attr, verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_SQ_PSN());
        }
    }

    static void toState(final QueuePairObject qp, final int state) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_qp_attr.allocate(arena);
            ibv_qp_attr.qp_state(attr, state);
            qp.modify(attr, verbs_h.IBV_QP_STATE());
        }
    }

    private static void address(final MemorySegment ah, final int id) {
        ibv_ah_attr.is_global(ah, (byte) 1);
        ibv_ah_attr.port_num(ah, (byte) 1);
        ibv_global_route.dgid(ibv_ah_attr.grh(ah)).set(ValueLayout.JAVA_BYTE, 15, (byte) id);
    }

    /** As ibv_create_srq makes it. */
    SharedQueue createShared(final int requests) {
        return createShared(requests, 0);
    }

    /** @param xrcDomain 0: not of XRC */
    SharedQueue createShared(final int requests, final int xrcDomain) {
        final int bell = newBell();
        final long address = posix.allocate(Layouts.SRQ_SIZE);
        Memory.i32(address + Layouts.SRQ_BELL, bell);
        QueuePairObject.ring(posix, address + Layouts.SRQ_RECV, Layouts.RECV_SIZE, requests, 2, 0);
        final SharedQueue shared =
                new SharedQueue(posix, address, number(bell), PD, xrcDomain, xrcDomain == 0 ? null : queue, async);
        add(bell, shared);
        return shared;
    }

    /** The next asynchronous event's type; -1: there is none. */
    int event() {
        final long record = posix.allocate(64);
        final int type = posix.read(async.readEnd, record, 16) == 16 ? Memory.i32(record + 8) : -1;
        posix.free(record);
        return type;
    }

    public static int number(final QueuePairObject qp) {
        return Memory.i32(qp.address() + Layouts.QP_BELL);
    }

    /** As native/src/tcp/tcp_post.c does; immediate data are the wr_id. @return false: the queue is full */
    public boolean post(final QueuePairObject qp, final long wrId, final int opcode, final int flags, final long[] sges,
            final int[] lengths, final int lkey, final long remote, final int rkey, final long compareAdd,
            final long swap) {
        return post(qp, wrId, opcode, flags, sges, lengths, lkey, remote, rkey, compareAdd, swap, (int) wrId);
    }

    boolean post(final QueuePairObject qp, final long wrId, final int opcode, final int flags, final long[] sges,
            final int[] lengths, final int lkey, final long remote, final int rkey, final long compareAdd,
            final long swap, final int imm) {
        final long ring = qp.address() + Layouts.QP_SEND;
        final int tail = Memory.i32(qp.address() + Layouts.QP_SEND_TAIL);
        if (tail - Memory.i32(qp.address() + Layouts.QP_SEND_HEAD) >= Memory.i32(ring + Layouts.RING_MAX)) {
            return false;
        }
        final long at = entry(ring, tail);
        long length = 0;
        for (int i = 0; i < sges.length; i++) {
            if ((flags & 8) != 0) {
                Memory.copy(sges[i], at + Layouts.SEND_SIZE + length, lengths[i]);
            } else {
                sge(at + Layouts.SEND_SIZE, i, sges[i], lengths[i], lkey);
            }
            length += lengths[i];
        }
        Memory.i64(at + Layouts.SEND_WR_ID, wrId);
        Memory.i32(at + Layouts.SEND_OPCODE, opcode);
        Memory.i32(at + Layouts.SEND_FLAGS, flags);
        Memory.i32(at + Layouts.SEND_NUM_SGE, (flags & 8) != 0 ? 0 : sges.length);
        Memory.i32(at + Layouts.SEND_IMM, imm);
        Memory.i64(at + Layouts.SEND_LENGTH, length);
        Memory.i64(at + Layouts.SEND_REMOTE, remote);
        Memory.i32(at + Layouts.SEND_RKEY, rkey);
        Memory.i64(at + Layouts.SEND_COMPARE, compareAdd);
        Memory.i64(at + Layouts.SEND_SWAP, swap);
        Memory.release(qp.address() + Layouts.QP_SEND_TAIL, tail + 1);
        queuePair(number(qp)).onDoorbell();
        return true;
    }

    /** A request that moves nothing: BIND_MW of memory behind an lkey, or LOCAL_INV. */
    boolean local(final QueuePairObject qp, final long wrId, final int opcode, final int rkey, final int lkey,
            final long from, final long bytes) {
        return opcode == Frame.LOCAL_INV
                ? post(qp, wrId, opcode, 2, new long[0], new int[0], 0, 0, 0, 0, 0, rkey)
                : post(qp, wrId, opcode, 2, new long[0], new int[0], 0, from, rkey, bytes, lkey, 14);
    }

    /** A datagram from one SGE. */
    boolean datagram(final QueuePairObject qp, final long wrId, final SimulatedDevice to, final int number,
            final int qkey, final long from, final int length, final int lkey) {
        return post(qp, wrId, Frame.SEND_IMM, 2, new long[] {from}, new int[] {length}, lkey, 0, number, to.id,
                qkey & 0xffff_ffffL);
    }

    boolean receive(final QueuePairObject qp, final long wrId, final long address, final int length, final int lkey) {
        return receive(qp.address() + Layouts.QP_RECV, qp.address() + Layouts.QP_RECV_TAIL,
                qp.address() + Layouts.QP_RECV_HEAD, qp.address() + Layouts.QP_RECV_WANTED, number(qp), wrId, address,
                length, lkey);
    }

    boolean receive(final SharedQueue shared, final long wrId, final long address, final int length, final int lkey) {
        return receive(shared.address + Layouts.SRQ_RECV, shared.address + Layouts.SRQ_TAIL,
                shared.address + Layouts.SRQ_HEAD, shared.address + Layouts.SRQ_WANTED,
                Memory.i32(shared.address + Layouts.SRQ_BELL), wrId, address, length, lkey);
    }

    private boolean receive(final long ring, final long tailAt, final long headAt, final long wantedAt, final int bell,
            final long wrId, final long address, final int length, final int lkey) {
        final int tail = Memory.i32(tailAt);
        if (tail - Memory.i32(headAt) >= Memory.i32(ring + Layouts.RING_MAX)) {
            return false;
        }
        final long at = entry(ring, tail);
        Memory.i64(at + Layouts.RECV_WR_ID, wrId);
        Memory.i32(at + Layouts.RECV_NUM_SGE, 1);
        sge(at + Layouts.RECV_SIZE, 0, address, length, lkey);
        Memory.release(tailAt, tail + 1);
        if (Memory.i32(wantedAt) != 0) {
            onDoorbell(bell);
        }
        return true;
    }

    private static long entry(final long ring, final int index) {
        return Memory.i64(ring + Layouts.RING_ENTRIES)
                + (long) (index & Memory.i32(ring + Layouts.RING_MASK)) * Memory.i32(ring + Layouts.RING_STRIDE);
    }

    private static void sge(final long list, final int n, final long address, final int length, final int lkey) {
        final long at = list + n * Layouts.SGE_SIZE;
        Memory.i64(at + Layouts.SGE_ADDR, address);
        Memory.i32(at + Layouts.SGE_LENGTH, length);
        Memory.i32(at + Layouts.SGE_LKEY, lkey);
    }

    /** Polls all completions that there are: successes, in order. @param next what the first one's wr_id is @return the next's */
    public int successes(final int next) {
        int expected = next;
        for (long wc = poll(); wc != 0; wc = poll()) {
            assertEquals(0, Memory.i32(wc + Layouts.WC_STATUS));
            assertEquals(expected++, Memory.i64(wc + Layouts.WC_WR_ID), "requests complete in order");
        }
        return expected;
    }

    /** The next completion's address, valid until 4,095 others have come; 0: none. */
    long poll() {
        final int head = Memory.i32(cq + Layouts.CQ_HEAD);
        if (head == Memory.i32(cq + Layouts.CQ_TAIL)) {
            return 0;
        }
        Memory.i32(cq + Layouts.CQ_HEAD, head + 1);
        return Memory.i64(cq + Layouts.CQ_ENTRIES) + (head & CQE - 1) * Layouts.WC_SIZE;
    }
}
