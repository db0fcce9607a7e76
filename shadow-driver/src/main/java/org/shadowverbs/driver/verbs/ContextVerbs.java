// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Map;
import org.shadowverbs.bindings.verbs.ibv_device_attr;
import org.shadowverbs.bindings.verbs.ibv_device_attr_ex;
import org.shadowverbs.bindings.verbs.ibv_gid;
import org.shadowverbs.bindings.verbs.ibv_gid_entry;
import org.shadowverbs.bindings.verbs.ibv_port_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Job;
import org.shadowverbs.driver.model.KeyMaps;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Ports;
import org.shadowverbs.driver.model.Xrcd;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.Structs;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ids.AddressBook;
import org.shadowverbs.ids.ExceptionSet;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.OwnerRecord;
import org.shadowverbs.ids.PortIds;

/** ibv_open_device, ibv_close_device, and the queries of device and port. */
final class ContextVerbs {
    private final Native library;
    private final ChosenBackend backend;
    private final Model model;
    private final KeyMaps keyMaps;
    private final Job job;

    ContextVerbs(final Native library, final ChosenBackend backend, final Model model, final KeyMaps keyMaps,
            final Job job) {
        this.library = library;
        this.backend = backend;
        this.model = model;
        this.keyMaps = keyMaps;
        this.job = job;
    }

    long open(final long vdevice) {
        final long realDevice = library.deviceReal(vdevice);
        if (realDevice == 0) {
            throw new VerbsException(VerbsErrno.ENODEV);
        }
        final String name = backend.now().deviceName(realDevice);
        final long real = backend.now().openDevice(realDevice);
        final long virtual = library.contextAlloc(vdevice);
        try (Arena arena = Arena.ofConfined()) {
            if (virtual == 0) {
                throw new VerbsException(VerbsErrno.ENOMEM);
            }
            final MemorySegment attr = ibv_device_attr.allocate(arena);
            VerbsException.check(backend.now().queryDevice(real, attr));
            final Context context = new Context(virtual, real, vdevice, name, ibv_device_attr.phys_port_cnt(attr),
                    library.deviceGuid(vdevice), ibv_device_attr.sys_image_guid(attr), model.masks);
            context.completionVectors = backend.now().completionVectors(real);
            context.limits = backend.now().limits(real);
            if ((ibv_device_attr.device_cap_flags(attr) & verbs_h.IBV_DEVICE_SRQ_RESIZE()) != 0) {
                context.maxSrqWr = ibv_device_attr.max_srq_wr(attr);
            }
            adoptDevice(context);
            if (!context.reattached) {
                giveLid(context);
                avoidCarriedOver(context);
            }
            VerbsException.check(library.contextOpen(virtual, real));
            context.localKeyMap = keyMaps.acquire(context.localKeys.own());
            if (context.localKeyMap != 0) {
                library.contextSetLkeys(virtual, context.localKeyMap);
            }
            model.contexts.add(context);
            return virtual;
        } catch (RuntimeException e) {
            backend.now().closeDevice(real);
            if (virtual != 0) {
                library.contextFree(virtual);
            }
            throw e;
        }
    }

    /**
     * A device that this process holds already under ids carried over keeps these for what is opened now, so that the
     * program sees one device and not two.
     */
    private void adoptDevice(final Context context) {
        for (final Context other : model.contexts.inOrder()) {
            if (other.vdevice != context.vdevice || !other.reattached) {
                continue;
            }
            Ports.refresh(backend.now(), context, model.masks);
            for (int i = 0; i < context.portCount && i < other.portCount; i++) {
                final PortIds mine = context.ports[i];
                final PortIds theirs = other.ports[i];
                if (mine.realLid != theirs.realLid || mine.gidCount() > 0 && theirs.gidCount() > 0
                        && !mine.gidAt(0).real.equals(theirs.gidAt(0).real)) {
                    return; // a device that is addressed anew at each open
                }
            }
            context.ports = other.ports;
            context.gidTableLengths = other.gidTableLengths;
            context.virtualLinkLayers = other.virtualLinkLayers;
            context.reattached = true;
            context.qpNums.sameAs(other.qpNums);
            context.srqNums.sameAs(other.srqNums);
            context.localKeys.sameAs(other.localKeys);
            context.remoteKeys.sameAs(other.remoteKeys);
            return;
        }
    }

