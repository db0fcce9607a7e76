// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.verbs.QueuePairObject;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/**
 * A key is withdrawn in the midst of a message, at every point of it: when that has returned the memory is its owner's again,
 * and the message ends as over an HCA. A sends to B.
 */
class WithdrawnKeyTest {
    private static final int SIGNALED = 2;
    /** Three frames. */
    private static final int BYTES = 600_000;
    private static final byte DATA = 0x11;
    private static final byte OWNERS = 0x77;
    private static final int MOST_STEPS = 5000;

    /** Whose key is withdrawn. */
    private enum Side {
        SENDER, RECEIVER
    }

    private enum How {
        DEREGISTERED, INVALIDATED, UNBOUND
    }

    /** One message, of which a key is withdrawn after a number of steps of the network. */
    private static final class Attempt {
        final SimulatedNetwork network;
        final SimulatedDevice a;
        final SimulatedDevice b;
        final QueuePairObject qa;
        final QueuePairObject qb;
        final long near;
        final long far;
        final int nearKey;
        final int farKey;
        final int status;
        final boolean midst;

        Attempt(final int type, final int opcode, final Side side, final How how, final int steps) throws ProtocolException {
            network = new SimulatedNetwork(5);
            a = network.device();
            b = network.device();
            qa = a.create(type, false, null);
            qb = b.create(type, false, null);
            if (type == QueuePair.RC) {
                SimulatedDevice.connect(qa, b, SimulatedDevice.number(qb), 1, 2, 7);
                SimulatedDevice.connect(qb, a, SimulatedDevice.number(qa), 2, 1, 7);
            } else {
                SimulatedDevice.connectUnreliable(qa, b, SimulatedDevice.number(qb));
                SimulatedDevice.connectUnreliable(qb, a, SimulatedDevice.number(qa));
            }
            near = a.posix.allocate(BYTES);
            far = b.posix.allocate(BYTES);
            final boolean reads = opcode == Frame.READ;
            fill(reads ? far : near, DATA);
            nearKey = a.regions.add(qa.domain(), near, BYTES, near, 31);
            final int region = b.regions.add(qb.domain(), far, BYTES, far, 31);
            farKey = how == How.DEREGISTERED ? region : window(region, how == How.INVALIDATED);
            if (Frame.consumes(opcode)) {
                b.receive(qb, 3, far, BYTES, region);
            }
            a.post(qa, 9, opcode, SIGNALED, new long[] {near, near + 1000}, new int[] {1000, BYTES - 1000}, nearKey, far,
                    farKey, 0, 0);
            for (int i = 0; i < steps; i++) {
                network.step();
            }
            // The owner takes his memory back, and uses it for something else.
            final boolean ofSender = side == Side.SENDER;
            final long mine = ofSender ? near : far;
            if (ofSender) {
                a.regions.remove(nearKey);
            } else if (how == How.INVALIDATED) {
                b.regions.invalidate(farKey, b.queuePair(SimulatedDevice.number(qb)));
            } else if (how == How.UNBOUND) {
                assertTrue(b.regions.bind(b.queuePair(SimulatedDevice.number(qb)), farKey, 0, 0, 0, 0));
            } else {
                b.regions.remove(farKey);
            }
            final byte[] before = Memory.bytes(mine, BYTES);
            midst = count(before, DATA) > 0 && count(before, DATA) < BYTES;
            fill(mine, OWNERS);
            network.settle();
            assertEquals(BYTES, count(Memory.bytes(mine, BYTES), OWNERS), "what was written after " + steps + " steps");
            final byte[] others = Memory.bytes(ofSender ? far : near, BYTES);
            assertEquals(0, count(others, OWNERS), "what was read after " + steps + " steps");
            final long wc = a.poll();
            assertNotEquals(0, wc, "the request is completed");
            status = Memory.i32(wc + Layouts.WC_STATUS);
            final boolean source = ofSender != reads;
            if (status == CompletionQueue.SUCCESS && source && type == QueuePair.RC) {
                assertEquals(BYTES, count(others, DATA), "a message that is a success is whole");
            }
        }

