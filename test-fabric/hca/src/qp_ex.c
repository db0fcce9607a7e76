/*
 * Extended queue pairs: work requests built by one call each. From wr_start to wr_complete or wr_abort the send queue is
 * locked and the requests are in it, behind what is posted; they are executed all or, after any error, not at all.
 */
#include "hca.h"

#define UD_UNSET 0xffffffffu	/* a QP number that wr_set_ud_addr has not given yet */

static inline struct hca_qp *qp_of(struct ibv_qp_ex *qpx, const char *verb)
{
	return to_qp(&qpx->qp_base, verb);
}

static void wr_start(struct ibv_qp_ex *qpx)
{
	struct hca_qp *qp = qp_of(qpx, "ibv_wr_start");

	pthread_mutex_lock(&qp->sq.lock);
	qp->build_start = qp->sq.prod;
	qp->build_error = 0;
	qp->building = NULL;
}

static void fail(struct hca_qp *qp, int error)
{
	if (!qp->build_error)
		qp->build_error = error;
	qp->building = NULL;
}

/* The request being built gets no more setters. */
static void finish(struct hca_qp *qp)
{
	if (qp->building && qp->qp.qp_type == IBV_QPT_UD && qp->building->ud.qpn == UD_UNSET)
		fail(qp, EINVAL);
	qp->building = NULL;
}

static int wr_complete(struct ibv_qp_ex *qpx)
{
	struct hca_qp *qp = qp_of(qpx, "ibv_wr_complete");
	int ret;

	finish(qp);
	ret = qp->build_error;
	if (ret)
		qp->sq.prod = qp->build_start;
	requester_run(qp);
	pthread_mutex_unlock(&qp->sq.lock);
	return ret;
}

static void wr_abort(struct ibv_qp_ex *qpx)
{
	struct hca_qp *qp = qp_of(qpx, "ibv_wr_abort");

	qp->building = NULL;
	qp->sq.prod = qp->build_start;
	pthread_mutex_unlock(&qp->sq.lock);
}

/* A new request; NULL when the list has failed already. */
static struct hca_send_wqe *begin(struct ibv_qp_ex *qpx, enum ibv_wr_opcode opcode, const char *verb)
{
	struct hca_qp *qp = qp_of(qpx, verb);
	uint32_t delay = seg_load(&context_of(qp->qp.context)->seg->settings.exec_delay_us);
	struct hca_send_wqe *wqe;
	int ret;

