// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import java.lang.foreign.MemorySegment;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_global_route;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Job;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.QpAttributes;
import org.shadowverbs.driver.nativelib.Structs;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ids.AddressBook;
import org.shadowverbs.ids.ExceptionSet;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.PortIds;

/** Turns the ids in a queue pair's attributes from virtual to real: queue pair number, lid, GID, GID index. */
final class Translate {
    private static final int DEFAULT_HOP_LIMIT = 64;

    /** Where nobody is. */
    private static final Gid NOBODY = new Gid(0xfe80L << 48, 0);

    /** That of multicast groups, which no queue pair has (IBTA volume 1, 3.5.10). */
    private static final int NO_QUEUE_PAIR = 0xffffff;

    private final ChosenBackend backend;
    private final Model model;
    private final Job job;

    Translate(final ChosenBackend backend, final Model model, final Job job) {
        this.backend = backend;
        this.model = model;
        this.job = job;
    }

    /** Rewrites attr in place. */
    void toReal(final Context context, final MemorySegment attr, final int mask) {
        final boolean path = (mask & verbs_h.IBV_QP_AV()) != 0;
        final boolean number = (mask & verbs_h.IBV_QP_DEST_QPN()) != 0;
        final int qpNum = ibv_qp_attr.dest_qp_num(attr);
        if (number) {
            // Number and path come in one transition; a number alone means nothing to us.
            final AddressBook.Destination found = path ? find(ibv_qp_attr.ah_attr(attr), qpNum) : null;
            ibv_qp_attr.dest_qp_num(attr, found != null ? found.realQpNum : qpNum ^ model.masks.qpNum());
        }
        if (path) {
            address(context, ibv_qp_attr.ah_attr(attr), portOf(find(ibv_qp_attr.ah_attr(attr), qpNum)));
        }
        if ((mask & verbs_h.IBV_QP_ALT_PATH()) != 0) {
            address(context, ibv_qp_attr.alt_ah_attr(attr), portOf(find(ibv_qp_attr.alt_ah_attr(attr), qpNum)));
        }
    }

    /**
     * Rewrites attr in place, of a queue pair whose peer is gone: it stays connected, and nothing answers what it sends. The port
     * is the queue pair's own, which can be reached.
     */
    void toNobody(final Context context, final MemorySegment attr, final int mask) {
        if ((mask & verbs_h.IBV_QP_DEST_QPN()) != 0) {
            ibv_qp_attr.dest_qp_num(attr, NO_QUEUE_PAIR);
        }
        if ((mask & verbs_h.IBV_QP_AV()) != 0) {
            toOwnPort(context, ibv_qp_attr.ah_attr(attr));
        }
        if ((mask & verbs_h.IBV_QP_ALT_PATH()) != 0) {
            toOwnPort(context, ibv_qp_attr.alt_ah_attr(attr));
        }
    }

    private void toOwnPort(final Context context, final MemorySegment ah) {
        address(context, ah, context.port(ibv_ah_attr.port_num(ah)));
    }

    /** The peer's remote keys that do not mean themselves. */
    ExceptionSet remoteKeys(final QpAttributes attributes) {
        final AddressBook.Destination found = model.book().find(attributes.destLid(), attributes.destGid(),
                attributes.destQpNum(), model.masks);
        return found == null ? ExceptionSet.EMPTY : found.remoteKeys;
    }

    private AddressBook.Destination find(final MemorySegment ah, final int qpNum) {
        return model.book().find(ibv_ah_attr.dlid(ah) & 0xffff, QpAttributes.destinationGid(ah), qpNum, model.masks);
    }

    private static PortIds portOf(final AddressBook.Destination found) {
        return found == null ? null : found.port;
    }

    /**
     * Rewrites a struct ibv_ah_attr in place.
     *
     * @param port the one that the address stands for; null: lid and GID translate by the masks alone
     */
    void address(final Context context, final MemorySegment ah, final PortIds port) {
        final int lid = ibv_ah_attr.dlid(ah) & 0xffff;
        final boolean global = ibv_ah_attr.is_global(ah) != 0;
        final MemorySegment grh = ibv_ah_attr.grh(ah);
        if (port == null) {
            ibv_ah_attr.dlid(ah, (short) model.masks.lid(lid));
            if (global) {
                final MemorySegment dgid = ibv_global_route.dgid(grh);
                Structs.gid(dgid, model.masks.gid(Structs.gid(dgid)));
            } else if (backend.now().lidsAreOurs()) {
                // As on a subnet: one may send to a lid that no port has, and nobody answers.
                final Gid found = job.gidOf(ibv_ah_attr.dlid(ah) & 0xffff);
                global(ah, grh, found == null ? NOBODY : found);
            }
        } else {
            // The lowest lmc bits choose among the paths to the port.
            final int pathBits = (lid ^ port.virtualLid) & (1 << port.lmc) - 1;
            ibv_ah_attr.dlid(ah, (short) (port.realLid == 0 ? 0 : port.realLid ^ pathBits));
            destinationGid(ah, grh, port, global);
        }
        if (context.reattached && ibv_ah_attr.is_global(ah) != 0) {
            sourceGid(context, ah, grh, global);
        }
    }

    private static void destinationGid(final MemorySegment ah, final MemorySegment grh, final PortIds port,
            final boolean global) {
        final boolean needed = port.linkLayer == verbs_h.IBV_LINK_LAYER_ETHERNET();
        if (!global && !needed) {
            return;
        }
        final Gid wanted = Structs.gid(ibv_global_route.dgid(grh));
        PortIds.GidPair pair = global ? port.byVirtual(wanted) : null;
        if (pair == null || pair.realIndex < 0) {
            pair = port.anyUsable();
        }
        if (pair == null) {
            throw new VerbsException(VerbsErrno.EINVAL, "the peer's port has no GID that could be its address");
        }
        global(ah, grh, pair.real);
    }

    private static void global(final MemorySegment ah, final MemorySegment grh, final Gid gid) {
        Structs.gid(ibv_global_route.dgid(grh), gid);
        ibv_ah_attr.is_global(ah, (byte) 1);
        if (ibv_global_route.hop_limit(grh) == 0) {
            ibv_global_route.hop_limit(grh, (byte) DEFAULT_HOP_LIMIT);
        }
    }

    private static void sourceGid(final Context context, final MemorySegment ah, final MemorySegment grh,
            final boolean global) {
        final PortIds port = context.port(ibv_ah_attr.port_num(ah));
        final int index = ibv_global_route.sgid_index(grh) & 0xff;
        PortIds.GidPair pair = global ? port.byVirtualIndex(index) : null;
        if (pair == null || pair.realIndex < 0) {
            pair = port.anyUsable();
        }
        if (pair == null) {
            throw new VerbsException(VerbsErrno.EINVAL, "port " + port.number + " of " + context.deviceName
                    + " has no GID to send from");
        }
        ibv_global_route.sgid_index(grh, (byte) pair.realIndex);
    }
}
