/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: objects and verbs. */
#include "base/tcp_abi.h"
#include "control/control.h"
#include "datapath/keep.h"
#include "datapath/kept.h"
#include "datapath/landing.h"
#include "datapath/target.h"
#include "interpose/real.h"
#include "objects/build.h"
#include "objects/qp_numbers.h"
#include "xrc/domain.h"

/* Generations go on when a slot is used again, so they cannot live in it. */
static uint16_t generations[((uintptr_t)1 << SV_REGION_SHIFT) / sizeof(struct sv_qp)];

_Static_assert(sizeof(generations) / sizeof(generations[0]) <= SV_QP_INDEX_LIMIT, "an index fits in a wr_id");

static void new_generation(struct sv_qp *qp)
{
	uint32_t index = sv_slot_index(SV_KIND_QP, sizeof(*qp), qp);
	uint16_t generation = ++generations[index];

	qp->sq.id = SV_ID(generation, SV_ID_SEND, index);
	qp->rq.id = SV_ID(generation, SV_ID_RECV, index);
}

struct ibv_qp *sv_qp_alloc(struct ibv_context *vcontext, struct ibv_pd *vpd)
{
	struct sv_qp *qp = sv_slot_alloc(SV_KIND_QP, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->v.context = vcontext;
	qp->v.pd = vpd;
	qp->v.handle = sv_slot_index(SV_KIND_QP, sizeof(*qp), qp);
	pthread_mutex_init(&qp->v.mutex, NULL);
	pthread_cond_init(&qp->v.cond, NULL);
	new_generation(qp);
	return &qp->v;
}

static uint32_t ring_size(uint32_t max_wr)
{
	uint32_t size = 1;

	while (size < max_wr)
		size *= 2;
	return size;
}

/* Bytes of side area that a request of so many SGEs and so much inline payload needs. */
static uint32_t stride(uint32_t sges, uint32_t payload)
{
	uint32_t bytes = sges > 1 ? sges * sizeof(struct ibv_sge) : 0;

	if (payload > bytes)
		bytes = payload;
	return (bytes + 15) & ~15u;
}

/* Room for the translated SGE lists of a batch. Single SGEs have theirs on the stack. */
static size_t scratch_size(uint32_t max_sge)
{
	return max_sge > 1 ? SV_BATCH * max_sge * sizeof(struct ibv_sge) : 0;
}

static size_t send_log_size(size_t slots)
{
	return slots > SV_NEAR_SLOTS ? slots * sizeof(struct sv_sent_entry) : 0;
}

static void free_queues(struct sv_qp *qp)
{
	size_t send = qp->sq.mask + (size_t)1, recv = qp->rq.mask + (size_t)1;

	sv_block_free(qp->sq.log, send_log_size(send));
	sv_block_free(qp->rq.log, recv * sizeof(*qp->rq.log));
	sv_block_free(qp->send_side, send * qp->send_stride);
	sv_block_free(qp->recv_side, recv * qp->recv_stride);
	sv_block_free(qp->send_scratch, scratch_size(qp->cap.max_send_sge));
	sv_block_free(qp->recv_scratch, scratch_size(qp->cap.max_recv_sge));
	sv_block_free(qp->xrc, sizeof(*qp->xrc));
	sv_stage_free(qp);
}

/* Most queue pairs need none of these; then NULL is no failure. */
static int alloc_some(void *pointer, size_t size)
{
	void *block = size ? sv_block_alloc(size) : NULL;

	memcpy(pointer, &block, sizeof(block));
	return size && !block ? ENOMEM : 0;
}

static int alloc_queues(struct sv_qp *qp)
{
	size_t send = ring_size(qp->cap.max_send_wr), recv = ring_size(qp->cap.max_recv_wr);

	qp->sq.mask = send - 1;
	qp->rq.mask = recv - 1;
	qp->send_stride = stride(qp->cap.max_send_sge, qp->cap.max_inline_data);
	qp->recv_stride = stride(qp->cap.max_recv_sge, 0);
	return alloc_some(&qp->xrc, qp->v.qp_type > IBV_QPT_UD ? sizeof(*qp->xrc) : 0) |
	       alloc_some(&qp->sq.log, send_log_size(send)) |
	       alloc_some(&qp->rq.log, recv * sizeof(*qp->rq.log)) |
	       alloc_some(&qp->send_side, send * qp->send_stride) |
	       alloc_some(&qp->recv_side, recv * qp->recv_stride) |
	       alloc_some(&qp->send_scratch, scratch_size(qp->cap.max_send_sge)) |
	       alloc_some(&qp->recv_scratch, scratch_size(qp->cap.max_recv_sge));
}

static void count_on_cqs(struct sv_qp *qp, uint32_t change)
{
	if (qp->v.send_cq)
		sv_add(&sv_cq_of(qp->v.send_cq)->users, change);
	if (qp->v.recv_cq)
		sv_add(&sv_cq_of(qp->v.recv_cq)->users, change);
}

/* Whether that type exists, with those objects. */
static int check_spec(const struct sv_qp_spec *spec)
{
	switch (spec->qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
		return spec->send_cq && spec->recv_cq && !spec->xrcd ? 0 : EINVAL;
	case IBV_QPT_XRC_SEND:
		return spec->send_cq && !spec->recv_cq && !spec->srq && !spec->xrcd ? 0 : EINVAL;
	case IBV_QPT_XRC_RECV:
		return spec->xrcd && !spec->send_cq && !spec->recv_cq && !spec->srq ? 0 : EINVAL;
	default:
		return EOPNOTSUPP;
	}
}

int sv_qp_open(struct ibv_qp *vqp, const struct sv_qp_spec *spec)
{
	struct sv_qp *qp = sv_qp_of(vqp);
	int err = check_spec(spec);

	if (err)
		return err;
	if (spec->cap.max_send_wr > SV_MAX_WR || spec->cap.max_recv_wr > SV_MAX_WR)
		return EINVAL;
	vqp->qp_context = spec->qp_context;
	vqp->send_cq = spec->send_cq;
	vqp->recv_cq = spec->recv_cq;
	vqp->qp_num = spec->vqp_num;
	vqp->qp_type = spec->qp_type;
	vqp->state = IBV_QPS_RESET;
	vqp->srq = spec->srq;
	qp->srq = spec->srq ? sv_srq_of(spec->srq) : NULL;
	qp->cap = spec->cap;
	if (qp->srq || spec->qp_type > IBV_QPT_UD)
		qp->cap.max_recv_wr = qp->cap.max_recv_sge = 0;
	if (spec->xrcd)
		qp->cap.max_send_wr = qp->cap.max_send_sge = qp->cap.max_inline_data = 0;
	if (spec->qp_type == IBV_QPT_UD)
		qp->rq.peer_qp_num = SV_PEER_ANY;
	qp->sq.max_wr = 0;
	qp->rq.max_wr = qp->cap.max_recv_wr;
	qp->signal_all = spec->sq_sig_all;
	err = alloc_queues(qp);
	if (!err && spec->extended)
		err = sv_stage_open(qp);
	if (!err && spec->opened && !sv_xrc_hold(sv_qp_of(spec->opened)))
		err = EINVAL;
	if (err) {
		free_queues(qp);
		return err;
	}
	if (spec->opened) {
		/* As libibverbs has it, until a query or a modify. */
		vqp->state = IBV_QPS_UNKNOWN;
		qp->xrc->opened = sv_qp_of(spec->opened);
	} else if (spec->xrcd) {
		qp->xrc->domain = sv_xrcd_of(spec->xrcd)->domain;
		qp->xrc->handles = 1;
		qp->xrc->foreign = spec->foreign;
		qp->xrc->of_file = sv_xrcd_of(spec->xrcd)->inode && !sv_tcp_selected();
		if (spec->foreign)
			vqp->state = IBV_QPS_UNKNOWN;
		/* Any process may connect it. */
		if (qp->xrc->of_file)
			qp->rq.peer_qp_num = SV_PEER_ANY;
	}
	qp->opened = 1;
	count_on_cqs(qp, 1);
	return 0;
}

int sv_qp_bind(struct ibv_qp *vqp, struct ibv_qp *real)
{
	struct sv_qp *qp = sv_qp_of(vqp);

	qp->sq.real = qp->rq.real = real;
	sv_landings_unbind(&qp->landings);
	sv_qp_numbers_remove(qp);
	if (!real)
		return 0;
	new_generation(qp);
	qp->marker = 0;
	qp->send_error = qp->recv_error = 0;
	qp->recv_held = 0;
	sv_store_release(&qp->last_receive, 0);
	if (sv_qp_behind(qp) != qp)
		return 0;
	/* Over ib2tcp a domain is of one process. */
	if (qp->xrc && qp->xrc->of_file && sv_tcp_selected()) {
		qp->xrc->of_file = false;
		qp->rq.peer_qp_num = qp->xrc->peer_qp_num;
		qp->rq.peer_lid = qp->xrc->peer_lid;
	}
	return qp->srq || sv_is_datagram(qp) || (sv_is_xrc_receiver(qp) && !qp->xrc->foreign) ? sv_qp_numbers_add(qp, real->qp_num)
											      : 0;
}

void sv_qp_go_on(struct ibv_qp *vqp)
{
	struct sv_qp *qp = sv_qp_of(vqp);

	sv_landings_unbind(&qp->landings);
	qp->marker = 0;
}

void sv_qp_each_cq(const struct sv_qp *qp, void (*visit)(struct sv_cq *cq, const struct sv_qp *qp))
{
	if (qp->v.send_cq)
		visit(sv_cq_of(qp->v.send_cq), qp);
	if (qp->v.recv_cq)
		visit(sv_cq_of(qp->v.recv_cq), qp);
	if (sv_is_xrc_receiver(qp))
		sv_xrc_each_cq(qp, visit);
}

void sv_qp_empty(struct sv_qp *qp, struct sv_thread *self)
{
	sv_windows_forget_queue(qp, true);
	if (sv_is_xrc_receiver(qp))
		sv_xrc_forget_receiver(qp, self);
	else
		sv_qp_each_cq(qp, sv_kept_purge);
	sv_landings_forget(&qp->landings, NULL);
	qp->rq.landed = 0;
	if (qp->srq) {
		sv_landings_forget(&qp->srq->landings, qp);
		qp->srq->landed = qp->srq->landings.landed.first != NULL;
		sv_store_release(&qp->last_receive, 0);
	}
	if (qp->xrc)
		memset(&qp->xrc->targets, 0, sizeof(qp->xrc->targets));
	qp->sq.posted = qp->sq.consumers = 0;
	qp->rq.posted = 0;
	qp->sq.base = qp->rq.base = 0;
	sv_store_release(&qp->sq.credit, 0);
	sv_store_release(&qp->rq.credit, 0);
	qp->send_retired = qp->recv_retired = qp->recv_flushed = qp->recv_filled = qp->landed_total =
		qp->shared_received = 0;
	qp->send_error_at = qp->recv_error_at = 0;
	qp->send_error = qp->recv_error = 0;
	qp->recv_held = 0;
	qp->marker = 0;
	new_generation(qp);
}

void sv_qp_state(struct ibv_qp *vqp, int state)
{
	struct sv_qp *qp = sv_qp_of(vqp);

	vqp->state = state;
	/* The event of the next time in SQD may come before this is called. */
	if (state != IBV_QPS_SQD)
		sv_store_release(&qp->sq_drained, 0);
	if (sv_names_target(qp))
		qp->targeted = state < IBV_QPS_RTS ? 0 : qp->cap.max_send_wr;
	else
		qp->sq.max_wr = state < IBV_QPS_RTS ? 0 : qp->cap.max_send_wr;
	if (state != IBV_QPS_RESET)
		return;
	if (qp->in_verb)
		qp->reset_asked = 1;
	else
		sv_qp_empty(qp, NULL);
}

void sv_qp_peer(struct ibv_qp *vqp, uint32_t dest_vqp_num, uint16_t dest_vlid)
{
	struct sv_qp *qp = sv_qp_of(vqp);

	if (qp->xrc) {
		qp->xrc->peer_qp_num = dest_vqp_num;
		qp->xrc->peer_lid = dest_vlid;
		if (qp->xrc->of_file)
			return;
	}
	qp->rq.peer_qp_num = dest_vqp_num;
	qp->rq.peer_lid = dest_vlid;
}

void sv_qp_set_rkeys(struct ibv_qp *vqp, const struct sv_keymap *map)
{
	struct sv_qp *qp = sv_qp_of(vqp);

	qp->rkeys = map;
	if (map)
		sv_store_release(&sv_context_of(vqp->context)->translate, 1);
}

void sv_qp_leave(struct ibv_qp *vqp)
{
	sv_qp_of(vqp)->xrc->leaving = !sv_qp_of(vqp)->xrc->foreign;
}

/* What it held has been forgotten. */
static void end_qp(struct sv_qp *qp)
{
	if (qp->opened) {
		count_on_cqs(qp, -1);
		sv_qp_numbers_remove(qp);
		free_queues(qp);
	}
	sv_async_forget(sv_context_of(qp->v.context), &qp->v);
	sv_slot_free(SV_KIND_QP, sizeof(*qp), qp);
}

void sv_qp_free(struct ibv_qp *vqp)
{
	struct sv_qp *qp = sv_qp_of(vqp);

	if (qp->in_verb) {
		qp->free_asked = 1;
		return;
	}
	if (qp->opened && sv_qp_behind(qp) == qp)
		sv_qp_empty(qp, NULL);
	end_qp(qp);
}

/* ---- Verbs ------------------------------------------------------------------------------------------------------ */

static void collect(struct ibv_cq *vcq, const struct sv_qp *ending, struct sv_thread *self)
{
	struct sv_cq *cq = sv_cq_of(vcq);

	sv_lock_take(&cq->lock, self, SV_HELD_CQ);
	sv_cq_collect(vcq, ending);
	sv_lock_drop(&cq->lock);
}

/*
 * A QP that is about to lose its completions takes receives of its SRQ with it, and their slots must come back: so it
 * stops receiving, and its completions are looked through while the real QP is still there, by one of its handles. In
 * change_qp.
 */
static void collect_shared(struct sv_qp *qp, struct ibv_qp *real, struct sv_thread *self)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	const struct sv_qp *ending = NULL;

