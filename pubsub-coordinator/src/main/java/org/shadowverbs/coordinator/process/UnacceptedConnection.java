// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

/**
 * A TCP connection that no program had accepted when it was saved, and that its client's end makes again at a restart.
 *
 * @param connection its ends, as the client has them
 * @param sequence   number of the byte that the listener's end expected next; null: it had had nothing
 * @param closed     whether its client's program had closed it: then no socket of an image is its client's end
 * @param data       the image file with what the listener's end had had; empty when that is nothing
 */
public record UnacceptedConnection(TcpConnection connection, Long sequence, boolean closed, String data) {
}
