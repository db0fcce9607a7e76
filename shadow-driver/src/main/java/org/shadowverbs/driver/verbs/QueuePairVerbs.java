// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.shadowverbs.bindings.abi.sv_bookmark;
import org.shadowverbs.bindings.abi.sv_qp_spec;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_cap;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr_ex;
import org.shadowverbs.bindings.verbs.ibv_qp_rate_limit_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Cq;
import org.shadowverbs.driver.model.Job;
import org.shadowverbs.driver.model.KeyMaps;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Pd;
import org.shadowverbs.driver.model.Ports;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.QpHandle;
import org.shadowverbs.driver.model.Resource;
import org.shadowverbs.driver.model.Srq;
import org.shadowverbs.driver.model.Xrcd;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.driver.xrc.SharedReceivers;
import org.shadowverbs.driver.xrc.XrcVerbs;
import org.shadowverbs.ids.ExceptionSet;

/** Queue pairs. */
public final class QueuePairVerbs {
    /** Packet sequence numbers have 24 bits (IBTA volume 1, 9.2). */
    private static final int PSN_MASK = 0xffffff;

    private static final long SEND_OPERATIONS = verbs_h.IBV_QP_EX_WITH_RDMA_WRITE()
            | verbs_h.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM() | verbs_h.IBV_QP_EX_WITH_SEND()
            | verbs_h.IBV_QP_EX_WITH_SEND_WITH_IMM() | verbs_h.IBV_QP_EX_WITH_RDMA_READ()
            | verbs_h.IBV_QP_EX_WITH_LOCAL_INV() | verbs_h.IBV_QP_EX_WITH_BIND_MW()
            | verbs_h.IBV_QP_EX_WITH_SEND_WITH_INV()
            | verbs_h.IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP() | verbs_h.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD();

    private final Native library;
    private final ChosenBackend backend;
    private final Model model;
    private final Translate translate;
    private final KeyMaps keyMaps;
    private final Job job;
    private final DatagramVerbs datagrams;
    private final SharedReceivers receivers;
    private final Pacing pacing;

    public QueuePairVerbs(final Native library, final ChosenBackend backend, final Model model, final KeyMaps keyMaps,
            final Job job) {
        this.library = library;
        this.backend = backend;
        this.model = model;
        this.translate = new Translate(backend, model, job);
        this.keyMaps = keyMaps;
        this.job = job;
        this.datagrams = new DatagramVerbs(library, backend, model, job);
        this.receivers = new SharedReceivers(library, backend, model, job);
        this.pacing = new Pacing(library, backend);
    }

    public Pacing pacing() {
        return pacing;
    }

    public SharedReceivers receivers() {
        return receivers;
    }

    /** A context is about to be closed, with what the application has not destroyed. */
    void leave(final long vcontext) {
        receivers.leaveAll(model.contexts.get(vcontext));
    }

    public DatagramVerbs datagrams() {
        return datagrams;
    }

    long create(final long vpd, final MemorySegment init) {
        if (ibv_qp_init_attr.qp_type(init) == verbs_h.IBV_QPT_XRC_RECV()) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        return create(model.pds.get(vpd), null, init, false, 0);
    }

    public long createEx(final MemorySegment init) {
        final int mask = ibv_qp_init_attr_ex.comp_mask(init);
        final int known = verbs_h.IBV_QP_INIT_ATTR_PD() | verbs_h.IBV_QP_INIT_ATTR_XRCD()
                | verbs_h.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS() | verbs_h.IBV_QP_INIT_ATTR_CREATE_FLAGS();
        if ((mask & ~known) != 0 || (mask & verbs_h.IBV_QP_INIT_ATTR_CREATE_FLAGS()) != 0
                && ibv_qp_init_attr_ex.create_flags(init) != 0) {
            throw VerbsException.unsupported("ibv_create_qp_ex with comp_mask 0x" + Integer.toHexString(mask));
        }
        final boolean receiver = ibv_qp_init_attr.qp_type(init) == verbs_h.IBV_QPT_XRC_RECV();
        if ((mask & (receiver ? verbs_h.IBV_QP_INIT_ATTR_XRCD() : verbs_h.IBV_QP_INIT_ATTR_PD())) == 0) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        if (receiver) {
            return create(null, model.xrcds.get(ibv_qp_init_attr_ex.xrcd(init).address()), init, false, 0);
        }
        final boolean extended = (mask & verbs_h.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS()) != 0;
        final long operations = extended ? ibv_qp_init_attr_ex.send_ops_flags(init) : 0;
        if ((operations & ~SEND_OPERATIONS) != 0) {
            throw VerbsException.unsupported("ibv_create_qp_ex with send_ops_flags 0x"
                    + Long.toHexString(operations & ~SEND_OPERATIONS));
        }
        // The extended struct begins with the fields of the plain one.
        return create(model.pds.get(ibv_qp_init_attr_ex.pd(init).address()), null, init, extended, operations);
    }

