// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import org.shadowverbs.ids.RecordReader;
import org.shadowverbs.ids.RecordWriter;

/**
 * The part of a {@link DrainRecord} that concerns shared receive queues: of the one that this end receives from, and of
 * the one that it sends to. Immutable.
 */
final class PoolRecord {
    /** Neither end has one. */
    static final PoolRecord NONE = new PoolRecord(false, 0, false, 0, 0, 0, 0);

    private static final int SHARED = 1;
    private static final int SETTLED = 2;

    /** This end receives from a shared receive queue: {@code receives} and {@code landings} are those of all its users. */
    final boolean shared;
    /** How many landings were posted to it in this drain. */
    final long landings;
    /** All who send to it are settled, and know of the last landing. */
    final boolean settled;

    /** How many landings this end knows to have been posted to the queue that it sends to. */
    final long landingsKnown;
    /** Consumers posted; the next one that the peer has not counted: its ordinal (0: there is none) and length. */
    final long consumers;
    final long nextOrdinal;
    final long nextLength;

    PoolRecord(final boolean shared, final long landings, final boolean settled, final long landingsKnown,
            final long consumers, final long nextOrdinal, final long nextLength) {
        this.shared = shared;
        this.landings = landings;
        this.settled = settled;
        this.landingsKnown = landingsKnown;
        this.consumers = consumers;
        this.nextOrdinal = nextOrdinal;
        this.nextLength = nextLength;
    }

    /** Whether it says what comes after that many messages: a message, or none. */
    boolean saysWhatFollows(final long received) {
        return nextOrdinal == received + 1 || nextOrdinal == 0 && consumers == received;
    }

    void write(final RecordWriter out) {
        out.i8((shared ? SHARED : 0) | (settled ? SETTLED : 0)).i64(landings).i64(landingsKnown).i64(consumers)
                .i64(nextOrdinal).i64(nextLength);
    }

    static PoolRecord read(final RecordReader in) {
        final int flags = in.i8();
        final long landings = in.i64();
        final long landingsKnown = in.i64();
        final long consumers = in.i64();
        final long nextOrdinal = in.i64();
        return new PoolRecord((flags & SHARED) != 0, landings, (flags & SETTLED) != 0, landingsKnown, consumers,
                nextOrdinal, in.i64());
    }
}
