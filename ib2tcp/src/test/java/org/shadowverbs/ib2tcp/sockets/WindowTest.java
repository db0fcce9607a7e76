// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import org.junit.jupiter.api.Test;
import org.shadowverbs.ib2tcp.engine.MemoryRegions;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.queue.Completion;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.DeviceException;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.verbs.QueuePairObject;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/** Memory windows: B binds them to its memory, A goes through them. */
class WindowTest {
    private static final int SIGNALED = 2;
    private static final int BYTES = 4096;
    private static final int ACCESS = 31;

    private final SimulatedNetwork network = new SimulatedNetwork(1);
    private final SimulatedDevice a = network.device();
    private final SimulatedDevice b = network.device();
    private final QueuePairObject qa = a.create(false);
    private final QueuePairObject qb = b.create(false);
    private final long near = a.posix.allocate(BYTES);
    private final long far = b.posix.allocate(BYTES);
    private final int lkey = a.regions.add(qa.domain(), near, BYTES, near, ACCESS);
    private final int key = b.regions.add(qb.domain(), far, BYTES, far, ACCESS);

    WindowTest() {
        SimulatedDevice.connect(qa, b, SimulatedDevice.number(qb), 1, 2, 7);
        SimulatedDevice.connect(qb, a, SimulatedDevice.number(qa), 2, 1, 7);
    }

    private int status(final SimulatedDevice of) throws ProtocolException {
        network.settle();
        final long wc = of.poll();
        assertNotEquals(0, wc, "there is a completion");
        return Memory.i32(wc + Layouts.WC_STATUS);
    }

    private int bind(final int rkey, final int lkeyOfRegion, final long from, final int bytes)
            throws ProtocolException {
        b.local(qb, 1, Frame.BIND_MW, rkey, lkeyOfRegion, from, bytes);
        return status(b);
    }

    private int write(final int rkey, final long to, final int bytes) throws ProtocolException {
        a.post(qa, 2, Frame.WRITE, SIGNALED, new long[] {near}, new int[] {bytes}, lkey, to, rkey, 0, 0);
        return status(a);
    }

    /** Through a window one gets exactly where it is. */
    @Property(tries = 100)
    void aWindowHasItsBounds(@ForAll @IntRange(max = BYTES - 1) final int from,
            @ForAll @IntRange(min = 1, max = BYTES) final int length, @ForAll @IntRange(max = BYTES) final int at,
            @ForAll @IntRange(min = 1, max = BYTES) final int bytes, @ForAll final boolean type2)
            throws ProtocolException {
        final WindowTest t = new WindowTest();
        final int rkey = t.b.regions.addWindow(t.qb.domain(), type2) + 1;
        final boolean fits = from + length <= BYTES;
        assertEquals(fits ? 0 : CompletionQueue.MW_BIND_ERR, t.bind(rkey, t.key, t.far + from, length));
        if (fits) {
            assertEquals(at >= from && at + bytes <= from + length ? 0 : CompletionQueue.REM_ACCESS_ERR,
                    t.write(rkey, t.far + at, bytes));
        }
    }

    @Test
    void whatMakesABindAnError() throws ProtocolException {
        final int noBinding = b.regions.add(qb.domain(), far, BYTES, far, 15);
        final int window = b.regions.addWindow(qb.domain(), true);
        assertEquals(CompletionQueue.MW_BIND_ERR, bind(window, noBinding, far, 8), "a region without leave");
        assertEquals(QueuePair.ERR, b.queuePair(SimulatedDevice.number(qb)).state);
        final WindowTest another = new WindowTest();
        assertEquals(CompletionQueue.MW_BIND_ERR, another.bind(another.key, another.key, another.far, 8),
                "the key of a region");
        final WindowTest third = new WindowTest();
        final int bound = third.b.regions.addWindow(third.qb.domain(), true);
        assertEquals(0, third.bind(bound, third.key, third.far, 8));
        assertEquals(CompletionQueue.MW_BIND_ERR, third.bind(bound + 1, third.key, third.far, 8),
                "type 2 is bound once");
    }

