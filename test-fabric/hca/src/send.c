/* ibv_post_send: checks, captures and, unless the queue already waits for something, executes at the doorbell. */
#include "hca.h"

bool send_opcode_fits(enum ibv_qp_type type, uint32_t opcode)
{
	if (type == IBV_QPT_XRC_RECV)
		return false;
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return true;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_BIND_MW:
	case IBV_WR_LOCAL_INV:
		return type != IBV_QPT_UD;
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return type != IBV_QPT_UD && type != IBV_QPT_UC;
	default:
		return false;
	}
}

bool send_may_inline(uint32_t opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_SEND_WITH_INV ||
	       opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

int send_set_ud(const struct hca_qp *qp, struct hca_send_wqe *wqe, const struct hca_ah *ah, uint32_t qpn, uint32_t qkey)
{
	if (ah->ah.context != qp->qp.context || qpn > QPN_MULTICAST)
		return EINVAL;
	wqe->ud.av = ah->attr;
	wqe->ud.qpn = qpn;
	/* The highest bit asks for the Q_Key of the QP itself: IBTA volume 1, 10.2.5. */
	wqe->ud.qkey = qkey & 0x80000000u ? qp->attr.qkey : qkey;
	return 0;
}

static int check(const struct hca_qp *qp, const struct ibv_send_wr *wr)
{
	if (!send_opcode_fits(qp->qp.qp_type, wr->opcode) || wr->num_sge < 0 ||
	    (uint32_t)wr->num_sge > qp->sq.max_sge)
		return EINVAL;
	if (wr->send_flags & ~(unsigned int)(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE))
		return EINVAL;
	if (wr->send_flags & IBV_SEND_INLINE) {
		uint64_t length = 0;
		int i;

		if (!send_may_inline(wr->opcode))
			return EINVAL;
		for (i = 0; i < wr->num_sge; i++)
			length += wr->sg_list[i].length;
		if (length > qp->sq.max_inline)
			return EINVAL;
	}
	return 0;
}

static int capture(const struct hca_qp *qp, struct hca_send_wqe *wqe, const struct ibv_send_wr *wr,
		    uint32_t delay_us)
{
	int i;

	wqe->wr_id = wr->wr_id;
	wqe->opcode = wr->opcode;
	wqe->flags = wr->send_flags;
	wqe->imm = wr->imm_data;
	wqe->num_sge = wr->num_sge;
	wqe->inline_len = 0;
	wqe->srqn = qp->qp.qp_type == IBV_QPT_XRC_SEND ? wr->qp_type.xrc.remote_srqn : 0;
	wqe->slowed = 0;
	wqe->not_before = delay_us ? hca_now_ns() + delay_us * 1000ULL : 0;
	if (qp->qp.qp_type == IBV_QPT_UD) {
		int ret = send_set_ud(qp, wqe, to_ah(wr->wr.ud.ah, "ibv_post_send"), wr->wr.ud.remote_qpn,
				      wr->wr.ud.remote_qkey);

		if (ret)
			return ret;
	} else if (wr->opcode == IBV_WR_BIND_MW) {
		int ret = mw_capture(wqe, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);

		if (ret)
			return ret;
	} else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
	} else {
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	}
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		for (i = 0; i < wr->num_sge; i++)
			wqe->sge[i] = wr->sg_list[i];
		return 0;
	}
	for (i = 0; i < wr->num_sge; i++) {
		memcpy((char *)wqe->sge + wqe->inline_len, (void *)(uintptr_t)wr->sg_list[i].addr,
		       wr->sg_list[i].length);
		wqe->inline_len += wr->sg_list[i].length;
	}
	return 0;
}

/* Fault settings that a post can run into; 0 or what the post returns. */
static int fault(struct hca_context *ctx)
{
	struct hca_settings *settings = &ctx->seg->settings;
	uint32_t every = seg_load(&settings->enomem_every), fatal = seg_load(&settings->fatal_after), n;

	if (seg_load(&ctx->seg->fatal))
		return EIO;
	if (!every && !fatal)
		return 0;
	n = __atomic_add_fetch(&ctx->seg->posts, 1, __ATOMIC_RELAXED);
	if (fatal && n == fatal) {
		device_fatal(ctx);
		return EIO;
	}
	return every && n % every == 0 ? ENOMEM : 0;
}

int send_may_post(struct hca_qp *qp)
{
	uint32_t state = seg_load(&qp->shm->state);
	int ret = fault(context_of(qp->qp.context));

	if (ret)
		return ret;
	if (state != IBV_QPS_RTS && state != IBV_QPS_SQD && state != IBV_QPS_SQE && state != IBV_QPS_ERR)
		return EINVAL;
	return qp->sq.prod - seg_load(&qp->sq.released) >= qp->sq.max_wr ? ENOMEM : 0;
}

int send_post(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct hca_qp *qp = to_qp(ibqp, "ibv_post_send");
	struct hca_context *ctx = context_of(ibqp->context);
	struct hca_sq *sq = &qp->sq;
	uint32_t delay = seg_load(&ctx->seg->settings.exec_delay_us);
	int ret = 0;

	pthread_mutex_lock(&sq->lock);
	for (; wr; wr = wr->next) {
		ret = send_may_post(qp);
		if (!ret)
			ret = check(qp, wr);
		if (!ret)
			ret = capture(qp, send_slot(sq, sq->prod), wr, delay);
		if (ret)
			break;
		sq->prod++;
	}
	requester_run(qp);
	pthread_mutex_unlock(&sq->lock);
	if (ret)
		*bad_wr = wr;
	return ret;
}
