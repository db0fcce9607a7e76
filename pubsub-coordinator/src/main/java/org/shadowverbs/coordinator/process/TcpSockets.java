// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The TCP sockets of a process's network namespace. */
final class TcpSockets {
    private static final int LISTEN = 0x0a;
    private static final int CLOSED = 0x07;
    private static final int WORD = 4;

    private final Map<Long, Socket> byInode = new HashMap<>();
    private final Set<TcpConnection> orphans = new HashSet<>();

    /**
     * A socket.
     *
     * @param inode  its inode
     * @param local  its own address
     * @param remote that of its peer
     * @param state  the kernel's number of the state
     * @param queued bytes sent and not acknowledged
     */
    record Socket(long inode, InetSocketAddress local, InetSocketAddress remote, int state, long queued) {
        TcpConnection connection() {
            return new TcpConnection(local.getAddress().getHostAddress(), local.getPort(),
                    remote.getAddress().getHostAddress(), remote.getPort());
        }

        boolean connected() {
            return state != LISTEN && state != CLOSED;
        }
    }

    static TcpSockets of(final long pid) throws IOException {
        final TcpSockets sockets = new TcpSockets();
        for (final String table : new String[] {"tcp", "tcp6"}) {
            final Path path = Proc.path(pid, "net").resolve(table);
            if (!Files.exists(path)) {
                continue;
            }
            for (final String line : Files.readAllLines(path)) {
                final String[] field = line.strip().split(" +");
                if (field[0].endsWith(":") && field.length > 9) {
                    final Socket socket = new Socket(
                            Long.parseLong(field[9]), address(field[1]), address(field[2]),
                            Integer.parseInt(field[3], 16),
                            Long.parseLong(field[4].substring(0, field[4].indexOf(':')), 16));
                    if (socket.inode() != 0) {
                        sockets.byInode.put(socket.inode(), socket);
                    } else {
                        sockets.orphans.add(socket.connection());
                    }
                }
            }
        }
        return sockets;
    }

    Socket get(final long inode) {
        return byInode.get(inode);
    }

    /** Whether one of the connections has bytes that the other end has not acknowledged. */
    boolean unacknowledged(final List<TcpConnection> connections) {
        return byInode.values().stream()
                .anyMatch(socket -> socket.queued() > 0 && connections.contains(socket.connection()));
    }

    /** Connections that no process has any more, in TIME_WAIT for example. */
    Set<TcpConnection> orphans() {
        return orphans;
    }

    /** The other end of a connection within this host, or null. */
    Socket peer(final Socket socket) {
        for (final Socket other : byInode.values()) {
            if (other.local().equals(socket.remote())
                    && other.remote().equals(socket.local())) {
                return other;
            }
        }
        return null;
    }

    /** Addresses are words in the host's byte order; little endian here. */
    private static InetSocketAddress address(final String text) throws UnknownHostException {
        final int colon = text.indexOf(':');
        final byte[] words = HexFormat.of().parseHex(text.substring(0, colon));
        final byte[] bytes = new byte[words.length];
        for (int i = 0; i < words.length; i++) {
            bytes[i] = words[i / WORD * WORD + WORD - 1 - i % WORD];
        }
        return new InetSocketAddress(InetAddress.getByAddress(bytes), Integer.parseInt(text.substring(colon + 1), 16));
    }
}
