// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

import org.shadowverbs.ib2tcp.wire.Frame;

/**
 * What the first frame of an incoming message said of it. The checks that are made once for a message count for the frames
 * behind it only as long as those say the same: else a peer could begin with what it may do and go on with what it may not.
 */
public final class Message {
    private int opcode;
    private long address;
    /** And the shared receive queue of XRC. */
    private long key;
    private long length;

    public void begin(final long header) {
        opcode = Frame.opcode(header);
        address = Frame.address(header);
        key = Frame.keyAndQueue(header);
        length = Frame.length(header);
    }

    public boolean continuedBy(final long header) {
        return Frame.opcode(header) == opcode && Frame.length(header) == length && Frame.address(header) == address
                && Frame.keyAndQueue(header) == key;
    }
}
