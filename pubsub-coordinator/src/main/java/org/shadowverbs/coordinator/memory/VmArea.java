// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.memory;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * A range of a process's addresses, as {@code /proc/PID/maps} lists it.
 *
 * @param start first byte
 * @param end   behind the last one
 * @param vdso  whether it is the code of the kernel's, which CRIU saves whole
 */
record VmArea(long start, long end, boolean writable, boolean vdso) {
    /** Those of a process whose pages are its own; that can be read. In order, and none overlaps another. */
    static List<VmArea> privateOnes(final long pid) throws IOException {
        return privateOnes(Files.readAllLines(Path.of("/proc", Long.toString(pid), "maps")));
    }

    /**
     * The same, of the lines of that file. It is read in parts: where an area of a process that runs has grown between two of them,
     * as those of malloc do, the next part begins with all of it, what was listed before included.
     */
    static List<VmArea> privateOnes(final List<String> lines) {
        final List<VmArea> areas = new ArrayList<>();
        long listed = 0;
        for (final String line : lines) {
            final String[] words = line.split(" +", 6);
            final int dash = words[0].indexOf('-');
            final boolean vdso = words.length > 5 && words[5].equals("[vdso]");
            final boolean kernels = words.length > 5 && words[5].startsWith("[v") && !vdso; // vvar, vsyscall
            if (words[1].charAt(3) == 'p' && words[1].charAt(0) == 'r' && !kernels) {
                final long start = Math.max(listed, Long.parseUnsignedLong(words[0].substring(0, dash), 16));
                final long end = Long.parseUnsignedLong(words[0].substring(dash + 1), 16);
                if (start < end) {
                    areas.add(new VmArea(start, end, words[1].charAt(1) == 'w', vdso));
                    listed = end;
                }
            }
        }
        return areas;
    }
}
