/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draining, for the driver, with the gate closed: from the real completion queue to the virtual one, markers, and what
 * becomes of errors. When and in what order is the driver's business.
 */
#include "datapath/keep.h"
#include "datapath/kept.h"
#include "datapath/notify.h"
#include "datapath/target.h"
#include "objects/build.h"
#include "objects/qp_numbers.h"

#define POLL_BATCH 16

/* Returns 1, or 0 when it was of a queue that is no more. */
static int take(struct sv_cq *cq, const struct ibv_wc *wc)
{
	uint32_t tail = cq->tail;
	int moved = sv_keep(cq, wc);

	/* Errors may be of the checkpoint's making, too. */
	if (cq->tail == tail || cq->kept[tail].held)
		sv_notify_ours(cq, wc->status != IBV_WC_SUCCESS);
	else
		sv_notify_drained(cq, wc);
	return moved;
}

/* One at a time: each with its own extras. */
static int drain_with_extras(struct sv_cq *cq)
{
	const struct sv_extras current = cq->extras;
	struct ibv_wc wc;
	int moved = 0, got, err;

	for (;;) {
		uint32_t tail;

		err = sv_kept_reserve(cq, 1);
		if (err || (got = sv_take_with_extras(cq, &wc)) <= 0)
			break;
		tail = cq->tail;
		moved += take(cq, &wc);
		if (cq->tail != tail)
			cq->kept[tail].extras = cq->extras;
	}
	/* Those of the completion that the application is looking at stay. */
	cq->extras = current;
	sv_kept_remove(cq, 0);
	return err ? -err : got < 0 ? -EIO : moved;
}

int sv_cq_drain(struct ibv_cq *vcq)
{
	struct sv_cq *cq = sv_cq_of(vcq);
	struct ibv_wc wc[POLL_BATCH];
	int moved = 0, got;

	if (cq->extras_wanted)
		return drain_with_extras(cq);
	do {
		int err = sv_kept_reserve(cq, POLL_BATCH);

		if (err)
			return -err;
		got = cq->real ? cq->real->context->ops.poll_cq(cq->real, POLL_BATCH, wc) : 0;
		if (got < 0)
			return -EIO;
		for (int i = 0; i < got; i++)
			moved += take(cq, &wc[i]);
	} while (got == POLL_BATCH);
	sv_kept_remove(cq, 0);		/* gives the memory back if nothing came */
	return moved;
}

/* ---- Where a queue pair stands ---------------------------------------------------------------------------------- */

/* A completion that the application has seen was of a signaled request, so the one just before `credit` was. */
static uint64_t last_signaled(const struct sv_qp *qp)
{
	uint64_t position = qp->sq.posted, credit = sv_widen(qp->sq.posted, qp->sq.credit);

	while (position > credit && !sv_signaled(qp, sv_send_entry(qp, position - 1)))
		position--;
	return position;
}

void sv_qp_bookmark(struct ibv_qp *vqp, struct sv_bookmark *bookmark)
{
	struct sv_qp *qp = sv_qp_of(vqp);
	uint64_t recv_retired = sv_recv_retired(qp);

	memset(bookmark, 0, sizeof(*bookmark));
	bookmark->posted = qp->sq.posted;
	bookmark->retired = sv_send_retired(qp);
	bookmark->consumers = qp->sq.consumers;
	bookmark->received = recv_retired - qp->recv_flushed - qp->recv_filled + qp->landed_total + qp->shared_received;
	bookmark->receives = qp->rq.posted - recv_retired;
	bookmark->last_signaled = last_signaled(qp);
	bookmark->send_error = qp->send_error;
	bookmark->recv_error = qp->recv_error;
	bookmark->send_error_at = qp->send_error_at;
	bookmark->marker = qp->marker;
	bookmark->landings = qp->landings.count;
	bookmark->flushed = qp->recv_held;
	bookmark->sq_drained = sv_load_acquire(&qp->sq_drained);
	bookmark->shared = qp->srq || sv_is_xrc_receiver(qp);
	bookmark->last_receive = sv_load_acquire(&qp->last_receive);
}

uint64_t sv_qp_work(struct ibv_qp *vqp)
{
	struct sv_qp *qp = sv_qp_of(vqp);

	return __atomic_load_n(&qp->sq.posted, __ATOMIC_RELAXED) + __atomic_load_n(&qp->sq.credit, __ATOMIC_RELAXED) +
	       __atomic_load_n(&qp->rq.posted, __ATOMIC_RELAXED) + __atomic_load_n(&qp->rq.credit, __ATOMIC_RELAXED);
}

