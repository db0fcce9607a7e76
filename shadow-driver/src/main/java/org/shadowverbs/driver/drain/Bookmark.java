// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import java.lang.foreign.MemorySegment;
import org.shadowverbs.bindings.abi.sv_bookmark;

/** Where one end of a connection stands: {@code struct sv_bookmark}, field for field. Immutable. */
public final class Bookmark {
    public static final int NO_MARKER = 0;
    public static final int MARKER_POSTED = 1;
    static final int MARKER_COMPLETED = 2;
    public static final int MARKER_FAILED = 3;

    final long posted;
    public final long retired;
    final long consumers;
    final long received;
    final long receives;
    final int sendError;
    final int recvError;
    final int marker;
    final int landings;
    /** Those of the receives whose error completion is kept. */
    final long flushed;
    /** Receives come from a shared receive queue: {@link Pool} has their number. */
    final boolean shared;
    /** Such a queue pair is in error, and all completions of its receives have been seen. */
    final boolean lastReceive;

    public Bookmark(final long posted, final long retired, final long consumers, final long received, final long receives,
            final int sendError, final int recvError, final int marker, final int landings, final boolean shared,
            final boolean lastReceive, final long flushed) {
        this.posted = posted;
        this.retired = retired;
        this.consumers = consumers;
        this.received = received;
        this.receives = receives;
        this.sendError = sendError;
        this.recvError = recvError;
        this.marker = marker;
        this.landings = landings;
        this.shared = shared;
        this.lastReceive = lastReceive;
        this.flushed = flushed;
    }

    static Bookmark of(final MemorySegment b) {
        return new Bookmark(sv_bookmark.posted(b), sv_bookmark.retired(b), sv_bookmark.consumers(b),
                sv_bookmark.received(b), sv_bookmark.receives(b), sv_bookmark.send_error(b),
                sv_bookmark.recv_error(b), sv_bookmark.marker(b), sv_bookmark.landings(b), sv_bookmark.shared(b) != 0,
                sv_bookmark.last_receive(b) != 0, sv_bookmark.flushed(b));
    }

    boolean inError() {
        return sendError != 0 || recvError != 0;
    }
}
