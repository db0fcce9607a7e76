// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.shadowverbs.coordinator.system.Libc;
import org.shadowverbs.coordinator.system.NativeFunction;

/** Counts writes of this process itself. */
class WriteCountTest {
    private static final int USERFAULTFD = "aarch64".equals(System.getProperty("os.arch")) ? 282 : 323;
    private static final int CLOSE_ON_EXEC = 0x80000;
    private static final int USER_MODE_ONLY = 1;
    /** One of four is written to: more ranges than the kernel's own buffer has room for, which is 512. */
    private static final int PAGES = 6000;

    @Test
    void toldIsEachPageOnceAndWhetherItWasWrittenTo() throws IOException {
        final int fd = NativeFunction.of("syscall").call(USERFAULTFD, CLOSE_ON_EXEC | USER_MODE_ONLY);
        assumeTrue(fd >= 0, "userfaultfd: errno " + -fd);
        final int pagemap = Libc.open("/proc/self/pagemap", Libc.O_RDONLY);
        try (WriteCount count = new WriteCount(fd); Arena arena = Arena.ofConfined()) {
            assumeTrue(count.works(), "this kernel cannot count by write protection");
            final MemorySegment memory = arena.allocate((long) PAGES * PageRange.PAGE, PageRange.PAGE);
            final VmArea area = new VmArea(memory.address(), memory.address() + memory.byteSize(), true, false);
            assertEquals(pages(1), told(count.take(pagemap, area), area, true), "what was not counted counts as written to");
            assertEquals(pages(1), told(count.take(pagemap, area), area, false), "it was taken, and nothing has changed");

            final BitSet written = pages(4);
            write(memory, written);
            final List<PageRange> taken = count.take(pagemap, area);
            assertEquals(written, told(taken, area, true));
            final BitSet others = pages(1);
            others.andNot(written);
            assertEquals(others, told(taken, area, false));

            write(memory, written);
            assertEquals(written, told(count.takeWritten(pagemap, new PageRange(area.start(), area.end(), true)), area, true));
        } finally {
            Libc.close(pagemap);
        }
    }

    private static BitSet pages(final int every) {
        final BitSet pages = new BitSet();
        for (int page = 0; page < PAGES; page += every) {
            pages.set(page);
        }
        return pages;
    }

    private static void write(final MemorySegment memory, final BitSet pages) {
        pages.stream().forEach(page -> memory.set(ValueLayout.JAVA_INT, (long) page * PageRange.PAGE, page + 1));
    }

    /** The pages of an area that were told as written to, or as not. */
    private static BitSet told(final List<PageRange> ranges, final VmArea area, final boolean written) {
        final BitSet pages = new BitSet();
        final List<PageRange> inOrder = new ArrayList<>();
        long end = area.start();
        for (final PageRange range : ranges) {
            assertTrue(range.start() >= end && range.end() > range.start() && range.end() <= area.end(),
                    () -> range + " after " + inOrder);
            inOrder.add(range);
            end = range.end();
            if (range.written() == written) {
                pages.set((int) ((range.start() - area.start()) / PageRange.PAGE), (int) ((range.end() - area.start()) / PageRange.PAGE));
            }
        }
        return pages;
    }
}
