/*
 * The null mode: a post completes at once, moves nothing and needs no peer, so that what is measured is the code in
 * front of this library. No locks: a CQ and the QPs on it belong to one thread.
 */
#include "hca.h"

struct null_cqe {
	uint64_t wr_id;
	struct hca_qp *qp;
	uint32_t posted;	/* queue slots up to here are free once this is polled */
	uint16_t opcode;
	uint8_t status;
	uint8_t is_send;
};

static const uint16_t null_opcode[] = {
	[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
	[IBV_WR_SEND] = IBV_WC_SEND,
	[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
	[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
};

#define NULL_OPCODES (sizeof(null_opcode) / sizeof(null_opcode[0]))

static inline bool null_push(struct hca_cq *cq, uint64_t wr_id, struct hca_qp *qp, uint32_t posted, uint16_t opcode,
			     uint8_t status, uint8_t is_send)
{
	struct null_cqe *cqe = &cq->null_ring[cq->null_prod & cq->null_mask];

	if (__builtin_expect(cq->null_prod - cq->null_cons > cq->null_mask, 0))
		return false;
	cqe->wr_id = wr_id;
	cqe->qp = qp;
	cqe->posted = posted;
	cqe->opcode = opcode;
	cqe->status = status;
	cqe->is_send = is_send;
	cq->null_prod++;
	return true;
}

static int null_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct hca_qp *qp = to_qp(ibqp, "ibv_post_send");
	uint32_t state = qp->shm->state;
	uint8_t status = IBV_WC_SUCCESS;
	int ret = EINVAL;

	if (__builtin_expect(state != IBV_QPS_RTS, 0)) {
		if (state != IBV_QPS_ERR && state != IBV_QPS_SQD)
			goto bad;
		if (state == IBV_QPS_ERR)
			status = IBV_WC_WR_FLUSH_ERR;
	}
	for (; wr; wr = wr->next) {
		if (__builtin_expect(qp->null_posted - qp->null_released >= qp->sq.max_wr, 0)) {
			ret = ENOMEM;
			goto bad;
		}
		if (__builtin_expect(wr->opcode >= NULL_OPCODES || (uint32_t)wr->num_sge > qp->sq.max_sge, 0)) {
			ret = EINVAL;
			goto bad;
		}
		qp->null_posted++;
		if (!qp->sq_sig_all && !(wr->send_flags & IBV_SEND_SIGNALED) && status == IBV_WC_SUCCESS)
			continue;
		if (!null_push(qp->null_send_cq, wr->wr_id, qp, qp->null_posted, null_opcode[wr->opcode], status,
			       1)) {
			ret = ENOMEM;
			goto bad;
		}
	}
	return 0;
bad:
	*bad_wr = wr;
	return ret;
}

static int null_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct hca_qp *qp = to_qp(ibqp, "ibv_post_recv");
	bool complete = context_of(ibqp->context)->seg_settings.null_recv;
	uint32_t state = qp->shm->state;
	uint8_t status = IBV_WC_SUCCESS;
	int ret = EINVAL;

	if (__builtin_expect(state == IBV_QPS_RESET || state == IBV_QPS_ERR, 0)) {
		if (state == IBV_QPS_RESET)
			goto bad;
		status = IBV_WC_WR_FLUSH_ERR;
		complete = true;
	}
	for (; wr; wr = wr->next) {
		if (__builtin_expect((uint32_t)wr->num_sge > qp->shm->rq.max_sge, 0)) {
			ret = EINVAL;
			goto bad;
		}
		if (__builtin_expect(qp->null_recv_posted - qp->null_recv_released >= qp->shm->rq.max_wr, 0)) {
			ret = ENOMEM;
			goto bad;
		}
		qp->null_recv_posted++;
		if (complete && !null_push(qp->null_recv_cq, wr->wr_id, qp, qp->null_recv_posted, IBV_WC_RECV,
					   status, 0)) {
			ret = ENOMEM;
			goto bad;
		}
	}
	return 0;
bad:
	*bad_wr = wr;
	return ret;
}

/* Receives of an SRQ complete, with the setting null_recv, to the CQ of its first QP. */
static int null_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct hca_srq *srq = to_srq(ibsrq, "ibv_post_srq_recv");
	struct hca_qp *qp = context_of(ibsrq->context)->seg_settings.null_recv ? srq->null_qp : NULL;
	struct seg_rq *rq = &srq->shm->rq;
	int ret = EINVAL;

	for (; wr; wr = wr->next) {
		if (__builtin_expect((uint32_t)wr->num_sge > rq->max_sge, 0))
			goto bad;
		if (__builtin_expect(rq->prod - srq->released >= rq->max_wr ||
				     (qp && !null_push(qp->null_recv_cq, wr->wr_id, qp, qp->null_recv_posted,
						       IBV_WC_RECV, IBV_WC_SUCCESS, 0)), 0)) {
			ret = ENOMEM;
			goto bad;
		}
		rq->prod++;
	}
	return 0;
bad:
	*bad_wr = wr;
	return ret;
}