        private int window(final int region, final boolean type2) throws ProtocolException {
            final int key = b.regions.addWindow(qb.domain(), type2);
            assertTrue(b.regions.bind(b.queuePair(SimulatedDevice.number(qb)), key, region, far, BYTES, 15));
            return key;
        }

        private static void fill(final long at, final byte value) {
            final byte[] bytes = new byte[BYTES];
            Arrays.fill(bytes, value);
            Memory.put(at, bytes);
        }

        private static int count(final byte[] bytes, final byte value) {
            int n = 0;
            for (final byte b : bytes) {
                n += b == value ? 1 : 0;
            }
            return n;
        }

        int state(final SimulatedDevice of, final QueuePairObject qp) {
            return of.queuePair(SimulatedDevice.number(qp)).state;
        }
    }

    private interface End {
        void check(Attempt attempt);
    }

    /** At every point, until the message is over before the key is withdrawn: then it is a success. */
    private static void everywhere(final int type, final int opcode, final Side side, final How how, final int status,
            final End end) throws ProtocolException {
        int failures = 0;
        int inTheMidst = 0;
        for (int steps = 0; steps < MOST_STEPS; steps++) {
            final Attempt attempt = new Attempt(type, opcode, side, how, steps);
            if (attempt.status == CompletionQueue.SUCCESS) {
                assertTrue(failures > 3, "before anything has been sent it cannot be a success");
                assertTrue((side == Side.SENDER) != (opcode == Frame.READ) || inTheMidst > 3, "it was hit in its midst");
                return;
            }
            assertEquals(status, attempt.status);
            end.check(attempt);
            failures++;
            inTheMidst += attempt.midst ? 1 : 0;
        }
        throw new AssertionError("the message never came to its end");
    }

    private static void refusedByB(final Attempt attempt) {
        assertEquals(QueuePair.ERR, attempt.state(attempt.a, attempt.qa));
        assertEquals(QueuePair.ERR, attempt.state(attempt.b, attempt.qb));
        assertEquals(QueuePair.EVENT_ACCESS_ERR, attempt.b.event(), "B hears of it");
    }

    @Test
    void aWriteIsRefusedWhenItsRegionIsDeregistered() throws ProtocolException {
        everywhere(QueuePair.RC, Frame.WRITE, Side.RECEIVER, How.DEREGISTERED, CompletionQueue.REM_ACCESS_ERR,
                WithdrawnKeyTest::refusedByB);
    }

    @Test
    void aWriteIsRefusedWhenItsWindowIsInvalidatedOrBoundElsewhere() throws ProtocolException {
        everywhere(QueuePair.RC, Frame.WRITE, Side.RECEIVER, How.INVALIDATED, CompletionQueue.REM_ACCESS_ERR,
                WithdrawnKeyTest::refusedByB);
        everywhere(QueuePair.RC, Frame.WRITE, Side.RECEIVER, How.UNBOUND, CompletionQueue.REM_ACCESS_ERR,
                WithdrawnKeyTest::refusedByB);
    }

    @Test
    void aReadIsRefusedWhenItsRegionIsDeregistered() throws ProtocolException {
        everywhere(QueuePair.RC, Frame.READ, Side.RECEIVER, How.DEREGISTERED, CompletionQueue.REM_ACCESS_ERR,
                WithdrawnKeyTest::refusedByB);
    }

    @Test
    void aReadIntoMemoryThatIsDeregisteredIsALocalError() throws ProtocolException {
        everywhere(QueuePair.RC, Frame.READ, Side.SENDER, How.DEREGISTERED, CompletionQueue.LOC_PROT_ERR,
                attempt -> assertEquals(QueuePair.ERR, attempt.state(attempt.a, attempt.qa)));
    }

    @Test
    void aMessageFromMemoryThatIsDeregisteredIsALocalError() throws ProtocolException {
        for (final int opcode : new int[] {Frame.WRITE, Frame.SEND}) {
            everywhere(QueuePair.RC, opcode, Side.SENDER, How.DEREGISTERED, CompletionQueue.LOC_PROT_ERR,
                    attempt -> assertEquals(QueuePair.ERR, attempt.state(attempt.a, attempt.qa)));
        }
    }

