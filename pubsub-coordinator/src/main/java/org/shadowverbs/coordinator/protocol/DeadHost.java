// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import org.shadowverbs.coordinator.system.NativeFunction;

/**
 * Has the kernel break a TCP connection when the other host does not answer any more: it has lost its power or its network,
 * and would be noticed after two hours, or, where something was under way to it, after a quarter of an hour.
 *
 * <p>It is asked for by keep-alive and TCP_USER_TIMEOUT, tcp(7), and not by messages of ours to and fro. The kernel of a host
 * that is alive answers whatever its processes do: an agent that is stopped, collects garbage, or waits for a processor on a
 * host that computes with all of them, must not cost a job its ranks. Keep-alive alone would not do: the kernel probes no
 * connection on which data are not acknowledged, and there it tries for a quarter of an hour. The time-out holds for both. It
 * also ends a connection whose other side has not read for that long when all buffers are full; an agent that cannot read its
 * orders for so long joins again by itself.
 */
final class DeadHost {
    /** How long a host may not answer: shorter than the 10 s within which it is to be named. */
    private static final int TIMEOUT_MILLIS = 8_000;
    /** Between the probes of a connection on which nothing is said; several are lost before the host counts as dead. */
    private static final int PROBE_SECONDS = 2;

    private static final int SOL_SOCKET = 1;
    private static final int SO_KEEPALIVE = 9;
    private static final int IPPROTO_TCP = 6;
    private static final int TCP_KEEPIDLE = 4;
    private static final int TCP_KEEPINTVL = 5;
    private static final int TCP_USER_TIMEOUT = 18;
    private static final int AF_INET = 2;
    private static final int AF_INET6 = 10;
    /** The larger of the two addresses, struct sockaddr_in6. */
    private static final int ADDRESS_BYTES = 28;
    private static final ValueLayout.OfShort PORT =
            ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

    private DeadHost() {
    }

    /** The C library's functions, which a process that talks within its host alone never loads. */
    private static final class Socket {
        static final NativeFunction SETSOCKOPT = NativeFunction.of("setsockopt");
        static final NativeFunction GETSOCKNAME = NativeFunction.of("getsockname");
        static final NativeFunction GETPEERNAME = NativeFunction.of("getpeername");

        private Socket() {
        }
    }

    /**
     * Sets the options of a connected socket. A connection within this host is left alone: it ends with the host.
     *
     * @throws IOException when the kernel refuses, or the connection is closed already
     */
    static void breaks(final SocketChannel channel) throws IOException {
        final InetSocketAddress local = (InetSocketAddress) channel.getLocalAddress();
        final InetSocketAddress remote = (InetSocketAddress) channel.getRemoteAddress();
        if (remote.getAddress().isLoopbackAddress()) {
            return;
        }
        try (Arena arena = Arena.ofConfined()) {
            final int fd = descriptor(arena, local, remote);
            set(arena, fd, SOL_SOCKET, SO_KEEPALIVE, 1);
            set(arena, fd, IPPROTO_TCP, TCP_KEEPIDLE, PROBE_SECONDS);
            set(arena, fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_SECONDS);
            set(arena, fd, IPPROTO_TCP, TCP_USER_TIMEOUT, TIMEOUT_MILLIS);
        }
    }

    /** The same after another time than usual; whoever asks for a short one also sees to it that something is under way. */
    static void breaks(final SocketChannel channel, final int millis) throws IOException {
        final InetSocketAddress local = (InetSocketAddress) channel.getLocalAddress();
        final InetSocketAddress remote = (InetSocketAddress) channel.getRemoteAddress();
        if (!remote.getAddress().isLoopbackAddress()) {
            try (Arena arena = Arena.ofConfined()) {
                set(arena, descriptor(arena, local, remote), IPPROTO_TCP, TCP_USER_TIMEOUT, millis);
            }
        }
    }

    /** Whether a connection has broken because the other host does not answer; else its process has closed it, or has died. */
    static boolean isReason(final String why) {
        return why != null && (why.contains("timed out") || why.contains("No route to host") || why.contains("unreachable")
                || why.contains("Host is down"));
    }

    /** The JDK sets no user time-out, and tells nobody a socket's descriptor: it is the one between these addresses. */
    private static int descriptor(final Arena arena, final InetSocketAddress local, final InetSocketAddress remote)
            throws IOException {
        try (DirectoryStream<Path> all = Files.newDirectoryStream(Path.of("/proc/self/fd"))) {
            for (final Path entry : all) {
                final int fd = Integer.parseInt(entry.getFileName().toString());
                if (isSocket(entry) && is(arena, Socket.GETSOCKNAME, fd, local)
                        && is(arena, Socket.GETPEERNAME, fd, remote)) {
                    return fd;
                }
            }
        }
        throw new IOException("the connection between " + local + " and " + remote + " is closed already");
    }

    private static boolean isSocket(final Path entry) throws IOException {
        try {
            return Files.readSymbolicLink(entry).toString().startsWith("socket:");
        } catch (NoSuchFileException e) {
            return false; // closed meanwhile by another thread
        }
    }

    private static boolean is(final Arena arena, final NativeFunction question, final int fd,
            final InetSocketAddress expected) {
        final MemorySegment address = arena.allocate(ADDRESS_BYTES, 8);
        final MemorySegment length = arena.allocateFrom(ValueLayout.JAVA_INT, ADDRESS_BYTES);
        if (question.call(fd, address.address(), length.address()) != 0) {
            return false; // no socket of the internet's, or not connected
        }
        final int family = address.get(ValueLayout.JAVA_SHORT, 0);
        if (family != AF_INET && family != AF_INET6 || (address.get(PORT, 2) & 0xffff) != expected.getPort()) {
            return false;
        }
        final byte[] wanted = expected.getAddress().getAddress();
        // The last four bytes of an IPv4 address in IPv6.
        final byte[] all = address.asSlice(family == AF_INET ? 4 : 8, family == AF_INET ? 4 : 16)
                .toArray(ValueLayout.JAVA_BYTE);
        return all.length >= wanted.length
                && Arrays.equals(all, all.length - wanted.length, all.length, wanted, 0, wanted.length);
    }

    private static void set(final Arena arena, final int fd, final int level, final int option, final int value)
            throws IOException {
        final int status = Socket.SETSOCKOPT.call(fd, level, option, arena.allocateFrom(ValueLayout.JAVA_INT, value).address(),
                Integer.BYTES);
        if (status != 0) {
            throw new IOException("setsockopt(" + level + ", " + option + "): errno " + -status);
        }
    }
}
