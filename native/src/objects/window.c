/* SPDX-License-Identifier: Apache-2.0 */
#include "objects/window.h"
#include "objects/build.h"

#define BUCKETS 1024

/* A leaf: taken inside a queue's lock. Binds are rare beside what goes through the window. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sv_mw *by_virtual[BUCKETS], *by_real[BUCKETS];
static uint32_t windows;

static uint32_t bucket(uint32_t rkey)
{
	return (rkey >> 8) * 0x9e3779b1u >> 22;
}

/* ---- Rkeys ------------------------------------------------------------------------------------------------------ */

uint32_t sv_window_real(const struct sv_mw *mw, uint32_t rkey)
{
	return mw->real_block | (((rkey ^ sv_masks.key) + mw->tag_offset) & 0xff);
}

uint32_t sv_window_virtual(const struct sv_mw *mw, uint32_t real_rkey)
{
	return mw->block | (((real_rkey - mw->tag_offset) ^ sv_masks.key) & 0xff);
}

static struct sv_mw *find_virtual(const struct ibv_context *vcontext, uint32_t rkey)
{
	struct sv_mw *mw = by_virtual[bucket(rkey)];

	while (mw && (mw->v.context != vcontext || mw->block != (rkey & ~0xffu)))
		mw = mw->next_virtual;
	return mw;
}

static struct sv_mw *find_real(const struct ibv_context *vcontext, uint32_t rkey)
{
	struct sv_mw *mw = by_real[bucket(rkey)];

	while (mw && (mw->v.context != vcontext || mw->real_block != (rkey & ~0xffu)))
		mw = mw->next_real;
	return mw;
}

void sv_window_enter(struct sv_mw *mw)
{
	struct sv_mw **first = &by_virtual[bucket(mw->block)], **first_real = &by_real[bucket(mw->real_block)];

	pthread_mutex_lock(&mutex);
	mw->next_virtual = *first;
	*first = mw;
	mw->next_real = *first_real;
	*first_real = mw;
	sv_store(&windows, windows + 1);
	pthread_mutex_unlock(&mutex);
}

void sv_window_leave(struct sv_mw *mw)
{
	struct sv_mw **link;

	pthread_mutex_lock(&mutex);
	for (link = &by_virtual[bucket(mw->block)]; *link != mw; link = &(*link)->next_virtual)
		;
	*link = mw->next_virtual;
	for (link = &by_real[bucket(mw->real_block)]; *link != mw; link = &(*link)->next_real)
		;
	*link = mw->next_real;
	sv_store(&windows, windows - 1);
	pthread_mutex_unlock(&mutex);
}

/* ---- Changes ---------------------------------------------------------------------------------------------------- */

static void remove_change(struct sv_mw *mw, uint32_t at)
{
	mw->count--;
	memmove(&mw->changes[at], &mw->changes[at + 1], (mw->count - at) * sizeof(*mw->changes));
}

/* For one queue, or with NULL (gate closed) for all. */
static void settle(struct sv_mw *mw, const struct sv_qp *only)
{
	for (uint32_t at = 0; at < mw->count;) {
		const struct sv_window_change *change = &mw->changes[at];

		if ((only && change->to.qp != only) || change->position >= sv_send_retired(change->to.qp)) {
			at++;
			continue;
		}
		mw->binding = change->to;
		remove_change(mw, at);
	}
}

void sv_window_settle(struct sv_mw *mw)
{
	pthread_mutex_lock(&mutex);
	settle(mw, NULL);
	pthread_mutex_unlock(&mutex);
}

static int add_change(struct sv_mw *mw, const struct sv_binding *to, uint64_t position)
{
	settle(mw, to->qp);
	if (mw->count == SV_WINDOW_CHANGES)
		return ENOMEM;
	mw->changes[mw->count++] = (struct sv_window_change){ *to, position };
	return 0;
}

static void drop_change(struct sv_mw *mw, const struct sv_qp *qp, uint64_t position)
{
	for (uint32_t at = 0; at < mw->count; at++)
		if (mw->changes[at].to.qp == qp && mw->changes[at].position == position) {
			remove_change(mw, at);
			return;
		}
}

/* ---- The log ---------------------------------------------------------------------------------------------------- */

/* In an entry of a change: sge.length is the index of the window, sge.lkey that of the region; from 1, 0 is none. */
static struct sv_mw *mw_at(uint32_t index)
{
	return (struct sv_mw *)sv_region_base(SV_KIND_MW) + (index - 1);
}

static struct sv_mr *mr_at(uint32_t index)
{
	return (struct sv_mr *)sv_region_base(SV_KIND_MR) + (index - 1);
}

