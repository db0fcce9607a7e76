// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

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
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.bindings.tcp.shadowverbs_tcp_h;
import org.shadowverbs.bindings.tcp.sv_tcp_doorbell;
import org.shadowverbs.ib2tcp.system.Address;
import org.shadowverbs.ib2tcp.system.Host;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.system.Settings;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.Handshake;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/** The engine over real sockets, while a thread of the application drives it. */
@SuppressWarnings("restricted")
class TcpDeviceTest {
    private static final int SECONDS = 60;
    private static final long PEER = 77;
    private static final int NOBODY = 5;
    private static final int REQUESTS = 2000;

    private final Posix posix = new Posix();
    private final long bell = posix.allocate(sv_tcp_doorbell.sizeof());
    private final TcpDevice device = new TcpDevice(new Posix(), new DoorbellHost(),
            new Settings("127.0.0.1", false, "", 20_000));
    private final AtomicBoolean over = new AtomicBoolean();
    private final BlockingQueue<String> said = new LinkedBlockingQueue<>();

    /** The doorbell alone, as native/src/tcp/tcp_drive.c has it. */
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
            said.add(line);
        }

        @Override
        public long guid() {
            return 0;
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
    private void poll(final DoorbellHost host, final int how) {
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
                    needed = (int) turn.invokeExact(how);
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
        final Thread application = drive(Turns.REST);
        final long hello = posix.allocate(Handshake.HELLO);
        try (Socket peer = new Socket(InetAddress.getLoopbackAddress(), Address.port(device.id))) {
            new Handshake("").hello(hello, Address.PREFIX, PEER, device.prefix, device.id, new byte[24]);
            peer.getOutputStream().write(Memory.bytes(hello, Handshake.HELLO));
            assertEquals(Handshake.CHALLENGE, peer.getInputStream().readNBytes(Handshake.CHALLENGE).length);
        }
        final AtomicBoolean done = new AtomicBoolean();
        device.submit(() -> done.set(true));
        end();
        assertTrue(done.get());
        assertEquals(0, Memory.volatileGet(bell + Host.BELL_POLLED));
        over.set(true);
        application.join();
        posix.free(hello);
        posix.free(bell);
    }

    /** A connection that turns have read without epoll is read when nobody takes turns any more. */
    @Test
    @Timeout(value = SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void whatTurnsHaveReadIsReadWhenTheyEnd() throws IOException, InterruptedException, ProtocolException {
        final Thread application = drive(shadowverbs_tcp_h.SV_TCP_TURN_POLL());
        final long memory = posix.allocate(Handshake.HELLO + Handshake.CHALLENGE + Handshake.PROOF + Frame.SIZE);
        try (Socket peer = new Socket(InetAddress.getLoopbackAddress(), Address.port(device.id))) {
            peer.setTcpNoDelay(true);
            shakeHands(peer, memory);
            for (int i = 0; i < REQUESTS; i++) {
                assertAnswered(peer, memory, i);
            }
            over.set(true);
            application.join();
            assertAnswered(peer, memory, REQUESTS);
        }
        end();
        posix.free(memory);
        posix.free(bell);
    }

    /** Its kernel resets the connection where something that it has not read is left; who sends nonsense is named. */
    @Test
    @Timeout(value = SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void nothingIsSaidOfAPeerThatEnds() throws IOException, InterruptedException, ProtocolException {
        device.start();
        final long memory = posix.allocate(Handshake.HELLO + Handshake.CHALLENGE + Handshake.PROOF + Frame.SIZE);
        try (Socket peer = new Socket(InetAddress.getLoopbackAddress(), Address.port(device.id))) {
            shakeHands(peer, memory);
            assertAnswered(peer, memory, 0);
            peer.setSoLinger(true, 0); // its close() is a reset
        }
        try (Socket peer = new Socket(InetAddress.getLoopbackAddress(), Address.port(device.id))) {
            shakeHands(peer, memory);
            peer.getOutputStream().write(new byte[Frame.SIZE]);
            final String line = said.take();
            assertTrue(line.startsWith("a TCP connection with ") && !line.contains("errno"), line);
        }
        end();
        assertTrue(said.isEmpty(), said.toString());
        posix.free(memory);
        posix.free(bell);
    }

    /** Starts the engine, and a thread that polls. */
    private Thread drive(final int how) {
        device.start();
        final Thread application = new Thread(() -> poll(new DoorbellHost(), how));
        application.start();
        while (Memory.volatileGet(bell + Host.BELL_TURNS) == 0) {
            // Awake for something else it hears of the offer.
            device.submit(() -> { });
            Thread.yield();
        }
        return application;
    }

    private void end() throws InterruptedException {
        device.submit(device::stop);
        device.join();
    }

    private void shakeHands(final Socket peer, final long hello) throws IOException, ProtocolException {
        final Handshake handshake = new Handshake("");
        final long challenge = hello + Handshake.HELLO;
        final long proof = challenge + Handshake.CHALLENGE;
        handshake.hello(hello, Address.PREFIX, PEER, device.prefix, device.id, new byte[24]);
        peer.getOutputStream().write(Memory.bytes(hello, Handshake.HELLO));
        Memory.put(challenge, peer.getInputStream().readNBytes(Handshake.CHALLENGE));
        handshake.proof(hello, challenge, proof);
        peer.getOutputStream().write(Memory.bytes(proof, Handshake.PROOF));
    }

    /** Sends a request to no queue pair, which is answered by who reads it. */
    private static void assertAnswered(final Socket peer, final long frame, final int sequence) throws IOException {
        Frame.start(frame, Frame.REQUEST, Frame.SEND, 0, NOBODY, 7, sequence);
        peer.getOutputStream().write(Memory.bytes(frame, Frame.SIZE));
        Memory.put(frame, peer.getInputStream().readNBytes(Frame.SIZE));
        assertEquals(Frame.NAK, Frame.type(frame));
        assertEquals(sequence, Frame.sequence(frame));
    }
}
