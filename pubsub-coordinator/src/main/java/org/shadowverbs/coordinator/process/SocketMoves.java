// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.util.Map;

/**
 * Where the TCP and UDP sockets of a tree are to be when it is restored. What is not named stays.
 *
 * @param connections for each connected TCP socket that moves: its ends then
 * @param listeners   for each TCP socket that listens or is bound, and moves: where then
 * @param addresses   for all other sockets: by the address in the image, the one then
 */
public record SocketMoves(
        Map<TcpConnection, TcpConnection> connections,
        Map<TcpListener, TcpListener> listeners,
        Map<String, String> addresses) {
    /** All come back where they were. */
    public static final SocketMoves NONE = new SocketMoves(Map.of(), Map.of(), Map.of());

    /**
     * Where a connection comes back.
     *
     * @param connection as the image has it
     * @return its ends then
     */
    public TcpConnection of(final TcpConnection connection) {
        final TcpConnection named = connections.get(connection);
        return named != null ? named : new TcpConnection(of(connection.localAddress()), connection.localPort(),
                of(connection.remoteAddress()), connection.remotePort());
    }

    /**
     * Where a socket that listens or is bound comes back.
     *
     * @param listener as the image has it
     * @return its address and port then
     */
    public TcpListener of(final TcpListener listener) {
        final TcpListener named = listeners.get(listener);
        return named != null ? named : new TcpListener(of(listener.address()), listener.port());
    }

    /**
     * What an address has become.
     *
     * @param address as the image has it
     * @return the address then
     */
    public String of(final String address) {
        return addresses.getOrDefault(address, address);
    }
}
