// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.net.InetAddress;
import java.net.Socket;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.bindings.tcp.sv_tcp_doorbell;

/** The engine over real sockets, while a thread of the application drives it. */
@SuppressWarnings("restricted")
class TcpDeviceTest {
    private static final int SECONDS = 60;

    private final Posix posix = new Posix();
    private final long bell = posix.allocate(sv_tcp_doorbell.sizeof());
    private final TcpDevice device = new TcpDevice(new Posix(), new DoorbellHost(),
            new Settings("127.0.0.1", false, "", 20_000));
    private final AtomicBoolean over = new AtomicBoolean();

    /** The doorbell alone, as native/src/tcp_drive.c has it. */
    private final class DoorbellHost implements Host {
        private final Posix calls = new Posix();

        @Override
        public long doorbell() {
            return bell;
        }

        @Override
        public synchronized void callEngine() {
            Memory.volatileSet(bell + Host.BELL_CALLED, 1);
            calls.futexWake(bell + Host.BELL_CALLED);
            final long one = calls.allocate(8);
            Memory.i64(one, 1);
            calls.write(Memory.i32(bell + Host.BELL_WAKE_FD), one, 8);
            calls.free(one);
        }

        @Override
        public void say(final String line) {
            // The test's own end of a connection is closed in the midst of the handshake.
        }

        @Override
        public long device() {
            throw new UnsupportedOperationException();
        }

        @Override
        public void contextInit(final long context) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void dmInit(final long dm) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void cqExInit(final long cq, final long fields) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void moveCq(final long cq, final long entries, final long stamps, final int mask) {
            throw new UnsupportedOperationException();
        }

        @Override
        public int moveSrq(final long srq, final long entries, final int mask, final int max) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void forgetEvents(final int readFd, final int writeFd, final long object) {
            throw new UnsupportedOperationException();
        }
    }

    /** Polls for ever: takes turns, and calls the engine's thread when it is needed. */
    private void poll(final DoorbellHost host) {
        final Posix calls = new Posix();
        final MethodHandle turn = Linker.nativeLinker().downcallHandle(
                MemorySegment.ofAddress(Memory.i64(bell + Host.BELL_TURN)),
                FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT));
        while (!over.get()) {
            Memory.volatileSet(bell + Host.BELL_OFFERED, 1);
            if (Memory.volatileGet(bell + Host.BELL_POLLED) == 0 || Memory.volatileGet(bell + Host.BELL_CALLED) != 0
                    || !Memory.compareAndSet(bell + Host.BELL_HOLDER, 0, 1)) {
                Thread.yield();
                continue;
            }
            int needed = 0;
            if (Memory.volatileGet(bell + Host.BELL_POLLED) != 0) {
                Memory.i32(bell + Host.BELL_TURNS, Memory.i32(bell + Host.BELL_TURNS) + 1);
                try {
                    needed = (int) turn.invokeExact(Turns.REST);
                } catch (Throwable t) {
                    throw new AssertionError(t);
                }
            }
            Memory.volatileSet(bell + Host.BELL_HOLDER, 0);
            calls.futexWake(bell + Host.BELL_HOLDER);
            if (needed != 0) {
                host.callEngine();
            }
        }
    }

    /** What is not done in turns is done though they are taken without a pause: control verbs, connections to be made. */
    @Test
    @Timeout(value = SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void whoeverDrivesAControlVerbIsDoneAndAConnectionAccepted() throws IOException, InterruptedException {
        device.start();
        final Thread application = new Thread(() -> poll(new DoorbellHost()));
        application.start();
        while (Memory.volatileGet(bell + Host.BELL_TURNS) == 0) {
            // Awake for something else it hears of the offer.
            device.submit(() -> { });
            Thread.yield();
        }
        final long hello = posix.allocate(Handshake.HELLO);
        try (Socket peer = new Socket(InetAddress.getLoopbackAddress(), Address.port(device.id))) {
            new Handshake("").hello(hello, Address.PREFIX, 77, device.prefix, device.id, new byte[24]);
            peer.getOutputStream().write(Memory.bytes(hello, Handshake.HELLO));
            assertEquals(Handshake.CHALLENGE, peer.getInputStream().readNBytes(Handshake.CHALLENGE).length);
        }
        final AtomicBoolean done = new AtomicBoolean();
        device.submit(() -> done.set(true));
        device.submit(device::stop);
        device.join();
        assertTrue(done.get());
        assertEquals(0, Memory.volatileGet(bell + Host.BELL_POLLED));
        over.set(true);
        application.join();
        posix.free(hello);
        posix.free(bell);
    }
}
