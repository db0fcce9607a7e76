// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;

/** Whoever comes, goes back or joins meanwhile: nobody is missing when nobody is. */
class AwaitedTest {
    private static final int ALL = 8;

    /** @param turns each has one who was missing come, or who had come go back, or who was not among them join */
    @Property
    void knowsWhetherSomebodyIsMissing(@ForAll @Size(max = 60) final List<@IntRange(max = ALL - 1) Integer> turns) {
        final Set<Integer> all = new LinkedHashSet<>(IntStream.range(0, ALL / 2).boxed().toList());
        final Set<Integer> missing = new LinkedHashSet<>(all);
        final Awaited<Integer> awaited = new Awaited<>(all, one -> all.contains(one) && missing.contains(one),
                one -> 0);
        for (final int who : turns) {
            if (all.add(who) || !missing.remove(who)) {
                missing.add(who);
            }
            assertEquals(missing.isEmpty(), awaited.none());
            assertEquals(missing, Set.copyOf(awaited.missing()));
        }
    }

    @Example
    void whoHasLeftIsNotMissing() {
        final Set<Integer> all = new LinkedHashSet<>(List.of(1, 2));
        final Awaited<Integer> awaited = new Awaited<>(all, all::contains, one -> 0);
        assertFalse(awaited.none());
        all.clear();
        assertTrue(awaited.none());
    }

    /** As many questions as there are messages, each of which brings one: it must not look at all of them each time. */
    @Example
    void looksAtEachAFewTimes() {
        final int many = 1000;
        final Set<Integer> missing = new LinkedHashSet<>(IntStream.range(0, many).boxed().toList());
        final AtomicInteger looks = new AtomicInteger();
        final Awaited<Integer> awaited = new Awaited<>(List.copyOf(missing), one -> {
            looks.incrementAndGet();
            return missing.contains(one);
        }, one -> 0);
        for (int one = 0; one < many; one++) {
            assertFalse(awaited.none());
            missing.remove(one);
        }
        assertTrue(awaited.none());
        assertTrue(looks.get() <= 4 * many, looks::toString);
    }

    @Example
    void isAskedAgainWhenTheFirstMayBeLate() {
        final long[] late = {10, 20};
        final boolean[] missing = {true, true};
        final Awaited<Integer> awaited = new Awaited<>(List.of(0, 1), one -> missing[one], one -> late[one]);
        assertEquals(10, awaited.lateAt(0));
        missing[0] = false;
        assertEquals(10, awaited.lateAt(5));
        assertEquals(20, awaited.lateAt(10));
    }
}