int sv_qp_sent(struct ibv_qp *vqp, uint64_t position, struct sv_sent *sent)
{
	struct sv_qp *qp = sv_qp_of(vqp);
	struct sv_sent_entry *entry = sv_send_entry(qp, position);

	if (position < sv_send_retired(qp) || position >= qp->sq.posted)
		return EINVAL;
	memset(sent, 0, sizeof(*sent));
	sent->position = position;
	sent->length = entry->num_sge ? entry->sge.length : 0;
	sent->opcode = entry->opcode;
	sent->signaled = sv_signaled(qp, entry);
	sent->ordinal = sv_consumes(entry) ? sv_widen(qp->sq.consumers, entry->consumers) : 0;
	if (qp->v.qp_type == IBV_QPT_XRC_SEND)
		sent->srq = sv_logged_srq(entry);
	return 0;
}

/* ---- Retiring and markers --------------------------------------------------------------------------------------- */

static enum ibv_wc_opcode completion_opcode(unsigned opcode)
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
	case IBV_WR_ATOMIC_WRITE:
		return IBV_WC_ATOMIC_WRITE;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	default:
		return IBV_WC_SEND;
	}
}

int sv_qp_retire(struct ibv_qp *vqp, uint64_t position)
{
	struct sv_qp *qp = sv_qp_of(vqp);
	struct sv_cq *cq = sv_cq_of(vqp->send_cq);
	uint64_t from = sv_send_retired(qp);

	if (position > qp->sq.posted)
		return EINVAL;
	if (position <= from)
		return 0;
	if (sv_kept_reserve(cq, position - from))
		return ENOMEM;
	for (; from < position; from++) {
		struct sv_sent_entry *entry = sv_send_entry(qp, from);
		struct ibv_wc wc = {
			.status = IBV_WC_SUCCESS,
			.opcode = completion_opcode(entry->opcode),
			.byte_len = entry->num_sge ? entry->sge.length : 0,
		};

		if (sv_signaled(qp, entry))
			sv_keep_made(cq, qp, SV_QUEUE_SEND, from, &wc);
	}
	qp->send_retired = position;
	sv_kept_remove(cq, 0);
	return 0;
}

int sv_qp_post_marker(struct ibv_qp *vqp)
{
	struct sv_qp *qp = sv_qp_of(vqp);
	struct ibv_send_wr marker = {
		.wr_id = qp->sq.id | SV_ID(0, SV_ID_INTERNAL, 0) | SV_INTERNAL_MARKER,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	int err;

	if (qp->marker == 1)
		return EBUSY;
	/* To where the last request goes: of datagrams, whose QP is in error, because providers look at the handle. */
	if (sv_names_target(qp)) {
		if (sv_send_retired(qp) == qp->sq.posted)
			return EINVAL;
		if (sv_is_datagram(qp))
			marker.opcode = IBV_WR_SEND;
		sv_aim(qp, ((uint32_t)qp->sq.posted - 1 - qp->sq.base) & qp->sq.mask, &marker);
	}
	err = sv_context_of(vqp->context)->post_send(qp->sq.real, &marker, &bad);
	if (!err) {
		qp->marker = 1;
		qp->marker_at = qp->sq.posted;
	}
	return err;
}

/* ---- Errors since ANNOUNCE -------------------------------------------------------------------------------------- */

int sv_qp_errors_withdraw(struct ibv_qp *vqp)
{
	struct sv_qp *qp = sv_qp_of(vqp);

	if (qp->send_error)
		sv_raise_to(&qp->send_retired, qp->send_error_at);
	if (qp->recv_error)
		sv_raise_to(&qp->recv_retired, qp->recv_error_at);
	sv_qp_each_cq(qp, sv_kept_purge_held);
	qp->send_error = qp->recv_error = 0;
	qp->recv_held = 0;
	/* An event of the checkpoint's making, too. */
	if (qp->srq)
		sv_async_forget_last_receive(qp);
	return 0;
}

static void settle_all(struct sv_cq *cq, const struct sv_qp *qp)
{
	for (uint32_t at = cq->head; at != cq->tail; at++)
		if (cq->kept[at].qp == sv_qp_index(qp) && cq->kept[at].held) {
			sv_settle_error(&cq->kept[at]);
			sv_notify_made(cq);
		}
}

int sv_qp_errors_deliver(struct ibv_qp *vqp)
{
	sv_qp_each_cq(sv_qp_of(vqp), settle_all);
	return 0;
}
