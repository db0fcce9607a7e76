/* Shared receive queues. */
#include "hca.h"

void srq_lock(struct seg *seg, struct seg_srq *srq)
{
	if (!seg_lock(&srq->lock, "a shared receive queue") || !srq->delivering)
		return;
	/* The last owner died while it completed a receive. Whether that got out is written in the CQ. */
	if (cq_contains(seg, srq->delivering_cq, srq->delivering_qp, srq->delivering_gen, srq->rq.head))
		seg_store(&srq->rq.head, srq->rq.head + 1);
	srq->delivering = 0;
}

/* ctx->lock held */
static int srq_ring(struct hca_context *ctx, struct seg_rq *rq, uint32_t max_wr, uint32_t max_sge)
{
	rq->max_wr = max_wr;
	rq->max_sge = max_sge;
	rq->slots = ring_slots(max_wr);
	rq->stride = sizeof(struct seg_recv_wqe) + max_sge * sizeof(struct ibv_sge);
	rq->ring = heap_alloc(ctx, (uint64_t)rq->stride * rq->slots);
	return rq->ring ? 0 : ENOMEM;
}

/* A number that no XRC SRQ of the device has; ctx->lock held, and the numbers. */
static uint32_t srq_number(struct hca_context *ctx)
{
	uint32_t attempt = 0, number;

	do {
		number = ids_draw(ctx, ID_SRQ, 0x100, 0xffffff, attempt++);
	} while (fabric_srq_number_is_taken(ctx, number));
	return number;
}

/* ctx->lock held, and the numbers where it is of XRC */
static int srq_place_numbered(struct hca_context *ctx, struct hca_srq *srq, const struct ibv_srq_attr *attr)
{
	struct seg_srq *shm;
	uint32_t index, gen;
	int ret;

	for (index = 0; index < SEG_MAX_SRQ; index++)
		if (!ctx->srq[index])
			break;
	if (index == SEG_MAX_SRQ)
		return ENOMEM;
	shm = &ctx->seg->srq[index];
	gen = shm->gen + 1;
	if (index >= ctx->seg->max_srq)
		seg_lock_init(&shm->lock);
	/* A peer that looks for an XRC SRQ may hold the lock of the last user of this place for a moment. */
	seg_lock(&shm->lock, "a shared receive queue");
	memset((char *)shm + sizeof(shm->lock), 0, sizeof(*shm) - sizeof(shm->lock));
	shm->gen = gen;
	shm->pd = ((struct hca_pd *)srq->srq.pd)->number;
	if (srq->xrcd) {
		shm->srq_num = srq_number(ctx);
		shm->xrcd = srq->xrcd->number;
		shm->cq = srq->cq->index;
	}
	ret = srq_ring(ctx, &shm->rq, attr->max_wr, attr->max_sge);
	if (!ret)
		seg_store(&shm->in_use, 1);
	seg_unlock(&shm->lock);
	if (ret)
		return ret;
	if (index >= ctx->seg->max_srq)
		seg_store(&ctx->seg->max_srq, index + 1);
	srq->shm = shm;
	srq->index = index;
	__atomic_store_n(&ctx->srq[index], srq, __ATOMIC_RELEASE);
	return 0;
}

/* ctx->lock held */
static int srq_place(struct hca_context *ctx, struct hca_srq *srq, const struct ibv_srq_attr *attr)
{
	int lock = srq->xrcd ? fabric_numbers_lock(ctx) : 0, ret;

	if (lock < 0)
		return errno;
	ret = srq_place_numbered(ctx, srq, attr);
	fabric_numbers_unlock(lock);
	return ret;
}

/* What the SRQ keeps from being destroyed; ctx->lock held. */
static void srq_count_users(struct hca_srq *srq, int n)
{
	((struct hca_pd *)srq->srq.pd)->users += n;
	if (srq->xrcd) {
		srq->xrcd->users += n;
		srq->cq->users += n;
	}
}

/* @attr gets the sizes that it has. */
static struct ibv_srq *srq_create(struct hca_pd *pd, void *srq_context, struct ibv_srq_attr *attr,
				  struct hca_xrcd *xrcd, struct hca_cq *cq)
{
	struct hca_context *ctx = context_of(pd->pd.context);
	struct hca_srq *srq;
	int ret;

