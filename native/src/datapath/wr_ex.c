/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ibv_wr_*: the requests between ibv_wr_start and ibv_wr_complete are gathered as classic ones and then posted through
 * the one path that ibv_post_send takes; one alone, as it was gathered, becomes the real one.
 */
#include "base/say.h"
#include "datapath/post.h"
#include "datapath/target.h"
#include "objects/build.h"

struct sv_stage {
	struct sv_long_lock lock;	/* held from start to complete or abort */
	int err;			/* of the first request that cannot be taken */
	struct ibv_send_wr *plain;	/* requests; NULL after an error, or when a request is not simple (sv_is_simple) */
	struct ibv_send_wr *current;	/* the last; at first the place in front of the first, for what names no request */
	/* As many as the queue takes; each, and the place in front of them, names the place of its own SGEs. */
	struct ibv_send_wr *requests;
	struct ibv_send_wr *end;
	char *payload;			/* max_inline for each */
	uint32_t max_sge;
	uint32_t max_inline;
	struct ibv_send_wr *places;	/* of all of these */
	struct ibv_sge *sges;		/* max_sge for each */
};

static struct sv_stage *stage_of(struct ibv_qp_ex *ex)
{
	return sv_container_of(ex, struct sv_qp, ex)->stage;
}

static SV_NOINLINE void refuse(struct sv_stage *stage, int err)
{
	if (!stage->err)
		stage->err = err;
	stage->plain = NULL;
}

/* No request and no error. */
static void empty(struct sv_stage *stage)
{
	stage->err = 0;
	stage->plain = stage->requests;
	stage->current = stage->requests - 1;
}

static SV_ALWAYS_INLINE struct ibv_send_wr *add(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct sv_stage *stage = stage_of(ex);
	struct ibv_send_wr *wr = stage->current + 1;

	if (unlikely(wr == stage->end)) {
		refuse(stage, ENOMEM);
		wr--;
	}
	stage->current = wr;
	if (!sv_opcode_in(opcode, SV_OPCODES_SIMPLE))
		stage->plain = NULL;
	wr->wr_id = ex->wr_id;
	wr->num_sge = 0;
	wr->opcode = opcode;
	wr->send_flags = ex->wr_flags & ~IBV_SEND_INLINE;
	return wr;
}

static SV_ALWAYS_INLINE void add_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr)
{
	struct ibv_send_wr *wr = add(ex, opcode);

	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = remote_addr;
}

static SV_ALWAYS_INLINE void add_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr,
		       uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr *wr = add(ex, opcode);

	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = remote_addr;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
}

static void atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, uint64_t compare, uint64_t swap)
{
	add_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}

static void atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, uint64_t value)
{
	add_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, value, 0);
}

static void rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	add_rdma(ex, IBV_WR_RDMA_READ, rkey, remote_addr);
}

static void rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	add_rdma(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

static void rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, __be32 imm)
{
	add_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr);
	stage_of(ex)->current->imm_data = imm;
}

static void send(struct ibv_qp_ex *ex)
{
	add(ex, IBV_WR_SEND);
}

static void send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	add(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	add(ex, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey;
}

static void local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	add(ex, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey;
}

static void bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *wr = add(ex, IBV_WR_BIND_MW);

	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *info;
}

static void set_inline_data_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_data_buf *buffers)
{
	struct sv_stage *stage = stage_of(ex);
	struct ibv_send_wr *wr = stage->current;
	char *to = stage->payload + (wr - stage->requests + 1) * (size_t)stage->max_inline;
	uint64_t length = 0;

	for (size_t i = 0; i < count; i++) {
		if (buffers[i].length > stage->max_inline - length) {
			refuse(stage, EINVAL);
			return;
		}
		if (buffers[i].length)
			memcpy(to + length, buffers[i].addr, buffers[i].length);
		length += buffers[i].length;
	}
	*wr->sg_list = (struct ibv_sge){ (uintptr_t)to, length, 0 };
	wr->num_sge = length ? 1 : 0;
	wr->send_flags |= IBV_SEND_INLINE;
}

static void set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	const struct ibv_data_buf buffer = { addr, length };

	set_inline_data_list(ex, 1, &buffer);
}

static void atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, const void *value)
{
	add_rdma(ex, IBV_WR_ATOMIC_WRITE, rkey, remote_addr);
	set_inline_data(ex, (void *)value, 8);
}

static void set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *list)
{
	struct sv_stage *stage = stage_of(ex);

	if (unlikely(count > stage->max_sge)) {
		refuse(stage, EINVAL);
		return;
	}
	memcpy(stage->current->sg_list, list, count * sizeof(*list));
	stage->current->num_sge = count;
	if (count > 1)
		stage->plain = NULL;
}

static void set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct ibv_send_wr *wr = stage_of(ex)->current;

	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = qpn;
	wr->wr.ud.remote_qkey = qkey;
}

static void set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	stage_of(ex)->current->qp_type.xrc.remote_srqn = srqn;
}

/* Field by field, as sv_copy_sge. */
static void set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_send_wr *wr = stage_of(ex)->current;
	struct ibv_sge *sge = wr->sg_list;

	sge->addr = addr;
	sge->length = length;
	sge->lkey = lkey;
	wr->num_sge = 1;
}

/* Fails as a whole at ibv_wr_complete. */
static void send_tso(struct ibv_qp_ex *ex, void *header, uint16_t size, uint16_t mss)
{
	static int said;

	(void)header;
	(void)size;
	(void)mss;
	sv_refuse("ibv_wr_send_tso", &said);
	refuse(stage_of(ex), EOPNOTSUPP);
}

