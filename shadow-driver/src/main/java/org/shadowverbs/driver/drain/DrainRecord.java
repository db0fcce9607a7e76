// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import org.shadowverbs.ids.RecordReader;
import org.shadowverbs.ids.RecordWriter;

/** What one end of a connection tells the other in a round of the drain. Immutable. */
final class DrainRecord {
    private static final int DEAD = 1;
    private static final int WITHDRAWN = 2;
    private static final int WANTS_MARKER = 4;
    private static final int GRANTED = 8;
    private static final int UNDECIDED = 16;
    private static final int SETTLED = 32;
    private static final int HELD = 64;

    /** Counts of {@link Bookmark}; of a shared receive queue the last two are those of all its users. */
    final long received;
    final long receives;
    final int landings;
    /** The queue pair is in the error state for good: it answers nothing, and the application knows or will. */
    final boolean dead;
    /** The queue pair failed through the checkpoint alone: it answers nothing until it is made anew. */
    final boolean withdrawn;
    /** The queue pair failed, but not because the peer did not answer; soon it is known whether the checkpoint did it. */
    final boolean undecided;
    /** "Allow remote writes, I need to post a marker." */
    final boolean wantsMarker;
    /** "Remote writes are allowed." */
    final boolean granted;
    /** Nothing that was posted here can still take effect without being known to. */
    final boolean settled;
    /** In SQD: nothing that was posted here can still take effect, but perhaps what did is not known. */
    final boolean held;
    /** "Post a landing for my consumer of that ordinal, of that length"; 0: none is needed. */
    final long landingOrdinal;
    final long landingLength;
    final PoolRecord pool;

    DrainRecord(final long received, final long receives, final int landings, final boolean dead,
            final boolean withdrawn, final boolean undecided, final boolean wantsMarker, final boolean granted,
            final boolean settled, final boolean held, final long landingOrdinal, final long landingLength, final PoolRecord pool) {
        this.received = received;
        this.receives = receives;
        this.landings = landings;
        this.dead = dead;
        this.withdrawn = withdrawn;
        this.undecided = undecided;
        this.wantsMarker = wantsMarker;
        this.granted = granted;
        this.settled = settled;
        this.held = held;
        this.landingOrdinal = landingOrdinal;
        this.landingLength = landingLength;
        this.pool = pool;
    }

    long capacity() {
        return received + receives + landings;
    }

    void write(final RecordWriter out) {
        out.i8((dead ? DEAD : 0) | (withdrawn ? WITHDRAWN : 0) | (wantsMarker ? WANTS_MARKER : 0)
                | (granted ? GRANTED : 0) | (undecided ? UNDECIDED : 0)
                | (settled ? SETTLED : 0) | (held ? HELD : 0))
                .i64(received).i64(receives).i32(landings).i64(landingOrdinal).i64(landingLength);
        pool.write(out);
    }

    static DrainRecord read(final RecordReader in) {
        final int flags = in.i8();
        final long received = in.i64();
        final long receives = in.i64();
        final int landings = in.i32();
        final long ordinal = in.i64();
        final long length = in.i64();
        return new DrainRecord(received, receives, landings, (flags & DEAD) != 0,
                (flags & WITHDRAWN) != 0, (flags & UNDECIDED) != 0, (flags & WANTS_MARKER) != 0,
                (flags & GRANTED) != 0, (flags & SETTLED) != 0, (flags & HELD) != 0, ordinal, length, PoolRecord.read(in));
    }
}
