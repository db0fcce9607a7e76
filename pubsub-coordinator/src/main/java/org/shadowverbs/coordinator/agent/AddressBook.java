// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.Relocation;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * The TCP/IP addresses and host names that a job's programs know, and what they are since a restart, in a file beside the agent's
 * socket. The preload library reads it ({@code native/src/address/address_table.h} says how), before every connection that a
 * program makes. So it is to be there before a restored process runs.
 *
 * @param homes which addresses each host had, in the same order in the books of all hosts: it numbers those that come back at one
 *        address
 * @param names of hosts of the job
 * @param routes what means something else now
 */
public record AddressBook(List<Home> homes, List<HostName> names, List<Route> routes) {
    /** The origin in a {@link Route} for the processes of all. */
    public static final String ALL = "*";

    private static final String FILE = "addresses";
    private static final int MAX_PORT = 65535;

    public AddressBook {
        homes = List.copyOf(homes);
        names = List.copyOf(names);
        routes = List.copyOf(routes);
    }

    /**
     * An address that a host had when programs were launched on it.
     *
     * @param origin the host's name, which its processes have in SHADOWVERBS_ORIGIN
     */
    public record Home(String origin, InetAddress virtual) {
        public Home {
            requireWord(origin);
            requireGlobal(virtual);
        }

        private String line() {
            return "origin " + origin + " " + virtual.getHostAddress();
        }
    }

    /** A name of a host of the job, and an address that it had. A host may have several of both. */
    public record HostName(String name, InetAddress virtual) {
        public HostName {
            requireWord(name);
            requireGlobal(virtual);
        }

        private String line() {
            return "name " + name + " " + virtual.getHostAddress();
        }
    }

    /**
     * Where a virtual address and port is. Of several the first counts that is for the process' own origin and the port, its own
     * origin and port 0, {@link #ALL} and the port, {@link #ALL} and port 0. A listener at the wildcard address has a route of its
     * own when its port has changed, for its origin. Where several hosts come back at one address, each port that a restored
     * socket has there needs a route for {@link #ALL}, also when it stays what it is: it tells whose it is.
     *
     * @param origin whose processes it is for, or {@link #ALL}
     * @param virtualPort 0: all ports that no other route of that address names; they stay what they are
     * @param realPort 0 when {@code virtualPort} is
     */
    public record Route(String origin, InetAddress virtual, int virtualPort, InetAddress real, int realPort) {
        public Route {
            requireWord(origin);
            requireGlobal(virtual);
            requireGlobal(real);
            requirePort(virtualPort);
            requirePort(realPort);
            if (virtualPort == 0 != (realPort == 0)) {
                throw new IllegalArgumentException("port " + virtualPort + " can't become port " + realPort);
            }
            if (virtual.getClass() != real.getClass()) {
                throw new IllegalArgumentException(virtual.getHostAddress() + " can't become " + real.getHostAddress()
                        + ", which is of another version of IP");
            }
        }

        private String line() {
            return origin + " " + virtual.getHostAddress() + " " + virtualPort + " " + real.getHostAddress() + " " + realPort;
        }
    }

    /** What programs mean after a restart; empty when nothing of theirs means something else. */
    public static AddressBook of(final Relocation relocation) {
        final List<Route> routes = relocation.moved().stream().map(moved -> new Route(moved.origin(),
                InetAddress.ofLiteral(moved.virtual()), moved.virtualPort(), InetAddress.ofLiteral(moved.address()), moved.port()))
                .toList();
        if (routes.isEmpty()) {
            return new AddressBook(List.of(), List.of(), List.of());
        }
        final List<Home> homes = new ArrayList<>();
        final List<HostName> names = new ArrayList<>();
        for (final Manifest.Origin origin : relocation.origins()) {
            for (final Manifest.OriginAddress address : origin.addresses()) {
                homes.add(new Home(origin.name(), InetAddress.ofLiteral(address.virtual())));
                names.add(new HostName(origin.name(), InetAddress.ofLiteral(address.virtual())));
            }
        }
        return new AddressBook(homes, names, routes);
    }

    /** Says it to all processes that find their agent at that socket. They see the whole file before or the whole new one. */
    public void write(final Path socket) throws IOException {
        final StringBuilder text = new StringBuilder();
        homes.forEach(home -> text.append(home.line()).append('\n'));
        names.forEach(name -> text.append(name.line()).append('\n'));
        routes.forEach(route -> text.append(route.line()).append('\n'));
        PrivateFiles.replace(socket.resolveSibling(FILE), text.toString().getBytes(StandardCharsets.UTF_8));
    }

    /** From now on every address means itself. */
    public static void forget(final Path socket) throws IOException {
        Files.deleteIfExists(socket.resolveSibling(FILE));
    }

    private static void requireWord(final String word) {
        if (word.isEmpty() || word.chars().anyMatch(c -> c <= ' ')) {
            throw new IllegalArgumentException("not a name of a host: \"" + word + "\"");
        }
    }

    private static void requirePort(final int port) {
        if (port < 0 || port > MAX_PORT) {
            throw new IllegalArgumentException("not a port: " + port);
        }
    }

    /** An address that means something on one link only can't be told from that of another host. */
    private static void requireGlobal(final InetAddress address) {
        if (address.isLinkLocalAddress() && address instanceof Inet6Address) {
            throw new IllegalArgumentException(address.getHostAddress() + " is of one link only");
        }
    }
}
