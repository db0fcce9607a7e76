/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ibv_wr_*: the requests between ibv_wr_start and ibv_wr_complete are gathered as classic ones and then posted through
 * the one path that ibv_post_send takes.
 */
#include "build.h"
#include "target.h"
#include "post.h"
#include "say.h"

struct sv_stage {
	struct sv_long_lock lock;	/* held from start to complete or abort */
	uint32_t count;
	uint32_t capacity;
	uint32_t max_sge;
	uint32_t max_inline;
	int err;			/* of the first request that cannot be taken */
	struct ibv_send_wr *current;
	struct ibv_send_wr *requests;	/* capacity, and one to write to when there is no room */
	struct ibv_sge *sges;		/* max_sge for each */
	char *payload;			/* max_inline for each */
};

static struct sv_stage *stage_of(struct ibv_qp_ex *ex)
{
	return sv_container_of(ex, struct sv_qp, ex)->stage;
}

static void refuse(struct sv_stage *stage, int err)
{
	if (!stage->err)
		stage->err = err;
}

static uint32_t index_of(const struct sv_stage *stage)
{
	return stage->current - stage->requests;
}

static struct ibv_send_wr *add(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct sv_stage *stage = stage_of(ex);
	struct ibv_send_wr *wr = &stage->requests[stage->count];

	if (unlikely(stage->count == stage->capacity)) {
		refuse(stage, ENOMEM);
	} else {
		if (stage->count)
			wr[-1].next = wr;
		stage->count++;
	}
	stage->current = wr;
	wr->wr_id = ex->wr_id;
	wr->next = NULL;
	wr->sg_list = NULL;
	wr->num_sge = 0;
	wr->opcode = opcode;
	wr->send_flags = ex->wr_flags & ~IBV_SEND_INLINE;
	return wr;
}

static void add_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr)
{
	struct ibv_send_wr *wr = add(ex, opcode);

	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = remote_addr;
}

static void add_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr,
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

static void set_payload(struct sv_stage *stage, uint64_t length)
{
	struct ibv_sge *sge = &stage->sges[(size_t)index_of(stage) * stage->max_sge];

	sge->addr = (uintptr_t)stage->payload + (size_t)index_of(stage) * stage->max_inline;
	sge->length = length;
	sge->lkey = 0;
	stage->current->sg_list = sge;
	stage->current->num_sge = 1;
	stage->current->send_flags |= IBV_SEND_INLINE;
}

static void set_inline_data_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_data_buf *buffers)
{
	struct sv_stage *stage = stage_of(ex);
	char *to = stage->payload + (size_t)index_of(stage) * stage->max_inline;
	uint64_t length = 0;

	for (size_t i = 0; i < count; i++) {
		if (buffers[i].length > stage->max_inline - length) {
			refuse(stage, EINVAL);
			return;
		}
		memcpy(to + length, buffers[i].addr, buffers[i].length);
		length += buffers[i].length;
	}
	set_payload(stage, length);
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
	struct ibv_sge *sges = &stage->sges[(size_t)index_of(stage) * stage->max_sge];

	if (unlikely(count > stage->max_sge)) {
		refuse(stage, EINVAL);
		return;
	}
	memcpy(sges, list, count * sizeof(*list));
	stage->current->sg_list = sges;
	stage->current->num_sge = count;
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

static void set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = { addr, length, lkey };

	set_sge_list(ex, 1, &sge);
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
	struct sv_stage *stage = stage_of(ex);

	sv_long_lock_take(&stage->lock);
	stage->count = 0;
	stage->err = 0;
	stage->current = &stage->requests[stage->capacity];
}

static int complete(struct ibv_qp_ex *ex)
{
	struct sv_qp *qp = sv_container_of(ex, struct sv_qp, ex);
	struct sv_stage *stage = qp->stage;
	struct ibv_send_wr *bad;
	int err = stage->err;

	if (likely(!err && stage->count)) {
		struct sv_thread *self = sv_gate_enter("ibv_wr_complete");

		sv_lock_take(&qp->sq.lock, self, SV_HELD_SEND);
		/* All or nothing. */
		if ((uint32_t)qp->sq.posted - sv_load_acquire(&qp->sq.credit) + stage->count >
		    (sv_names_target(qp) ? qp->targeted : qp->sq.max_wr))
			err = sv_no_room(qp);
		else
			err = sv_post_send_locked(qp, stage->requests, &bad);
		sv_lock_drop(&qp->sq.lock);
		sv_gate_leave(self);
	}
	sv_long_lock_drop(&stage->lock);
	return err;
}

static void abort_requests(struct ibv_qp_ex *ex)
{
	sv_long_lock_drop(&stage_of(ex)->lock);
}

int sv_stage_open(struct sv_qp *qp)
{
	struct sv_stage *stage = sv_block_alloc(sizeof(*stage));
	struct ibv_qp_ex *ex = &qp->ex;
	size_t places = qp->cap.max_send_wr + (size_t)1;

	qp->stage = stage;
	if (!stage)
		return ENOMEM;
	stage->capacity = qp->cap.max_send_wr;
	stage->max_sge = qp->cap.max_send_sge ? qp->cap.max_send_sge : 1;
	stage->max_inline = qp->cap.max_inline_data;
	stage->requests = sv_block_alloc(places * sizeof(*stage->requests));
	stage->sges = sv_block_alloc(places * stage->max_sge * sizeof(*stage->sges));
	stage->payload = sv_block_alloc(places * stage->max_inline + 1);
	if (!stage->requests || !stage->sges || !stage->payload)
		return ENOMEM;
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
	size_t places = qp->cap.max_send_wr + (size_t)1;

	if (!stage)
		return;
	sv_block_free(stage->requests, places * sizeof(*stage->requests));
	sv_block_free(stage->sges, places * stage->max_sge * sizeof(*stage->sges));
	sv_block_free(stage->payload, places * stage->max_inline + 1);
	sv_block_free(stage, sizeof(*stage));
	qp->stage = NULL;
}
