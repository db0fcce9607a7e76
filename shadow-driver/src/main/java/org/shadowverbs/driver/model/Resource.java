// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

/**
 * One verbs object: the virtual struct that the application holds, the real object behind it (0 while detached), and in
 * the subclasses the parameters to make it anew with. Verbs on one object are serialised by its monitor.
 */
public abstract class Resource {
    public final long virtual;
    public long real;

    Resource(final long virtual, final long real) {
        this.virtual = virtual;
        this.real = real;
    }
}
