// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/**
 * The published records of all ranks, and what follows from them: which real address and queue pair number a virtual
 * destination stands for, and which remote keys hold there. Immutable; made anew at each REATTACH.
 */
public final class AddressBook {
    /** A destination found: its real port, its real queue pair number, and the SRQ numbers and remote keys that hold there. */
    public static final class Destination {
        public final PortIds port;
        public final int realQpNum;
        public final ExceptionSet srqNums;
        public final ExceptionSet remoteKeys;

        Destination(final PortIds port, final int realQpNum, final ExceptionSet srqNums,
                final ExceptionSet remoteKeys) {
            this.port = port;
            this.realQpNum = realQpNum;
            this.srqNums = srqNums;
            this.remoteKeys = remoteKeys;
        }
    }

    /** The book of a job that was never reattached: every id means itself. */
    public static final AddressBook EMPTY = new AddressBook(new ArrayList<OwnerRecord>());

    /** No rank has published; one that has may have no context. */
    private final boolean empty;
    private final List<OwnerRecord.ContextIds> contexts;
    /** What a queue pair of a context reaches in others beside its own ids: those that share an XRC domain with it. */
    private final Map<OwnerRecord.ContextIds, Reach> reaches = new IdentityHashMap<OwnerRecord.ContextIds, Reach>();

    /** The ids that requests to a context's queue pairs may name. One object for each context, for it is a key of tables. */
    private static final class Reach {
        final ExceptionSet srqNums;
        final ExceptionSet remoteKeys;

        Reach(final OwnerRecord.ContextIds own, final List<OwnerRecord.ContextIds> all) {
            ExceptionSet srqs = own.srqNums;
            ExceptionSet keys = own.remoteKeys;
            for (final OwnerRecord.ContextIds other : all) {
                if (other != own && own.sharesDomain(other)) {
                    srqs = srqs.union(other.srqNums);
                    keys = keys.union(other.remoteKeys);
                }
            }
            srqNums = srqs;
            remoteKeys = keys;
        }
    }

    public AddressBook(final List<OwnerRecord> owners) {
        empty = owners.isEmpty();
        final List<OwnerRecord.ContextIds> all = new ArrayList<OwnerRecord.ContextIds>();
        for (final OwnerRecord owner : owners) {
            for (int i = 0; i < owner.contextCount(); i++) {
                all.add(owner.contextAt(i));
            }
        }
        contexts = Collections.unmodifiableList(all);
        for (final OwnerRecord.ContextIds context : contexts) {
            reaches.put(context, new Reach(context, contexts));
        }
    }

    public boolean isEmpty() {
        return empty;
    }

    /**
     * @param lid virtual; counts when gid is null or zero
     * @return null when no carried-over port has this address: lid, GID and number then translate by the masks alone
     */
    public Destination find(final int lid, final Gid gid, final int qpNum, final IdMasks masks) {
        final int real = qpNum ^ masks.qpNum();
        PortIds first = null;
        PortIds maker = null;
        ExceptionSet keys = ExceptionSet.EMPTY;
        ExceptionSet srqs = ExceptionSet.EMPTY;
        for (final OwnerRecord.ContextIds context : contexts) {
            final PortIds port = context.portAnswering(lid, gid);
            if (port == null) {
                continue;
            }
            final Reach reach = reaches.get(context);
            if (context.qpNums.containsVirtual(qpNum)) {
                return new Destination(port, context.qpNums.realOf(qpNum, 0), reach.srqNums, reach.remoteKeys);
            }
            if (context.inherited) {
                continue; // what else is at that address is elsewhere
            }
            first = first == null ? port : first;
            maker = context.range == NumberRanges.of(real) ? port : maker;
            keys = keys.union(reach.remoteKeys);
            srqs = srqs.union(reach.srqNums);
        }
        // A queue pair made after the REATTACH, of one of the processes behind that address: of the one that gives such numbers.
        return first == null ? null : new Destination(maker == null ? first : maker, real, srqs, keys);
    }

    /** Whether that lid is or was a port's of the job, virtual or real. */
    public boolean hasLid(final int lid) {
        for (final OwnerRecord.ContextIds context : contexts) {
            for (int i = 0; i < context.portCount(); i++) {
                final PortIds port = context.portAt(i);
                if (port.answersTo(lid, null) || lid >> port.lmc == port.realLid >> port.lmc) {
                    return true;
                }
            }
        }
        return false;
    }

    /** One of the ports that a virtual address stands for, with the queue pair numbers that are not their own there. */
    public static final class Place {
        public final PortIds port;
        public final ExceptionSet qpNums;
        /** See {@link OwnerRecord.ContextIds#range}. */
        public final int range;

        Place(final PortIds port, final ExceptionSet qpNums, final int range) {
            this.port = port;
            this.qpNums = qpNums;
            this.range = range;
        }
    }

    /** All ports that answer to a virtual address: those of one device may have become several. */
    public List<Place> places(final int lid, final Gid gid) {
        final List<Place> places = new ArrayList<Place>();
        for (final OwnerRecord.ContextIds context : contexts) {
            final PortIds port = context.inherited ? null : context.portAnswering(lid, gid);
            if (port != null) {
                places.add(new Place(port, context.qpNums, context.range));
            }
        }
        return places;
    }

    /** Everything that was published. */
    public List<OwnerRecord.ContextIds> contexts() {
        return contexts;
    }

    /** The queue pairs by whose way messages may come to queues of others: those who have XRC domains that begin so. */
    public ExceptionSet foreignQps(final String device) {
        ExceptionSet all = ExceptionSet.EMPTY;
        for (final OwnerRecord.ContextIds context : contexts) {
            if (context.domains.values().stream().anyMatch(domain -> domain.startsWith(device))) {
                all = all.union(context.qpNums);
            }
        }
        return all;
    }

    /**
     * Tells the id spaces of a context which ids the job has carried over.
     *
     * @param own the context as it was published, or would be
     * @param allRemoteKeys its own, including those that no peer may use
     */
    public void reattach(final OwnerRecord.ContextIds own, final IdSpace qpNums, final IdSpace srqNums,
            final IdSpace remoteKeys, final ExceptionSet allRemoteKeys) {
        reattach(qpNums, own, own.qpNums, context -> context.qpNums);
        reattach(srqNums, own, own.srqNums, context -> context.srqNums);
        reattach(remoteKeys, own, allRemoteKeys, context -> context.remoteKeys);
    }

    private void reattach(final IdSpace space, final OwnerRecord.ContextIds own, final ExceptionSet carriedOver,
            final Function<OwnerRecord.ContextIds, ExceptionSet> ids) {
        final List<ExceptionSet> ofDevice = new ArrayList<ExceptionSet>();
        for (final OwnerRecord.ContextIds other : contexts) {
            if (own.sameDevice(other) || own.sameRealDevice(other) || own.sharesDomain(other)) {
                ofDevice.add(ids.apply(other));
            }
        }
        space.reattached(carriedOver, ofDevice);
    }
}
