// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.manifest;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.process.HostAddress;
import org.shadowverbs.coordinator.process.SocketMoves;
import org.shadowverbs.coordinator.process.TcpConnection;
import org.shadowverbs.coordinator.process.TcpListener;
import org.shadowverbs.coordinator.process.TreeImage;
import org.shadowverbs.coordinator.process.UnacceptedConnection;

/**
 * Where the TCP/IP addresses and ports of a checkpoint's programs are when it is restarted on these hosts. Every host of a restart
 * works it out by itself, from the same manifest and the same shares, so that all come to the same.
 *
 * <p>An address of a source host becomes the one of the same network interface on the target, or the target's first of that kind. A
 * port stays, unless two source hosts come back on one host and both listened at it: then the second's sockets that have it get
 * another one.
 */
public final class Relocation {
    private static final int FIRST_OTHER_PORT = 61_001;
    private static final int LAST_PORT = 65_535;
    /** What a process means by its own host, and the two ways to listen at all of its addresses. */
    private static final List<String> OWN = List.of("127.0.0.1", "0:0:0:0:0:0:0:1", "0.0.0.0", "0:0:0:0:0:0:0:0");

    /** For every process. */
    public static final String ANY_ORIGIN = "*";
    /** All ports of an address that are not named. */
    public static final int ANY_PORT = 0;

    private final List<Place> places = new ArrayList<>();
    private final List<String> problems = new ArrayList<>();

    /**
     * A host that takes part in a restart.
     *
     * @param host its name
     * @param addresses those at which other hosts reach it
     * @param share what it restores
     */
    public record Target(String host, List<HostAddress> addresses, Manifest share) {
        private HostAddress in(final HostAddress old) {
            return Stream.of(
                    addresses.stream().filter(a -> a.address().equals(old.address())),
                    addresses.stream().filter(a -> a.device().equals(old.device()) && a.version6() == old.version6()),
                    addresses.stream().filter(a -> a.version6() == old.version6()))
                    .flatMap(found -> found).findFirst().orElse(null);
        }
    }

    /**
     * What programs mean by an address and a port, and where that is now.
     *
     * @param origin of the programs that mean it; {@link #ANY_ORIGIN}: all
     * @param virtualPort {@link #ANY_PORT}: all ports that no other one of the address names
     * @param port {@link #ANY_PORT}: the same port
     */
    public record Moved(String origin, String virtual, int virtualPort, String address, int port) {
    }

    /** A tree, and where it comes back. */
    private static final class Place {
        final Manifest.HostPart part;
        final TreeImage tree;
        final Manifest.Origin origin;
        final Target target;
        final Map<String, HostAddress> addresses = new HashMap<>();
        final Map<Integer, Integer> ports = new TreeMap<>();

        Place(final Manifest.HostPart part, final TreeImage tree, final Target target) {
            this.part = part;
            this.tree = tree;
            this.target = target;
            origin = part.originOf(tree);
            origin.addresses().forEach(a -> addresses.put(a.address(), target.in(new HostAddress(a.device(), a.address()))));
        }

        String now(final String address) {
            final HostAddress now = addresses.get(address);
            return now == null ? address : now.address();
        }

        Set<Integer> portsInUse() {
            final Set<Integer> used = new TreeSet<>(ports.keySet());
            tree.connections().forEach(c -> used.add(c.localPort()));
            return used;
        }

        int now(final int port) {
            return ports.getOrDefault(port, port);
        }

        TcpListener now(final TcpListener listener) {
            return new TcpListener(now(listener.address()), now(listener.port()));
        }
    }

    private Relocation() {
    }

    /**
     * Works it out.
     *
     * @param all the whole checkpoint
     * @param targets the hosts that restore it, each with its share, in the order in which all know them
     */
    public static Relocation of(final Manifest all, final List<Target> targets) {
        final Relocation relocation = new Relocation();
        for (final Manifest.HostPart part : all.hosts()) {
            for (final TreeImage tree : part.images().trees()) {
                targets.stream().filter(target -> has(target.share(), part, tree)).findFirst()
                        .ifPresent(target -> relocation.places.add(new Place(part, tree, target)));
            }
        }
        relocation.givePorts();
        relocation.findProblems();
        return relocation;
    }

    private static boolean has(final Manifest share, final Manifest.HostPart part, final TreeImage tree) {
        return share.hosts().stream().anyMatch(p -> p.directory().equals(part.directory())
                && p.images().trees().stream().anyMatch(t -> t.directory().equals(tree.directory())));
    }

