/*
 * Handles of XRC receive QPs that another context has made, in the domain of a file. Such a QP stays where it was made: an
 * opener reads and changes its responder half there, and is on its list, for events. It lives until its owner and all
 * openers have destroyed their handles, closed their contexts or ended, as the kernel's does (ib_destroy_qp on its
 * handles): the segment of an owner that is gone is kept, and whoever finds an event tells the openers itself.
 */
#include "hca.h"

struct search {
	uint32_t qpn;
	uint64_t xrcd;
	struct seg *seg;
	struct seg_qp *shm;
	uint32_t index, gen;
};

bool xrc_is_there(struct hca_context *ctx, struct seg *seg, struct seg_qp *shm)
{
	uint32_t i;

	if (seg_alive(seg))
		return true;
	for (i = 0; seg_load(&shm->in_use) && i < SEG_MAX_OPENERS; i++) {
		uint32_t id = seg_load(&shm->opener[i].context);

		if (id && fabric_peer(ctx, id))
			return true;
	}
	return false;
}

static void search_in(struct hca_context *ctx, struct seg *seg, void *arg)
{
	struct search *search = arg;
	struct seg_qp *shm;
	uint32_t i, max = seg_load(&seg->max_qp);

	for (i = 0; i < max && !search->shm; i++) {
		shm = &seg->qp[i];
		if (!seg_load(&shm->in_use) || shm->qp_num != search->qpn || shm->qp_type != IBV_QPT_XRC_RECV ||
		    shm->xrcd != search->xrcd || !xrc_is_there(ctx, seg, shm))
			continue;
		search->seg = seg;
		search->shm = shm;
		search->index = i;
		search->gen = seg_load(&shm->gen);
	}
}

/* 0, or an error: the QP has ended, or too many have it open. */
static int enlist(struct hca_context *ctx, const struct search *found, uint32_t number)
{
	struct seg_qp *shm = found->shm;
	int ret = ENOMEM;
	uint32_t i;

	seg_lock(&shm->lock, "a queue pair of another process");
	if (!shm->in_use || shm->gen != found->gen)
		ret = EINVAL;
	for (i = 0; ret == ENOMEM && i < SEG_MAX_OPENERS; i++) {
		struct seg_opener *opener = &shm->opener[i];

		if (opener->context)
			continue;
		opener->handle = number;
		seg_store(&opener->context, ctx->seg->id);
		shm->openers++;
		ret = 0;
	}
	seg_unlock(&shm->lock);
	return ret;
}

struct ibv_qp *xrc_open_foreign(struct hca_context *ctx, struct hca_xrcd *xrcd, struct ibv_qp_open_attr *attr)
{
	struct search found = { .qpn = attr->qp_num, .xrcd = xrcd->number };
	struct hca_qp *handle;
	int ret;

	if (xrcd->number & XRCD_OF_FILE)
		fabric_each_or_remains(ctx, search_in, &found);
	if (!found.shm) {
		errno = EINVAL;
		return NULL;
	}
	handle = object_alloc(sizeof(*handle));
	if (!handle)
		return NULL;
	handle->home = found.seg;
	handle->shm = found.shm;
	handle->index = found.index;
	handle->gen = found.gen;
	handle->xrcd = xrcd;
	handle->init_attr.qp_type = IBV_QPT_XRC_RECV;
	handle->qp.context = &ctx->vctx.context;
	if (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT)
		handle->qp.qp_context = attr->qp_context;
	handle->qp.qp_num = attr->qp_num;
	handle->qp.qp_type = IBV_QPT_XRC_RECV;
	handle->qp.state = IBV_QPS_UNKNOWN;
	pthread_mutex_init(&handle->qp.mutex, NULL);
	pthread_cond_init(&handle->qp.cond, NULL);
	pthread_mutex_init(&handle->sq.lock, NULL);
	pthread_mutex_init(&handle->rq.lock, NULL);
	pthread_mutex_lock(&ctx->lock);
	handle->qp.handle = ctx->handles++;
	ret = enlist(ctx, &found, handle->qp.handle);
	if (!ret) {
		xrcd->users++;
		ctx->qps++;
		handle->magic = OBJECT_MAGIC(MAGIC_QP, handle);
		pthread_mutex_lock(&ctx->handle_lock);
		handle->next_handle = ctx->foreign;
		ctx->foreign = handle;
		pthread_mutex_unlock(&ctx->handle_lock);
	}
	pthread_mutex_unlock(&ctx->lock);
	if (ret) {
		free(handle);
		errno = ret;
		return NULL;
	}
	return &handle->qp;
}

