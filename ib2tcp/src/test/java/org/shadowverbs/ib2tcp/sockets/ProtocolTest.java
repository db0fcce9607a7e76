// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.util.ArrayDeque;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.verbs.QueuePairObject;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/** Two queue pairs on the simulated network: what is promised to verbs programs holds whatever the network does. */
class ProtocolTest {
    private static final int SIGNALED = 2;
    private static final int FENCE = 1;
    private static final int INLINE = 8;
    private static final int SLOT = 700_000;
    private static final int SLOTS = 8;
    private static final int OPERATIONS = 60;

    private static SimulatedNetwork network(final long seed) {
        return new SimulatedNetwork(seed);
    }

    private static int word(final long wc, final long offset) {
        assertNotEquals(0, wc, "there is a completion");
        return Memory.i32(wc + offset);
    }

    /** Sends everything at random over links that break; everything arrives once, in order, undamaged. */
    @Property(tries = 60)
    void everythingTakesEffectOnceAndInOrder(@ForAll final long seed) throws ProtocolException {
        final SimulatedNetwork network = network(seed);
        final SimulatedDevice a = network.device();
        final SimulatedDevice b = network.device();
        final QueuePairObject qa = a.create(true);
        final QueuePairObject qb = b.create(false);
        SimulatedDevice.connect(qa, b, SimulatedDevice.number(qb), 0xfffff0, 5, 7);
        SimulatedDevice.connect(qb, a, SimulatedDevice.number(qa), 5, 0xfffff0, 7);
        final long from = a.posix.allocate((long) SLOT * SLOTS);
        final long to = b.posix.allocate((long) SLOT * SLOTS + 64);
        final long counter = to + (long) SLOT * SLOTS;
        final int lkey = a.regions.add(qa.domain(), from, (long) SLOT * SLOTS, from, 31);
        final int rkey = b.regions.add(qb.domain(), to, (long) SLOT * SLOTS + 64, to, 15);
        int window = a.regions.addWindow(qa.domain(), true);
        boolean bound = false;
        final ArrayDeque<byte[]> sent = new ArrayDeque<>();
        final ArrayDeque<int[]> posted = new ArrayDeque<>();
        long added = 0;
        long sum = 0;
        int next = 0;
        int completed = 0;
        int received = 0;
        int receives = 0;
        int outstanding = 0;
        int cuts = 0;
        byte[] written = null;
        while (completed < OPERATIONS) {
            if (next < OPERATIONS && outstanding < SLOTS && network.random.nextInt(4) == 0) {
                final long at = from + (long) (next % SLOTS) * SLOT;
                final int[] opcodes = {Frame.SEND, Frame.SEND_IMM, Frame.WRITE, Frame.WRITE_IMM, Frame.READ,
                    Frame.FETCH_ADD, Frame.BIND_MW};
                final int opcode = opcodes[network.random.nextInt(opcodes.length)];
                if (opcode == Frame.BIND_MW) {
                    window = bound ? window : window & ~255 | window + 1 & 255;
                    assertEquals(true, a.local(qa, next, bound ? Frame.LOCAL_INV : Frame.BIND_MW, window, lkey, from, 8));
                    posted.add(new int[] {next++, opcode, 0});
                    outstanding++;
                    bound = !bound;
                    continue;
                }
                final boolean inline = opcode < Frame.READ && network.random.nextInt(4) == 0;
                final int length = opcode == Frame.FETCH_ADD ? 8
                        : network.random.nextInt(inline ? 128 : network.random.nextInt(3) == 0 ? 600_000 : 3000);
                if (opcode < Frame.READ) {
                    final byte[] data = new byte[length];
                    network.random.nextBytes(data);
                    Memory.put(at, data);
                    if (opcode == Frame.SEND || opcode == Frame.SEND_IMM) {
                        sent.add(data);
                    } else {
                        written = data;
                        if (opcode == Frame.WRITE_IMM) {
                            sent.add(new byte[0]);
                        }
                    }
                }
                final int add = network.random.nextInt(1000);
                added += opcode == Frame.FETCH_ADD ? add : 0;
                final long remote = opcode == Frame.FETCH_ADD ? counter : to + (long) (SLOTS - 1) * SLOT;
                final int split = length / 3;
                final boolean ok = a.post(qa, next, opcode, SIGNALED | (inline ? INLINE : 0)
                        | (opcode == Frame.READ ? FENCE : 0),
                        opcode == Frame.FETCH_ADD ? new long[] {at} : new long[] {at, at + split},
                        opcode == Frame.FETCH_ADD ? new int[] {8} : new int[] {split, length - split}, lkey, remote,
                        rkey, add, 0);
                assertEquals(true, ok);
                posted.add(new int[] {next, opcode, length});
                next++;
                outstanding++;
            }
            if (receives - received < 3 && network.random.nextInt(5) == 0) {
                b.receive(qb, receives, to + (long) (receives % 3) * SLOT, SLOT, rkey);
                receives++;
            }
            if (cuts < 6 && network.random.nextInt(120) == 0) {
                network.cut();
                cuts++;
            }
            network.step();
            for (long wc = b.poll(); wc != 0; wc = b.poll()) {
                assertEquals(0, word(wc, Layouts.WC_STATUS));
                assertEquals(received, Memory.i64(wc + Layouts.WC_WR_ID), "receives complete in order");
                final byte[] expected = sent.remove();
                if (word(wc, Layouts.WC_OPCODE) == CompletionQueue.OPCODE_RECV) {
                    assertEquals(expected.length, word(wc, Layouts.WC_BYTE_LEN));
                    assertArrayEquals(expected, Memory.bytes(to + (long) (received % 3) * SLOT, expected.length));
                }
                received++;
            }
            for (long wc = a.poll(); wc != 0; wc = a.poll()) {
                final int[] operation = posted.remove();
                assertEquals(0, word(wc, Layouts.WC_STATUS));
                assertEquals(operation[0], Memory.i64(wc + Layouts.WC_WR_ID), "requests complete in order");
                completed++;
                outstanding--;
                if (operation[1] == Frame.FETCH_ADD) {
                    final long old = Memory.i64(from + (long) (operation[0] % SLOTS) * SLOT);
                    assertEquals(true, old >= sum, "an atomic's answer is the value before");
                    sum = old;
                }
            }
        }
        assertEquals(added, Memory.i64(counter), "each atomic was executed once");
        assertEquals(true, sent.isEmpty());
        if (written != null) {
            assertArrayEquals(written, Memory.bytes(to + (long) (SLOTS - 1) * SLOT, written.length));
        }
    }

