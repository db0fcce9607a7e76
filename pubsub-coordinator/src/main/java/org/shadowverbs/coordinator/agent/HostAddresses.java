// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.net.DatagramSocket;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.shadowverbs.coordinator.process.HostAddress;

/** The IPv4 addresses that hosts have for each other. */
final class HostAddresses {
    private static final int DISCARD = 9;

    private HostAddresses() {
    }

    /** Those of a host by its name; none when the name is not known here. */
    static List<String> of(final String host) {
        try {
            return Arrays.stream(InetAddress.getAllByName(host)).filter(Inet4Address.class::isInstance)
                    .map(InetAddress::getHostAddress).toList();
        } catch (UnknownHostException e) {
            return List.of(); // Whoever connects to it by that name may know better.
        }
    }

    /**
     * At which this host may be reached, the likeliest first.
     *
     * @param named by the user; empty: none
     * @param hosts addresses of the one that is to reach it
     */
    static List<String> ofThisHost(final String named, final List<String> hosts) {
        final Set<String> all = new LinkedHashSet<>();
        if (!named.isEmpty()) {
            all.add(named);
        }
        for (final String host : hosts) {
            try (DatagramSocket socket = new DatagramSocket()) {
                socket.connect(new InetSocketAddress(host, DISCARD)); // Sends nothing: the kernel chooses the way there.
                final InetAddress local = socket.getLocalAddress();
                if (!local.isLoopbackAddress()) {
                    all.add(local.getHostAddress());
                }
            } catch (IOException e) {
                continue; // no way there
            }
        }
        HostAddress.ofThisHost().stream().filter(address -> !address.version6()).map(HostAddress::address).forEach(all::add);
        return List.copyOf(all);
    }
}
