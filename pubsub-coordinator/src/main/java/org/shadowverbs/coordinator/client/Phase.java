// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

/**
 * The exchanges of a checkpoint, in order. Up to DETACH they lead to the image, from PUBLISHED on back to work. Until all are paired a
 * rank may refuse, and nothing has happened to the application's connections.
 */
public enum Phase {
    ANNOUNCE, CLOSE, PAIRED, DRAIN, DETACH, PUBLISHED, CONNECTED, RECEIVES_POSTED, REPLAYED;

    private static final Phase[] VALUES = values();

    /** Whether this exchange belongs to the reattachment. */
    public boolean reattaches() {
        return ordinal() >= PUBLISHED.ordinal();
    }

    /**
     * Whether all queue pairs of the job are paired by its answer: that of PAIRED, or the first of CLOSE where all agree that theirs are
     * as they were at ANNOUNCE; then PAIRED is left out.
     */
    public boolean pairs(final int round, final boolean unanimous) {
        return this == PAIRED || this == CLOSE && round == 0 && unanimous;
    }

    /**
     * Whether an exchange goes on with the one of the round before: what is wanted comes on top of what was, and the reply has
     * only what is new of all that. Rounds of a drain do, which may have thousands of keys.
     */
    public static boolean continues(final int phase, final int round) {
        return phase == DRAIN.ordinal() && round > 0;
    }

    /** The phase of that number, or null when there is none. */
    public static Phase of(final int ordinal) {
        return ordinal < 0 || ordinal >= VALUES.length ? null : VALUES[ordinal];
    }
}
