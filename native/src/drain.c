/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draining, for the driver, with the gate closed: from the real completion queue to the virtual one, what each
 * completion proves, markers, and what becomes of errors. When and in what order is the driver's business.
 */
#include "build.h"
#include "target.h"
#include "drain.h"
#include "kept.h"
#include "landing.h"
#include "qp_numbers.h"
#include "shared.h"
#include "strangers.h"

#define POLL_BATCH 16

static void raise_to(uint64_t *position, uint64_t to)
{
	if (*position < to)
		*position = to;
}

/* An armed queue has got a completion: its event must come, if the real one does not. */
static void note_event(struct sv_cq *cq, const struct ibv_wc *wc)
{
	uint32_t armed = sv_load(&cq->armed);

	/* Whether a message was solicited a completion does not say; an event too many does no harm. */
	if (armed == SV_ARMED_ANY || (armed == SV_ARMED_SOLICITED && (wc->status || (wc->opcode & IBV_WC_RECV))))
		sv_store(&cq->event_due, 1);
}

/* What the application posted decides about wr_id and queue pair; the caller has translated the rest. */
static void keep_received(struct sv_cq *cq, struct sv_completion *completion, struct sv_qp *qp,
			  const struct sv_recv_entry *entry)
{
	completion->wc.wr_id = entry->wr_id;
	if (qp)
		completion->wc.qp_num = qp->v.qp_num;
	note_event(cq, &completion->wc);
	sv_kept_append(cq, completion);
}

static void keep(struct sv_cq *cq, struct sv_qp *qp, enum sv_queue queue, uint64_t position, const struct ibv_wc *wc,
		 bool held)
{
	struct sv_completion completion = {
		.wc = *wc,
		.qp = sv_qp_index(qp),
		.position = position,
		.queue = queue,
		.held = held,
	};

	if (queue == SV_QUEUE_RECV) {
		keep_received(cq, &completion, qp, sv_recv_entry(qp, position));
		return;
	}
	completion.wc.wr_id = sv_send_entry(qp, position)->wr_id;
	completion.wc.src_qp = 0;
	completion.wc.slid = 0;
	completion.wc.qp_num = qp->v.qp_num;
	note_event(cq, wc);
	sv_kept_append(cq, &completion);
}

static void keep_from_srq(struct sv_cq *cq, struct sv_qp *qp, struct sv_srq *srq, uint32_t slot,
			  const struct ibv_wc *wc, bool held)
{
	struct sv_completion completion = {
		.wc = *wc,
		.qp = qp ? sv_qp_index(qp) : SV_NO_QP,
		.srq = SV_ID_INDEX(srq->id),
		.position = slot,
		.queue = SV_QUEUE_SHARED,
		.held = held,
	};

	keep_received(cq, &completion, qp, &srq->log[slot].recv);
}

void sv_keep_made(struct sv_cq *cq, struct sv_qp *qp, enum sv_queue queue, uint64_t position, const struct ibv_wc *wc)
{
	keep(cq, qp, queue, position, wc, false);
}

void sv_keep_shared(struct sv_cq *cq, struct sv_qp *qp, struct sv_srq *srq, uint32_t slot, const struct ibv_wc *wc)
{
	keep_from_srq(cq, qp, srq, slot, wc, false);
}

static int keep_send(struct sv_cq *cq, struct sv_qp *qp, const struct ibv_wc *wc)
{
	struct sv_send_queue *sq = &qp->sq;
	uint64_t position = sv_widen(sq->posted, sv_position_of(sq->credit, sq->base, sq->mask, SV_ID_SLOT(wc->wr_id)));

	/* Proven before by other means, and completed then. */
	if (position < qp->send_retired)
		return 0;
	if (wc->status == IBV_WC_SUCCESS) {
		qp->send_retired = position + 1;
	} else if (!qp->send_error) {
		qp->send_error = wc->status;
		qp->send_error_at = position;
	}
	keep(cq, qp, SV_QUEUE_SEND, position, wc, wc->status != IBV_WC_SUCCESS);
	return 1;
}

static int keep_recv(struct sv_cq *cq, struct sv_qp *qp, const struct ibv_wc *wc)
{
	struct sv_recv_queue *rq = &qp->rq;
	uint64_t position = sv_widen(rq->posted, sv_position_of(rq->credit, rq->base, rq->mask, SV_ID_SLOT(wc->wr_id)));
	struct ibv_wc own = *wc;

	if (position < qp->recv_retired)
		return 0;
	sv_translate_sender(qp, &own, sv_recv_entry(qp, position));
	if (wc->status == IBV_WC_SUCCESS) {
		qp->recv_retired = position + 1;
		sv_translate_invalidation(qp, &own);
	} else {
		qp->recv_held++;
		if (!qp->recv_error) {
			qp->recv_error = wc->status;
			qp->recv_error_at = position;
		}
	}
	keep(cq, qp, SV_QUEUE_RECV, position, &own, wc->status != IBV_WC_SUCCESS);
	return 1;
}

