// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

/** An XRC domain. */
public final class Xrcd extends Resource {
    public final Context context;
    /** A descriptor of ours for the file that names the domain; -1: none does. */
    public final int fd;
    /** The same of all that stand for one domain. */
    public final int domain;
    /** The virtual domain is gone, with its context, and this only speaks for what it was. */
    public boolean contextClosed;

    public Xrcd(final long virtual, final long real, final Context context, final int fd, final int domain) {
        super(virtual, real);
        this.context = context;
        this.fd = fd;
        this.domain = domain;
    }
}
