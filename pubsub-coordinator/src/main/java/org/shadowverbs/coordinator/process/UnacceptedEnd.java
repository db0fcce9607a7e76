// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

/**
 * What the listener's host has had of a TCP connection that has come from another host and that no program has accepted. Its client's
 * host makes it again.
 *
 * @param connection its ends, as the client has them
 * @param sequence   number of the byte that the listener's end expects next; null: it has had nothing
 * @param data       what it has had
 */
public record UnacceptedEnd(TcpConnection connection, Long sequence, byte[] data) {
}
