/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extended completion queues. Their completions go through the one path that ibv_poll_cq takes, one at a time; what the
 * wc_read functions read is a copy, so that the gate may close, and the process be restored elsewhere, between
 * ibv_start_poll and ibv_end_poll. Behind a queue whose fields are all those of an ibv_wc is a plain real one.
 */
#include "control/control.h"
#include "objects/objects.h"

static struct sv_cq *cq_of(struct ibv_cq_ex *ex)
{
	return sv_container_of(ex, struct sv_cq, ex);
}

/* ---- Polling ---------------------------------------------------------------------------------------------------- */

static int poll_one(struct sv_cq *cq, const char *verb)
{
	struct sv_thread *self = sv_gate_enter(verb);
	int got;

	sv_lock_take(&cq->lock, self, SV_HELD_CQ);
	got = sv_poll_one(cq, self);
	if (likely(got > 0)) {
		cq->ex.wr_id = cq->current.wr_id;
		cq->ex.status = cq->current.status;
	}
	sv_lock_drop(&cq->lock);
	sv_gate_leave(self);
	return likely(got > 0) ? 0 : got ? EIO : ENOENT;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct sv_cq *cq = cq_of(ex);
	int err;

	if (unlikely(attr->comp_mask))
		return EINVAL;
	/* Outside of the gate, for the thread that holds it may wait there. */
	sv_long_lock_take(&cq->polling);
	err = poll_one(cq, "ibv_start_poll");
	if (err)
		sv_long_lock_drop(&cq->polling);
	return err;
}

static int start_poll_single_threaded(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	return unlikely(attr->comp_mask) ? EINVAL : poll_one(cq_of(ex), "ibv_start_poll");
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return poll_one(cq_of(ex), "ibv_next_poll");
}

static void end_poll(struct ibv_cq_ex *ex)
{
	sv_long_lock_drop(&cq_of(ex)->polling);
}

static void end_poll_single_threaded(struct ibv_cq_ex *ex)
{
	(void)ex;
}

/* ---- Fields ----------------------------------------------------------------------------------------------------- */

#define READER(type, name, field)                       \
	static type read_##name(struct ibv_cq_ex *ex)   \
	{                                               \
		return cq_of(ex)->field;                \
	}
READER(enum ibv_wc_opcode, opcode, current.opcode)
READER(uint32_t, vendor_err, current.vendor_err)
READER(uint32_t, byte_len, current.byte_len)
READER(__be32, imm_data, current.imm_data)
READER(uint32_t, qp_num, current.qp_num)
READER(uint32_t, src_qp, current.src_qp)
READER(unsigned int, wc_flags, current.wc_flags)
READER(uint32_t, slid, current.slid)
READER(uint8_t, sl, current.sl)
READER(uint8_t, dlid_path_bits, current.dlid_path_bits)
READER(uint64_t, completion_ts, extras.timestamp)
READER(uint64_t, completion_wallclock_ns, extras.wallclock_ns)
READER(uint16_t, cvlan, extras.cvlan)
READER(uint32_t, flow_tag, extras.flow_tag)

/* A field that was not asked for has no function, as on a device. */
static void set_readers(struct ibv_cq_ex *ex, uint64_t flags)
{
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
#define READ(flag, name) (ex->read_##name = flags & IBV_WC_EX_WITH_##flag ? read_##name : NULL)
	READ(BYTE_LEN, byte_len);
	READ(IMM, imm_data);
	READ(QP_NUM, qp_num);
	READ(SRC_QP, src_qp);
	READ(SLID, slid);
	READ(SL, sl);
	READ(DLID_PATH_BITS, dlid_path_bits);
	READ(COMPLETION_TIMESTAMP, completion_ts);
	READ(COMPLETION_TIMESTAMP_WALLCLOCK, completion_wallclock_ns);
	READ(CVLAN, cvlan);
	READ(FLOW_TAG, flow_tag);
}

/* All at once: no poll of the real queue may be under way when the gate closes. */
int sv_take_with_extras(struct sv_cq *cq, struct ibv_wc *wc)
{
	struct ibv_cq_ex *real = (struct ibv_cq_ex *)cq->real;
	struct ibv_poll_cq_attr attr = { 0 };
	uint64_t flags = cq->wc_flags;
	int err = real ? real->start_poll(real, &attr) : ENOENT;

	if (err)
		return err == ENOENT ? 0 : -EIO;
	memset(wc, 0, sizeof(*wc));
	memset(&cq->extras, 0, sizeof(cq->extras));
	wc->wr_id = real->wr_id;
	wc->status = real->status;
	wc->vendor_err = real->read_vendor_err(real);
	if (flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		cq->extras.timestamp = real->read_completion_ts(real);
	if (flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		cq->extras.wallclock_ns = real->read_completion_wallclock_ns(real);
	/* The others mean nothing in an error completion. */
	if (wc->status == IBV_WC_SUCCESS) {
		wc->opcode = real->read_opcode(real);
		wc->wc_flags = real->read_wc_flags(real);
		wc->byte_len = real->read_byte_len(real);
		if (wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV))
			wc->imm_data = real->read_imm_data(real);
		/* Both, for whom a datagram came from; which is what the route header is made to say, too. */
		if ((flags & (IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID)) || sv_context_of(cq->v.context)->sources) {
			wc->src_qp = real->read_src_qp(real);
			wc->slid = real->read_slid(real);
		}
		if (flags & IBV_WC_EX_WITH_SL)
			wc->sl = real->read_sl(real);
		if (flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
			wc->dlid_path_bits = real->read_dlid_path_bits(real);
		if (flags & IBV_WC_EX_WITH_CVLAN)
			cq->extras.cvlan = real->read_cvlan(real);
		if (flags & IBV_WC_EX_WITH_FLOW_TAG)
			cq->extras.flow_tag = real->read_flow_tag(real);
	}
	real->end_poll(real);
	return 1;
}

/* ---- Objects ---------------------------------------------------------------------------------------------------- */

void sv_cq_ex_open(struct sv_cq *cq, const struct sv_cq_spec *spec)
{
	struct ibv_cq_ex *ex = &cq->ex;

	cq->wc_flags = spec->wc_flags;
	cq->extras_wanted = spec->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS;
	ex->start_poll = spec->single_threaded ? start_poll_single_threaded : start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = spec->single_threaded ? end_poll_single_threaded : end_poll;
	set_readers(ex, spec->wc_flags);
}

struct ibv_cq_ex *sv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	return SV_CONTROL_POINTER(struct ibv_cq_ex, SV_OP_CREATE_CQ_EX, "ibv_create_cq_ex", SV_POINTER(context),
				  SV_POINTER(attr));
}

int sv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	return SV_CONTROL(SV_OP_MODIFY_CQ, "ibv_modify_cq", NULL, SV_POINTER(cq), SV_POINTER(attr));
}
