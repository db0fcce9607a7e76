// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

import java.lang.foreign.MemorySegment;

/** Structs of the verbs by address. */
@SuppressWarnings("restricted")
public final class TcpStructs {
    private TcpStructs() {
    }

    public static MemorySegment at(final long address, final long size) {
        return MemorySegment.ofAddress(address).reinterpret(size);
    }
}
