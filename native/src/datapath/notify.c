/* SPDX-License-Identifier: Apache-2.0 */
#include "datapath/notify.h"
#include "datapath/keep.h"
#include "datapath/kept.h"

/*
 * In a CQ's `notify`: what is asked for, and in units of this how many events are due. It changes under the queue's lock, and
 * where events are taken, under the channel's mutex; so always at once.
 */
#define DUE 4u

static bool change(struct sv_cq *cq, uint32_t *before, uint32_t after)
{
	return sv_cas(&cq->notify, before, after);
}

/* In place of the real queue's own function while any completion makes an event: costs nothing where nobody asks. */
static int poll_armed(struct ibv_cq *real, int count, struct ibv_wc *wc)
{
	struct sv_cq *cq = sv_cq_of(real->cq_context);
	int got = real->context->ops.poll_cq(real, count, wc);

	if (got > 0) {
		sv_notify_came(cq);
		cq->poll = real->context->ops.poll_cq;
	}
	return got;
}

void sv_notify_asked(struct sv_cq *cq, bool solicited_only)
{
	uint32_t was = sv_load(&cq->notify), armed;

	do {
		armed = was & SV_ARMED_MASK;
		if (!solicited_only)
			armed = SV_ARMED_ANY;
		else if (armed == SV_ARMED_NOT)
			armed = SV_ARMED_SOLICITED;
	} while (!change(cq, &was, (was & ~SV_ARMED_MASK) | armed));
	cq->disarmed = false;
	if (armed == SV_ARMED_ANY) {
		cq->announces_next = true;
		if (!cq->extras_wanted)
			cq->poll = poll_armed;
	}
}

/* The last of the kept came from the real queue, or was made: is there an event of it, there is one of all before it. */
static void kept_one(struct sv_cq *cq, bool announced)
{
	if (announced)
		cq->announced = cq->tail - cq->head;
}

bool sv_notify_missed(struct sv_cq *cq, bool solicited_only)
{
	bool missed = false;

	for (uint32_t at = cq->head + cq->announced; at != cq->tail && !missed; at++)
		missed = !solicited_only || cq->kept[at].wc.status || (cq->kept[at].wc.opcode & IBV_WC_RECV);
	if (missed)
		kept_one(cq, true);
	return missed;
}

bool sv_notify_missed_message(struct sv_cq *cq)
{
	for (uint32_t at = cq->head + cq->announced; at != cq->tail; at++)
		if (!cq->kept[at].held && (cq->kept[at].wc.opcode & IBV_WC_RECV)) {
			kept_one(cq, true);
			return true;
		}
	return false;
}

int sv_notify_set_aside(struct sv_cq *cq, const struct sv_qp *ending)
{
	const struct sv_extras current = cq->extras;
	int err = 0, got = 0;

	do {
		struct ibv_wc wc;
		uint32_t tail;

		err = sv_kept_reserve(cq, 1);
		if (err)
			break;
		tail = cq->tail;
		got = cq->extras_wanted ? sv_take_with_extras(cq, &wc) : cq->real->context->ops.poll_cq(cq->real, 1, &wc);
		if (got <= 0)
			break;
		sv_keep(cq, &wc);
		if (cq->tail != tail)
			cq->kept[tail].extras = cq->extras;
		if (ending && (cq->tail == tail || (cq->kept[tail].held && cq->kept[tail].qp == sv_qp_index(ending)))) {
			sv_notify_ours(cq, wc.status != IBV_WC_SUCCESS);
			continue;
		}
		if (cq->tail != tail)
			kept_one(cq, cq->announces_next);
		sv_notify_came(cq);
	} while (true);
	/* Those of the completion that the application is looking at stay. */
	cq->extras = current;
	return err ? err : got < 0 ? EIO : 0;
}

void sv_notify_came(struct sv_cq *cq)
{
	uint32_t was = sv_load(&cq->notify);

	cq->announces_next = false;
	/* The device has made its event of a completion of our doing, and makes none of this one. */
	if (cq->disarmed && (was & SV_ARMED_MASK) == SV_ARMED_ANY) {
		sv_notify_made(cq);
		return;
	}
	while ((was & SV_ARMED_MASK) == SV_ARMED_ANY && !change(cq, &was, (was & ~SV_ARMED_MASK) + DUE))
		;
}

void sv_notify_drained(struct sv_cq *cq, const struct ibv_wc *wc)
{
	uint32_t was = sv_load(&cq->notify);

	kept_one(cq, cq->announces_next);
	sv_notify_came(cq);
	/* Whether it was solicited is not known: one event, and the request stands. */
	if (was == SV_ARMED_SOLICITED && (wc->status || (wc->opcode & IBV_WC_RECV)))
		change(cq, &was, was + DUE);
}

void sv_notify_ours(struct sv_cq *cq, bool error)
{
	enum sv_armed armed = sv_notify_armed(cq);

	if (cq->disarmed || armed == SV_ARMED_NOT || (armed == SV_ARMED_SOLICITED && !error))
		return;
	/*
	 * Events come in the order of their completions. Of two that have not been taken the second is one too many, as is
	 * each that an error makes of a request for solicited ones: some devices make none.
	 */
	if (armed == SV_ARMED_ANY && !cq->ours_in)
		cq->ours_in = sv_notify_due(cq) + 1;
	cq->disarmed = true;
}

void sv_notify_made(struct sv_cq *cq)
{
	uint32_t was = sv_load(&cq->notify);

	while ((was & SV_ARMED_MASK) != SV_ARMED_NOT) {
		if (change(cq, &was, was & ~SV_ARMED_MASK)) {
			kept_one(cq, true);
			cq->announces_next = false;
			sv_store(&cq->event_made, 1);
			return;
		}
	}
}

bool sv_notify_event(struct sv_cq *cq)
{
	uint32_t was = sv_load(&cq->notify);

	if (cq->ours_in && !--cq->ours_in)
		return false;
	/* Of a completion that was made before the device's own came. */
	if (sv_load(&cq->event_made)) {
		sv_store(&cq->event_made, 0);
		return true;
	}
	while (!change(cq, &was, was < DUE ? SV_ARMED_NOT : was - DUE))
		;
	return true;
}

uint32_t sv_notify_owed(struct sv_cq *cq)
{
	uint32_t was = sv_load(&cq->notify);

	cq->ours_in = 0;
	cq->disarmed = false;
	sv_store(&cq->notify, was & SV_ARMED_MASK);
	return was / DUE;
}

uint32_t sv_notify_due(const struct sv_cq *cq)
{
	return sv_load(&cq->notify) / DUE;
}

void sv_notify_given(struct sv_cq *cq)
{
	uint32_t was = sv_load(&cq->notify);

	while (was >= DUE && !change(cq, &was, was - DUE))
		;
}
