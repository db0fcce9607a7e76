// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

/** The encodings of times in queue pair attributes (IBTA volume 1, 9.7.5.2.8 and 9.9.2.1.1). */
public final class RnrTimer {
    /** In units of 10 microseconds. */
    private static final int[] CODES = {65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
        1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
    private static final long UNIT = 10_000;
    /** How often a request is tried when the time-out is 0, which means none. */
    private static final long PACE = 100_000_000;
    private static final long SHORTEST = 1_000_000;

    private RnrTimer() {
    }

    public static long nanos(final int code) {
        return CODES[code & 31] * UNIT;
    }

    /** 4.096 microseconds times two to the code. */
    public static long timeout(final int code) {
        return code == 0 ? PACE : Math.max(SHORTEST, 4096L << (code & 31));
    }
}
