// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.nativelib.Structs;
import org.shadowverbs.ids.Gid;

/** A multicast group that a queue pair listens to. Its address means itself everywhere. Immutable. */
public final class MulticastGroup {
    private static final int GID_SIZE = 16;

    public final Gid gid;
    final int lid;

    public MulticastGroup(final Gid gid, final int lid) {
        this.gid = gid;
        this.lid = lid;
    }

    @Override
    public boolean equals(final Object other) {
        return other instanceof MulticastGroup && ((MulticastGroup) other).gid.equals(gid)
                && ((MulticastGroup) other).lid == lid;
    }

    @Override
    public int hashCode() {
        return gid.hashCode() * 31 + lid;
    }

    /** @return 0 or an errno value */
    public int attach(final Backend backend, final long realQp) {
        try (Arena arena = Arena.ofConfined()) {
            return backend.attachMcast(realQp, segment(arena), lid);
        }
    }

    public int detach(final Backend backend, final long realQp) {
        try (Arena arena = Arena.ofConfined()) {
            return backend.detachMcast(realQp, segment(arena), lid);
        }
    }

    private MemorySegment segment(final Arena arena) {
        final MemorySegment segment = arena.allocate(GID_SIZE, 8);
        Structs.gid(segment, gid);
        return segment;
    }
}
