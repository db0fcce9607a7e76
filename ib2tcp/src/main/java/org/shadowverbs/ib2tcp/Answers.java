// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

/**
 * The reads and atomics of one queue pair that the peer has asked for, as many as max_dest_rd_atomic. Results of atomics
 * are kept until as many later ones have been executed: an atomic that is asked for again is answered, not executed.
 */
final class Answers {
    private final int capacity;
    private final int[] sequence;
    private final boolean[] atomic;
    /** Where a read's data is; the result of an atomic. */
    private final long[] value;
    private final long[] length;
    private int head;
    private int count;
    private long offset;
    private final int[] keptSequence;
    private final long[] keptResult;
    private int kept;

    Answers(final int capacity) {
        this.capacity = capacity;
        sequence = new int[capacity];
        atomic = new boolean[capacity];
        value = new long[capacity];
        length = new long[capacity];
        keptSequence = new int[capacity];
        keptResult = new long[capacity];
    }

    boolean full() {
        return count == capacity;
    }

    void add(final int number, final boolean isAtomic, final long what, final long bytes) {
        enqueue(number, isAtomic, what, bytes);
        if (isAtomic) {
            keptSequence[kept % capacity] = number;
            keptResult[kept++ % capacity] = what;
            if (kept == 2 * capacity) {
                kept = capacity;
            }
        }
    }

    private void enqueue(final int number, final boolean isAtomic, final long what, final long bytes) {
        final int at = (head + count++) % capacity;
        sequence[at] = number;
        atomic[at] = isAtomic;
        value[at] = what;
        length[at] = bytes;
    }

    /** Answers an atomic once more. @return false: it is not known any more */
    boolean again(final int number) {
        for (int i = 0; i < Math.min(kept, capacity) && !full(); i++) {
            if (keptSequence[i] == number) {
                enqueue(number, true, keptResult[i], 8);
                return true;
            }
        }
        return false;
    }

    boolean unsent() {
        return count > 0;
    }

    /** The link is gone; the peer will ask again. */
    void forgetUnsent() {
        head = 0;
        count = 0;
        offset = 0;
    }

    /** The next frame of the oldest. */
    void send(final Batch batch, final QueuePair qp, final int attempt) {
        final long header = batch.header();
        Frame.start(header, atomic[head] ? Frame.ATOMIC_RESPONSE : Frame.READ_RESPONSE, 0, attempt, qp.peerNumber,
                qp.number, sequence[head]);
        Frame.length(header, length[head]);
        if (atomic[head]) {
            Frame.address(header, value[head]);
        } else {
            final int part = (int) Math.min(length[head] - offset, Frame.MAX_PAYLOAD);
            Frame.payload(header, part);
            Frame.offset(header, offset);
            batch.addShared(value[head] + offset, part);
            offset += part;
            if (offset < length[head]) {
                return;
            }
        }
        offset = 0;
        head = (head + 1) % capacity;
        count--;
    }
}