    private static final class Pair {
        final SimulatedNetwork network = network(1);
        final SimulatedDevice a = network.device();
        final SimulatedDevice b = network.device();
        final QueuePairObject qa = a.create(false);
        final QueuePairObject qb = b.create(false);
        final long near = a.posix.allocate(4096);
        final long far = b.posix.allocate(4096);
        final int lkey = a.regions.add(qa.domain(), near, 4096, near, 15);
        final int rkey = b.regions.add(qb.domain(), far, 4096, far, 15);

        Pair(final int rnrRetry) {
            SimulatedDevice.connect(qa, b, SimulatedDevice.number(qb), 1, 2, rnrRetry);
            SimulatedDevice.connect(qb, a, SimulatedDevice.number(qa), 2, 1, rnrRetry);
        }

        void post(final int opcode, final int length, final long remote, final int key, final int localKey) {
            a.post(qa, 9, opcode, SIGNALED, new long[] {near}, new int[] {length}, localKey, remote, key, 1, 0);
        }

        /** The status of A's request, once all is quiet. */
        int status() throws ProtocolException {
            network.settle();
            return word(a.poll(), Layouts.WC_STATUS);
        }
    }

    @Test
    void protectionIsCheckedAtBothEnds() throws ProtocolException {
        Pair p = new Pair(7);
        p.post(Frame.WRITE, 100, p.far + 4000, p.rkey, p.lkey);
        assertEquals(CompletionQueue.REM_ACCESS_ERR, p.status());
        assertEquals(QueuePair.ERR, p.b.queuePair(SimulatedDevice.number(p.qb)).state);
        p = new Pair(7);
        p.post(Frame.READ, 100, p.far, p.rkey + 1, p.lkey);
        assertEquals(CompletionQueue.REM_ACCESS_ERR, p.status());
        p = new Pair(7);
        p.post(Frame.WRITE, 100, p.far, p.rkey, p.lkey + 1);
        assertEquals(CompletionQueue.LOC_PROT_ERR, p.status());
        p = new Pair(7);
        p.b.queuePair(SimulatedDevice.number(p.qb)).access = 0;
        p.post(Frame.WRITE, 0, 0, 0, p.lkey);
        assertEquals(CompletionQueue.REM_INV_REQ_ERR, p.status());
        p = new Pair(7);
        p.post(Frame.WRITE, 0, 0, 0, p.lkey);
        assertEquals(CompletionQueue.SUCCESS, p.status(), "a WRITE of nothing needs no key");
        p = new Pair(7);
        p.post(Frame.FETCH_ADD, 8, p.far + 4, p.rkey, p.lkey);
        assertEquals(CompletionQueue.REM_INV_REQ_ERR, p.status());
    }

