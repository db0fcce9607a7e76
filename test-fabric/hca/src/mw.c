/*
 * Memory windows. A window is an entry of the table of regions that is valid while it is bound; its rkey is one of 256
 * that belong to it alone, so that binding can change the lowest byte. Type 2 is that of IBTA volume 1, 10.6.7.2.4
 * (2B): a bound window belongs to one QP.
 */
#include "hca.h"

static uint32_t block_of(uint32_t key)
{
	return key >> 8;
}

bool mw_owns_key(struct hca_context *ctx, uint32_t key)
{
	const struct hca_mw *mw;

	for (mw = ctx->windows; mw; mw = mw->next)
		if (block_of(mw->mw.rkey) == block_of(key))
			return true;
	return false;
}

bool mw_uses_region(struct hca_context *ctx, uint32_t index)
{
	const struct hca_mw *mw;

	for (mw = ctx->windows; mw; mw = mw->next) {
		const struct seg_mr *window = &ctx->seg->mr[mw->index];

		if (seg_load(&window->valid) && window->region == index)
			return true;
	}
	return false;
}

void mw_forget_qp(struct hca_context *ctx, struct hca_qp *qp)
{
	struct hca_mw *mw;

	for (mw = ctx->windows; mw; mw = mw->next) {
		struct seg_mr *window = &ctx->seg->mr[mw->index];

		if (window->kind == SEG_MR_WINDOW_2 && window->qp_index == qp->index && window->qp_gen == qp->gen)
			seg_store(&window->valid, 0);
	}
}

/* The first of 256 keys: those of regions, which are given out one by one or from few, are elsewhere if they can. */
static uint32_t block_draw(struct hca_context *ctx, uint32_t attempt)
{
	const uint32_t rxe_first = (1 << 19) + 1;	/* rxe_param.h: RXE_MIN_MW_INDEX */
	uint32_t random = ids_random(ctx) >> 11;

	switch (ctx->personality) {
	case PERSONALITY_RXE:
		return (rxe_first + attempt) << 8;
	case PERSONALITY_HOSTILE:
		return (1 + random % (16u << (attempt / 4 < 12 ? attempt / 4 : 12))) << 8;
	default:
		return (0x10000 + random % 0xfeffff) << 8;
	}
}

/* A block of keys that no region and no window has; ctx->lock held. */
static uint32_t key_block(struct hca_context *ctx)
{
	uint32_t attempt;

	for (attempt = 0; attempt < 10000; attempt++) {
		uint32_t first = block_draw(ctx, attempt), i;

		if (mw_owns_key(ctx, first) || fabric_keys_are_taken(ctx, first, 256))
			continue;
		for (i = 0; i < 256 && !mr_find(ctx->seg, first + i, true) && !mr_find(ctx->seg, first + i, false); i++)
			;
		if (i == 256)
			return first;
	}
	return 0;
}

struct ibv_mw *mw_alloc(struct ibv_pd *ibpd, enum ibv_mw_type type)
{
	struct hca_pd *pd = to_pd(ibpd, "ibv_alloc_mw");
	struct hca_context *ctx = context_of(ibpd->context);
	struct seg_mr *window;
	struct hca_mw *mw;
	bool taken;
	int lock;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
		errno = EINVAL;
		return NULL;
	}
	if (ctx->null_mode) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	mw = object_alloc(sizeof(*mw));
	if (!mw)
		return NULL;
	mw->mw.context = ibpd->context;
	mw->mw.pd = ibpd;
	mw->mw.type = type;
	pthread_mutex_lock(&ctx->lock);
	mw->index = mr_entry(ctx);
	lock = fabric_keys_lock(ctx);
	mw->mw.rkey = mw->index && lock >= 0 ? key_block(ctx) : 0;
	taken = mw->mw.rkey && key_take(ctx, mw->mw.rkey, mw->index | SEG_KEY_REMOTE);
	if (lock > 0)
		fabric_numbers_unlock(lock);
	if (!taken) {
		pthread_mutex_unlock(&ctx->lock);
		free(mw);
		errno = ENOMEM;
		return NULL;
	}
	window = &ctx->seg->mr[mw->index];
	memset(window, 0, sizeof(*window));
	window->kind = type == IBV_MW_TYPE_1 ? SEG_MR_WINDOW_1 : SEG_MR_WINDOW_2;
	window->pd = pd->number;
	window->rkey = mw->mw.rkey;
	mw->mw.handle = ctx->handles++;
	mw->next = ctx->windows;
	ctx->windows = mw;
	pd->users++;
	ctx->mws++;
	pthread_mutex_unlock(&ctx->lock);
	mw->magic = OBJECT_MAGIC(MAGIC_MW, mw);
	return &mw->mw;
}

