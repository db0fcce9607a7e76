// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import java.lang.foreign.MemorySegment;
import java.util.List;
import org.shadowverbs.bindings.verbs.ibv_alloc_dm_attr;
import org.shadowverbs.bindings.verbs.ibv_mr;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Dm;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Mr;
import org.shadowverbs.driver.model.Pd;
import org.shadowverbs.driver.model.Registration;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.Structs;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;

/** Protection domains, memory regions, device memory. */
final class MemoryVerbs {
    /** The rkey of Soft-RoCE's regions that no peer may access. */
    private static final int NO_KEY = 0;
    /** Flags of ibv_rereg_mr. */
    private static final int CHANGE_TRANSLATION = 1;
    private static final int CHANGE_PD = 2;
    private static final int CHANGE_ACCESS = 4;
    /** IBV_REREG_MR_ERR_DO_FORK_OLD: the region was changed; only the old memory's fork settings were not. */
    private static final int FORK_OLD = -3;

    private final Native library;
    private final ChosenBackend backend;
    private final Model model;

    MemoryVerbs(final Native library, final ChosenBackend backend, final Model model) {
        this.library = library;
        this.backend = backend;
        this.model = model;
    }

    long allocPd(final long vcontext) {
        final Context context = model.contexts.get(vcontext);
        final long real = backend.now().allocPd(context.real);
        final long virtual = library.pdAlloc(vcontext);
        if (virtual == 0) {
            backend.now().deallocPd(real);
            throw new VerbsException(VerbsErrno.ENOMEM);
        }
        library.pdBind(virtual, real);
        model.pds.add(new Pd(virtual, real, context));
        return virtual;
    }

    /** Thread domains and the like are hints: a parent domain is another name of the domain below it. */
    long allocParentDomain(final long vpd) {
        final Pd given = model.pds.get(vpd);
        final Pd below = given.below == null ? given : given.below;
        final long virtual = library.pdAlloc(below.context.virtual);
        if (virtual == 0) {
            throw new VerbsException(VerbsErrno.ENOMEM);
        }
        library.pdBind(virtual, below.real);
        model.pds.add(new Pd(virtual, below.real, below.context, below));
        return virtual;
    }

    int deallocPd(final long vpd) {
        final Pd pd = model.pds.get(vpd);
        synchronized (pd) {
            final int err = model.inUse(pd) ? VerbsErrno.EBUSY : pd.below != null ? 0
                    : backend.now().deallocPd(pd.real);
            if (err == 0) {
                pd.real = 0;
                model.pds.remove(pd);
                library.pdFree(vpd);
            }
            return err;
        }
    }

    long regMr(final long vpd, final long address, final long length, final long iova, final int access) {
        return create(vpd, Registration.memory(address, length, iova, access));
    }

    long allocNullMr(final long vpd) {
        return create(vpd, Registration.ofNothing());
    }

    long regDmMr(final long vpd, final long vdm, final long offset, final long length, final int access) {
        final Dm dm = model.dms.get(vdm);
        if (offset < 0 || length < 0 || offset > dm.length || length > dm.length - offset) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        return create(vpd, Registration.device(dm, offset, length, access));
    }

    /** The application may close its descriptor afterwards; ours is there to make the region anew with. */
    long regDmabufMr(final long vpd, final long offset, final long length, final long iova, final int fd,
            final int access) {
        final int own = library.duplicate(fd);
        try {
            return create(vpd, Registration.dmabuf(own, offset, length, iova, access));
        } catch (RuntimeException e) {
            library.close(own);
            throw e;
        }
    }

    private long create(final long vpd, final Registration what) {
        final Pd pd = model.pds.get(vpd);
        final long real = register(pd, what);
        final int vlkey = localKey(pd, what, real);
        final int vrkey = pd.context.remoteKeys.virtualOf(backend.now().rkey(real));
        final long virtual = library.mrAlloc(vpd, what.shownAddress(), what.length, vlkey, vrkey);
        if (virtual == 0) {
            backend.now().deregMr(real);
            throw new VerbsException(VerbsErrno.ENOMEM);
        }
        library.mrBind(virtual, real);
        model.mrs.add(new Mr(virtual, real, pd, what, vlkey, vrkey));
        return virtual;
    }

