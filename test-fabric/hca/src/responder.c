/*
 * What the responder's device does with a request, executed by the requester's process on the responder's shared
 * structures under its lock. Source of statuses and side effects: IBTA volume 1, 9.7 (acknowledgements) and 9.9 (error
 * handling).
 */
#include "request.h"

/* After a copy has failed: our own memory, the peer's, or the peer itself? */
static int blame(struct request *req, enum ibv_wc_status remote_status)
{
	int i;

	if (!seg_alive(req->home))
		return RESPONSE_NONE;
	for (i = 0; i < req->nlocal; i++) {
		char *base = req->local[i].iov_base, byte;
		struct iovec first = { base, 1 }, last = { base + req->local[i].iov_len - 1, 1 };

		if (copy_from_own(&byte, &first, 1, 1) || copy_from_own(&byte, &last, 1, 1))
			return IBV_WC_LOC_PROT_ERR;
	}
	return remote_status;
}

static bool receives_in(uint32_t state)
{
	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE;
}

/* The lid that a request comes from. */
static uint32_t own_lid(const struct request *req)
{
	return seg_port(req->ctx->seg, req->qp->shm->port)->lid;
}

static bool types_fit(uint32_t remote, uint32_t local)
{
	return remote == (local == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : local);
}

static bool responder_answers(const struct request *req)
{
	const struct seg_qp *remote = req->remote;
	const struct ibv_qp_attr *attr = &req->qp->attr;
	bool psn_fits = !req->reliable || remote->rq_psn == req->qp->sq.psn;
	bool gid_fits = !attr->ah_attr.is_global;
	unsigned int i;

	if (!remote->in_use || remote->gen != req->remote_gen || !types_fit(remote->qp_type, req->qp->qp.qp_type) ||
	    !receives_in(remote->state))
		return false;
	if (remote->qp_type == IBV_QPT_UD)
		/* A multicast packet comes to every port. */
		return (av_is_multicast(req->ctx->seg, &req->wqe->ud.av) ||
			av_lid(req->ctx->seg, &req->wqe->ud.av) == seg_port(req->seg, remote->port)->lid) &&
		       remote->qkey == req->wqe->ud.qkey;
	for (i = 0; !gid_fits && i < SEG_GIDS; i++)
		gid_fits = !memcmp(&seg_port(req->seg, remote->port)->gid[i], &attr->ah_attr.grh.dgid, sizeof(union ibv_gid));
	return gid_fits && psn_fits &&
	       remote->dest_qpn == req->qp->qp.qp_num && remote->dlid == own_lid(req) &&
	       av_lid(req->ctx->seg, &attr->ah_attr) == seg_port(req->seg, remote->port)->lid;
}

/* The responder goes to the error state; its own engine flushes its queues, of which one that is only kept has none. */
static void responder_error(struct request *req, int event)
{
	seg_store_seq(&req->remote->state, IBV_QPS_ERR);
	if (event >= 0)
		event_async_at(req->ctx, req->seg, event, req->remote_index, req->remote->gen);
	seg_mail(req->seg, MAIL_RUN_QP, req->remote_index, req->remote->gen, 0);
}

/* The receive queue that a request takes from has become short: said once each time the limit is set. */
static void srq_limit(struct request *req)
{
	struct seg_srq *srq = req->srq;

	if (!srq->limit || seg_load(&srq->rq.prod) - srq->rq.head >= srq->limit)
		return;
	srq->limit = 0;
	event_async_at(req->ctx, req->home, IBV_EVENT_SRQ_LIMIT_REACHED, srq - req->home->srq, srq->gen);
}

static uint32_t receive_flags(uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_WITH_IMM;
	case IBV_WR_SEND_WITH_INV:
		return IBV_WC_WITH_INV;
	default:
		return 0;
	}
}

