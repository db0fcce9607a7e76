// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

/** A completion event channel. */
final class Channel extends Resource {
    final Context context;

    Channel(final long virtual, final long real, final Context context) {
        super(virtual, real);
        this.context = context;
    }
}
