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
    /** Those of a process whose pages are its own; that can be read. */
    static List<VmArea> privateOnes(final long pid) throws IOException {
        final List<VmArea> areas = new ArrayList<>();
        for (final String line : Files.readAllLines(Path.of("/proc", Long.toString(pid), "maps"))) {
            final String[] words = line.split(" +", 6);
            final int dash = words[0].indexOf('-');
            final boolean vdso = words.length > 5 && words[5].equals("[vdso]");
            final boolean kernels = words.length > 5 && words[5].startsWith("[v") && !vdso; // vvar, vsyscall
            if (words[1].charAt(3) == 'p' && words[1].charAt(0) == 'r' && !kernels) {
                areas.add(new VmArea(Long.parseUnsignedLong(words[0].substring(0, dash), 16),
                        Long.parseUnsignedLong(words[0].substring(dash + 1), 16), words[1].charAt(1) == 'w', vdso));
            }
        }
        return areas;
    }
}
