// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.shadowverbs.bindings.verbs.ibv_gid_entry;
import org.shadowverbs.bindings.verbs.ibv_port_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.nativelib.Structs;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.IdMasks;
import org.shadowverbs.ids.PortIds;

/** Reads the addresses of a context's ports from the device. */
public final class Ports {
    private static final int LONGEST_GID_TABLE = 4096;

    private Ports() {
    }

    /** Makes sure that the context's addresses are known. */
    public static void ensure(final Backend backend, final Context context, final IdMasks masks) {
        synchronized (context) {
            if (context.ports == null) {
                refresh(backend, context, masks);
            }
        }
    }

    /**
     * Reads them anew. GIDs come and go with network addresses, so this is done before they are relied upon. When
     * the process could not open the device again they stay as they were.
     */
    public static void refresh(final Backend backend, final Context context, final IdMasks masks) {
        synchronized (context) {
            if (context.real == 0 && context.ports != null) {
                return;
            }
            final PortIds[] now = read(backend, context, masks);
            if (!context.reattached) {
                context.ports = now;
                return;
            }
            final PortIds[] carried = new PortIds[now.length];
            for (int i = 0; i < carried.length; i++) {
                carried[i] = context.ports[i].carriedOverTo(now[i]);
            }
            context.ports = carried;
        }
    }

    private static PortIds[] read(final Backend backend, final Context context, final IdMasks masks) {
        final PortIds[] ports = new PortIds[context.portCount];
        final boolean first = context.gidTableLengths == null;
        if (first) {
            context.gidTableLengths = new int[context.portCount];
            context.virtualLinkLayers = new int[context.portCount];
        }
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment[] attrs = new MemorySegment[ports.length];
            int entries = 0;
            for (int i = 0; i < ports.length; i++) {
                attrs[i] = ibv_port_attr.allocate(arena);
                final int err = backend.queryPort(context.real, i + 1, attrs[i]);
                if (err == VerbsErrno.EINVAL && context.reattached && i > 0) {
                    attrs[i] = null; // the device has fewer than the one before; none that is in use, or it had been refused
                    continue;
                }
                if (err != 0) {
                    throw new VerbsException(err, "port " + (i + 1) + " of " + context.deviceName
                            + " cannot be queried: " + VerbsErrno.name(err));
                }
                entries += ibv_port_attr.gid_tbl_len(attrs[i]);
                if (first) {
                    context.gidTableLengths[i] = ibv_port_attr.gid_tbl_len(attrs[i]);
                    context.virtualLinkLayers[i] = ibv_port_attr.link_layer(attrs[i]);
                }
            }
            entries = Math.min(entries, LONGEST_GID_TABLE);
            final MemorySegment table = ibv_gid_entry.allocateArray(entries, arena);
            final int filled = backend.queryGidTable(context.real, table, entries);
            if (filled < 0) {
                throw new VerbsException(-filled, "the GID table of " + context.deviceName + " cannot be read: "
                        + VerbsErrno.name(-filled));
            }
            for (int i = 0; i < ports.length; i++) {
                if (attrs[i] == null) {
                    ports[i] = new PortIds(i + 1, 0, 0, 0, context.ports[i].linkLayer, new PortIds.GidPair[0]);
                    continue;
                }
                final int lid = ibv_port_attr.lid(attrs[i]) & 0xffff;
                ports[i] = new PortIds(i + 1, masks.lid(lid), lid != 0 ? lid : backend.sourceLid(), ibv_port_attr.lmc(attrs[i]),
                        backend.addressedByGid() ? verbs_h.IBV_LINK_LAYER_ETHERNET() : ibv_port_attr.link_layer(attrs[i]),
                        gids(table, filled, i + 1, masks));
            }
            return ports;
        }
    }

    private static PortIds.GidPair[] gids(final MemorySegment table, final int filled, final int port,
            final IdMasks masks) {
        int n = 0;
        for (int i = 0; i < filled; i++) {
            if (ibv_gid_entry.port_num(ibv_gid_entry.asSlice(table, i)) == port) {
                n++;
            }
        }
        final PortIds.GidPair[] pairs = new PortIds.GidPair[n];
        n = 0;
        for (int i = 0; i < filled; i++) {
            final MemorySegment entry = ibv_gid_entry.asSlice(table, i);
            if (ibv_gid_entry.port_num(entry) == port) {
                final int index = ibv_gid_entry.gid_index(entry);
                final Gid gid = Structs.gid(ibv_gid_entry.gid(entry));
                pairs[n++] = new PortIds.GidPair(index, ibv_gid_entry.gid_type(entry), masks.gid(gid), index, gid);
            }
        }
        return pairs;
    }
}