    @Test
    void aReceiveInMemoryThatIsDeregisteredFailsAtBothEnds() throws ProtocolException {
        everywhere(QueuePair.RC, Frame.SEND, Side.RECEIVER, How.DEREGISTERED, CompletionQueue.REM_OP_ERR, attempt -> {
            assertEquals(CompletionQueue.LOC_PROT_ERR, Memory.i32(attempt.b.poll() + Layouts.WC_STATUS));
            assertEquals(QueuePair.ERR, attempt.state(attempt.b, attempt.qb));
        });
    }

    /** Nobody tells the sender of an unreliable connection; a receiver is told only of its own receive. */
    @Test
    void ofAnUnreliableConnectionTheRestIsDropped() throws ProtocolException {
        for (int steps = 0; steps < 60; steps++) {
            final Attempt write = new Attempt(QueuePair.UC, Frame.WRITE, Side.RECEIVER, How.DEREGISTERED, steps);
            assertEquals(CompletionQueue.SUCCESS, write.status);
            assertEquals(QueuePair.RTS, write.state(write.b, write.qb));
            final Attempt send = new Attempt(QueuePair.UC, Frame.SEND, Side.RECEIVER, How.DEREGISTERED, steps);
            assertEquals(CompletionQueue.SUCCESS, send.status);
            final int received = Memory.i32(send.b.poll() + Layouts.WC_STATUS);
            assertTrue(received == CompletionQueue.LOC_PROT_ERR || received == CompletionQueue.SUCCESS, "told of the receive");
            assertEquals(received == CompletionQueue.SUCCESS ? QueuePair.RTS : QueuePair.ERR, send.state(send.b, send.qb));
        }
        everywhere(QueuePair.UC, Frame.WRITE, Side.SENDER, How.DEREGISTERED, CompletionQueue.LOC_PROT_ERR,
                attempt -> assertEquals(QueuePair.SQE, attempt.state(attempt.a, attempt.qa)));
    }

    /** What had nothing to do with the key goes on. */
    @Test
    void otherKeysOfTheSameMemoryStayGood() throws ProtocolException {
        for (int steps = 0; steps < 60; steps++) {
            final SimulatedNetwork network = new SimulatedNetwork(steps);
            final SimulatedDevice a = network.device();
            final SimulatedDevice b = network.device();
            final QueuePairObject qa = a.create(true);
            final QueuePairObject qb = b.create(true);
            SimulatedDevice.connect(qa, b, SimulatedDevice.number(qb), 1, 2, 7);
            SimulatedDevice.connect(qb, a, SimulatedDevice.number(qa), 2, 1, 7);
            final long near = a.posix.allocate(BYTES);
            final long far = b.posix.allocate(BYTES);
            final byte[] data = new byte[BYTES];
            network.random.nextBytes(data);
            Memory.put(near, data);
            final int nearKey = a.regions.add(qa.domain(), near, BYTES, near, 31);
            final int nearOther = a.regions.add(qa.domain(), near, BYTES, near, 31);
            final int farKey = b.regions.add(qb.domain(), far, BYTES, far, 31);
            final int farOther = b.regions.add(qb.domain(), far, BYTES, far, 31);
            a.post(qa, 0, Frame.WRITE, SIGNALED, new long[] {near}, new int[] {BYTES}, nearKey, far, farKey, 0, 0);
            a.post(qa, 1, Frame.READ, SIGNALED, new long[] {near}, new int[] {BYTES}, nearKey, far, farKey, 0, 0);
            for (int i = 0; i < steps; i++) {
                network.step();
            }
            a.regions.remove(nearOther);
            b.regions.remove(farOther);
            network.settle();
            assertEquals(2, a.successes(0));
            assertArrayEquals(data, Memory.bytes(far, BYTES));
            assertArrayEquals(data, Memory.bytes(near, BYTES));
        }
    }
}
