// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.queue.Completion;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.Address;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.unreliable.UnreliableRequester;
import org.shadowverbs.ib2tcp.verbs.QueuePairObject;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.GlobalRoute;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/** Unreliable connections and datagrams on the simulated network: what comes is whole, in order, and comes once. */
class UnreliableTest {
    private static final int SIGNALED = 2;
    private static final int INLINE = 8;
    private static final int MESSAGES = 60;
    private static final int SLOTS = 8;
    private static final int SLOT = 700_000;
    private static final int SECRET = 4711;

    private static int word(final long wc, final long offset) {
        assertNotEquals(0, wc, "there is a completion");
        return Memory.i32(wc + offset);
    }

    /** Requests always complete, in order; of the messages some arrive, without broken links and with receives all. */
    @Property(tries = 30)
    void messagesOfAConnectionArriveWholeOrNotAtAll(@ForAll final long seed, @ForAll final boolean lossless)
            throws ProtocolException {
        final SimulatedNetwork network = new SimulatedNetwork(seed);
        final SimulatedDevice a = network.device();
        final SimulatedDevice b = network.device();
        final QueuePairObject qa = a.create(QueuePair.UC, true, null);
        final QueuePairObject qb = b.create(QueuePair.UC, false, null);
        SimulatedDevice.connectUnreliable(qa, b, SimulatedDevice.number(qb));
        SimulatedDevice.connectUnreliable(qb, a, SimulatedDevice.number(qa));
        final long from = a.posix.allocate((long) SLOT * SLOTS);
        final long to = b.posix.allocate((long) SLOT * SLOTS);
        final int lkey = a.regions.add(qa.domain(), from, (long) SLOT * SLOTS, from, 15);
        final int rkey = b.regions.add(qb.domain(), to, (long) SLOT * SLOTS, to, 15);
        final List<byte[]> sent = new ArrayList<>();
        int completed = 0;
        int received = 0;
        int receives = 0;
        int last = -1;
        boolean busy = true;
        while (completed < MESSAGES || busy) {
            if (receives - received < SLOTS - 1 && (lossless || network.random.nextInt(8) == 0)) {
                b.receive(qb, receives, to + (long) (receives % SLOTS) * SLOT, SLOT, rkey);
                receives++;
            }
            if (sent.size() < MESSAGES && sent.size() - completed < SLOTS - 1
                    && (!lossless || sent.size() < receives) && network.random.nextInt(4) == 0) {
                final int number = sent.size();
                final long at = from + (long) (number % SLOTS) * SLOT;
                final boolean inline = network.random.nextInt(4) == 0;
                final byte[] data = new byte[network.random.nextInt(inline ? 128
                        : network.random.nextInt(3) == 0 ? 600_000 : 3000)];
                network.random.nextBytes(data);
                Memory.put(at, data);
                final int split = data.length / 3;
                assertTrue(a.post(qa, number, Frame.SEND_IMM, SIGNALED | (inline ? INLINE : 0),
                        new long[] {at, at + split}, new int[] {split, data.length - split}, lkey, 0, 0, 0, 0));
                sent.add(data);
            }
            if (!lossless && network.random.nextInt(80) == 0) {
                network.cut();
            }
            busy = network.step();
            completed = a.successes(completed);
            for (long wc = b.poll(); wc != 0; wc = b.poll()) {
                assertEquals(0, word(wc, Layouts.WC_STATUS));
                assertEquals(received, Memory.i64(wc + Layouts.WC_WR_ID), "receives complete in order");
                final int number = word(wc, Layouts.WC_IMM);
                assertTrue(number > last, "messages come in order, and once");
                last = number;
                assertEquals(sent.get(number).length, word(wc, Layouts.WC_BYTE_LEN));
                assertArrayEquals(sent.get(number),
                        Memory.bytes(to + (long) (received % SLOTS) * SLOT, sent.get(number).length));
                received++;
            }
        }
        if (lossless) {
            assertEquals(MESSAGES, received);
        }
    }

