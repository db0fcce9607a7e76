// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_global_route;
import org.shadowverbs.bindings.verbs.ibv_grh;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Ah;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Job;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.MulticastGroup;
import org.shadowverbs.driver.model.Pd;
import org.shadowverbs.driver.model.Ports;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.QpAttributes;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.Structs;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.driver.xrc.SharedDomains;
import org.shadowverbs.driver.xrc.XrcVerbs;
import org.shadowverbs.ids.AddressBook;
import org.shadowverbs.ids.ExceptionSet;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.OwnerRecord;
import org.shadowverbs.ids.NumberRanges;
import org.shadowverbs.ids.PortIds;

/** Where datagrams go and whom they come from: address handles, and the table of senders. */
public final class DatagramVerbs {
    /** In the first byte of a global route header. */
    private static final int IP_VERSION_6 = 0x60;
    /** Of RoCE over IPv4, whose header is in the last 20 of the 40 bytes. */
    private static final int IPV4 = 20;
    private static final int IPV4_TOS = 21;
    private static final int IPV4_TTL = 28;
    private static final int IPV4_FROM = 32;
    private static final int IPV4_TO = 36;
    /** The IPv4 header's length in words of four bytes: without options. */
    private static final int IPV4_WORDS = 5;
    private static final ValueLayout.OfShort NETWORK_SHORT =
            ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

    private final Native library;
    private final ChosenBackend backend;
    private final Model model;
    private final Translate translate;
    private final Job job;

    DatagramVerbs(final Native library, final ChosenBackend backend, final Model model, final Job job) {
        this.library = library;
        this.backend = backend;
        this.model = model;
        this.translate = new Translate(backend, model, job);
        this.job = job;
    }

    long createAh(final long vpd, final MemorySegment attr) {
        final Pd pd = model.pds.get(vpd);
        job.awaitAddressBook();
        final long virtual = library.ahAlloc(vpd);
        if (virtual == 0) {
            throw new VerbsException(VerbsErrno.ENOMEM);
        }
        final Ah ah = new Ah(virtual, pd, attr.toArray(ValueLayout.JAVA_BYTE));
        try {
            bind(ah);
        } catch (RuntimeException e) {
            library.ahFree(virtual);
            throw e;
        }
        model.ahs.add(ah);
        return virtual;
    }

    /**
     * The way back to who sent a datagram: the header in front of it holds virtual GIDs, or, where the processor could not
     * write them there (device memory, which the application has copied from), the real ones of now.
     *
     * @param grh struct ibv_grh, or an IPv4 header in its last 20 bytes
     * @param attr gets the global route
     */
    int initAh(final long vcontext, final int portNumber, final MemorySegment grh, final MemorySegment attr) {
        final Context context = model.contexts.get(vcontext);
        job.awaitAddressBook();
        Ports.ensure(backend.now(), context, model.masks);
        try (Arena arena = Arena.ofConfined()) {
            // The application's may lie anywhere.
            final MemorySegment header = ibv_grh.allocate(arena).copyFrom(grh);
            final boolean v4 = isIpv4(header);
            final Gid to = v4 ? mapped(header, IPV4_TO) : Structs.gid(ibv_grh.dgid(header));
            final PortIds.GidPair known = context.port(portNumber).byVirtual(to);
            final PortIds.GidPair now = context.port(portNumber).nameOf(to);
            if (known == null && now == null) {
                return VerbsErrno.EINVAL;
            }
            final Gid from = v4 ? mapped(header, IPV4_FROM) : Structs.gid(ibv_grh.sgid(header));
            final MemorySegment route = ibv_ah_attr.grh(attr);
            ibv_ah_attr.is_global(attr, (byte) 1);
            final boolean real = known == null || known == now && !isKnown(from);
            Structs.gid(ibv_global_route.dgid(route), real ? virtualOf(from) : from);
            ibv_global_route.sgid_index(route, (byte) (known != null ? known : now).virtualIndex);
            ibv_global_route.hop_limit(route,
                    v4 ? header.get(ValueLayout.JAVA_BYTE, IPV4_TTL) : ibv_grh.hop_limit(header));
            if (v4) {
                ibv_global_route.traffic_class(route, header.get(ValueLayout.JAVA_BYTE, IPV4_TOS));
            } else {
                final int classAndFlow = Integer.reverseBytes(ibv_grh.version_tclass_flow(header));
                ibv_global_route.flow_label(route, classAndFlow & 0xf_ffff);
                ibv_global_route.traffic_class(route, (byte) (classAndFlow >> 20));
            }
            return 0;
        }
    }