/* Completes the receive work request at the head of the responder's receive queue. */
static int deliver(struct request *req, enum ibv_wc_status status, uint64_t length)
{
	struct seg_qp *remote = req->remote;
	struct seg_rq *rq = req->rq;
	struct seg_recv_wqe *wqe = seg_recv_wqe(req->home, rq, rq->head);
	uint32_t recv_cq = remote->xrcd ? req->srq->cq : remote->recv_cq;
	uint32_t *delivering = req->srq ? &req->srq->delivering : &remote->delivering;
	bool write = req->wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool datagram = remote->qp_type == IBV_QPT_UD;
	const struct ibv_ah_attr *av = datagram ? &req->wqe->ud.av : &req->qp->attr.ah_attr;
	struct seg_cqe cqe = {
		.wr_id = wqe->wr_id,
		.status = status,
		.opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.vendor_err = status == IBV_WC_SUCCESS ? 0 : 0x80 + status,
		.byte_len = length,
		.imm = req->wqe->imm,
		.wc_flags = receive_flags(req->wqe->opcode) |
			    (datagram && av->is_global ? IBV_WC_GRH : 0),
		.qp_num = remote->qp_num,
		.src_qp = req->qp->qp.qp_num,
		/* In another segment the places of QPs are other QPs'. */
		.qp_index = req->home == req->seg ? req->remote_index : NO_QP,
		.qp_gen = remote->gen,
		.wqe_index = rq->head,
		.srq = req->srq ? req->srq - req->home->srq + 1 : 0,
		.slid = req->ctx->seg->ethernet ? 0 : own_lid(req),
		.sl = av->sl,
	};
	int ret;

	if (req->srq) {
		req->srq->delivering_cq = recv_cq;
		req->srq->delivering_qp = cqe.qp_index;
		req->srq->delivering_gen = remote->gen;
	}
	seg_store(delivering, 1);
	die_at(req->ctx, DIE_BEFORE_CQE);
	ret = cq_push(req->ctx, req->home, recv_cq, &cqe, req->wqe->flags & IBV_SEND_SOLICITED);
	die_at(req->ctx, DIE_AFTER_CQE);
	seg_store(&rq->head, rq->head + 1);
	seg_store(delivering, 0);
	if (req->srq)
		srq_limit(req);
	return ret;
}

static int respond_send(struct request *req)
{
	struct seg_recv_wqe *wqe = seg_recv_wqe(req->home, req->rq, req->rq->head);
	struct iovec iov[HCA_MAX_SGE];
	uint64_t left = req->length;
	uint32_t i;
	int n = 0;

	for (i = 0; i < wqe->num_sge && left; i++) {
		uint64_t va, part = wqe->sge[i].length < left ? wqe->sge[i].length : left;

		if (!part)
			continue;
		/* The whole element is checked, as the device does when it fetches the descriptor. */
		if (mr_translate(req->home, wqe->sge[i].lkey, NULL, req->pd, wqe->sge[i].addr,
				 wqe->sge[i].length, IBV_ACCESS_LOCAL_WRITE, &va)) {
			deliver(req, IBV_WC_LOC_PROT_ERR, 0);
			responder_error(req, -1);
			return IBV_WC_REM_OP_ERR;
		}
		iov[n].iov_base = (void *)(uintptr_t)va;
		iov[n].iov_len = part;
		n++;
		left -= part;
	}
	if (left) {
		/* IBTA volume 1, 9.9.3.1.2: without acknowledgements the message is dropped, the receive stays. */
		if (!req->reliable)
			return RESPONSE_NONE;
		deliver(req, IBV_WC_LOC_LEN_ERR, 0);
		responder_error(req, -1);
		return IBV_WC_REM_INV_REQ_ERR;
	}
	if (copy_to_peer(req->home, req->local, req->nlocal, iov, n, req->length)) {
		int status = blame(req, IBV_WC_REM_OP_ERR);

		if (status == IBV_WC_REM_OP_ERR) {
			deliver(req, IBV_WC_LOC_PROT_ERR, 0);
			responder_error(req, -1);
		}
		return status;
	}
	return IBV_WC_SUCCESS;
}

static int access_error(struct request *req)
{
	if (!req->reliable)
		return RESPONSE_NONE;
	responder_error(req, IBV_EVENT_QP_ACCESS_ERR);
	return IBV_WC_REM_ACCESS_ERR;
}

/* The window is looked for first, so that a message with a wrong key changes nothing. */
static int respond_send_invalidate(struct request *req)
{
	struct seg_mr *window = mw_bound(req->seg, req->remote, req->wqe->imm);
	int status;

	if (!window)
		return access_error(req);
	status = respond_send(req);
	if (status == IBV_WC_SUCCESS)
		seg_store(&window->valid, 0);
	return status;
}

