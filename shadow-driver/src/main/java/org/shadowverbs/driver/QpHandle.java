// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

/** A further handle of an XRC receive queue pair, made by ibv_open_qp. The monitor for verbs on it is the queue pair's. */
final class QpHandle extends Resource {
    final Qp qp;
    /** The domain through which it was opened: that of the queue pair, perhaps by another handle. */
    final Xrcd xrcd;
    /** The application's, for query_qp. */
    final long qpContext;

    QpHandle(final long virtual, final long real, final Qp qp, final Xrcd xrcd, final long qpContext) {
        super(virtual, real);
        this.qp = qp;
        this.xrcd = xrcd;
        this.qpContext = qpContext;
    }
}
