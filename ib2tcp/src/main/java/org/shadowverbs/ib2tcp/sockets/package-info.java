// SPDX-License-Identifier: Apache-2.0
/**
 * The engine over TCP and UDP: the thread, epoll, connections; {@link org.shadowverbs.ib2tcp.sockets.TcpDevice}
 * first. Uses all rooms but verbs.
 */
package org.shadowverbs.ib2tcp.sockets;
