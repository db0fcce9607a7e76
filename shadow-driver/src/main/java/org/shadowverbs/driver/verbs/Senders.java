// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.ids.ExceptionSet;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.OwnerRecord;
import org.shadowverbs.ids.PortIds;

/**
 * The senders that completions of datagrams, and the route headers in front of them, name: real addresses and queue pair
 * numbers against virtual ones, as {@code sv_idmap_new} and {@code sv_routes_new} want them. A sender is known by its lid and
 * number, and by its GID and number: either may be all that tells two HCAs apart.
 *
 * <p>Processes that were on different hosts may share a real port, and one real GID may stand for several of a process (on
 * ib2tcp there is one). So a GID means a real port and one of its GIDs. Its virtual name depends on the owner of the queue
 * pair: each of the port's processes has a name for each of the port's GIDs.
 */
final class Senders {
    private static final long BY_LID = 1L << 40;
    private static final long BY_ROUTE = 1L << 56;
    /** Not a sender, but another process's queue pair, which the sender sends through. */
    private static final long FOREIGN = 2L << 40;
    /** This process, for queue pairs that it has made since, and that nobody else knows. */
    private static final long OWN_BY_LID = 2L << 56;
    private static final long OWN_BY_ROUTE = 3L << 56;

    private final Map<Long, Long> sources = new LinkedHashMap<Long, Long>();
    /** The GIDs of real ports, numbered from 1; of each where it is among them. */
    private final Map<Integer, List<Gid>> realPorts = new LinkedHashMap<Integer, List<Gid>>();
    private final Map<Gid, Integer> realPortOf = new HashMap<Gid, Integer>();
    private final Map<Gid, Integer> own = new HashMap<Gid, Integer>();
    private final List<Long> names = new ArrayList<Long>();

    /**
     * @param contexts what the job has published
     * @param ownPorts the ports of the context whose completions it is for, if its addresses have been carried over; else null
     * @param foreignQps real numbers of the queue pairs of other processes, through which messages may come
     */
    Senders(final List<OwnerRecord.ContextIds> contexts, final PortIds[] ownPorts, final ExceptionSet foreignQps) {
        for (int i = 0; i < foreignQps.size(); i++) {
            sources.put(FOREIGN | foreignQps.realAt(i) & 0xff_ffff, foreignQps.virtualAt(i) & 0xff_ffffL);
        }
        for (final OwnerRecord.ContextIds ids : contexts) {
            for (int p = 0; !ids.inherited && p < ids.portCount(); p++) {
                findRealPort(ids.portAt(p));
            }
        }
        for (final OwnerRecord.ContextIds ids : contexts) {
            for (int p = 0; !ids.inherited && p < ids.portCount(); p++) {
                add(BY_LID, BY_ROUTE, ids.portAt(p), ids.qpNums);
            }
        }
        for (int p = 0; ownPorts != null && p < ownPorts.length; p++) {
            for (final Gid gid : gidsOf(ownPorts[p])) {
                own.put(gid, name(ownPorts[p], gid));
            }
            add(OWN_BY_LID, OWN_BY_ROUTE, ownPorts[p], ExceptionSet.EMPTY);
        }
    }

    private static Set<Gid> gidsOf(final PortIds port) {
        final Set<Gid> gids = new LinkedHashSet<Gid>();
        for (int i = 0; i < port.gidCount(); i++) {
            if (port.gidAt(i).realIndex >= 0 && !port.gidAt(i).real.isZero()) {
                gids.add(port.gidAt(i).real);
            }
        }
        return gids;
    }

    /** Ports that have a GID in common are one. */
    private void findRealPort(final PortIds port) {
        final Set<Gid> all = gidsOf(port);
        int number = realPorts.size() + 1;
        while (realPorts.containsKey(number)) {
            number++;
        }
        for (final Gid gid : List.copyOf(all)) {
            final Integer known = realPortOf.get(gid);
            if (known != null && realPorts.containsKey(known)) {
                all.addAll(realPorts.remove(known));
                number = known;
            }
        }
        if (!all.isEmpty()) {
            realPorts.put(number, List.copyOf(all));
            for (final Gid gid : all) {
                realPortOf.put(gid, number);
            }
        }
    }

    private void add(final long byLid, final long byRoute, final PortIds port, final ExceptionSet numbers) {
        final long lid = (long) port.virtualLid << 24;
        add(byLid | (long) port.realLid << 24, lid, numbers);
        final Set<Gid> gids = gidsOf(port);
        gids.retainAll(realPortOf.keySet());
        if (!gids.isEmpty()) {
            final int realPort = realPortOf.get(gids.iterator().next());
            final long first = names.size() / 3;
            for (final Gid gid : realPorts.get(realPort)) {
                name(port, gid);
            }
            add(byRoute | (long) realPort << 24, first << 40 | lid, numbers);
        }
    }

    private void add(final long key, final long value, final ExceptionSet numbers) {
        sources.put(key, value);
        for (int i = 0; i < numbers.size(); i++) {
            sources.put(key | numbers.realAt(i) & 0xff_ffff, value | numbers.virtualAt(i) & 0xff_ffff);
        }
    }

    /** @return where it is */
    private int name(final PortIds port, final Gid real) {
        final PortIds.GidPair known = port.nameOf(real);
        // A GID that nothing of the process stands for: it does not send from it.
        final PortIds.GidPair name = known != null ? known : port.anyUsable();
        names.add(name.virtual.prefix());
        names.add(name.virtual.interfaceId());
        names.add(name.type == verbs_h.IBV_GID_TYPE_ROCE_V2() && name.virtual.isIpv4Mapped() ? 1L : 0L);
        return names.size() / 3 - 1;
    }

    boolean isEmpty() {
        return sources.isEmpty();
    }

    long[] keys() {
        return sources.keySet().stream().mapToLong(Long::longValue).toArray();
    }

    long[] values() {
        return sources.values().stream().mapToLong(Long::longValue).toArray();
    }

    /** Structs sv_route. */
    long[] routes() {
        final List<Long> routes = new ArrayList<Long>();
        realPorts.forEach((number, gids) -> {
            for (int slot = 0; slot < gids.size(); slot++) {
                final Gid gid = gids.get(slot);
                routes.addAll(List.of(gid.prefix(), gid.interfaceId(), (long) number, (long) slot,
                        own.getOrDefault(gid, -1) + 1L));
            }
        });
        return routes.stream().mapToLong(Long::longValue).toArray();
    }

    /** Structs sv_route_name. */
    long[] names() {
        return names.stream().mapToLong(Long::longValue).toArray();
    }
}