    private int localKey(final Pd pd, final Registration what, final long real) {
        final Mr same = what.kind == Registration.Kind.NULL ? nullRegionLike(pd.context, real) : null;
        return same != null ? same.virtualLkey : pd.context.localKeys.virtualOf(backend.now().lkey(real));
    }

    /** Many devices have one key for all null regions. @return one that has it already, or null */
    private Mr nullRegionLike(final Context context, final long real) {
        for (final Mr mr : model.mrs.inOrder()) {
            if (mr.what.kind == Registration.Kind.NULL && mr.pd.context == context && mr.real != 0
                    && backend.now().lkey(mr.real) == backend.now().lkey(real)) {
                return mr;
            }
        }
        return null;
    }

    private boolean accepts(final Pd pd, final Registration what, final long real) {
        if (what.kind == Registration.Kind.NULL) {
            return pd.context.localKeys.accepts(backend.now().lkey(real)) || nullRegionLike(pd.context, real) != null;
        }
        return pd.context.localKeys.accepts(backend.now().lkey(real))
                && (pd.context.remoteKeys.accepts(backend.now().rkey(real))
                || !what.remote() && namesNobody(pd.context, real));
    }

    /** Whether a region that no peer may access has an rkey that is not its own: 0, or one that others of the kind have. */
    private boolean namesNobody(final Context context, final long real) {
        final int rkey = backend.now().rkey(real);
        for (final Mr mr : model.mrs.inOrder()) {
            if (rkey != NO_KEY && mr.pd.context == context && mr.real != 0 && mr.real != real && !mr.remote()
                    && backend.now().rkey(mr.real) == rkey) {
                return true;
            }
        }
        return rkey == NO_KEY;
    }

    private long register(final Pd pd, final Registration what) {
        return AcceptableIds.create("memory key", List.of(pd.context.localKeys, pd.context.remoteKeys),
                () -> what.make(backend.now(), pd.real), real -> accepts(pd, what, real), backend.now()::deregMr);
    }

    /** @return what ibv_rereg_mr returns; errno in {@link org.shadowverbs.driver.nativelib.Downcall#errno} when it is not 0 */
    int reregMr(final long vmr, final int flags, final long vpd, final long address, final long length,
            final int access) {
        final Mr mr = model.mrs.get(vmr);
        synchronized (mr) {
            final boolean translation = (flags & CHANGE_TRANSLATION) != 0;
            if (mr.what.kind != Registration.Kind.MEMORY || mr.dead && !translation) {
                throw new VerbsException(VerbsErrno.EINVAL);
            }
            final Pd pd = (flags & CHANGE_PD) != 0 ? model.pds.get(vpd) : mr.pd;
            final Registration what = Registration.memory(translation ? address : mr.what.address,
                    translation ? length : mr.what.length, translation ? address : mr.what.iova,
                    (flags & CHANGE_ACCESS) != 0 ? access : mr.what.access);
            final int result;
            if (mr.dead) {
                // It gets memory again, and with it new keys.
                replaceReal(mr, pd, register(pd, what));
                mr.dead = false;
                result = 0;
            } else {
                result = changeReal(mr, flags, pd, what, address, length, access);
                if (result != 0 && result != FORK_OLD) {
                    return result;
                }
                mr.what.countAsWritten(library, backend.now().name()); // as it was until now
            }
            mr.pd = pd;
            mr.what = what;
            final MemorySegment struct = Structs.at(vmr, ibv_mr.sizeof());
            ibv_mr.pd(struct, MemorySegment.ofAddress(pd.virtual));
            ibv_mr.addr(struct, MemorySegment.ofAddress(what.address));
            ibv_mr.length(struct, what.length);
            ibv_mr.lkey(struct, mr.virtualLkey);
            ibv_mr.rkey(struct, mr.virtualRkey);
            return result;
        }
    }

