/* SPDX-License-Identifier: Apache-2.0 */
/* From the application's request to the log, and from the log to the real request: one way for post and for replay. */
#ifndef SV_BUILD_H
#define SV_BUILD_H

#include "objects/objects.h"
#include "objects/window.h"

/* Requests that go to the real library in one call. */
#define SV_BATCH 8

#define SV_ALWAYS_INLINE inline __attribute__((always_inline))

int sv_log_gather(struct sv_qp *qp, struct sv_sent_entry *entry, uint32_t slot, const struct ibv_send_wr *wr);
int sv_log_scatter(struct sv_recv_entry *entry, char *side, uint32_t max_sge, const struct ibv_recv_wr *wr);

/* ---- Positions -------------------------------------------------------------------------------------------------- */

static inline struct sv_sent_entry *sv_send_slot(const struct sv_qp *qp, uint32_t slot)
{
	return likely(slot < SV_NEAR_SLOTS) ? (struct sv_sent_entry *)&qp->near[slot] : &qp->sq.log[slot];
}

static inline struct sv_sent_entry *sv_send_entry(const struct sv_qp *qp, uint64_t position)
{
	return sv_send_slot(qp, ((uint32_t)position - qp->sq.base) & qp->sq.mask);
}

static inline struct sv_recv_entry *sv_recv_entry(const struct sv_qp *qp, uint64_t position)
{
	return &qp->rq.log[((uint32_t)position - qp->rq.base) & qp->rq.mask];
}

/* The position of the request in `slot`, which lies within one ring's size from `credit` on; modulo 2^32. */
static inline uint32_t sv_position_of(uint32_t credit, uint32_t base, uint32_t mask, uint32_t slot)
{
	return credit + ((slot + base - credit) & mask);
}

/* A position known modulo 2^32, less than 2^32 behind `posted`. */
static inline uint64_t sv_widen(uint64_t posted, uint32_t position)
{
	return posted - ((uint32_t)posted - position);
}

static inline uint64_t sv_send_retired(const struct sv_qp *qp)
{
	uint64_t credit = sv_widen(qp->sq.posted, qp->sq.credit);

	return credit > qp->send_retired ? credit : qp->send_retired;
}

static inline uint64_t sv_recv_retired(const struct sv_qp *qp)
{
	uint64_t credit = sv_widen(qp->rq.posted, qp->rq.credit);

	return credit > qp->recv_retired ? credit : qp->recv_retired;
}

/* Why a send queue takes no request: below RTS its max_wr is 0. */
static inline int sv_no_room(const struct sv_qp *qp)
{
	return qp->v.state < IBV_QPS_RTS ? EINVAL : ENOMEM;
}

static inline bool sv_signaled(const struct sv_qp *qp, const struct sv_sent_entry *entry)
{
	return (entry->flags & IBV_SEND_SIGNALED) || qp->signal_all;
}

/* Does it consume a receive at the peer? */
static inline bool sv_consumes(const struct sv_sent_entry *entry)
{
	return sv_opcode_in(entry->opcode, SV_OPCODES_CONSUMER);
}

/* ---- Sends ------------------------------------------------------------------------------------------------------ */

/* Field by field: the application has just written them so, and a wider load would have to wait for its stores. */
static SV_ALWAYS_INLINE void sv_copy_sge(struct ibv_sge *to, const struct ibv_sge *from)
{
	to->addr = from->addr;
	to->length = from->length;
	to->lkey = from->lkey;
}

/*
 * What a request consists of besides its SGEs, on its way to the real one: in registers when it has just been logged,
 * out of the log when it is replayed.
 */
struct sv_request_fields {
	struct sv_sent_entry *entry;
	uint64_t remote_addr;
	uint32_t slot;
	uint32_t opcode;
	uint32_t flags;
	uint32_t num_sge;
	uint32_t imm;
	uint32_t rkey;
};

/*
 * Most requests have at most one SGE, and are neither atomics nor changes of windows. What logs and builds them is told so
 * by a constant, `simple`, and asks for none of these again.
 */
static SV_ALWAYS_INLINE bool sv_is_simple(const struct ibv_send_wr *wr)
{
	return likely(wr->opcode < 32 && sv_opcode_in(wr->opcode, SV_OPCODES_SIMPLE)) &&
	       likely(wr->num_sge <= 1);
}

/* Appends a request to the send log. Returns 0 or an errno value; then nothing has changed. */
static SV_ALWAYS_INLINE int sv_log_send_within(struct sv_qp *qp, const struct ibv_send_wr *wr,
					       struct sv_request_fields *fields, uint32_t max_wr, const bool simple)
{
	struct sv_send_queue *sq = &qp->sq;
	uint32_t position = sq->posted, credit = sv_load_acquire(&sq->credit), base = sq->base;
	uint32_t opcode = wr->opcode, flags = wr->send_flags, num_sge = wr->num_sge, imm = wr->imm_data, rkey;
	uint64_t remote_addr = wr->wr.rdma.remote_addr;
	struct sv_sent_entry *entry;
	uint32_t slot;

