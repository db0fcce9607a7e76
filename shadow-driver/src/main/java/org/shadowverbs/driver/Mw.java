// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

/**
 * A memory window. What it is bound to the native side knows, for binds are requests. Its rkeys are 256 that differ in
 * the lowest byte, which the application chooses.
 */
final class Mw extends Resource {
    static final int RKEYS = 256;
    static final int BLOCK = ~(RKEYS - 1);

    final Pd pd;
    /** {@code enum ibv_mw_type}. */
    final int type;
    /** Virtual, of all its rkeys but for the lowest byte. */
    final int block;

    Mw(final long virtual, final long real, final Pd pd, final int type, final int block) {
        super(virtual, real);
        this.pd = pd;
        this.type = type;
        this.block = block & BLOCK;
    }
}
