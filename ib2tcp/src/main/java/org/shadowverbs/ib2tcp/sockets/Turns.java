// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import org.shadowverbs.bindings.tcp.shadowverbs_tcp_h;
import org.shadowverbs.ib2tcp.system.Host;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;

/**
 * Decides which thread drives the engine. Its own thread does, until threads of the application poll for something that does
 * not come. Then it stands by, and they take turns (native/src/tcp/tcp_drive.c). It comes back when it is called, or when no
 * turn was taken for a while. Whatever came meanwhile has waited. When that happens again and again, because a program polls
 * only now and then, it waits longer and longer before it stands by again.
 *
 * <p>The thread that holds {@code holder} owns the engine; taking and releasing it are full fences.
 */
@SuppressWarnings("restricted")
final class Turns {
    static final int POST = shadowverbs_tcp_h.SV_TCP_TURN_POST();
    static final int REST = shadowverbs_tcp_h.SV_TCP_TURN_REST();

    private static final int NONE = shadowverbs_tcp_h.SV_TCP_HOLDER_NONE();
    private static final int ONE = shadowverbs_tcp_h.SV_TCP_HOLDER_ONE();
    private static final int AND_WAITER = shadowverbs_tcp_h.SV_TCP_HOLDER_AND_WAITER();
    private static final long STAND_BY_NANOS = 100_000;
    private static final long LONGEST_STAND_BY_NANOS = 800_000;
    private static final long SHORTEST_DOUBT_NANOS = 1_000_000;
    private static final long LONGEST_DOUBT_NANOS = 16_000_000;
    private static final MethodHandle RUN = run();

    /** The engine, to a thread of the application that holds it. */
    interface Driven {
        /** @return whether the engine's own thread is needed */
        boolean turn(int how);
    }

    /** The engine's is of who holds the engine; this one waits for it. */
    private final Posix posix = new Posix();
    private final long bell;
    private final Driven driven;
    private final Arena stub = Arena.ofShared();
    private Throwable failure;
    private boolean tookOver;
    private long doubt;
    private long doubtUntil;

    Turns(final long bell, final Driven driven) {
        this.bell = bell;
        this.driven = driven;
        Memory.i64(bell + Host.BELL_TURN, Linker.nativeLinker().upcallStub(RUN.bindTo(this),
                FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT), stub).address());
    }

    private static MethodHandle run() {
        try {
            return MethodHandles.lookup().findVirtual(Turns.class, "run", MethodType.methodType(int.class, int.class));
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    /** Called by C. Nothing that is thrown may leave it: it would end the process. */
    private int run(final int how) {
        try {
            return driven.turn(how) ? 1 : 0;
        } catch (Throwable t) {
            failure = t;
            Memory.volatileSet(bell + Host.BELL_POLLED, 0);
            return 1;
        }
    }

    /** The engine's thread takes the engine, and has heard that it was called. */
    void take() {
        if (!Memory.compareAndSet(bell + Host.BELL_HOLDER, NONE, ONE)) {
            while (Memory.getAndSet(bell + Host.BELL_HOLDER, AND_WAITER) != NONE) {
                posix.futexWait(bell + Host.BELL_HOLDER, AND_WAITER, STAND_BY_NANOS);
            }
        }
        Memory.volatileSet(bell + Host.BELL_POLLED, 0);
        heard();
        if (failure != null) {
            throw new IllegalStateException(failure);
        }
    }

    /** Before the engine's thread looks for what it was called for. */
    void heard() {
        Memory.volatileSet(bell + Host.BELL_CALLED, 0);
    }

    private void letGo() {
        Memory.volatileSet(bell + Host.BELL_HOLDER, NONE);
    }

    /** Lets those who poll drive, as long as they do. @return false: nobody would */
    boolean standBy(final long now) {
        if (Memory.i32(bell + Host.BELL_OFFERED) == 0 || doubtUntil - now > 0) {
            return false;
        }
        int seen = Memory.i32(bell + Host.BELL_TURNS);
        Memory.volatileSet(bell + Host.BELL_POLLED, 1);
        letGo();
        boolean alone = false;
        long period = STAND_BY_NANOS;
        // Who has posted while the engine was held by this thread relies on it.
        if (Memory.volatileGet(bell + Host.BELL_PENDING) == 0) {
            while (!alone && Memory.volatileGet(bell + Host.BELL_CALLED) == 0) {
                posix.futexWait(bell + Host.BELL_CALLED, 0, period);
                period = Math.min(period * 2, LONGEST_STAND_BY_NANOS);
                final int turns = Memory.volatileGet(bell + Host.BELL_TURNS);
                // Who has it now may be in a long turn, or preempted in one.
                alone = turns == seen && Memory.volatileGet(bell + Host.BELL_HOLDER) == NONE;
                seen = turns;
                if (!alone) {
                    doubt = 0;
                }
            }
        }
        alone &= Memory.volatileGet(bell + Host.BELL_CALLED) == 0;
        take();
        tookOver = alone;
        if (alone) {
            Memory.i32(bell + Host.BELL_OFFERED, 0);
        }
        return true;
    }

    /** The engine's thread has looked everywhere. @param found whether there was something to do */
    void looked(final boolean found, final long now) {
        if (tookOver && found) {
            doubt = Math.clamp(doubt * 2, SHORTEST_DOUBT_NANOS, LONGEST_DOUBT_NANOS);
            doubtUntil = now + doubt;
        }
        tookOver = false;
    }

    /** The engine ends; nobody drives it from here on. */
    void close() {
        Memory.volatileSet(bell + Host.BELL_POLLED, 0);
        Memory.i64(bell + Host.BELL_TURN, 0);
        letGo();
        stub.close();
    }
}
