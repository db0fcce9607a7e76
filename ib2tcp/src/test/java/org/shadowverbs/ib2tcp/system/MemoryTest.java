// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

import java.lang.foreign.Arena;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.IntConsumer;
import org.junit.jupiter.api.Test;

/** Another processor changes words, or looks at them, while they are copied. */
class MemoryTest {
    private static final int ROOM = 16 << 10;
    private static final int COPIES = 50_000;

    @Test
    void aWordThatChangesMeanwhileIsCopiedWhole() throws InterruptedException {
        try (Arena arena = Arena.ofShared()) {
            final long from = arena.allocate(ROOM, 64).address();
            final long to = arena.allocate(ROOM + 64, 64).address();
            final Random random = new Random(1);
            whileAnother(version -> WordsTest.fill(from, ROOM, version), COPIES, () -> {
                final int at = random.nextInt(64);
                final int first = random.nextInt(ROOM / 2);
                final int bytes = random.nextInt(ROOM / 2);
                Memory.copyWords(from + first, to + at, bytes, from + first);
                WordsTest.assertWhole(to + at - first, first, first + bytes);
            });
        }
    }

    @Test
    void aWordIsWrittenAtOnce() throws InterruptedException {
        try (Arena arena = Arena.ofShared()) {
            final long from = arena.allocate(ROOM + 64, 64).address();
            final long to = arena.allocate(ROOM, 64).address();
            final Random random = new Random(2);
            whileAnother(version -> {
                final int at = random.nextInt(64);
                WordsTest.fill(from + at, ROOM, version);
                final int first = random.nextInt(64);
                // A word of the destination is a word of the source.
                Memory.copyWords(from + at + first, to + first, ROOM - 64, to + first);
            }, COPIES / 10, () -> WordsTest.assertWhole(to, 64, ROOM - 64));
        }
    }

    /** Does the one so many times while another thread does the other, with numbers from 0 to 127 in turn. */
    private static void whileAnother(final IntConsumer other, final int times, final Runnable one) throws InterruptedException {
        final AtomicBoolean ended = new AtomicBoolean();
        final Thread thread = Thread.ofPlatform().start(() -> {
            for (int version = 0; !ended.get(); version = version + 1 & 0x7f) {
                other.accept(version);
            }
        });
        try {
            for (int i = 0; i < times; i++) {
                one.run();
            }
        } finally {
            ended.set(true);
            thread.join();
        }
    }
}
