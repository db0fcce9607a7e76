/* SPDX-License-Identifier: Apache-2.0 */
/* Shared receive queues: objects and control verbs. Posting is in srq_post.c. */
#include "control/control.h"
#include "datapath/kept.h"
#include "datapath/landing.h"
#include "interpose/real.h"
#include "objects/shared.h"
#include "xrc/domain.h"

/* Generations go on when a slot is used again, so they cannot live in it. */
static uint16_t generations[((uintptr_t)1 << SV_REGION_SHIFT) / sizeof(struct sv_srq)];

_Static_assert(sizeof(generations) / sizeof(generations[0]) <= SV_QP_INDEX_LIMIT, "an index fits in a wr_id");

static void new_generation(struct sv_srq *srq)
{
	uint32_t index = sv_slot_index(SV_KIND_SRQ, sizeof(*srq), srq);

	srq->id = SV_ID(++generations[index], SV_ID_SRQ_RECV, index);
}

struct ibv_srq *sv_srq_alloc(struct ibv_pd *vpd)
{
	struct sv_srq *srq = sv_slot_alloc(SV_KIND_SRQ, sizeof(*srq));

	if (!srq)
		return NULL;
	new_generation(srq);
	/* A poll compares each wr_id with those of the QP of that index first. */
	if (sv_slot_reach(SV_KIND_QP, sizeof(struct sv_qp), SV_ID_INDEX(srq->id))) {
		sv_slot_free(SV_KIND_SRQ, sizeof(*srq), srq);
		return NULL;
	}
	srq->v.context = vpd->context;
	srq->v.pd = vpd;
	srq->v.handle = SV_ID_INDEX(srq->id);
	pthread_mutex_init(&srq->v.mutex, NULL);
	pthread_cond_init(&srq->v.cond, NULL);
	return &srq->v;
}

static size_t scratch_size(const struct sv_srq *srq)
{
	return srq->max_sge > 1 ? SV_BATCH * srq->max_sge * sizeof(struct ibv_sge) : 0;
}

static void free_log(struct sv_srq *srq)
{
	sv_block_free(srq->log, srq->room * sizeof(*srq->log));
	sv_block_free(srq->side, (size_t)srq->room * srq->stride);
	sv_block_free(srq->scratch, scratch_size(srq));
}

int sv_srq_open(struct ibv_srq *vsrq, const struct sv_srq_spec *spec)
{
	struct sv_srq *srq = sv_srq_of(vsrq);

	if (!spec->max_wr || spec->max_wr > SV_MAX_WR || !spec->xrcd != !spec->cq)
		return EINVAL;
	vsrq->srq_context = spec->srq_context;
	srq->max_wr = spec->max_wr;
	srq->max_sge = spec->max_sge;
	srq->room = spec->room > spec->max_wr ? spec->room : spec->max_wr;
	srq->stride = spec->max_sge > 1 ? spec->max_sge * sizeof(struct ibv_sge) : 0;
	srq->log = sv_block_alloc(srq->room * sizeof(*srq->log));
	srq->side = srq->stride ? sv_block_alloc((size_t)srq->room * srq->stride) : NULL;
	srq->scratch = srq->stride ? sv_block_alloc(scratch_size(srq)) : NULL;
	if (!srq->log || (srq->stride && (!srq->side || !srq->scratch))) {
		free_log(srq);
		srq->log = NULL;
		return ENOMEM;
	}
	srq->slots = srq->max_wr;
	for (uint32_t slot = srq->slots; slot-- > 0;)
		sv_unlog_shared(srq, slot);
	if (spec->xrcd) {
		srq->number = spec->vnumber;
		srq->cq = sv_cq_of(spec->cq);
		sv_add(&srq->cq->users, 1);
		sv_store_release(&srq->xrcd, sv_xrcd_of(spec->xrcd));
	}
	return 0;
}

void sv_srq_bind(struct ibv_srq *vsrq, struct ibv_srq *real)
{
	struct sv_srq *srq = sv_srq_of(vsrq);

	srq->real = real;
	sv_landings_unbind(&srq->landings);
	if (real)
		new_generation(srq);
}

void sv_srq_go_on(struct ibv_srq *vsrq)
{
	sv_landings_unbind(&sv_srq_of(vsrq)->landings);
}

static void end_srq(struct sv_srq *srq)
{
	if (srq->xrcd)
		sv_xrc_leave(srq);
	sv_landings_forget(&srq->landings, NULL);
	sv_async_forget(sv_context_of(srq->v.context), &srq->v);
	if (srq->log)
		free_log(srq);
	sv_slot_free(SV_KIND_SRQ, sizeof(*srq), srq);
}

void sv_srq_free(struct ibv_srq *vsrq)
{
	struct sv_srq *srq = sv_srq_of(vsrq);

	if (srq->in_verb)
		srq->free_asked = 1;
	else
		end_srq(srq);
}

void sv_srq_bookmark(struct ibv_srq *vsrq, struct sv_srq_mark *bookmark)
{
	struct sv_srq *srq = sv_srq_of(vsrq);

	memset(bookmark, 0, sizeof(*bookmark));
	for (uint32_t slot = 0; slot < srq->slots; slot++)
		bookmark->receives += srq->log[slot].number != 0;
	bookmark->landings = srq->landings.count;
}

