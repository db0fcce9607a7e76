// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.tcp.sv_tcp_doorbell;
import org.shadowverbs.ib2tcp.system.Host;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;

/** The engine's thread and those that take turns, by what is in the doorbell; the other side is native/tests/turns.c. */
@SuppressWarnings("restricted")
class TurnsTest {
    /** The thread waits so long for the next turn. */
    private static final long STAND_BY_NANOS = 100_000;
    private static final long LONG_AFTER = 1_000_000_000L;

    private final Posix posix = new Posix();
    private long bell;
    private Turns turns;
    private RuntimeException thrown;
    private int asked = -1;
    private volatile boolean inTurn;

    @BeforeEach
    void open() {
        bell = posix.allocate(sv_tcp_doorbell.sizeof());
        turns = new Turns(bell, how -> {
            asked = how;
            if (thrown != null) {
                throw thrown;
            }
            return how == Turns.REST;
        });
        turns.take();
    }

    @AfterEach
    void close() {
        turns.close();
        posix.free(bell);
    }

    private int word(final long offset) {
        return Memory.volatileGet(bell + offset);
    }

    /** As C calls it. */
    private int turn(final int how) throws Throwable {
        final MethodHandle function = Linker.nativeLinker().downcallHandle(
                MemorySegment.ofAddress(Memory.i64(bell + Host.BELL_TURN)),
                FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT));
        return (int) function.invokeExact(how);
    }

    private void offer() {
        Memory.volatileSet(bell + Host.BELL_OFFERED, 1);
    }

    @Test
    void aTurnSaysWhetherTheThreadIsNeeded() throws Throwable {
        assertEquals(0, turn(Turns.POST));
        assertEquals(Turns.POST, asked);
        assertEquals(1, turn(Turns.REST));
        assertEquals(Turns.REST, asked);
    }

    @Test
    void whatIsThrownInATurnEndsTheEngineAndNotTheProcess() throws Throwable {
        Memory.volatileSet(bell + Host.BELL_POLLED, 1);
        thrown = new IllegalArgumentException();
        assertEquals(1, turn(Turns.POST));
        assertEquals(0, word(Host.BELL_POLLED));
        Memory.volatileSet(bell + Host.BELL_HOLDER, 0);
        assertSame(thrown, assertThrows(IllegalStateException.class, turns::take).getCause());
    }

    @Test
    void withoutAnOfferItGoesOn() {
        assertFalse(turns.standBy(0));
        assertEquals(0, word(Host.BELL_POLLED));
    }

    @Test
    void whenNobodyTakesATurnItComesBackAndDoubtsWhatKeptOthersWaiting() {
        offer();
        assertTrue(turns.standBy(0));
        assertEquals(0, word(Host.BELL_POLLED));
        assertEquals(0, word(Host.BELL_OFFERED));
        turns.looked(true, 0);
        offer();
        assertFalse(turns.standBy(1));
        assertTrue(turns.standBy(LONG_AFTER));
        // Nothing had come: no harm was done.
        turns.looked(false, LONG_AFTER);
        offer();
        assertTrue(turns.standBy(LONG_AFTER + 1));
    }

    @Test
    void whoIsCalledComesAtOnceAndWithoutDoubt() {
        offer();
        Memory.volatileSet(bell + Host.BELL_CALLED, 1);
        assertTrue(turns.standBy(0));
        assertEquals(0, word(Host.BELL_CALLED));
        assertEquals(1, word(Host.BELL_OFFERED));
        turns.looked(true, 0);
        assertTrue(turns.standBy(1));
    }

    /** What was posted while the thread held the engine is left to it. */
    @Test
    void aBellThatWasRungMeanwhileBringsItBack() {
        offer();
        Memory.volatileSet(bell + Host.BELL_PENDING, 1);
        assertTrue(turns.standBy(0));
        assertEquals(1, word(Host.BELL_OFFERED));
    }

    @Test
    void whoIsCalledWaitsForTheTurnThatIsUnderWay() throws InterruptedException {
        final Thread application = new Thread(this::takeOneTurn);
        application.start();
        while (word(Host.BELL_TURNS) == 0) {
            offer();
            turns.standBy(0);
            assertFalse(inTurn);
        }
        application.join();
    }

    /** With a large message, or on a busy processor, a turn takes longer than the thread waits for the next one. */
    @Test
    void aTurnThatTakesLongIsNoReasonToComeBack() throws InterruptedException {
        boolean stayed = false;
        // A turn that begins in the very moment in which the thread comes back tells nothing.
        for (int i = 0; i < 10 && !stayed; i++) {
            Memory.volatileSet(bell + Host.BELL_TURNS, 0);
            final Thread application = new Thread(this::takeOneLongTurn);
            application.start();
            do {
                offer();
                turns.standBy(0);
            } while (word(Host.BELL_TURNS) == 0);
            application.join();
            stayed = word(Host.BELL_OFFERED) == 1;
        }
        assertTrue(stayed);
    }

    private void takeOneLongTurn() {
        beginTurn();
        LockSupport.parkNanos(20 * STAND_BY_NANOS);
        Memory.volatileSet(bell + Host.BELL_TURNS, 1);
        Memory.volatileSet(bell + Host.BELL_CALLED, 1);
        endTurn();
    }

    private void takeOneTurn() {
        beginTurn();
        inTurn = true;
        Memory.volatileSet(bell + Host.BELL_CALLED, 1);
        posix.futexWake(bell + Host.BELL_CALLED);
        while (word(Host.BELL_HOLDER) == 1) {
            Thread.onSpinWait();
        }
        Memory.volatileSet(bell + Host.BELL_TURNS, 1);
        inTurn = false;
        endTurn();
    }

    private void endTurn() {
        Memory.volatileSet(bell + Host.BELL_HOLDER, 0);
        posix.futexWake(bell + Host.BELL_HOLDER);
    }

    private void beginTurn() {
        for (;;) {
            if (!Memory.compareAndSet(bell + Host.BELL_HOLDER, 0, 1)) {
                continue;
            }
            if (word(Host.BELL_POLLED) != 0) {
                return;
            }
            endTurn();
        }
    }
}
