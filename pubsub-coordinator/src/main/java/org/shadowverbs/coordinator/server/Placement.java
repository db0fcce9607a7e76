// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Which host brings back what when the job heals itself: what ran on a host that is there stays there; what ran on a lost one goes
 * to the host that has the least then, portion by portion, the largest first.
 */
final class Placement {
    private Placement() {
    }

    /**
     * What can be restored by itself.
     *
     * @param host that it ran on
     * @param load how much it is; its ranks, or 1 for a program without any
     */
    record Portion(String host, int load) {
    }

    /**
     * Places all portions.
     *
     * @param hosts those that are there, by name, each once; not empty
     * @return for each host, in that order, the places of its portions
     */
    static List<List<Integer>> of(final List<Portion> portions, final List<String> hosts) {
        final List<List<Integer>> shares = new ArrayList<>();
        hosts.forEach(host -> shares.add(new ArrayList<>()));
        final int[] load = new int[hosts.size()];
        final List<Integer> homeless = new ArrayList<>();
        for (int i = 0; i < portions.size(); i++) {
            final int home = hosts.indexOf(portions.get(i).host());
            if (home < 0) {
                homeless.add(i);
            } else {
                shares.get(home).add(i);
                load[home] += portions.get(i).load();
            }
        }
        homeless.sort(Comparator.comparing((Integer i) -> -portions.get(i).load()));
        for (final int portion : homeless) {
            final int to = IntStream.range(0, hosts.size()).boxed().min(Comparator.comparing(host -> load[host])).orElseThrow();
            shares.get(to).add(portion);
            load[to] += portions.get(portion).load();
        }
        shares.forEach(share -> share.sort(null));
        return shares;
    }
}
