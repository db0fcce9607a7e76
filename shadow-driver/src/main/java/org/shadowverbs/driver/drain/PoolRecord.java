// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import org.shadowverbs.ids.RecordReader;
import org.shadowverbs.ids.RecordWriter;

/**
 * The part of a {@link DrainRecord} that concerns shared receive queues: of the one that this end receives from, and of
 * the one that it sends to. Immutable.
 */
final class PoolRecord {
    /** Neither end has one. */
    static final PoolRecord NONE = new PoolRecord(false, 0, false, new int[0], new long[0], 0, 0, 0, 0, 0);

    private static final int SHARED = 1;
    private static final int SETTLED = 2;

    /** This end receives from a shared receive queue: {@code receives} and {@code landings} are those of all its users. */
    final boolean shared;
    /** How many landings were posted to it in this drain. */
    final long landings;
    /** All who send to it are settled, and know of the last landing. */
    final boolean settled;
    /** For XRC: the (virtual) numbers of the domain's queues, and the receives and landings left in each. */
    private final int[] numbers;
    private final long[] free;

    /** How many landings this end knows to have been posted to the queue that it sends to. */
    final long landingsKnown;
    /** Consumers posted; the next one that the peer has not counted: its ordinal (0: there is none), length, queue. */
    final long consumers;
    final long nextOrdinal;
    final long nextLength;
    final int nextSrq;

    PoolRecord(final boolean shared, final long landings, final boolean settled, final int[] numbers,
            final long[] free, final long landingsKnown, final long consumers, final long nextOrdinal,
            final long nextLength, final int nextSrq) {
        this.shared = shared;
        this.landings = landings;
        this.settled = settled;
        this.numbers = numbers;
        this.free = free;
        this.landingsKnown = landingsKnown;
        this.consumers = consumers;
        this.nextOrdinal = nextOrdinal;
        this.nextLength = nextLength;
        this.nextSrq = nextSrq;
    }

    /** Messages name their queue. */
    boolean numbered() {
        return numbers.length > 0;
    }

    /** What is left in each queue, for counting down. */
    long[] free() {
        return free.clone();
    }

    /** Where the queue of that number is in {@link #free}; -1: there is none. */
    int indexOf(final int number) {
        for (int i = 0; i < numbers.length; i++) {
            if (numbers[i] == number) {
                return i;
            }
        }
        return -1;
    }

    /** Whether it says what comes after that many messages: a message, or none. */
    boolean saysWhatFollows(final long received) {
        return nextOrdinal == received + 1 || nextOrdinal == 0 && consumers == received;
    }

    void write(final RecordWriter out) {
        out.i8((shared ? SHARED : 0) | (settled ? SETTLED : 0)).i64(landings).i32(numbers.length);
        for (int i = 0; i < numbers.length; i++) {
            out.i32(numbers[i]).i64(free[i]);
        }
        out.i64(landingsKnown).i64(consumers).i64(nextOrdinal).i64(nextLength).i32(nextSrq);
    }

    static PoolRecord read(final RecordReader in) {
        final int flags = in.i8();
        final long landings = in.i64();
        final int[] numbers = new int[in.count(12)];
        final long[] free = new long[numbers.length];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = in.i32();
            free[i] = in.i64();
        }
        final long landingsKnown = in.i64();
        final long consumers = in.i64();
        final long nextOrdinal = in.i64();
        final long nextLength = in.i64();
        return new PoolRecord((flags & SHARED) != 0, landings, (flags & SETTLED) != 0, numbers, free, landingsKnown,
                consumers, nextOrdinal, nextLength, in.i32());
    }
}
