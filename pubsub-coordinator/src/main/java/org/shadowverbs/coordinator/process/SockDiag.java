// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetAddress;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.Map;
import org.shadowverbs.coordinator.system.Libc;
import org.shadowverbs.coordinator.system.NativeFunction;

/** Asks the kernel about sockets what /proc does not tell, and has it drop what is left of some: sock_diag(7). */
final class SockDiag {
    /** Instead of a peer's inode: the peer has been closed. */
    static final long NO_INODE = 0;

    private static final NativeFunction SOCKET = NativeFunction.of("socket");
    private static final NativeFunction SEND = NativeFunction.of("send");
    private static final NativeFunction RECV = NativeFunction.of("recv");

    private static final int AF_NETLINK = 16;
    private static final int SOCK_RAW_CLOEXEC = 3 | 02000000;
    private static final int NETLINK_SOCK_DIAG = 4;
    private static final short SOCK_DIAG_BY_FAMILY = 20;
    private static final short SOCK_DESTROY = 21;
    private static final short NLM_F_REQUEST_ACK = 0x5;
    private static final short NLM_F_REQUEST_DUMP = 0x301;
    private static final short NLMSG_ERROR = 2;
    private static final short NLMSG_DONE = 3;
    private static final int NLMSG_HEADER = 16;
    private static final byte AF_UNIX = 1;
    private static final byte AF_INET = 2;
    private static final byte AF_INET6 = 10;
    private static final byte IPPROTO_TCP = 6;
    private static final int UDIAG_SHOW_PEER = 4;
    private static final short UNIX_DIAG_PEER = 2;
    private static final int ENOENT = 2;

    // struct unix_diag_req behind the header.
    private static final int UNIX_STATES = NLMSG_HEADER + 4;
    private static final int UNIX_SHOW = NLMSG_HEADER + 12;
    private static final int UNIX_REQUEST = NLMSG_HEADER + 24;
    // struct unix_diag_msg behind the header.
    private static final int UNIX_INODE = NLMSG_HEADER + 4;
    private static final int UNIX_MESSAGE = NLMSG_HEADER + 16;
    // struct inet_diag_req_v2 behind the header.
    private static final int INET_PROTOCOL = NLMSG_HEADER + 1;
    private static final int INET_STATES = NLMSG_HEADER + 4;
    private static final int INET_LOCAL_PORT = NLMSG_HEADER + 8;
    private static final int INET_REMOTE_PORT = NLMSG_HEADER + 10;
    private static final int INET_LOCAL = NLMSG_HEADER + 12;
    private static final int INET_REMOTE = NLMSG_HEADER + 28;
    private static final int INET_COOKIE = NLMSG_HEADER + 48;
    private static final int INET_REQUEST = NLMSG_HEADER + 56;

    private static final int BUFFER = 1 << 16;
    private static final ValueLayout.OfShort PORT = ValueLayout.JAVA_SHORT.withOrder(ByteOrder.BIG_ENDIAN);

    private SockDiag() {
    }

    /** Takes the messages that answer a request. */
    private interface Answers {
        void message(MemorySegment message);
    }