    /** As ibv_init_ah_from_wc finds out: what is in front of an IPv4 header may be anything, so its checksum decides. */
    private static boolean isIpv4(final MemorySegment header) {
        if ((header.get(ValueLayout.JAVA_BYTE, 0) & 0xf0) != IP_VERSION_6) {
            return true;
        }
        int sum = 0;
        for (int i = 0; i < 2 * IPV4_WORDS; i++) {
            sum += header.get(NETWORK_SHORT, IPV4 + 2 * i) & 0xffff;
        }
        return (header.get(ValueLayout.JAVA_BYTE, IPV4) & 0xf) == IPV4_WORDS && (sum & 0xffff) + (sum >> 16) == 0xffff;
    }

    private static Gid mapped(final MemorySegment grh, final int offset) {
        final int address = Integer.reverseBytes(grh.get(ValueLayout.JAVA_INT_UNALIGNED, offset));
        return new Gid(0, 0xffff_0000_0000L | address & 0xffff_ffffL);
    }

    /** Whether a virtual GID is that of a process that was carried over. */
    private boolean isKnown(final Gid virtual) {
        for (final OwnerRecord.ContextIds ids : model.book().contexts()) {
            for (int p = 0; !ids.inherited && p < ids.portCount(); p++) {
                if (ids.portAt(p).byVirtual(virtual) != null) {
                    return true;
                }
            }
        }
        return false;
    }

    private Gid virtualOf(final Gid real) {
        for (final OwnerRecord.ContextIds ids : model.book().contexts()) {
            for (int p = 0; !ids.inherited && p < ids.portCount(); p++) {
                final PortIds.GidPair name = ids.portAt(p).nameOf(real);
                if (name != null) {
                    return name.virtual;
                }
            }
        }
        return model.masks.gid(real);
    }

    /** @param attr as the kernel's connection manager has filled it in: its addresses become virtual ones */
    void fromKernel(final MemorySegment attr) {
        job.awaitAddressBook();
        ibv_ah_attr.dlid(attr, (short) virtualLid(ibv_ah_attr.dlid(attr) & 0xffff));
        if (ibv_ah_attr.is_global(attr) != 0) {
            final MemorySegment route = ibv_ah_attr.grh(attr);
            final MemorySegment dgid = ibv_global_route.dgid(route);
            Structs.gid(dgid, virtualOf(Structs.gid(dgid)));
            ibv_global_route.sgid_index(route, (byte) virtualIndex(ibv_ah_attr.port_num(attr) & 0xff,
                    ibv_global_route.sgid_index(route) & 0xff));
        }
    }

    private int virtualLid(final int real) {
        for (final OwnerRecord.ContextIds ids : model.book().contexts()) {
            for (int p = 0; !ids.inherited && p < ids.portCount(); p++) {
                final PortIds port = ids.portAt(p);
                if (real != 0 && real >> port.lmc == port.realLid >> port.lmc) {
                    return port.virtualLid;
                }
            }
        }
        return model.masks.lid(real);
    }

    private int virtualIndex(final int portNumber, final int real) {
        for (final Context context : model.contexts.inOrder()) {
            if (context.reattached && portNumber >= 1 && portNumber <= context.portCount) {
                final PortIds port = context.port(portNumber);
                for (int i = 0; i < port.gidCount(); i++) {
                    if (port.gidAt(i).realIndex == real) {
                        return port.gidAt(i).virtualIndex;
                    }
                }
            }
        }
        return real;
    }

    int attach(final long vqp, final MemorySegment gid, final int lid) {
        final Qp qp = model.qps.get(vqp);
        final MulticastGroup group = new MulticastGroup(Structs.gid(gid), lid);
        synchronized (qp) {
            final int err = group.attach(backend.now(), qp.real);
            if (err == 0 && !qp.groups.contains(group)) {
                qp.groups.add(group);
            }
            return err;
        }
    }

    int detach(final long vqp, final MemorySegment gid, final int lid) {
        final Qp qp = model.qps.get(vqp);
        final MulticastGroup group = new MulticastGroup(Structs.gid(gid), lid);
        synchronized (qp) {
            final int err = group.detach(backend.now(), qp.real);
            if (err == 0) {
                qp.groups.remove(group);
            }
            return err;
        }
    }

    int destroyAh(final long vah) {
        final Ah ah = model.ahs.get(vah);
        synchronized (ah) {
            model.ahs.remove(ah);
            final int err = unbind(ah);
            library.ahFree(vah);
            return err;
        }
    }