/* ---- Verbs ------------------------------------------------------------------------------------------------------ */

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	if (!sv_ours(pd))
		return SV_REAL(ibv_create_srq)(pd, attr);
	return SV_CONTROL_POINTER(struct ibv_srq, SV_OP_CREATE_SRQ, "ibv_create_srq", SV_POINTER(pd), SV_POINTER(attr));
}

/* Free slots to the spare stack. Returns how many there were. The queue's lock is held. */
static uint32_t set_aside(struct sv_srq *srq, uint32_t count)
{
	uint32_t taken = 0;

	while (taken < count) {
		uint32_t top = srq->free;

		if (!top)
			top = __atomic_exchange_n(&srq->returned, 0, __ATOMIC_ACQUIRE);
		if (!top)
			break;
		srq->free = srq->log[top - 1].next;
		srq->log[top - 1].next = srq->spare;
		srq->spare = top;
		taken++;
	}
	return taken;
}

/* The other way, and slots that have not been in use yet. */
static void add_free(struct sv_srq *srq, uint32_t count)
{
	while (count--) {
		uint32_t slot = srq->spare ? srq->spare - 1 : srq->slots++;

		if (srq->spare)
			srq->spare = srq->log[slot].next;
		sv_unlog_shared(srq, slot);
	}
}

/* What it loses is not given out any more before the device is asked, and what it gains not before that has agreed. */
static int resize(struct sv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	const uint64_t args[] = { SV_POINTER(&srq->v), SV_POINTER(attr), SV_ARG((int64_t)mask) };
	uint32_t less = attr->max_wr < srq->max_wr ? srq->max_wr - attr->max_wr : 0, taken;
	struct sv_thread *self;
	int err = sv_driver_start("ibv_modify_srq");

	if (err)
		return err;
	if (!attr->max_wr || attr->max_wr > srq->room)
		return EINVAL;
	self = sv_gate_enter("ibv_modify_srq");
	sv_lock_take(&srq->lock, self, SV_HELD_RECV);
	taken = set_aside(srq, less);
	sv_lock_drop(&srq->lock);
	sv_thread_holds_nothing(self);
	err = taken < less ? EINVAL : sv_mailbox_call(SV_OP_MODIFY_SRQ, "ibv_modify_srq", NULL, 3, args, -1);
	sv_lock_take(&srq->lock, self, SV_HELD_RECV);
	if (err) {
		add_free(srq, taken);
	} else {
		if (attr->max_wr > srq->max_wr)
			add_free(srq, attr->max_wr - srq->max_wr);
		srq->max_wr = attr->max_wr;
	}
	sv_lock_drop(&srq->lock);
	sv_gate_leave(self);
	return err;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	if (!sv_ours(srq))
		return SV_REAL(ibv_modify_srq)(srq, attr, mask);
	if (mask & IBV_SRQ_MAX_WR)
		return resize(sv_srq_of(srq), attr, mask);
	return SV_CONTROL(SV_OP_MODIFY_SRQ, "ibv_modify_srq", NULL, SV_POINTER(srq), SV_POINTER(attr),
			  SV_ARG((int64_t)mask));
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	if (!sv_ours(srq))
		return SV_REAL(ibv_query_srq)(srq, attr);
	return SV_CONTROL(SV_OP_QUERY_SRQ, "ibv_query_srq", NULL, SV_POINTER(srq), SV_POINTER(attr));
}

/*
 * Queue pairs of its domain may live on: the messages that it holds are counted for them, and go with it. Otherwise as
 * change_qp in qp.c.
 */
static int destroy_xrc(struct sv_srq *srq)
{
	const uint64_t args[] = { SV_POINTER(&srq->v) };
	struct sv_thread *self;
	int err = sv_driver_start("ibv_destroy_srq");

	if (err)
		return err;
	self = sv_gate_enter("ibv_destroy_srq");
	sv_lock_take(&srq->cq->lock, self, SV_HELD_CQ);
	sv_cq_collect(&srq->cq->v, NULL);
	sv_lock_drop(&srq->cq->lock);
	sv_thread_holds_nothing(self);
	srq->in_verb = 1;
	err = sv_mailbox_call(SV_OP_DESTROY_SRQ, "ibv_destroy_srq", NULL, 1, args, -1);
	srq->in_verb = 0;
	if (srq->free_asked) {
		sv_lock_take(&srq->cq->lock, self, SV_HELD_CQ);
		sv_kept_purge_srq(srq->cq, srq);
		sv_lock_drop(&srq->cq->lock);
		sv_thread_holds_nothing(self);
		end_srq(srq);
	}
	sv_gate_leave(self);
	return err;
}

int ibv_destroy_srq(struct ibv_srq *vsrq)
{
	struct sv_srq *srq = sv_srq_of(vsrq);
	struct sv_context *context = sv_context_of(vsrq->context);
	int err;

	if (!sv_ours(vsrq))
		return SV_REAL(ibv_destroy_srq)(vsrq);
	sv_store_release(&srq->ending, 1);
	/* Who is handing out an event has done so after this. */
	pthread_mutex_lock(&context->events.mutex);
	pthread_mutex_unlock(&context->events.mutex);
	sv_await_acks("ibv_destroy_srq", &vsrq->mutex, &vsrq->cond, &vsrq->events_completed, &srq->events_reported);
	err = srq->xrcd ? destroy_xrc(srq) : SV_CONTROL(SV_OP_DESTROY_SRQ, "ibv_destroy_srq", NULL, SV_POINTER(vsrq));
	if (err)
		sv_store_release(&srq->ending, 0);
	return err;
}
