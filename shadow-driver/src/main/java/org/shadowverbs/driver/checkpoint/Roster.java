// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The numbers of the ranks that take part. An exchange tells how many there are, not which: so each publishes its number,
 * and all look for numbers in a growing range until they have found as many.
 */
final class Roster {
    private static final int FIRST_RANGE = 64;
    private static final byte[] PRESENT = {1};

    private final List<Integer> numbers = new ArrayList<Integer>();
    private int looked;
    private int range;
    private int expected = Integer.MAX_VALUE;

    static void publish(final Map<String, byte[]> values, final int rank) {
        values.put(key(rank), PRESENT);
    }

    private static String key(final int rank) {
        return "n/" + rank;
    }

    boolean complete() {
        return numbers.size() >= expected;
    }

    /** The keys to look for next; none when all are found. */
    Set<String> wanted() {
        final Set<String> keys = new LinkedHashSet<String>();
        if (!complete()) {
            range = looked == 0 ? FIRST_RANGE : looked;
            for (int i = looked; i < looked + range; i++) {
                keys.add(key(i));
            }
        }
        return keys;
    }

    void found(final Map<String, byte[]> values, final int ranks) {
        expected = ranks;
        for (int i = looked; i < looked + range; i++) {
            if (values.containsKey(key(i))) {
                numbers.add(i);
            }
        }
        looked += range;
        range = 0;
    }

    List<Integer> numbers() {
        return numbers;
    }

    /** Numbers are given in order and never twice: a gap is a rank that has left. {@code Reply.departed} has the last ones. */
    boolean ranksHaveLeft() {
        return !numbers.isEmpty() && numbers.get(numbers.size() - 1) + 1 > numbers.size();
    }
}
