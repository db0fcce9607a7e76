// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

/**
 * A TCP socket that listens.
 *
 * @param address its own address, numeric; that of no host for all of the host's
 * @param port    its port
 */
public record TcpListener(String address, int port) {
    /**
     * Whether only one of both can be on a host.
     *
     * @param other the other one
     * @return true if so
     */
    public boolean collidesWith(final TcpListener other) {
        return port == other.port && (address.equals(other.address) || ofAllAddresses() || other.ofAllAddresses());
    }

    /**
     * Whether it listens at all addresses of its host.
     *
     * @return true if so
     */
    public boolean ofAllAddresses() {
        return address.equals("0.0.0.0") || address.equals("0:0:0:0:0:0:0:0");
    }
}
