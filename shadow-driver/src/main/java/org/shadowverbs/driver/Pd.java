// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

/** A protection domain. */
final class Pd extends Resource {
    final Context context;

    Pd(final long virtual, final long real, final Context context) {
        super(virtual, real);
        this.context = context;
    }
}
