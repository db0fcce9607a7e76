// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.StringTokenizer;

/** The TCP sockets of a process's network namespace. */
final class TcpSockets {
    private static final int TIME_WAIT = 0x06;
    private static final int LISTEN = 0x0a;
    private static final int CLOSED = 0x07;
    private static final int WORD = 4;
    /** Which field of a line of /proc/net/tcp is the inode, from 0. */
    private static final int INODE = 9;

    private final Map<Long, Socket> byInode = new HashMap<>();
    private final Map<TcpConnection, Socket> unheld = new HashMap<>();

    /**
     * A socket.
     *
     * @param inode  its inode
     * @param local  its own address
     * @param remote that of its peer
     * @param state  the kernel's number of the state
     * @param queued bytes sent and not acknowledged
     * @param unread bytes that have come and were not read; of one that listens: connections that were not accepted
     */
    record Socket(long inode, InetSocketAddress local, InetSocketAddress remote, int state, long queued, long unread) {
        TcpConnection connection() {
            return new TcpConnection(HostAddress.numeric(local.getAddress()), local.getPort(),
                    HostAddress.numeric(remote.getAddress()), remote.getPort());
        }

        TcpListener listener() {
            return new TcpListener(HostAddress.numeric(local.getAddress()), local.getPort());
        }

        /** Whether it has data or a FIN to send that the other end has not acknowledged, and no process has it: see unheld(). */
        boolean leftOver() {
            return inode == 0 && end("").sending();
        }

        /** Of one that no process has: whether it waits to be accepted. */
        boolean notAccepted() {
            return end("").notAccepted();
        }

        /** Whether the other end has sent all. */
        boolean ending() {
            return end("").ending();
        }

        /** Whether its other end is on the same host, for certain. */
        boolean withinHost() {
            return remote.getAddress().isLoopbackAddress() || remote.getAddress().equals(local.getAddress());
        }

        boolean connecting() {
            return end("").connecting();
        }

        /** Whether it is only there so that late segments find nothing new in its place: TIME_WAIT. */
        boolean over() {
            return state == TIME_WAIT;
        }

        boolean listening() {
            return state == LISTEN;
        }

        TcpEnd end(final String holder) {
            return new TcpEnd(holder, connection(), state);
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
                final String[] field = fields(line);
                if (field[0].endsWith(":") && field[INODE] != null) {
                    final int colon = field[4].indexOf(':');
                    final Socket socket = new Socket(
                            Long.parseLong(field[INODE]), address(field[1]), address(field[2]),
                            Integer.parseInt(field[3], 16),
                            Long.parseLong(field[4].substring(0, colon), 16), Long.parseLong(field[4].substring(colon + 1), 16));
                    if (socket.inode() != 0) {
                        sockets.byInode.put(socket.inode(), socket);
                    } else {
                        sockets.unheld.put(socket.connection(), socket);
                    }
                }
            }
        }
        return sockets;
    }

    /** The first of a line, as many as there are; those that it lacks are null. */
    private static String[] fields(final String line) {
        final String[] fields = new String[INODE + 1];
        final StringTokenizer words = new StringTokenizer(line);
        for (int field = 0; field < fields.length && words.hasMoreTokens(); field++) {
            fields[field] = words.nextToken();
        }
        return fields;
    }

    Socket get(final long inode) {
        return byInode.get(inode);
    }

    /** Whether one of the connections has bytes that the other end has not acknowledged. */
    boolean unacknowledged(final List<TcpConnection> connections) {
        return byInode.values().stream()
                .anyMatch(socket -> socket.queued() > 0 && connections.contains(socket.connection()));
    }

    /** Connections that no process has: closed by it, or not accepted yet. */
    Map<TcpConnection, Socket> unheld() {
        return unheld;
    }

    /** All that processes have. */
    Collection<Socket> held() {
        return byInode.values();
    }

    /** One that listens where a socket connects to, on this host; null: none. */
    Socket listener(final Socket connecting) {
        return listener(new TcpListener(connecting.connection().remoteAddress(), connecting.connection().remotePort()));
    }

    /** One that listens where an end that waits to be accepted has come to; null: none. */
    Socket listenerOf(final Socket end) {
        return listener(end.listener());
    }

    private Socket listener(final TcpListener at) {
        return byInode.values().stream().filter(socket -> socket.listening() && socket.listener().collidesWith(at))
                .findFirst().orElse(null);
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
