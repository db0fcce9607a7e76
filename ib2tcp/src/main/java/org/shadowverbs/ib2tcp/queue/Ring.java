// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.queue;

import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;

/** The engine's end of a work queue: struct sv_tcp_ring and its two indices. */
public final class Ring {
    private final long ring;
    private final long tailAt;
    private final long headAt;
    private int head;

    public Ring(final long ring, final long tailAt, final long headAt) {
        this.ring = ring;
        this.tailAt = tailAt;
        this.headAt = headAt;
    }

    /** The oldest request that is not completed. */
    public int head() {
        return head;
    }

    /** One past the last that was posted. */
    public int tail() {
        return Memory.acquire(tailAt);
    }

    public boolean isEmpty() {
        return head == tail();
    }

    public long entry(final int index) {
        return Memory.i64(ring + Layouts.RING_ENTRIES) + (long) (index & Memory.i32(ring + Layouts.RING_MASK))
                * Memory.i32(ring + Layouts.RING_STRIDE);
    }

    public long first() {
        return entry(head);
    }

    /** The oldest is completed; its place is free. */
    public void remove() {
        Memory.release(headAt, ++head);
    }

    public void clear() {
        head = tail();
        Memory.release(headAt, head);
    }
}
