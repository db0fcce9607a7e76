/* SPDX-License-Identifier: Apache-2.0 */
/* Polling: kept completions first, then the real queue's, translated in place. */
#include "datapath/keep.h"
#include "datapath/kept.h"
#include "datapath/notify.h"
#include "datapath/foreign_qps.h"
#include "datapath/target.h"
#include "objects/build.h"
#include "objects/qp_numbers.h"
#include "objects/shared.h"

/* A send that failed. */
static SV_NOINLINE void note_failed(struct sv_qp *qp, uint32_t position)
{
	sv_window_failed(qp, sv_widen(qp->sq.posted, position));
}

/* A receive that failed, or one that invalidated a window. */
static SV_NOINLINE void note_unusual(struct sv_qp *qp, struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		qp->recv_flushed++;
	else
		sv_translate_invalidation(qp, wc);
}

/* Its QP is no more; of XRC all its completions have been taken before it ended, so that it is one of another process. */
static SV_NOINLINE bool translate_foreign(struct sv_srq *srq, struct ibv_wc *wc)
{
	if (srq->xrcd)
		sv_foreign_qp_brought(srq, wc);
	return srq->xrcd;
}

/*
 * Which QP has taken a receive: mostly that which took the one before, whoever polled it. That is a guess, good if it is a
 * QP of this SRQ with this number: of one that is gone, or whose place is another's now, one of the two has changed.
 */
static SV_ALWAYS_INLINE struct sv_qp *taker_of(struct sv_srq *srq, uint32_t real_num)
{
	struct sv_qp *qp = sv_qp_at(sv_load(&srq->last_taker));

	if (unlikely(sv_load(&qp->real_num) != real_num || sv_load(&qp->srq) != srq)) {
		qp = sv_qp_by_number(srq->v.context, real_num);
		if (likely(qp))
			sv_store(&srq->last_taker, sv_qp_index(qp));
	}
	return qp;
}

/* Of an SRQ: the wr_id says which receive it was, the number which QP has taken it. */
static SV_ALWAYS_INLINE bool translate_shared(struct ibv_wc *wc, struct sv_thread *self)
{
	uint64_t id = wc->wr_id;
	uint32_t slot = SV_ID_SLOT(id);
	struct sv_srq *srq = sv_srq_at(SV_ID_INDEX(id));
	struct sv_qp *qp;

	if (unlikely(!SV_ID_SAME_QUEUE(id, srq->id)))
		return false;
	qp = taker_of(srq, wc->qp_num);
	wc->wr_id = srq->log[slot].recv.wr_id;
	if (unlikely(!qp)) {
		sv_shared_return_polled(srq, slot, self);
		return translate_foreign(srq, wc);
	}
	wc->qp_num = qp->v.qp_num;
	sv_translate_sender(qp, wc, &srq->log[slot].recv);
	sv_shared_return_polled(srq, slot, self);
	if (likely(wc->status == IBV_WC_SUCCESS)) {
		qp->shared_received++;
		sv_translate_invalidation(qp, wc);
	}
	return true;
}

/*
 * Makes a completion of the real queue the application's. False when it is none of its own: its queue was reset, bound
 * anew or destroyed since the request was posted, or the request was ours.
 */
static SV_ALWAYS_INLINE bool translate(struct ibv_wc *wc, struct sv_thread *self)
{
	uint64_t id = wc->wr_id;
	uint32_t slot = SV_ID_SLOT(id);
	struct sv_qp *qp = sv_qp_at(SV_ID_INDEX(id));

	if (likely(SV_ID_SAME_QUEUE(id, qp->sq.id))) {
		struct sv_send_queue *sq = &qp->sq;
		uint32_t position = sv_position_of(sq->credit, sq->base, sq->mask, slot);

		wc->wr_id = sv_send_slot(qp, slot)->wr_id;
		wc->qp_num = qp->v.qp_num;
		wc->src_qp = 0;
		wc->slid = 0;
		if (unlikely(wc->status != IBV_WC_SUCCESS))
			note_failed(qp, position);
		sv_store_release(&sq->credit, position + 1);
		return true;
	}
	if (SV_ID_KIND(id) == SV_ID_SRQ_RECV)
		return translate_shared(wc, self);
	if (likely(SV_ID_SAME_QUEUE(id, qp->rq.id))) {
		struct sv_recv_queue *rq = &qp->rq;

		wc->wr_id = rq->log[slot].wr_id;
		wc->qp_num = qp->v.qp_num;
		sv_translate_sender(qp, wc, &rq->log[slot]);
		if (unlikely(wc->status != IBV_WC_SUCCESS || (wc->wc_flags & IBV_WC_WITH_INV)))
			note_unusual(qp, wc);
		sv_store_release(&rq->credit, sv_position_of(rq->credit, rq->base, rq->mask, slot) + 1);
		return true;
	}
	return false;
}

