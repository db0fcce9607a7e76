// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

import static org.junit.jupiter.api.Assertions.assertEquals;

import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import org.shadowverbs.ib2tcp.sockets.SimulatedDevice;
import org.shadowverbs.ib2tcp.sockets.SimulatedNetwork;
import org.shadowverbs.ib2tcp.verbs.QueuePairObject;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/**
 * Programs look at words of 8 bytes that a peer writes, or change words that a peer reads: whatever pieces the bytes come in,
 * an aligned word is the old one or the new one.
 */
class WordsTest {
    private static final int SIGNALED = 2;
    private static final int ROOM = 20_000;
    /** The longest payload of which all words are promised, and how much of the end of a longer one. */
    private static final int SMALL_WRITE = 4095;
    private static final int TAIL = 64;
    private static final int SMALL_READ = 16 << 10;
    private static final long ONES = 0x0101010101010101L;

    private final SimulatedNetwork network;
    private final SimulatedDevice a;
    private final SimulatedDevice b;
    private final QueuePairObject qa;
    private final long own;
    private final long remote;
    private final int lkey;
    private final int rkey;

    WordsTest() {
        network = new SimulatedNetwork(1);
        a = network.device();
        b = network.device();
        qa = a.create(true);
        final QueuePairObject qb = b.create(false);
        SimulatedDevice.connect(qa, b, SimulatedDevice.number(qb), 1, 1, 7);
        SimulatedDevice.connect(qb, a, SimulatedDevice.number(qa), 1, 1, 7);
        own = a.posix.allocate(ROOM);
        remote = b.posix.allocate(ROOM);
        lkey = a.regions.add(qa.domain(), own, ROOM, own, 31);
        rkey = b.regions.add(qb.domain(), remote, ROOM, remote, 15);
    }

    /** Fills words with a number from 0 to 127. */
    static void fill(final long from, final int bytes, final int value) {
        for (int i = 0; i < bytes; i += 8) {
            Memory.i64(from + i, value * ONES);
        }
    }

    private void post(final int opcode, final int ownOffset, final int remoteOffset, final int length) {
        assertEquals(true, a.post(qa, 1, opcode, SIGNALED, new long[] {own + ownOffset}, new int[] {length}, lkey,
                remote + remoteOffset, rkey, 0, 0));
    }

    /** Each word between the offsets is one that {@link #fill} has written. */
    static void assertWhole(final long from, final int first, final int end) {
        for (int i = first + 7 & -8; i + 8 <= end; i += 8) {
            final long word = Memory.i64(from + i);
            assertEquals((word & 0xff) * ONES, word, "word at " + i);
        }
    }

    @Property(tries = 200)
    void aWordThatIsWrittenIsOldOrNew(@ForAll final long seed, @ForAll @IntRange(max = 63) final int from,
            @ForAll @IntRange(max = 63) final int to, @ForAll @IntRange(min = 1, max = 12_000) final int length)
            throws ProtocolException {
        network.random.setSeed(seed);
        fill(remote, ROOM, 0);
        for (int round = 1; round <= 10; round++) {
            fill(own, ROOM, round);
            post(Frame.WRITE, from, to, length);
            while (network.step()) {
                assertWhole(remote, length <= SMALL_WRITE ? to : to + length - TAIL, to + length);
            }
            assertEquals(round, Memory.u8(remote + to + length - 1));
        }
    }

    @Property(tries = 200)
    void aWordThatIsReadIsOldOrNew(@ForAll final long seed, @ForAll @IntRange(max = 63) final int from,
            @ForAll @IntRange(max = 63) final int to, @ForAll @IntRange(min = 1, max = SMALL_READ) final int length)
            throws ProtocolException {
        network.random.setSeed(seed);
        // The same place in a word on both sides, so that a word here is a word there.
        final int at = to + (from & 7) - (to & 7) + 8;
        int version = 0;
        fill(remote, ROOM, version);
        for (int round = 0; round < 10; round++) {
            post(Frame.READ, at, from, length);
            while (network.step()) {
                version = version + 1 & 0x7f;
                fill(remote, ROOM, version);
            }
            assertWhole(own, at, at + length);
        }
    }
}