    /**
     * Which Unix socket is connected to which.
     *
     * @return peer by inode, of all connected Unix sockets of this network namespace; {@link #NO_INODE} if closed
     * @throws IOException if the kernel does not answer
     */
    static Map<Long, Long> unixPeers() throws IOException {
        final Map<Long, Long> peers = new HashMap<>();
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment request = request(arena, UNIX_REQUEST, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST_DUMP);
            request.set(ValueLayout.JAVA_BYTE, NLMSG_HEADER, AF_UNIX);
            request.set(ValueLayout.JAVA_INT, UNIX_STATES, -1);
            request.set(ValueLayout.JAVA_INT, UNIX_SHOW, UDIAG_SHOW_PEER);
            final int error = ask(arena, request, message -> unixPeer(message, peers));
            if (error != 0) {
                throw new IOException("NETLINK_SOCK_DIAG refuses Unix sockets: errno " + error);
            }
        }
        return peers;
    }

    /**
     * Drops one end of a connection, one that no process has any more: left in TIME_WAIT by a process that
     * has ended, it would hold the port for a minute.
     *
     * @return 0, or an errno; a connection that is not there is no error
     * @throws IOException if the kernel does not answer
     */
    static int dropOrphan(final TcpConnection connection) throws IOException {
        final byte[] local = InetAddress.ofLiteral(connection.localAddress()).getAddress();
        final byte[] remote = InetAddress.ofLiteral(connection.remoteAddress()).getAddress();
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment request = request(arena, INET_REQUEST, SOCK_DESTROY, NLM_F_REQUEST_ACK);
            request.set(ValueLayout.JAVA_BYTE, NLMSG_HEADER, local.length == 4 ? AF_INET : AF_INET6);
            request.set(ValueLayout.JAVA_BYTE, INET_PROTOCOL, IPPROTO_TCP);
            request.set(ValueLayout.JAVA_INT, INET_STATES, -1);
            request.set(PORT, INET_LOCAL_PORT, (short) connection.localPort());
            request.set(PORT, INET_REMOTE_PORT, (short) connection.remotePort());
            MemorySegment.copy(local, 0, request, ValueLayout.JAVA_BYTE, INET_LOCAL, local.length);
            MemorySegment.copy(remote, 0, request, ValueLayout.JAVA_BYTE, INET_REMOTE, remote.length);
            request.set(ValueLayout.JAVA_LONG, INET_COOKIE, -1L);
            final int error = ask(arena, request, message -> { });
            return error == ENOENT ? 0 : error;
        }
    }

    private static MemorySegment request(final Arena arena, final int size, final short type, final short flags) {
        final MemorySegment request = arena.allocate(size, Long.BYTES);
        request.set(ValueLayout.JAVA_INT, 0, size);
        request.set(ValueLayout.JAVA_SHORT, 4, type);
        request.set(ValueLayout.JAVA_SHORT, 6, flags);
        return request;
    }

    /** Returns 0 or an errno. */
    private static int ask(final Arena arena, final MemorySegment request, final Answers answers) throws IOException {
        final int socket = SOCKET.call(AF_NETLINK, SOCK_RAW_CLOEXEC, NETLINK_SOCK_DIAG);
        if (socket < 0) {
            throw new IOException("socket(AF_NETLINK, NETLINK_SOCK_DIAG): errno " + -socket);
        }
        try {
            return exchange(socket, arena, request, answers);
        } finally {
            Libc.close(socket);
        }
    }

    private static int exchange(
            final int socket, final Arena arena, final MemorySegment request, final Answers answers) throws IOException {
        final long sent = SEND.callLong(socket, request.address(), request.byteSize(), 0);
        if (sent != request.byteSize()) {
            throw new IOException("send to NETLINK_SOCK_DIAG: " + (sent < 0 ? "errno " + -sent : sent + " bytes"));
        }
        final MemorySegment buffer = arena.allocate(BUFFER, Long.BYTES);
        for (;;) {
            final long size = RECV.callLong(socket, buffer.address(), BUFFER, 0);
            if (size <= 0) {
                throw new IOException("recv from NETLINK_SOCK_DIAG: " + (size < 0 ? "errno " + -size : "nothing"));
            }
            for (long at = 0; at + NLMSG_HEADER <= size;) {
                final int length = buffer.get(ValueLayout.JAVA_INT, at);
                final short type = buffer.get(ValueLayout.JAVA_SHORT, at + 4);
                if (type == NLMSG_DONE) {
                    return 0;
                }
                if (type == NLMSG_ERROR) {
                    return -buffer.get(ValueLayout.JAVA_INT, at + NLMSG_HEADER);
                }
                if (length < NLMSG_HEADER) {
                    throw new IOException("NETLINK_SOCK_DIAG sent a message of " + length + " bytes");
                }
                answers.message(buffer.asSlice(at, length));
                at += aligned(length);
            }
        }
    }

    private static void unixPeer(final MemorySegment message, final Map<Long, Long> peers) {
        final long inode = Integer.toUnsignedLong(message.get(ValueLayout.JAVA_INT, UNIX_INODE));
        for (long at = UNIX_MESSAGE; at + 4 <= message.byteSize();) {
            final int length = Short.toUnsignedInt(message.get(ValueLayout.JAVA_SHORT, at));
            if (message.get(ValueLayout.JAVA_SHORT, at + 2) == UNIX_DIAG_PEER) {
                peers.put(inode, Integer.toUnsignedLong(message.get(ValueLayout.JAVA_INT, at + 4)));
            }
            at += Math.max(4, aligned(length));
        }
    }

    private static long aligned(final int length) {
        return (length + 3L) & ~3L;
    }
}