int mw_dealloc(struct ibv_mw *ibmw)
{
	struct hca_mw *mw = to_mw(ibmw, "ibv_dealloc_mw"), **link;
	struct hca_context *ctx = context_of(ibmw->context);
	struct seg_mr *window = &ctx->seg->mr[mw->index];

	pthread_mutex_lock(&ctx->lock);
	for (link = &ctx->windows; *link != mw; link = &(*link)->next)
		;
	*link = mw->next;
	if (!context_is_lost(ctx)) {
		seg_store(&window->valid, 0);
		mr_quiesce(ctx);
		key_delete(ctx, window->rkey);
		window->kind = SEG_MR_FREE;
	}
	((struct hca_pd *)ibmw->pd)->users--;
	ctx->mws--;
	pthread_mutex_unlock(&ctx->lock);
	object_free(mw, sizeof(*mw));
	return 0;
}

static int capture(struct hca_send_wqe *wqe, struct hca_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	if (info->mw_access_flags & ~(unsigned int)(ACCESS_REMOTE | IBV_ACCESS_ZERO_BASED))
		return EINVAL;
	wqe->bind.window = mw->index;
	wqe->bind.rkey = rkey;
	wqe->bind.region = 0;
	wqe->bind.addr = info->addr;
	wqe->bind.length = info->length;
	wqe->bind.access = info->mw_access_flags;
	if (info->mr && info->length) {
		wqe->bind.region = to_mr(info->mr, "a bind of a memory window")->index;
		wqe->bind.lkey = info->mr->lkey;
	}
	return 0;
}

int mw_capture(struct hca_send_wqe *wqe, struct ibv_mw *ibmw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct hca_mw *mw = to_mw(ibmw, "a bind of a memory window");

	if (ibmw->type != IBV_MW_TYPE_2 || !info->mr || !info->length)
		return EINVAL;
	return capture(wqe, mw, rkey, info);
}

/* ibv_bind_mw: the window of type 1 gets its next rkey at once, which is good when the request has been executed. */
int mw_bind_type_1(struct ibv_qp *ibqp, struct ibv_mw *ibmw, struct ibv_mw_bind *bind)
{
	struct hca_qp *qp = to_qp(ibqp, "ibv_bind_mw");
	struct hca_mw *mw = to_mw(ibmw, "ibv_bind_mw");
	uint32_t rkey = (ibmw->rkey & ~0xffu) | ((ibmw->rkey + 1) & 0xff);
	struct hca_send_wqe *wqe;
	int ret;

	if (!send_opcode_fits(ibqp->qp_type, IBV_WR_BIND_MW))
		return EINVAL;
	pthread_mutex_lock(&qp->sq.lock);
	ret = send_may_post(qp);
	if (!ret) {
		wqe = send_slot(&qp->sq, qp->sq.prod);
		memset(wqe, 0, sizeof(*wqe));
		wqe->wr_id = bind->wr_id;
		wqe->flags = bind->send_flags & (IBV_SEND_FENCE | IBV_SEND_SIGNALED);
		wqe->opcode = IBV_WR_BIND_MW;
		ret = capture(wqe, mw, rkey, &bind->bind_info);
	}
	if (!ret) {
		qp->sq.prod++;
		ibmw->rkey = rkey;
	}
	requester_run(qp);
	pthread_mutex_unlock(&qp->sq.lock);
	return ret;
}

