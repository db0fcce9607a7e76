/*
 * Executes send work requests, in the process that posted them: the requester's half with its timers.
 *
 * A request runs to its end before the next one starts, so order, fences and the depth of outstanding reads hold by
 * themselves.
 */
#include "request.h"

#define NO_TIMEOUT_RETRY_NS 100000000ULL	/* timeout 0 waits for ever; a lost request is sent again this often */


/* IBTA volume 1, table 45: the RNR NAK timer field in microseconds. */
static const uint32_t rnr_timer_us[32] = {
	655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920,
	2560, 3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
};

uint32_t qp_packets(uint64_t length, uint32_t path_mtu)
{
	uint32_t mtu = 128u << path_mtu;

	return length ? (length + mtu - 1) / mtu : 1;
}

static uint32_t wc_opcode(uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	default:
		return IBV_WC_SEND;
	}
}

/* The local scatter/gather list as addresses; a status. */
static enum ibv_wc_status gather(struct request *req)
{
	struct hca_send_wqe *wqe = req->wqe;
	bool scatter = wqe->opcode == IBV_WR_RDMA_READ || is_atomic(wqe->opcode);
	uint32_t pd = ((struct hca_pd *)req->qp->qp.pd)->number;
	uint32_t i;

	req->nlocal = 0;
	req->length = 0;
	if (wqe->flags & IBV_SEND_INLINE) {
		req->local[0].iov_base = wqe->sge;
		req->local[0].iov_len = wqe->inline_len;
		req->nlocal = 1;
		req->length = wqe->inline_len;
		return IBV_WC_SUCCESS;
	}
	for (i = 0; i < wqe->num_sge; i++) {
		const struct ibv_sge *sge = &wqe->sge[i];
		uint64_t va;

		if (!sge->length)
			continue;
		if (mr_translate(req->ctx->seg, sge->lkey, NULL, pd, sge->addr, sge->length,
				 scatter ? IBV_ACCESS_LOCAL_WRITE : 0, &va))
			return IBV_WC_LOC_PROT_ERR;
		req->local[req->nlocal].iov_base = (void *)(uintptr_t)va;
		req->local[req->nlocal].iov_len = sge->length;
		req->nlocal++;
		req->length += sge->length;
	}
	if (req->length > req->ctx->limits->max_msg || (is_atomic(wqe->opcode) && req->length < 8))
		return IBV_WC_LOC_LEN_ERR;
	return IBV_WC_SUCCESS;
}

static void search_responder(struct hca_context *ctx, struct hca_qp *qp)
{
	bool xrc = qp->qp.qp_type == IBV_QPT_XRC_SEND;
	struct destination found;

	qp->remote = NULL;
	if (!fabric_find(ctx, av_lid(ctx->seg, &qp->attr.ah_attr), qp->attr.dest_qp_num, xrc, &found) ||
	    !xrc_is_there(ctx, found.peer->seg, found.qp))
		return;
	qp->peer = found.peer;
	qp->remote = found.qp;
	qp->remote_index = found.index;
	qp->remote_gen = found.gen;
}

/* Finds the responder's QP; it stays found until its process, or the QP itself, goes away. */
static bool find_responder(struct request *req)
{
	struct hca_qp *qp = req->qp;

	if (!qp->remote || !seg_alive(qp->peer->seg) || seg_load(&qp->remote->gen) != qp->remote_gen)
		search_responder(req->ctx, qp);
	if (!qp->remote || seg_load(&qp->peer->seg->fatal))
		return false;
	req->seg = qp->peer->seg;
	req->remote = qp->remote;
	req->remote_index = qp->remote_index;
	req->remote_gen = qp->remote_gen;
	return true;
}

static bool status_is_local(int status)
{
	return status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_LOC_QP_OP_ERR || status == IBV_WC_LOC_PROT_ERR;
}

/* Without acknowledgements a message that has left is done, whatever becomes of it. */
static int execute_unreliable(struct request *req)
{
	uint32_t psn = req->qp->sq.psn + qp_packets(req->length, req->qp->attr.path_mtu);
	int status = RESPONSE_NONE;

	if (find_responder(req)) {
		qp_lock_responder(req->seg, req->remote, req->remote_index);
		status = responder_execute(req);
		seg_unlock(&req->remote->lock);
	}
	req->qp->sq.psn = psn & 0xffffff;
	return status_is_local(status) ? status : IBV_WC_SUCCESS;
}

static int execute(struct request *req)
{
	int status;

	if (req->wqe->opcode == IBV_WR_BIND_MW || req->wqe->opcode == IBV_WR_LOCAL_INV) {
		req->length = 0;
		return mw_execute(req->qp, req->wqe);
	}
	status = gather(req);
	if (status != IBV_WC_SUCCESS)
		return status;
	if (req->qp->qp.qp_type == IBV_QPT_UD)
		return datagram_execute(req);
	if (!req->reliable)
		return execute_unreliable(req);
	if ((req->wqe->opcode == IBV_WR_RDMA_READ || is_atomic(req->wqe->opcode)) && !req->qp->attr.max_rd_atomic)
		return IBV_WC_LOC_QP_OP_ERR;
	if (!find_responder(req))
		return RESPONSE_NONE;
	qp_lock_responder(req->seg, req->remote, req->remote_index);
	status = responder_execute(req);
	seg_unlock(&req->remote->lock);
	return status;
}

