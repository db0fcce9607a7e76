// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import java.util.Arrays;

/**
 * Virtual ids that do not translate by the mask, with their real ones. Immutable. Ids are 32-bit values; their sign has
 * no meaning.
 */
public final class ExceptionSet {
    public static final ExceptionSet EMPTY = new ExceptionSet(new long[0]);

    /** virtual << 32 | real, ascending as signed numbers. */
    private final long[] entries;

    private ExceptionSet(final long[] sorted) {
        entries = sorted;
    }

    /** @throws IllegalArgumentException when a virtual id occurs twice with different real ones */
    public static ExceptionSet of(final int[] virtuals, final int[] reals, final int count) {
        return count == 0 ? EMPTY : new ExceptionSet(sortedOnce(entries(virtuals, reals, count)));
    }

    /**
     * Of ids that a device may give to several objects, as Soft-RoCE gives rkey 0 to all regions that no peer may access. Such an
     * id names none of them, and stands for one that is nobody's.
     *
     * @param nobodys what a virtual id that occurs twice with different real ones stands for
     */
    public static ExceptionSet ofShared(final int[] virtuals, final int[] reals, final int count, final int nobodys) {
        if (count == 0) {
            return EMPTY;
        }
        final long[] sorted = entries(virtuals, reals, count);
        Arrays.sort(sorted);
        int n = 0;
        for (final long entry : sorted) {
            if (n == 0 || entry >> 32 != sorted[n - 1] >> 32) {
                sorted[n++] = entry;
            } else if (entry != sorted[n - 1]) {
                sorted[n - 1] = entry >> 32 << 32 | nobodys & 0xffff_ffffL;
            }
        }
        return new ExceptionSet(Arrays.copyOf(sorted, n));
    }

    private static long[] entries(final int[] virtuals, final int[] reals, final int count) {
        final long[] entries = new long[count];
        for (int i = 0; i < count; i++) {
            entries[i] = (long) virtuals[i] << 32 | reals[i] & 0xffff_ffffL;
        }
        return entries;
    }

    /** The entries of both; where they differ about a virtual id, this set's. */
    public ExceptionSet union(final ExceptionSet other) {
        if (other.entries.length == 0 || other == this) {
            return this;
        }
        if (entries.length == 0) {
            return other;
        }
        final long[] both = Arrays.copyOf(entries, entries.length + other.entries.length);
        int n = entries.length;
        for (final long entry : other.entries) {
            if (!containsVirtual((int) (entry >> 32))) {
                both[n++] = entry;
            }
        }
        return n == entries.length ? this : new ExceptionSet(sortedOnce(Arrays.copyOf(both, n)));
    }

    private static long[] sortedOnce(final long[] entries) {
        Arrays.sort(entries);
        int n = 0;
        for (int i = 0; i < entries.length; i++) {
            if (n > 0 && entries[i] == entries[n - 1]) {
                continue;
            }
            if (n > 0 && entries[i] >> 32 == entries[n - 1] >> 32) {
                throw new IllegalArgumentException("id 0x" + Integer.toHexString((int) (entries[i] >> 32))
                        + " stands for two objects");
            }
            entries[n++] = entries[i];
        }
        return n == entries.length ? entries : Arrays.copyOf(entries, n);
    }

    public int size() {
        return entries.length;
    }

    public int virtualAt(final int index) {
        return (int) (entries[index] >> 32);
    }

    public int realAt(final int index) {
        return (int) entries[index];
    }

    /** Where the virtual id is, or a negative number. */
    public int indexOf(final int virtual) {
        int low = 0;
        int high = entries.length - 1;
        while (low <= high) {
            final int middle = (low + high) >>> 1;
            final int at = virtualAt(middle);
            if (at < virtual) {
                low = middle + 1;
            } else if (at > virtual) {
                high = middle - 1;
            } else {
                return middle;
            }
        }
        return -1;
    }

    public boolean containsVirtual(final int virtual) {
        return indexOf(virtual) >= 0;
    }

    /** The real id behind a virtual one: its entry, else XOR the mask. */
    public int realOf(final int virtual, final int mask) {
        final int index = indexOf(virtual);
        return index >= 0 ? realAt(index) : virtual ^ mask;
    }

    public int[] virtuals() {
        final int[] all = new int[entries.length];
        for (int i = 0; i < all.length; i++) {
            all[i] = virtualAt(i);
        }
        return all;
    }

    /** In the order of {@link #virtuals}. */
    public int[] reals() {
        final int[] all = new int[entries.length];
        for (int i = 0; i < all.length; i++) {
            all[i] = realAt(i);
        }
        return all;
    }

    void write(final RecordWriter out) {
        out.i32(entries.length);
        for (int i = 0; i < entries.length; i++) {
            out.i64(entries[i]);
        }
    }

    static ExceptionSet read(final RecordReader in) {
        final long[] entries = new long[in.count(8)];
        for (int i = 0; i < entries.length; i++) {
            entries[i] = in.i64();
        }
        return entries.length == 0 ? EMPTY : new ExceptionSet(sortedOnce(entries));
    }
}