	if (!real || qp->v.state == IBV_QPS_RESET)
		return;
	if (qp->v.state != IBV_QPS_ERR) {
		SV_REAL(ibv_modify_qp)(real, &attr, IBV_QP_STATE);
		ending = qp;
	}
	if (sv_is_xrc_receiver(qp)) {
		sv_xrc_collect(qp, self);
		return;
	}
	collect(qp->v.recv_cq, ending, self);
	if (qp->v.send_cq != qp->v.recv_cq)
		collect(qp->v.send_cq, ending, self);
}

/* Two CQs, or one, in the order of their addresses, so that two threads cannot wait for each other. */
static void empty_locked(struct sv_qp *qp, struct sv_thread *self)
{
	struct sv_cq *first = sv_cq_of(qp->v.send_cq);
	struct sv_cq *second = qp->v.recv_cq ? sv_cq_of(qp->v.recv_cq) : first;
	struct sv_lock *receive = qp->srq ? &qp->srq->lock : &qp->rq.lock;

	if (second < first) {
		second = first;
		first = sv_cq_of(qp->v.recv_cq);
	}
	sv_lock_take(&qp->sq.lock, self, SV_HELD_SEND);
	sv_lock_take_nested(receive, self, SV_HELD_RECV);
	sv_lock_take_nested(&first->lock, self, SV_HELD_CQ);
	if (second != first)
		sv_lock_take_nested(&second->lock, self, SV_HELD_SECOND_CQ);
	sv_qp_empty(qp, self);
	if (second != first)
		sv_lock_drop(&second->lock);
	sv_lock_drop(&first->lock);
	sv_lock_drop(receive);
	sv_lock_drop(&qp->sq.lock);
}

