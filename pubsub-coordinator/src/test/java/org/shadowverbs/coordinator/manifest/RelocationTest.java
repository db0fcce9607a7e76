// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.manifest;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;
import org.shadowverbs.coordinator.process.HostAddress;
import org.shadowverbs.coordinator.process.HostImages;
import org.shadowverbs.coordinator.process.ProcessImage;
import org.shadowverbs.coordinator.process.SocketMoves;
import org.shadowverbs.coordinator.process.TcpConnection;
import org.shadowverbs.coordinator.process.TcpListener;
import org.shadowverbs.coordinator.process.TreeImage;

/** Where sockets come back. */
class RelocationTest {
    private static final int BTL = 1024;

    private static HostAddress eth(final String address) {
        return new HostAddress("eth0", address);
    }

    private static Manifest.HostPart part(final String origin, final List<Manifest.Origin> origins,
            final List<TcpConnection> connections, final List<TcpListener> listeners) {
        final String name = "program on " + origin;
        final TreeImage tree = new TreeImage(name, "tree-0", List.of(new ProcessImage(name, 10, 0, "app", 1, List.of())), List.of(),
                List.of(), List.of(), List.of(), false, connections, listeners, List.of(), List.of(), 0, 1, List.of(), null);
        return new Manifest.HostPart(origin, "host-" + origin, List.of(),
                List.of(new Manifest.TreePart(10, name, List.of("app"), "/", null, origin)),
                new HostImages("fake", origin, "0", "cpu", List.of(), List.of(tree), 0, 1, 1), origins);
    }

    private static Manifest.Origin origin(final String name, final String virtual, final String address,
            final Manifest.OriginPort... ports) {
        return new Manifest.Origin(name, List.of(new Manifest.OriginAddress("eth0", virtual, address)), List.of(ports));
    }

    private static Manifest manifest(final List<Manifest.HostPart> hosts) {
        return new Manifest(Manifest.SCHEMA, "job", 1, 0L, null, "", true, 0, Map.of(), 0, 0, hosts, List.of(), null, "");
    }

    /** A server on one host with a client on another, both of which listen at the same port. */
    private static Manifest pair() {
        final TcpListener listener = new TcpListener("0.0.0.0", BTL);
        return manifest(List.of(
                part("a", List.of(origin("a", "10.0.0.1", "10.0.0.1")),
                        List.of(new TcpConnection("10.0.0.1", BTL, "10.0.0.2", 40_000)), List.of(listener)),
                part("b", List.of(origin("b", "10.0.0.2", "10.0.0.2")),
                        List.of(new TcpConnection("10.0.0.2", 40_000, "10.0.0.1", BTL)), List.of(listener))));
    }

    private static Manifest only(final Manifest all, final int... parts) {
        final List<Manifest.HostPart> chosen = new ArrayList<>();
        for (final int part : parts) {
            chosen.add(all.hosts().get(part));
        }
        return manifest(chosen);
    }

    private static SocketMoves moves(final Relocation relocation, final Manifest.HostPart part) {
        return relocation.moves(part).get("program on " + part.host());
    }

    @Test
    void nothingMovesOnTheSameHosts() {
        final Manifest all = pair();
        final Relocation same = Relocation.of(all, List.of(
                new Relocation.Target("a", List.of(eth("10.0.0.1")), only(all, 0)),
                new Relocation.Target("b", List.of(eth("10.0.0.2")), only(all, 1))));
        assertEquals("", same.problem());
        assertTrue(same.connected());
        assertEquals(SocketMoves.NONE, moves(same, all.hosts().getFirst()));
        assertEquals(List.of(), same.moved());
        assertEquals(all.hosts().getFirst().origins(), same.originsOn("a"));
    }

    @Test
    void hostsThatAreExchangedExchangeTheirAddresses() {
        final Manifest all = pair();
        final Relocation swapped = Relocation.of(all, List.of(
                new Relocation.Target("a", List.of(eth("10.0.0.1")), only(all, 1)),
                new Relocation.Target("b", List.of(eth("10.0.0.2")), only(all, 0))));
        assertEquals(new TcpConnection("10.0.0.2", BTL, "10.0.0.1", 40_000),
                moves(swapped, all.hosts().getFirst()).of(new TcpConnection("10.0.0.1", BTL, "10.0.0.2", 40_000)));
        assertEquals(List.of(new Relocation.Moved("*", "10.0.0.1", 0, "10.0.0.2", 0),
                new Relocation.Moved("*", "10.0.0.2", 0, "10.0.0.1", 0)), swapped.moved());
        assertEquals(List.of(origin("b", "10.0.0.2", "10.0.0.1")), swapped.originsOn("a"));
    }