    @Test
    void aRegionOutlivesItsWindows() throws ProtocolException {
        final int window = b.regions.addWindow(qb.domain(), false);
        assertEquals(0, bind(window + 1, key, far, 8));
        assertEquals(Posix.EBUSY, assertThrows(DeviceException.class, () -> b.regions.remove(key)).errno());
        assertEquals(0, bind(window + 2, 0, 0, 0), "one of type 1 is unbound by a bind of nothing");
        b.regions.remove(key);
    }

    @Test
    void invalidatedByOneselfItIsShut() throws ProtocolException {
        final int window = b.regions.addWindow(qb.domain(), true);
        assertEquals(0, bind(window, key, far, 8));
        assertEquals(0, write(window, far, 8));
        b.local(qb, 1, Frame.LOCAL_INV, window, 0, 0, 0);
        assertEquals(0, status(b));
        assertEquals(CompletionQueue.REM_ACCESS_ERR, write(window, far, 8));
    }

    @Test
    void invalidatedByThePeerItIsShutAndSaidToBe() throws ProtocolException {
        final int window = b.regions.addWindow(qb.domain(), true);
        assertEquals(0, bind(window, key, far, 8));
        b.receive(qb, 5, far, BYTES, key);
        a.post(qa, 3, Frame.SEND_INV, SIGNALED, new long[] {near}, new int[] {4}, lkey, 0, 0, 0, 0, window);
        assertEquals(0, status(a));
        final long wc = b.poll();
        assertEquals(Completion.WITH_INV, Memory.i32(wc + Layouts.WC_FLAGS));
        assertEquals(window, Memory.i32(wc + Layouts.WC_IMM));
        assertEquals(CompletionQueue.REM_ACCESS_ERR, write(window, far, 8));
    }

    @Test
    void anotherQueuePairCannotUseOrInvalidateIt() throws ProtocolException {
        final int window = b.regions.addWindow(qb.domain(), true);
        assertEquals(0, bind(window, key, far, 8));
        final QueuePair other = b.queuePair(SimulatedDevice.number(b.create(false)));
        assertEquals(0, b.regions.findRemote(other, window, far, 8, MemoryRegions.REMOTE_WRITE));
        assertEquals(false, b.regions.invalidate(window, other));
        b.remove(b.queuePair(SimulatedDevice.number(qb)));
        b.regions.remove(key); // the window went with its queue pair
    }

    /** A bind between messages that are sent again and again is executed once, and completed in its place. */
    @Test
    void aBindBehindAMessageThatWaitsIsExecutedOnce() throws ProtocolException {
        a.regions.remove(a.regions.addWindow(qa.domain(), true));
        final int window = a.regions.addWindow(qa.domain(), true);
        a.post(qa, 1, Frame.SEND, SIGNALED, new long[] {near}, new int[] {8}, lkey, 0, 0, 0, 0);
        a.local(qa, 2, Frame.BIND_MW, window, lkey, near, 8);
        a.post(qa, 3, Frame.SEND, SIGNALED, new long[] {near}, new int[] {8}, lkey, 0, 0, 0, 0);
        for (int i = 0; i < 200; i++) {
            network.step();
        }
        assertEquals(0, a.poll(), "the first waits for a receive");
        b.receive(qb, 1, far, 8, key);
        b.receive(qb, 2, far, 8, key);
        assertEquals(0, status(a));
        assertEquals(2, Memory.i64(a.poll() + Layouts.WC_WR_ID));
        assertEquals(3, Memory.i64(a.poll() + Layouts.WC_WR_ID));
    }

    @Test
    void aNullRegionReadsAsZerosAndForgetsWhatIsWritten() throws ProtocolException {
        final int nothing = a.regions.addNothing(qa.domain());
        Memory.i64(far, -1);
        a.post(qa, 1, Frame.WRITE, SIGNALED, new long[] {12345}, new int[] {8}, nothing, far, key, 0, 0);
        assertEquals(0, status(a));
        assertEquals(0, Memory.i64(far));
        Memory.i64(far, -1);
        a.post(qa, 1, Frame.READ, SIGNALED, new long[] {12345}, new int[] {8}, nothing, far, key, 0, 0);
        assertEquals(0, status(a));
        a.post(qa, 1, Frame.WRITE, SIGNALED, new long[] {0}, new int[] {8}, nothing, far, key, 0, 0);
        assertEquals(0, status(a));
        assertEquals(0, Memory.i64(far), "what was read into it is gone");
        a.regions.remove(nothing);
    }
}