    // ---- ports ----

    private void givePorts() {
        for (final Place place : places) {
            for (final int port : new LinkedHashSet<>(place.tree.listeners().stream().map(TcpListener::port).toList())) {
                final int virtual = place.origin.virtualPort(port);
                Stream.of(virtual, port).filter(candidate -> isFree(place, port, candidate)).findFirst().ifPresentOrElse(
                        free -> place.ports.put(port, free), () -> place.ports.put(port, otherPort(place)));
            }
        }
    }

    /** Whether no tree that comes to the same host, and has its ports already, listens there. */
    private boolean isFree(final Place place, final int port, final int candidate) {
        final List<TcpListener> wanted = place.tree.listeners().stream().filter(l -> l.port() == port)
                .map(l -> new TcpListener(place.now(l.address()), candidate)).toList();
        return others(place).allMatch(other -> other.tree.listeners().stream()
                .filter(l -> other.ports.containsKey(l.port())).map(other::now)
                .noneMatch(taken -> wanted.stream().anyMatch(taken::collidesWith)));
    }

    private Stream<Place> others(final Place place) {
        return places.stream().filter(other -> other != place && other.target == place.target);
    }

    private int otherPort(final Place place) {
        final Set<Integer> used = new HashSet<>();
        places.stream().filter(p -> p.target == place.target).forEach(p -> {
            used.addAll(p.ports.values());
            p.tree.listeners().forEach(l -> used.add(l.port()));
            p.tree.connections().forEach(c -> used.add(c.localPort()));
        });
        for (int port = FIRST_OTHER_PORT; port <= LAST_PORT; port++) {
            if (!used.contains(port)) {
                return port;
            }
        }
        problems.add("no port is left on host " + place.target.host() + " for what " + place.tree.name() + " listened at");
        return 0;
    }

    // ---- connections ----

    private Place holderOf(final TcpConnection connection) {
        return places.stream().filter(p -> p.tree.connections().contains(connection)).findFirst().orElse(null);
    }

    private TcpConnection now(final Place place, final TcpConnection saved) {
        final Place other = holderOf(saved.mirrored());
        final Place there = other != null ? other : places.stream()
                .filter(p -> p.addresses.containsKey(saved.remoteAddress())
                        && p.tree.listeners().stream().anyMatch(l -> l.port() == saved.remotePort()))
                .findFirst().orElseGet(() -> places.stream().filter(p -> p.addresses.containsKey(saved.remoteAddress()))
                        .findFirst().orElse(null));
        final String local = place.now(saved.localAddress());
        final int localPort = place.now(saved.localPort());
        return there == null ? new TcpConnection(local, localPort, saved.remoteAddress(), saved.remotePort())
                : new TcpConnection(local, localPort, there.now(saved.remoteAddress()), there.now(saved.remotePort()));
    }

    private void findProblems() {
        final Map<Target, Map<TcpConnection, Place>> all = new HashMap<>();
        for (final Place place : places) {
            for (final TcpConnection saved : place.tree.connections()) {
                if (place.addresses.containsKey(saved.localAddress()) && place.addresses.get(saved.localAddress()) == null) {
                    problems.add(place.tree.name() + " has a TCP connection at " + saved.localAddress() + ", and host "
                            + place.target.host() + " has no address of that kind");
                }
                final Place before = all.computeIfAbsent(place.target, t -> new HashMap<>())
                        .putIfAbsent(now(place, saved), place);
                if (before != null && before != place) {
                    problems.add("TCP connections of " + before.tree.name() + " and of " + place.tree.name()
                            + " would have the same addresses and ports on host " + place.target.host()
                            + ": restart them on different hosts");
                }
            }
        }
    }

    /** Why it can't be done, or an empty string. */
    public String problem() {
        return problems.isEmpty() ? "" : problems.getFirst();
    }

    /** Whether trees have connections between them, or make some again, so that none may run before all are there. */
    public boolean connected() {
        return places.size() > 1 && places.stream().anyMatch(place -> !place.tree.unaccepted().isEmpty()
                || place.tree.connections().stream().map(c -> holderOf(c.mirrored())).anyMatch(other -> other != null && other != place));
    }

