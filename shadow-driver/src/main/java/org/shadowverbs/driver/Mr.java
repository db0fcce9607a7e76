// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

/** A memory region. */
final class Mr extends Resource {
    /** IBV_ACCESS_REMOTE_WRITE, _READ, _ATOMIC: the region's rkey is of use to others. */
    private static final int REMOTE = 2 | 4 | 8;

    Pd pd;
    long address;
    long length;
    long iova;
    int access;
    int virtualLkey;
    int virtualRkey;
    /** The application has unmapped the memory: nothing stands behind the region any more, its keys are invalid. */
    boolean dead;

    Mr(final long virtual, final long real, final Pd pd, final long address, final long length, final long iova,
            final int access, final int virtualLkey, final int virtualRkey) {
        super(virtual, real);
        this.pd = pd;
        this.address = address;
        this.length = length;
        this.iova = iova;
        this.access = access;
        this.virtualLkey = virtualLkey;
        this.virtualRkey = virtualRkey;
    }

    boolean remote() {
        return (access & REMOTE) != 0;
    }
}