void xrc_close_foreign(struct hca_context *ctx, struct hca_qp *handle)
{
	struct seg_qp *shm = handle->shm;
	struct hca_qp **link;
	bool alive;
	uint32_t i;

	pthread_mutex_lock(&ctx->lock);
	pthread_mutex_lock(&ctx->handle_lock);
	for (link = &ctx->foreign; *link != handle; link = &(*link)->next_handle)
		;
	*link = handle->next_handle;
	pthread_mutex_unlock(&ctx->handle_lock);
	handle->xrcd->users--;
	ctx->qps--;
	pthread_mutex_unlock(&ctx->lock);

	alive = seg_alive(handle->home);
	seg_lock(&shm->lock, "a queue pair of another process");
	for (i = 0; shm->gen == handle->gen && i < SEG_MAX_OPENERS; i++) {
		struct seg_opener *opener = &shm->opener[i];

		if (opener->context != ctx->seg->id || opener->handle != handle->qp.handle)
			continue;
		seg_store(&opener->context, 0);
		shm->openers--;
		/* The owner gives the rest back when it looks the next time. */
		if ((shm->orphaned || !alive) && !shm->openers)
			seg_store(&shm->in_use, 0);
	}
	seg_unlock(&shm->lock);
	if (!alive)
		fabric_sweep(ctx);
}

/* Whoever has ended without destroying its handles is not on the list any more. The responder's lock is held. */
static void forget_the_dead(struct hca_context *ctx, struct seg_qp *shm)
{
	uint32_t i;

	for (i = 0; i < SEG_MAX_OPENERS; i++) {
		if (!shm->opener[i].context || fabric_peer(ctx, shm->opener[i].context))
			continue;
		seg_store(&shm->opener[i].context, 0);
		shm->openers--;
	}
}

bool xrc_is_open_elsewhere(struct hca_context *ctx, struct hca_qp *qp)
{
	bool open;

	if (qp->qp.qp_type != IBV_QPT_XRC_RECV)
		return false;
	seg_lock(&qp->shm->lock, "the responder of a queue pair");
	forget_the_dead(ctx, qp->shm);
	open = qp->shm->openers;
	qp->shm->orphaned = 1;
	seg_unlock(&qp->shm->lock);
	return open;
}

bool xrc_take_back(struct hca_context *ctx, struct hca_qp *qp)
{
	bool open;

	seg_lock(&qp->shm->lock, "the responder of a queue pair");
	forget_the_dead(ctx, qp->shm);
	open = qp->shm->openers;
	if (open)
		qp->shm->orphaned = 0;
	else
		seg_store(&qp->shm->in_use, 0);
	seg_unlock(&qp->shm->lock);
	if (open) {
		ctx->orphans--;
		ctx->qps++;
	}
	return open;
}

void xrc_tell_openers(struct hca_context *ctx, struct seg_qp *shm, enum ibv_event_type type)
{
	uint32_t i;

	for (i = 0; i < SEG_MAX_OPENERS; i++) {
		uint32_t id = seg_load(&shm->opener[i].context);
		struct hca_peer *peer = id ? fabric_peer(ctx, id) : NULL;

		if (peer)
			seg_mail(peer->seg, MAIL_ASYNC_OPENED, shm->opener[i].handle, 0, type);
	}
}
