// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

/** An array of struct iovec: what readv fills and writev sends, taken off from the front as it goes. */
final class Vectors {
    static final int ENTRY = 16;

    private final long base;
    private final int capacity;
    private int first;
    private int count;
    private long bytes;

    Vectors(final Posix posix, final int capacity) {
        this.base = posix.allocate((long) capacity * ENTRY);
        this.capacity = capacity;
    }

    void free(final Posix posix) {
        posix.free(base);
    }

    void clear() {
        first = 0;
        count = 0;
        bytes = 0;
    }

    void add(final long address, final long length) {
        if (length == 0) {
            return;
        }
        final long at = base + (long) count++ * ENTRY;
        Memory.i64(at, address);
        Memory.i64(at + 8, length);
        bytes += length;
    }

    int room() {
        return capacity - count;
    }

    int count() {
        return count - first;
    }

    long bytes() {
        return bytes;
    }

    /** Of the first entry that is left. */
    long start() {
        return base + (long) first * ENTRY;
    }

    long address(final int n) {
        return Memory.i64(start() + (long) n * ENTRY);
    }

    long length(final int n) {
        return Memory.i64(start() + (long) n * ENTRY + 8);
    }

    /** That many bytes are done. */
    void advance(final long done) {
        long left = done;
        bytes -= done;
        while (left > 0) {
            final long at = start();
            final long length = Memory.i64(at + 8);
            if (left < length) {
                Memory.i64(at, Memory.i64(at) + left);
                Memory.i64(at + 8, length - left);
                return;
            }
            left -= length;
            first++;
        }
    }

    /** Copies what lies at an address into the first bytes that are left. */
    void fill(final long from, final long length) {
        long at = from;
        long left = length;
        while (left > 0) {
            final long part = Math.min(left, length(0));
            Memory.copy(at, address(0), part);
            advance(part);
            at += part;
            left -= part;
        }
    }

    /** Removes the last bytes again: an entry of that length that was added for one call. */
    void dropLast(final long length) {
        count--;
        bytes -= length;
    }
}