	if (unlikely(position - credit >= max_wr))
		return sv_no_room(qp);
	if (!simple && unlikely(opcode > 31 || !sv_opcode_in(opcode, SV_OPCODES))) {
		/* A copy: what a function is given the address of is in memory on every path. */
		struct sv_request_fields window;
		int err = sv_log_window(qp, wr, &window);

		*fields = window;
		return err;
	}
	if (position == credit)
		sq->base = base = position;
	slot = (position - base) & sq->mask;
	entry = sv_send_slot(qp, slot);
	if (likely(num_sge == 1 && !(flags & IBV_SEND_INLINE))) {
		sv_copy_sge(&entry->sge, wr->sg_list);
	} else {
		int err = sv_log_gather(qp, entry, slot, wr);

		if (unlikely(err))
			return err;
		if (flags & IBV_SEND_INLINE)
			num_sge = entry->sge.length ? 1 : 0;
	}
	entry->wr_id = wr->wr_id;
	entry->remote_addr = remote_addr;
	if (!simple && unlikely(sv_opcode_in(opcode, SV_OPCODES_ATOMIC))) {
		entry->compare_add = wr->wr.atomic.compare_add;
		entry->swap = wr->wr.atomic.swap;
		rkey = wr->wr.atomic.rkey;
	} else {
		rkey = wr->wr.rdma.rkey;
	}
	entry->rkey = rkey;
	entry->imm = imm;
	entry->opcode = opcode;
	entry->flags = flags;
	entry->num_sge = num_sge;
	entry->consumers = sq->consumers += SV_OPCODES_CONSUMER >> opcode & 1;
	sq->posted++;
	*fields = (struct sv_request_fields){ entry, remote_addr, slot, opcode, flags, num_sge, imm, rkey };
	return 0;
}

static SV_ALWAYS_INLINE int sv_log_send(struct sv_qp *qp, const struct ibv_send_wr *wr,
					struct sv_request_fields *fields, const bool simple)
{
	return sv_log_send_within(qp, wr, fields, qp->sq.max_wr, simple);
}

static inline struct sv_request_fields sv_logged_fields(const struct sv_qp *qp, uint64_t position)
{
	struct sv_sent_entry *entry = sv_send_entry(qp, position);

	return (struct sv_request_fields){
		.entry = entry,
		.remote_addr = entry->remote_addr,
		.slot = ((uint32_t)position - qp->sq.base) & qp->sq.mask,
		.opcode = entry->opcode,
		.flags = entry->flags,
		.num_sge = entry->num_sge,
		.imm = entry->imm,
		.rkey = entry->rkey,
	};
}

/* Takes the last `count` requests off the log again. */
static inline void sv_unlog_send(struct sv_qp *qp, uint32_t count)
{
	while (count--) {
		qp->sq.posted--;
		qp->sq.consumers -= sv_consumes(sv_send_entry(qp, qp->sq.posted));
		sv_window_failed(qp, qp->sq.posted);
	}
}

static SV_ALWAYS_INLINE void sv_translate_sge(const struct sv_context *context, const struct ibv_sge *from,
					      struct ibv_sge *to)
{
	to->addr = from->addr;
	to->length = from->length;
	to->lkey = sv_key_real(context->lkeys, from->lkey);
}

static SV_ALWAYS_INLINE void sv_translate_sges(const struct sv_context *context, const struct ibv_sge *from,
					       struct ibv_sge *to, int count)
{
	for (int i = 0; i < count; i++)
		sv_translate_sge(context, &from[i], &to[i]);
}

/* The keys of a request that is built otherwise. After a restart, that is every request. */
static SV_ALWAYS_INLINE void sv_translate_send(const struct sv_qp *qp, const struct sv_context *context,
					       const struct sv_request_fields *fields, struct ibv_send_wr *real,
					       struct ibv_sge *sges, const bool simple)
{
	if (likely(!(fields->flags & IBV_SEND_INLINE))) {
		if (!simple)
			sv_translate_sges(context, real->sg_list, sges, real->num_sge);
		else if (likely(fields->num_sge))
			sv_translate_sge(context, real->sg_list, sges);
		real->sg_list = sges;
	}
	if (!simple && unlikely(sv_opcode_in(fields->opcode, SV_OPCODES_ATOMIC)))
		real->wr.atomic.rkey = sv_key_real(qp->rkeys, fields->rkey);
	else if (sv_opcode_in(fields->opcode, SV_OPCODES_RKEY))
		real->wr.rdma.rkey = sv_key_real(qp->rkeys, fields->rkey);
	else if (fields->opcode == IBV_WR_SEND_WITH_INV)
		real->invalidate_rkey = sv_key_real(qp->rkeys, fields->imm);
}