	if (seg_load(&ctx->seg->fatal)) {
		errno = EIO;
		return NULL;
	}
	srq = object_alloc(sizeof(*srq));
	if (!srq)
		return NULL;
	srq->srq.context = pd->pd.context;
	srq->srq.srq_context = srq_context;
	srq->srq.pd = &pd->pd;
	srq->xrcd = xrcd;
	srq->cq = cq;
	pthread_mutex_init(&srq->srq.mutex, NULL);
	pthread_cond_init(&srq->srq.cond, NULL);
	pthread_mutex_init(&srq->lock, NULL);
	pthread_mutex_lock(&ctx->lock);
	ret = personality_srq(ctx, &attr->max_wr, &attr->max_sge);
	if (!ret)
		ret = srq_place(ctx, srq, attr);
	if (!ret) {
		srq->srq.handle = ctx->handles++;
		srq_count_users(srq, 1);
		ctx->srqs++;
		srq->magic = OBJECT_MAGIC(MAGIC_SRQ, srq);
	}
	pthread_mutex_unlock(&ctx->lock);
	if (ret) {
		free(srq);
		errno = ret;
		return NULL;
	}
	return &srq->srq;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	return srq_create(to_pd(pd, "ibv_create_srq"), init->srq_context, &init->attr, NULL, NULL);
}

struct ibv_srq *srq_create_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *init)
{
	enum ibv_srq_type type = init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? init->srq_type : IBV_SRQT_BASIC;
	const uint32_t xrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	const char *verb = "ibv_create_srq_ex";
	struct hca_pd *pd;

	to_context(context, verb);
	if ((type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC) ||
	    (type == IBV_SRQT_XRC && !context_of(context)->limits->xrc) ||
	    (init->comp_mask & ~(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | xrc))) {
		fprintf(stderr, "shadow-hca: %s: SRQ type %d is not supported by the software HCA\n", verb, type);
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!(init->comp_mask & IBV_SRQ_INIT_ATTR_PD) ||
	    (type == IBV_SRQT_XRC && (init->comp_mask & xrc) != xrc)) {
		errno = EINVAL;
		return NULL;
	}
	pd = to_pd(init->pd, verb);
	if (type == IBV_SRQT_BASIC)
		return srq_create(pd, init->srq_context, &init->attr, NULL, NULL);
	return srq_create(pd, init->srq_context, &init->attr, to_xrcd(init->xrcd, verb), to_cq(init->cq, verb));
}

int srq_get_num(struct ibv_srq *ibsrq, uint32_t *number)
{
	struct hca_srq *srq = to_srq(ibsrq, "ibv_get_srq_num");

	if (!srq->xrcd)
		return EOPNOTSUPP;
	*number = srq->shm->srq_num;
	return 0;
}

/* Both locks of the queue and ctx->lock held. */
static int srq_resize(struct hca_context *ctx, struct hca_srq *srq, uint32_t max_wr)
{
	struct seg_rq *rq = &srq->shm->rq, bigger = *rq;
	uint32_t i, max_sge = 0;

	/* mlx5's srq.c: "We don't support resizing SRQs yet". */
	if (!ctx->limits->srq_resize || max_wr < rq->prod - seg_load(&srq->released) || max_wr < srq->shm->limit ||
	    personality_srq(ctx, &max_wr, &max_sge))
		return EINVAL;
	if (srq_ring(ctx, &bigger, max_wr, rq->max_sge))
		return ENOMEM;
	for (i = rq->head; i != rq->prod; i++)
		memcpy(seg_recv_wqe(ctx->seg, &bigger, i), seg_recv_wqe(ctx->seg, rq, i), rq->stride);
	heap_free(ctx, rq->ring, (uint64_t)rq->stride * rq->slots);
	*rq = bigger;
	return 0;
}

int ibv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct hca_srq *srq = to_srq(ibsrq, "ibv_modify_srq");
	struct hca_context *ctx = context_of(ibsrq->context);
	int ret = 0;

	if (seg_load(&ctx->seg->fatal))
		return hca_errno(EIO);
	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return hca_errno(EINVAL);
	pthread_mutex_lock(&ctx->lock);
	pthread_mutex_lock(&srq->lock);
	srq_lock(ctx->seg, srq->shm);
	if ((mask & IBV_SRQ_LIMIT) &&
	    attr->srq_limit > (mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->shm->rq.max_wr))
		ret = EINVAL;
	if (!ret && (mask & IBV_SRQ_MAX_WR))
		ret = srq_resize(ctx, srq, attr->max_wr);
	if (!ret && (mask & IBV_SRQ_LIMIT))
		srq->shm->limit = attr->srq_limit;
	seg_unlock(&srq->shm->lock);
	pthread_mutex_unlock(&srq->lock);
	pthread_mutex_unlock(&ctx->lock);
	return ret ? hca_errno(ret) : 0;
}

