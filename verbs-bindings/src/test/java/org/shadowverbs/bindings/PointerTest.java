// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.bindings;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr;
import org.shadowverbs.bindings.verbs.ibv_sge;

/** The accessors of pointers do what those of jextract do. */
class PointerTest {
    @Test
    void accessorsReadAndWriteTheMemberOfThatLayout() {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment init = ibv_qp_init_attr.allocate(arena);
            final MemorySegment queue = ibv_sge.allocate(arena);
            ibv_qp_init_attr.recv_cq(init, queue);
            assertEquals(queue.address(), init.get(ibv_qp_init_attr.recv_cq$layout(),
                    ibv_qp_init_attr.recv_cq$offset()).address());
            init.set(ibv_qp_init_attr.send_cq$layout(), ibv_qp_init_attr.send_cq$offset(), queue);
            assertEquals(queue.address(), ibv_qp_init_attr.send_cq(init).address());
            assertEquals(MemorySegment.NULL.address(), ibv_qp_init_attr.srq(init).address());
            ibv_qp_init_attr.recv_cq(init, MemorySegment.NULL);
            assertEquals(0, ibv_qp_init_attr.recv_cq(init).address());
        }
    }

    @Test
    void whatAPointerPointsToCanBeRead() {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment init = ibv_qp_init_attr.allocate(arena);
            ibv_qp_init_attr.qp_context(init, arena.allocateFrom(ValueLayout.JAVA_LONG, 1, 2));
            assertEquals(2, ibv_qp_init_attr.qp_context(init).get(ValueLayout.JAVA_LONG, 8));
        }
    }

    @Test
    void aStructThatEndsBeforeItIsNotReadOrWritten() {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment part = arena.allocate(8, 8);
            assertThrows(IndexOutOfBoundsException.class, () -> ibv_qp_init_attr.recv_cq(part));
            assertThrows(IndexOutOfBoundsException.class, () -> ibv_qp_init_attr.recv_cq(part, MemorySegment.NULL));
        }
    }
}
