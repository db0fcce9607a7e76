/* Extended completion queues: polling one completion at a time, with a function for each field. */
#include <time.h>

#include "hca.h"

static int ex_next(struct hca_cq *cq)
{
	if (!cq_take(cq, &cq->current, &cq->current_ns))
		return ENOENT;
	cq->cq.wr_id = cq->current.wr_id;
	cq->cq.status = cq->current.status;
	return 0;
}

/* From here to end_poll the CQ belongs to the caller, unless it said at creation that there is only one. */
static int start_poll(struct ibv_cq_ex *ibcq, struct ibv_poll_cq_attr *attr)
{
	struct hca_cq *cq = to_cq(ibcq, "ibv_start_poll");
	int ret;

	if (attr->comp_mask)
		return EINVAL;
	cq_delay(cq);
	if (seg_load_seq(&cq->shm->prod) == seg_load(&cq->shm->cons)) {
		cq_rest(cq);
		return ENOENT;
	}
	pthread_mutex_lock(&cq->poll_lock);
	ret = cq_withheld(cq) ? ENOENT : ex_next(cq);
	if (ret || cq->single_threaded)
		pthread_mutex_unlock(&cq->poll_lock);
	return ret;
}

static int next_poll(struct ibv_cq_ex *ibcq)
{
	struct hca_cq *cq = to_cq(ibcq, "ibv_next_poll");
	int ret;

	if (cq->single_threaded)
		pthread_mutex_lock(&cq->poll_lock);
	ret = cq_stops_short(cq) ? ENOENT : ex_next(cq);
	if (cq->single_threaded)
		pthread_mutex_unlock(&cq->poll_lock);
	return ret;
}

static void end_poll(struct ibv_cq_ex *ibcq)
{
	struct hca_cq *cq = to_cq(ibcq, "ibv_end_poll");

	if (!cq->single_threaded)
		pthread_mutex_unlock(&cq->poll_lock);
}

#define READER(type, name, field)						\
	static type read_##name(struct ibv_cq_ex *ibcq)				\
	{									\
		return to_cq(ibcq, "ibv_wc_read_" #name)->current.field;	\
	}

READER(enum ibv_wc_opcode, opcode, opcode)
READER(uint32_t, vendor_err, vendor_err)
READER(uint32_t, byte_len, byte_len)
READER(__be32, imm_data, imm_data)
READER(uint32_t, qp_num, qp_num)
READER(uint32_t, src_qp, src_qp)
READER(unsigned int, wc_flags, wc_flags)
READER(uint32_t, slid, slid)
READER(uint8_t, sl, sl)
READER(uint8_t, dlid_path_bits, dlid_path_bits)

/* The clock of the device is CLOCK_MONOTONIC in nanoseconds. */
static uint64_t read_completion_ts(struct ibv_cq_ex *ibcq)
{
	return to_cq(ibcq, "ibv_wc_read_completion_ts")->current_ns;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ibcq)
{
	struct hca_cq *cq = to_cq(ibcq, "ibv_wc_read_completion_wallclock_ns");
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec - (hca_now_ns() - cq->current_ns);
}

/* What was not asked for at creation has no function, as with other providers. */
static void set_readers(struct ibv_cq_ex *cq, uint64_t flags)
{
	cq->read_opcode = read_opcode;
	cq->read_vendor_err = read_vendor_err;
	cq->read_wc_flags = read_wc_flags;
	if (flags & IBV_WC_EX_WITH_BYTE_LEN)
		cq->read_byte_len = read_byte_len;
	if (flags & IBV_WC_EX_WITH_IMM)
		cq->read_imm_data = read_imm_data;
	if (flags & IBV_WC_EX_WITH_QP_NUM)
		cq->read_qp_num = read_qp_num;
	if (flags & IBV_WC_EX_WITH_SRC_QP)
		cq->read_src_qp = read_src_qp;
	if (flags & IBV_WC_EX_WITH_SLID)
		cq->read_slid = read_slid;
	if (flags & IBV_WC_EX_WITH_SL)
		cq->read_sl = read_sl;
	if (flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		cq->read_dlid_path_bits = read_dlid_path_bits;
	if (flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		cq->read_completion_ts = read_completion_ts;
	if (flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		cq->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

#define CLOCK_FLAGS	(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
#define KNOWN_FLAGS	(IBV_WC_STANDARD_FLAGS | CLOCK_FLAGS)

struct ibv_cq_ex *cq_create_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct hca_context *ctx = to_context(context, "ibv_create_cq_ex");
	struct hca_cq *cq;

	if ((attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) ||
	    (attr->wc_flags & ~(uint64_t)KNOWN_FLAGS) || (!ctx->limits->timestamps && (attr->wc_flags & CLOCK_FLAGS)) ||
	    ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
	     (attr->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED))) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		to_pd(attr->parent_domain, "ibv_create_cq_ex");
	cq = (struct hca_cq *)cq_create(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector,
					"ibv_create_cq_ex");
	if (!cq)
		return NULL;
	cq->extended = true;
	cq->single_threaded = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
			      (attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	cq->shm->timestamps = !!(attr->wc_flags & CLOCK_FLAGS);
	cq->cq.start_poll = start_poll;
	cq->cq.next_poll = next_poll;
	cq->cq.end_poll = end_poll;
	if (ctx->null_mode)
		null_set_cq_ops(&cq->cq);
	set_readers(&cq->cq, attr->wc_flags);
	return &cq->cq;
}