static int log_change(struct sv_qp *qp, struct sv_mw *mw, const struct sv_binding *to, uint32_t opcode, uint64_t wr_id,
		      uint32_t flags, struct sv_request_fields *fields)
{
	struct sv_send_queue *sq = &qp->sq;
	struct sv_sent_entry *entry;
	uint32_t slot;
	int err = 0;

	if ((uint32_t)sq->posted == sv_load_acquire(&sq->credit))
		sq->base = sq->posted;
	slot = ((uint32_t)sq->posted - sq->base) & sq->mask;
	pthread_mutex_lock(&mutex);
	if (mw)
		err = add_change(mw, to, sq->posted);
	pthread_mutex_unlock(&mutex);
	if (err)
		return err;
	entry = sv_send_slot(qp, slot);
	*entry = (struct sv_sent_entry){
		.wr_id = wr_id,
		.sge.addr = to->addr,
		.sge.length = mw ? sv_slot_index(SV_KIND_MW, sizeof(*mw), mw) + 1 : 0,
		.sge.lkey = to->mr ? sv_slot_index(SV_KIND_MR, sizeof(*to->mr), to->mr) + 1 : 0,
		.compare_add = to->length,
		.rkey = to->rkey,
		.imm = to->access,
		.opcode = opcode,
		.flags = flags,
	};
	sq->posted++;
	*fields = (struct sv_request_fields){ .entry = entry, .slot = slot, .opcode = opcode, .flags = flags, .rkey = to->rkey };
	return 0;
}

int sv_log_window(struct sv_qp *qp, const struct ibv_send_wr *wr, struct sv_request_fields *fields)
{
	struct sv_binding to = { .qp = qp };
	struct sv_mw *mw;

	if (wr->opcode == IBV_WR_BIND_MW) {
		const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;

		if (!sv_ours(wr->bind_mw.mw) || (info->mr && !sv_ours(info->mr)))
			return EINVAL;
		mw = sv_mw_of(wr->bind_mw.mw);
		if (mw->v.type != IBV_MW_TYPE_2 || (wr->bind_mw.rkey & ~0xffu) != mw->block)
			return EINVAL;
		to.mr = info->mr ? sv_mr_of(info->mr) : NULL;
		to.addr = info->addr;
		to.length = info->length;
		to.access = info->mw_access_flags;
		to.rkey = wr->bind_mw.rkey;
		to.bound = 1;
	} else if (wr->opcode == IBV_WR_LOCAL_INV) {
		pthread_mutex_lock(&mutex);
		mw = find_virtual(qp->v.context, wr->invalidate_rkey);
		pthread_mutex_unlock(&mutex);
		to.rkey = wr->invalidate_rkey;
	} else {
		return wr->opcode > IBV_WR_ATOMIC_WRITE ? EINVAL : EOPNOTSUPP;
	}
	return log_change(qp, mw, &to, wr->opcode, wr->wr_id, wr->send_flags & ~IBV_SEND_INLINE, fields);
}

void sv_unlog_window(struct sv_qp *qp, uint64_t position)
{
	const struct sv_sent_entry *entry = sv_send_entry(qp, position);

	pthread_mutex_lock(&mutex);
	if (entry->sge.length)
		drop_change(mw_at(entry->sge.length), qp, position);
	pthread_mutex_unlock(&mutex);
}

void sv_window_failed(struct sv_qp *qp, uint64_t position)
{
	if (sv_opcode_in(sv_send_entry(qp, position)->opcode, SV_OPCODES_WINDOW))
		sv_unlog_window(qp, position);
}

void sv_window_request(const struct sv_mw *mw, const struct sv_binding *binding, struct ibv_send_wr *real)
{
	real->bind_mw.mw = mw->real;
	real->bind_mw.rkey = sv_window_real(mw, binding->rkey);
	real->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = binding->mr ? binding->mr->real : NULL,
		.addr = binding->addr,
		.length = binding->length,
		.mw_access_flags = binding->access,
	};
}

static struct sv_binding logged_binding(const struct sv_sent_entry *entry)
{
	return (struct sv_binding){
		.mr = entry->sge.lkey ? mr_at(entry->sge.lkey) : NULL,
		.addr = entry->sge.addr,
		.length = entry->compare_add,
		.access = entry->imm,
		.rkey = entry->rkey,
	};
}

void sv_build_window(const struct sv_qp *qp, const struct sv_request_fields *fields, struct ibv_send_wr *real)
{
	const struct sv_sent_entry *entry = sv_send_slot(qp, fields->slot);
	const struct sv_binding binding = logged_binding(entry);

	if (fields->opcode == IBV_WR_BIND_MW)
		sv_window_request(mw_at(entry->sge.length), &binding, real);
	else
		real->invalidate_rkey = entry->sge.length ? sv_window_real(mw_at(entry->sge.length), entry->rkey)
							  : entry->rkey ^ sv_masks.key;
}

/* ---- ibv_bind_mw ------------------------------------------------------------------------------------------------ */

bool sv_is_bind_verb(const struct sv_qp *qp, const struct sv_request_fields *fields)
{
	return fields->opcode == IBV_WR_BIND_MW &&
	       mw_at(sv_send_slot(qp, fields->slot)->sge.length)->v.type == IBV_MW_TYPE_1;
}

