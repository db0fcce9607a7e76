// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

/**
 * A memory window. What it is bound to the native side knows, for binds are requests. Its rkeys are 256 that differ in
 * the lowest byte, which the application chooses.
 */
public final class Mw extends Resource {
    public static final int RKEYS = 256;
    public static final int BLOCK = ~(RKEYS - 1);

    public final Pd pd;
    /** {@code enum ibv_mw_type}. */
    public final int type;
    /** Virtual, of all its rkeys but for the lowest byte. */
    public final int block;

    public Mw(final long virtual, final long real, final Pd pd, final int type, final int block) {
        super(virtual, real);
        this.pd = pd;
        this.type = type;
        this.block = block & BLOCK;
    }
}
