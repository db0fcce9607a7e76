// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.verbs.QueuePairObject;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/** A connection whose two ends both ask: requests take acknowledgements with them. */
class BothWaysTest {
    private static final int SIGNALED = 2;
    private static final int SLOTS = 8;
    private static final int SLOT = 2048;
    private static final int OPERATIONS = 80;
    private static final int RECEIVES = 4;
    private static final int STEPS = 2_000_000;
    /** In the memory of each: what is sent, what is received, what the peer reads, what it adds to. */
    private static final long RECEIVED = (long) SLOTS * SLOT;
    private static final long READ = RECEIVED + (long) RECEIVES * SLOT;
    private static final long COUNTER = READ + SLOT;
    private static final int MEMORY = (int) COUNTER + 64;

    private record Posted(int wrId, int opcode, int length) {
    }

    /** One end, and what its program knows. */
    private static final class Side {
        final SimulatedNetwork network;
        final SimulatedDevice device;
        final QueuePairObject qp;
        final long memory;
        final int key;
        final ArrayDeque<Posted> posted = new ArrayDeque<>();
        final ArrayDeque<byte[]> sent = new ArrayDeque<>();
        Side peer;
        int next;
        int completed;
        int receives;
        int received;
        long added;
        long lastSum = -1;

        Side(final SimulatedNetwork network) {
            this.network = network;
            device = network.device();
            qp = device.create(true);
            memory = device.posix.allocate(MEMORY);
            key = device.regions.add(qp.domain(), memory, MEMORY, memory, 15);
            final byte[] data = new byte[SLOT];
            network.random.nextBytes(data);
            Memory.put(memory + READ, data);
        }

        void connect(final Side other, final int psn, final int peerPsn) {
            peer = other;
            SimulatedDevice.connect(qp, other.device, SimulatedDevice.number(other.qp), psn, peerPsn, 7);
        }

        void send(final int opcode, final int length) {
            final long at = memory + (long) (next % SLOTS) * SLOT;
            long remote = 0;
            long add = 0;
            if (opcode == Frame.SEND) {
                final byte[] data = new byte[length];
                network.random.nextBytes(data);
                Memory.put(at, data);
                sent.add(data);
            } else if (opcode == Frame.READ) {
                remote = peer.memory + READ;
            } else {
                remote = peer.memory + COUNTER;
                add = network.random.nextInt(1000);
                added += add;
            }
            assertTrue(device.post(qp, next, opcode, SIGNALED, new long[] {at}, new int[] {length}, key, remote, peer.key,
                    add, 0));
            posted.add(new Posted(next++, opcode, length));
        }

        void receive() {
            device.receive(qp, receives, memory + RECEIVED + (long) (receives % RECEIVES) * SLOT, SLOT, key);
            receives++;
        }

        void act() {
            if (next < OPERATIONS && posted.size() < SLOTS && network.random.nextInt(3) == 0) {
                final int opcode = new int[] {Frame.SEND, Frame.SEND, Frame.READ, Frame.FETCH_ADD}[network.random.nextInt(4)];
                send(opcode, opcode == Frame.FETCH_ADD ? 8 : network.random.nextInt(SLOT));
            }
            if (receives - received < RECEIVES && network.random.nextInt(4) == 0) {
                receive();
            }
        }

        void look() {
            for (long wc = device.poll(); wc != 0; wc = device.poll()) {
                assertEquals(0, Memory.i32(wc + Layouts.WC_STATUS));
                if (Memory.i32(wc + Layouts.WC_OPCODE) == CompletionQueue.OPCODE_RECV) {
                    assertEquals(received, Memory.i64(wc + Layouts.WC_WR_ID), "receives complete in order");
                    final byte[] expected = peer.sent.remove();
                    assertEquals(expected.length, Memory.i32(wc + Layouts.WC_BYTE_LEN));
                    assertArrayEquals(expected, Memory.bytes(
                            memory + RECEIVED + (long) (received % RECEIVES) * SLOT, expected.length));
                    received++;
                    continue;
                }
                final Posted done = posted.remove();
                assertEquals(done.wrId, Memory.i64(wc + Layouts.WC_WR_ID), "requests complete in order");
                completed++;
                final long at = memory + (long) (done.wrId % SLOTS) * SLOT;
                if (done.opcode == Frame.READ) {
                    assertArrayEquals(Memory.bytes(peer.memory + READ, done.length), Memory.bytes(at, done.length));
                } else if (done.opcode == Frame.FETCH_ADD) {
                    assertTrue(Memory.i64(at) >= lastSum, "an atomic's answer is the value before");
                    lastSum = Memory.i64(at);
                }
            }
        }
    }

    /** SENDs, READs and atomics of both ends over links that break: each takes effect once, in order, and completes. */
    @Property(tries = 100)
    void bothEndsRequestsTakeEffectOnceAndInOrder(@ForAll final long seed) throws ProtocolException {
        final SimulatedNetwork network = new SimulatedNetwork(seed);
        final Side a = new Side(network);
        final Side b = new Side(network);
        a.connect(b, 0xfffff0, 5);
        b.connect(a, 5, 0xfffff0);
        int cuts = 0;
        for (int step = 0; a.completed < OPERATIONS || b.completed < OPERATIONS; step++) {
            assertNotEquals(STEPS, step, "all completes");
            a.act();
            b.act();
            if (cuts < 6 && network.random.nextInt(150) == 0) {
                network.cut();
                cuts++;
            }
            network.step();
            a.look();
            b.look();
        }
        assertEquals(a.added, Memory.i64(b.memory + COUNTER), "each atomic was executed once");
        assertEquals(b.added, Memory.i64(a.memory + COUNTER), "each atomic was executed once");
        assertTrue(a.sent.isEmpty() && b.sent.isEmpty());
    }

    /** In a ping-pong each message acknowledges the one before it: a header and the payload are all that is sent. */
    @Test
    void anAnswerIsTheAcknowledgement() throws ProtocolException {
        final int rounds = 10;
        final int bytes = 8;
        final SimulatedNetwork network = new SimulatedNetwork(1);
        final Side a = new Side(network);
        final Side b = new Side(network);
        a.connect(b, 1, 2);
        b.connect(a, 2, 1);
        for (int i = 0; i < 2 * rounds; i++) {
            final Side from = i % 2 == 0 ? a : b;
            from.peer.receive();
            from.send(Frame.SEND, bytes);
            for (int step = 0; from.peer.received <= i / 2; step++) {
                assertNotEquals(STEPS, step, "the message arrives");
                // What was received is acknowledged when its program has had its turn.
                network.read();
                from.look();
                from.peer.look();
                if (from.peer.received <= i / 2) {
                    network.write();
                }
            }
            assertEquals(i == 0 ? 0 : (i + 1) / 2, from.peer.completed, "what was answered is acknowledged");
        }
        assertEquals(2L * rounds * (Frame.SIZE + bytes), network.written);
    }
}
