// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.nativelib;

import java.io.FileInputStream;
import java.io.IOException;

/** Which addresses of this process are mapped, from /proc/self/maps as of the moment it was read. */
public final class ProcessMaps {
    private long[] starts = new long[256];
    private long[] ends = new long[256];
    private int count;

    public static ProcessMaps read() throws IOException {
        try (FileInputStream in = new FileInputStream("/proc/self/maps")) {
            return parse(in.readAllBytes());
        }
    }

    /**
     * Lines "START-END PERMISSIONS ...", ascending; ranges that touch are joined. So are those that overlap: the file is read in
     * parts, and where a mapping has grown between two of them the next part begins with all of it.
     */
    static ProcessMaps parse(final byte[] text) {
        final ProcessMaps maps = new ProcessMaps();
        int i = 0;
        while (i < text.length) {
            long start = 0;
            for (; text[i] != '-'; i++) {
                start = start << 4 | Character.digit(text[i], 16);
            }
            long end = 0;
            for (i++; text[i] != ' '; i++) {
                end = end << 4 | Character.digit(text[i], 16);
            }
            maps.add(start, end);
            while (i < text.length && text[i] != '\n') {
                i++;
            }
            i++;
        }
        return maps;
    }

    private void add(final long from, final long to) {
        long start = from;
        long end = to;
        for (; count > 0 && Long.compareUnsigned(ends[count - 1], start) >= 0; count--) {
            start = Math.min(start, starts[count - 1]);
            end = Math.max(end, ends[count - 1]);
        }
        if (count == starts.length) {
            starts = java.util.Arrays.copyOf(starts, count * 2);
            ends = java.util.Arrays.copyOf(ends, count * 2);
        }
        starts[count] = start;
        ends[count++] = end;
    }

    /** Whether each byte of the range is mapped. */
    public boolean cover(final long address, final long length) {
        int low = 0;
        int high = count - 1;
        while (low <= high) {
            final int middle = (low + high) >>> 1;
            if (Long.compareUnsigned(ends[middle], address) <= 0) {
                low = middle + 1;
            } else if (Long.compareUnsigned(starts[middle], address) > 0) {
                high = middle - 1;
            } else {
                return Long.compareUnsigned(length, ends[middle] - address) <= 0;
            }
        }
        return length == 0;
    }
}
