// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

/** A memory region. */
final class Mr extends Resource {
    /** IBV_ACCESS_REMOTE_WRITE, _READ, _ATOMIC: the region's rkey is of use to others. */
    private static final int REMOTE = 2 | 4 | 8;

    Pd pd;
    Registration what;
    int virtualLkey;
    int virtualRkey;
    /** The application has unmapped the memory: nothing stands behind the region any more, its keys are invalid. */
    boolean dead;

    Mr(final long virtual, final long real, final Pd pd, final Registration what, final int virtualLkey,
            final int virtualRkey) {
        super(virtual, real);
        this.pd = pd;
        this.what = what;
        this.virtualLkey = virtualLkey;
        this.virtualRkey = virtualRkey;
    }

    boolean remote() {
        return (what.access & REMOTE) != 0;
    }
}
