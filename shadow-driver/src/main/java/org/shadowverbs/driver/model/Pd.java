// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

/** A protection domain. */
public final class Pd extends Resource {
    public final Context context;
    /** For a parent domain: the domain whose real one it stands for; else null. */
    public final Pd below;

    public Pd(final long virtual, final long real, final Context context) {
        this(virtual, real, context, null);
    }

    public Pd(final long virtual, final long real, final Context context, final Pd below) {
        super(virtual, real);
        this.context = context;
        this.below = below;
    }
}