    /**
     * What becomes of the sockets of a host's trees.
     *
     * @return by tree name
     */
    public Map<String, SocketMoves> moves(final Manifest.HostPart part) {
        final Map<String, SocketMoves> moves = new HashMap<>();
        for (final Place place : places) {
            if (place.part.directory().equals(part.directory())) {
                moves.put(place.tree.name(), moves(place));
            }
        }
        return moves;
    }

    private SocketMoves moves(final Place place) {
        final Map<TcpConnection, TcpConnection> connections = new LinkedHashMap<>();
        Stream.concat(place.tree.connections().stream(), place.tree.unaccepted().stream().map(UnacceptedConnection::connection))
                .forEach(saved -> put(connections, saved, now(place, saved)));
        final Map<TcpListener, TcpListener> listeners = new LinkedHashMap<>();
        place.tree.listeners().forEach(saved -> put(listeners, saved, place.now(saved)));
        final Map<String, String> addresses = new LinkedHashMap<>();
        place.addresses.keySet().forEach(saved -> put(addresses, saved, place.now(saved)));
        return new SocketMoves(connections, listeners, addresses);
    }

    private static <T> void put(final Map<T, T> moves, final T saved, final T now) {
        if (!saved.equals(now)) {
            moves.put(saved, now);
        }
    }

    // ---- what programs mean ----

    /** What programs mean by addresses and ports that are elsewhere now. */
    public List<Moved> moved() {
        final Set<Moved> moved = new LinkedHashSet<>();
        final Map<String, Target> first = new HashMap<>();
        for (final Place place : places) {
            final boolean elsewhere = first.computeIfAbsent(place.origin.name(), name -> place.target) != place.target;
            for (final Manifest.OriginAddress a : place.origin.addresses()) {
                final String now = place.now(a.address());
                if (!elsewhere && !now.equals(a.virtual())) {
                    moved.add(new Moved(ANY_ORIGIN, a.virtual(), ANY_PORT, now, ANY_PORT));
                }
                final boolean shared = others(place).anyMatch(other -> !other.origin.name().equals(place.origin.name())
                        && other.addresses.values().stream().anyMatch(o -> o != null && o.address().equals(now)));
                for (final int saved : place.portsInUse()) {
                    final int virtual = place.origin.virtualPort(saved);
                    // At an address that several hosts have now the port tells whose it is, also when it is what it was.
                    if (elsewhere || shared || virtual != place.now(saved)) {
                        moved.add(new Moved(ANY_ORIGIN, a.virtual(), virtual, now, place.now(saved)));
                    }
                }
            }
            place.ports.forEach((saved, port) -> {
                final int virtual = place.origin.virtualPort(saved);
                if (virtual != port) {
                    OWN.forEach(own -> moved.add(new Moved(place.origin.name(), own, virtual, own, port)));
                }
            });
        }
        return List.copyOf(moved);
    }

    /** The hosts on which the programs were launched, in the order in which all know them. */
    public List<Manifest.Origin> origins() {
        final Map<String, Manifest.Origin> origins = new LinkedHashMap<>();
        places.forEach(place -> origins.putIfAbsent(place.origin.name(), place.origin));
        return List.copyOf(origins.values());
    }

    /** The origins of what comes back on a host, as that host's next manifest is to have them. */
    public List<Manifest.Origin> originsOn(final String host) {
        final Map<String, Manifest.Origin> origins = new LinkedHashMap<>();
        for (final Place place : places) {
            if (!place.target.host().equals(host)) {
                continue;
            }
            final List<Manifest.OriginAddress> addresses = new ArrayList<>();
            for (final Manifest.OriginAddress a : place.origin.addresses()) {
                final HostAddress now = place.addresses.get(a.address());
                addresses.add(now == null ? a : new Manifest.OriginAddress(now.device(), a.virtual(), now.address()));
            }
            final Map<Integer, Integer> ports = new TreeMap<>();
            final Manifest.Origin before = origins.get(place.origin.name());
            if (before != null) {
                before.ports().forEach(p -> ports.put(p.virtual(), p.port()));
            }
            place.ports.forEach((saved, port) -> {
                if (place.origin.virtualPort(saved) != port) {
                    ports.put(place.origin.virtualPort(saved), port);
                }
            });
            origins.put(place.origin.name(), new Manifest.Origin(place.origin.name(), addresses,
                    ports.entrySet().stream().map(e -> new Manifest.OriginPort(e.getKey(), e.getValue())).toList()));
        }
        return List.copyOf(origins.values());
    }
}