    private static final class Pair {
        final SimulatedNetwork network = new SimulatedNetwork(1);
        final SimulatedDevice a = network.device();
        final SimulatedDevice b = network.device();
        final QueuePairObject qa = a.create(QueuePair.UC, false, null);
        final QueuePairObject qb = b.create(QueuePair.UC, false, null);
        final long near = a.posix.allocate(4096);
        final long far = b.posix.allocate(4096);
        final int lkey = a.regions.add(qa.domain(), near, 4096, near, 15);
        final int rkey = b.regions.add(qb.domain(), far, 4096, far, 15);

        Pair() {
            SimulatedDevice.connectUnreliable(qa, b, SimulatedDevice.number(qb));
            SimulatedDevice.connectUnreliable(qb, a, SimulatedDevice.number(qa));
        }

        int status(final int opcode, final int length, final long remote, final int key, final int localKey)
                throws ProtocolException {
            a.post(qa, 9, opcode, SIGNALED, new long[] {near}, new int[] {length}, localKey, remote, key, 1, 0);
            network.settle();
            return word(a.poll(), Layouts.WC_STATUS);
        }
    }

    @Test
    void whatTheResponderCannotTakeIsDropped() throws ProtocolException {
        final Pair p = new Pair();
        assertEquals(0, p.status(Frame.SEND, 100, 0, 0, p.lkey), "no receive");
        p.b.receive(p.qb, 1, p.far, 99, p.rkey);
        assertEquals(0, p.status(Frame.SEND, 100, 0, 0, p.lkey), "too long");
        assertEquals(0, p.status(Frame.WRITE_IMM, 100, p.far + 4000, p.rkey, p.lkey), "out of bounds");
        assertEquals(0, p.status(Frame.WRITE, 100, p.far, p.rkey + 1, p.lkey), "another's key");
        p.b.queuePair(SimulatedDevice.number(p.qb)).access = 0;
        assertEquals(0, p.status(Frame.WRITE, 100, p.far, p.rkey, p.lkey), "not allowed");
        assertEquals(0, p.b.poll(), "nothing has come");
        assertEquals(0, p.status(Frame.SEND, 99, 0, 0, p.lkey));
        assertEquals(99, word(p.b.poll(), Layouts.WC_BYTE_LEN), "the queue pair goes on");
    }

    @Test
    void aLocalErrorStopsTheSendQueueAlone() throws ProtocolException {
        final Pair p = new Pair();
        assertEquals(CompletionQueue.LOC_PROT_ERR, p.status(Frame.SEND, 100, 0, 0, p.lkey + 1));
        assertEquals(QueuePair.SQE, p.a.queuePair(SimulatedDevice.number(p.qa)).state);
        assertEquals(CompletionQueue.WR_FLUSH_ERR, p.status(Frame.SEND, 100, 0, 0, p.lkey));
        p.a.receive(p.qa, 5, p.near, 100, p.lkey);
        p.b.post(p.qb, 6, Frame.SEND, SIGNALED, new long[] {p.far}, new int[] {10}, p.rkey, 0, 0, 0, 0);
        p.network.settle();
        assertEquals(5, Memory.i64(p.a.poll() + Layouts.WC_WR_ID), "it receives all the same");
        SimulatedDevice.toState(p.qa, QueuePair.RTS);
        assertEquals(0, p.status(Frame.SEND, 100, 0, 0, p.lkey));
    }

    @Test
    void toAPeerThatIsGoneRequestsCompleteAllTheSame() throws ProtocolException {
        final Pair p = new Pair();
        p.b.remove(p.b.queuePair(SimulatedDevice.number(p.qb)));
        assertEquals(0, p.status(Frame.WRITE, 8, p.far, p.rkey, p.lkey));
    }

    /** Three processes, datagrams crosswise, over links that break. */
    @Property(tries = 30)
    void datagramsArriveWholeOrNotAtAll(@ForAll final long seed, @ForAll final boolean lossless)
            throws ProtocolException {
        final SimulatedNetwork network = new SimulatedNetwork(seed);
        final Station[] stations = new Station[3];
        for (int i = 0; i < stations.length; i++) {
            stations[i] = new Station(network.device());
        }
        boolean busy = true;
        while (busy || stations[0].sent.size() < MESSAGES || stations[1].sent.size() < MESSAGES
                || stations[2].sent.size() < MESSAGES) {
            for (final Station station : stations) {
                station.post();
                if (network.random.nextInt(4) == 0) {
                    final Station to = stations[network.random.nextInt(stations.length)];
                    if (!lossless || to.expected < to.posted) {
                        station.send(to);
                    }
                }
            }
            if (!lossless && network.random.nextInt(80) == 0) {
                network.cut();
            }
            busy = network.step();
            for (final Station station : stations) {
                station.look(stations, lossless);
            }
        }
        for (final Station station : stations) {
            assertEquals(MESSAGES, station.completed);
        }
        if (lossless) {
            assertEquals(stations.length * MESSAGES,
                    stations[0].received + stations[1].received + stations[2].received);
        }
    }

