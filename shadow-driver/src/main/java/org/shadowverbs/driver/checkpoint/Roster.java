// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import java.util.List;

/** The numbers of the ranks that take part, as an exchange tells them. */
final class Roster {
    private List<Integer> numbers = List.of();

    void are(final List<Integer> now) {
        numbers = now;
    }

    /** In their order. */
    List<Integer> numbers() {
        return numbers;
    }

    /** Numbers are given in order and never twice: a gap is a rank that has left. {@code Reply.departed} has the last ones. */
    boolean ranksHaveLeft() {
        return !numbers.isEmpty() && numbers.get(numbers.size() - 1) + 1 > numbers.size();
    }
}
