// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.memory;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Kernels with soft-dirty bits (CONFIG_MEM_SOFT_DIRTY), which count the writes of every process. */
public final class SoftDirty {
    private static final long PRESENT = 1L << 63;
    private static final long SWAPPED = 1L << 62;
    private static final long FILE_OR_SHARED = 1L << 61;
    private static final int ENTRIES = 1 << 16;

    private SoftDirty() {
    }

    /** Begins the count of a process anew; it may run. */
    static void begin(final long pid) throws IOException {
        Files.writeString(Path.of("/proc", Long.toString(pid), "clear_refs"), "4");
    }

    /** The pages of an area; nobody can say which of them were written to without missing a write that comes meanwhile. */
    static List<PageRange> pages(final long pid, final VmArea area) throws IOException {
        final List<PageRange> found = new ArrayList<>();
        try (RandomAccessFile file = new RandomAccessFile("/proc/" + pid + "/pagemap", "r")) {
            final FileChannel pagemap = file.getChannel();
            final ByteBuffer entries = ByteBuffer.allocateDirect(ENTRIES * Long.BYTES).order(ByteOrder.nativeOrder());
            long begin = -1;
            for (long at = area.start(); at < area.end();) {
                entries.clear().limit((int) Math.min(entries.capacity(), (area.end() - at) / PageRange.PAGE * Long.BYTES));
                if (pagemap.read(entries, at / PageRange.PAGE * Long.BYTES) <= 0) {
                    break;
                }
                for (entries.flip(); entries.remaining() >= Long.BYTES; at += PageRange.PAGE) {
                    final long entry = entries.getLong();
                    final boolean own = (entry & (PRESENT | SWAPPED)) != 0 && (entry & FILE_OR_SHARED) == 0;
                    if (own && begin < 0) {
                        begin = at;
                    } else if (!own && begin >= 0) {
                        found.add(new PageRange(begin, at, true));
                        begin = -1;
                    }
                }
            }
            if (begin >= 0) {
                found.add(new PageRange(begin, area.end(), true));
            }
        }
        return found;
    }
}
