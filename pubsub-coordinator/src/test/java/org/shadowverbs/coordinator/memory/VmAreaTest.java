// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class VmAreaTest {
    @Test
    void listsWhatCanBeReadAndIsTheProcesssOwn() throws Exception {
        assertEquals(List.of(new VmArea(0x1000, 0x2000, false, false), new VmArea(0x3000, 0x5000, true, false),
                        new VmArea(0x7fd4cc583000L, 0x7fd4cc585000L, false, true)),
                VmArea.privateOnes(List.of(
                        "00001000-00002000 r-xp 00000000 fe:00 1234                     /usr/bin/a name",
                        "00002000-00003000 ---p 00000000 00:00 0",
                        "00003000-00005000 rw-p 00000000 00:00 0                        [heap]",
                        "00005000-00006000 rw-s 00000000 00:01 17                       /dev/shm/a",
                        "7fd4cc57d000-7fd4cc583000 r--p 00000000 00:00 0                [vvar]",
                        "7fd4cc583000-7fd4cc585000 r-xp 00000000 00:00 0                [vdso]",
                        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0        [vsyscall]")));
        assertTrue(VmArea.privateOnes(ProcessHandle.current().pid()).stream().anyMatch(VmArea::vdso));
    }

    /** As Linux 6.18 has listed an area of malloc's that grew between two calls of read(2). */
    @Test
    void anAreaThatGrewWhileTheFileWasReadIsListedOnce() {
        assertEquals(List.of(new VmArea(0x10000, 0x20000, true, false), new VmArea(0x20000, 0x28000, true, false),
                        new VmArea(0x30000, 0x31000, true, false)),
                VmArea.privateOnes(List.of(
                        "00010000-00020000 rw-p 00000000 00:00 0",
                        "00010000-00028000 rw-p 00000000 00:00 0",
                        "00028000-00030000 ---p 00000000 00:00 0",
                        "00030000-00031000 rw-p 00000000 00:00 0",
                        "0002f000-00031000 rw-p 00000000 00:00 0")));
    }
}
