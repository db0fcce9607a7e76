// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.IntStream;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;

/** A wish for the keys of many ranks stands for those keys and for no other. */
class NumberedKeysTest {
    @Property
    void standsForTheKeysThatWereWanted(@ForAll @Size(max = 60) final Set<@IntRange(max = 90) Integer> numbers) {
        final List<String> wishes = new ArrayList<>();
        NumberedKeys.want(wishes, "x/", numbers);
        final List<String> keys = new ArrayList<>();
        wishes.forEach(wish -> {
            NumberedKeys.check(wish);
            NumberedKeys.each(wish, keys::add);
        });
        assertEquals(new TreeSet<>(numbers).stream().map(number -> "x/" + number).toList(), keys);
        assertTrue(wishes.size() <= 1, wishes::toString);
        assertEquals(new ArrayList<>(new TreeSet<>(numbers)), NumberedKeys.numbers(NumberedKeys.runs(numbers)));
    }

    @Example
    void thoseOfAllRanksAreOneShortString() {
        final List<String> wishes = new ArrayList<>();
        NumberedKeys.want(wishes, "x/", IntStream.range(0, 100_000).boxed().toList());
        assertEquals(List.of("x/{0-99999}"), wishes);
    }

    @Example
    void anyOtherKeyStandsForItself() {
        for (final String key : List.of("", "x", "x/7", "q/a/fe80::1/17", "of-epoch/p/1/0/m/a")) {
            final List<String> keys = new ArrayList<>();
            NumberedKeys.check(key);
            NumberedKeys.each(key, keys::add);
            assertEquals(List.of(key), keys);
        }
    }

    @Example
    void whatNobodyUnderstandsOrNoMemoryHoldsIsRefused() {
        for (final String wish : List.of("x/{", "x/{}", "x/{1-}", "x/{1-2", "x/{1}y", "x/{2-1}", "x/{-1}", "x/{a}",
                "x/{1,,2}",
                "x/{0-2147483647}", "x/{0-4194303,0-4194303}", "x/{99999999999}")) {
            assertThrows(IllegalArgumentException.class, () -> NumberedKeys.check(wish), wish);
            assertThrows(IllegalArgumentException.class, () -> NumberedKeys.each(wish, key -> { }), wish);
        }
    }
}
