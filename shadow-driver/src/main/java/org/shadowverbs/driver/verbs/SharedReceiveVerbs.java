// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.shadowverbs.bindings.abi.sv_srq_spec;
import org.shadowverbs.bindings.verbs.ibv_srq_attr;
import org.shadowverbs.bindings.verbs.ibv_srq_init_attr;
import org.shadowverbs.bindings.verbs.ibv_srq_init_attr_ex;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Cq;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Pd;
import org.shadowverbs.driver.model.Srq;
import org.shadowverbs.driver.model.Xrcd;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;

/** Shared receive queues. */
public final class SharedReceiveVerbs {
    private final Native library;
    private final ChosenBackend backend;
    private final Model model;

    SharedReceiveVerbs(final Native library, final ChosenBackend backend, final Model model) {
        this.library = library;
        this.backend = backend;
        this.model = model;
    }

    long createEx(final MemorySegment init) {
        final int mask = ibv_srq_init_attr_ex.comp_mask(init);
        final int type = (mask & verbs_h.IBV_SRQ_INIT_ATTR_TYPE()) != 0 ? ibv_srq_init_attr_ex.srq_type(init)
                : verbs_h.IBV_SRQT_BASIC();
        final boolean xrc = type == verbs_h.IBV_SRQT_XRC();
        final int ofXrc = xrc ? verbs_h.IBV_SRQ_INIT_ATTR_XRCD() | verbs_h.IBV_SRQ_INIT_ATTR_CQ() : 0;
        if (!xrc && type != verbs_h.IBV_SRQT_BASIC()) {
            throw VerbsException.unsupported("a shared receive queue of type " + type);
        }
        if ((mask & ~(verbs_h.IBV_SRQ_INIT_ATTR_TYPE() | verbs_h.IBV_SRQ_INIT_ATTR_PD() | ofXrc)) != 0) {
            throw VerbsException.unsupported("ibv_create_srq_ex with comp_mask 0x" + Integer.toHexString(mask));
        }
        if ((mask & verbs_h.IBV_SRQ_INIT_ATTR_PD()) == 0 || (mask & ofXrc) != ofXrc) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        // The extended struct begins with the fields of the plain one.
        return create(ibv_srq_init_attr_ex.pd(init).address(), init,
                xrc ? model.xrcds.get(ibv_srq_init_attr_ex.xrcd(init).address()) : null,
                xrc ? model.cqs.get(ibv_srq_init_attr_ex.cq(init).address()) : null);
    }

    long create(final long vpd, final MemorySegment init) {
        return create(vpd, init, null, null);
    }