static int keep_shared(struct sv_cq *cq, struct sv_srq *srq, const struct ibv_wc *wc)
{
	uint32_t slot = SV_ID_SLOT(wc->wr_id);
	struct sv_qp *qp = sv_qp_by_number(srq->v.context, wc->qp_num);
	struct ibv_wc own = *wc;

	if (!qp && srq->xrcd) {
		sv_stranger_brought(srq, &own);
		srq->log[slot].number = 0;
		keep_from_srq(cq, NULL, srq, slot, &own, false);
		return 1;
	}
	/* The QP that took it is no more, and with it the message. */
	if (!qp) {
		sv_shared_return(srq, slot);
		return 0;
	}
	sv_translate_sender(qp, &own, &srq->log[slot].recv);
	if (wc->status == IBV_WC_SUCCESS) {
		srq->log[slot].number = 0;
		qp->shared_received++;
		sv_translate_invalidation(qp, &own);
	} else if (!qp->recv_error) {
		qp->recv_error = wc->status;
	}
	keep_from_srq(cq, qp, srq, slot, &own, wc->status != IBV_WC_SUCCESS);
	return 1;
}

static void marker_completed(struct sv_qp *qp, const struct ibv_wc *wc)
{
	qp->marker = wc->status == IBV_WC_SUCCESS ? 2 : 3;
	if (qp->marker == 2)
		raise_to(&qp->send_retired, qp->marker_at);
}

int sv_keep(struct sv_cq *cq, const struct ibv_wc *wc)
{
	uint64_t id = wc->wr_id;
	struct sv_qp *qp = sv_qp_at(SV_ID_INDEX(id));

	if (SV_ID_SAME_QUEUE(id, qp->sq.id))
		return keep_send(cq, qp, wc);
	if (SV_ID_SAME_QUEUE(id, qp->rq.id))
		return keep_recv(cq, qp, wc);
	if (SV_ID_KIND(id) == SV_ID_SRQ_RECV) {
		struct sv_srq *srq = sv_srq_at(SV_ID_INDEX(id));

		return SV_ID_SAME_QUEUE(id, srq->id) ? keep_shared(cq, srq, wc) : 0;
	}
	return sv_keep_own(wc);
}

int sv_keep_own(const struct ibv_wc *wc)
{
	const uint64_t internal = SV_ID(0, SV_ID_INTERNAL, 0);
	uint64_t id = wc->wr_id;
	struct sv_qp *qp = sv_qp_at(SV_ID_INDEX(id));

	if (SV_ID_KIND(id) == SV_ID_INTERNAL && SV_ID_SLOT(id) == SV_INTERNAL_SHARED_LANDING) {
		struct sv_srq *srq = sv_srq_at(SV_ID_INDEX(id));

		if (!SV_ID_SAME_QUEUE(id, srq->id | internal))
			return 0;
		sv_landing_completed(sv_qp_by_number(srq->v.context, wc->qp_num), srq, wc);
		return 1;
	}
	if (!SV_ID_SAME_QUEUE(id, qp->sq.id | internal))
		return 0;
	if (SV_ID_SLOT(id) == SV_INTERNAL_MARKER)
		marker_completed(qp, wc);
	else if (SV_ID_SLOT(id) == SV_INTERNAL_BIND)
		qp->rebind = wc->status == IBV_WC_SUCCESS ? 2 : 3;
	else
		sv_landing_completed(qp, NULL, wc);
	return 1;
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
		moved += sv_keep(cq, &wc);
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
		got = cq->poll(cq->real, POLL_BATCH, wc);
		if (got < 0)
			return -EIO;
		for (int i = 0; i < got; i++)
			moved += sv_keep(cq, &wc[i]);
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
			keep(cq, qp, SV_QUEUE_SEND, from, &wc, false);
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

void sv_settle_error(struct sv_completion *completion)
{
	struct sv_qp *qp = sv_qp_at(completion->qp);

	completion->held = 0;
	if (completion->queue == SV_QUEUE_SEND) {
		sv_window_failed(qp, sv_widen(qp->sq.posted, completion->position));
		raise_to(&qp->send_retired, sv_widen(qp->sq.posted, completion->position) + 1);
		qp->send_error = 0;
		return;
	}
	qp->recv_error = 0;
	if (completion->queue == SV_QUEUE_SHARED) {
		sv_srq_at(completion->srq)->log[completion->position].number = 0;
	} else {
		raise_to(&qp->recv_retired, sv_widen(qp->rq.posted, completion->position) + 1);
		qp->recv_flushed++;
		qp->recv_held--;
	}
}

int sv_qp_errors_withdraw(struct ibv_qp *vqp)
{
	struct sv_qp *qp = sv_qp_of(vqp);

	if (qp->send_error)
		raise_to(&qp->send_retired, qp->send_error_at);
	if (qp->recv_error)
		raise_to(&qp->recv_retired, qp->recv_error_at);
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
		if (cq->kept[at].qp == sv_qp_index(qp) && cq->kept[at].held)
			sv_settle_error(&cq->kept[at]);
}

int sv_qp_errors_deliver(struct ibv_qp *vqp)
{
	sv_qp_each_cq(sv_qp_of(vqp), settle_all);
	return 0;
}