static bool region_fits(const struct seg_mr *region, const struct seg_mr *window, const struct hca_send_wqe *wqe)
{
	uint64_t addr = wqe->bind.addr, length = wqe->bind.length;

	if (!seg_load(&region->valid) || region->kind != SEG_MR_REGION || region->lkey != wqe->bind.lkey ||
	    region->pd != window->pd || !(region->access & IBV_ACCESS_MW_BIND))
		return false;
	if ((wqe->bind.access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(region->access & IBV_ACCESS_LOCAL_WRITE))
		return false;
	return addr >= region->iova && addr - region->iova <= region->length &&
	       length <= region->length - (addr - region->iova);
}

/* The responder's half of the QP is locked, so no request that came over it is using the window. */
static int bind(struct hca_qp *qp, const struct hca_send_wqe *wqe)
{
	struct hca_context *ctx = context_of(qp->qp.context);
	struct seg_mr *window = &ctx->seg->mr[wqe->bind.window];
	struct seg_mr *region = &ctx->seg->mr[wqe->bind.region];

	if ((window->kind != SEG_MR_WINDOW_1 && window->kind != SEG_MR_WINDOW_2) || window->pd != qp->shm->pd ||
	    block_of(window->rkey) != block_of(wqe->bind.rkey))
		return IBV_WC_MW_BIND_ERR;
	if (window->kind == SEG_MR_WINDOW_2 && seg_load(&window->valid))
		return IBV_WC_MW_BIND_ERR;
	if (wqe->bind.region && !region_fits(region, window, wqe))
		return IBV_WC_MW_BIND_ERR;

	seg_store(&window->valid, 0);
	if (window->rkey != wqe->bind.rkey) {
		key_delete(ctx, window->rkey);
		window->rkey = wqe->bind.rkey;
		if (!key_take(ctx, window->rkey, wqe->bind.window | SEG_KEY_REMOTE))
			return IBV_WC_MW_BIND_ERR;
	}
	if (!wqe->bind.region)
		return IBV_WC_SUCCESS;
	window->region = wqe->bind.region;
	window->qp_index = qp->index;
	window->qp_gen = qp->gen;
	window->access = wqe->bind.access;
	window->va = region->va + (wqe->bind.addr - region->iova);
	window->iova = wqe->bind.access & IBV_ACCESS_ZERO_BASED ? 0 : wqe->bind.addr;
	window->length = wqe->bind.length;
	seg_store(&window->valid, 1);
	return IBV_WC_SUCCESS;
}

struct seg_mr *mw_bound(struct seg *seg, struct seg_qp *qp, uint32_t rkey)
{
	struct seg_mr *window = mr_find(seg, rkey, true);

	if (!window || window->kind != SEG_MR_WINDOW_2 || !seg_load(&window->valid) ||
	    &seg->qp[window->qp_index] != qp || window->qp_gen != qp->gen)
		return NULL;
	return window;
}

int mw_execute(struct hca_qp *qp, struct hca_send_wqe *wqe)
{
	struct hca_context *ctx = context_of(qp->qp.context);
	int status = IBV_WC_SUCCESS;
	struct seg_mr *window;

	qp_lock_responder(ctx->seg, qp->shm, qp->index);
	if (wqe->opcode == IBV_WR_BIND_MW) {
		status = bind(qp, wqe);
	} else {
		window = mw_bound(ctx->seg, qp->shm, wqe->imm);
		if (window)
			seg_store(&window->valid, 0);
		else
			status = IBV_WC_MW_BIND_ERR;
	}
	seg_unlock(&qp->shm->lock);
	return status;
}
