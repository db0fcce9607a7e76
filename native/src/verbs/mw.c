/* SPDX-License-Identifier: Apache-2.0 */
/* Memory windows: objects, verbs, and binding them again after a re-attach. */
#include "base/futex.h"
#include "base/say.h"
#include "control/control.h"
#include "objects/build.h"
#include "objects/window.h"

#define REBIND_DEADLINE 30000000000LL

struct ibv_mw *sv_mw_alloc(struct ibv_pd *vpd, uint32_t type, uint32_t vrkey)
{
	struct sv_mw *mw = sv_slot_alloc(SV_KIND_MW, sizeof(*mw));

	if (!mw)
		return NULL;
	mw->v.context = vpd->context;
	mw->v.pd = vpd;
	mw->v.type = type;
	mw->v.rkey = mw->binding.rkey = vrkey;
	mw->v.handle = sv_slot_index(SV_KIND_MW, sizeof(*mw), mw);
	mw->block = vrkey & ~0xffu;
	mw->changes = sv_block_alloc(SV_WINDOW_CHANGES * sizeof(*mw->changes));
	if (!mw->changes) {
		sv_slot_free(SV_KIND_MW, sizeof(*mw), mw);
		return NULL;
	}
	return &mw->v;
}

void sv_mw_bind(struct ibv_mw *vmw, struct ibv_mw *real)
{
	struct sv_mw *mw = sv_mw_of(vmw);
	uint32_t rkey;

	if (mw->real) {
		sv_window_settle(mw);
		sv_window_leave(mw);
	}
	mw->real = real;
	if (!real)
		return;
	/* The rkey that it has, or will have once it is bound again: devices want another one for each bind. */
	rkey = mw->binding.bound ? ibv_inc_rkey(real->rkey) : real->rkey;
	mw->real_block = rkey & ~0xffu;
	mw->tag_offset = (rkey - (mw->binding.rkey ^ sv_masks.key)) & 0xff;
	sv_window_enter(mw);
}

void sv_mw_free(struct ibv_mw *vmw)
{
	struct sv_mw *mw = sv_mw_of(vmw);

	sv_mw_bind(vmw, NULL);
	sv_block_free(mw->changes, SV_WINDOW_CHANGES * sizeof(*mw->changes));
	sv_slot_free(SV_KIND_MW, sizeof(*mw), mw);
}

uint32_t sv_mw_real_rkey(struct ibv_mw *vmw, uint32_t vrkey)
{
	return sv_window_real(sv_mw_of(vmw), vrkey);
}

int sv_mw_bound(struct ibv_mw *vmw)
{
	return sv_mw_of(vmw)->binding.bound;
}

struct ibv_qp *sv_mw_qp(struct ibv_mw *vmw)
{
	struct sv_qp *qp = sv_mw_of(vmw)->binding.qp;

	return qp ? &qp->v : NULL;
}

void sv_mw_unbind(struct ibv_mw *vmw)
{
	sv_mw_of(vmw)->binding.bound = 0;
}

static int post_bind(struct sv_mw *mw, struct sv_qp *qp)
{
	struct ibv_send_wr request = {
		.wr_id = qp->sq.id | SV_ID(0, SV_ID_INTERNAL, 0) | SV_INTERNAL_BIND,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	struct ibv_mw_bind bind = { .wr_id = request.wr_id, .send_flags = IBV_SEND_SIGNALED };
	int err;

	sv_window_request(mw, &mw->binding, &request);
	if (mw->v.type == IBV_MW_TYPE_2)
		return sv_context_of(qp->v.context)->post_send(qp->sq.real, &request, &bad);
	bind.bind_info = request.bind_mw.bind_info;
	err = mw->real->context->ops.bind_mw(qp->sq.real, mw->real, &bind);
	return !err && mw->real->rkey != request.bind_mw.rkey ? EIO : err;
}

int sv_mw_rebind(struct ibv_mw *vmw, struct ibv_qp *vqp)
{
	struct sv_mw *mw = sv_mw_of(vmw);
	struct sv_qp *qp = sv_qp_of(vqp);
	int64_t deadline = sv_now() + REBIND_DEADLINE;
	unsigned tries = 0;
	int err;

	if (!mw->binding.mr || !mw->binding.mr->real)
		return EINVAL;
	qp->rebind = 1;
	err = post_bind(mw, qp);
	while (!err && qp->rebind == 1) {
		int moved = sv_cq_drain(vqp->send_cq);

		if (moved < 0)
			err = -moved;
		else if (!moved && sv_now() > deadline)
			err = ETIMEDOUT;
		else if (!moved)
			sv_spin_turn(++tries);
	}
	if (!err && qp->rebind != 2)
		err = EIO;
	if (!err)
		mw->binding.qp = qp;
	qp->rebind = 0;
	return err;
}

/* ---- Verbs ------------------------------------------------------------------------------------------------------ */

struct ibv_mw *sv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	return SV_CONTROL_POINTER(struct ibv_mw, SV_OP_ALLOC_MW, "ibv_alloc_mw", SV_POINTER(pd), SV_ARG(type));
}

int sv_dealloc_mw(struct ibv_mw *mw)
{
	return SV_CONTROL(SV_OP_DEALLOC_MW, "ibv_dealloc_mw", NULL, SV_POINTER(mw));
}
