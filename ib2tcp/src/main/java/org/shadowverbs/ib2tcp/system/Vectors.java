// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

/** An array of struct iovec: what readv fills and sendmsg sends, taken off from the front as it goes. */
public final class Vectors {
    static final int ENTRY = 16;

    private final long base;
    private final int capacity;
    private int first;
    private int count;
    private long bytes;

    public Vectors(final Posix posix, final int capacity) {
        this.base = posix.allocate((long) capacity * ENTRY);
        this.capacity = capacity;
    }

    public void free(final Posix posix) {
        posix.free(base);
    }

    public void clear() {
        first = 0;
        count = 0;
        bytes = 0;
    }

    public void add(final long address, final long length) {
        if (length == 0) {
            return;
        }
        final long at = base + (long) count++ * ENTRY;
        Memory.i64(at, address);
        Memory.i64(at + 8, length);
        bytes += length;
    }

    /** Adds memory, to the last entry if it lies behind that. */
    public void extend(final long address, final long length) {
        final long last = base + (count - 1L) * ENTRY;
        if (first < count && Memory.i64(last) + Memory.i64(last + 8) == address) {
            Memory.i64(last + 8, Memory.i64(last + 8) + length);
            bytes += length;
        } else {
            add(address, length);
        }
    }

    public int room() {
        return capacity - count;
    }

    public int count() {
        return count - first;
    }

    public long bytes() {
        return bytes;
    }

    /** Address of the first entry that is left. */
    public long start() {
        return base + (long) first * ENTRY;
    }

    public long address(final int n) {
        return Memory.i64(start() + (long) n * ENTRY);
    }

    public long length(final int n) {
        return Memory.i64(start() + (long) n * ENTRY + 8);
    }

    /** That many bytes are done. */
    public void advance(final long done) {
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
    public void fill(final long from, final long length) {
        long at = from;
        long left = length;
        while (left > 0) {
            final long part = Math.min(left, length(0));
            Memory.copyWords(at, address(0), part, address(0));
            advance(part);
            at += part;
            left -= part;
        }
    }

    /** So many of the next bytes, that many at most, that they end with an aligned word of 8 bytes, or with an entry. */
    public long wholeWords(final long most) {
        long left = most;
        int n = 0;
        while (left > length(n)) {
            left -= length(n++);
        }
        return left == length(n) ? most : most - Math.min(left, address(n) + left & 7);
    }

    /** Length of the last entry. */
    public long lastLength() {
        return Memory.i64(base + (count - 1L) * ENTRY + 8);
    }

    /**
     * Takes the last bytes away for a while, that many or up to 7 more, so that what is left ends with an aligned word. The
     * last entry has more.
     *
     * @return how many, for {@link #giveBack}
     */
    public int holdBack(final int least) {
        final long at = base + (count - 1L) * ENTRY;
        final long length = Memory.i64(at + 8);
        final int held = least + (int) (Memory.i64(at) + length - least & 7);
        Memory.i64(at + 8, length - held);
        bytes -= held;
        return held;
    }

    /** What was held back is to be filled again. */
    public void giveBack(final int held) {
        final long at = base + (count - 1L) * ENTRY;
        if (first == count) {
            first--;
            Memory.i64(at, Memory.i64(at) + Memory.i64(at + 8));
            Memory.i64(at + 8, held);
        } else {
            Memory.i64(at + 8, Memory.i64(at + 8) + held);
        }
        bytes += held;
    }

    /** Removes the last bytes again: an entry of that length that was added for one call. */
    public void dropLast(final long length) {
        count--;
        bytes -= length;
    }
}
