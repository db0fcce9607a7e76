// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.memory;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import org.shadowverbs.coordinator.system.Libc;

/**
 * Which pages of a process have been written to, by asynchronous write protection (userfaultfd(2), and PAGEMAP_SCAN of
 * linux/fs.h; Linux 6.7). Counted are pages that it has at the beginning; one that comes later, or that stands elsewhere by then,
 * counts as written. So does what the kernel writes for the process. What a device writes past the page tables does not.
 *
 * <p>For several threads, one at a time.
 */
public final class WriteCount implements AutoCloseable {
    private static final long UFFDIO_API = 0xC018AA3FL;
    private static final long UFFDIO_REGISTER = 0xC020AA00L;
    private static final long API = 0xAA;
    private static final long FEATURE_WP_UNPOPULATED = 1 << 13;
    private static final long FEATURE_WP_ASYNC = 1 << 15;
    private static final long MODE_WP = 2;

    private static final long PAGEMAP_SCAN = 0xC0606610L;
    private static final int SCAN_SIZE = 96;
    private static final long PROTECT_MATCHING = 1;
    private static final long MUST_BE_PROTECTABLE = 2;
    private static final long IS_PROTECTABLE = 1;
    private static final long IS_WRITTEN = 1 << 1;
    private static final long IS_FILE = 1 << 2;
    private static final long IS_PRESENT = 1 << 3;
    private static final long IS_SWAPPED = 1 << 4;
    private static final long IS_ZERO = 1 << 5;
    private static final int REGIONS = 4096;
    private static final int REGION_SIZE = 24;

    /** -1: closed, and with it the count has ended. */
    private int fd;
    private boolean ready;

    /** @param fd a userfaultfd of the process that nobody else uses; it is closed with this */
    public WriteCount(final int fd) {
        this.fd = fd;
    }

    /** Whether the kernel can count by it; to be asked before all else. */
    public synchronized boolean works() {
        if (!ready && fd >= 0) {
            try (Arena arena = Arena.ofConfined()) {
                final MemorySegment api = arena.allocate(ValueLayout.JAVA_LONG, 3);
                api.setAtIndex(ValueLayout.JAVA_LONG, 0, API);
                api.setAtIndex(ValueLayout.JAVA_LONG, 1, FEATURE_WP_UNPOPULATED | FEATURE_WP_ASYNC);
                ready = Libc.ioctl(fd, UFFDIO_API, api) == 0;
            }
        }
        return ready;
    }

    /**
     * Begins the count anew, while the process stands still.
     *
     * @param pid as this process sees it
     * @throws IOException if the process has ended
     */
    public synchronized void begin(final long pid) throws IOException {
        final int pagemap = Libc.open("/proc/" + pid + "/pagemap", Libc.O_RDONLY);
        try {
            for (final VmArea area : VmArea.privateOnes(pid)) {
                if (area.writable() && register(area)) {
                    scan(pagemap, area, PROTECT_MATCHING | MUST_BE_PROTECTABLE, IS_WRITTEN);
                }
            }
        } finally {
            Libc.close(pagemap);
        }
    }

    /** Ends it: no write costs anything any more. */
    @Override
    public synchronized void close() {
        if (fd >= 0) {
            Libc.close(fd);
            fd = -1;
            ready = false;
        }
    }

    /**
     * The pages of an area, and, of those that are counted, whether they were written to. From then on they count as not written
     * to; what is read of them afterwards is what they hold, or they count as written again.
     */
    synchronized List<PageRange> take(final int pagemap, final VmArea area) throws IOException {
        if (area.writable() && register(area)) {
            final List<PageRange> counted = scan(pagemap, area, PROTECT_MATCHING | MUST_BE_PROTECTABLE, 0);
            // Else the program has mapped something else there meanwhile, which counts as written to as long as nobody counts it.
            return counted != null ? counted : scan(pagemap, area, 0, 0).stream()
                    .map(range -> new PageRange(range.start(), range.end(), true)).toList();
        }
        // One that cannot be written to now may have been counted when it could: what was not written to is taken for known.
        final List<PageRange> known = new ArrayList<>(scan(pagemap, area, 0, 0));
        known.removeIf(PageRange::written);
        return known;
    }

    /** Of pages that were taken: those that were written to since. From then on they count as not written to again. */
    synchronized List<PageRange> takeWritten(final int pagemap, final PageRange range) throws IOException {
        return scan(pagemap, new VmArea(range.start(), range.end(), true, false), PROTECT_MATCHING, IS_WRITTEN | IS_PROTECTABLE);
    }

    private boolean register(final VmArea area) {
        if (fd < 0) {
            return false;
        }
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment register = arena.allocate(ValueLayout.JAVA_LONG, 4);
            register.setAtIndex(ValueLayout.JAVA_LONG, 0, area.start());
            register.setAtIndex(ValueLayout.JAVA_LONG, 1, area.end() - area.start());
            register.setAtIndex(ValueLayout.JAVA_LONG, 2, MODE_WP);
            return Libc.ioctl(fd, UFFDIO_REGISTER, register) == 0;
        }
    }

    /**
     * Looks at an area, see PAGEMAP_SCAN in Documentation/admin-guide/mm/pagemap.rst of the kernel.
     *
     * @param required what pages must be, besides present or swapped, and neither of a file nor the page of zeros
     * @return null: there are pages that must be protectable, and are not
     */
    private static List<PageRange> scan(final int pagemap, final VmArea area, final long flags, final long required)
            throws IOException {
        final List<PageRange> found = new ArrayList<>();
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment regions = arena.allocate((long) REGIONS * REGION_SIZE, Long.BYTES);
            final MemorySegment scan = arena.allocate(SCAN_SIZE, Long.BYTES);
            for (long at = area.start(); at < area.end();) {
                final long[] fields = {SCAN_SIZE, flags, at, area.end(), 0, regions.address(), REGIONS, 0, IS_FILE | IS_ZERO,
                    IS_FILE | IS_ZERO | required, IS_PRESENT | IS_SWAPPED, IS_PROTECTABLE | IS_WRITTEN};
                MemorySegment.copy(fields, 0, scan, ValueLayout.JAVA_LONG, 0, fields.length);
                final int count = Libc.ioctl(pagemap, PAGEMAP_SCAN, scan);
                if (count == -Libc.EPERM && (flags & MUST_BE_PROTECTABLE) != 0) {
                    return null;
                }
                if (count < 0) {
                    throw new IOException("PAGEMAP_SCAN: errno " + -count);
                }
                for (long i = 0; i < count; i++) {
                    final long categories = regions.get(ValueLayout.JAVA_LONG, i * REGION_SIZE + 16);
                    found.add(new PageRange(regions.get(ValueLayout.JAVA_LONG, i * REGION_SIZE),
                            regions.get(ValueLayout.JAVA_LONG, i * REGION_SIZE + 8),
                            (categories & IS_PROTECTABLE) == 0 || (categories & IS_WRITTEN) != 0));
                }
                // Not from walk_end on: Linux (6.18) leaves it where its own buffer, of 512 regions, was full last. What is behind it
                // has been told, and protected, and would be told again as not written to.
                at = count < REGIONS ? area.end() : found.getLast().end();
            }
        }
        return found;
    }
}