static int respond_rdma(struct request *req)
{
	struct hca_send_wqe *wqe = req->wqe;
	bool read = wqe->opcode == IBV_WR_RDMA_READ;
	uint32_t access = read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	struct iovec remote;
	uint64_t va;
	int status;

	if (!req->length)	/* the key of a zero-length request is not looked at */
		return IBV_WC_SUCCESS;
	if (mr_translate(req->home, wqe->rkey, req->remote, req->pd, wqe->remote_addr, req->length, access, &va))
		return access_error(req);
	remote.iov_base = (void *)(uintptr_t)va;
	remote.iov_len = req->length;
	if (!copy_words(req->home, read, req->local, req->nlocal, &remote))
		return IBV_WC_SUCCESS;
	status = blame(req, IBV_WC_REM_OP_ERR);
	if (status == IBV_WC_REM_OP_ERR)
		responder_error(req, IBV_EVENT_QP_FATAL);
	return status;
}

static int respond_atomic(struct request *req)
{
	struct hca_send_wqe *wqe = req->wqe;
	struct iovec remote, value, own[HCA_MAX_SGE];
	uint64_t va, old, new;
	uint32_t left = 8;
	int failed, n, status;

	if (mr_translate(req->home, wqe->rkey, req->remote, req->pd, wqe->remote_addr, 8, IBV_ACCESS_REMOTE_ATOMIC,
			 &va))
		return access_error(req);
	/* Our own buffer is tried first, because the operation cannot be taken back. */
	for (n = 0; left; n++) {
		own[n] = req->local[n];
		if (own[n].iov_len > left)
			own[n].iov_len = left;
		left -= own[n].iov_len;
	}
	if (copy_from_own(&old, own, n, 8))
		return IBV_WC_LOC_PROT_ERR;

	value.iov_base = &old;
	value.iov_len = 8;
	remote.iov_base = (void *)(uintptr_t)va;
	remote.iov_len = 8;
	seg_lock(&req->home->atomics, "the atomic unit of an HCA");
	failed = copy_from_peer(req->home, &value, 1, &remote, 1, 8);
	if (!failed) {
		if (wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			new = old + wqe->compare_add;
		else
			new = old == wqe->compare_add ? wqe->swap : old;
		if (new != old) {
			value.iov_base = &new;
			failed = copy_to_peer(req->home, &value, 1, &remote, 1, 8);
		}
	}
	seg_unlock(&req->home->atomics);
	if (failed) {
		status = blame(req, IBV_WC_REM_OP_ERR);
		if (status == IBV_WC_REM_OP_ERR)
			responder_error(req, IBV_EVENT_QP_FATAL);
		return status;
	}
	return copy_to_own(own, n, &old, 8) ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS;
}

/* What the QP at the responder does not allow, whatever the key says. */
static bool request_is_invalid(const struct request *req)
{
	const struct seg_qp *remote = req->remote;
	uint32_t opcode = req->wqe->opcode;

	if (remote->xrcd && !req->srq)
		return true;
	if (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		return !(remote->access & IBV_ACCESS_REMOTE_WRITE);
	if (opcode == IBV_WR_RDMA_READ)
		return !(remote->access & IBV_ACCESS_REMOTE_READ) || !remote->max_dest_rd_atomic;
	if (is_atomic(opcode))
		return !(remote->access & IBV_ACCESS_REMOTE_ATOMIC) || !remote->max_dest_rd_atomic ||
		       (req->wqe->remote_addr & 7);
	return false;
}

/* A receive work request is there; if none is, and rnr_kick asks for it, its poster will tell us. */
static bool receive_waits(struct request *req)
{
	struct seg_qp *remote = req->remote;
	struct seg_rq *rq = req->rq;

	if (!rq->slots)
		return false;
	if (seg_load(&rq->prod) != rq->head)
		return true;
	if (!seg_load(&req->seg->settings.rnr_kick))
		return false;
	/* The poster publishes first and looks for a waiter then; here it is the other way round. */
	__atomic_store_n(&remote->rnr_waiter_gen, req->qp->gen, __ATOMIC_RELAXED);
	seg_store_seq(&remote->rnr_waiter, req->qp->index + 1);
	if (seg_load_seq(&rq->prod) == rq->head)
		return false;
	seg_store(&remote->rnr_waiter, 0);
	return true;
}

/* The SRQ of that segment that a request of XRC names, locked; NULL when the domain has none of that number there. */
static struct seg_srq *xrc_srq_in(struct seg *seg, const struct request *req)
{
	uint32_t i, max = seg_load(&seg->max_srq);

	for (i = 0; i < max; i++) {
		struct seg_srq *srq = &seg->srq[i];

		if (!seg_load(&srq->in_use) || srq->xrcd != req->remote->xrcd || srq->srq_num != req->wqe->srqn)
			continue;
		srq_lock(seg, srq);
		if (srq->in_use && srq->xrcd == req->remote->xrcd && srq->srq_num == req->wqe->srqn)
			return srq;
		seg_unlock(&srq->lock);
	}
	return NULL;
}

static void find_xrc_srq(struct hca_context *ctx, struct seg *seg, void *arg)
{
	struct request *req = arg;

	(void)ctx;
	if (req->srq)
		return;
	req->srq = xrc_srq_in(seg, req);
	if (req->srq) {
		req->home = seg;
		req->pd = req->srq->pd;
	}
}

/* Chooses and locks what the receives come from. With XRC it says for other requests, too, whose regions are meant. */
static void receive_acquire(struct request *req)
{
	struct seg_qp *remote = req->remote;

	req->srq = NULL;
	req->home = req->seg;
	req->rq = &remote->rq;
	req->pd = remote->pd;
	if (remote->xrcd) {
		if (seg_alive(req->seg))
			find_xrc_srq(req->ctx, req->seg, req);
		if (!req->srq && (remote->xrcd & XRCD_OF_FILE))
			fabric_each(req->ctx, find_xrc_srq, req);
	} else if (remote->srq && needs_receive(req->wqe->opcode)) {
		req->srq = &req->seg->srq[remote->srq - 1];
		srq_lock(req->seg, req->srq);
	}
	if (req->srq)
		req->rq = &req->srq->rq;
}

static void receive_release(struct request *req)
{
	if (req->srq)
		seg_unlock(&req->srq->lock);
}

static int respond(struct request *req)
{
	struct seg_qp *remote = req->remote;
	struct hca_send_wqe *wqe = req->wqe;
	uint32_t slow = seg_load(&req->seg->settings.slow_peer_us);
	uint32_t force = seg_load(&req->seg->settings.rnr_force);
	uint32_t packets = is_atomic(wqe->opcode) ? 1 : qp_packets(req->length, req->qp->attr.path_mtu);
	int status;

	if (!responder_answers(req))
		return RESPONSE_NONE;
	if (slow && !wqe->slowed && req->reliable)
		return RESPONSE_SLOW;
	if (remote->qp_type != IBV_QPT_UD && !remote->established && remote->state == IBV_QPS_RTR) {
		remote->established = 1;
		event_async_at(req->ctx, req->seg, IBV_EVENT_COMM_EST, req->remote_index, remote->gen);
	}
	if (request_is_invalid(req) ||
	    (remote->qp_type != IBV_QPT_UD && req->length > (128u << remote->path_mtu) && req->qp->attr.path_mtu > remote->path_mtu)) {
		if (!req->reliable)
			return RESPONSE_NONE;
		responder_error(req, IBV_EVENT_QP_REQ_ERR);
		return IBV_WC_REM_INV_REQ_ERR;
	}
	if (needs_receive(wqe->opcode)) {
		if (req->reliable && force && remote->rnr_forced < force) {
			remote->rnr_forced++;
			return RESPONSE_RNR;
		}
		if (!receive_waits(req))
			return RESPONSE_RNR;
	}

	switch (wqe->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		status = respond_send(req);
		break;
	case IBV_WR_SEND_WITH_INV:
		status = respond_send_invalidate(req);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		status = respond_atomic(req);
		break;
	default:
		status = respond_rdma(req);
	}
	if (status != IBV_WC_SUCCESS)
		return status;
	if (remote->qp_type != IBV_QPT_UD) {
		req->qp->sq.psn = (req->qp->sq.psn + packets) & 0xffffff;
		remote->rq_psn = req->qp->sq.psn;
	}
	if (needs_receive(wqe->opcode) && deliver(req, IBV_WC_SUCCESS, req->length)) {
		responder_error(req, IBV_EVENT_QP_FATAL);
		return IBV_WC_REM_OP_ERR;
	}
	return IBV_WC_SUCCESS;
}

int responder_execute(struct request *req)
{
	int status;

	receive_acquire(req);
	status = respond(req);
	receive_release(req);
	return status;
}
