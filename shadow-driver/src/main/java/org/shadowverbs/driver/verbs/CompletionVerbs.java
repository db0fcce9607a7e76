// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.shadowverbs.bindings.abi.sv_cq_spec;
import org.shadowverbs.bindings.verbs.ibv_cq_init_attr_ex;
import org.shadowverbs.bindings.verbs.ibv_moderate_cq;
import org.shadowverbs.bindings.verbs.ibv_modify_cq_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Channel;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Cq;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;

/** Completion channels and completion queues. */
public final class CompletionVerbs {
    private final Native library;
    private final ChosenBackend backend;
    private final Model model;

    CompletionVerbs(final Native library, final ChosenBackend backend, final Model model) {
        this.library = library;
        this.backend = backend;
        this.model = model;
    }

    long createChannel(final long vcontext) {
        final Context context = model.contexts.get(vcontext);
        final long real = backend.now().createChannel(context.real);
        final long virtual = library.channelAlloc(vcontext);
        final int err = virtual == 0 ? VerbsErrno.ENOMEM : library.channelBind(virtual, real);
        if (err != 0) {
            backend.now().destroyChannel(real);
            if (virtual != 0) {
                library.channelFree(virtual);
            }
            throw new VerbsException(err);
        }
        model.channels.add(new Channel(virtual, real, context));
        return virtual;
    }

    int destroyChannel(final long vchannel) {
        final Channel channel = model.channels.get(vchannel);
        synchronized (channel) {
            for (final Cq cq : model.cqs.inOrder()) {
                if (cq.channel == channel) {
                    return VerbsErrno.EBUSY;
                }
            }
            library.channelBind(vchannel, 0);
            final int err = backend.now().destroyChannel(channel.real);
            if (err != 0) {
                library.channelBind(vchannel, channel.real);
                return err;
            }
            channel.real = 0;
            model.channels.remove(channel);
            library.channelFree(vchannel);
            return 0;
        }
    }

    long createCq(final long vcontext, final int cqe, final long cqContext, final long vchannel, final int vector) {
        return create(vcontext, cqe, cqContext, vchannel, vector, false, 0, 0);
    }

    long createCqEx(final long vcontext, final MemorySegment attr) {
        final long fields = ibv_cq_init_attr_ex.wc_flags(attr);
        if ((fields & verbs_h.IBV_WC_EX_WITH_TM_INFO()) != 0) {
            throw VerbsException.unsupported("ibv_create_cq_ex with IBV_WC_EX_WITH_TM_INFO");
        }
        final int mask = ibv_cq_init_attr_ex.comp_mask(attr);
        if ((mask & verbs_h.IBV_CQ_INIT_ATTR_MASK_PD()) != 0) {
            model.pds.get(ibv_cq_init_attr_ex.parent_domain(attr).address()); // a hint
        }
        if ((mask & ~(verbs_h.IBV_CQ_INIT_ATTR_MASK_FLAGS() | verbs_h.IBV_CQ_INIT_ATTR_MASK_PD())) != 0) {
            throw VerbsException.unsupported("ibv_create_cq_ex with comp_mask 0x" + Integer.toHexString(mask));
        }
        return create(vcontext, ibv_cq_init_attr_ex.cqe(attr), ibv_cq_init_attr_ex.cq_context(attr).address(),
                ibv_cq_init_attr_ex.channel(attr).address(), ibv_cq_init_attr_ex.comp_vector(attr), true, fields,
                (mask & verbs_h.IBV_CQ_INIT_ATTR_MASK_FLAGS()) == 0 ? 0 : ibv_cq_init_attr_ex.flags(attr));
    }

    private long create(final long vcontext, final int cqe, final long cqContext, final long vchannel,
            final int vector, final boolean extended, final long fields, final int flags) {
        final Context context = model.contexts.get(vcontext);
        final Channel channel = vchannel == 0 ? null : model.channels.get(vchannel);
        if (cqe < 1 || cqe > Cq.MOST) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        final long virtual = library.cqAlloc(vcontext);
        if (virtual == 0) {
            throw new VerbsException(VerbsErrno.ENOMEM);
        }
        final Cq cq = new Cq(virtual, context, channel, vector, cqe, fields, flags);
        try (Arena arena = Arena.ofConfined()) {
            cq.createReal(backend.now(), vector);
            final MemorySegment spec = sv_cq_spec.allocate(arena);
            sv_cq_spec.channel(spec, MemorySegment.ofAddress(vchannel));
            sv_cq_spec.cq_context(spec, MemorySegment.ofAddress(cqContext));
            sv_cq_spec.cqe(spec, cqe);
            sv_cq_spec.extended(spec, extended ? 1 : 0);
            sv_cq_spec.wc_flags(spec, fields);
            sv_cq_spec.single_threaded(spec, flags & verbs_h.IBV_CREATE_CQ_ATTR_SINGLE_THREADED());
            VerbsException.check(library.cqOpen(virtual, spec));
            VerbsException.check(library.cqBind(virtual, cq.real));
        } catch (RuntimeException e) {
            if (cq.real != 0) {
                library.cqBind(virtual, 0);
                backend.now().destroyCq(cq.real);
            }
            library.cqFree(virtual);
            throw e;
        }
        model.cqs.add(cq);
        return virtual;
    }

    int modifyCq(final long vcq, final MemorySegment attr) {
        final Cq cq = model.cqs.get(vcq);
        synchronized (cq) {
            final int err = backend.now().modifyCq(cq.real, attr);
            if (err == 0 && (ibv_modify_cq_attr.attr_mask(attr) & verbs_h.IBV_CQ_ATTR_MODERATE()) != 0) {
                final MemorySegment moderation = ibv_modify_cq_attr.moderate(attr);
                cq.moderationCount = ibv_moderate_cq.cq_count(moderation) & 0xffff;
                cq.moderationPeriod = ibv_moderate_cq.cq_period(moderation) & 0xffff;
            }
            return err;
        }
    }

    /** A real queue made anew gets what ibv_modify_cq had set. Moderation is a hint; a device may do without. */
    public static void moderate(final Backend backend, final Cq cq) {
        if (cq.moderationPeriod < 0) {
            return;
        }
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_modify_cq_attr.allocate(arena);
            ibv_modify_cq_attr.attr_mask(attr, verbs_h.IBV_CQ_ATTR_MODERATE());
            final MemorySegment moderation = ibv_modify_cq_attr.moderate(attr);
            ibv_moderate_cq.cq_count(moderation, (short) cq.moderationCount);
            ibv_moderate_cq.cq_period(moderation, (short) cq.moderationPeriod);
            backend.modifyCq(cq.real, attr);
        }
    }

    int resizeCq(final long vcq, final int cqe) {
        final Cq cq = model.cqs.get(vcq);
        synchronized (cq) {
            final int err = cqe < 1 || cqe > Cq.MOST ? VerbsErrno.EINVAL
                    : backend.now().resizeCq(cq.real, cqe + Backend.CQ_ROOM);
            if (err == 0) {
                cq.cqe = cqe;
                library.cqResized(vcq, cqe);
            }
            return err;
        }
    }

    int destroyCq(final long vcq) {
        final Cq cq = model.cqs.get(vcq);
        synchronized (cq) {
            final int err = backend.now().destroyCq(cq.real);
            if (err == 0) {
                cq.real = 0;
                model.cqs.remove(cq);
                library.cqFree(vcq);
            }
            return err;
        }
    }
}
