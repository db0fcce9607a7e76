// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import org.shadowverbs.coordinator.system.NativeFunction;

/**
 * The clocks that count from a host's boot, as the processes of a time namespace see them (time_namespaces(7)). After a restart
 * they go on from here: the time in which the job did not exist is none that it could take for a peer's silence.
 *
 * @param monotonic CLOCK_MONOTONIC, and what the kernel derives from it: timers, sleeps, time-outs of futexes; nanoseconds
 * @param boottime  CLOCK_BOOTTIME; nanoseconds
 */
public record Clocks(long monotonic, long boottime) {
    private static final int CLOCK_MONOTONIC = 1;
    private static final int CLOCK_BOOTTIME = 7;
    private static final long SECOND = 1_000_000_000L;

    /** As this process sees them. */
    static Clocks now() {
        return new Clocks(read(CLOCK_MONOTONIC), read(CLOCK_BOOTTIME));
    }

    private static long read(final int clock) {
        try (Arena arena = Arena.ofConfined()) {
            // struct timespec: time_t seconds, long nanoseconds
            final MemorySegment time = arena.allocate(2 * ValueLayout.JAVA_LONG.byteSize(), ValueLayout.JAVA_LONG.byteSize());
            final int result = NativeFunction.of("clock_gettime").call(clock, time.address());
            if (result != 0) {
                throw new IllegalStateException("clock_gettime(" + clock + "): errno " + -result);
            }
            return time.getAtIndex(ValueLayout.JAVA_LONG, 0) * SECOND + time.getAtIndex(ValueLayout.JAVA_LONG, 1);
        }
    }

    /** What another process sees when this one sees these. */
    Clocks asSeenBy(final long pid) throws IOException {
        return plus(offsets(pid)).minus(offsets(ProcessHandle.current().pid()));
    }

    Clocks plus(final Clocks other) {
        return new Clocks(monotonic + other.monotonic, boottime + other.boottime);
    }

    Clocks minus(final Clocks other) {
        return new Clocks(monotonic - other.monotonic, boottime - other.boottime);
    }

    /** How far a process's clocks are ahead of the host's: the lines of its timens_offsets are CLOCK SECONDS NANOSECONDS. */
    static Clocks offsets(final long pid) throws IOException {
        final Path file = Proc.path(pid, "timens_offsets");
        long monotonic = 0;
        long boottime = 0;
        if (Files.exists(file)) { // a kernel without time namespaces has none
            for (final String line : Files.readAllLines(file)) {
                final String[] field = line.strip().split("\\s+");
                final long nanos = Long.parseLong(field[1]) * SECOND + Long.parseLong(field[2]);
                if (field[0].equals("monotonic")) {
                    monotonic = nanos;
                } else if (field[0].equals("boottime")) {
                    boottime = nanos;
                }
            }
        }
        return new Clocks(monotonic, boottime);
    }
}
