// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * Which range of queue pair numbers each process takes on a device that every process has for itself (ib2tcp).
 *
 * <p>An HCA gives its numbers to all processes of a host, so a number at an address is one queue pair. When such processes
 * go on with a device each, peers still know them by the one address that they had. The range of a number then says
 * whose queue pair it is: those who share an address have ranges that differ. Immutable, thread-safe.
 */
public final class NumberRanges {
    /** No range: numbers are the device's, whichever process has them. */
    public static final int NONE = -1;
    /** How many there are. The last is not used: it has the number that stands for multicast. */
    public static final int COUNT = 255;

    private static final int BITS = 16;

    private NumberRanges() {
    }

    /** The range that a real number is of, from 0 to {@link #COUNT}. */
    public static int of(final int number) {
        return number >>> BITS & 0xff;
    }

    /** The lowest number of a range. */
    public static int first(final int range) {
        return range << BITS;
    }

    /**
     * The range for one rank; the same on whichever rank it is asked for. Of more than {@link #COUNT} processes that share an
     * address some have the same.
     *
     * @param addresses the virtual addresses of each rank that takes part, this one included
     * @return {@link #NONE}: it shares no address, so any range will do
     */
    public static int choose(final int rank, final Map<Integer, Set<String>> addresses) {
        final Map<String, List<Integer>> holders = new HashMap<String, List<Integer>>();
        addresses.forEach((holder, theirs) -> theirs.forEach(
                address -> holders.computeIfAbsent(address, key -> new ArrayList<Integer>()).add(holder)));
        final TreeSet<Integer> sharers = new TreeSet<Integer>(Set.of(rank));
        final Set<String> seen = new HashSet<String>();
        final Deque<Integer> next = new ArrayDeque<Integer>(sharers);
        while (!next.isEmpty()) {
            for (final String address : addresses.getOrDefault(next.remove(), Set.of())) {
                if (seen.add(address)) {
                    holders.get(address).stream().filter(sharers::add).forEach(next::add);
                }
            }
        }
        return sharers.size() == 1 ? NONE : (sharers.first() + sharers.headSet(rank).size()) % COUNT;
    }

    /** The virtual addresses by which peers know ports. */
    public static Set<String> addresses(final List<PortIds> ports) {
        final Set<String> addresses = new TreeSet<String>();
        for (final PortIds port : ports) {
            if (port.virtualLid != 0) {
                addresses.add("lid " + port.virtualLid);
            }
            for (int i = 0; i < port.gidCount(); i++) {
                addresses.add("gid " + port.gidAt(i).virtual);
            }
        }
        return addresses;
    }

    public static byte[] encode(final Set<String> addresses) {
        final RecordWriter out = new RecordWriter(64).i32(addresses.size());
        addresses.forEach(out::text);
        return out.toByteArray();
    }

    public static Set<String> decode(final byte[] bytes) {
        final RecordReader in = new RecordReader(bytes);
        final Set<String> addresses = new TreeSet<String>();
        for (int left = in.count(4); left > 0; left--) {
            addresses.add(in.text());
        }
        in.end();
        return addresses;
    }
}
