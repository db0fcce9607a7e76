// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.junit.jupiter.api.Test;

final class NativeFunctionTest {
    private static final int EBADF = 9;
    private static final int ENOENT = 2;

    @Test
    void resultsAreThoseOfTheirTypes() {
        assertEquals(5, NativeFunction.of("abs").call(-5));
        assertEquals(ProcessHandle.current().pid(), NativeFunction.of("getpid").call());
        assertEquals(1L << 40, NativeFunction.of("labs").callLong(-(1L << 40)));
    }

    @Test
    void failuresAreNegativeErrnoValues() {
        assertEquals(-EBADF, NativeFunction.of("close").call(-1));
        try (Arena arena = Arena.ofConfined()) {
            assertEquals(-ENOENT, NativeFunction.of("open").call(arena.allocateFrom("/nonexistent/file").address(), 0));
            assertEquals(-EBADF, NativeFunction.of("read").callLong(-1, arena.allocate(1).address(), 1));
        }
    }

    /** snprintf(3) has variable arguments, here three. */
    @Test
    void asManyArgumentsAsThereAreRegisters() {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment text = arena.allocate(16);
            assertEquals(5, NativeFunction.of("snprintf").call(text.address(), text.byteSize(),
                    arena.allocateFrom("%d %d %d").address(), 1, 2, 3));
            assertEquals("1 2 3", text.getString(0));
            assertEquals(4, NativeFunction.of("snprintf").call(text.address(), text.byteSize(),
                    arena.allocateFrom("%d%%%d").address(), 12, 3));
            assertEquals('%', text.get(ValueLayout.JAVA_BYTE, 2));
        }
        assertThrows(IllegalArgumentException.class, () -> NativeFunction.of("getpid").call(1, 2, 3, 4, 5, 6, 7));
    }

    @Test
    void whatIsNotThereIsSaid() {
        assertEquals("the C library has no there_is_no_such_function", assertThrows(UnsupportedOperationException.class,
                () -> NativeFunction.of("there_is_no_such_function")).getMessage());
    }
}