/* Other processes may go on with it; should they not, no completion of it goes with the real QP: they are looked through then. */
static bool outlives(enum sv_op op, const struct sv_qp *qp)
{
	return op == SV_OP_DESTROY_QP && qp->xrc->of_file;
}

/*
 * A verb that may reset or end a queue pair: the driver only asks for it, and this thread does it under the locks of the
 * queues and of their completion queues, which another thread may be polling. Were the driver's threads to take these
 * locks, they would lose their bias.
 */
static int change_qp(enum sv_op op, const char *verb, struct sv_qp *handle, bool ends, unsigned count,
		     const uint64_t *args)
{
	struct sv_qp *qp = sv_qp_behind(handle);
	struct sv_thread *self;
	int err = sv_driver_start(verb);

	if (err)
		return err;
	self = sv_gate_enter(verb);
	if (ends && (qp->srq || (sv_is_xrc_receiver(qp) && !outlives(op, qp))))
		collect_shared(qp, handle->rq.real, self);
	sv_thread_holds_nothing(self);
	qp->in_verb = 1;
	err = sv_mailbox_call(op, verb, NULL, count, args, -1);
	qp->in_verb = 0;
	/* What came in between: once its number is forgotten it would count for another process's QP. */
	if (qp->free_asked && sv_is_xrc_receiver(qp) && qp->xrc->leaving) {
		sv_qp_numbers_remove(qp);
		sv_xrc_make_foreign(qp, self);
	} else if (qp->free_asked && sv_is_xrc_receiver(qp)) {
		sv_xrc_collect(qp, self);
	}
	if (qp->reset_asked || qp->free_asked) {
		if (sv_is_xrc_receiver(qp))
			sv_qp_empty(qp, self);
		else
			empty_locked(qp, self);
		qp->reset_asked = 0;
		if (qp->free_asked)
			end_qp(qp);
	}
	sv_gate_leave(self);
	return err;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (!sv_ours(pd))
		return SV_REAL(ibv_create_qp)(pd, attr);
	return SV_CONTROL_POINTER(struct ibv_qp, SV_OP_CREATE_QP, "ibv_create_qp", SV_POINTER(pd), SV_POINTER(attr));
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *vqp)
{
	if (!sv_ours(vqp))
		return SV_REAL(ibv_qp_to_qp_ex) ? SV_REAL(ibv_qp_to_qp_ex)(vqp) : NULL;
	return sv_qp_of(vqp)->stage ? &sv_qp_of(vqp)->ex : NULL;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init_attr)
{
	int err;

	if (!sv_ours(qp))
		return SV_REAL(ibv_query_qp)(qp, attr, mask, init_attr);
	err = SV_CONTROL(SV_OP_QUERY_QP, "ibv_query_qp", NULL, SV_POINTER(qp), SV_POINTER(attr),
			 SV_ARG((int64_t)mask), SV_POINTER(init_attr));
	if (!err && (mask & IBV_QP_STATE))
		qp->state = attr->qp_state;
	return err;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	const uint64_t args[] = { SV_POINTER(qp), SV_POINTER(attr), SV_ARG((int64_t)mask) };
	int err;

	if (!sv_ours(qp))
		return SV_REAL(ibv_modify_qp)(qp, attr, mask);
	err = change_qp(SV_OP_MODIFY_QP, "ibv_modify_qp", sv_qp_of(qp),
			(mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET, 3, args);
	/* That of the QP itself has been noted, see sv_qp_state. */
	if (!err && (mask & IBV_QP_STATE) && sv_qp_behind(sv_qp_of(qp)) != sv_qp_of(qp))
		qp->state = attr->qp_state;
	return err;
}

/* One of several handles, the QP lives on. */
static int let_go(struct sv_qp *handle)
{
	struct sv_context *context = sv_context_of(handle->v.context);
	bool own = sv_qp_behind(handle) == handle;
	int err = SV_CONTROL(SV_OP_DESTROY_QP, "ibv_destroy_qp", NULL, SV_POINTER(&handle->v));

	/* The others have been freed. */
	if (!err && own)
		sv_async_forget(context, &handle->v);
	return err;
}

/*
 * Taken before the gate: of the handles of one QP the driver ends that last which is counted as the last. It needs no
 * deadline: whoever has it waits for the driver, and says so when that takes long.
 */
static pthread_mutex_t receivers_ending = PTHREAD_MUTEX_INITIALIZER;

static int destroy_receiver(struct sv_qp *handle, const uint64_t *args)
{
	struct sv_qp *qp = sv_qp_behind(handle);
	int err;

	pthread_mutex_lock(&receivers_ending);
	if (sv_xrc_let_go(qp))
		err = change_qp(SV_OP_DESTROY_QP, "ibv_destroy_qp", handle, true, 1, args);
	else
		err = let_go(handle);
	if (err)
		sv_xrc_take_back(qp);
	pthread_mutex_unlock(&receivers_ending);
	return err;
}

int ibv_destroy_qp(struct ibv_qp *vqp)
{
	const uint64_t args[] = { SV_POINTER(vqp) };
	struct sv_qp *qp = sv_qp_of(vqp);
	struct sv_context *context = sv_context_of(vqp->context);
	int err;

	if (!sv_ours(vqp))
		return SV_REAL(ibv_destroy_qp)(vqp);
	sv_store_release(&qp->ending, 1);
	/* Who is handing out an event has done so after this. */
	pthread_mutex_lock(&context->events.mutex);
	pthread_mutex_unlock(&context->events.mutex);
	sv_await_acks("ibv_destroy_qp", &vqp->mutex, &vqp->cond, &vqp->events_completed, &qp->events_reported);
	if (sv_is_xrc_receiver(qp))
		err = destroy_receiver(qp, args);
	else
		err = change_qp(SV_OP_DESTROY_QP, "ibv_destroy_qp", qp, true, 1, args);
	if (err)
		sv_store_release(&qp->ending, 0);
	return err;
}

/* The answer that is right on every device and stays right after a restart on another one. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	if (!sv_ours(qp) && SV_REAL(ibv_query_qp_data_in_order))
		return SV_REAL(ibv_query_qp_data_in_order)(qp, op, flags);
	return 0;
}