    /** A process with one queue pair of datagrams. */
    private static final class Station {
        private static final int LENGTH = Frame.MAX_DATAGRAM + GlobalRoute.SIZE;
        private static final int RECEIVES = 31;
        final SimulatedDevice device;
        final QueuePairObject qp;
        final List<byte[]> sent = new ArrayList<>();
        final List<Station> whom = new ArrayList<>();
        final int[] last = {-1, -1, -1};
        final long outgoing;
        final long incoming;
        final int key;
        int completed;
        int posted;
        int expected;
        int received;

        Station(final SimulatedDevice device) {
            this.device = device;
            device.lid = device.network.random.nextInt(2) * (1 + device.network.random.nextInt(Address.LIDS));
            qp = device.create(QueuePair.UD, true, null);
            SimulatedDevice.ready(qp, SECRET);
            outgoing = device.posix.allocate((long) LENGTH * (SLOTS + RECEIVES));
            incoming = outgoing + (long) LENGTH * SLOTS;
            key = device.regions.add(qp.domain(), outgoing, (long) LENGTH * (SLOTS + RECEIVES), outgoing, 1);
        }

        void post() {
            while (posted - received < RECEIVES) {
                device.receive(qp, posted, incoming + (long) (posted % RECEIVES) * LENGTH, LENGTH, key);
                posted++;
            }
        }

        void send(final Station to) {
            if (sent.size() == MESSAGES || sent.size() - completed >= SLOTS) {
                return;
            }
            final byte[] data = new byte[device.network.random.nextInt(Frame.MAX_DATAGRAM + 1)];
            device.network.random.nextBytes(data);
            final long at = outgoing + (long) (sent.size() % SLOTS) * LENGTH;
            Memory.put(at, data);
            assertTrue(device.datagram(qp, sent.size(), to.device, SimulatedDevice.number(to.qp), SECRET, at,
                    data.length, key));
            sent.add(data);
            whom.add(to);
            to.expected++;
        }

        void look(final Station[] stations, final boolean lossless) {
            for (long wc = device.poll(); wc != 0; wc = device.poll()) {
                assertEquals(0, word(wc, Layouts.WC_STATUS));
                if (word(wc, Layouts.WC_OPCODE) == 0) {
                    assertEquals(completed++, Memory.i64(wc + Layouts.WC_WR_ID), "requests complete in order");
                    continue;
                }
                assertEquals(received, Memory.i64(wc + Layouts.WC_WR_ID), "receives complete in order");
                final long at = incoming + (long) (received++ % RECEIVES) * LENGTH;
                final int source = (int) Memory.net64(at + 16) - 1;
                final Station from = stations[source];
                final int number = word(wc, Layouts.WC_IMM);
                assertTrue(number > last[source], "those of one sender come in order, and once");
                last[source] = number;
                assertEquals(this, from.whom.get(number));
                assertEquals(SimulatedDevice.number(from.qp), word(wc, Layouts.WC_SRC_QP));
                assertEquals(from.device.lid != 0 ? from.device.lid : Address.sourceLid(from.device.id),
                        word(wc, Layouts.WC_SLID) & 0xffff);
                assertEquals(Completion.GRH | Completion.WITH_IMM, word(wc, Layouts.WC_FLAGS));
                assertEquals(device.id, Memory.net64(at + 32), "the header names the receiver");
                final byte[] data = from.sent.get(number);
                assertEquals(GlobalRoute.SIZE + data.length, word(wc, Layouts.WC_BYTE_LEN));
                assertArrayEquals(data, Memory.bytes(at + GlobalRoute.SIZE, data.length));
            }
        }
    }