    private static boolean isKnown(final int type) {
        return type == verbs_h.IBV_QPT_RC() || type == verbs_h.IBV_QPT_UC() || type == verbs_h.IBV_QPT_UD()
                || type == verbs_h.IBV_QPT_XRC_SEND() || type == verbs_h.IBV_QPT_XRC_RECV();
    }

    private Cq completionQueue(final MemorySegment vcq) {
        return model.cqs.get(vcq.address());
    }

    /** Either with a protection domain, or, to receive by XRC, with a domain of that. */
    private long create(final Pd pd, final Xrcd xrcd, final MemorySegment init, final boolean extended,
            final long operations) {
        final int type = ibv_qp_init_attr.qp_type(init);
        if (!isKnown(type)) {
            throw VerbsException.unsupported("a queue pair of type " + type);
        }
        // With the one request more it would be none; of all other sizes the device says whether it has them.
        if (xrcd == null && ibv_qp_cap.max_send_wr(ibv_qp_init_attr.cap(init)) == -1) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        final Context context = pd != null ? pd.context : xrcd.context;
        final boolean receives = type != verbs_h.IBV_QPT_XRC_SEND() && xrcd == null;
        final Cq sendCq = xrcd != null ? null : completionQueue(ibv_qp_init_attr.send_cq(init));
        final Cq receiveCq = receives ? completionQueue(ibv_qp_init_attr.recv_cq(init)) : null;
        final long vsrq = receives ? ibv_qp_init_attr.srq(init).address() : 0;
        final Srq srq = vsrq == 0 ? null : model.srqs.get(vsrq);
        final boolean signalAll = ibv_qp_init_attr.sq_sig_all(init) != 0;
        if (type == verbs_h.IBV_QPT_UD()) {
            datagrams.hearOthers(context.virtual);
        }
        final long virtual = library.qpAlloc(context.virtual, pd == null ? 0 : pd.virtual);
        if (virtual == 0) {
            throw new VerbsException(VerbsErrno.ENOMEM);
        }
        long real = 0;
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment realInit = ibv_qp_init_attr_ex.allocate(arena);
            fillInit(realInit, virtual, type, xrcd, sendCq, receiveCq, srq, signalAll, ibv_qp_init_attr.cap(init));
            real = createReal(context, pd, realInit);
            final MemorySegment cap = ibv_qp_init_attr.cap(realInit);
            ibv_qp_cap.max_send_wr(cap, Math.max(0, ibv_qp_cap.max_send_wr(cap) - 1));
            final Qp qp = new Qp(virtual, real, model.nextSequence(), context, pd, xrcd, sendCq, receiveCq, srq, type,
                    context.qpNums.virtualOf(backend.now().qpNum(real)), signalAll,
                    ibv_qp_init_attr.qp_context(init).address(), ibv_qp_cap.max_send_wr(cap),
                    ibv_qp_cap.max_recv_wr(cap), ibv_qp_cap.max_send_sge(cap), ibv_qp_cap.max_recv_sge(cap),
                    ibv_qp_cap.max_inline_data(cap));
            VerbsException.check(library.qpOpen(virtual, spec(arena, qp, cap, extended, operations)));
            VerbsException.check(library.qpBind(virtual, real));
            ibv_qp_init_attr.cap(init, cap);
            receivers.register(qp);
            model.qps.add(qp);
            return virtual;
        } catch (RuntimeException e) {
            Qp.discard(library, backend.now(), virtual, real);
            throw e;
        }
    }

    /** Parameters of the real queue pair: it has one send request more, for the drain's marker. */
    private static void fillInit(final MemorySegment realInit, final long virtual, final int type, final Xrcd xrcd,
            final Cq sendCq, final Cq receiveCq, final Srq srq, final boolean signalAll, final MemorySegment cap) {
        ibv_qp_init_attr.qp_context(realInit, MemorySegment.ofAddress(virtual));
        ibv_qp_init_attr.qp_type(realInit, type);
        ibv_qp_init_attr.sq_sig_all(realInit, signalAll ? 1 : 0);
        if (xrcd != null) {
            ibv_qp_init_attr_ex.comp_mask(realInit, verbs_h.IBV_QP_INIT_ATTR_XRCD());
            ibv_qp_init_attr_ex.xrcd(realInit, MemorySegment.ofAddress(xrcd.real));
            return;
        }
        ibv_qp_init_attr.send_cq(realInit, MemorySegment.ofAddress(sendCq.real));
        ibv_qp_init_attr.recv_cq(realInit, MemorySegment.ofAddress(receiveCq == null ? 0 : receiveCq.real));
        ibv_qp_init_attr.srq(realInit, MemorySegment.ofAddress(srq == null ? 0 : srq.real));
        ibv_qp_init_attr.cap(realInit, cap);
        final MemorySegment realCap = ibv_qp_init_attr.cap(realInit);
        ibv_qp_cap.max_send_wr(realCap, ibv_qp_cap.max_send_wr(realCap) + 1);
    }

    private long createOne(final Context context, final Pd pd, final MemorySegment realInit) {
        return pd == null ? backend.now().createQpEx(context.real, realInit)
                : backend.now().createQp(pd.real, realInit);
    }

    private long createReal(final Context context, final Pd pd, final MemorySegment realInit) {
        return AcceptableIds.create("queue pair number", List.of(context.qpNums), () -> createOne(context, pd, realInit),
                real -> context.qpNums.accepts(backend.now().qpNum(real)), backend.now()::destroyQp);
    }

    private static MemorySegment virtualOf(final Resource resource) {
        return MemorySegment.ofAddress(resource == null ? 0 : resource.virtual);
    }

    private static MemorySegment spec(final Arena arena, final Qp qp, final MemorySegment cap,
            final boolean extended, final long operations) {
        final MemorySegment spec = sv_qp_spec.allocate(arena);
        sv_qp_spec.send_cq(spec, virtualOf(qp.sendCq));
        sv_qp_spec.recv_cq(spec, virtualOf(qp.receiveCq));
        sv_qp_spec.srq(spec, virtualOf(qp.srq));
        sv_qp_spec.xrcd(spec, virtualOf(qp.xrcd));
        sv_qp_spec.qp_context(spec, MemorySegment.ofAddress(qp.qpContext));
        sv_qp_spec.cap(spec, cap);
        sv_qp_spec.qp_type(spec, qp.type);
        sv_qp_spec.sq_sig_all(spec, qp.signalAll ? 1 : 0);
        sv_qp_spec.vqp_num(spec, qp.virtualQpNum);
        sv_qp_spec.extended(spec, extended ? 1 : 0);
        sv_qp_spec.send_ops_flags(spec, operations);
        return spec;
    }

    /** Makes the real queue pair of a virtual one anew, in RESET; of further handles see {@link XrcVerbs#reopen}. */
    public void recreate(final Qp qp) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment cap = ibv_qp_cap.allocate(arena);
            ibv_qp_cap.max_send_wr(cap, qp.maxSendWr);
            ibv_qp_cap.max_recv_wr(cap, qp.maxRecvWr);
            ibv_qp_cap.max_send_sge(cap, qp.maxSendSge);
            ibv_qp_cap.max_recv_sge(cap, qp.maxRecvSge);
            ibv_qp_cap.max_inline_data(cap, qp.maxInlineData);
            final MemorySegment realInit = ibv_qp_init_attr_ex.allocate(arena);
            fillInit(realInit, qp.maker(), qp.type, qp.makersDomain(), qp.sendCq, qp.receiveCq, qp.srq, qp.signalAll, cap);
            qp.real = createOne(qp.context(), qp.pd, realInit);
            VerbsException.check(library.qpBind(qp.virtual, qp.real));
        }
    }

    public int modify(final long vqp, final MemorySegment attr, final int mask) {
        final Qp qp = model.queuePair(vqp);
        synchronized (qp) {
            if ((mask & verbs_h.IBV_QP_CAP()) != 0) {
                throw VerbsException.unsupported("ibv_modify_qp with IBV_QP_CAP");
            }
            if ((mask & verbs_h.IBV_QP_AV()) != 0) {
                job.awaitAddressBook();
            }
            final int err = qp.shared == null ? modifyReal(qp, attr, mask)
                    : receivers.locked(qp.shared, () -> modifyShared(qp, attr, mask));
            if (err != 0) {
                return err;
            }
            if ((mask & verbs_h.IBV_QP_AV()) != 0) {
                qp.peerGone = false;
                library.qpPeer(qp.virtual, qp.attributes.destQpNum(), qp.attributes.destLid());
                pushRemoteIds(qp);
            }
            if ((mask & verbs_h.IBV_QP_STATE()) != 0) {
                library.qpState(qp.virtual, ibv_qp_attr.qp_state(attr));
            }
            return 0;
        }
    }

    private int modifyReal(final Qp qp, final MemorySegment attr, final int mask) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment real = ibv_qp_attr.allocate(arena);
            real.copyFrom(attr);
            translate.toReal(qp.context(), real, mask);
            final int err = backend.now().modifyQp(qp.real, real, mask);
            if (err != 0) {
                return err;
            }
        }
        if (resets(attr, mask) && qp.attributes.connected()) {
            model.receiverEnded(qp.xrcd, qp.virtualQpNum);
        }
        qp.attributes.record(attr, mask);
        return 0;
    }

    int modifyRateLimit(final long vqp, final MemorySegment attr) {
        final Qp qp = model.queuePair(vqp);
        if (ibv_qp_rate_limit_attr.comp_mask(attr) != 0 || qp.xrcd != null) {
            return VerbsErrno.EINVAL;
        }
        synchronized (qp) {
            final int err = backend.now().modifyQpRateLimit(qp.real, attr);
            if (err == 0) {
                qp.attributes.recordRateLimit(attr);
            }
            return err;
        }
    }

    private static boolean resets(final MemorySegment attr, final int mask) {
        return (mask & verbs_h.IBV_QP_STATE()) != 0 && ibv_qp_attr.qp_state(attr) == verbs_h.IBV_QPS_RESET();
    }

    /** One that others may have open: they find it in the register. */
    private int modifyShared(final Qp qp, final MemorySegment attr, final int mask) {
        receivers.load(qp);
        final boolean wasConnected = qp.attributes.connected();
        final int err = modifyReal(qp, attr, mask);
        if (err == 0) {
            receivers.store(qp, wasConnected && resets(attr, mask));
        }
        return err;
    }

    /** Gives C the ids of the peer that do not mean themselves: remote keys, numbers of shared receive queues. */
    public void pushRemoteIds(final Qp qp) {
        if (qp.type == verbs_h.IBV_QPT_XRC_SEND()) {
            XrcVerbs.pushSrqNumbers(library, model, qp);
        }
        final ExceptionSet keys = qp.attributes.connected() ? translate.remoteKeys(qp.attributes)
                : ExceptionSet.EMPTY;
        final long old = qp.remoteKeyMap;
        qp.remoteKeyMap = keyMaps.acquire(keys);
        if (qp.remoteKeyMap != old) {
            library.qpSetRkeys(qp.virtual, qp.remoteKeyMap);
        }
        keyMaps.release(old);
    }

    /** Takes the real queue pair from RESET through one transition, as it was recorded. */
    public int replay(final Qp qp, final int target) {
        return replay(qp, target, 0);
    }

    /** @param psnShift that the first packet sequence numbers of both directions are higher by */
    public int replay(final Qp qp, final int target, final int psnShift) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment real = ibv_qp_attr.allocate(arena);
            int mask = qp.attributes.fill(real, target, target == verbs_h.IBV_QPS_INIT() ? atInit(qp) : 0)
                    | pacing.fillBeforeRts(qp, real, target);
            if (target == verbs_h.IBV_QPS_SQD() && sqDrained(qp, arena)) {
                mask &= ~verbs_h.IBV_QP_EN_SQD_ASYNC_NOTIFY();
            }
            ibv_qp_attr.rq_psn(real, ibv_qp_attr.rq_psn(real) + psnShift & PSN_MASK);
            ibv_qp_attr.sq_psn(real, ibv_qp_attr.sq_psn(real) + psnShift & PSN_MASK);
            if (qp.peerGone) {
                translate.toNobody(qp.context(), real, mask);
            } else {
                translate.toReal(qp.context(), real, mask);
            }
            return backend.now().modifyQp(qp.real, real, mask);
        }
    }

    /** Without which no driver takes a queue pair to INIT. */
    private static int atInit(final Qp qp) {
        return verbs_h.IBV_QP_PKEY_INDEX() | verbs_h.IBV_QP_PORT()
                | (qp.datagrams() ? verbs_h.IBV_QP_QKEY() : verbs_h.IBV_QP_ACCESS_FLAGS());
    }

    /** The application has its event, or the log of events does: it must not come again. */
    private boolean sqDrained(final Qp qp, final Arena arena) {
        final MemorySegment bookmark = sv_bookmark.allocate(arena);
        library.qpBookmark(qp.virtual, bookmark);
        return sv_bookmark.sq_drained(bookmark) != 0;
    }

    public int query(final long vqp, final MemorySegment attr, final int mask, final MemorySegment init) {
        final Qp qp = model.queuePair(vqp);
        final QpHandle handle = model.qpHandles.find(vqp);
        synchronized (qp) {
            if (qp.shared != null) {
                receivers.locked(qp.shared, () -> {
                    receivers.load(qp);
                    return null;
                });
            }
            final int err = backend.now().queryQp(qp.real, attr, mask, init);
            if (err != 0) {
                return err;
            }
            qp.attributes.overlay(attr);
            cap(qp, ibv_qp_attr.cap(attr));
            cap(qp, ibv_qp_init_attr.cap(init));
            ibv_qp_init_attr.qp_context(init, MemorySegment.ofAddress(handle == null ? qp.qpContext
                    : handle.qpContext));
            ibv_qp_init_attr.send_cq(init, virtualOf(qp.sendCq));
            ibv_qp_init_attr.recv_cq(init, virtualOf(qp.receiveCq));
            ibv_qp_init_attr.srq(init, virtualOf(qp.srq));
            return 0;
        }
    }

    private static void cap(final Qp qp, final MemorySegment cap) {
        ibv_qp_cap.max_send_wr(cap, qp.maxSendWr);
        ibv_qp_cap.max_recv_wr(cap, qp.maxRecvWr);
        ibv_qp_cap.max_send_sge(cap, qp.maxSendSge);
        ibv_qp_cap.max_recv_sge(cap, qp.maxRecvSge);
        ibv_qp_cap.max_inline_data(cap, qp.maxInlineData);
    }

    /** Destroys one handle. The queue pair ends with the last one of all processes that have it open. */
    public int destroy(final long vqp) {
        final Qp qp = model.queuePair(vqp);
        final QpHandle handle = model.qpHandles.find(vqp);
        synchronized (qp) {
            return qp.shared == null ? destroy(qp, handle) : receivers.locked(qp.shared, () -> destroy(qp, handle));
        }
    }

    private int destroy(final Qp qp, final QpHandle handle) {
        final int err = backend.now().destroyQp(handle == null ? qp.real : handle.real);
        if (err != 0) {
            return err;
        }
        if (handle == null) {
            qp.closed = true;
        } else {
            qp.handles.remove(handle);
            model.qpHandles.remove(handle);
            library.qpFree(handle.virtual);
        }
        if (!qp.closed) {
            return 0;
        }
        if (!qp.handles.isEmpty()) {
            qp.real = qp.handles.get(0).real;
            return 0;
        }
        qp.real = 0;
        model.qps.remove(qp);
        if (qp.shared != null) {
            receivers.load(qp);
        }
        if (qp.shared != null && receivers.leave(qp)) {
            library.qpLeave(qp.virtual);
        } else {
            end(qp);
        }
        library.qpFree(qp.virtual);
        keyMaps.release(qp.remoteKeyMap);
        library.idmapFree(qp.srqNumberMap);
        return 0;
    }

    private void end(final Qp qp) {
        if (qp.attributes.connected()) {
            Ports.ensure(backend.now(), qp.context(), model.masks);
            model.bury(qp);
            model.receiverEnded(qp.xrcd, qp.virtualQpNum);
        }
    }
}
