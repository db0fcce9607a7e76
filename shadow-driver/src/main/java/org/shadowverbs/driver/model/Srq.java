// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

/** A shared receive queue. */
public final class Srq extends Resource {
    public final Pd pd;
    /** The application's, for messages of its own only; the real queue's is the virtual one. */
    public final long srqContext;
    /** What the application sees, and what the real queue is made anew with. ibv_modify_srq changes the first. */
    public int maxWr;
    public final int maxSge;
    /** Of XRC: the domain, the completion queue and the virtual number; else null, null and 0. */
    public final Xrcd xrcd;
    public final Cq cq;
    public final int virtualNumber;
    /** The limit that was armed, and had not been reached, when the real queue was destroyed; 0: none. */
    public int limit;

    public Srq(final long virtual, final long real, final Pd pd, final long srqContext, final int maxWr, final int maxSge,
            final Xrcd xrcd, final Cq cq, final int virtualNumber) {
        super(virtual, real);
        this.pd = pd;
        this.srqContext = srqContext;
        this.maxWr = maxWr;
        this.maxSge = maxSge;
        this.xrcd = xrcd;
        this.cq = cq;
        this.virtualNumber = virtualNumber;
    }
}
