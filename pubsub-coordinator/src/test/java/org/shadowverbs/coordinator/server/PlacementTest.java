// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import org.junit.jupiter.api.Test;
import org.shadowverbs.coordinator.server.Placement.Portion;

class PlacementTest {
    @Test
    void aLostHostsShareGoesToTheSpareOne() {
        assertEquals(List.of(List.of(0), List.of(1)), Placement.of(List.of(new Portion("a", 2), new Portion("b", 2)),
                List.of("a", "spare")));
    }

    @Test
    void withoutSpareHostsItGoesToTheLeastLoadedPortionByPortion() {
        assertEquals(List.of(List.of(0, 2), List.of(1, 3, 4)), Placement.of(List.of(new Portion("a", 4), new Portion("b", 1),
                new Portion("lost", 1), new Portion("lost", 3), new Portion("lost", 1)), List.of("a", "b")));
    }

    @Provide
    Arbitrary<List<Portion>> portions() {
        return Combinators.combine(Arbitraries.of("a", "b", "c", "d"), Arbitraries.integers().between(1, 9)).as(Portion::new).list()
                .ofMinSize(1).ofMaxSize(12);
    }

    /** All are placed once, nothing moves that need not, and no host has more than the largest portion above another that took one. */
    @Property
    void placesAllAndMovesOnlyWhatIsLost(@ForAll("portions") final List<Portion> portions) {
        final List<String> hosts = List.of("b", "spare", "c");
        final List<List<Integer>> shares = Placement.of(portions, hosts);
        final List<Integer> all = new ArrayList<>();
        shares.forEach(all::addAll);
        assertEquals(IntStream.range(0, portions.size()).boxed().toList(), all.stream().sorted().toList());
        for (int i = 0; i < portions.size(); i++) {
            final int home = hosts.indexOf(portions.get(i).host());
            assertTrue(home < 0 || shares.get(home).contains(i), portions + ": " + shares);
        }
        final int largest = portions.stream().mapToInt(Portion::load).max().orElseThrow();
        final int least = shares.stream().mapToInt(share -> load(portions, share)).min().orElseThrow();
        for (int host = 0; host < hosts.size(); host++) {
            final String name = hosts.get(host);
            if (shares.get(host).stream().anyMatch(i -> !portions.get(i).host().equals(name))) {
                assertTrue(load(portions, shares.get(host)) <= least + largest, portions + ": " + shares);
            }
        }
    }

    private static int load(final List<Portion> portions, final List<Integer> share) {
        return share.stream().mapToInt(i -> portions.get(i).load()).sum();
    }
}