/* Fills `real` from a logged request. `sges` has room for its SGEs, should their keys need translation. */
static SV_ALWAYS_INLINE void sv_build_send(const struct sv_qp *qp, const struct sv_request_fields *fields,
					   struct ibv_send_wr *real, struct ibv_sge *sges, const bool simple)
{
	const struct sv_send_queue *sq = &qp->sq;
	struct sv_sent_entry *entry = fields->entry;

	real->wr_id = sq->id | fields->slot;
	real->next = NULL;
	real->sg_list = !simple && unlikely(fields->num_sge > 1) ? (struct ibv_sge *)(uintptr_t)entry->sge.addr : &entry->sge;
	real->num_sge = fields->num_sge;
	real->opcode = fields->opcode;
	real->send_flags = fields->flags;
	real->imm_data = fields->imm;
	real->wr.rdma.remote_addr = fields->remote_addr;
	if (!simple && unlikely(sv_opcode_in(fields->opcode, SV_OPCODES_ATOMIC | SV_OPCODES_WINDOW))) {
		if (sv_opcode_in(fields->opcode, SV_OPCODES_WINDOW)) {
			struct sv_request_fields window = *fields;

			sv_build_window(qp, &window, real);
			return;
		}
		real->wr.atomic.compare_add = entry->compare_add;
		real->wr.atomic.swap = entry->swap;
		real->wr.atomic.rkey = fields->rkey;
	} else {
		real->wr.rdma.rkey = fields->rkey;
	}
	if (sv_context_of(qp->v.context)->translate)
		sv_translate_send(qp, sv_context_of(qp->v.context), fields, real, sges, simple);
}

/*
 * The same of a simple request that is memory of ours, as is the SGE that it names, that names no next, and no SGE if its
 * inline data is empty: it becomes the real one itself.
 */
static SV_ALWAYS_INLINE void sv_build_send_in_place(const struct sv_qp *qp, const struct sv_request_fields *fields,
						    struct ibv_send_wr *wr)
{
	wr->wr_id = qp->sq.id | fields->slot;
	if (sv_context_of(qp->v.context)->translate)
		sv_translate_send(qp, sv_context_of(qp->v.context), fields, wr, wr->sg_list, true);
}

/* Posts one request that is logged and built; one that the real queue refuses is taken off the log again. */
static SV_ALWAYS_INLINE int sv_post_built(struct sv_qp *qp, struct ibv_send_wr *real)
{
	struct ibv_send_wr *bad;
	int err = sv_context_of(qp->v.context)->post_send(qp->sq.real, real, &bad);

	if (unlikely(err))
		sv_unlog_send(qp, 1);
	return err;
}

/* ---- Receives --------------------------------------------------------------------------------------------------- */

static SV_ALWAYS_INLINE int sv_log_recv(struct sv_qp *qp, const struct ibv_recv_wr *wr)
{
	struct sv_recv_queue *rq = &qp->rq;
	uint32_t outstanding = (uint32_t)rq->posted - sv_load_acquire(&rq->credit);
	struct sv_recv_entry *entry;

	if (unlikely(outstanding >= rq->max_wr))
		return qp->srq || qp->v.qp_type > IBV_QPT_UD ? EINVAL : ENOMEM;
	if (!outstanding)
		rq->base = rq->posted;
	entry = sv_recv_entry(qp, rq->posted);
	if (likely(wr->num_sge == 1)) {
		sv_copy_sge(&entry->sge, wr->sg_list);
	} else {
		int err = sv_log_scatter(entry, qp->recv_side + (size_t)(entry - rq->log) * qp->recv_stride,
					 qp->cap.max_recv_sge, wr);

		if (unlikely(err))
			return err;
	}
	entry->wr_id = wr->wr_id;
	entry->num_sge = wr->num_sge;
	rq->posted++;
	return 0;
}

static inline struct ibv_sge *sv_recv_sges(struct sv_recv_entry *entry)
{
	return unlikely(entry->num_sge > 1) ? (struct ibv_sge *)(uintptr_t)entry->sge.addr : &entry->sge;
}

static SV_ALWAYS_INLINE void sv_build_receive(const struct sv_context *context, struct sv_recv_entry *entry,
					      uint64_t wr_id, struct ibv_recv_wr *real, struct ibv_sge *sges,
					      const bool simple)
{
	real->wr_id = wr_id;
	real->next = NULL;
	real->sg_list = simple ? &entry->sge : sv_recv_sges(entry);
	real->num_sge = entry->num_sge;
	if (context->translate) {
		if (!simple)
			sv_translate_sges(context, real->sg_list, sges, real->num_sge);
		else if (likely(real->num_sge))
			sv_translate_sge(context, &entry->sge, sges);
		real->sg_list = sges;
	}
}

static SV_ALWAYS_INLINE void sv_build_recv(const struct sv_qp *qp, uint64_t position, struct ibv_recv_wr *real,
					   struct ibv_sge *sges, const bool simple)
{
	struct sv_recv_entry *entry = sv_recv_entry(qp, position);

	sv_build_receive(sv_context_of(qp->v.context), entry, qp->rq.id | (entry - qp->rq.log), real, sges, simple);
}

#endif