	finish(qp);
	if (qp->build_error)
		return NULL;
	ret = send_may_post(qp);
	if (ret) {
		fail(qp, ret);
		return NULL;
	}
	wqe = send_slot(&qp->sq, qp->sq.prod++);
	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = qpx->wr_id;
	wqe->flags = qpx->wr_flags & (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	wqe->opcode = opcode;
	wqe->not_before = delay ? hca_now_ns() + delay * 1000ULL : 0;
	wqe->ud.qpn = UD_UNSET;
	qp->building = wqe;
	return wqe;
}

static void begin_rdma(struct ibv_qp_ex *qpx, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr,
		       const char *verb)
{
	struct hca_send_wqe *wqe = begin(qpx, opcode, verb);

	if (!wqe)
		return;
	wqe->rkey = rkey;
	wqe->remote_addr = remote_addr;
}

static void wr_rdma_write(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(qpx, IBV_WR_RDMA_WRITE, rkey, remote_addr, "ibv_wr_rdma_write");
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t remote_addr, __be32 imm_data)
{
	struct hca_send_wqe *wqe = begin(qpx, IBV_WR_RDMA_WRITE_WITH_IMM, "ibv_wr_rdma_write_imm");

	if (!wqe)
		return;
	wqe->rkey = rkey;
	wqe->remote_addr = remote_addr;
	wqe->imm = imm_data;
}

static void wr_rdma_read(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(qpx, IBV_WR_RDMA_READ, rkey, remote_addr, "ibv_wr_rdma_read");
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t remote_addr, uint64_t compare,
			      uint64_t swap)
{
	struct hca_send_wqe *wqe = begin(qpx, IBV_WR_ATOMIC_CMP_AND_SWP, "ibv_wr_atomic_cmp_swp");

	if (!wqe)
		return;
	wqe->rkey = rkey;
	wqe->remote_addr = remote_addr;
	wqe->compare_add = compare;
	wqe->swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t remote_addr, uint64_t add)
{
	struct hca_send_wqe *wqe = begin(qpx, IBV_WR_ATOMIC_FETCH_AND_ADD, "ibv_wr_atomic_fetch_add");

	if (!wqe)
		return;
	wqe->rkey = rkey;
	wqe->remote_addr = remote_addr;
	wqe->compare_add = add;
}

static void wr_send(struct ibv_qp_ex *qpx)
{
	begin(qpx, IBV_WR_SEND, "ibv_wr_send");
}

static void wr_send_imm(struct ibv_qp_ex *qpx, __be32 imm_data)
{
	struct hca_send_wqe *wqe = begin(qpx, IBV_WR_SEND_WITH_IMM, "ibv_wr_send_imm");

	if (wqe)
		wqe->imm = imm_data;
}

static void wr_send_inv(struct ibv_qp_ex *qpx, uint32_t invalidate_rkey)
{
	struct hca_send_wqe *wqe = begin(qpx, IBV_WR_SEND_WITH_INV, "ibv_wr_send_inv");

	if (wqe)
		wqe->imm = invalidate_rkey;
}

static void wr_local_inv(struct ibv_qp_ex *qpx, uint32_t invalidate_rkey)
{
	struct hca_send_wqe *wqe = begin(qpx, IBV_WR_LOCAL_INV, "ibv_wr_local_inv");

	if (wqe)
		wqe->imm = invalidate_rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *qpx, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct hca_send_wqe *wqe = begin(qpx, IBV_WR_BIND_MW, "ibv_wr_bind_mw");
	int ret = wqe ? mw_capture(wqe, mw, rkey, info) : 0;

	if (ret)
		fail(qp_of(qpx, "ibv_wr_bind_mw"), ret);
}

static void wr_set_ud_addr(struct ibv_qp_ex *qpx, struct ibv_ah *ibah, uint32_t remote_qpn, uint32_t remote_qkey)
{
	struct hca_qp *qp = qp_of(qpx, "ibv_wr_set_ud_addr");
	struct hca_ah *ah = to_ah(ibah, "ibv_wr_set_ud_addr");

	if (!qp->building)
		return;
	if (qp->qp.qp_type != IBV_QPT_UD || send_set_ud(qp, qp->building, ah, remote_qpn, remote_qkey))
		fail(qp, EINVAL);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *qpx, uint32_t remote_srqn)
{
	struct hca_qp *qp = qp_of(qpx, "ibv_wr_set_xrc_srqn");

	if (!qp->building)
		return;
	if (qp->qp.qp_type == IBV_QPT_XRC_SEND)
		qp->building->srqn = remote_srqn;
	else
		fail(qp, EINVAL);
}

static void wr_set_sge_list(struct ibv_qp_ex *qpx, size_t num_sge, const struct ibv_sge *list)
{
	struct hca_qp *qp = qp_of(qpx, "ibv_wr_set_sge_list");

	if (!qp->building)
		return;
	if (num_sge > qp->sq.max_sge) {
		fail(qp, EINVAL);
		return;
	}
	qp->building->num_sge = num_sge;
	memcpy(qp->building->sge, list, num_sge * sizeof(*list));
}

static void wr_set_sge(struct ibv_qp_ex *qpx, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(qpx, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *qpx, size_t num_buf, const struct ibv_data_buf *list)
{
	struct hca_qp *qp = qp_of(qpx, "ibv_wr_set_inline_data_list");
	struct hca_send_wqe *wqe = qp->building;
	size_t i, length = 0;

	if (!wqe)
		return;
	for (i = 0; i < num_buf; i++)
		length += list[i].length;
	if (length > qp->sq.max_inline || !send_may_inline(wqe->opcode)) {
		fail(qp, EINVAL);
		return;
	}
	wqe->flags |= IBV_SEND_INLINE;
	wqe->inline_len = 0;
	for (i = 0; i < num_buf; i++) {
		memcpy((char *)wqe->sge + wqe->inline_len, list[i].addr, list[i].length);
		wqe->inline_len += list[i].length;
	}
}

static void wr_set_inline_data(struct ibv_qp_ex *qpx, void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(qpx, 1, &buf);
}

static const struct {
	uint64_t flag;
	enum ibv_wr_opcode opcode;
} operations[] = {
	{ IBV_QP_EX_WITH_RDMA_WRITE, IBV_WR_RDMA_WRITE },
	{ IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM },
	{ IBV_QP_EX_WITH_SEND, IBV_WR_SEND },
	{ IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_WR_SEND_WITH_IMM },
	{ IBV_QP_EX_WITH_RDMA_READ, IBV_WR_RDMA_READ },
	{ IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_CMP_AND_SWP },
	{ IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD },
	{ IBV_QP_EX_WITH_LOCAL_INV, IBV_WR_LOCAL_INV },
	{ IBV_QP_EX_WITH_BIND_MW, IBV_WR_BIND_MW },
	{ IBV_QP_EX_WITH_SEND_WITH_INV, IBV_WR_SEND_WITH_INV },
};

/* The flags that a QP of this type can have. */
static uint64_t flags_of(enum ibv_qp_type type)
{
	uint64_t flags = 0;
	unsigned int i;

	for (i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		if (send_opcode_fits(type, operations[i].opcode))
			flags |= operations[i].flag;
	return flags;
}

/* As with other providers, an operation that was not asked for has no function. */
static void set_operations(struct ibv_qp_ex *qpx, uint64_t flags)
{
	qpx->wr_start = wr_start;
	qpx->wr_complete = wr_complete;
	qpx->wr_abort = wr_abort;
	qpx->wr_set_sge = wr_set_sge;
	qpx->wr_set_sge_list = wr_set_sge_list;
	qpx->wr_set_inline_data = wr_set_inline_data;
	qpx->wr_set_inline_data_list = wr_set_inline_data_list;
	qpx->wr_set_ud_addr = wr_set_ud_addr;
	qpx->wr_set_xrc_srqn = wr_set_xrc_srqn;
	if (flags & IBV_QP_EX_WITH_RDMA_WRITE)
		qpx->wr_rdma_write = wr_rdma_write;
	if (flags & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		qpx->wr_rdma_write_imm = wr_rdma_write_imm;
	if (flags & IBV_QP_EX_WITH_SEND)
		qpx->wr_send = wr_send;
	if (flags & IBV_QP_EX_WITH_SEND_WITH_IMM)
		qpx->wr_send_imm = wr_send_imm;
	if (flags & IBV_QP_EX_WITH_RDMA_READ)
		qpx->wr_rdma_read = wr_rdma_read;
	if (flags & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		qpx->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	if (flags & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		qpx->wr_atomic_fetch_add = wr_atomic_fetch_add;
	if (flags & IBV_QP_EX_WITH_LOCAL_INV)
		qpx->wr_local_inv = wr_local_inv;
	if (flags & IBV_QP_EX_WITH_BIND_MW)
		qpx->wr_bind_mw = wr_bind_mw;
	if (flags & IBV_QP_EX_WITH_SEND_WITH_INV)
		qpx->wr_send_inv = wr_send_inv;
}

#define KNOWN_ATTRS (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS | \
		     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)

struct ibv_qp *qp_create_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct hca_context *ctx = to_context(context, "ibv_create_qp_ex");
	bool wants_ops = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	struct hca_xrcd *xrcd = NULL;
	struct hca_pd *pd = NULL;
	struct hca_qp *qp;

	if ((attr->comp_mask & ~(uint32_t)KNOWN_ATTRS) ||
	    ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags) ||
	    (wants_ops && (attr->send_ops_flags & ~flags_of(attr->qp_type)))) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (attr->comp_mask & IBV_QP_INIT_ATTR_PD && attr->qp_type != IBV_QPT_XRC_RECV)
		pd = to_pd(attr->pd, "ibv_create_qp_ex");
	if (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD && attr->qp_type == IBV_QPT_XRC_RECV)
		xrcd = to_xrcd(attr->xrcd, "ibv_create_qp_ex");
	/* struct ibv_qp_init_attr is how the extended one begins. */
	qp = (struct hca_qp *)qp_create(context, pd, xrcd, (struct ibv_qp_init_attr *)attr, "ibv_create_qp_ex");
	if (!qp || !wants_ops)
		return qp ? &qp->qp : NULL;
	qp->extended = true;
	set_operations(&qp->qpx, attr->send_ops_flags);
	if (ctx->null_mode)
		null_set_qp_ops(&qp->qpx);
	return &qp->qp;
}
