// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

import org.shadowverbs.bindings.tcp.shadowverbs_tcp_h;

/** What the device has room for, as programs that ask are told (ibv_query_device_ex(3), ibv_query_port(3)). */
public final class Limits {
    /** Scatter/gather entries of a request. */
    public static final int MAX_SGE = 16;
    /** Of the doorbell; two are never used. */
    static final int BELLS = shadowverbs_tcp_h.SV_TCP_BELLS();
    /** Shared receive queues. */
    public static final int MAX_SRQ = BELLS / 4;
    /** Queue pairs. */
    public static final int MAX_QP = BELLS - MAX_SRQ - 2;
    /** Regions and windows: what a key has bits for. */
    public static final int MAX_MR = (1 << 24) - 1;
    /** Bytes of one piece of device memory. */
    public static final long MAX_DM = 256L << 20;
    /** Bytes of one message. */
    public static final int MAX_MESSAGE = (int) Frame.MAX_MESSAGE;
    /** Requests of a queue. */
    public static final int MAX_WR = 16384;
    /** Entries of a completion queue. */
    public static final int MAX_CQE = 1 << 20;
    /** RDMA READs and atomics under way on a queue pair, in each direction. */
    public static final int MAX_READS = 16;
    /** Bytes of an inline request. */
    public static final int MAX_INLINE = 1024;

    private Limits() {
    }
}
