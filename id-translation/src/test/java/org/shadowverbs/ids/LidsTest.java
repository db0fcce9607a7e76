// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.Test;

final class LidsTest {
    @Test
    void manyRanksHaveEachItsOwn() {
        for (int choice = 0; choice < Lids.CHOICES; choice++) {
            final Set<Integer> lids = new HashSet<>();
            for (int rank = 0; rank < 0x8000; rank++) {
                final int lid = Lids.of(rank, choice);
                assertTrue(lid > 0 && lid <= 0xbfff && lids.add(lid), "lid " + lid);
            }
        }
    }

    @Test
    void theChoicesOfOneRankDiffer() {
        final Set<Integer> lids = new HashSet<>();
        for (int choice = 0; choice < Lids.CHOICES; choice++) {
            lids.add(Lids.of(0x7fff, choice));
        }
        assertEquals(Lids.CHOICES, lids.size());
    }
}
