// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;

/** An address handle: behind it one real handle for each real port that its address has come to stand for. */
public final class Ah extends Resource {
    public final Pd pd;
    /** A struct ibv_ah_attr as the application gave it: ids are virtual. */
    public final byte[] attr;
    /** Empty while detached. */
    public long[] reals = {};
    /** The native table of queue pair numbers, or 0. */
    public long map;

    public Ah(final long virtual, final Pd pd, final byte[] attr) {
        super(virtual, 0);
        this.pd = pd;
        this.attr = attr;
    }

    /** Index of the GID that it sends from by that port, as the application knows it; -1: none. */
    int sourceIndex(final int port) {
        try (Arena arena = Arena.ofConfined()) {
            return QpAttributes.sourceIndex(ibv_ah_attr.allocate(arena).copyFrom(MemorySegment.ofArray(attr)), port);
        }
    }
}
