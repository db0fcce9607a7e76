// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.lang.foreign.MemorySegment;
import org.shadowverbs.bindings.verbs.ibv_mr;

/** Protection domains and memory regions. */
final class MemoryVerbs {
    /** How many real objects are held at most while one with an acceptable id is looked for. */
    static final int ATTEMPTS = 64;

    /** Flags of ibv_rereg_mr. */
    private static final int CHANGE_TRANSLATION = 1;
    private static final int CHANGE_PD = 2;
    private static final int CHANGE_ACCESS = 4;

    private final Native library;
    private final Backend backend;
    private final Model model;

    MemoryVerbs(final Native library, final Backend backend, final Model model) {
        this.library = library;
        this.backend = backend;
        this.model = model;
    }

    long allocPd(final long vcontext) {
        final Context context = model.contexts.get(vcontext);
        final long real = backend.allocPd(context.real);
        final long virtual = library.pdAlloc(vcontext);
        if (virtual == 0) {
            backend.deallocPd(real);
            throw new VerbsException(VerbsErrno.ENOMEM);
        }
        library.pdBind(virtual, real);
        model.pds.add(new Pd(virtual, real, context));
        return virtual;
    }

    int deallocPd(final long vpd) {
        final Pd pd = model.pds.get(vpd);
        synchronized (pd) {
            final int err = backend.deallocPd(pd.real);
            if (err == 0) {
                pd.real = 0;
                model.pds.remove(pd);
                library.pdFree(vpd);
            }
            return err;
        }
    }

    long regMr(final long vpd, final long address, final long length, final long iova, final int access) {
        final Pd pd = model.pds.get(vpd);
        final long real = register(pd, address, length, iova, access);
        final int vlkey = pd.context.localKeys.virtualOf(backend.lkey(real));
        final int vrkey = pd.context.remoteKeys.virtualOf(backend.rkey(real));
        final long virtual = library.mrAlloc(vpd, address, length, vlkey, vrkey);
        if (virtual == 0) {
            backend.deregMr(real);
            throw new VerbsException(VerbsErrno.ENOMEM);
        }
        library.mrBind(virtual, real);
        model.mrs.add(new Mr(virtual, real, pd, address, length, iova, access, vlkey, vrkey));
        return virtual;
    }

    /** Registers until the keys are acceptable; what was not is held meanwhile, or its keys would come again. */
    private long register(final Pd pd, final long address, final long length, final long iova, final int access) {
        final long[] rejected = new long[ATTEMPTS];
        int n = 0;
        try {
            while (n < ATTEMPTS) {
                final long real = backend.regMr(pd.real, address, length, iova, access);
                if (pd.context.localKeys.accepts(backend.lkey(real))
                        && pd.context.remoteKeys.accepts(backend.rkey(real))) {
                    return real;
                }
                rejected[n++] = real;
            }
            throw new VerbsException(VerbsErrno.ENOMEM, "no memory key is free that no carried-over region has, after "
                    + ATTEMPTS + " attempts");
        } finally {
            while (n > 0) {
                backend.deregMr(rejected[--n]);
            }
        }
    }

    /** @return what ibv_rereg_mr returns */
    int reregMr(final long vmr, final int flags, final long vpd, final long address, final long length,
            final int access) {
        final Mr mr = model.mrs.get(vmr);
        synchronized (mr) {
            if (mr.dead) {
                throw new VerbsException(VerbsErrno.EINVAL);
            }
            final Pd pd = (flags & CHANGE_PD) != 0 ? model.pds.get(vpd) : mr.pd;
            final int oldLkey = backend.lkey(mr.real);
            final int oldRkey = backend.rkey(mr.real);
            final int result = backend.reregMr(mr.real, flags, pd.real, address, length, access);
            if (result != 0) {
                return result;
            }
            if (backend.lkey(mr.real) != oldLkey || backend.rkey(mr.real) != oldRkey) {
                mr.virtualLkey = pd.context.localKeys.virtualOf(backend.lkey(mr.real));
                mr.virtualRkey = pd.context.remoteKeys.virtualOf(backend.rkey(mr.real));
                if (!pd.context.localKeys.accepts(backend.lkey(mr.real))
                        || !pd.context.remoteKeys.accepts(backend.rkey(mr.real))) {
                    throw new VerbsException(VerbsErrno.EIO,
                            "ibv_rereg_mr gave keys that a region carried over from before the restart has");
                }
            }
            mr.pd = pd;
            if ((flags & CHANGE_TRANSLATION) != 0) {
                mr.address = address;
                mr.length = length;
                mr.iova = address;
            }
            if ((flags & CHANGE_ACCESS) != 0) {
                mr.access = access;
            }
            final MemorySegment struct = Structs.at(vmr, ibv_mr.sizeof());
            ibv_mr.pd(struct, MemorySegment.ofAddress(pd.virtual));
            ibv_mr.addr(struct, MemorySegment.ofAddress(mr.address));
            ibv_mr.length(struct, mr.length);
            ibv_mr.lkey(struct, mr.virtualLkey);
            ibv_mr.rkey(struct, mr.virtualRkey);
            return 0;
        }
    }

    int deregMr(final long vmr) {
        final Mr mr = model.mrs.get(vmr);
        synchronized (mr) {
            final int err = mr.dead ? 0 : backend.deregMr(mr.real);
            if (err == 0) {
                mr.real = 0;
                model.mrs.remove(mr);
                library.mrFree(vmr);
            }
            return err;
        }
    }
}
