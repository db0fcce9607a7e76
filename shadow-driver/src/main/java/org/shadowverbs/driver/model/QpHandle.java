// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

/** A further handle of an XRC receive queue pair, made by ibv_open_qp. The monitor for verbs on it is the queue pair's. */
public final class QpHandle extends Resource {
    public final Qp qp;
    /** The domain through which it was opened: that of the queue pair, perhaps by another handle. */
    public final Xrcd xrcd;
    /** The application's, for query_qp. */
    public final long qpContext;

    public QpHandle(final long virtual, final long real, final Qp qp, final Xrcd xrcd, final long qpContext) {
        super(virtual, real);
        this.qp = qp;
        this.xrcd = xrcd;
        this.qpContext = qpContext;
    }
}
