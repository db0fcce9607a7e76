// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.ids.ExceptionSet;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.OwnerRecord;
import org.shadowverbs.ids.PortIds;

/** What the tables say of a datagram, looked up as the library does (native/src/datapath/grh.c). */
class SendersTest {
    private static final int ROUTE = 5;
    private static final int NAME = 3;

    private static Gid gid(final int n) {
        return new Gid(0xfe80L << 48, n);
    }

    private static PortIds.GidPair pair(final int index, final Gid virtual, final int realIndex, final Gid real) {
        return new PortIds.GidPair(index, verbs_h.IBV_GID_TYPE_IB(), virtual, realIndex, real);
    }

    private static OwnerRecord.ContextIds process(final PortIds port, final int virtual, final int real) {
        return new OwnerRecord.ContextIds(new PortIds[] {port}, ExceptionSet.of(new int[] {virtual}, new int[] {real}, 1),
                ExceptionSet.EMPTY, ExceptionSet.EMPTY, Map.of());
    }

    /** One look at the tables. */
    private static final class Lookup {
        private final long[] routes;
        private final long[] names;
        private final Map<Long, Long> sources = new HashMap<>();

        Lookup(final Senders senders) {
            routes = senders.routes();
            names = senders.names();
            final long[] keys = senders.keys();
            for (int i = 0; i < keys.length; i++) {
                sources.put(keys[i], senders.values()[i]);
            }
        }

        private int route(final Gid real) {
            for (int i = 0; i < routes.length; i += ROUTE) {
                if (real.equals(new Gid(routes[i], routes[i + 1]))) {
                    return i;
                }
            }
            throw new AssertionError("no such GID " + real);
        }

        private Gid name(final long at) {
            return new Gid(names[(int) at * NAME], names[(int) at * NAME + 1]);
        }

        private long value(final Gid from, final int number) {
            final long port = 1L << 56 | routes[route(from) + 2] << 24;
            return sources.getOrDefault(port | number, sources.get(port));
        }

        int number(final Gid from, final int number) {
            return (int) value(from, number) & 0xff_ffff;
        }

        Gid sender(final Gid from, final int number) {
            return name((value(from, number) >>> 40) + routes[route(from) + 3]);
        }

        /** Of a queue pair of this process that was made since. */
        Gid own(final Gid from) {
            final int route = route(from);
            return name((sources.get(3L << 56 | routes[route + 2] << 24) >>> 40) + routes[route + 3]);
        }

        Gid destination(final Gid to) {
            return name(routes[route(to) + 4] - 1);
        }
    }

    /**
     * Processes with up to three GIDs come to share real ports, or not, with fewer GIDs or more. Queue pair numbers are told
     * apart by a port alone; who sends from any of its GIDs is named right, if it says which it uses or has no choice.
     */
    @Property
    void everySenderHasTheNamesThatItHadBefore(@ForAll @IntRange(min = 1, max = 6) final int processes,
            @ForAll @IntRange(min = 1, max = 4) final int realPorts, @ForAll @IntRange(min = 1, max = 3) final int realGids,
            @ForAll final long seed) {
        final Random random = new Random(seed);
        final List<OwnerRecord.ContextIds> contexts = new ArrayList<>();
        for (int p = 0; p < processes; p++) {
            final PortIds.GidPair[] pairs = new PortIds.GidPair[1 + random.nextInt(3)];
            final int real = 1 + random.nextInt(realPorts);
            for (int i = 0; i < pairs.length; i++) {
                final int at = Math.min(i, realGids - 1);
                pairs[i] = pair(i, gid(p * 10 + i + 1), at, gid(real * 1000 + at));
            }
            // The first process of each port has number 1 there, the second 2.
            final int number = 1 + (int) contexts.stream().filter(c -> c.portAt(0).gidAt(0).real.equals(pairs[0].real)).count();
            contexts.add(process(new PortIds(1, 0, 0, 0, 2, pairs).sendingFrom(random.nextInt(pairs.length)), 100 + p, number));
        }
        for (final OwnerRecord.ContextIds own : contexts) {
            final Lookup lookup = new Lookup(new Senders(contexts, new PortIds[] {own.portAt(0)}, ExceptionSet.EMPTY));
            for (final OwnerRecord.ContextIds sender : contexts) {
                final PortIds port = sender.portAt(0);
                final PortIds.GidPair used = port.byVirtualIndex(port.sourceIndex);
                final int number = sender.qpNums.realAt(0);
                assertEquals(used.virtual, lookup.sender(used.real, number));
                assertEquals(sender.qpNums.virtualAt(0), lookup.number(used.real, number));
                for (int i = 0; i < Math.min(port.gidCount(), realGids - 1); i++) {
                    assertEquals(port.gidAt(i).virtual, lookup.sender(port.gidAt(i).real, number), "the only one of its kind");
                }
            }
            final PortIds here = own.portAt(0);
            final PortIds.GidPair used = here.byVirtualIndex(here.sourceIndex);
            assertEquals(used.virtual, lookup.destination(used.real));
            assertEquals(used.virtual, lookup.own(used.real));
        }
    }

