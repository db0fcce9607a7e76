// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.shadowverbs.bindings.verbs.ibv_xrcd_init_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.ids.AddressBook;
import org.shadowverbs.ids.ExceptionSet;

/** XRC domains, and the numbers of shared receive queues that requests name. */
final class XrcVerbs {
    private static final int O_CREAT = 0100;

    private final Native library;
    private final Backend backend;
    private final Model model;

    XrcVerbs(final Native library, final Backend backend, final Model model) {
        this.library = library;
        this.backend = backend;
        this.model = model;
    }

    long open(final long vcontext, final MemorySegment attr) {
        final Context context = model.contexts.get(vcontext);
        final int both = verbs_h.IBV_XRCD_INIT_ATTR_FD() | verbs_h.IBV_XRCD_INIT_ATTR_OFLAGS();
        if (ibv_xrcd_init_attr.comp_mask(attr) != both) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        final long real = backend.openXrcd(context.real, attr);
        final int given = ibv_xrcd_init_attr.fd(attr);
        final int fd = given < 0 ? -1 : library.duplicate(given);
        final long virtual = given >= 0 && fd < 0 ? 0 : library.xrcdAlloc(vcontext, fd);
        if (virtual == 0) {
            backend.closeXrcd(real);
            release(fd);
            throw new VerbsException(VerbsErrno.ENOMEM);
        }
        library.xrcdBind(virtual, real);
        model.xrcds.add(new Xrcd(virtual, real, context, fd, library.xrcdDomain(virtual)));
        return virtual;
    }

    int close(final long vxrcd) {
        final Xrcd xrcd = model.xrcds.get(vxrcd);
        synchronized (xrcd) {
            final int err = backend.closeXrcd(xrcd.real);
            if (err == 0) {
                xrcd.real = 0;
                model.xrcds.remove(xrcd);
                library.xrcdFree(vxrcd);
                release(xrcd.fd);
            }
            return err;
        }
    }

    private void release(final int fd) {
        if (fd >= 0) {
            library.close(fd);
        }
    }

    /** Makes the real domain of a virtual one anew; whoever is first creates it. */
    void recreate(final Xrcd xrcd) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_xrcd_init_attr.allocate(arena);
            ibv_xrcd_init_attr.comp_mask(attr,
                    verbs_h.IBV_XRCD_INIT_ATTR_FD() | verbs_h.IBV_XRCD_INIT_ATTR_OFLAGS());
            ibv_xrcd_init_attr.fd(attr, xrcd.fd);
            ibv_xrcd_init_attr.oflags(attr, O_CREAT);
            xrcd.real = backend.openXrcd(xrcd.context.real, attr);
            library.xrcdBind(xrcd.virtual, xrcd.real);
        }
    }

    /** Gives C the numbers of the peer's shared receive queues that do not mean themselves. */
    static void pushSrqNumbers(final Native library, final Model model, final Qp qp) {
        final QpAttributes a = qp.attributes;
        final AddressBook.Destination found = !a.connected() ? null
                : model.book().find(a.destLid(), a.destGid(), a.destQpNum(), model.masks);
        final ExceptionSet numbers = found == null ? ExceptionSet.EMPTY : found.srqNums;
        final long old = qp.srqNumberMap;
        qp.srqNumberMap = 0;
        if (numbers.size() > 0) {
            qp.srqNumberMap = library.idmapNew(longs(numbers.virtuals()), longs(numbers.reals()));
            if (qp.srqNumberMap == 0) {
                throw new VerbsException(VerbsErrno.ENOMEM, "no memory for " + numbers.size() + " SRQ numbers");
            }
        }
        if (qp.srqNumberMap != old) {
            library.qpSetSrqs(qp.virtual, qp.srqNumberMap);
            library.idmapFree(old);
        }
    }

    private static long[] longs(final int[] ids) {
        final long[] longs = new long[ids.length];
        for (int i = 0; i < ids.length; i++) {
            longs[i] = ids[i] & 0xffff_ffffL;
        }
        return longs;
    }
}
