// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.nativelib;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class ProcessMapsTest {
    private static final ProcessMaps MAPS = ProcessMaps.parse(("""
            00400000-00401000 r--p 00000000 08:01 7  /bin/x
            00401000-00403000 rw-p 00001000 08:01 7  /bin/x
            7f0000000000-7f0000002000 rw-p 00000000 00:00 0
            ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]
            """).getBytes(StandardCharsets.US_ASCII));

    @Test
    void aRangeIsCoveredWhenEachByteIs() {
        assertTrue(MAPS.cover(0x400000, 0x3000), "over two mappings that touch");
        assertTrue(MAPS.cover(0x400fff, 2));
        assertTrue(MAPS.cover(0x7f0000001fffL, 1));
        assertTrue(MAPS.cover(0xffffffffff600000L, 0x1000));
        assertFalse(MAPS.cover(0x402fff, 2));
        assertFalse(MAPS.cover(0x3fffff, 2));
        assertFalse(MAPS.cover(0x500000, 1));
        assertFalse(MAPS.cover(0x7f0000000000L, 0x2001));
        assertTrue(MAPS.cover(0x500000, 0), "nothing");
    }

    @Test
    void aMappingThatGrewWhileTheFileWasReadIsOne() {
        final ProcessMaps maps = ProcessMaps.parse(("""
                00010000-00020000 rw-p 00000000 00:00 0
                00010000-00028000 rw-p 00000000 00:00 0
                00030000-00031000 rw-p 00000000 00:00 0
                0002f000-00031000 rw-p 00000000 00:00 0
                00040000-00041000 rw-p 00000000 00:00 0
                00042000-00043000 rw-p 00000000 00:00 0
                00040000-00044000 rw-p 00000000 00:00 0
                """).getBytes(StandardCharsets.US_ASCII));
        assertTrue(maps.cover(0x10000, 0x18000));
        assertTrue(maps.cover(0x1f000, 0x9000));
        assertTrue(maps.cover(0x2f000, 0x2000));
        assertTrue(maps.cover(0x40800, 0x3800));
        assertFalse(maps.cover(0x28000, 1));
    }

    @Test
    void ownMemoryIsMapped() throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            assertTrue(ProcessMaps.read().cover(arena.allocate(10_000).address(), 10_000));
        }
        assertFalse(ProcessMaps.read().cover(16, 16));
    }
}
