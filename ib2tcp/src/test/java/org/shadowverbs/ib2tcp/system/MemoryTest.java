// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.foreign.Arena;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

/** Another processor changes words, or looks at them, while they are copied. */
class MemoryTest {
    private static final int ROOM = 16 << 10;
    private static final int COPIES = 50_000;
    private static final long HALVES = 0x1_0000_0001L;

    @Test
    void aWordThatChangesMeanwhileIsCopiedWhole() throws InterruptedException {
        try (Arena arena = Arena.ofShared()) {
            final long from = arena.allocate(ROOM, 64).address();
            final long to = arena.allocate(ROOM + 64, 64).address();
            final AtomicBoolean ended = new AtomicBoolean();
            final Thread writer = Thread.ofPlatform().start(() -> {
                for (int version = 0; !ended.get(); version++) {
                    for (int i = 0; i < ROOM; i += 8) {
                        Memory.i64(from + i, version * HALVES);
                    }
                }
            });
            try {
                final Random random = new Random(1);
                for (int copy = 0; copy < COPIES; copy++) {
                    final int at = random.nextInt(64);
                    final int first = random.nextInt(ROOM / 2);
                    final int bytes = random.nextInt(ROOM / 2);
                    Memory.copyWords(from + first, to + at, bytes, from + first);
                    assertWhole(to + at - first, first, first + bytes);
                }
            } finally {
                ended.set(true);
                writer.join();
            }
        }
    }

    private static void assertWhole(final long base, final int first, final int end) {
        for (int i = first + 7 & -8; i + 8 <= end; i += 8) {
            final long word = Memory.i64(base + i);
            assertEquals((word & 0xffffffffL) * HALVES, word, "word at " + i);
        }
    }

    @Test
    void aWordIsWrittenAtOnce() throws InterruptedException {
        try (Arena arena = Arena.ofShared()) {
            final long from = arena.allocate(ROOM + 64, 64).address();
            final long to = arena.allocate(ROOM, 64).address();
            final AtomicBoolean ended = new AtomicBoolean();
            final Thread writer = Thread.ofPlatform().start(() -> {
                final Random random = new Random(2);
                for (int version = 0; !ended.get(); version++) {
                    final int at = random.nextInt(64);
                    for (int i = 0; i < ROOM; i += 8) {
                        Memory.i64(from + at + i, version * HALVES);
                    }
                    final int first = random.nextInt(64);
                    // A word of the destination is a word of the source.
                    Memory.copyWords(from + at + first, to + first, ROOM - 64, to + first);
                }
            });
            try {
                for (int look = 0; look < COPIES / 10; look++) {
                    assertWhole(to, 64, ROOM - 64);
                }
            } finally {
                ended.set(true);
                writer.join();
            }
        }
    }
}
