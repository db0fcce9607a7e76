// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

import org.shadowverbs.ib2tcp.system.Limits;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.system.Vectors;
import org.shadowverbs.ib2tcp.wire.Frame;

/**
 * Frames on their way into one send: headers and what is copied, one behind the other, and payloads where they lie in the
 * application's memory.
 */
public final class Batch {
    /** Whose requests may end with a frame of the batch. */
    public interface Owner {
        /** The request of that ring index has been written, or is lost. */
        void written(int index);
    }

    private static final int HEADERS = 64;
    private static final int ENTRIES = 512;
    private static final long ENOUGH = 512 << 10;
    /** Bytes of a request that are copied, which costs less than having the kernel collect them. */
    static final int TINY = 256;
    /** The same, of memory that the application may change. */
    private static final int SMALL = 16 << 10;
    private static final int STAGING = HEADERS * Frame.SIZE + (64 << 10);
    /** The longest SGE list, and a header. */
    private static final int LARGEST_FRAME = Limits.MAX_SGE + 1;

    private final Posix posix;
    private final Vectors vectors;
    /** Headers, and payloads that are copied. */
    private final long staging;
    private int used;
    private int headers;
    private long copy;
    /** Who is told when all is written, and of which of its requests. */
    private final Owner[] told = new Owner[HEADERS];
    private final int[] toldOf = new int[HEADERS];
    private int tells;

    Batch(final Posix posix) {
        this.posix = posix;
        vectors = new Vectors(posix, ENTRIES);
        staging = posix.allocate(STAGING);
    }

    void free() {
        clear();
        vectors.free(posix);
        posix.free(staging);
    }

    boolean room() {
        return headers < HEADERS && used <= STAGING - Frame.SIZE - SMALL && vectors.room() >= LARGEST_FRAME && vectors.bytes() < ENOUGH;
    }

    /** A new header, to be filled; payload is added after it. */
    public long header() {
        headers++;
        return append(Frame.SIZE);
    }

    /** Where a payload of that many bytes is copied to: at most {@link #TINY}, or inline data. */
    long append(final int bytes) {
        final long at = staging + used;
        used += bytes;
        vectors.extend(at, bytes);
        return at;
    }

    /**
     * Adds memory that the application may change meanwhile. A socket that is full ends a write in the midst of a word, the
     * rest of which would be sent when it may have changed: of a small payload each aligned word of 8 bytes is read at once.
     */
    public void addShared(final long address, final int bytes) {
        if (bytes == 0 || bytes > SMALL || !posix.mapped(address, bytes)) {
            vectors.add(address, bytes);
            return;
        }
        Memory.copyWords(address, append(bytes), bytes, address);
    }

    public boolean isEmpty() {
        return vectors.bytes() == 0;
    }

    public Vectors vectors() {
        return vectors;
    }

    /** A request of that ring index ends with the frame that was just added. */
    public void tell(final Owner requester, final int index) {
        told[tells] = requester;
        toldOf[tells++] = index;
    }

    public boolean tells(final Owner requester) {
        for (int i = 0; i < tells; i++) {
            if (told[i] == requester) {
                return true;
            }
        }
        return false;
    }

    /** All is written, or never will be. */
    public void clear() {
        vectors.clear();
        used = 0;
        headers = 0;
        if (copy != 0) {
            posix.free(copy);
            copy = 0;
        }
        final int n = tells;
        tells = 0;
        for (int i = 0; i < n; i++) {
            told[i].written(toldOf[i]);
        }
    }

    /** What is here of its requests needs its memory no more, after {@link #detach}. */
    public void dismiss(final Owner requester) {
        int kept = 0;
        for (int i = 0; i < tells; i++) {
            if (told[i] == requester) {
                requester.written(toldOf[i]);
            } else {
                told[kept] = told[i];
                toldOf[kept++] = toldOf[i];
            }
        }
        tells = kept;
    }

    /** Whether it has payload that lies there. */
    boolean holds(final long address, final long bytes) {
        for (int i = 0; i < vectors.count(); i++) {
            if (vectors.address(i) - address < bytes && address - vectors.address(i) < vectors.length(i)) {
                return true;
            }
        }
        return false;
    }

    /**
     * A queue pair, or a registration, is about to end whose payload may be here: its owner may change the memory from then on, yet the frame
     * that has been begun must be ended, and with the data that it was begun with.
     */
    void detach() {
        if (vectors.bytes() == 0 || copy != 0) {
            return;
        }
        final long bytes = vectors.bytes();
        copy = posix.allocate(bytes);
        long to = copy;
        for (int i = 0; i < vectors.count(); i++) {
            final long length = vectors.length(i);
            if (posix.mapped(vectors.address(i), length)) {
                Memory.copy(vectors.address(i), to, length);
            }
            to += length;
        }
        vectors.clear();
        vectors.add(copy, bytes);
        headers = HEADERS; // nothing is added until it is written
    }
}
