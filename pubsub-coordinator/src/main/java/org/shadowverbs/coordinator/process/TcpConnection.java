// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

/**
 * One end of a TCP connection that an image holds.
 *
 * @param localAddress  its own address, numeric
 * @param localPort     its own port
 * @param remoteAddress that of the other end, numeric
 * @param remotePort    that of the other end
 */
public record TcpConnection(String localAddress, int localPort, String remoteAddress, int remotePort) {
    /**
     * The same connection as its other end has it.
     *
     * @return the other end
     */
    public TcpConnection mirrored() {
        return new TcpConnection(remoteAddress, remotePort, localAddress, localPort);
    }
}
