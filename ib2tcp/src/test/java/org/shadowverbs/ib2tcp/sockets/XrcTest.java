// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.engine.SharedQueue;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.DeviceException;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.verbs.QueuePairObject;
import org.shadowverbs.ib2tcp.verbs.XrcDomains;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/** Requests of XRC, each of which names one of the peer's shared receive queues. */
class XrcTest {
    private static final int SIGNALED = 2;
    private static final int DOMAIN = 3;
    private static final int QUEUES = 3;
    private static final int SENDERS = 2;
    private static final int MESSAGES = 40;
    private static final int SLOTS = 6;
    private static final int SLOT = 700_000;

    private SimulatedNetwork network;
    private SimulatedDevice b;
    private final SharedQueue[] queues = new SharedQueue[QUEUES];
    /** SLOTS for each queue, and a counter. */
    private long to;
    private long counter;
    private int key;
    private int received;

    XrcTest() {
        start(1);
    }

    private void start(final long seed) {
        received = 0;
        network = new SimulatedNetwork(seed);
        b = network.device();
        for (int i = 0; i < QUEUES; i++) {
            queues[i] = b.createShared(SLOTS, DOMAIN);
        }
        final long bytes = (long) SLOT * SLOTS * QUEUES + 64;
        to = b.posix.allocate(bytes);
        counter = to + bytes - 64;
        key = b.regions.add(SimulatedDevice.PD, to, bytes, to, 15);
    }

    /** A process that sends; its peer's queue pair is one of many that receive. */
    private final class Sender {
        final SimulatedDevice device = network.device();
        final QueuePairObject qp = device.create(QueuePair.XRC_SEND, true, null);
        final QueuePairObject peer = b.createReceiver(DOMAIN);
        final long memory = device.posix.allocate(4L * SLOT);
        final int lkey = device.regions.add(qp.domain(), memory, 4L * SLOT, memory, 15);
        final ArrayDeque<byte[]>[] sent;
        int posted;
        int completed;

        @SuppressWarnings({"unchecked", "rawtypes"})
        Sender() {
            SimulatedDevice.connectXrc(device, qp, b, peer);
            sent = new ArrayDeque[QUEUES];
            for (int i = 0; i < QUEUES; i++) {
                sent[i] = new ArrayDeque<>();
            }
        }

        boolean post(final int opcode, final int length, final int srq, final int rkey) {
            final boolean atomic = Frame.atomic(opcode);
            return device.post(qp, posted++, opcode, SIGNALED, new long[] {memory + posted % 4 * SLOT}, new int[] {length},
                    lkey, counter, rkey, atomic ? 1 : srq, 0, atomic ? srq : posted);
        }

        /** A message for a queue at random, or an addition, in which a queue has no part but that it is named. */
        void send() {
            if (posted == MESSAGES || posted - completed >= 4) {
                return;
            }
            final int queue = network.random.nextInt(QUEUES);
            if (network.random.nextInt(3) == 0) {
                assertTrue(post(Frame.FETCH_ADD, 8, queues[queue].number, key));
                return;
            }
            final byte[] data = new byte[network.random.nextInt(network.random.nextInt(3) == 0 ? 600_000 : 3000)];
            network.random.nextBytes(data);
            Memory.put(memory + (posted + 1) % 4 * SLOT, data);
            assertTrue(post(Frame.SEND, data.length, queues[queue].number, 0));
            sent[queue].add(data);
        }

        int status() throws ProtocolException {
            network.settle();
            final long wc = device.poll();
            assertNotEquals(0, wc, "there is a completion");
            return Memory.i32(wc + Layouts.WC_STATUS);
        }
    }

    private void receive(final int queue, final int slot) {
        assertTrue(b.receive(queues[queue], queue * SLOTS + slot, to + (long) (queue * SLOTS + slot) * SLOT, SLOT, key));
    }

