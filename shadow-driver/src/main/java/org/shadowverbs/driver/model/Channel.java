// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

/** A completion event channel. */
public final class Channel extends Resource {
    public final Context context;

    public Channel(final long virtual, final long real, final Context context) {
        super(virtual, real);
        this.context = context;
    }
}