    /** Again and again while the device gives keys that are not acceptable: the same change can be made twice. */
    private int changeReal(final Mr mr, final int flags, final Pd pd, final Registration what, final long address,
            final long length, final int access) {
        final int oldLkey = backend.now().lkey(mr.real);
        final int oldRkey = backend.now().rkey(mr.real);
        for (int attempt = 0;; attempt++) {
            final int result = backend.now().reregMr(mr.real, flags, pd.real, address, length, access);
            if (result != 0 && result != FORK_OLD) {
                return result;
            }
            if (backend.now().lkey(mr.real) == oldLkey && backend.now().rkey(mr.real) == oldRkey) {
                if (isNewToPeers(mr, pd, what)) {
                    makeAnew(mr, pd, what);
                }
                return result;
            }
            if (accepts(pd, what, mr.real)) {
                newKeys(mr, pd);
                return result;
            }
            if (attempt == AcceptableIds.MARGIN + pd.context.localKeys.taken() + pd.context.remoteKeys.taken()) {
                throw new VerbsException(VerbsErrno.EIO,
                        "ibv_rereg_mr gave keys that a region carried over from before the restart has");
            }
        }
    }

    /** Peers may access it from now on, and at the last restart, when its rkey got another meaning, they might not: none was told. */
    private boolean isNewToPeers(final Mr mr, final Pd pd, final Registration what) {
        return !mr.remote() && what.remote()
                && mr.virtualRkey != pd.context.remoteKeys.virtualOf(backend.now().rkey(mr.real));
    }

    /** With keys of its own that all translate, as any region's that is registered now. */
    private void makeAnew(final Mr mr, final Pd pd, final Registration what) {
        final long before = mr.real;
        final long real = register(pd, what);
        final int err = backend.now().deregMr(before);
        if (err != 0) {
            backend.now().deregMr(real);
            throw new VerbsException(err); // memory windows are bound to it
        }
        replaceReal(mr, pd, real);
    }

    private void replaceReal(final Mr mr, final Pd pd, final long real) {
        mr.real = real;
        library.mrBind(mr.virtual, real);
        newKeys(mr, pd);
    }

    private void newKeys(final Mr mr, final Pd pd) {
        mr.virtualLkey = pd.context.localKeys.virtualOf(backend.now().lkey(mr.real));
        mr.virtualRkey = pd.context.remoteKeys.virtualOf(backend.now().rkey(mr.real));
    }

    long allocDm(final long vcontext, final MemorySegment attr) {
        final Context context = model.contexts.get(vcontext);
        final long length = ibv_alloc_dm_attr.length(attr);
        if (ibv_alloc_dm_attr.comp_mask(attr) != 0 || length <= 0) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        final long virtual = library.dmAlloc(vcontext, length);
        if (virtual == 0) {
            throw new VerbsException(VerbsErrno.ENOMEM);
        }
        final Dm dm = new Dm(virtual, context, length, ibv_alloc_dm_attr.log_align_req(attr));
        try {
            dm.createReal(backend.now());
        } catch (RuntimeException e) {
            library.dmFree(virtual);
            throw e;
        }
        library.dmBind(virtual, dm.real);
        model.dms.add(dm);
        return virtual;
    }

    int freeDm(final long vdm) {
        final Dm dm = model.dms.get(vdm);
        synchronized (dm) {
            final int err = backend.now().freeDm(dm.real);
            if (err == 0) {
                dm.real = 0;
                model.dms.remove(dm);
                library.dmFree(vdm);
            }
            return err;
        }
    }

    int deregMr(final long vmr) {
        final Mr mr = model.mrs.get(vmr);
        synchronized (mr) {
            final int err = mr.dead ? 0 : backend.now().deregMr(mr.real);
            if (err == 0) {
                if (!mr.dead) {
                    mr.what.countAsWritten(library, backend.now().name());
                }
                mr.real = 0;
                model.mrs.remove(mr);
                library.mrFree(vmr);
                if (mr.what.fd >= 0) {
                    library.close(mr.what.fd);
                }
            }
            return err;
        }
    }
}
