// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

/**
 * The names of backends, as in {@code SHADOWVERBS_BACKEND}, verdicts, manifests and {@link JobBackend}. The link layer that a job
 * over TCP sees is part of the name, because it has to reach whomever the backend has to reach.
 */
public final class BackendName {
    public static final String HCA = "hca";
    /** The port has link layer Ethernet and no lid. */
    public static final String TCP = "ib2tcp";
    /** The port has link layer InfiniBand and a lid. */
    public static final String TCP_INFINIBAND = TCP + "+infiniband";
    /** The only device of a backend over TCP. */
    public static final String TCP_DEVICE = "tcp0";

    private BackendName() {
    }

    public static boolean exists(final String name) {
        return HCA.equals(name) || overTcp(name);
    }

    public static boolean overTcp(final String name) {
        return TCP.equals(name) || TCP_INFINIBAND.equals(name);
    }
}
