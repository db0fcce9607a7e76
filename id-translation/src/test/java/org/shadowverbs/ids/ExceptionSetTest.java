// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HashMap;
import java.util.Map;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;

class ExceptionSetTest {
    private static ExceptionSet of(final Map<Integer, Integer> map) {
        final int[] virtuals = new int[map.size()];
        final int[] reals = new int[map.size()];
        int n = 0;
        for (final Map.Entry<Integer, Integer> e : map.entrySet()) {
            virtuals[n] = e.getKey();
            reals[n++] = e.getValue();
        }
        return ExceptionSet.of(virtuals, reals, n);
    }

    @Property
    void answersAsAMapDoes(@ForAll final Map<Integer, Integer> map, @ForAll final int other, @ForAll final int mask) {
        final ExceptionSet set = of(map);
        assertEquals(map.size(), set.size());
        map.forEach((virtual, real) -> assertEquals(real, set.realOf(virtual, mask)));
        assertEquals(map.getOrDefault(other, other ^ mask), set.realOf(other, mask));
        assertEquals(map.containsKey(other), set.containsVirtual(other));
    }

    @Property
    void unionHasBothAndPrefersItsOwn(@ForAll final Map<Integer, Integer> a, @ForAll final Map<Integer, Integer> b) {
        final Map<Integer, Integer> expected = new HashMap<>(b);
        expected.putAll(a);
        final ExceptionSet union = of(a).union(of(b));
        assertEquals(expected.size(), union.size());
        expected.forEach((virtual, real) -> assertEquals(real, union.realOf(virtual, 0)));
    }

    @Property
    void survivesTheWire(@ForAll final Map<Integer, Integer> map) {
        final RecordWriter out = new RecordWriter(4);
        of(map).write(out);
        final RecordReader in = new RecordReader(out.toByteArray());
        final ExceptionSet set = ExceptionSet.read(in);
        in.end();
        assertEquals(map.size(), set.size());
        map.forEach((virtual, real) -> assertEquals(real, set.realOf(virtual, 0)));
    }

    @Test
    void anIdThatSeveralObjectsShareIsNobodys() {
        final ExceptionSet set = ExceptionSet.ofShared(new int[] {0, 7, 0, 8, 0, 7, -1}, new int[] {1, 2, 3, 4, 5, 2, 6}, 7, 99);
        assertEquals(4, set.size());
        assertEquals(99, set.realOf(0, 0));
        assertEquals(2, set.realOf(7, 0), "twice the same is no ambiguity");
        assertEquals(4, set.realOf(8, 0));
        assertEquals(6, set.realOf(-1, 0));
    }

    @Test
    void oneIdForTwoObjectsIsAnError() {
        assertThrows(IllegalArgumentException.class,
                () -> ExceptionSet.of(new int[] {7, 7}, new int[] {1, 2}, 2));
        assertFalse(ExceptionSet.of(new int[] {7, 7}, new int[] {1, 1}, 2).size() != 1);
    }
}