static void start(struct ibv_qp_ex *ex)
{
	sv_long_lock_take(&stage_of(ex)->lock);
}

/* All or nothing; the send queue's lock is held. */
static SV_NOINLINE int post_list(struct sv_qp *qp, struct sv_stage *stage)
{
	uint32_t count = stage->current + 1 - stage->requests;
	struct ibv_send_wr *bad;
	int err;

	if ((uint32_t)qp->sq.posted - sv_load_acquire(&qp->sq.credit) + count >
	    (sv_names_target(qp) ? qp->targeted : qp->sq.max_wr))
		return sv_no_room(qp);
	for (struct ibv_send_wr *wr = stage->requests; wr < stage->current; wr++)
		wr->next = wr + 1;
	err = sv_post_send_locked(qp, stage->requests, &bad);
	for (struct ibv_send_wr *wr = stage->requests; wr < stage->current; wr++)
		wr->next = NULL;
	return err;
}

/* None, several, one that is not plain, or an error. */
static SV_NOINLINE int complete_other(struct sv_qp *qp, struct sv_stage *stage)
{
	int err = stage->err;

	if (!err && stage->current >= stage->requests) {
		struct sv_thread *self = sv_gate_enter("ibv_wr_complete");

		sv_lock_take(&qp->sq.lock, self, SV_HELD_SEND);
		err = post_list(qp, stage);
		sv_lock_drop(&qp->sq.lock);
		sv_gate_leave(self);
	}
	empty(stage);
	sv_long_lock_drop(&stage->lock);
	return err;
}

static int complete(struct ibv_qp_ex *ex)
{
	struct sv_qp *qp = sv_container_of(ex, struct sv_qp, ex);
	struct sv_stage *stage = qp->stage;
	struct ibv_send_wr *wr = stage->current;
	struct sv_request_fields fields;
	struct sv_thread *self;
	int err;

	if (unlikely(wr != stage->plain))
		return complete_other(qp, stage);
	self = sv_gate_enter("ibv_wr_complete");
	sv_lock_take(&qp->sq.lock, self, SV_HELD_SEND);
	if (likely(!sv_log_send(qp, wr, &fields, true))) {
		sv_build_send_in_place(qp, &fields, wr);
		err = sv_post_built(qp, wr);
	} else {
		err = post_list(qp, stage);
	}
	sv_lock_drop(&qp->sq.lock);
	sv_gate_leave(self);
	stage->current = wr - 1;
	sv_long_lock_drop(&stage->lock);
	return err;
}

static void abort_requests(struct ibv_qp_ex *ex)
{
	struct sv_stage *stage = stage_of(ex);

	empty(stage);
	sv_long_lock_drop(&stage->lock);
}

static size_t places_of(const struct sv_qp *qp)
{
	return qp->cap.max_send_wr + (size_t)1;
}

int sv_stage_open(struct sv_qp *qp)
{
	struct sv_stage *stage = sv_block_alloc(sizeof(*stage));
	struct ibv_qp_ex *ex = &qp->ex;
	size_t places = places_of(qp);

	qp->stage = stage;
	if (!stage)
		return ENOMEM;
	stage->max_sge = qp->cap.max_send_sge ? qp->cap.max_send_sge : 1;
	stage->max_inline = qp->cap.max_inline_data;
	stage->places = sv_block_alloc(places * sizeof(*stage->places));
	stage->sges = sv_block_alloc(places * stage->max_sge * sizeof(*stage->sges));
	stage->payload = sv_block_alloc(places * stage->max_inline + 1);
	if (!stage->places || !stage->sges || !stage->payload)
		return ENOMEM;
	stage->requests = &stage->places[1];
	stage->end = &stage->places[places];
	for (size_t i = 0; i < places; i++)
		stage->places[i].sg_list = &stage->sges[i * stage->max_sge];
	empty(stage);
	ex->wr_atomic_cmp_swp = atomic_cmp_swp;
	ex->wr_atomic_fetch_add = atomic_fetch_add;
	ex->wr_bind_mw = bind_mw;
	ex->wr_local_inv = local_inv;
	ex->wr_rdma_read = rdma_read;
	ex->wr_rdma_write = rdma_write;
	ex->wr_rdma_write_imm = rdma_write_imm;
	ex->wr_send = send;
	ex->wr_send_imm = send_imm;
	ex->wr_send_inv = send_inv;
	ex->wr_send_tso = send_tso;
	ex->wr_set_ud_addr = set_ud_addr;
	ex->wr_set_xrc_srqn = set_xrc_srqn;
	ex->wr_set_inline_data = set_inline_data;
	ex->wr_set_inline_data_list = set_inline_data_list;
	ex->wr_set_sge = set_sge;
	ex->wr_set_sge_list = set_sge_list;
	ex->wr_start = start;
	ex->wr_complete = complete;
	ex->wr_abort = abort_requests;
	ex->wr_atomic_write = atomic_write;
	return 0;
}

void sv_stage_free(struct sv_qp *qp)
{
	struct sv_stage *stage = qp->stage;
	size_t places = places_of(qp);

	if (!stage)
		return;
	sv_block_free(stage->places, places * sizeof(*stage->places));
	sv_block_free(stage->sges, places * stage->max_sge * sizeof(*stage->sges));
	sv_block_free(stage->payload, places * stage->max_inline + 1);
	sv_block_free(stage, sizeof(*stage));
	qp->stage = NULL;
}
