/* SPDX-License-Identifier: Apache-2.0 */
/* ib2tcp's extended completion queues: each completion is taken out of the ring whole, and then read. */
#include "tcp/tcp.h"

static struct sv_tcp_cq *cq_of(struct ibv_cq_ex *ex)
{
	return sv_container_of(ex, struct sv_tcp_cq, ex);
}

/* The lock is held. */
static int take(struct sv_tcp_cq *cq)
{
	uint32_t head = cq->head;

	if (head == sv_load_acquire(&cq->tail))
		return ENOENT;
	cq->current = ((const struct ibv_wc *)cq->entries)[head & cq->mask];
	cq->stamp = ((const struct sv_tcp_stamp *)cq->stamps)[head & cq->mask];
	cq->ex.wr_id = cq->current.wr_id;
	cq->ex.status = cq->current.status;
	sv_store_release(&cq->head, head + 1);
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	int err;

	if (attr->comp_mask)
		return EINVAL;
	if (sv_tcp_cq_empty(cq_of(ex)))
		return ENOENT;
	sv_tcp_cq_lock(cq_of(ex));
	err = take(cq_of(ex));
	if (err)
		sv_tcp_cq_unlock(cq_of(ex));
	return err;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return take(cq_of(ex));
}

static void end_poll(struct ibv_cq_ex *ex)
{
	sv_tcp_cq_unlock(cq_of(ex));
}

#define READER(type, name, value)                       \
	static type read_##name(struct ibv_cq_ex *ex)   \
	{                                               \
		return cq_of(ex)->value;                \
	}
READER(enum ibv_wc_opcode, opcode, current.opcode)
READER(uint32_t, vendor_err, current.vendor_err)
READER(unsigned int, wc_flags, current.wc_flags)
READER(uint32_t, byte_len, current.byte_len)
READER(__be32, imm_data, current.imm_data)
READER(uint32_t, qp_num, current.qp_num)
READER(uint32_t, src_qp, current.src_qp)
READER(uint32_t, slid, current.slid)
READER(uint8_t, sl, current.sl)
READER(uint8_t, dlid_path_bits, current.dlid_path_bits)
READER(uint64_t, completion_ts, stamp.monotonic_ns)
READER(uint64_t, completion_wallclock_ns, stamp.wallclock_ns)

/* A field that was not asked for has no function. */
void sv_tcp_cq_ex_init(struct sv_tcp_cq *cq, uint64_t fields)
{
	struct ibv_cq_ex *ex = &cq->ex;

	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
#define READ(flag, name) (ex->read_##name = fields & IBV_WC_EX_WITH_##flag ? read_##name : NULL)
	READ(BYTE_LEN, byte_len);
	READ(IMM, imm_data);
	READ(QP_NUM, qp_num);
	READ(SRC_QP, src_qp);
	READ(SLID, slid);
	READ(SL, sl);
	READ(DLID_PATH_BITS, dlid_path_bits);
	READ(COMPLETION_TIMESTAMP, completion_ts);
	READ(COMPLETION_TIMESTAMP_WALLCLOCK, completion_wallclock_ns);
}
