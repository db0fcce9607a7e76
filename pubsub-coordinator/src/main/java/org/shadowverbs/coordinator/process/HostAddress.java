// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * An address of a host at which other hosts reach it.
 *
 * @param device  the name of the network interface
 * @param address numeric, IPv4 or IPv6
 */
public record HostAddress(String device, String address) {
    /**
     * Those of this host, without loopback and link-local ones, in the order of the interfaces.
     *
     * @return the addresses; empty where the host has none
     */
    public static List<HostAddress> ofThisHost() {
        final List<HostAddress> addresses = new ArrayList<>();
        try {
            for (final NetworkInterface device : NetworkInterface.networkInterfaces()
                    .sorted(Comparator.comparingInt(NetworkInterface::getIndex)).toList()) {
                device.inetAddresses().filter(address -> !address.isLoopbackAddress() && !address.isLinkLocalAddress())
                        .forEach(address -> addresses.add(new HostAddress(device.getName(), numeric(address))));
            }
        } catch (final SocketException e) {
            return List.of(); // It has no interface that can be asked.
        }
        return addresses;
    }

    /** As {@link TcpConnection} has it: without the scope that Java appends to an IPv6 address. */
    static String numeric(final InetAddress address) {
        final String text = address.getHostAddress();
        final int scope = address instanceof Inet6Address ? text.indexOf('%') : -1;
        return scope < 0 ? text : text.substring(0, scope);
    }

    /**
     * Whether it is an IPv6 address.
     *
     * @return true if so
     */
    public boolean version6() {
        return address.indexOf(':') >= 0;
    }
}
