// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

/** How far the drain of an epoch came before the rank has begun its way back. */
public enum Drained {
    /** Broken off: requests may be under way. */
    NO,
    /** Broken off, and finished by this rank with each of its peers. */
    PAIRWISE,
    /** All ranks agreed: nothing is under way anywhere. */
    ALL;

    private static final Drained[] VALUES = values();

    public byte[] encode() {
        return new byte[] {(byte) ordinal()};
    }

    public static Drained decode(final byte[] record) {
        return VALUES[record[0]];
    }
}
