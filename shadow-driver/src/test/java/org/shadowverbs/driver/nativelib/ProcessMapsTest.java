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
    void ownMemoryIsMapped() throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            assertTrue(ProcessMaps.read().cover(arena.allocate(10_000).address(), 10_000));
        }
        assertFalse(ProcessMaps.read().cover(16, 16));
    }
}