/* The next completion is used up: its slots are free again. */
static inline void null_retire(struct hca_cq *cq, const struct null_cqe *cqe)
{
	cq->null_cons++;
	if (cqe->is_send)
		cqe->qp->null_released = cqe->posted;
	else if (cqe->qp->qp.srq)
		((struct hca_srq *)cqe->qp->qp.srq)->released++;
	else
		cqe->qp->null_recv_released = cqe->posted;
}

static inline void null_wc(const struct null_cqe *cqe, struct ibv_wc *wc)
{
	wc->wr_id = cqe->wr_id;
	wc->status = cqe->status;
	wc->opcode = cqe->opcode;
	wc->vendor_err = 0;
	wc->byte_len = 0;
	wc->wc_flags = 0;
	wc->qp_num = cqe->qp->qp.qp_num;
}

static int null_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc)
{
	struct hca_cq *cq = to_cq(ibcq, "ibv_poll_cq");
	int n;

	for (n = 0; n < num_entries && cq->null_cons != cq->null_prod; n++) {
		const struct null_cqe *cqe = &cq->null_ring[cq->null_cons & cq->null_mask];

		null_wc(cqe, &wc[n]);
		null_retire(cq, cqe);
	}
	return n;
}

static int null_next_poll(struct ibv_cq_ex *ibcq)
{
	struct hca_cq *cq = to_cq(ibcq, "ibv_next_poll");
	const struct null_cqe *cqe = &cq->null_ring[cq->null_cons & cq->null_mask];

	if (cq->null_cons == cq->null_prod)
		return ENOENT;
	ibcq->wr_id = cqe->wr_id;
	ibcq->status = cqe->status;
	null_wc(cqe, &cq->current);
	null_retire(cq, cqe);
	return 0;
}

static int null_start_poll(struct ibv_cq_ex *ibcq, struct ibv_poll_cq_attr *attr)
{
	return attr->comp_mask ? EINVAL : null_next_poll(ibcq);
}

static void null_end_poll(struct ibv_cq_ex *ibcq)
{
	to_cq(ibcq, "ibv_end_poll");
}

void null_set_cq_ops(struct ibv_cq_ex *cq)
{
	cq->start_poll = null_start_poll;
	cq->next_poll = null_next_poll;
	cq->end_poll = null_end_poll;
}

static int null_req_notify(struct ibv_cq *ibcq, int solicited_only)
{
	to_cq(ibcq, "ibv_req_notify_cq");
	(void)solicited_only;
	return 0;
}

int null_create_cq(struct hca_cq *cq, int cqe)
{
	uint32_t slots = 1;

	while (slots < (uint32_t)cqe)
		slots <<= 1;
	cq->null_mask = slots - 1;
	cq->null_ring = calloc(slots, sizeof(*cq->null_ring));
	return cq->null_ring ? 0 : ENOMEM;
}

void null_purge(struct hca_cq *cq, struct hca_qp *qp)
{
	uint32_t from, to;

	for (from = to = cq->null_prod; from != cq->null_cons; ) {
		const struct null_cqe *cqe = &cq->null_ring[--from & cq->null_mask];

		if (cqe->qp != qp)
			cq->null_ring[--to & cq->null_mask] = *cqe;
		else if (!cqe->is_send && qp->qp.srq)
			((struct hca_srq *)qp->qp.srq)->released++;
	}
	cq->null_cons = to;
}

static void null_wr_start(struct ibv_qp_ex *qpx)
{
	struct hca_qp *qp = to_qp(&qpx->qp_base, "ibv_wr_start");

	qp->null_build_posted = qp->null_posted;
	qp->null_build_prod = qp->null_send_cq->null_prod;
	qp->build_error = 0;
}

static void null_wr_abort(struct ibv_qp_ex *qpx)
{
	struct hca_qp *qp = to_qp(&qpx->qp_base, "ibv_wr_abort");

	qp->null_posted = qp->null_build_posted;
	qp->null_send_cq->null_prod = qp->null_build_prod;
}

static int null_wr_complete(struct ibv_qp_ex *qpx)
{
	struct hca_qp *qp = to_qp(&qpx->qp_base, "ibv_wr_complete");

	if (__builtin_expect(qp->build_error, 0))
		null_wr_abort(qpx);
	return qp->build_error;
}