/* Hands out kept completions. *held: the next one is an error whose cause is not known until the gate opens. */
static int deliver_kept(struct sv_cq *cq, int count, struct ibv_wc *wc, bool *held)
{
	bool announced = sv_load_acquire(&sv_announced);
	int given = 0;

	while (given < count && cq->head + given != cq->tail) {
		struct sv_completion *completion = &cq->kept[cq->head + given];
		struct sv_qp *qp = sv_qp_at(completion->qp);

		if (completion->held) {
			if (announced) {
				*held = true;
				break;
			}
			sv_settle_error(completion);
		}
		wc[given++] = completion->wc;
		if (completion->queue == SV_QUEUE_SEND)
			sv_store_release(&qp->sq.credit, completion->position + 1);
		else if (completion->queue == SV_QUEUE_RECV)
			sv_store_release(&qp->rq.credit, completion->position + 1);
		else
			sv_shared_return(sv_srq_at(completion->srq), completion->position);
	}
	sv_kept_remove(cq, given);
	return given;
}

/*
 * Since ANNOUNCE an error may be of the checkpoint's own making: it and all behind it go to the virtual completion
 * queue. False when there is no memory for that; then the application gets them after all.
 */
static SV_NOINLINE bool keep_from(struct sv_cq *cq, const struct ibv_wc *wc, int count)
{
	if (sv_kept_reserve(cq, count))
		return false;
	for (int i = 0; i < count; i++)
		sv_keep(cq, &wc[i]);
	return true;
}

/* Returns how many of wc[0 .. count) are the application's, moved to the front. */
static SV_NOINLINE int translate_carefully(struct sv_cq *cq, struct ibv_wc *wc, int count, struct sv_thread *self)
{
	int given = 0;

	for (int i = 0; i < count; i++) {
		if (wc[i].status != IBV_WC_SUCCESS && sv_load_acquire(&sv_announced) &&
		    keep_from(cq, &wc[i], count - i))
			break;
		if (given != i)
			wc[given] = wc[i];
		if (translate(&wc[given], self))
			given++;
		else
			sv_keep_own(&wc[given]);
	}
	return given;
}

/* Everything but the plain case: kept completions, dropped ones, errors while a checkpoint is announced. */
static SV_NOINLINE int poll_carefully(struct sv_cq *cq, int count, struct ibv_wc *wc, struct sv_thread *self)
{
	int given = 0, got;

	for (;;) {
		bool held = false;

		if (sv_kept_any(cq))
			given += deliver_kept(cq, count - given, wc + given, &held);
		if (held)
			return given ? given : -EAGAIN;
		if (given == count)
			return given;
		got = cq->poll(cq->real, count - given, wc + given);
		if (got < 0)
			return given ? given : got;
		if (!got)
			return given;
		given += translate_carefully(cq, wc + given, got, self);
		if (given && !sv_kept_any(cq))
			return given;
	}
}

int sv_poll_one(struct sv_cq *cq, struct sv_thread *self)
{
	struct ibv_wc *wc = &cq->current;

	for (;;) {
		bool held = false;
		int got;

		if (likely(!sv_kept_any(cq))) {
			got = likely(!cq->extras_wanted) ? cq->poll(cq->real, 1, wc) : sv_take_with_extras(cq, wc);
			if (got <= 0)
				return got;
			if (unlikely(cq->extras_wanted))
				sv_notify_came(cq);
			if (likely(wc->status == IBV_WC_SUCCESS) && likely(translate(wc, self)))
				return 1;
			if (translate_carefully(cq, wc, 1, self))
				return 1;
			/* It was none of the application's, or it is held back. */
			if (sv_kept_any(cq))
				cq->kept[cq->tail - 1].extras = cq->extras;
			continue;
		}
		cq->extras = cq->kept[cq->head].extras;
		if (deliver_kept(cq, 1, wc, &held))
			return 1;
		sv_lock_drop(&cq->lock);
		sv_gate_await_resume(self);
		sv_lock_take(&cq->lock, self, SV_HELD_CQ);
	}
}

/* The rest of a poll after `given` of `got` completions: the next is an error or not the application's, or some are kept. */
static SV_NOINLINE int poll_rest(struct sv_cq *cq, int count, struct ibv_wc *wc, int given, int got, struct sv_thread *self)
{
	given += translate_carefully(cq, wc + given, got - given, self);
	if (given)
		return given;
	while ((given = poll_carefully(cq, count, wc, self)) == -EAGAIN) {
		sv_lock_drop(&cq->lock);
		sv_gate_await_resume(self);
		sv_lock_take(&cq->lock, self, SV_HELD_CQ);
	}
	return given;
}

int sv_poll_cq(struct ibv_cq *vcq, int count, struct ibv_wc *wc)
{
	struct sv_cq *cq = sv_cq_of(vcq);
	struct sv_thread *self = sv_gate_enter("ibv_poll_cq");
	int given = 0, got = 0;

	sv_lock_take(&cq->lock, self, SV_HELD_CQ);
	if (likely(!sv_kept_any(cq))) {
		got = cq->poll(cq->real, count, wc);
		while (given < got && likely(wc[given].status == IBV_WC_SUCCESS) && likely(translate(&wc[given], self)))
			given++;
		if (likely(given >= got)) {
			given = got;
			goto out;
		}
	}
	given = poll_rest(cq, count, wc, given, got, self);
out:
	sv_lock_drop(&cq->lock);
	sv_gate_leave(self);
	return given;
}
