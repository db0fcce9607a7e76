// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;

class RosterTest {
    @Property
    void findsAllNumbersWhateverTheyAre(@ForAll @Size(min = 1, max = 40) final Set<@IntRange(max = 5000) Integer> all) {
        final Map<String, byte[]> published = new HashMap<>();
        all.forEach(rank -> Roster.publish(published, rank));
        final Roster roster = new Roster();
        for (int round = 0; !roster.complete(); round++) {
            assertTrue(round < 10, "does not end");
            roster.wanted();
            roster.found(published, all.size());
        }
        assertEquals(new ArrayList<>(new TreeSet<>(all)), roster.numbers());
        assertTrue(roster.wanted().isEmpty());
        final int last = new TreeSet<>(all).last();
        assertEquals(last + 1 > all.size(), roster.ranksHaveLeft());
    }
}