    /** The same one for all contexts of the device. */
    private void giveLid(final Context context) {
        if (!backend.now().lidsAreOurs()) {
            return;
        }
        synchronized (backend) {
            try (Arena arena = Arena.ofConfined()) {
                final MemorySegment port = ibv_port_attr.allocate(arena);
                VerbsException.check(backend.now().queryPort(context.real, 1, port));
                final MemorySegment gid = ibv_gid.allocate(arena);
                VerbsException.check(backend.now().queryGid(context.real, 1, 0, gid));
                backend.now().lid(job.publishLid(Structs.gid(gid), ibv_port_attr.lid(port) & 0xffff));
            }
            context.ports = null; // as they were without
        }
    }

    /** A device under its own addresses: in a job that was reattached they may be others' virtual ones. */
    private void avoidCarriedOver(final Context context) {
        job.awaitAddressBook();
        final AddressBook book = model.book();
        if (!book.isEmpty()) {
            Ports.refresh(backend.now(), context, model.masks);
            final ExceptionSet none = ExceptionSet.EMPTY;
            book.reattach(new OwnerRecord.ContextIds(context.ports, none, none, none, Map.of()), context.qpNums,
                    context.srqNums, context.remoteKeys, none);
        }
    }

    int close(final long vcontext) {
        final Context context = model.contexts.get(vcontext);
        synchronized (context) {
            library.contextBind(vcontext, 0);
            final int err = backend.now().closeDevice(context.real);
            context.real = 0;
            model.forget(context);
            for (final Xrcd left : model.leftDomains(context)) {
                library.xrcdFree(left.virtual);
                left.contextClosed = true;
            }
            library.contextFree(vcontext);
            keyMaps.release(context.localKeyMap);
            library.idmapFree(context.sourceMap);
            library.routesFree(context.routeMap);
            return err;
        }
    }

    int queryDevice(final long vcontext, final MemorySegment attr) {
        final Context context = model.contexts.get(vcontext);
        final int err = backend.now().queryDevice(context.real, attr);
        if (err == 0) {
            virtualize(context, attr);
        }
        return err;
    }

