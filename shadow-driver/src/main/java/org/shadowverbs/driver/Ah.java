// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

/** An address handle: behind it one real handle for each real port that its address has come to stand for. */
final class Ah extends Resource {
    final Pd pd;
    /** A struct ibv_ah_attr as the application gave it: ids are virtual. */
    final byte[] attr;
    /** Empty while detached. */
    long[] reals = {};
    /** The native table of queue pair numbers, or 0. */
    long map;

    Ah(final long virtual, final Pd pd, final byte[] attr) {
        super(virtual, 0);
        this.pd = pd;
        this.attr = attr;
    }
}
