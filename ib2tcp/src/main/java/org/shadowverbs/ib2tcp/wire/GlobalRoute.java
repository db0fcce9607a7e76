// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.wire;

import org.shadowverbs.ib2tcp.system.Memory;

/** The global route header in front of a received datagram: struct ibv_grh (IBTA volume 1, 8.3). */
public final class GlobalRoute {
    public static final int SIZE = 40;
    private static final int VERSION_6 = 6 << 28;
    private static final int NEXT_HEADER = 0x1b;
    private static final int HOP_LIMIT = 64;
    /** Base and datagram headers, and the invariant checksum. */
    private static final int HEADERS = 20 + 4;
    private static final int IMMEDIATE = 4;

    private GlobalRoute() {
    }

    public static void write(final long at, final int opcode, final int payload, final long fromPrefix, final long fromId,
            final long toPrefix, final long toId) {
        Memory.net32(at, VERSION_6);
        Memory.u8(at + 4, paylen(opcode, payload) >> 8);
        Memory.u8(at + 5, paylen(opcode, payload));
        Memory.u8(at + 6, NEXT_HEADER);
        Memory.u8(at + 7, HOP_LIMIT);
        Memory.net64(at + 8, fromPrefix);
        Memory.net64(at + 16, fromId);
        Memory.net64(at + 24, toPrefix);
        Memory.net64(at + 32, toId);
    }

    private static int paylen(final int opcode, final int payload) {
        return HEADERS + (opcode == Frame.SEND_IMM ? IMMEDIATE : 0) + (payload + 3 & -4);
    }
}
