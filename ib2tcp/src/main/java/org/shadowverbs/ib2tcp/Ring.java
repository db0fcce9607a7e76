// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

/** The engine's end of a work queue: struct sv_tcp_ring and its two indices. */
final class Ring {
    private final long ring;
    private final long tailAt;
    private final long headAt;
    private int head;

    Ring(final long ring, final long tailAt, final long headAt) {
        this.ring = ring;
        this.tailAt = tailAt;
        this.headAt = headAt;
    }

    /** The oldest request that is not completed. */
    int head() {
        return head;
    }

    /** One past the last that was posted. */
    int tail() {
        return Memory.acquire(tailAt);
    }

    boolean isEmpty() {
        return head == tail();
    }

    long entry(final int index) {
        return Memory.i64(ring + Layouts.RING_ENTRIES) + (long) (index & Memory.i32(ring + Layouts.RING_MASK))
                * Memory.i32(ring + Layouts.RING_STRIDE);
    }

    long first() {
        return entry(head);
    }

    /** The oldest is completed; its place is free. */
    void remove() {
        Memory.release(headAt, ++head);
    }

    void clear() {
        head = tail();
        Memory.release(headAt, head);
    }
}
