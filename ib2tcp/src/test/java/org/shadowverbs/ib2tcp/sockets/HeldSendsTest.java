// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.verbs.QueuePairObject;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/** A send queue in SQD. Source: IBTA volume 1, 10.3.1.5. */
class HeldSendsTest {
    private static final int SIGNALED = 2;
    private static final int LENGTH = 200_000;

    private static final class Pair {
        final SimulatedNetwork network;
        final SimulatedDevice a;
        final SimulatedDevice b;
        final QueuePairObject qa;
        final QueuePairObject qb;
        final long near;
        final long far;
        final int lkey;
        final int rkey;
        int posted;
        int completed;

        Pair(final long seed) {
            network = new SimulatedNetwork(seed);
            a = network.device();
            b = network.device();
            qa = a.create(false);
            qb = b.create(false);
            near = a.posix.allocate(LENGTH + 8);
            far = b.posix.allocate(LENGTH + 8);
            Memory.zero(far, LENGTH + 8);
            lkey = a.regions.add(qa.domain(), near, LENGTH + 8, near, 15);
            rkey = b.regions.add(qb.domain(), far, LENGTH + 8, far, 15);
            SimulatedDevice.connect(qa, b, SimulatedDevice.number(qb), 1, 2, 7);
            SimulatedDevice.connect(qb, a, SimulatedDevice.number(qa), 2, 1, 7);
        }

        /** WRITEs of many frames, and every third an addition, by which those that were executed are counted. */
        void post(final int requests) {
            for (int i = 0; i < requests; i++) {
                final boolean adds = posted % 3 == 2;
                a.post(qa, posted++, adds ? Frame.FETCH_ADD : Frame.WRITE, SIGNALED, new long[] {near},
                        new int[] {adds ? 8 : LENGTH}, lkey, adds ? far + LENGTH : far, rkey, 1, 0);
            }
        }

        static int additions(final int requests) {
            return requests / 3;
        }

        void assertExecuted(final int requests) {
            assertEquals(requests, completed, "completions");
            assertEquals(additions(requests), Memory.i64(far + LENGTH), "additions");
        }

        void badTime(final int steps) throws ProtocolException {
            int cuts = 0;
            for (int i = 0; i < steps; i++) {
                if (cuts < 3 && network.random.nextInt(20) == 0) {
                    network.cut();
                    cuts++;
                }
                network.step();
            }
        }

        void hold(final boolean notify) {
            try (Arena arena = Arena.ofConfined()) {
                final MemorySegment attr = ibv_qp_attr.allocate(arena);
                ibv_qp_attr.qp_state(attr, QueuePair.SQD);
                ibv_qp_attr.en_sqd_async_notify(attr, (byte) (notify ? 1 : 0));
                qa.modify(attr, verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_EN_SQD_ASYNC_NOTIFY());
            }
        }

        boolean draining() {
            try (Arena arena = Arena.ofConfined()) {
                final MemorySegment attr = ibv_qp_attr.allocate(arena).fill((byte) 0xff);
                qa.query(attr, ibv_qp_init_attr.allocate(arena));
                return ibv_qp_attr.sq_draining(attr) != 0;
            }
        }

        void holdAndRelease(final int before, final int since, final int steps, final boolean notify) throws ProtocolException {
            post(before);
            badTime(steps);
            hold(notify);
            post(since);
            badTime(steps);
            while (draining()) {
                network.step();
            }
            completed = a.successes(0);
            final int begun = completed;
            assertEquals(true, begun <= before, "a request was begun in SQD");
            assertExecuted(begun);
            for (int i = 0; i < 100; i++) {
                network.step();
            }
            completed = a.successes(completed);
            assertExecuted(begun);
            assertEquals(notify ? QueuePair.EVENT_SQ_DRAINED : -1, a.event());
            assertEquals(-1, a.event(), "it is said once");
            SimulatedDevice.toState(qa, QueuePair.RTS);
            while (completed < posted) {
                network.step();
                completed = a.successes(completed);
            }
            assertExecuted(before + since);
            assertEquals(-1, a.event());
        }
    }

    /** Whatever breaks meanwhile: what was begun is executed and completed, once; what was not is so in RTS. */
    @Property(tries = 200)
    void whatWasBegunIsExecutedAndNothingElse(@ForAll final long seed, @ForAll @IntRange(max = 12) final int before,
            @ForAll @IntRange(max = 6) final int since, @ForAll @IntRange(max = 200) final int steps, @ForAll final boolean notify)
            throws ProtocolException {
        new Pair(seed).holdAndRelease(before, since, steps, notify);
    }

    /** A request that waits for a receive has been begun. */
    @Test
    void theQueueIsNotDrainedWhileARequestWaitsForAReceive() throws ProtocolException {
        final Pair p = new Pair(1);
        p.a.post(p.qa, p.posted++, Frame.SEND, SIGNALED, new long[] {p.near}, new int[] {8}, p.lkey, 0, 0, 0, 0);
        for (int i = 0; i < 100; i++) {
            p.network.step();
        }
        p.hold(true);
        for (int i = 0; i < 1000; i++) {
            p.network.step();
            assertEquals(true, p.draining());
        }
        assertEquals(-1, p.a.event());
        p.b.receive(p.qb, 1, p.far, 8, p.rkey);
        while (p.draining()) {
            p.network.step();
        }
        assertEquals(1, p.a.successes(0));
        assertEquals(QueuePair.EVENT_SQ_DRAINED, p.a.event());
    }
}
