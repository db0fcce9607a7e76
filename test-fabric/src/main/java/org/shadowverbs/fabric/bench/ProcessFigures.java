// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** What the kernel says of a process, proc(5). */
final class ProcessFigures {
    /** sysconf(_SC_CLK_TCK) is 100 on Linux. */
    private static final double MILLIS_PER_TICK = 10;
    private static final int UTIME = 11;
    private static final int STIME = 12;

    private ProcessFigures() {
    }

    /** The processor time that it has used. */
    static double processorMillis(final long pid) {
        final String stat = read(pid, "stat").getFirst();
        final String[] words = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
        return (Long.parseLong(words[UTIME]) + Long.parseLong(words[STIME])) * MILLIS_PER_TICK;
    }

    /** What it has read and written in all, sockets and files. */
    static long[] bytes(final long pid) {
        final List<String> io = read(pid, "io");
        return new long[] {value(io, "rchar:"), value(io, "wchar:")};
    }

    /** The most memory that it had at one time, in KiB. */
    static long peakKilobytes(final long pid) {
        return value(read(pid, "status"), "VmHWM:");
    }

    private static long value(final List<String> lines, final String name) {
        for (final String line : lines) {
            if (line.startsWith(name)) {
                return Long.parseLong(line.replaceAll("[^0-9]", ""));
            }
        }
        throw new IllegalStateException("/proc says no " + name);
    }

    private static List<String> read(final long pid, final String file) {
        try {
            return Files.readAllLines(Path.of("/proc", Long.toString(pid), file));
        } catch (IOException e) {
            throw new UncheckedIOException("the coordinator has ended", e);
        }
    }
}
