/* SPDX-License-Identifier: Apache-2.0 */
/* From a real completion queue to the virtual one: what each completion proves, and what the application will see of it. */
#include "datapath/keep.h"
#include "datapath/kept.h"
#include "datapath/landing.h"
#include "datapath/notify.h"
#include "datapath/foreign_qps.h"
#include "datapath/target.h"
#include "objects/build.h"
#include "objects/qp_numbers.h"
#include "objects/shared.h"

/* What the application posted decides about wr_id and queue pair; the caller has translated the rest. */
static void keep_received(struct sv_cq *cq, struct sv_completion *completion, struct sv_qp *qp,
			  const struct sv_recv_entry *entry)
{
	completion->wc.wr_id = entry->wr_id;
	if (qp)
		completion->wc.qp_num = qp->v.qp_num;
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
	sv_notify_made(cq);
}

void sv_keep_shared(struct sv_cq *cq, struct sv_qp *qp, struct sv_srq *srq, uint32_t slot, const struct ibv_wc *wc)
{
	keep_from_srq(cq, qp, srq, slot, wc, false);
	sv_notify_made(cq);
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
		sv_foreign_qp_brought(srq, &own);
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
		sv_raise_to(&qp->send_retired, qp->marker_at);
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

void sv_settle_error(struct sv_completion *completion)
{
	struct sv_qp *qp = sv_qp_at(completion->qp);

	completion->held = 0;
	if (completion->queue == SV_QUEUE_SEND) {
		sv_window_failed(qp, sv_widen(qp->sq.posted, completion->position));
		sv_raise_to(&qp->send_retired, sv_widen(qp->sq.posted, completion->position) + 1);
		qp->send_error = 0;
		return;
	}
	qp->recv_error = 0;
	if (completion->queue == SV_QUEUE_SHARED) {
		sv_srq_at(completion->srq)->log[completion->position].number = 0;
	} else {
		sv_raise_to(&qp->recv_retired, sv_widen(qp->rq.posted, completion->position) + 1);
		qp->recv_flushed++;
		qp->recv_held--;
	}
}
