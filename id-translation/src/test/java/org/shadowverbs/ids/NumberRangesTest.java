// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;

/** Which range of queue pair numbers a process has that shares an address with others. */
class NumberRangesTest {
    @Property
    void whoSharesAnAddressHasAnotherRange(
            @ForAll @Size(max = 60) final Map<@IntRange(max = 2000) Integer, @Size(max = 3) Set<@IntRange(max = 40) Integer>> ranks) {
        final Map<Integer, Set<String>> addresses = new HashMap<>();
        ranks.forEach((rank, theirs) -> addresses.put(rank, theirs.stream().map(n -> "lid " + n).collect(Collectors.toSet())));
        addresses.forEach((one, its) -> addresses.forEach((other, theirs) -> {
            final Set<String> shared = new HashSet<>(its);
            shared.retainAll(theirs);
            if (!one.equals(other) && !shared.isEmpty()) {
                final int range = NumberRanges.choose(one, addresses);
                assertNotEquals(range, NumberRanges.choose(other, addresses));
                assertEquals(range, NumberRanges.of(NumberRanges.first(range) | 0xffff));
                assertNotEquals(0xffffff, NumberRanges.first(range) | 0xffff, "the number of multicast");
            }
        }));
    }

    @Test
    void whoSharesNoneMayHaveAny() {
        final Map<Integer, Set<String>> addresses = Map.of(3, Set.of("lid 1", "gid 2"), 4, Set.of("lid 2"), 5, Set.of());
        for (final int rank : List.of(3, 4, 5, 6)) {
            assertEquals(NumberRanges.NONE, NumberRanges.choose(rank, addresses));
        }
    }

    /** A shares with B, B with C: all three differ. */
    @Test
    void sharersOfSharersDiffer() {
        final Map<Integer, Set<String>> addresses = Map.of(7, Set.of("x"), 8, Set.of("x", "y"), 9, Set.of("y"));
        assertEquals(3, List.of(7, 8, 9).stream().map(rank -> NumberRanges.choose(rank, addresses)).distinct().count());
    }
}
