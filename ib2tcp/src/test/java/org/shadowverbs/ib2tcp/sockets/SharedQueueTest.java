// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.HashSet;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.engine.SharedQueue;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.verbs.QueuePairObject;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.GlobalRoute;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/** Queue pairs of several senders on one shared receive queue. */
class SharedQueueTest {
    private static final int SIGNALED = 2;
    private static final int SENDERS = 3;
    private static final int MESSAGES = 25;
    private static final int SLOTS = 8;
    private static final int SLOT = 700_000;
    private static final int QKEY = 0x1234;

    /** One process that sends over one connection. */
    private static final class Sender {
        final SimulatedDevice device;
        final QueuePairObject qp;
        final QueuePairObject peer;
        final long memory;
        final int key;
        final ArrayDeque<byte[]> sent = new ArrayDeque<>();
        int posted;
        int completed;

        Sender(final SimulatedNetwork network, final SimulatedDevice to, final SharedQueue shared) {
            device = network.device();
            qp = device.create(true);
            peer = to.create(QueuePair.RC, false, shared);
            SimulatedDevice.connect(qp, to, SimulatedDevice.number(peer), 1, 2, 7);
            SimulatedDevice.connect(peer, device, SimulatedDevice.number(qp), 2, 1, 7);
            memory = device.posix.allocate((long) SLOT * 4);
            key = device.regions.add(qp.domain(), memory, (long) SLOT * 4, memory, 15);
        }

        void send(final java.util.Random random) {
            if (posted == MESSAGES || posted - completed >= 4) {
                return;
            }
            final byte[] data = new byte[random.nextInt(random.nextInt(3) == 0 ? 600_000 : 3000)];
            random.nextBytes(data);
            final long at = memory + (long) (posted % 4) * SLOT;
            Memory.put(at, data);
            assertTrue(device.post(qp, posted++, Frame.SEND, SIGNALED, new long[] {at}, new int[] {data.length}, key, 0,
                    0, 0, 0));
            sent.add(data);
        }
    }

    /** Whatever breaks: each message takes one receive, of each sender in order, and no receive is lost. */
    @Property(tries = 20)
    void everyMessageTakesOneReceive(@ForAll final long seed) throws ProtocolException {
        final SimulatedNetwork network = new SimulatedNetwork(seed);
        final SimulatedDevice b = network.device();
        final SharedQueue shared = b.createShared(SLOTS);
        final long to = b.posix.allocate((long) SLOT * SLOTS);
        final int key = b.regions.add(SimulatedDevice.PD, to, (long) SLOT * SLOTS, to, 15);
        final Sender[] senders = new Sender[SENDERS];
        for (int i = 0; i < SENDERS; i++) {
            senders[i] = new Sender(network, b, shared);
        }
        final ArrayDeque<Integer> free = new ArrayDeque<>();
        for (int i = 0; i < SLOTS; i++) {
            free.add(i);
        }
        final Set<Long> numbers = new HashSet<>();
        int received = 0;
        while (received < SENDERS * MESSAGES) {
            if (!free.isEmpty() && network.random.nextInt(6) == 0) {
                Memory.zero(to + (long) free.peek() * SLOT, SLOT);
                if (b.receive(shared, free.peek(), to + (long) free.peek() * SLOT, SLOT, key)) {
                    free.remove();
                }
            }
            senders[network.random.nextInt(SENDERS)].send(network.random);
            if (network.random.nextInt(200) == 0) {
                network.cut();
            }
            network.step();
            for (final Sender sender : senders) {
                sender.completed = sender.device.successes(sender.completed);
            }
            for (long wc = b.poll(); wc != 0; wc = b.poll()) {
                assertEquals(0, Memory.i32(wc + Layouts.WC_STATUS));
                Sender from = null;
                for (final Sender sender : senders) {
                    from = SimulatedDevice.number(sender.peer) == Memory.i32(wc + Layouts.WC_QP_NUM) ? sender : from;
                }
                final int slot = (int) Memory.i64(wc + Layouts.WC_WR_ID);
                final byte[] data = from.sent.remove();
                assertEquals(data.length, Memory.i32(wc + Layouts.WC_BYTE_LEN));
                assertArrayEquals(data, Memory.bytes(to + (long) slot * SLOT, data.length));
                assertArrayEquals(new byte[64], Memory.bytes(to + (long) slot * SLOT + data.length, 64),
                        "nothing is written behind it");
                free.add(slot);
                received++;
            }
        }
        network.settle();
        // Every receive is with us or in the queue: those in it are taken one by one.
        for (long copy = shared.take(); copy != 0; copy = shared.take()) {
            assertTrue(numbers.add(Memory.i64(copy + Layouts.RECV_WR_ID)));
        }
        assertEquals(SLOTS, numbers.size() + free.size());
    }