    int queryDeviceEx(final long vcontext, final long address, final long size) {
        final Context context = model.contexts.get(vcontext);
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_device_attr_ex.allocate(arena);
            final int err = backend.now().queryDeviceEx(context.real, attr);
            if (err == 0) {
                virtualize(context, ibv_device_attr_ex.orig_attr(attr));
                hideRefused(attr);
                final MemorySegment to = Structs.at(address, size);
                final long known = Math.min(size, attr.byteSize());
                MemorySegment.copy(attr, 0, to, 0, known);
                to.asSlice(known).fill((byte) 0);
            }
            return err;
        }
    }

    /** What is refused when it is created is not there to begin with, so that programs take another way by themselves. */
    private static void hideRefused(final MemorySegment attr) {
        ibv_device_attr_ex.odp_caps(attr).fill((byte) 0);
        ibv_device_attr_ex.tso_caps(attr).fill((byte) 0);
        ibv_device_attr_ex.rss_caps(attr).fill((byte) 0);
        Pacing.hideRefused(ibv_device_attr_ex.packet_pacing_caps(attr));
        ibv_device_attr_ex.tm_caps(attr).fill((byte) 0);
        ibv_device_attr_ex.max_wq_type_rq(attr, 0);
        ibv_device_attr_ex.raw_packet_caps(attr, 0);
        ibv_device_attr_ex.xrc_odp_caps(attr, 0);
    }

    /** The marker takes one send request, and the drain's own completions take room in completion queues. */
    private static void virtualize(final Context context, final MemorySegment attr) {
        ibv_device_attr.node_guid(attr, context.nodeGuid);
        ibv_device_attr.sys_image_guid(attr, context.systemImageGuid);
        ibv_device_attr.max_qp_wr(attr, Math.max(1, ibv_device_attr.max_qp_wr(attr) - 1));
        ibv_device_attr.max_cqe(attr, Math.max(1, ibv_device_attr.max_cqe(attr) - Backend.CQ_ROOM));
        ibv_device_attr.phys_port_cnt(attr, (byte) context.portCount);
        ibv_device_attr.device_cap_flags(attr, ibv_device_attr.device_cap_flags(attr)
                & ~verbs_h.IBV_DEVICE_RESIZE_MAX_WR());
    }

    int queryPort(final long vcontext, final int port, final long address, final long size) {
        final Context context = model.contexts.get(vcontext);
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_port_attr.allocate(arena);
            final int err = backend.now().queryPort(context.real, port, attr);
            if (err == VerbsErrno.EINVAL && context.reattached && port > 1 && port <= context.portCount) {
                attr.fill((byte) 0); // the real device has fewer ports than the one that the program knows
                ibv_port_attr.state(attr, verbs_h.IBV_PORT_DOWN());
            } else if (err != 0) {
                return err;
            }
            if (context.reattached) {
                final PortIds ids = context.port(port);
                ibv_port_attr.lid(attr, (short) ids.virtualLid);
                ibv_port_attr.gid_tbl_len(attr, context.gidTableLengths[port - 1]);
                ibv_port_attr.link_layer(attr, (byte) context.virtualLinkLayers[port - 1]);
            } else {
                ibv_port_attr.lid(attr, (short) model.masks.lid(ibv_port_attr.lid(attr) & 0xffff));
            }
            MemorySegment.copy(attr, 0, Structs.at(address, size), 0, Math.min(size, attr.byteSize()));
            return 0;
        }
    }

    int queryGid(final long vcontext, final int port, final int index, final MemorySegment gid) {
        final Context context = model.contexts.get(vcontext);
        if (context.reattached) {
            final PortIds.GidPair pair = carriedOver(context, port, index);
            Structs.gid(gid, pair == null ? Gid.ZERO : pair.virtual);
            return 0;
        }
        final int err = backend.now().queryGid(context.real, port, index, gid);
        if (err == 0) {
            Structs.gid(gid, model.masks.gid(Structs.gid(gid)));
        }
        return err;
    }

    /** @return null: the entry is empty */
    private static PortIds.GidPair carriedOver(final Context context, final int port, final int index) {
        final PortIds ids = context.port(port);
        if (index < 0 || index >= context.gidTableLengths[port - 1]) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        return ids.byVirtualIndex(index);
    }

    int queryGidEx(final long vcontext, final int port, final int index, final long address, final int flags,
            final long size) {
        final Context context = model.contexts.get(vcontext);
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment entry = ibv_gid_entry.allocate(arena);
            if (context.reattached) {
                final PortIds.GidPair pair = carriedOver(context, port, index);
                if (pair == null) {
                    return VerbsErrno.ENODATA;
                }
                fill(entry, pair, port);
            } else {
                final int err = backend.now().queryGidEx(context.real, port, index, entry, flags);
                if (err != 0) {
                    return err;
                }
                final MemorySegment gid = ibv_gid_entry.gid(entry);
                Structs.gid(gid, model.masks.gid(Structs.gid(gid)));
            }
            MemorySegment.copy(entry, 0, Structs.at(address, size), 0, Math.min(size, entry.byteSize()));
            return 0;
        }
    }

    private static void fill(final MemorySegment entry, final PortIds.GidPair pair, final int port) {
        Structs.gid(ibv_gid_entry.gid(entry), pair.virtual);
        ibv_gid_entry.gid_index(entry, pair.virtualIndex);
        ibv_gid_entry.port_num(entry, port);
        ibv_gid_entry.gid_type(entry, pair.type);
    }

    /** @return the number of entries, or a negative errno value */
    int queryGidTable(final long vcontext, final long address, final long maxEntries, final int flags,
            final long size) {
        final Context context = model.contexts.get(vcontext);
        if (flags != 0 || size < ibv_gid_entry.sizeof()) {
            return -VerbsErrno.EINVAL;
        }
        Ports.ensure(backend.now(), context, model.masks);
        if (!context.reattached) {
            Ports.refresh(backend.now(), context, model.masks);
        }
        int n = 0;
        for (final PortIds port : context.ports) {
            for (int i = 0; i < port.gidCount(); i++) {
                if (n == maxEntries) {
                    return -VerbsErrno.EINVAL;
                }
                final MemorySegment entry = Structs.at(address + n++ * size, size);
                entry.fill((byte) 0);
                fill(entry, port.gidAt(i), port.number);
            }
        }
        return n;
    }

    int queryPkey(final long vcontext, final int port, final int index, final long pkey) {
        return backend.now().queryPkey(model.contexts.get(vcontext).real, port, index, pkey);
    }

    /** @return the index, or a negative errno value */
    int pkeyIndex(final long vcontext, final int port, final int pkey) {
        return backend.now().pkeyIndex(model.contexts.get(vcontext).real, port, pkey);
    }
}
