// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.shadowverbs.coordinator.protocol.HostMessages.Accept;
import org.shadowverbs.coordinator.protocol.HostMessages.Accepted;
import org.shadowverbs.coordinator.protocol.HostMessages.Freeze;
import org.shadowverbs.coordinator.protocol.HostMessages.Frozen;
import org.shadowverbs.coordinator.protocol.HostMessages.HoldSockets;
import org.shadowverbs.coordinator.protocol.HostMessages.MakeAgain;
import org.shadowverbs.coordinator.protocol.HostMessages.NetAddress;
import org.shadowverbs.coordinator.protocol.HostMessages.Save;
import org.shadowverbs.coordinator.protocol.HostMessages.SocketsHeld;
import org.shadowverbs.coordinator.protocol.HostMessages.TcpSocket;
import org.shadowverbs.coordinator.protocol.HostMessages.TcpSockets;
import org.shadowverbs.coordinator.protocol.HostMessages.UnacceptedSocket;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.store.EmbeddedStore;

/** What a coordinator has hosts do with connections between them that nobody has accepted, with agents that have none. */
@Timeout(60)
final class UnacceptedConnectionsTest {
    private static final int ESTABLISHED = 1;
    private static final int SYN_RECEIVED = 3;
    private static final TcpSockets NONE = TcpSockets.NONE;

    @TempDir
    private Path root;
    private final List<Host> hosts = new ArrayList<>();
    private Coordinator coordinator;
    private Host a;
    private Host b;

    /** An agent. */
    private final class Host extends FakeAgent {
        /** What it has been told, in order. */
        final List<Message> told = new CopyOnWriteArrayList<>();
        /** What it answers to FREEZE, and, one after the other, to HOLD_SOCKETS; then always the last. */
        volatile TcpSockets frozen = NONE;
        final Deque<TcpSockets> held = new ArrayDeque<>();
        final Deque<List<UnacceptedSocket>> parts = new ArrayDeque<>();

        Host(final String name, final String address) throws IOException {
            super(coordinator.port(), name, 0, List.of(new NetAddress("eth0", address)));
            start();
            hosts.add(this);
        }

        @Override
        void answer(final Message message) throws IOException {
            told.add(message);
            switch (message) {
                case Freeze m -> channel.write(new Frozen(m.epoch(), List.of(), 1, frozen));
                case HoldSockets m -> channel.write(new SocketsHeld(m.epoch(),
                        held.isEmpty() ? NONE : held.size() > 1 ? held.remove() : held.element()));
                case Accept m -> {
                    final List<UnacceptedSocket> part = parts.isEmpty() ? List.of() : parts.remove();
                    channel.write(new Accepted(m.epoch(), part, !parts.isEmpty()));
                }
                case Save m -> {
                    Files.createDirectory(Path.of(m.folder(), "host-" + name));
                    super.answer(m);
                }
                default -> super.answer(message);
            }
        }

        <T> List<T> told(final Class<T> type) {
            return told.stream().filter(type::isInstance).map(type::cast).toList();
        }
    }

    @BeforeEach
    void start() throws Exception {
        coordinator = new Coordinator(new CoordinatorOptions("localhost", 0, null, root.resolve("run"), root.resolve("checkpoints"),
                Interval.NONE, RecoveryOptions.NONE, 1, ImageChoice.USUAL, false, "", 20, false),
                (run, job) -> new EmbeddedStore(run, new TestStore(), false));
        a = new Host("a", "10.0.0.1");
        b = new Host("b", "10.0.0.2");
    }

    @AfterEach
    void stop() {
        hosts.forEach(host -> host.channel.close());
        coordinator.close();
    }

    private static TcpSocket client(final int port, final int state) {
        return new TcpSocket("client", "10.0.0.1", port, "10.0.0.2", 80, state);
    }

    private static TcpSocket waiting(final int port, final int state) {
        return new TcpSocket("server", "10.0.0.2", 80, "10.0.0.1", port, state);
    }

    private static UnacceptedSocket accepted(final int port, final long sequence, final String data) {
        return new UnacceptedSocket("10.0.0.1", port, "10.0.0.2", 80, sequence, data.getBytes());
    }

    private CheckpointRun.Outcome checkpoint() throws Exception {
        return coordinator.conductor().submit(() -> coordinator.checkpoint(false, false, false, line -> { })).get(60, TimeUnit.SECONDS);
    }

    @Test
    void nothingIsHeldWhereNoneMayWait() throws Exception {
        assertEquals("", checkpoint().problem());
        assertEquals(List.of(), a.told(HoldSockets.class));
        assertEquals(List.of(), b.told(HoldSockets.class));
    }

    @Test
    void whatListenersHaveHadGoesToTheClientsHost() throws Exception {
        // One of them has come when host b had been frozen already.
        a.frozen = new TcpSockets(List.of(client(1, ESTABLISHED), client(2, ESTABLISHED), client(3, ESTABLISHED)), List.of(), List.of());
        b.frozen = new TcpSockets(List.of(), List.of(), List.of(waiting(1, ESTABLISHED)));
        a.held.add(a.frozen);
        b.held.add(new TcpSockets(List.of(), List.of(), List.of(waiting(1, ESTABLISHED), waiting(2, ESTABLISHED),
                waiting(3, SYN_RECEIVED))));
        b.parts.add(List.of(accepted(1, 4_000_000_000L, "one")));
        b.parts.add(List.of(accepted(2, 7, "")));
        assertEquals("", checkpoint().problem());
        final List<UnacceptedSocket> again = a.told(MakeAgain.class).stream().flatMap(m -> m.sockets().stream()).toList();
        assertEquals(List.of(1, 2, 3), again.stream().map(UnacceptedSocket::localPort).toList());
        assertEquals(List.of(4_000_000_000L, 7L, -1L), again.stream().map(UnacceptedSocket::sequence).toList());
        assertArrayEquals("one".getBytes(), again.getFirst().data());
        final List<Message> order = a.told.stream().filter(m -> m instanceof MakeAgain || m instanceof Save).toList();
        assertTrue(order.getLast() instanceof Save, "SAVE is told last: " + order);
        assertEquals(List.of(), b.told(MakeAgain.class));
    }

    @Test
    void oneThatCanNotBeMadeAgainIsTriedAgainAndNothingIsAccepted() throws Exception {
        b.frozen = new TcpSockets(List.of(), List.of(), List.of(waiting(1, ESTABLISHED)));
        b.held.add(b.frozen); // its client has closed it, and not all has come
        b.held.add(NONE);
        assertEquals("", checkpoint().problem());
        assertEquals(2, b.told(HoldSockets.class).size());
        assertEquals(List.of(), b.told(Accept.class));
        assertEquals(1, b.told(Save.class).size());
    }

    @Test
    void oneThatNeverCanIsNamed() throws Exception {
        b.frozen = new TcpSockets(List.of(), List.of(), List.of(waiting(1, ESTABLISHED)));
        b.held.add(b.frozen);
        assertEquals("host b: server: a TCP connection to 10.0.0.1:1: nobody has accepted it yet, and it was closed on host a before"
                + " all of it had come", checkpoint().problem());
        assertEquals(List.of(), b.told(Save.class));
    }
}
