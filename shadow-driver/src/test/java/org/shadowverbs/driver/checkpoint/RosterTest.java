// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;

class RosterTest {
    @Property
    void aGapIsARankThatHasLeft(@ForAll @Size(min = 1, max = 40) final Set<@IntRange(max = 60) Integer> all) {
        final List<Integer> numbers = new ArrayList<>(new TreeSet<>(all));
        final Roster roster = new Roster();
        roster.are(numbers);
        boolean gap = false;
        for (int number = 0; number < numbers.getLast(); number++) {
            gap |= !all.contains(number);
        }
        assertEquals(gap, roster.ranksHaveLeft());
    }
}
