// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.reliable;

import org.shadowverbs.ib2tcp.engine.Batch;
import org.shadowverbs.ib2tcp.engine.MemoryRegions;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.wire.Frame;

/**
 * The reads and atomics of one queue pair that the peer has asked for, as many as max_dest_rd_atomic. Results of atomics
 * are kept until as many later ones have been executed: an atomic that is asked for again is answered, not executed.
 */
final class Answers {
    /** One that is to be sent. */
    private static final class Answer {
        private int sequence;
        private boolean atomic;
        /** What a read has asked for, in the terms of the peer; the result of an atomic. */
        private long value;
        private long length;
        private int key;
        private long domain;
    }

    private final int capacity;
    /** Made when they are used first: many programs ask for all that a device allows and have few under way. */
    private final Answer[] answers;
    private int head;
    private int count;
    private long offset;
    /** Where the data of the oldest read is; of {@link #allowed}. */
    private long from;
    /** Made with the first atomic. */
    private int[] keptSequence;
    private long[] keptResult;
    private int kept;

    Answers(final int capacity) {
        this.capacity = capacity;
        answers = new Answer[capacity];
    }

    boolean full() {
        return count == capacity;
    }

    void addAtomic(final int number, final long result) {
        enqueue(number, true, result, 8);
        if (keptSequence == null) {
            keptSequence = new int[capacity];
            keptResult = new long[capacity];
        }
        keptSequence[kept % capacity] = number;
        keptResult[kept++ % capacity] = result;
        if (kept == 2 * capacity) {
            kept = capacity;
        }
    }

    /** @param pd the protection domain that the key is of */
    void addRead(final int number, final long pd, final long header) {
        final Answer answer = enqueue(number, false, Frame.address(header), Frame.length(header));
        answer.key = Frame.rkey(header);
        answer.domain = pd;
    }

    private Answer enqueue(final int number, final boolean isAtomic, final long what, final long bytes) {
        final int at = (head + count++) % capacity;
        if (answers[at] == null) {
            answers[at] = new Answer();
        }
        final Answer answer = answers[at];
        answer.sequence = number;
        answer.atomic = isAtomic;
        answer.value = what;
        answer.length = bytes;
        return answer;
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

    /** Number of the oldest that is not sent. */
    int oldest() {
        return answers[head].sequence;
    }

    /** To be asked before each frame: a key may be withdrawn while a read waits, or in its midst. */
    boolean allowed(final QueuePair qp) {
        final Answer oldest = answers[head];
        if (oldest.atomic || oldest.length == 0) {
            return true;
        }
        from = (qp.access & MemoryRegions.REMOTE_READ) == 0 ? 0 : qp.device.regions.findRemote(qp, oldest.domain, oldest.key,
                oldest.value, oldest.length, MemoryRegions.REMOTE_READ);
        return from != 0;
    }

    /** The next frame of the oldest, which is allowed. */
    void send(final Batch batch, final QueuePair qp, final int attempt) {
        final Answer oldest = answers[head];
        final long header = batch.header();
        Frame.start(header, oldest.atomic ? Frame.ATOMIC_RESPONSE : Frame.READ_RESPONSE, 0, attempt, qp.peerNumber,
                qp.number, oldest.sequence);
        Frame.length(header, oldest.length);
        if (oldest.atomic) {
            Frame.address(header, oldest.value);
        } else {
            final int part = (int) Math.min(oldest.length - offset, Frame.MAX_PAYLOAD);
            Frame.payload(header, part);
            Frame.offset(header, offset);
            batch.addShared(from + offset, part);
            offset += part;
            if (offset < oldest.length) {
                return;
            }
        }
        offset = 0;
        head = (head + 1) % capacity;
        count--;
    }
}
