// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

/** Lids that the job gives its own ports, where no subnet manager does: unique in the job, because rank numbers are. */
public final class Lids {
    /** The choices that a rank has, should others be carried over. */
    public static final int CHOICES = 8;
    /** Above those that a subnet manager has given to the ports of a cluster, which a restarted job has carried over. */
    private static final int FIRST = 0x4000;
    /** Up to the last lid that is no multicast group's. */
    private static final int COUNT = 0x8000;
    private static final int STEP = COUNT / CHOICES;

    private Lids() {
    }

    /** @param choice from 0, the usual one, to {@link #CHOICES} - 1 */
    public static int of(final int rank, final int choice) {
        return FIRST + (rank + choice * STEP) % COUNT;
    }
}
