// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

/** A memory region. */
public final class Mr extends Resource {
    public Pd pd;
    public Registration what;
    public int virtualLkey;
    public int virtualRkey;
    /** The application has unmapped the memory: nothing stands behind the region any more, its keys are invalid. */
    public boolean dead;

    public Mr(final long virtual, final long real, final Pd pd, final Registration what, final int virtualLkey,
            final int virtualRkey) {
        super(virtual, real);
        this.pd = pd;
        this.what = what;
        this.virtualLkey = virtualLkey;
        this.virtualRkey = virtualRkey;
    }

    public boolean remote() {
        return what.remote();
    }
}
