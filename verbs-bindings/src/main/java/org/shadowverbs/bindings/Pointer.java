// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.bindings;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * Pointers that are members of structs, read and written as the numbers that they are. The accessors that jextract makes
 * have the JVM adapt a variable handle to segments, with two dozen classes spun at run time.
 */
@SuppressWarnings("restricted")
public final class Pointer {
    private Pointer() {
    }

    /**
     * What the pointer at an offset, in bytes, points to; its size is not known.
     *
     * @throws IndexOutOfBoundsException there is no such member
     */
    public static MemorySegment get(final MemorySegment struct, final long offset) {
        return MemorySegment.ofAddress(struct.get(ValueLayout.JAVA_LONG, offset)).reinterpret(Long.MAX_VALUE);
    }

    /** @throws IndexOutOfBoundsException there is no such member */
    public static void set(final MemorySegment struct, final long offset, final MemorySegment value) {
        struct.set(ValueLayout.JAVA_LONG, offset, value.address());
    }
}
