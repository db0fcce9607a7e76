// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

/** A pipe of events: a completion channel's, or a context's asynchronous ones. */
public final class Events {
    private static final int SIZE = 16;

    public final int readEnd;
    public final int writeEnd;
    private final Posix posix;
    private final long record;

    public Events(final Posix posix) {
        this.posix = posix;
        final long ends = posix.pipe();
        readEnd = (int) ends;
        writeEnd = (int) (ends >>> 32);
        record = posix.allocate(SIZE);
    }

    /** A pipe holds 4,096 events; a reader that is so far behind loses none that it has not got an equal one of. */
    public void send(final long object, final int type) {
        Memory.i64(record, object);
        Memory.i32(record + 8, type);
        Memory.i32(record + 12, 0);
        posix.write(writeEnd, record, SIZE);
    }

    public void close() {
        posix.close(readEnd);
        posix.close(writeEnd);
        posix.free(record);
    }
}
