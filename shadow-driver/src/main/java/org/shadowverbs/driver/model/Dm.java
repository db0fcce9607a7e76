// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.shadowverbs.bindings.verbs.ibv_alloc_dm_attr;
import org.shadowverbs.driver.backend.Backend;

/** A piece of device memory. Its contents are saved and put back by the native side. */
public final class Dm extends Resource {
    final Context context;
    public final long length;
    final int alignment;

    /** @param alignment log2 of what the application asked for */
    public Dm(final long virtual, final Context context, final long length, final int alignment) {
        super(virtual, 0);
        this.context = context;
        this.length = length;
        this.alignment = alignment;
    }

    /** Whole words: devices copy no others. */
    public void createReal(final Backend backend) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_alloc_dm_attr.allocate(arena);
            ibv_alloc_dm_attr.length(attr, length + 3 & ~3L);
            ibv_alloc_dm_attr.log_align_req(attr, alignment);
            real = backend.allocDm(context.real, attr);
        }
    }
}
