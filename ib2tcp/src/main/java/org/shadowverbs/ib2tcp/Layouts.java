// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

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
final class Layouts {
    static final long QP_STATE = ibv_qp.state$offset();
    static final long QP_SEND = sv_tcp_qp.send$offset();
    static final long QP_RECV = sv_tcp_qp.recv$offset();
    static final long QP_BELL = sv_tcp_qp.bell$offset();
    static final long QP_OPCODES = sv_tcp_qp.opcodes$offset();
    static final long QP_SEND_TAIL = sv_tcp_qp.send_tail$offset();
    static final long QP_RECV_TAIL = sv_tcp_qp.recv_tail$offset();
    static final long QP_FAIL_ASKED = sv_tcp_qp.fail_asked$offset();
    static final long QP_SEND_HEAD = sv_tcp_qp.send_head$offset();
    static final long QP_RECV_HEAD = sv_tcp_qp.recv_head$offset();
    static final long QP_RECV_WANTED = sv_tcp_qp.recv_wanted$offset();
    static final long QP_SIZE = sv_tcp_qp.sizeof();

    static final long SRQ_RECV = sv_tcp_srq.recv$offset();
    static final long SRQ_BELL = sv_tcp_srq.bell$offset();
    static final long SRQ_TAIL = sv_tcp_srq.tail$offset();
    static final long SRQ_HEAD = sv_tcp_srq.head$offset();
    static final long SRQ_WANTED = sv_tcp_srq.wanted$offset();
    static final long SRQ_SIZE = sv_tcp_srq.sizeof();

    static final long AH_GID_PREFIX = sv_tcp_ah.gid_prefix$offset();
    static final long AH_GID_INTERFACE = sv_tcp_ah.gid_interface$offset();
    static final long AH_SL = sv_tcp_ah.sl$offset();
    static final long AH_SIZE = sv_tcp_ah.sizeof();

    static final long DM_BASE = sv_tcp_dm.base$offset();
    static final long DM_LENGTH = sv_tcp_dm.length$offset();
    static final long DM_SIZE = sv_tcp_dm.sizeof();

    static final long RING_ENTRIES = sv_tcp_ring.entries$offset();
    static final long RING_STRIDE = sv_tcp_ring.stride$offset();
    static final long RING_MASK = sv_tcp_ring.mask$offset();
    static final long RING_MAX = sv_tcp_ring.max$offset();
    static final long RING_MAX_SGE = sv_tcp_ring.max_sge$offset();
    static final long RING_MAX_INLINE = sv_tcp_ring.max_inline$offset();

    static final long SEND_WR_ID = sv_tcp_send.wr_id$offset();
    static final long SEND_OPCODE = sv_tcp_send.opcode$offset();
    static final long SEND_FLAGS = sv_tcp_send.flags$offset();
    static final long SEND_NUM_SGE = sv_tcp_send.num_sge$offset();
    static final long SEND_IMM = sv_tcp_send.imm$offset();
    static final long SEND_LENGTH = sv_tcp_send.length$offset();
    static final long SEND_REMOTE = sv_tcp_send.remote_addr$offset();
    static final long SEND_COMPARE = sv_tcp_send.compare_add$offset();
    static final long SEND_SWAP = sv_tcp_send.swap$offset();
    static final long SEND_RKEY = sv_tcp_send.rkey$offset();
    static final long SEND_SEQUENCE = sv_tcp_send.sequence$offset();
    static final long SEND_SIZE = sv_tcp_send.sizeof();

    static final long RECV_WR_ID = sv_tcp_recv.wr_id$offset();
    static final long RECV_NUM_SGE = sv_tcp_recv.num_sge$offset();
    static final long RECV_SIZE = sv_tcp_recv.sizeof();

    static final long SGE_ADDR = ibv_sge.addr$offset();
    static final long SGE_LENGTH = ibv_sge.length$offset();
    static final long SGE_LKEY = ibv_sge.lkey$offset();
    static final long SGE_SIZE = ibv_sge.sizeof();

    static final long CQ_MASK = sv_tcp_cq.mask$offset();
    static final long CQ_ENTRIES = sv_tcp_cq.entries$offset();
    static final long CQ_STAMPS = sv_tcp_cq.stamps$offset();
    static final long CQ_HEAD = sv_tcp_cq.head$offset();
    static final long CQ_TAIL = sv_tcp_cq.tail$offset();
    static final long CQ_ARMED = sv_tcp_cq.armed$offset();
    static final long CQ_SIZE = sv_tcp_cq.sizeof();

    static final long STAMP_MONOTONIC = sv_tcp_stamp.monotonic_ns$offset();
    static final long STAMP_WALLCLOCK = sv_tcp_stamp.wallclock_ns$offset();
    static final long STAMP_SIZE = sv_tcp_stamp.sizeof();

    static final long WC_WR_ID = ibv_wc.wr_id$offset();
    static final long WC_STATUS = ibv_wc.status$offset();
    static final long WC_OPCODE = ibv_wc.opcode$offset();
    static final long WC_VENDOR_ERR = ibv_wc.vendor_err$offset();
    static final long WC_BYTE_LEN = ibv_wc.byte_len$offset();
    static final long WC_IMM = ibv_wc.imm_data$offset();
    static final long WC_QP_NUM = ibv_wc.qp_num$offset();
    static final long WC_SRC_QP = ibv_wc.src_qp$offset();
    static final long WC_FLAGS = ibv_wc.wc_flags$offset();
    static final long WC_SLID = ibv_wc.slid$offset();
    static final long WC_SL = ibv_wc.sl$offset();
    static final long WC_SIZE = ibv_wc.sizeof();

    private Layouts() {
    }
}
