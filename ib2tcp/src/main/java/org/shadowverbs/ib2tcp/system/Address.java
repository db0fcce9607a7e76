// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

import java.util.Arrays;

/**
 * Where a process is: its GID says it. A link-local GID, whose interface id is the IPv4 address, the TCP port, and a
 * number that tells a process from another which had the same port before it.
 */
public final class Address {
    public static final long PREFIX = 0xfe80L << 48;
    /** Unicast lids are those from 1 to this. */
    public static final int LIDS = 0xbfff;
    private static final int DOCUMENTATION = 198 << 24 | 51 << 16 | 100 << 8 | 1;
    private static final int LOOPBACK = 127 << 24 | 1;

    private Address() {
    }

    public static long id(final int ipv4, final int port, final int cookie) {
        return (long) ipv4 << 32 | (long) port << 16 | cookie & 0xffff;
    }

    public static int ipv4(final long id) {
        return (int) (id >>> 32);
    }

    public static int port(final long id) {
        return (int) (id >>> 16) & 0xffff;
    }

    /**
     * What the completion of a datagram has as the lid of the sending process: no address, and nothing that the application
     * gets to see, but it tells senders apart whose queue pairs have equal numbers.
     */
    public static int sourceLid(final long id) {
        return 1 + (int) (id & 0xffff) % LIDS;
    }

    static boolean isLoopback(final int ipv4) {
        return ipv4 >>> 24 == LOOPBACK >>> 24;
    }

    /**
     * The address to listen at: as told, else that of the default route, else the only one that there is besides the
     * loopback's, else the loopback's. One that was told on another host counts if this one has it, too.
     */
    public static int choose(final Posix posix, final Settings settings, final Host host) {
        final String text = settings.address();
        if (text != null && !text.isEmpty()) {
            final int told = parse(text);
            if (!settings.elsewhere() || isLoopback(told)
                    || Arrays.stream(posix.addresses()).anyMatch(a -> a == told)) {
                return told;
            }
            host.say("this host does not have SHADOWVERBS_TCP_ADDRESS=" + text + "; restart with one that it has, or the"
                    + " usual one is chosen");
        }
        final int routed = posix.sourceTowards(DOCUMENTATION);
        if (routed != 0) {
            return routed;
        }
        final int[] addresses = posix.addresses();
        if (addresses.length > 1) {
            host.say("this host has several addresses and no default route: peers on other hosts will not find this"
                    + " process, unless SHADOWVERBS_TCP_ADDRESS says which it is to be reached at");
        }
        return addresses.length == 1 ? addresses[0] : LOOPBACK;
    }

    private static int parse(final String text) {
        int address = 0;
        int parts = 0;
        for (final String part : text.split("\\.", -1)) {
            int value = -1;
            try {
                value = Integer.parseInt(part);
            } catch (NumberFormatException e) {
                parts = 4; // is refused below
            }
            if (value < 0 || value > 255 || ++parts > 4) {
                throw new DeviceException(Posix.EINVAL, "listen at SHADOWVERBS_TCP_ADDRESS=" + text
                        + ", which is no IPv4 address");
            }
            address = address << 8 | value;
        }
        if (parts != 4) {
            throw new DeviceException(Posix.EINVAL, "listen at SHADOWVERBS_TCP_ADDRESS=" + text
                    + ", which is no IPv4 address");
        }
        return address;
    }

    public static String text(final int ipv4) {
        return (ipv4 >>> 24) + "." + (ipv4 >>> 16 & 255) + "." + (ipv4 >>> 8 & 255) + "." + (ipv4 & 255);
    }
}
