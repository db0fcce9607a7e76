// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

/** Where a rank is; the order is that of a checkpoint. */
public enum MemberState {
    /** The application runs with open gates. */
    RUNNING,
    /** In the exchanges before all are paired: the connections are as the application left them. */
    IN_CHECKPOINT,
    /** All are paired (Phase.pairs): the drain may have acted on the connections, and real objects may be gone. */
    CLOSED,
    /** The link is closed and the rank waits for its verdict. */
    DETACHED,
    /** On the way back, until it says done. */
    REATTACHING;

    private static final MemberState[] VALUES = values();

    public static MemberState of(final byte number) throws ProtocolException {
        if (number < 0 || number >= VALUES.length) {
            throw new ProtocolException("no such member state: " + number);
        }
        return VALUES[number];
    }
}
