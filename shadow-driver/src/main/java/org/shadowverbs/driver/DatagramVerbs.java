// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_global_route;
import org.shadowverbs.bindings.verbs.ibv_grh;
import org.shadowverbs.ids.AddressBook;
import org.shadowverbs.ids.ExceptionSet;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.OwnerRecord;
import org.shadowverbs.ids.PortIds;

/** Where datagrams go and whom they come from: address handles, and the table of senders. */
final class DatagramVerbs {
    /** In the first byte of a global route header. */
    private static final int IP_VERSION_6 = 0x60;
    /** Of RoCE over IPv4, whose header is in the last 20 of the 40 bytes. */
    private static final int IPV4_TTL = 28;
    private static final int IPV4_FROM = 32;
    private static final int IPV4_TO = 36;

    /** In the keys of the table of senders: not a sender, but the queue pair of another process by whose way it sends. */
    private static final long STRANGER = 2L << 40;

    private final Native library;
    private final Backend backend;
    private final Model model;
    private final Translate translate;
    private final Job job;

    DatagramVerbs(final Native library, final Backend backend, final Model model, final Job job) {
        this.library = library;
        this.backend = backend;
        this.model = model;
        this.translate = new Translate(model);
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
     * The way back to who sent a datagram: the header in front of it holds the real GIDs of now, or, of one that came
     * before a restart, the virtual ones.
     *
     * @param grh struct ibv_grh, or an IPv4 header in its last 20 bytes
     * @param attr gets the global route
     */
    int initAh(final long vcontext, final int portNumber, final MemorySegment grh, final MemorySegment attr) {
        final Context context = model.contexts.get(vcontext);
        job.awaitAddressBook();
        Ports.ensure(backend, context, model.masks);
        try (Arena arena = Arena.ofConfined()) {
            // The application's may lie anywhere.
            final MemorySegment header = ibv_grh.allocate(arena).copyFrom(grh);
            final boolean v4 = (header.get(ValueLayout.JAVA_BYTE, 0) & 0xf0) != IP_VERSION_6;
            final int index = indexOf(context.port(portNumber),
                    v4 ? mapped(header, IPV4_TO) : Structs.gid(ibv_grh.dgid(header)));
            if (index < 0) {
                return VerbsErrno.EINVAL;
            }
            final MemorySegment route = ibv_ah_attr.grh(attr);
            ibv_ah_attr.is_global(attr, (byte) 1);
            Structs.gid(ibv_global_route.dgid(route),
                    virtualOf(v4 ? mapped(header, IPV4_FROM) : Structs.gid(ibv_grh.sgid(header))));
            ibv_global_route.sgid_index(route, (byte) index);
            ibv_global_route.hop_limit(route,
                    v4 ? header.get(ValueLayout.JAVA_BYTE, IPV4_TTL) : ibv_grh.hop_limit(header));
            if (!v4) {
                final int classAndFlow = Integer.reverseBytes(ibv_grh.version_tclass_flow(header));
                ibv_global_route.flow_label(route, classAndFlow & 0xf_ffff);
                ibv_global_route.traffic_class(route, (byte) (classAndFlow >> 20));
            }
            return 0;
        }
    }

    private static Gid mapped(final MemorySegment grh, final int offset) {
        final int address = Integer.reverseBytes(grh.get(ValueLayout.JAVA_INT_UNALIGNED, offset));
        return new Gid(0, 0xffff_0000_0000L | address & 0xffff_ffffL);
    }

    private static int indexOf(final PortIds port, final Gid gid) {
        for (int i = 0; i < port.gidCount(); i++) {
            if (port.gidAt(i).real.equals(gid)) {
                return port.gidAt(i).virtualIndex;
            }
        }
        final PortIds.GidPair before = port.byVirtual(gid);
        return before == null ? -1 : before.virtualIndex;
    }

    private Gid virtualOf(final Gid real) {
        for (final OwnerRecord.ContextIds ids : model.book().contexts()) {
            for (int p = 0; !ids.inherited && p < ids.portCount(); p++) {
                final PortIds port = ids.portAt(p);
                for (int i = 0; i < port.gidCount(); i++) {
                    if (port.gidAt(i).real.equals(real)) {
                        return port.gidAt(i).virtual;
                    }
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
            final int err = group.attach(backend, qp.real);
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
            final int err = group.detach(backend, qp.real);
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
    void bind(final Ah ah) {
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
            for (final AddressBook.Place place : places) {
                attr.copyFrom(MemorySegment.ofArray(ah.attr));
                final long index = reals.size();
                reals.add(create(ah.pd, attr, place.port));
                for (int i = 0; i < place.qpNums.size(); i++) {
                    numbers.put(place.qpNums.virtualAt(i) & 0xffff_ffffL,
                            index << 32 | place.qpNums.realAt(i) & 0xffff_ffffL);
                }
            }
            final long map = numbers.isEmpty() ? 0 : newMap(numbers);
            final MemorySegment list = arena.allocate(8L * reals.size(), 8);
            for (int i = 0; i < reals.size(); i++) {
                list.setAtIndex(ValueLayout.JAVA_LONG, i, reals.get(i));
            }
            final int err = library.ahBind(ah.virtual, list, reals.size(), map);
            if (err != 0) {
                library.idmapFree(map);
                throw new VerbsException(err);
            }
            ah.map = map;
            ah.reals = reals.stream().mapToLong(Long::longValue).toArray();
            ah.real = ah.reals[0];
        } catch (RuntimeException e) {
            if (ah.reals.length == 0) {
                reals.forEach(backend::destroyAh);
            }
            throw e;
        }
    }

    private long create(final Pd pd, final MemorySegment attr, final PortIds port) {
        translate.address(pd.context, attr, port);
        return backend.createAh(pd.real, attr);
    }

    private long newMap(final Map<Long, Long> entries) {
        final long map = library.idmapNew(entries.keySet().stream().mapToLong(Long::longValue).toArray(),
                entries.values().stream().mapToLong(Long::longValue).toArray());
        if (map == 0) {
            throw new VerbsException(VerbsErrno.ENOMEM, "no memory for " + entries.size() + " addresses");
        }
        return map;
    }

    /** @return 0, or what went wrong first */
    int unbind(final Ah ah) {
        int first = library.ahBind(ah.virtual, null, 0, 0);
        for (final long real : ah.reals) {
            final int err = backend.destroyAh(real);
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
    void pushSources(final Context context) {
        final Map<Long, Long> sources = new LinkedHashMap<Long, Long>();
        final ExceptionSet strangers = strangers(context);
        for (int i = 0; i < strangers.size(); i++) {
            sources.put(STRANGER | strangers.realAt(i) & 0xff_ffff, strangers.virtualAt(i) & 0xff_ffffL);
        }
        for (final OwnerRecord.ContextIds ids : model.book().contexts()) {
            for (int p = 0; !ids.inherited && p < ids.portCount(); p++) {
                add(sources, ids.portAt(p), ids.qpNums);
            }
        }
        final long old = context.sourceMap;
        context.sourceMap = sources.isEmpty() ? 0 : newMap(sources);
        library.contextSetSources(context.virtual, context.sourceMap);
        library.idmapFree(old);
    }

    /** Of the whole device, for the table stays, whatever domains are opened. */
    private ExceptionSet strangers(final Context context) {
        final String device = XrcVerbs.device(library, backend, context);
        try {
            return device == null ? ExceptionSet.EMPTY : model.book().strangers(SharedDomains.ofDevice(device));
        } catch (IOException e) {
            throw new VerbsException(VerbsErrno.EIO, "the host's boot id cannot be read: " + e.getMessage());
        }
    }

    private void add(final Map<Long, Long> sources, final PortIds port, final ExceptionSet numbers) {
        final long key = 1L << 40 | (long) port.realLid << 24;
        final long value = (long) port.virtualLid << 24;
        sources.put(key, value);
        for (int i = 0; i < numbers.size(); i++) {
            final Long other = sources.put(key | numbers.realAt(i) & 0xff_ffff,
                    value | numbers.virtualAt(i) & 0xff_ffff);
            if (other != null && other != (value | numbers.virtualAt(i) & 0xff_ffff)) {
                library.say("two HCAs have a queue pair 0x" + Integer.toHexString(numbers.realAt(i))
                        + ", and no lid tells them apart: completions of datagrams may name the wrong sender");
            }
        }
    }
}