    /** Whatever breaks: each message takes one receive of the queue that it names, those of one sender in order. */
    @Property(tries = 20)
    void everyMessageComesToTheQueueThatItNames(@ForAll final long seed) throws ProtocolException {
        start(seed);
        final Sender[] senders = new Sender[SENDERS];
        for (int i = 0; i < SENDERS; i++) {
            senders[i] = new Sender();
        }
        final ArrayDeque<Integer> free = new ArrayDeque<>();
        for (int i = 0; i < QUEUES * SLOTS; i++) {
            free.add(i);
        }
        int completed = 0;
        while (completed < SENDERS * MESSAGES) {
            if (!free.isEmpty() && network.random.nextInt(6) == 0) {
                receive(free.peek() / SLOTS, free.remove() % SLOTS);
            }
            senders[network.random.nextInt(SENDERS)].send();
            if (network.random.nextInt(200) == 0) {
                network.cut();
            }
            network.step();
            completed = 0;
            for (final Sender sender : senders) {
                sender.completed = sender.device.successes(sender.completed);
                completed += sender.completed;
            }
            for (long wc = b.poll(); wc != 0; wc = b.poll()) {
                free.add(check(senders, wc));
            }
        }
        for (long wc = b.poll(); wc != 0; wc = b.poll()) {
            free.add(check(senders, wc));
        }
        for (final Sender sender : senders) {
            for (int i = 0; i < QUEUES; i++) {
                assertTrue(sender.sent[i].isEmpty());
            }
        }
        network.settle();
        int left = 0;
        for (final SharedQueue queue : queues) {
            for (long copy = queue.take(); copy != 0; copy = queue.take()) {
                left++;
            }
        }
        assertEquals(QUEUES * SLOTS, left + free.size(), "no receive is lost");
        assertEquals(SENDERS * MESSAGES - received, Memory.i64(counter), "each addition was executed once");
    }

    /** @return the slot that is free again */
    private int check(final Sender[] senders, final long wc) {
        assertEquals(0, Memory.i32(wc + Layouts.WC_STATUS));
        Sender from = null;
        for (final Sender sender : senders) {
            from = SimulatedDevice.number(sender.peer) == Memory.i32(wc + Layouts.WC_QP_NUM) ? sender : from;
        }
        assertEquals(SimulatedDevice.number(from.qp), Memory.i32(wc + Layouts.WC_SRC_QP));
        final int slot = (int) Memory.i64(wc + Layouts.WC_WR_ID);
        final byte[] data = from.sent[slot / SLOTS].remove();
        assertEquals(data.length, Memory.i32(wc + Layouts.WC_BYTE_LEN));
        assertArrayEquals(data, Memory.bytes(to + (long) slot * SLOT, data.length));
        received++;
        return slot;
    }

    @Test
    void aQueueOfAnotherDomainIsNone() throws ProtocolException {
        final SharedQueue other = b.createShared(SLOTS, DOMAIN + 1);
        for (final int number : new int[] {other.number, b.createShared(SLOTS).number, 77, 0}) {
            final Sender sender = new Sender();
            sender.post(Frame.WRITE, 0, number, 0);
            assertEquals(CompletionQueue.REM_INV_REQ_ERR, sender.status());
            assertEquals(QueuePair.EVENT_REQ_ERR, b.event());
        }
    }

    /** The queue that a request names says whose memory is meant. */
    @Test
    void keysAreThoseOfTheQueuesProtectionDomain() throws ProtocolException {
        final Sender sender = new Sender();
        sender.post(Frame.WRITE, 8, queues[0].number, key);
        assertEquals(CompletionQueue.SUCCESS, sender.status());
        sender.post(Frame.WRITE, 8, queues[0].number, b.regions.add(SimulatedDevice.PD + 1, to, 64, counter, 15));
        assertEquals(CompletionQueue.REM_ACCESS_ERR, sender.status());
    }

