// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

/** A protection domain. */
final class Pd extends Resource {
    final Context context;
    /** Of a parent domain, the domain whose real one it stands for; else null. */
    final Pd below;

    Pd(final long virtual, final long real, final Context context) {
        this(virtual, real, context, null);
    }

    Pd(final long virtual, final long real, final Context context, final Pd below) {
        super(virtual, real);
        this.context = context;
        this.below = below;
    }
}