int ibv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct hca_srq *srq = to_srq(ibsrq, "ibv_query_srq");
	struct hca_context *ctx = context_of(ibsrq->context);

	if (seg_load(&ctx->seg->fatal))
		return hca_errno(EIO);
	srq_lock(ctx->seg, srq->shm);
	attr->max_wr = srq->shm->rq.max_wr;
	attr->max_sge = srq->shm->rq.max_sge;
	attr->srq_limit = srq->shm->limit;
	seg_unlock(&srq->shm->lock);
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
	struct hca_srq *srq = to_srq(ibsrq, "ibv_destroy_srq");
	struct hca_context *ctx = context_of(ibsrq->context);
	struct seg_rq *rq = &srq->shm->rq;

	pthread_mutex_lock(&ctx->lock);
	if (srq->users) {
		pthread_mutex_unlock(&ctx->lock);
		return hca_errno(EBUSY);
	}
	if (context_is_lost(ctx)) {
		ctx->srq[srq->index] = NULL;
		srq_count_users(srq, -1);
		ctx->srqs--;
		pthread_mutex_unlock(&ctx->lock);
		object_free(srq, sizeof(*srq));
		return 0;
	}
	/* Out of reach of the peers first, then of the engine. */
	srq_lock(ctx->seg, srq->shm);
	seg_store(&srq->shm->in_use, 0);
	seg_unlock(&srq->shm->lock);
	if (srq->cq)
		cq_purge_srq(srq->cq, srq->index);
	pthread_mutex_lock(&ctx->engine_lock);
	__atomic_store_n(&ctx->srq[srq->index], NULL, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&ctx->engine_lock);
	heap_free(ctx, rq->ring, (uint64_t)rq->stride * rq->slots);
	srq_count_users(srq, -1);
	ctx->srqs--;
	pthread_mutex_unlock(&ctx->lock);

	event_forget_srq(srq);
	/* As for a CQ: the events that the application has got have to be acknowledged. */
	pthread_mutex_lock(&ibsrq->mutex);
	while (ibsrq->events_completed != srq->events_reported)
		pthread_cond_wait(&ibsrq->cond, &ibsrq->mutex);
	pthread_mutex_unlock(&ibsrq->mutex);
	object_free(srq, sizeof(*srq));
	return 0;
}

static void kick_waiters(struct hca_context *ctx, const struct hca_srq *srq)
{
	uint32_t i, max = seg_load(&ctx->seg->max_qp);

	for (i = 0; i < max; i++) {
		struct seg_qp *shm = &ctx->seg->qp[i];

		if (seg_load(&shm->in_use) &&
		    (shm->srq == srq->index + 1 || (shm->xrcd && shm->xrcd == srq->shm->xrcd)))
			recv_kick(ctx, shm);
	}
}

int srq_post(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct hca_srq *srq = to_srq(ibsrq, "ibv_post_srq_recv");
	struct hca_context *ctx = context_of(ibsrq->context);
	struct seg_rq *rq = &srq->shm->rq;
	int ret = 0;

	pthread_mutex_lock(&srq->lock);
	for (; wr; wr = wr->next) {
		if (seg_load(&ctx->seg->fatal))
			ret = EIO;
		else if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
			ret = EINVAL;
		else if (rq->prod - seg_load(&srq->released) >= rq->max_wr)
			ret = ENOMEM;
		if (ret)
			break;
		recv_capture(seg_recv_wqe(ctx->seg, rq, rq->prod), wr);
		seg_store_seq(&rq->prod, rq->prod + 1);
	}
	pthread_mutex_unlock(&srq->lock);
	if (seg_load(&ctx->seg->settings.rnr_kick))
		kick_waiters(ctx, srq);
	if (ret)
		*bad_wr = wr;
	return ret;
}