    /** Two wait at queues of which one ends: for the other nothing changes. */
    @Test
    void whatIsForAQueueThatEndsFails() throws ProtocolException {
        final Sender first = new Sender();
        final Sender second = new Sender();
        first.post(Frame.SEND, 100, queues[0].number, 0);
        second.post(Frame.SEND, 100, queues[1].number, 0);
        for (int i = 0; i < 1000; i++) {
            network.step();
        }
        b.remove(Memory.i32(queues[0].address + Layouts.SRQ_BELL));
        b.forget(queues[0]);
        receive(1, 0);
        assertEquals(CompletionQueue.REM_INV_REQ_ERR, first.status());
        assertEquals(CompletionQueue.SUCCESS, second.status());
    }

    /** The memory of a receive is not written to after its queue has ended. */
    @Test
    void aMessageUnderWayEndsWithItsQueue() throws ProtocolException {
        final Sender sender = new Sender();
        receive(0, 0);
        sender.post(Frame.SEND, 600_000, queues[0].number, 0);
        final QueuePair peer = b.queuePair(SimulatedDevice.number(sender.peer));
        while (!peer.receives.taken()) {
            network.step();
        }
        b.remove(Memory.i32(queues[0].address + Layouts.SRQ_BELL));
        b.forget(queues[0]);
        Memory.zero(to, SLOT);
        assertEquals(QueuePair.ERR, peer.state);
        assertEquals(CompletionQueue.RETRY_EXC_ERR, sender.status());
        assertArrayEquals(new byte[SLOT], Memory.bytes(to, SLOT));
        assertEquals(0, b.poll());
    }

    /** ibv_open_qp: the queue pair ends with the last handle, all of which hear of what happens. */
    @Test
    void aQueuePairLivesAsLongAsOneOfItsHandles() throws ProtocolException {
        final Sender sender = new Sender();
        final long further = sender.peer.open(5);
        sender.peer.close(sender.peer.address());
        sender.post(Frame.WRITE, 0, queues[0].number, 0);
        assertEquals(CompletionQueue.SUCCESS, sender.status());
        sender.peer.open(6);
        sender.post(Frame.WRITE, 0, 77, 0);
        assertEquals(CompletionQueue.REM_INV_REQ_ERR, sender.status());
        assertEquals(QueuePair.EVENT_REQ_ERR, b.event());
        assertEquals(QueuePair.EVENT_REQ_ERR, b.event());
        assertEquals(-1, b.event());
        sender.peer.close(further);
        assertNotEquals(null, b.queuePair(SimulatedDevice.number(sender.peer)));
    }

    @Test
    void handlesOfOneFileAreOneDomain() {
        final Posix posix = b.posix;
        final XrcDomains domains = new XrcDomains();
        final long alone = domains.open(posix, 5, -1, XrcDomains.O_CREAT);
        final long file = domains.open(posix, 5, b.async.readEnd, XrcDomains.O_CREAT);
        final long same = domains.open(posix, 5, b.async.readEnd, 0);
        assertEquals(domains.domain(file), domains.domain(same));
        assertNotEquals(domains.domain(file), domains.domain(alone));
        assertNotEquals(domains.domain(alone), domains.domain(domains.open(posix, 5, -1, XrcDomains.O_CREAT)));
        assertThrows(DeviceException.class, () -> domains.open(posix, 5, -1, 0));
        assertThrows(DeviceException.class, () -> domains.open(posix, 6, b.async.readEnd, 0), "of another context");
        assertThrows(DeviceException.class, () -> domains.open(posix, 5, b.async.readEnd,
                XrcDomains.O_CREAT | XrcDomains.O_EXCL));
        domains.use(file, 1);
        assertThrows(DeviceException.class, () -> domains.close(posix, file));
        domains.use(file, -1);
        domains.close(posix, file);
        assertThrows(DeviceException.class, () -> domains.close(posix, file), "it is not known any more");
    }
}