    /** Makes the real handles for all ports that the address stands for now. */
    public void bind(final Ah ah) {
        final List<Long> reals = new ArrayList<Long>();
        final Map<Long, Long> numbers = new LinkedHashMap<Long, Long>();
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_ah_attr.allocate(arena);
            attr.copyFrom(MemorySegment.ofArray(ah.attr));
            final List<AddressBook.Place> places = model.book().places(ibv_ah_attr.dlid(attr) & 0xffff,
                    QpAttributes.destinationGid(attr));
            if (places.isEmpty()) {
                reals.add(create(ah.pd, attr, null));
            }
            MemorySegment makers = null;
            for (final AddressBook.Place place : places) {
                attr.copyFrom(MemorySegment.ofArray(ah.attr));
                final long index = reals.size();
                reals.add(create(ah.pd, attr, place.port));
                if (place.range != NumberRanges.NONE && places.size() > 1) {
                    makers = makers != null ? makers : arena.allocate(ValueLayout.JAVA_SHORT, NumberRanges.COUNT + 1);
                    makers.setAtIndex(ValueLayout.JAVA_SHORT, place.range, (short) index);
                }
                for (int i = 0; i < place.qpNums.size(); i++) {
                    numbers.put(place.qpNums.virtualAt(i) & 0xffff_ffffL,
                            index << 32 | place.qpNums.realAt(i) & 0xffff_ffffL);
                }
            }
            final long map = numbers.isEmpty() ? 0 : newMap(
                    numbers.keySet().stream().mapToLong(Long::longValue).toArray(),
                    numbers.values().stream().mapToLong(Long::longValue).toArray());
            final MemorySegment list = arena.allocate(8L * reals.size(), 8);
            for (int i = 0; i < reals.size(); i++) {
                list.setAtIndex(ValueLayout.JAVA_LONG, i, reals.get(i));
            }
            final int err = library.ahBind(ah.virtual, list, reals.size(), map, makers);
            if (err != 0) {
                library.idmapFree(map);
                throw new VerbsException(err);
            }
            ah.map = map;
            ah.reals = reals.stream().mapToLong(Long::longValue).toArray();
            ah.real = ah.reals[0];
        } catch (RuntimeException e) {
            if (ah.reals.length == 0) {
                reals.forEach(backend.now()::destroyAh);
            }
            throw e;
        }
    }

    private long create(final Pd pd, final MemorySegment attr, final PortIds port) {
        translate.address(pd.context, attr, port);
        return backend.now().createAh(pd.real, attr);
    }

    private long newMap(final long[] keys, final long[] values) {
        final long map = library.idmapNew(keys, values);
        if (map == 0) {
            throw new VerbsException(VerbsErrno.ENOMEM, "no memory for " + keys.length + " addresses");
        }
        return map;
    }

    /** @return 0, or what went wrong first */
    public int unbind(final Ah ah) {
        int first = library.ahBind(ah.virtual, null, 0, 0, null);
        for (final long real : ah.reals) {
            final int err = backend.now().destroyAh(real);
            first = first != 0 ? first : err;
        }
        library.idmapFree(ah.map);
        ah.map = 0;
        ah.real = 0;
        ah.reals = new long[] {};
        return first;
    }

    /** A context begins to receive from those whom it is not connected to: datagrams, or messages to shared XRC domains. */
    void hearOthers(final long vcontext) {
        final Context context = model.contexts.get(vcontext);
        job.awaitAddressBook();
        if (context.sourceMap == 0 && !model.book().isEmpty()) {
            pushSources(context);
        }
    }

    /**
     * Real senders against virtual ones, for a context that receives datagrams, or messages by way of XRC queue pairs of
     * other processes; the numbers of these, too.
     */
    public void pushSources(final Context context) {
        final Senders senders = new Senders(model.book().contexts(), context.reattached ? context.ports : null,
                foreignQps(context));
        final long oldMap = context.sourceMap;
        final long oldRoutes = context.routeMap;
        context.sourceMap = senders.isEmpty() ? 0 : newMap(senders.keys(), senders.values());
        context.routeMap = senders.isEmpty() ? 0 : newRoutes(senders);
        library.contextSetSources(context.virtual, context.sourceMap, context.routeMap);
        library.idmapFree(oldMap);
        library.routesFree(oldRoutes);
    }

    private long newRoutes(final Senders senders) {
        final long routes = library.routesNew(senders.routes(), senders.names());
        if (routes == 0) {
            throw new VerbsException(VerbsErrno.ENOMEM, "no memory for the addresses of datagrams' senders");
        }
        return routes;
    }

    /** For the whole device, because the table stays, whatever domains are opened. */
    private ExceptionSet foreignQps(final Context context) {
        final String device = XrcVerbs.device(library, backend.now(), context);
        try {
            return device == null ? ExceptionSet.EMPTY : model.book().foreignQps(SharedDomains.ofDevice(device));
        } catch (IOException e) {
            throw new VerbsException(VerbsErrno.EIO, "the host's boot id cannot be read: " + e.getMessage());
        }
    }
}
