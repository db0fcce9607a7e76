// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

import org.shadowverbs.bindings.tcp.sv_tcp_ah;
import org.shadowverbs.bindings.tcp.sv_tcp_cq;
import org.shadowverbs.bindings.tcp.sv_tcp_dm;
import org.shadowverbs.bindings.tcp.sv_tcp_qp;
import org.shadowverbs.bindings.tcp.sv_tcp_recv;
import org.shadowverbs.bindings.tcp.sv_tcp_ring;
import org.shadowverbs.bindings.tcp.sv_tcp_send;
import org.shadowverbs.bindings.tcp.sv_tcp_srq;
import org.shadowverbs.bindings.tcp.sv_tcp_stamp;
import org.shadowverbs.bindings.verbs.ibv_qp;
import org.shadowverbs.bindings.verbs.ibv_sge;
import org.shadowverbs.bindings.verbs.ibv_wc;

/** Offsets in the structures of native/include/shadowverbs_tcp.h and infiniband/verbs.h, as constants for the engine. */
public final class Layouts {
    public static final long QP_STATE = ibv_qp.state$offset();
    public static final long QP_SEND = sv_tcp_qp.send$offset();
    public static final long QP_RECV = sv_tcp_qp.recv$offset();
    public static final long QP_BELL = sv_tcp_qp.bell$offset();
    public static final long QP_OPCODES = sv_tcp_qp.opcodes$offset();
    public static final long QP_SEND_TAIL = sv_tcp_qp.send_tail$offset();
    public static final long QP_RECV_TAIL = sv_tcp_qp.recv_tail$offset();
    public static final long QP_FAIL_ASKED = sv_tcp_qp.fail_asked$offset();
    public static final long QP_SEND_HEAD = sv_tcp_qp.send_head$offset();
    public static final long QP_RECV_HEAD = sv_tcp_qp.recv_head$offset();
    public static final long QP_RECV_WANTED = sv_tcp_qp.recv_wanted$offset();
    public static final long QP_SIZE = sv_tcp_qp.sizeof();

    public static final long SRQ_RECV = sv_tcp_srq.recv$offset();
    public static final long SRQ_BELL = sv_tcp_srq.bell$offset();
    public static final long SRQ_TAIL = sv_tcp_srq.tail$offset();
    public static final long SRQ_HEAD = sv_tcp_srq.head$offset();
    public static final long SRQ_WANTED = sv_tcp_srq.wanted$offset();
    public static final long SRQ_SIZE = sv_tcp_srq.sizeof();

    public static final long AH_GID_PREFIX = sv_tcp_ah.gid_prefix$offset();
    public static final long AH_GID_INTERFACE = sv_tcp_ah.gid_interface$offset();
    public static final long AH_SL = sv_tcp_ah.sl$offset();
    public static final long AH_SIZE = sv_tcp_ah.sizeof();

    public static final long DM_BASE = sv_tcp_dm.base$offset();
    public static final long DM_LENGTH = sv_tcp_dm.length$offset();
    public static final long DM_SIZE = sv_tcp_dm.sizeof();

    public static final long RING_ENTRIES = sv_tcp_ring.entries$offset();
    public static final long RING_STRIDE = sv_tcp_ring.stride$offset();
    public static final long RING_MASK = sv_tcp_ring.mask$offset();
    public static final long RING_MAX = sv_tcp_ring.max$offset();
    public static final long RING_MAX_SGE = sv_tcp_ring.max_sge$offset();
    public static final long RING_MAX_INLINE = sv_tcp_ring.max_inline$offset();

    public static final long SEND_WR_ID = sv_tcp_send.wr_id$offset();
    public static final long SEND_OPCODE = sv_tcp_send.opcode$offset();
    public static final long SEND_FLAGS = sv_tcp_send.flags$offset();
    public static final long SEND_NUM_SGE = sv_tcp_send.num_sge$offset();
    public static final long SEND_IMM = sv_tcp_send.imm$offset();
    public static final long SEND_LENGTH = sv_tcp_send.length$offset();
    public static final long SEND_REMOTE = sv_tcp_send.remote_addr$offset();
    public static final long SEND_COMPARE = sv_tcp_send.compare_add$offset();
    public static final long SEND_SWAP = sv_tcp_send.swap$offset();
    public static final long SEND_RKEY = sv_tcp_send.rkey$offset();
    public static final long SEND_SEQUENCE = sv_tcp_send.sequence$offset();
    public static final long SEND_SIZE = sv_tcp_send.sizeof();

    public static final long RECV_WR_ID = sv_tcp_recv.wr_id$offset();
    public static final long RECV_NUM_SGE = sv_tcp_recv.num_sge$offset();
    public static final long RECV_SIZE = sv_tcp_recv.sizeof();

    public static final long SGE_ADDR = ibv_sge.addr$offset();
    public static final long SGE_LENGTH = ibv_sge.length$offset();
    public static final long SGE_LKEY = ibv_sge.lkey$offset();
    public static final long SGE_SIZE = ibv_sge.sizeof();

    public static final long CQ_MASK = sv_tcp_cq.mask$offset();
    public static final long CQ_ENTRIES = sv_tcp_cq.entries$offset();
    public static final long CQ_STAMPS = sv_tcp_cq.stamps$offset();
    public static final long CQ_HEAD = sv_tcp_cq.head$offset();
    public static final long CQ_TAIL = sv_tcp_cq.tail$offset();
    public static final long CQ_ARMED = sv_tcp_cq.armed$offset();
    public static final long CQ_SIZE = sv_tcp_cq.sizeof();

    public static final long STAMP_MONOTONIC = sv_tcp_stamp.monotonic_ns$offset();
    public static final long STAMP_WALLCLOCK = sv_tcp_stamp.wallclock_ns$offset();
    public static final long STAMP_SIZE = sv_tcp_stamp.sizeof();

    public static final long WC_WR_ID = ibv_wc.wr_id$offset();
    public static final long WC_STATUS = ibv_wc.status$offset();
    public static final long WC_OPCODE = ibv_wc.opcode$offset();
    public static final long WC_VENDOR_ERR = ibv_wc.vendor_err$offset();
    public static final long WC_BYTE_LEN = ibv_wc.byte_len$offset();
    public static final long WC_IMM = ibv_wc.imm_data$offset();
    public static final long WC_QP_NUM = ibv_wc.qp_num$offset();
    public static final long WC_SRC_QP = ibv_wc.src_qp$offset();
    public static final long WC_FLAGS = ibv_wc.wc_flags$offset();
    public static final long WC_SLID = ibv_wc.slid$offset();
    public static final long WC_SL = ibv_wc.sl$offset();
    public static final long WC_SIZE = ibv_wc.sizeof();

    private Layouts() {
    }
}