static inline void null_wr(struct ibv_qp_ex *qpx, enum ibv_wr_opcode opcode)
{
	struct hca_qp *qp = to_qp(&qpx->qp_base, "ibv_wr_*");

	if (__builtin_expect(qp->shm->state != IBV_QPS_RTS, 0)) {
		qp->build_error = EINVAL;
		return;
	}
	if (__builtin_expect(qp->null_posted - qp->null_released >= qp->sq.max_wr, 0)) {
		qp->build_error = ENOMEM;
		return;
	}
	qp->null_posted++;
	if ((qp->sq_sig_all || (qpx->wr_flags & IBV_SEND_SIGNALED)) &&
	    !null_push(qp->null_send_cq, qpx->wr_id, qp, qp->null_posted, null_opcode[opcode], IBV_WC_SUCCESS, 1))
		qp->build_error = ENOMEM;
}

static void null_wr_send(struct ibv_qp_ex *qpx)
{
	null_wr(qpx, IBV_WR_SEND);
}

static void null_wr_send_imm(struct ibv_qp_ex *qpx, __be32 imm_data)
{
	(void)imm_data;
	null_wr(qpx, IBV_WR_SEND_WITH_IMM);
}

static void null_wr_rdma_write(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t remote_addr)
{
	(void)rkey;
	(void)remote_addr;
	null_wr(qpx, IBV_WR_RDMA_WRITE);
}

static void null_wr_rdma_write_imm(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t remote_addr, __be32 imm_data)
{
	(void)rkey;
	(void)remote_addr;
	(void)imm_data;
	null_wr(qpx, IBV_WR_RDMA_WRITE_WITH_IMM);
}

static void null_wr_rdma_read(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t remote_addr)
{
	(void)rkey;
	(void)remote_addr;
	null_wr(qpx, IBV_WR_RDMA_READ);
}

static void null_wr_fetch_add(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t remote_addr, uint64_t add)
{
	(void)rkey;
	(void)remote_addr;
	(void)add;
	null_wr(qpx, IBV_WR_ATOMIC_FETCH_AND_ADD);
}

static void null_wr_cmp_swp(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t remote_addr, uint64_t compare,
			    uint64_t swap)
{
	(void)rkey;
	(void)remote_addr;
	(void)compare;
	(void)swap;
	null_wr(qpx, IBV_WR_ATOMIC_CMP_AND_SWP);
}

static void null_wr_set_sge(struct ibv_qp_ex *qpx, uint32_t lkey, uint64_t addr, uint32_t length)
{
	(void)qpx;
	(void)lkey;
	(void)addr;
	(void)length;
}

static void null_wr_set_sge_list(struct ibv_qp_ex *qpx, size_t num_sge, const struct ibv_sge *list)
{
	(void)list;
	if (num_sge > to_qp(&qpx->qp_base, "ibv_wr_set_sge_list")->sq.max_sge)
		((struct hca_qp *)qpx)->build_error = EINVAL;
}

static void null_wr_set_inline_data(struct ibv_qp_ex *qpx, void *addr, size_t length)
{
	(void)addr;
	if (length > to_qp(&qpx->qp_base, "ibv_wr_set_inline_data")->sq.max_inline)
		((struct hca_qp *)qpx)->build_error = EINVAL;
}

static void null_wr_set_ud_addr(struct ibv_qp_ex *qpx, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
{
	(void)qpx;
	(void)remote_qpn;
	(void)remote_qkey;
	to_ah(ah, "ibv_wr_set_ud_addr");
}

void null_set_qp_ops(struct ibv_qp_ex *qpx)
{
	qpx->wr_start = null_wr_start;
	qpx->wr_complete = null_wr_complete;
	qpx->wr_abort = null_wr_abort;
	qpx->wr_set_sge = null_wr_set_sge;
	qpx->wr_set_sge_list = null_wr_set_sge_list;
	qpx->wr_set_inline_data = null_wr_set_inline_data;
	qpx->wr_set_ud_addr = null_wr_set_ud_addr;
	qpx->wr_send = null_wr_send;
	qpx->wr_send_imm = null_wr_send_imm;
	qpx->wr_rdma_write = null_wr_rdma_write;
	qpx->wr_rdma_write_imm = null_wr_rdma_write_imm;
	qpx->wr_rdma_read = null_wr_rdma_read;
	qpx->wr_atomic_fetch_add = null_wr_fetch_add;
	qpx->wr_atomic_cmp_swp = null_wr_cmp_swp;
	/* There are no windows in the null mode. */
	qpx->wr_bind_mw = NULL;
	qpx->wr_local_inv = NULL;
	qpx->wr_send_inv = NULL;
}

void null_set_ops(struct hca_context *ctx)
{
	struct ibv_context_ops *ops = &ctx->vctx.context.ops;

	ops->poll_cq = null_poll_cq;
	ops->req_notify_cq = null_req_notify;
	ops->post_send = null_post_send;
	ops->post_recv = null_post_recv;
	ops->post_srq_recv = null_post_srq_recv;
}
