// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

import java.util.HashMap;
import java.util.Map;
import org.shadowverbs.bindings.tcp.shadowverbs_tcp_h;

/**
 * What the device has room for. Each is as much as any HCA has, for a program that has made use of that is to go on here; memory
 * is taken for what is asked for only. Programs that ask (ibv_query_device_ex(3), ibv_query_port(3)) and use all that there is are
 * told of as much as is usual, where that is less.
 */
public final class Limits {
    /** Scatter/gather entries of a request: qib and hfi1 have 128 for SRQs, rdma_rxe 32. */
    public static final int MAX_SGE = 128;
    public static final int USUAL_SGE = 32;
    /** Bits of the doorbell; two are never used. */
    public static final int BELLS = shadowverbs_tcp_h.SV_TCP_BELLS();
    /** Shared receive queues. */
    public static final int MAX_SRQ = BELLS / 4;
    /** Queue pairs. */
    public static final int MAX_QP = BELLS - MAX_SRQ - 2;
    /** Regions and windows: what a key has bits for. */
    public static final int MAX_MR = (1 << 24) - 1;
    /** Bytes of one piece of device memory. */
    public static final long MAX_DM = 256L << 20;
    /** Bytes of one message: what the transport has. */
    public static final long MAX_MESSAGE = 1L << 31;
    /** Requests of a queue: rdma_rxe has 2^20, mlx5 2^15. */
    public static final int MAX_WR = 1 << 20;
    public static final int USUAL_WR = 1 << 15;
    /** Entries of a completion queue: mlx4 and mlx5 have 2^22. */
    public static final int MAX_CQE = 1 << 22;
    /** RDMA READs and atomics under way on a queue pair, in each direction: what the attribute can say. mlx4 and mlx5 have 16. */
    public static final int MAX_READS = 255;
    public static final int USUAL_READS = 16;
    /** Bytes of an inline request: mlx4 and mlx5 have somewhat less than 1024. */
    public static final int MAX_INLINE = 4096;
    /** Entries of the table of P_Keys, of which the first is the default one and the others are empty. */
    public static final int PKEYS = 128;

    private Limits() {
    }

    /** By the names of struct ibv_device_attr, ibv_port_attr and ibv_qp_cap: what cannot be exceeded. */
    public static Map<String, Long> byName() {
        final Map<String, Long> limits = new HashMap<String, Long>();
        limits.put("max_qp", (long) MAX_QP);
        limits.put("max_qp_wr", (long) MAX_WR);
        limits.put("max_sge", (long) MAX_SGE);
        limits.put("max_inline_data", (long) MAX_INLINE);
        limits.put("max_qp_init_rd_atom", (long) MAX_READS);
        limits.put("max_qp_rd_atom", (long) MAX_READS);
        limits.put("max_cqe", (long) MAX_CQE);
        limits.put("max_srq", (long) MAX_SRQ);
        limits.put("max_srq_wr", (long) MAX_WR);
        limits.put("max_srq_sge", (long) MAX_SGE);
        limits.put("max_mr", (long) MAX_MR);
        limits.put("max_dm_size", MAX_DM);
        limits.put("pkey_tbl_len", (long) PKEYS);
        limits.put("phys_port_cnt", 1L);
        return limits;
    }
}