    @Test
    void twoHostsThatComeBackOnOneDoNotListenAtOnePort() {
        final Manifest all = pair();
        final Relocation one = Relocation.of(all, List.of(new Relocation.Target("c", List.of(eth("10.1.0.9")), all)));
        final TcpListener listener = new TcpListener("0.0.0.0", BTL);
        assertEquals(listener, moves(one, all.hosts().getFirst()).of(listener));
        final int other = moves(one, all.hosts().getLast()).of(listener).port();
        assertFalse(other == BTL);
        assertEquals(new TcpConnection("10.1.0.9", BTL, "10.1.0.9", 40_000),
                moves(one, all.hosts().getFirst()).of(new TcpConnection("10.0.0.1", BTL, "10.0.0.2", 40_000)));
        assertTrue(one.moved().contains(new Relocation.Moved("*", "10.0.0.2", BTL, "10.1.0.9", other)));
        assertTrue(one.moved().contains(new Relocation.Moved("b", "127.0.0.1", BTL, "127.0.0.1", other)));
        assertTrue(one.moved().contains(new Relocation.Moved("*", "10.0.0.1", 0, "10.1.0.9", 0)));
        // Whose a port is at an address that both have now.
        assertTrue(one.moved().contains(new Relocation.Moved("*", "10.0.0.1", BTL, "10.1.0.9", BTL)));
        assertTrue(one.moved().contains(new Relocation.Moved("*", "10.0.0.2", 40_000, "10.1.0.9", 40_000)));
        assertEquals(List.of(origin("a", "10.0.0.1", "10.1.0.9"),
                origin("b", "10.0.0.2", "10.1.0.9", new Manifest.OriginPort(BTL, other))), one.originsOn("c"));
    }

    @Test
    void aPortThatWasAnotherOneIsTheProgramsOwnAgainWhereItIsFree() {
        final TcpListener moved = new TcpListener("0.0.0.0", 61_001);
        final Manifest all = manifest(List.of(part("b", List.of(origin("b", "10.0.0.2", "10.1.0.9",
                new Manifest.OriginPort(BTL, 61_001))), List.of(), List.of(moved))));
        final Relocation back = Relocation.of(all, List.of(new Relocation.Target("b", List.of(eth("10.0.0.2")), all)));
        assertEquals(new TcpListener("0.0.0.0", BTL), moves(back, all.hosts().getFirst()).of(moved));
        assertEquals(List.of(), back.moved());
        assertFalse(back.connected());
    }

    @Test
    void anAddressOfAKindThatTheHostDoesNotHaveIsNamed() {
        final Manifest all = manifest(List.of(
                part("a", List.of(origin("a", "fd00:0:0:0:0:0:0:1", "fd00:0:0:0:0:0:0:1")),
                        List.of(new TcpConnection("fd00:0:0:0:0:0:0:1", 1, "fd00:0:0:0:0:0:0:2", 2)), List.of())));
        assertEquals("program on a has a TCP connection at fd00:0:0:0:0:0:0:1, and host c has no address of that kind",
                Relocation.of(all, List.of(new Relocation.Target("c", List.of(eth("10.1.0.9")), all))).problem());
    }

    /** Both ends of each connection agree wherever the hosts come back, and no two listeners are at one place. */
    @Property(tries = 300)
    void bothEndsAgreeAndNoTwoListenAtOnePlace(
            @ForAll @Size(min = 2, max = 5) final List<@IntRange(min = 0, max = 3) Integer> targetOf,
            @ForAll @Size(max = 12) final List<@IntRange(min = 0, max = 24) Integer> pairs) {
        final int n = targetOf.size();
        final List<List<TcpConnection>> connections = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            connections.add(new ArrayList<>());
        }
        int port = 50_000;
        for (final int pair : pairs) {
            final int from = pair % n;
            final int to = pair / 5 % n;
            if (from != to) {
                final TcpConnection end = new TcpConnection("10.0.0." + from, port++, "10.0.0." + to, BTL);
                connections.get(from).add(end);
                connections.get(to).add(end.mirrored());
            }
        }
        final List<Manifest.HostPart> parts = new ArrayList<>();
        final Map<Integer, List<Integer>> shares = new HashMap<>();
        for (int i = 0; i < n; i++) {
            parts.add(part("h" + i, List.of(origin("h" + i, "10.0.0." + i, "10.0.0." + i)), connections.get(i),
                    List.of(new TcpListener("0.0.0.0", BTL), new TcpListener("10.0.0." + i, BTL + 1 + i % 2))));
            shares.computeIfAbsent(targetOf.get(i), t -> new ArrayList<>()).add(i);
        }
        final Manifest all = manifest(parts);
        final List<Relocation.Target> targets = new ArrayList<>();
        shares.forEach((target, share) -> targets.add(new Relocation.Target("t" + target, List.of(eth("10.9.0." + target)),
                only(all, share.stream().mapToInt(Integer::intValue).toArray()))));
        final Relocation relocation = Relocation.of(all, targets);
        assertEquals("", relocation.problem());
        final Set<TcpConnection> ends = new HashSet<>();
        final Map<Integer, List<TcpListener>> listening = new HashMap<>();
        for (int i = 0; i < n; i++) {
            final SocketMoves moves = moves(relocation, parts.get(i));
            connections.get(i).forEach(end -> assertTrue(ends.add(moves.of(end))));
            for (final TcpListener listener : parts.get(i).images().trees().getFirst().listeners()) {
                final TcpListener now = moves.of(listener);
                final List<TcpListener> there = listening.computeIfAbsent(targetOf.get(i), t -> new ArrayList<>());
                assertTrue(there.stream().noneMatch(now::collidesWith), now + " and " + there);
                there.add(now);
            }
        }
        ends.forEach(end -> assertTrue(ends.contains(end.mirrored()), end.toString()));
    }
}
