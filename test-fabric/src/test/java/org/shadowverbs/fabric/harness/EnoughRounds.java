// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

/**
 * For programs that are told how many rounds to make, and not how long. How many they make until the last checkpoint differs
 * from machine to machine: where they end before it, there is another attempt, with more.
 */
public final class EnoughRounds {
    private static final int MORE = 2;
    private static final int MOST = 100_000_000;

    /** A whole test of programs with so many rounds. */
    @FunctionalInterface
    public interface Attempt {
        /** @return whether there were enough */
        boolean with(int rounds) throws Exception;
    }

    private EnoughRounds() {
    }

    /** Attempts it with so many, and then with more until there are enough. */
    public static void from(final int rounds, final Attempt attempt) throws Exception {
        for (int n = rounds; !attempt.with(n); n *= MORE) {
            if (n > MOST / MORE) {
                throw new AssertionError("the programs end before they are checkpointed, with " + n + " rounds, too");
            }
        }
    }
}
