// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.shadowverbs.coordinator.protocol.RestartMessages.Portion;
import org.shadowverbs.coordinator.protocol.RestartMessages.RestartJoin;

/**
 * Which host restores what. A source host's programs stay together while there are enough source hosts. Each goes to who
 * asked for it, else to the host that it ran on, else to the one with the fewest so far, of those that have its images.
 */
final class Shares {
    private final List<RestartJoin> joined;
    private final List<Portion> portions;
    private final List<List<Integer>> shares = new ArrayList<>();
    private final int[] units;

    private Shares(final List<RestartJoin> joined) {
        this.joined = joined;
        portions = joined.getFirst().portions();
        units = new int[joined.size()];
        joined.forEach(j -> shares.add(new ArrayList<>()));
    }

    /**
     * Deals out all portions.
     *
     * @param joined by those who are to restore them, who all say the same of the checkpoint but for what they can read
     * @return the portions of each, by number
     * @throws Stopped when that can't be done; the message says why
     */
    static List<List<Integer>> deal(final List<RestartJoin> joined) throws Stopped {
        return new Shares(joined).deal();
    }

    private List<List<Integer>> deal() throws Stopped {
        final Map<String, List<Integer>> bySource = new LinkedHashMap<>();
        for (int i = 0; i < portions.size(); i++) {
            bySource.computeIfAbsent(portions.get(i).host(), h -> new ArrayList<>()).add(i);
        }
        checkWishes(bySource.keySet());
        final List<List<Integer>> all = new ArrayList<>(bySource.values());
        if (bySource.size() < joined.size()) {
            all.clear();
            for (int i = 0; i < portions.size(); i++) {
                all.add(List.of(i));
            }
        }
        if (all.size() < joined.size()) {
            throw new Stopped(joined.size() + " hosts are to share what can be divided among " + all.size()
                    + " at most: programs that are connected, or that one launch started, stay together", false);
        }
        final Set<String> here = new LinkedHashSet<>(joined.stream().map(RestartJoin::host).toList());
        // Those whose own host is here first, so that no other is put in their place.
        for (final List<Integer> unit : all.stream()
                .sorted(Comparator.comparing((List<Integer> unit) -> !here.contains(source(unit)))).toList()) {
            final int to = choose(unit);
            shares.get(to).addAll(unit);
            units[to]++;
        }
        for (int i = 0; i < joined.size(); i++) {
            if (shares.get(i).isEmpty()) {
                throw new Stopped("nothing is left for host " + joined.get(i).host()
                        + ": name fewer hosts, or what each is to take over (--from)", false);
            }
        }
        return shares;
    }

    private String source(final List<Integer> unit) {
        return portions.get(unit.getFirst()).host();
    }

    private void checkWishes(final Set<String> sources) throws Stopped {
        for (final RestartJoin j : joined) {
            for (final String from : j.from()) {
                if (!sources.contains(from)) {
                    throw new Stopped("host " + j.host() + " is to take over what ran on host " + from
                            + ", which has no part in this checkpoint; those that have: "
                            + String.join(", ", new TreeSet<>(sources)), false);
                }
            }
        }
    }

    private int choose(final List<Integer> unit) throws Stopped {
        final String source = source(unit);
        final boolean wished = joined.stream().anyMatch(j -> j.from().contains(source));
        int best = -1;
        boolean anyReads = false;
        for (int i = 0; i < joined.size(); i++) {
            final RestartJoin j = joined.get(i);
            final boolean reads = unit.stream().allMatch(p -> j.portions().get(p).readable());
            anyReads |= reads;
            if (reads && (wished ? j.from().contains(source) : j.from().isEmpty())
                    && (best < 0 || better(i, best, source))) {
                best = i;
            }
        }
        if (best < 0) {
            final String hosts = String.join(", ", joined.stream().map(RestartJoin::host).toList());
            throw new Stopped(anyReads
                    ? "nobody takes over what ran on host " + source + " and has its images, of the hosts " + hosts
                    : "the images of host " + source + " are on none of the hosts " + hosts, false);
        }
        return best;
    }

    private boolean better(final int one, final int other, final String source) {
        if (units[one] != units[other]) {
            return units[one] < units[other];
        }
        return joined.get(one).host().equals(source) && !joined.get(other).host().equals(source);
    }
}
