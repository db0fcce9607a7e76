// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import java.util.ArrayList;
import java.util.List;

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

    /** Of a job that was never re-attached: every id means itself. */
    public static final AddressBook EMPTY = new AddressBook(new ArrayList<OwnerRecord>());

    private final List<OwnerRecord> owners;

    public AddressBook(final List<OwnerRecord> owners) {
        this.owners = owners;
    }

    public boolean isEmpty() {
        return owners.isEmpty();
    }

    /**
     * @param lid virtual; counts when gid is null or zero
     * @return null when no carried-over port has this address: lid, GID and number then translate by the masks alone
     */
    public Destination find(final int lid, final Gid gid, final int qpNum, final IdMasks masks) {
        PortIds first = null;
        ExceptionSet keys = ExceptionSet.EMPTY;
        ExceptionSet srqs = ExceptionSet.EMPTY;
        for (final OwnerRecord owner : owners) {
            for (int i = 0; i < owner.contextCount(); i++) {
                final OwnerRecord.ContextIds context = owner.contextAt(i);
                final PortIds port = context.portAnswering(lid, gid);
                if (port == null) {
                    continue;
                }
                if (context.qpNums.containsVirtual(qpNum)) {
                    return new Destination(port, context.qpNums.realOf(qpNum, 0), context.srqNums,
                            context.remoteKeys);
                }
                first = first == null ? port : first;
                keys = keys.union(context.remoteKeys);
                srqs = srqs.union(context.srqNums);
            }
        }
        // A queue pair made after the REATTACH, of one of the processes behind that address.
        return first == null ? null : new Destination(first, qpNum ^ masks.qpNum(), srqs, keys);
    }

    /** One of the ports that a virtual address stands for, with the queue pair numbers that are not their own there. */
    public static final class Place {
        public final PortIds port;
        public final ExceptionSet qpNums;

        Place(final PortIds port, final ExceptionSet qpNums) {
            this.port = port;
            this.qpNums = qpNums;
        }
    }

    /** All ports that answer to a virtual address: those of one device may have become several. */
    public List<Place> places(final int lid, final Gid gid) {
        final List<Place> places = new ArrayList<Place>();
        for (final OwnerRecord.ContextIds context : contexts()) {
            final PortIds port = context.portAnswering(lid, gid);
            if (port != null) {
                places.add(new Place(port, context.qpNums));
            }
        }
        return places;
    }

    /** Everything that was published. */
    public List<OwnerRecord.ContextIds> contexts() {
        final List<OwnerRecord.ContextIds> contexts = new ArrayList<OwnerRecord.ContextIds>();
        for (final OwnerRecord owner : owners) {
            for (int i = 0; i < owner.contextCount(); i++) {
                contexts.add(owner.contextAt(i));
            }
        }
        return contexts;
    }

    /** Queue pair numbers that other processes hold on the same device. */
    public ExceptionSet qpNumsBeside(final OwnerRecord.ContextIds own) {
        ExceptionSet all = ExceptionSet.EMPTY;
        for (final OwnerRecord owner : owners) {
            for (int i = 0; i < owner.contextCount(); i++) {
                if (own.sameDevice(owner.contextAt(i))) {
                    all = all.union(owner.contextAt(i).qpNums);
                }
            }
        }
        return all;
    }

    /** SRQ numbers that other processes hold on the same device. */
    public ExceptionSet srqNumsBeside(final OwnerRecord.ContextIds own) {
        ExceptionSet all = ExceptionSet.EMPTY;
        for (final OwnerRecord.ContextIds other : contexts()) {
            if (own.sameDevice(other)) {
                all = all.union(other.srqNums);
            }
        }
        return all;
    }

    /** Remote keys that other processes hold on the same device. */
    public ExceptionSet remoteKeysBeside(final OwnerRecord.ContextIds own) {
        ExceptionSet all = ExceptionSet.EMPTY;
        for (final OwnerRecord owner : owners) {
            for (int i = 0; i < owner.contextCount(); i++) {
                if (own.sameDevice(owner.contextAt(i))) {
                    all = all.union(owner.contextAt(i).remoteKeys);
                }
            }
        }
        return all;
    }
}