/* Ends the request at the head of the send queue. */
static void complete(struct hca_qp *qp, struct hca_send_wqe *wqe, enum ibv_wc_status status, uint64_t length)
{
	struct hca_context *ctx = context_of(qp->qp.context);
	struct hca_sq *sq = &qp->sq;

	sq->no_response = 0;
	sq->rnr_left = qp->attr.rnr_retry;
	if (status != IBV_WC_SUCCESS || qp->sq_sig_all || (wqe->flags & IBV_SEND_SIGNALED)) {
		struct seg_cqe cqe = {
			.wr_id = wqe->wr_id,
			.status = status,
			.opcode = wc_opcode(wqe->opcode),
			.vendor_err = status == IBV_WC_SUCCESS ? 0 : 0x80 + status,
			.byte_len = is_atomic(wqe->opcode) ? 8 : length,
			.qp_num = qp->qp.qp_num,
			.qp_index = qp->index,
			.qp_gen = qp->gen,
			.wqe_index = sq->head,
			.is_send = 1,
		};
		uint32_t state = seg_load(&qp->shm->state);
		bool was_error = state == IBV_QPS_ERR || state == IBV_QPS_SQE;

		sq->head++;
		if (cq_push(ctx, ctx->seg, ((struct hca_cq *)qp->qp.send_cq)->index, &cqe, false)) {
			if (!was_error)
				event_async(ctx, IBV_EVENT_QP_FATAL, qp->index, qp->gen);
			status = IBV_WC_FATAL_ERR;
		}
		if (status != IBV_WC_SUCCESS && !was_error)
			qp_send_error_locked(qp);
	} else {
		sq->head++;
	}
}

static uint64_t ack_timeout_ns(const struct hca_qp *qp)
{
	return qp->attr.timeout ? 4096ULL << qp->attr.timeout : NO_TIMEOUT_RETRY_NS;
}

static void stall(struct hca_qp *qp, enum stall_reason reason, uint64_t ns)
{
	qp->sq.stall = reason;
	qp->sq.stall_until = hca_now_ns() + ns;
}

/* Runs the request at the head once. False when it has to wait. */
static bool attempt(struct request *req)
{
	struct hca_qp *qp = req->qp;
	struct hca_sq *sq = &qp->sq;
	int status = execute(req);

	switch (status) {
	case RESPONSE_NONE:
		sq->no_response++;
		/* IBTA volume 1, 9.7.6.1.3: between one and four times. */
		stall(qp, STALL_NO_RESPONSE, ack_timeout_ns(qp) * (personality_whim(req->ctx, &sq->dice, 4) ? 3 : 1));
		return false;
	case RESPONSE_SLOW:
		req->wqe->slowed = 1;
		stall(qp, STALL_DELAY, req->seg->settings.slow_peer_us * 1000ULL);
		return false;
	case RESPONSE_RNR:
		sq->no_response = 0;
		if (qp->attr.rnr_retry != 7) {
			if (!sq->rnr_left) {
				complete(qp, req->wqe, IBV_WC_RNR_RETRY_EXC_ERR, 0);
				return true;
			}
			sq->rnr_left--;
		}
		/* At least so long. */
		stall(qp, STALL_RNR, rnr_timer_us[req->remote->min_rnr_timer & 31] * (uint64_t)req->seg->settings.rnr_slower *
		      (personality_whim(req->ctx, &sq->dice, 4) ? 1500 : 1000));
		return false;
	default:
		pacing_charge(qp, req->length);
		complete(qp, req->wqe, status, req->length);
		return true;
	}
}

/* A wait is over: false when it ended the request. */
static bool resume(struct hca_qp *qp, struct hca_send_wqe *wqe)
{
	struct hca_sq *sq = &qp->sq;
	enum stall_reason reason = sq->stall;

	sq->stall = STALL_NONE;
	if (reason == STALL_NO_RESPONSE && qp->attr.timeout && sq->no_response > qp->attr.retry_cnt) {
		complete(qp, wqe, IBV_WC_RETRY_EXC_ERR, 0);
		return false;
	}
	return true;
}

void requester_drained(struct hca_qp *qp)
{
	if (!qp->sq.draining && qp->attr.en_sqd_async_notify && seg_load(&qp->shm->state) == IBV_QPS_SQD)
		event_async(context_of(qp->qp.context), IBV_EVENT_SQ_DRAINED, qp->index, qp->gen);
}

static void run(struct request *req)
{
	struct hca_qp *qp = req->qp;
	struct hca_sq *sq = &qp->sq;

	while (sq->head != sq->prod) {
		struct hca_send_wqe *wqe = send_slot(sq, sq->head);
		uint32_t state = seg_load_seq(&qp->shm->state);

		if (seg_load(&req->ctx->seg->fatal))
			return;
		if (state == IBV_QPS_ERR || state == IBV_QPS_SQE) {
			sq->stall = STALL_NONE;
			complete(qp, wqe, IBV_WC_WR_FLUSH_ERR, 0);
			continue;
		}
		if (state != IBV_QPS_RTS && !(state == IBV_QPS_SQD && sq->draining))
			return;
		if (wqe->not_before && sq->stall == STALL_NONE && wqe->not_before > hca_now_ns()) {
			sq->stall = STALL_DELAY;
			sq->stall_until = wqe->not_before;
		}
		if (sq->paced_until && sq->stall == STALL_NONE && pacing_due(qp) > hca_now_ns()) {
			sq->stall = STALL_DELAY;
			sq->stall_until = pacing_due(qp);
		}
		if (sq->stall != STALL_NONE) {
			if (hca_now_ns() < sq->stall_until) {
				engine_stall(qp);
				return;
			}
			if (!resume(qp, wqe))
				continue;
		}
		req->wqe = wqe;
		if (attempt(req) && sq->draining) {
			sq->draining = false;
			requester_drained(qp);
		}
	}
}

void requester_run(struct hca_qp *qp)
{
	struct request req;

	req.ctx = context_of(qp->qp.context);
	req.qp = qp;
	req.reliable = qp_is_reliable(qp);
	run(&req);
	if (qp->sq.holds)
		datagram_flush(&req);
}
