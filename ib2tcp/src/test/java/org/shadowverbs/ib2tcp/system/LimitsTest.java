// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.shadowverbs.ib2tcp.sockets.SimulatedDevice;
import org.shadowverbs.ib2tcp.sockets.SimulatedNetwork;
import org.shadowverbs.ib2tcp.verbs.QueuePairObject;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/** What HCAs have, for programs that have made use of it and go on here; and that it works. */
class LimitsTest {
    private static final int BYTES = 1 << 20;

    private final SimulatedNetwork network = new SimulatedNetwork(1);
    private final SimulatedDevice a = network.device();
    private final SimulatedDevice b = network.device();
    private final long near = a.posix.allocate(BYTES);
    private final long far = b.posix.allocate(BYTES);
    private QueuePairObject qa;
    private int lkey;
    private int rkey;

    private void connect(final int reads) {
        qa = a.create(true);
        final QueuePairObject qb = b.create(true);
        SimulatedDevice.connect(qa, b, SimulatedDevice.number(qb), 1, 2, 7, reads, reads);
        SimulatedDevice.connect(qb, a, SimulatedDevice.number(qa), 2, 1, 7, reads, reads);
        lkey = a.regions.add(qa.domain(), near, BYTES, near, 31);
        rkey = b.regions.add(qb.domain(), far, BYTES, far, 31);
        final byte[] data = new byte[BYTES];
        network.random.nextBytes(data);
        Memory.put(near, data);
    }

    @Test
    void theyAreThoseOfHcas() {
        assertTrue(Limits.MAX_READS >= 128, "rdma_rxe, siw");
        assertTrue(Limits.MAX_SGE >= 128, "rdmavt's SRQs");
        assertTrue(Limits.MAX_INLINE >= 1024, "mlx5");
        assertTrue(Limits.MAX_WR >= 1 << 20, "rdma_rxe");
        assertTrue(Limits.MAX_CQE >= 1 << 22, "mlx4, mlx5");
        assertTrue(Limits.MAX_MESSAGE >= 1L << 31, "the transport");
    }

    @Test
    void allReadsAndAtomicsThatThereCanBeAreUnderWayAtOnce() throws ProtocolException {
        a.requests = 600;
        connect(Limits.MAX_READS);
        for (int i = 0; i < 600; i++) {
            assertTrue(a.post(qa, i, i % 2 == 0 ? Frame.READ : Frame.FETCH_ADD, 2, new long[] {near + 8L * i}, new int[] {8}, lkey,
                    far, rkey, 1, 0));
        }
        network.settle();
        assertEquals(600, a.successes(0));
        assertEquals(300, Memory.i64(far));
    }

    @Test
    void aRequestOfAsManyElementsAsThereCanBe() throws ProtocolException {
        a.sges = Limits.MAX_SGE;
        connect(4);
        final long[] sges = new long[Limits.MAX_SGE];
        final int[] lengths = new int[Limits.MAX_SGE];
        for (int i = 0; i < sges.length; i++) {
            sges[i] = near + 5000L * i;
            lengths[i] = 5000;
        }
        a.post(qa, 0, Frame.WRITE, 2, sges, lengths, lkey, far, rkey, 0, 0);
        network.settle();
        assertEquals(1, a.successes(0));
        assertArrayEquals(Memory.bytes(near, 5000 * sges.length), Memory.bytes(far, 5000 * sges.length));
    }

    @Test
    void anInlineRequestAsLongAsThereCanBe() throws ProtocolException {
        a.inline = Limits.MAX_INLINE;
        a.requests = 100;
        connect(4);
        for (int i = 0; i < 100; i++) {
            a.post(qa, i, Frame.WRITE, 2 | 8, new long[] {near + i}, new int[] {Limits.MAX_INLINE}, 0, far, rkey, 0, 0);
        }
        network.settle();
        assertEquals(100, a.successes(0));
        assertArrayEquals(Memory.bytes(near + 99, Limits.MAX_INLINE), Memory.bytes(far, Limits.MAX_INLINE));
    }

    @Test
    void moreIsRefused() {
        a.sges = Limits.MAX_SGE + 1;
        assertThrows(DeviceException.class, () -> a.create(true));
        a.sges = 1;
        a.inline = Limits.MAX_INLINE + 1;
        assertThrows(DeviceException.class, () -> a.create(true));
        a.inline = 0;
        a.requests = Limits.MAX_WR + 1;
        assertThrows(DeviceException.class, () -> a.create(true));
    }
}