    private static long outcome(final Station from, final Station to, final int qkey, final int length)
            throws ProtocolException {
        from.device.datagram(from.qp, 1, to.device, SimulatedDevice.number(to.qp), qkey, from.outgoing, length,
                from.key);
        from.device.network.settle();
        assertEquals(0, word(from.device.poll(), Layouts.WC_STATUS));
        return to.device.poll();
    }

    @Test
    void whoDoesNotKnowTheKeyIsNotHeard() throws ProtocolException {
        final SimulatedNetwork network = new SimulatedNetwork(1);
        final Station a = new Station(network.device());
        final Station b = new Station(network.device());
        assertEquals(0, outcome(a, b, SECRET, 10), "no receive");
        b.device.receive(b.qp, 7, b.incoming, GlobalRoute.SIZE + 9, b.key);
        assertEquals(0, outcome(a, b, SECRET, 10), "too long with the header");
        assertEquals(0, outcome(a, b, SECRET + 1, 9), "the wrong key");
        assertNotEquals(0, outcome(a, b, SECRET, 9));
        b.device.receive(b.qp, 8, b.incoming, GlobalRoute.SIZE + 9, b.key);
        assertNotEquals(0, outcome(a, b, 0x8000_0000, 9), "a controlled key stands for the sender's own");
    }

    @Test
    void aDatagramLongerThanThePortsUnitIsAnError() throws ProtocolException {
        final SimulatedNetwork network = new SimulatedNetwork(1);
        final Station a = new Station(network.device());
        a.device.datagram(a.qp, 1, a.device, SimulatedDevice.number(a.qp), SECRET, a.outgoing, Frame.MAX_DATAGRAM + 1,
                a.key);
        assertEquals(CompletionQueue.LOC_LEN_ERR, word(a.device.poll(), Layouts.WC_STATUS));
    }

    /** A program may know by other means that a datagram is not needed any more, and use its memory for another. */
    @Test
    void aDatagramThatWaitsIsWhatWasPosted() throws ProtocolException {
        final SimulatedNetwork network = new SimulatedNetwork(1);
        final Station a = new Station(network.device());
        final Station b = new Station(network.device());
        final Station c = new Station(network.device());
        outcome(a, b, SECRET, 1); // makes the connection
        b.post();
        c.post();
        network.stop(b.device);
        final Station[] to = {b, c, b};
        for (int i = 0; i < to.length; i++) {
            Memory.i64(a.outgoing, i);
            a.device.datagram(a.qp, i, to[i].device, SimulatedDevice.number(to[i].qp), SECRET, a.outgoing, 8, a.key);
        }
        Memory.i64(a.outgoing, -1);
        assertEquals(0, a.device.poll(), "they wait");
        network.goOn(b.device);
        network.settle();
        for (int i = 0; i < to.length; i++) {
            assertEquals(i, Memory.i64(a.device.poll() + Layouts.WC_WR_ID));
            final long wc = to[i].device.poll();
            assertEquals(GlobalRoute.SIZE + 8, word(wc, Layouts.WC_BYTE_LEN));
            assertEquals(i, Memory.i64(to[i].incoming + Memory.i64(wc + Layouts.WC_WR_ID) * Station.LENGTH + GlobalRoute.SIZE));
        }
    }

    @Test
    void aProcessThatStandsStillHoldsUpNobody() throws ProtocolException {
        final SimulatedNetwork network = new SimulatedNetwork(1);
        final Station a = new Station(network.device());
        final Station still = new Station(network.device());
        final Station b = new Station(network.device());
        outcome(a, still, SECRET, 1); // makes the connection
        network.stop(still.device);
        b.post();
        for (int i = 0; i < 5; i++) {
            a.device.datagram(a.qp, i, still.device, SimulatedDevice.number(still.qp), SECRET, a.outgoing, 1, a.key);
            a.device.datagram(a.qp, i, b.device, SimulatedDevice.number(b.qp), SECRET, a.outgoing, 1, a.key);
        }
        final long begun = network.time;
        network.settle();
        assertTrue(network.time - begun < 2 * UnreliableRequester.PATIENCE, "it is waited for once");
        for (int i = 0; i < 5; i++) {
            assertNotEquals(0, b.device.poll());
        }
    }
}
