// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.shadowverbs.bindings.abi.sv_srq_spec;
import org.shadowverbs.bindings.verbs.ibv_srq_attr;
import org.shadowverbs.bindings.verbs.ibv_srq_init_attr;
import org.shadowverbs.bindings.verbs.ibv_srq_init_attr_ex;
import org.shadowverbs.bindings.verbs.verbs_h;

/** Shared receive queues. */
final class SharedReceiveVerbs {
    private final Native library;
    private final Backend backend;
    private final Model model;

    SharedReceiveVerbs(final Native library, final Backend backend, final Model model) {
        this.library = library;
        this.backend = backend;
        this.model = model;
    }

    long createEx(final MemorySegment init) {
        final int mask = ibv_srq_init_attr_ex.comp_mask(init);
        final int known = verbs_h.IBV_SRQ_INIT_ATTR_TYPE() | verbs_h.IBV_SRQ_INIT_ATTR_PD();
        if ((mask & verbs_h.IBV_SRQ_INIT_ATTR_TYPE()) != 0
                && ibv_srq_init_attr_ex.srq_type(init) != verbs_h.IBV_SRQT_BASIC()) {
            throw VerbsException.unsupported("a shared receive queue of type " + ibv_srq_init_attr_ex.srq_type(init));
        }
        if ((mask & ~known) != 0) {
            throw VerbsException.unsupported("ibv_create_srq_ex with comp_mask 0x" + Integer.toHexString(mask));
        }
        if ((mask & verbs_h.IBV_SRQ_INIT_ATTR_PD()) == 0) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        // The extended struct begins with the fields of the plain one.
        return create(ibv_srq_init_attr_ex.pd(init).address(), init);
    }

    long create(final long vpd, final MemorySegment init) {
        final Pd pd = model.pds.get(vpd);
        final long virtual = library.srqAlloc(vpd);
        if (virtual == 0) {
            throw new VerbsException(VerbsErrno.ENOMEM);
        }
        long real = 0;
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_srq_init_attr.attr(init);
            final MemorySegment realInit = init(arena, virtual, ibv_srq_attr.max_wr(attr), ibv_srq_attr.max_sge(attr));
            real = backend.createSrq(pd.real, realInit);
            final MemorySegment granted = ibv_srq_init_attr.attr(realInit);
            final Srq srq = new Srq(virtual, real, pd, ibv_srq_init_attr.srq_context(init).address(),
                    ibv_srq_attr.max_wr(granted), ibv_srq_attr.max_sge(granted));
            final MemorySegment spec = sv_srq_spec.allocate(arena);
            sv_srq_spec.srq_context(spec, MemorySegment.ofAddress(srq.srqContext));
            sv_srq_spec.max_wr(spec, srq.maxWr);
            sv_srq_spec.max_sge(spec, srq.maxSge);
            ContextVerbs.check(library.srqOpen(virtual, spec));
            library.srqBind(virtual, real);
            ibv_srq_attr.max_wr(attr, srq.maxWr);
            ibv_srq_attr.max_sge(attr, srq.maxSge);
            model.srqs.add(srq);
            return virtual;
        } catch (RuntimeException e) {
            if (real != 0) {
                backend.destroySrq(real);
            }
            library.srqFree(virtual);
            throw e;
        }
    }

    /** The limit is not armed at creation, whatever it says (ibv_create_srq(3)). */
    private static MemorySegment init(final Arena arena, final long virtual, final int maxWr, final int maxSge) {
        final MemorySegment realInit = ibv_srq_init_attr.allocate(arena);
        ibv_srq_init_attr.srq_context(realInit, MemorySegment.ofAddress(virtual));
        ibv_srq_attr.max_wr(ibv_srq_init_attr.attr(realInit), maxWr);
        ibv_srq_attr.max_sge(ibv_srq_init_attr.attr(realInit), maxSge);
        return realInit;
    }

    /** Makes the real queue of a virtual one anew, empty. */
    static void recreate(final Native library, final Backend backend, final Srq srq) {
        try (Arena arena = Arena.ofConfined()) {
            srq.real = backend.createSrq(srq.pd.real, init(arena, srq.virtual, srq.maxWr, srq.maxSge));
            library.srqBind(srq.virtual, srq.real);
        }
    }

    int modify(final long vsrq, final MemorySegment attr, final int mask) {
        final Srq srq = model.srqs.get(vsrq);
        if ((mask & verbs_h.IBV_SRQ_MAX_WR()) != 0) {
            throw VerbsException.unsupported("ibv_modify_srq with IBV_SRQ_MAX_WR");
        }
        synchronized (srq) {
            return backend.modifySrq(srq.real, attr, mask);
        }
    }

    int query(final long vsrq, final MemorySegment attr) {
        final Srq srq = model.srqs.get(vsrq);
        synchronized (srq) {
            final int err = backend.querySrq(srq.real, attr);
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
            final int err = backend.destroySrq(srq.real);
            if (err == 0) {
                srq.real = 0;
                model.srqs.remove(srq);
                library.srqFree(vsrq);
            }
            return err;
        }
    }

    /** Of a real queue that is about to be destroyed: what of its limit is still to be armed. */
    static int noteLimit(final Backend backend, final Srq srq) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_srq_attr.allocate(arena);
            final int err = backend.querySrq(srq.real, attr);
            srq.limit = err == 0 ? ibv_srq_attr.srq_limit(attr) : 0;
            return err;
        }
    }

    /** Behind the receives, or the device would say at once that they are few. */
    static int armLimit(final Backend backend, final Srq srq) {
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