    @Test
    void aReceiveThatIsTooShortFailsAtBothEnds() throws ProtocolException {
        final Pair p = new Pair(7);
        p.b.receive(p.qb, 3, p.far, 99, p.rkey);
        p.b.receive(p.qb, 4, p.far, 99, p.rkey);
        p.post(Frame.SEND, 100, 0, 0, p.lkey);
        assertEquals(CompletionQueue.REM_INV_REQ_ERR, p.status());
        final long first = p.b.poll();
        assertEquals(CompletionQueue.LOC_LEN_ERR, word(first, Layouts.WC_STATUS));
        assertEquals(3, Memory.i64(first + Layouts.WC_WR_ID));
        assertEquals(CompletionQueue.WR_FLUSH_ERR, word(p.b.poll(), Layouts.WC_STATUS));
    }

    @Test
    void aReceiveOfMemoryThatIsNotRegisteredFailsAtBothEnds() throws ProtocolException {
        final Pair p = new Pair(7);
        p.b.receive(p.qb, 3, p.far, 100, p.rkey + 1);
        p.post(Frame.SEND, 100, 0, 0, p.lkey);
        assertEquals(CompletionQueue.REM_OP_ERR, p.status());
        assertEquals(CompletionQueue.LOC_PROT_ERR, word(p.b.poll(), Layouts.WC_STATUS));
    }

    @Test
    void rnrRetriesHaveTheirLimit() throws ProtocolException {
        final Pair p = new Pair(2);
        p.post(Frame.SEND, 100, 0, 0, p.lkey);
        assertEquals(CompletionQueue.RNR_RETRY_EXC_ERR, p.status());
        p.b.receive(p.qb, 1, p.far, 100, p.rkey);
        while (p.network.step()) {
            assertEquals(0, p.b.poll(), "what has failed does not arrive later");
        }
        p.post(Frame.SEND, 100, 0, 0, p.lkey);
        assertEquals(CompletionQueue.WR_FLUSH_ERR, p.status());
    }

    @Test
    void aPeerThatIsGoneIsNoticed() throws ProtocolException {
        final Pair p = new Pair(7);
        p.b.remove(p.b.queuePair(SimulatedDevice.number(p.qb)));
        p.post(Frame.WRITE, 8, p.far, p.rkey, p.lkey);
        p.post(Frame.WRITE, 8, p.far, p.rkey, p.lkey);
        assertEquals(CompletionQueue.RETRY_EXC_ERR, p.status());
        assertEquals(CompletionQueue.WR_FLUSH_ERR, word(p.a.poll(), Layouts.WC_STATUS));
    }

    /** Programs end as soon as they have seen the last message: its sender is to hear that it has arrived. */
    @Test
    void whatAQueuePairHasTakenIsAcknowledgedThoughItEnds() throws ProtocolException {
        for (int length = 1; length <= 100; length++) {
            final Pair p = new Pair(7);
            p.b.receive(p.qb, 3, p.far, 100, p.rkey);
            p.post(Frame.SEND, length, 0, 0, p.lkey);
            while (p.b.poll() == 0) {
                p.network.step();
            }
            p.b.remove(p.b.queuePair(SimulatedDevice.number(p.qb)));
            assertEquals(CompletionQueue.SUCCESS, p.status());
        }
    }

    @Test
    void aQueuePairToItself() throws ProtocolException {
        final SimulatedNetwork network = network(3);
        final SimulatedDevice a = network.device();
        final QueuePairObject q = a.create(true);
        SimulatedDevice.connect(q, a, SimulatedDevice.number(q), 1, 1, 7);
        final long memory = a.posix.allocate(4096);
        final int key = a.regions.add(q.domain(), memory, 4096, memory, 15);
        Memory.i64(memory, 4711);
        a.post(q, 1, Frame.WRITE, 0, new long[] {memory}, new int[] {8}, key, memory + 8, key, 0, 0);
        while (network.step()) {
            assertEquals(true, network.time < 1_000_000_000L);
        }
        assertEquals(0, word(a.poll(), Layouts.WC_STATUS));
        assertEquals(4711, Memory.i64(memory + 8));
    }
}