    /** @param xrcd null: not of XRC, as is cq */
    private long create(final long vpd, final MemorySegment init, final Xrcd xrcd, final Cq cq) {
        final Pd pd = model.pds.get(vpd);
        final long virtual = library.srqAlloc(vpd);
        if (virtual == 0) {
            throw new VerbsException(VerbsErrno.ENOMEM);
        }
        long real = 0;
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_srq_init_attr.attr(init);
            final MemorySegment realInit = init(arena, virtual, ibv_srq_attr.max_wr(attr), ibv_srq_attr.max_sge(attr));
            real = createReal(pd, xrcd, cq, realInit);
            final MemorySegment granted = ibv_srq_init_attr.attr(realInit);
            final Srq srq = new Srq(virtual, real, pd, ibv_srq_init_attr.srq_context(init).address(),
                    ibv_srq_attr.max_wr(granted), ibv_srq_attr.max_sge(granted), xrcd, cq,
                    xrcd == null ? 0 : pd.context.srqNums.virtualOf(backend.now().srqNum(real)));
            final MemorySegment spec = sv_srq_spec.allocate(arena);
            sv_srq_spec.srq_context(spec, MemorySegment.ofAddress(srq.srqContext));
            sv_srq_spec.max_wr(spec, srq.maxWr);
            sv_srq_spec.max_sge(spec, srq.maxSge);
            sv_srq_spec.xrcd(spec, MemorySegment.ofAddress(xrcd == null ? 0 : xrcd.virtual));
            sv_srq_spec.cq(spec, MemorySegment.ofAddress(cq == null ? 0 : cq.virtual));
            sv_srq_spec.vnumber(spec, srq.virtualNumber);
            sv_srq_spec.room(spec, pd.context.maxSrqWr);
            VerbsException.check(library.srqOpen(virtual, spec));
            library.srqBind(virtual, real);
            ibv_srq_attr.max_wr(attr, srq.maxWr);
            ibv_srq_attr.max_sge(attr, srq.maxSge);
            model.srqs.add(srq);
            return virtual;
        } catch (RuntimeException e) {
            if (real != 0) {
                backend.now().destroySrq(real);
            }
            library.srqFree(virtual);
            throw e;
        }
    }

    private long createReal(final Pd pd, final Xrcd xrcd, final Cq cq, final MemorySegment realInit) {
        if (xrcd == null) {
            return backend.now().createSrq(pd.real, realInit);
        }
        return AcceptableIds.create("number of a shared receive queue", List.of(pd.context.srqNums),
                () -> createOfXrc(backend.now(), pd, xrcd, cq, realInit),
                real -> pd.context.srqNums.accepts(backend.now().srqNum(real)),
                backend.now()::destroySrq);
    }

    private static long createOfXrc(final Backend backend, final Pd pd, final Xrcd xrcd, final Cq cq,
            final MemorySegment realInit) {
        ibv_srq_init_attr_ex.comp_mask(realInit, verbs_h.IBV_SRQ_INIT_ATTR_TYPE() | verbs_h.IBV_SRQ_INIT_ATTR_PD()
                | verbs_h.IBV_SRQ_INIT_ATTR_XRCD() | verbs_h.IBV_SRQ_INIT_ATTR_CQ());
        ibv_srq_init_attr_ex.srq_type(realInit, verbs_h.IBV_SRQT_XRC());
        ibv_srq_init_attr_ex.pd(realInit, MemorySegment.ofAddress(pd.real));
        ibv_srq_init_attr_ex.xrcd(realInit, MemorySegment.ofAddress(xrcd.real));
        ibv_srq_init_attr_ex.cq(realInit, MemorySegment.ofAddress(cq.real));
        return backend.createSrqEx(pd.context.real, realInit);
    }

    /** The limit is not armed at creation, whatever it says (ibv_create_srq(3)). */
    private static MemorySegment init(final Arena arena, final long virtual, final int maxWr, final int maxSge) {
        final MemorySegment realInit = ibv_srq_init_attr_ex.allocate(arena);
        ibv_srq_init_attr.srq_context(realInit, MemorySegment.ofAddress(virtual));
        ibv_srq_attr.max_wr(ibv_srq_init_attr.attr(realInit), maxWr);
        ibv_srq_attr.max_sge(ibv_srq_init_attr.attr(realInit), maxSge);
        return realInit;
    }

    /** Makes the real queue of a virtual one anew, empty. */
    public static void recreate(final Native library, final Backend backend, final Srq srq) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment realInit = init(arena, srq.virtual, srq.maxWr, srq.maxSge);
            srq.real = srq.xrcd == null ? backend.createSrq(srq.pd.real, realInit)
                    : createOfXrc(backend, srq.pd, srq.xrcd, srq.cq, realInit);
            library.srqBind(srq.virtual, srq.real);
        }
    }

    int modify(final long vsrq, final MemorySegment attr, final int mask) {
        final Srq srq = model.srqs.get(vsrq);
        synchronized (srq) {
            final int err = backend.now().modifySrq(srq.real, attr, mask);
            if (err == 0 && (mask & verbs_h.IBV_SRQ_MAX_WR()) != 0) {
                srq.maxWr = ibv_srq_attr.max_wr(attr);
            }
            return err;
        }
    }

    int query(final long vsrq, final MemorySegment attr) {
        final Srq srq = model.srqs.get(vsrq);
        synchronized (srq) {
            final int err = backend.now().querySrq(srq.real, attr);
            if (err == 0) {
                ibv_srq_attr.max_wr(attr, srq.maxWr);
                ibv_srq_attr.max_sge(attr, srq.maxSge);
            }
            return err;
        }
    }

    int destroy(final long vsrq) {
        final Srq srq = model.srqs.get(vsrq);
        synchronized (srq) {
            final int err = backend.now().destroySrq(srq.real);
            if (err == 0) {
                srq.real = 0;
                model.srqs.remove(srq);
                model.queueEnded(srq.xrcd, srq.virtualNumber);
                library.srqFree(vsrq);
            }
            return err;
        }
    }

    /** What is still to be armed of the limit of a real queue that is about to be destroyed. */
    public static int noteLimit(final Backend backend, final Srq srq) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_srq_attr.allocate(arena);
            final int err = backend.querySrq(srq.real, attr);
            srq.limit = err == 0 ? ibv_srq_attr.srq_limit(attr) : 0;
            return err;
        }
    }

    /** Behind the receives, or the device would say at once that they are few. */
    public static int armLimit(final Backend backend, final Srq srq) {
        if (srq.limit == 0) {
            return 0;
        }
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_srq_attr.allocate(arena);
            ibv_srq_attr.srq_limit(attr, srq.limit);
            return backend.modifySrq(srq.real, attr, verbs_h.IBV_SRQ_LIMIT());
        }
    }
}
