// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import java.util.List;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Mw;
import org.shadowverbs.driver.model.Pd;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;

/** Memory windows. */
public final class WindowVerbs {
    private final Native library;
    private final ChosenBackend backend;
    private final Model model;

    public WindowVerbs(final Native library, final ChosenBackend backend, final Model model) {
        this.library = library;
        this.backend = backend;
        this.model = model;
    }

    long alloc(final long vpd, final int type) {
        final Pd pd = model.pds.get(vpd);
        final long real = allocate(pd, type);
        final int rkey = pd.context.remoteKeys.virtualOf(backend.now().mwRkey(real));
        final long virtual = library.mwAlloc(vpd, type, rkey);
        if (virtual == 0) {
            backend.now().deallocMw(real);
            throw new VerbsException(VerbsErrno.ENOMEM);
        }
        library.mwBind(virtual, real);
        model.mws.add(new Mw(virtual, real, pd, type, rkey));
        return virtual;
    }

    private long allocate(final Pd pd, final int type) {
        return AcceptableIds.create("block of memory keys", List.of(pd.context.remoteKeys),
                () -> backend.now().allocMw(pd.real, type),
                real -> accepts(pd.context, backend.now().mwRkey(real) & Mw.BLOCK), backend.now()::deallocMw);
    }

    private static boolean accepts(final Context context, final int block) {
        for (int tag = 0; tag < Mw.RKEYS; tag++) {
            if (!context.remoteKeys.accepts(block | tag)) {
                return false;
            }
        }
        return true;
    }

    int dealloc(final long vmw) {
        final Mw mw = model.mws.get(vmw);
        synchronized (mw) {
            final int err = backend.now().deallocMw(mw.real);
            if (err == 0) {
                mw.real = 0;
                model.mws.remove(mw);
                library.mwFree(vmw);
            }
            return err;
        }
    }

    /** Makes the real window of a virtual one anew; it is not bound to anything yet. */
    public void recreate(final Mw mw) {
        mw.real = backend.now().allocMw(mw.pd.real, mw.type);
        library.mwBind(mw.virtual, mw.real);
    }

    /** Puts each window in front of the memory that it was in front of. The queue pairs are connected again. */
    public void rebind() throws Refusal {
        for (final Mw mw : model.mws.inOrder()) {
            if (library.mwBound(mw.virtual) == 0) {
                continue;
            }
            final Qp qp = through(mw);
            final int err = qp == null ? VerbsErrno.ENODEV : library.mwRebind(mw.virtual, qp.virtual);
            if (err == 0) {
                continue;
            }
            // Through a queue pair in error nobody can use it; a window to memory that is gone nobody should use.
            library.mwUnbind(mw.virtual);
            if (qp != null && err != VerbsErrno.EINVAL) {
                throw new Refusal("a memory window cannot be bound again through " + qp.name() + ": "
                        + VerbsErrno.name(err));
            }
            if (qp != null || mw.type == verbs_h.IBV_MW_TYPE_1()) {
                library.say("a memory window (rkey 0x" + Integer.toHexString(mw.block) + ") cannot be bound again: "
                        + (qp == null ? "no queue pair of its protection domain is connected" : "its memory is gone")
                        + "; its keys are invalid from now on");
            }
        }
    }

    /** The queue pair that it was bound through; for a window of type 1 any other of the domain serves. */
    private Qp through(final Mw mw) {
        final long vqp = library.mwQp(mw.virtual);
        Qp any = null;
        for (final Qp qp : model.qps.inOrder()) {
            if (qp.attributes.state() == verbs_h.IBV_QPS_RTS()) {
                if (qp.virtual == vqp) {
                    return qp;
                }
                any = qp.pd.real == mw.pd.real ? qp : any;
            }
        }
        return mw.type == verbs_h.IBV_MW_TYPE_1() ? any : null;
    }
}