    @Test
    void theLimitIsReportedOnceEachTimeItIsSet() throws ProtocolException {
        final SimulatedNetwork network = new SimulatedNetwork(1);
        final SimulatedDevice b = network.device();
        final SharedQueue shared = b.createShared(SLOTS);
        final long to = b.posix.allocate(SLOT);
        final int key = b.regions.add(SimulatedDevice.PD, to, SLOT, to, 15);
        final Sender sender = new Sender(network, b, shared);
        for (int i = 0; i < 4; i++) {
            b.receive(shared, i, to, SLOT, key);
        }
        shared.limit(3);
        assertEquals(-1, b.event());
        for (int i = 0; i < 3; i++) {
            sender.send(network.random);
            network.settle();
            assertEquals(i == 1 ? SharedQueue.EVENT_LIMIT_REACHED : -1, b.event(), "after message " + i);
        }
        assertEquals(0, shared.limit());
        shared.limit(2);
        assertEquals(SharedQueue.EVENT_LIMIT_REACHED, b.event(), "there are fewer already");
    }

    @Test
    void whenAllIsFlushedOfAFailedQueuePairIsSaid() throws ProtocolException {
        final SimulatedNetwork network = new SimulatedNetwork(1);
        final SimulatedDevice b = network.device();
        final SharedQueue shared = b.createShared(SLOTS);
        final Sender sender = new Sender(network, b, shared);
        final long to = b.posix.allocate(SLOT);
        b.receive(shared, 5, to, SLOT, b.regions.add(SimulatedDevice.PD, to, SLOT, to, 15));
        final long begun = network.time;
        while (!b.queuePair(SimulatedDevice.number(sender.peer)).receives.taken()) {
            sender.send(network.random); // one of several frames, at last
            assertTrue(network.step() && network.time - begun < 1_000_000_000_000L);
        }
        SimulatedDevice.toState(sender.peer, QueuePair.ERR);
        final long flushed = b.poll();
        assertEquals(CompletionQueue.WR_FLUSH_ERR, Memory.i32(flushed + Layouts.WC_STATUS));
        assertEquals(5, Memory.i64(flushed + Layouts.WC_WR_ID));
        assertEquals(QueuePair.EVENT_LAST_WQE_REACHED, b.event());
        assertEquals(-1, b.event());
    }

    /** A queue pair of datagrams on a shared queue holds on to no receive that it does not fill. */
    @Test
    void aDatagramTakesOneReceiveOrNone() throws ProtocolException {
        final SimulatedNetwork network = new SimulatedNetwork(1);
        final SimulatedDevice a = network.device();
        final SimulatedDevice b = network.device();
        final SharedQueue shared = b.createShared(SLOTS);
        final QueuePairObject from = a.create(QueuePair.UD, true, null);
        final QueuePairObject[] to = {b.create(QueuePair.UD, true, shared), b.create(QueuePair.UD, true, shared)};
        SimulatedDevice.ready(from, QKEY);
        SimulatedDevice.ready(to[0], QKEY);
        SimulatedDevice.ready(to[1], QKEY);
        final long out = a.posix.allocate(SLOT);
        final long in = b.posix.allocate(SLOT);
        final int outKey = a.regions.add(from.domain(), out, SLOT, out, 15);
        final int inKey = b.regions.add(SimulatedDevice.PD, in, SLOT, in, 15);
        b.receive(shared, 0, in, GlobalRoute.SIZE + 10, inKey);
        b.receive(shared, 1, in, GlobalRoute.SIZE + 10, inKey);
        // Too long for the first queue pair; and the receive is there for the other one.
        assertEquals(-1, arrived(network, a, from, b, to[0], out, 11, outKey));
        for (int i = 0; i < 2; i++) {
            assertEquals(i, arrived(network, a, from, b, to[1 - i], out, 10, outKey));
        }
        assertEquals(-1, arrived(network, a, from, b, to[0], out, 10, outKey), "there is no receive left");
        b.receive(shared, 2, in, GlobalRoute.SIZE + 10, inKey);
        assertEquals(2, arrived(network, a, from, b, to[0], out, 10, outKey));
        assertTrue(shared.isEmpty());
    }

    /** @return the wr_id of the receive that a datagram has taken; -1: none */
    private static long arrived(final SimulatedNetwork network, final SimulatedDevice a, final QueuePairObject from,
            final SimulatedDevice b, final QueuePairObject to, final long out, final int length, final int key)
            throws ProtocolException {
        assertTrue(a.datagram(from, 9, b, SimulatedDevice.number(to), QKEY, out, length, key));
        network.settle();
        assertEquals(0, Memory.i32(a.poll() + Layouts.WC_STATUS));
        final long wc = b.poll();
        if (wc == 0) {
            return -1;
        }
        assertEquals(0, Memory.i32(wc + Layouts.WC_STATUS));
        assertEquals(SimulatedDevice.number(to), Memory.i32(wc + Layouts.WC_QP_NUM));
        return Memory.i64(wc + Layouts.WC_WR_ID);
    }
}