    /** One process knows one half of a real port's GIDs, another the other, and a third both. */
    @Test
    void portsThatShareAGidAreOne() {
        final OwnerRecord.ContextIds left = process(new PortIds(1, 0, 0, 0, 2,
                new PortIds.GidPair[] {pair(0, gid(1), 0, gid(1001))}), 11, 7);
        final OwnerRecord.ContextIds right = process(new PortIds(1, 0, 0, 0, 2,
                new PortIds.GidPair[] {pair(0, gid(2), 1, gid(1002))}), 12, 8);
        final OwnerRecord.ContextIds both = process(new PortIds(1, 0, 0, 0, 2,
                new PortIds.GidPair[] {pair(0, gid(3), 0, gid(1001)), pair(1, gid(4), 1, gid(1002))}), 13, 9);
        final Lookup lookup = new Lookup(new Senders(List.of(left, right, both), null, ExceptionSet.EMPTY));
        assertEquals(gid(3), lookup.sender(gid(1001), 9));
        assertEquals(gid(4), lookup.sender(gid(1002), 9));
        assertEquals(gid(1), lookup.sender(gid(1001), 7));
        assertEquals(gid(2), lookup.sender(gid(1002), 8));
        assertEquals(12, lookup.number(gid(1002), 8));
    }

    /** A header over IPv4 is one of RoCE version 2, and of GIDs that are made from such addresses. */
    @Test
    void namesSayWhichKindOfHeaderTheyMake() {
        final Gid v4 = new Gid(0, 0xffff_0a00_0001L);
        final PortIds port = new PortIds(1, 0, 0, 0, 2, new PortIds.GidPair[] {
            new PortIds.GidPair(0, verbs_h.IBV_GID_TYPE_ROCE_V1(), v4, 0, gid(1001)),
            new PortIds.GidPair(1, verbs_h.IBV_GID_TYPE_ROCE_V2(), gid(2), 1, gid(1002)),
            new PortIds.GidPair(2, verbs_h.IBV_GID_TYPE_ROCE_V2(), v4, 2, gid(1003))});
        final long[] names = new Senders(List.of(process(port, 11, 7)), null, ExceptionSet.EMPTY).names();
        assertEquals(List.of(0L, 0L, 1L), List.of(names[2], names[5], names[8]));
    }

    /** Where nobody has said which, RoCE's last is the one that programs take. */
    @Test
    void oneGidForManyIsTheMostGeneralOfRoce() {
        final PortIds.GidPair[] pairs = new PortIds.GidPair[3];
        for (int i = 0; i < pairs.length; i++) {
            pairs[i] = new PortIds.GidPair(i, verbs_h.IBV_GID_TYPE_ROCE_V2(), gid(i + 1), 0, gid(1001));
        }
        final PortIds port = new PortIds(1, 0, 0, 0, 2, pairs);
        assertEquals(gid(3), port.nameOf(gid(1001)).virtual);
        assertEquals(gid(2), port.sendingFrom(1).nameOf(gid(1001)).virtual);
    }
}