static int bind_real(struct sv_qp *qp, struct sv_mw *mw, const struct sv_request_fields *fields)
{
	const struct sv_binding binding = logged_binding(sv_send_slot(qp, fields->slot));
	struct ibv_mw_bind bind = { .wr_id = qp->sq.id | fields->slot, .send_flags = fields->flags };
	struct ibv_send_wr request;

	sv_window_request(mw, &binding, &request);
	bind.bind_info = request.bind_mw.bind_info;
	return mw->real ? mw->real->context->ops.bind_mw(qp->sq.real, mw->real, &bind) : ENODEV;
}

int sv_replay_bind_verb(struct sv_qp *qp, const struct sv_request_fields *fields)
{
	const struct sv_sent_entry *entry = sv_send_slot(qp, fields->slot);
	struct sv_mw *mw = mw_at(entry->sge.length);
	int err = bind_real(qp, mw, fields);

	/* The device counts the lowest byte up; the application has been told what it came to. */
	return !err && sv_window_virtual(mw, mw->real->rkey) != entry->rkey ? EIO : err;
}

int sv_bind_mw(struct ibv_qp *vqp, struct ibv_mw *vmw, struct ibv_mw_bind *bind)
{
	const struct ibv_mw_bind_info *info = &bind->bind_info;
	struct sv_qp *qp = sv_qp_of(vqp);
	struct sv_mw *mw = sv_mw_of(vmw);
	struct sv_binding to = {
		.qp = qp,
		.mr = info->mr ? sv_mr_of(info->mr) : NULL,
		.addr = info->addr,
		.length = info->length,
		.access = info->mw_access_flags,
		.bound = info->mr && info->length,
	};
	struct sv_thread *self = sv_gate_enter("ibv_bind_mw");
	struct sv_request_fields fields;
	int err = 0;

	sv_lock_take(&qp->sq.lock, self, SV_HELD_SEND);
	if ((uint32_t)qp->sq.posted - sv_load_acquire(&qp->sq.credit) >= qp->sq.max_wr)
		err = sv_no_room(qp);
	if (!err)
		err = log_change(qp, mw, &to, IBV_WR_BIND_MW, bind->wr_id, bind->send_flags & ~IBV_SEND_INLINE, &fields);
	if (!err) {
		err = bind_real(qp, mw, &fields);
		if (err) {
			sv_unlog_send(qp, 1);
		} else {
			vmw->rkey = sv_window_virtual(mw, mw->real->rkey);
			sv_send_slot(qp, fields.slot)->rkey = vmw->rkey;
			pthread_mutex_lock(&mutex);
			mw->changes[mw->count - 1].to.rkey = vmw->rkey;
			pthread_mutex_unlock(&mutex);
		}
	}
	sv_lock_drop(&qp->sq.lock);
	sv_gate_leave(self);
	return err;
}

/* ---- What happens to windows ------------------------------------------------------------------------------------ */

uint32_t sv_window_invalidated(struct ibv_context *vcontext, uint32_t real_rkey)
{
	uint32_t rkey = real_rkey ^ sv_masks.key;
	struct sv_mw *mw;

	pthread_mutex_lock(&mutex);
	mw = find_real(vcontext, real_rkey);
	if (mw) {
		rkey = sv_window_virtual(mw, real_rkey);
		/* The bind was executed, though it may not have been seen to be. */
		for (uint32_t at = mw->count; at-- > 0;)
			if (mw->changes[at].to.bound && mw->changes[at].to.rkey == rkey) {
				mw->binding = mw->changes[at].to;
				for (uint32_t gone = 0; gone <= at; gone++)
					remove_change(mw, 0);
				break;
			}
		if (mw->binding.rkey == rkey)
			mw->binding.bound = 0;
	}
	pthread_mutex_unlock(&mutex);
	return rkey;
}

void sv_windows_forget_queue(struct sv_qp *qp, bool gone)
{
	struct sv_mw *mw;
	uint32_t index = 0;

	if (!sv_load(&windows))
		return;
	pthread_mutex_lock(&mutex);
	while ((mw = sv_slot_next(SV_KIND_MW, sizeof(*mw), &index))) {
		settle(mw, qp);
		for (uint32_t at = mw->count; at-- > 0;)
			if (mw->changes[at].to.qp == qp)
				remove_change(mw, at);
		if (!gone || mw->binding.qp != qp)
			continue;
		mw->binding.qp = NULL;
		if (mw->v.type == IBV_MW_TYPE_2)
			mw->binding.bound = 0;
	}
	pthread_mutex_unlock(&mutex);
}

void sv_windows_forget_mr(struct sv_mr *mr)
{
	struct sv_mw *mw;
	uint32_t index = 0;

	if (!sv_load(&windows))
		return;
	pthread_mutex_lock(&mutex);
	while ((mw = sv_slot_next(SV_KIND_MW, sizeof(*mw), &index)))
		if (mw->binding.mr == mr)
			mw->binding.bound = 0;
	pthread_mutex_unlock(&mutex);
}
