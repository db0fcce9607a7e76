/* Queue pairs: creation, destruction, query, and what happens when one goes to the error state. */
#include "hca.h"

/*
 * A requester that dies between the moment a receive completion is published and the one where the receive queue
 * moves on leaves shm->delivering set. Whether the completion got out is written in the ring itself.
 */
void qp_lock_responder(struct seg *seg, struct seg_qp *shm, uint32_t index)
{
	if (!seg_lock(&shm->lock, "the responder of a queue pair") || !shm->delivering)
		return;
	if (cq_contains(seg, shm->recv_cq, index, shm->gen, shm->rq.head))
		seg_store(&shm->rq.head, shm->rq.head + 1);
	shm->delivering = 0;
}

void qp_flush_recv_locked(struct hca_context *ctx, struct hca_qp *qp)
{
	struct seg_qp *shm = qp->shm;
	struct seg_rq *rq = &shm->rq;

	/* What it has taken from its SRQ is completed already. */
	if (shm->srq && !shm->last_wqe) {
		shm->last_wqe = 1;
		event_async(ctx, IBV_EVENT_QP_LAST_WQE_REACHED, qp->index, qp->gen);
	}
	while (rq->slots && rq->head != seg_load_seq(&rq->prod)) {
		struct seg_recv_wqe *wqe = seg_recv_wqe(ctx->seg, rq, rq->head);
		struct seg_cqe cqe = {
			.wr_id = wqe->wr_id,
			.status = IBV_WC_WR_FLUSH_ERR,
			.vendor_err = 0xf5,
			.qp_num = shm->qp_num,
			.qp_index = qp->index,
			.qp_gen = qp->gen,
			.wqe_index = rq->head,
		};

		cq_push(ctx, ctx->seg, shm->recv_cq, &cqe, false);
		seg_store(&rq->head, rq->head + 1);
	}
}

void qp_error_locked(struct hca_qp *qp)
{
	struct hca_context *ctx = context_of(qp->qp.context);
	struct seg_qp *shm = qp->shm;

	qp_lock_responder(ctx->seg, shm, qp->index);
	seg_store_seq(&shm->state, IBV_QPS_ERR);
	qp_flush_recv_locked(ctx, qp);
	seg_unlock(&shm->lock);
}

void qp_send_error_locked(struct hca_qp *qp)
{
	struct seg_qp *shm = qp->shm;

	if (qp_is_reliable(qp)) {
		qp_error_locked(qp);
		return;
	}
	qp_lock_responder(context_of(qp->qp.context)->seg, shm, qp->index);
	if (shm->state != IBV_QPS_ERR)
		seg_store_seq(&shm->state, IBV_QPS_SQE);
	seg_unlock(&shm->lock);
}

/* Rings of the QP: the send queue in private memory, the receive queue where peers read it. ctx->lock held. */
static int qp_rings(struct hca_context *ctx, struct hca_qp *qp, const struct ibv_qp_cap *cap)
{
	struct hca_sq *sq = &qp->sq;
	struct seg_rq *rq = &qp->shm->rq;
	uint32_t payload = cap->max_send_sge * sizeof(struct ibv_sge);

	if (payload < cap->max_inline_data)
		payload = cap->max_inline_data;
	sq->max_wr = cap->max_send_wr;
	sq->max_sge = cap->max_send_sge;
	sq->max_inline = cap->max_inline_data;
	sq->slots = ring_slots(cap->max_send_wr);
	sq->stride = (sizeof(struct hca_send_wqe) + payload + 63) & ~63u;
	sq->ring = object_alloc((size_t)sq->stride * sq->slots);
	if (!sq->ring)
		return ENOMEM;

	if (!cap->max_recv_wr || qp->qp.srq)
		return 0;
	rq->max_wr = cap->max_recv_wr;
	rq->max_sge = cap->max_recv_sge;
	rq->slots = ring_slots(cap->max_recv_wr);
	rq->stride = sizeof(struct seg_recv_wqe) + cap->max_recv_sge * sizeof(struct ibv_sge);
	rq->ring = heap_alloc(ctx, (uint64_t)rq->stride * rq->slots);
	if (!rq->ring) {
		free(sq->ring);
		return ENOMEM;
	}
	return 0;
}

/* A number that no QP of the device has; 0 and 1 belong to management. ctx->lock held, and the numbers. */
static uint32_t qp_number(struct hca_context *ctx)
{
	uint32_t attempt;

	for (attempt = 0; attempt < 1000000; attempt++) {
		uint32_t qpn = ids_draw(ctx, ID_QP, 0x11, 0xfffffe, attempt);

		if (!fabric_number_is_taken(ctx, qpn))
			return qpn;
	}
	return 0;
}

/* ctx->lock held, and the numbers */
static int qp_place_numbered(struct hca_context *ctx, struct hca_qp *qp, const struct ibv_qp_cap *cap)
{
	struct seg_qp *shm;
	uint32_t index, gen, qpn;

	for (index = 0; index < SEG_MAX_QP; index++)
		if (!ctx->qp[index])
			break;
	if (index == SEG_MAX_QP)
		return ENOMEM;
	qpn = qp_number(ctx);
	if (!qpn)
		return ENOMEM;
	shm = &ctx->seg->qp[index];
	gen = shm->gen + 1;
	if (index >= ctx->seg->max_qp)
		seg_lock_init(&shm->lock);
	/* A peer that remembers the last user of this place may hold the lock for a moment, to find that it is gone. */
	seg_lock(&shm->lock, "a queue pair");
	memset((char *)shm + sizeof(shm->lock), 0, sizeof(*shm) - sizeof(shm->lock));
	shm->gen = gen;
	shm->attr = qp->attr;
	shm->qp_num = qpn;
	shm->qp_type = qp->qp.qp_type;
	shm->state = IBV_QPS_RESET;
	shm->port = 1;
	shm->pd = qp->qp.pd ? ((struct hca_pd *)qp->qp.pd)->number : 0;
	shm->xrcd = qp->xrcd ? qp->xrcd->number : 0;
	shm->recv_cq = qp->qp.recv_cq ? ((struct hca_cq *)qp->qp.recv_cq)->index : 0;
	shm->srq = qp->qp.srq ? ((struct hca_srq *)qp->qp.srq)->index + 1 : 0;
	qp->shm = shm;
	qp->index = index;
	qp->gen = gen;
	if (qp_rings(ctx, qp, cap)) {
		seg_unlock(&shm->lock);
		return ENOMEM;
	}
	seg_store(&shm->in_use, 1);
	seg_unlock(&shm->lock);
	if (index >= ctx->seg->max_qp)
		seg_store(&ctx->seg->max_qp, index + 1);
	__atomic_store_n(&ctx->qp[index], qp, __ATOMIC_RELEASE);
	qp->qp.qp_num = qpn;
	return 0;
}

/* ctx->lock held */
static int qp_place(struct hca_context *ctx, struct hca_qp *qp, const struct ibv_qp_cap *cap)
{
	int lock = fabric_numbers_lock(ctx), ret;

	if (lock < 0)
		return errno;
	ret = qp_place_numbered(ctx, qp, cap);
	fabric_numbers_unlock(lock);
	return ret;
}

/* What the QP keeps from being destroyed; ctx->lock held. */
static void qp_count_users(struct hca_qp *qp, int n)
{
	if (qp->qp.pd)
		((struct hca_pd *)qp->qp.pd)->users += n;
	if (qp->xrcd)
		qp->xrcd->users += n;
	if (qp->qp.send_cq)
		((struct hca_cq *)qp->qp.send_cq)->users += n;
	if (qp->qp.recv_cq)
		((struct hca_cq *)qp->qp.recv_cq)->users += n;
	if (qp->qp.srq)
		((struct hca_srq *)qp->qp.srq)->users += n;
}

static bool type_is_known(const struct limits *limits, enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD ||
	       (limits->xrc && (type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV));
}

/* What a type does not have is left out, as the kernel's verbs core does it. */
static void init_trim(struct ibv_qp_init_attr *init)
{
	bool xrc = init->qp_type == IBV_QPT_XRC_SEND || init->qp_type == IBV_QPT_XRC_RECV;

	if (xrc) {
		init->recv_cq = NULL;
		init->srq = NULL;
	}
	if (init->qp_type == IBV_QPT_XRC_RECV) {
		init->send_cq = NULL;
		memset(&init->cap, 0, sizeof(init->cap));
	}
	if (xrc || init->srq) {
		init->cap.max_recv_wr = 0;
		init->cap.max_recv_sge = 0;
	}
}

/* 0 when all that the type needs is there and belongs to the context. */
static int init_check(struct ibv_context *context, const struct hca_pd *pd, const struct hca_xrcd *xrcd,
		      const struct ibv_qp_init_attr *init)
{
	enum ibv_qp_type type = init->qp_type;

	if (type == IBV_QPT_XRC_RECV)
		return xrcd && !pd && xrcd->xrcd.context == context ? 0 : EINVAL;
	if (xrcd || !pd || pd->pd.context != context || !init->send_cq || init->send_cq->context != context)
		return EINVAL;
	if (type != IBV_QPT_XRC_SEND && (!init->recv_cq || init->recv_cq->context != context))
		return EINVAL;
	return init->srq && init->srq->context != context ? EINVAL : 0;
}

struct ibv_qp *qp_create(struct ibv_context *context, struct hca_pd *pd, struct hca_xrcd *xrcd,
			 struct ibv_qp_init_attr *init, const char *verb)
{
	struct hca_context *ctx = context_of(context);
	struct hca_cq *send_cq = NULL, *recv_cq = NULL;
	struct hca_srq *srq = NULL;
	struct ibv_qp_cap cap;
	struct hca_qp *qp;
	int ret;

	if (!type_is_known(ctx->limits, init->qp_type)) {
		fprintf(stderr, "shadow-hca: %s: QP type %d is not supported by the software HCA\n", verb,
			init->qp_type);
		errno = EOPNOTSUPP;
		return NULL;
	}
	init_trim(init);
	cap = init->cap;
	if (init->send_cq)
		send_cq = to_cq(init->send_cq, verb);
	if (init->recv_cq)
		recv_cq = to_cq(init->recv_cq, verb);
	if (init->srq)
		srq = to_srq(init->srq, verb);
	if (init_check(context, pd, xrcd, init) || (srq && srq->xrcd)) {
		errno = EINVAL;
		return NULL;
	}
	if (seg_load(&ctx->seg->fatal)) {
		errno = EIO;
		return NULL;
	}
	qp = object_alloc(sizeof(*qp));
	if (!qp)
		return NULL;
	qp->qp.context = context;
	qp->qp.qp_context = init->qp_context;
	qp->qp.pd = pd ? &pd->pd : NULL;
	qp->xrcd = xrcd;
	qp->qp.send_cq = init->send_cq;
	qp->qp.recv_cq = init->recv_cq;
	qp->qp.srq = init->srq;
	qp->qp.state = IBV_QPS_RESET;
	qp->qp.qp_type = init->qp_type;
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	pthread_mutex_init(&qp->sq.lock, NULL);
	pthread_mutex_init(&qp->rq.lock, NULL);
	qp->sq_sig_all = init->sq_sig_all;
	qp->null_send_cq = send_cq;
	qp->null_recv_cq = recv_cq;
	qp->attr.port_num = 1;
	qp->attr.path_mig_state = IBV_MIG_MIGRATED;

	pthread_mutex_lock(&ctx->lock);
	ret = personality_qp(ctx, init->qp_type, !srq && recv_cq, &cap);
	if (!ret) {
		init->cap = cap;
		qp->init_attr = *init;
		qp->attr.cap = cap;
		qp->sq.dice = personality_dice(ctx);
		ret = qp_place(ctx, qp, &cap);
	}
	if (!ret) {
		qp->qp.handle = ctx->handles++;
		qp_count_users(qp, 1);
		if (srq && !srq->null_qp)
			srq->null_qp = qp;
		ctx->qps++;
		qp->magic = OBJECT_MAGIC(MAGIC_QP, qp);
	}
	pthread_mutex_unlock(&ctx->lock);
	if (ret) {
		free(qp);
		errno = ret;
		return NULL;
	}
	return &qp->qp;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct hca_pd *own = to_pd(pd, "ibv_create_qp");

	return qp_create(pd->context, own, NULL, init, "ibv_create_qp");
}

/* As for a CQ: the events that the application has got have to be acknowledged. */
static void await_acknowledgements(struct hca_qp *qp)
{
	event_forget_qp(qp);
	pthread_mutex_lock(&qp->qp.mutex);
	while (qp->qp.events_completed != qp->events_reported)
		pthread_cond_wait(&qp->qp.cond, &qp->qp.mutex);
	pthread_mutex_unlock(&qp->qp.mutex);
}

/* The QP itself, once its last handle is gone. */
static void qp_tear_down(struct hca_qp *qp)
{
	struct ibv_qp *ibqp = &qp->qp;
	struct hca_context *ctx = context_of(ibqp->context);
	struct hca_cq *send_cq = (struct hca_cq *)ibqp->send_cq, *recv_cq = (struct hca_cq *)ibqp->recv_cq;
	struct hca_srq *srq = (struct hca_srq *)ibqp->srq;
	struct seg_qp *shm = qp->shm;

	/* Out of reach of the peers first, then of the engine. */
	qp_lock_responder(ctx->seg, shm, qp->index);
	seg_store(&shm->in_use, 0);
	seg_store(&shm->gen, shm->gen + 1);
	seg_unlock(&shm->lock);

	pthread_mutex_lock(&ctx->lock);
	pthread_mutex_lock(&ctx->engine_lock);
	engine_forget(qp);
	__atomic_store_n(&ctx->qp[qp->index], NULL, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&ctx->engine_lock);
	mw_forget_qp(ctx, qp);
	heap_free(ctx, shm->rq.ring, (uint64_t)shm->rq.stride * shm->rq.slots);
	qp_count_users(qp, -1);
	if (srq && srq->null_qp == qp)
		srq->null_qp = NULL;
	ctx->qps--;
	pthread_mutex_unlock(&ctx->lock);

	if (send_cq)
		cq_purge(send_cq, qp->index, qp->gen);
	if (recv_cq && recv_cq != send_cq)
		cq_purge(recv_cq, qp->index, qp->gen);
	if (ctx->null_mode && send_cq)
		null_purge(send_cq, qp);
	if (ctx->null_mode && recv_cq)
		null_purge(recv_cq, qp);
	await_acknowledgements(qp);
	qp_free(qp);
}

void qp_free(struct hca_qp *qp)
{
	free(qp->sq.ring);
	free(qp->sq.held);
	object_free(qp, sizeof(*qp));
}

/* Takes a handle from its QP, which gets no event by it any more; true for the last one here. ctx->lock held. */
static bool handle_close(struct hca_context *ctx, struct hca_qp *qp)
{
	struct hca_qp *real = qp_real(qp), **link;
	bool last;

	pthread_mutex_lock(&ctx->handle_lock);
	if (qp->real) {
		for (link = &real->handles; *link != qp; link = &(*link)->next_handle)
			;
		*link = qp->next_handle;
	} else {
		qp->closed = true;
	}
	last = real->closed && !real->handles;
	pthread_mutex_unlock(&ctx->handle_lock);
	if (qp->real)
		ctx->qps--;
	if (last && xrc_is_open_elsewhere(ctx, real)) {
		ctx->orphans++;
		ctx->qps--;
		last = false;
	}
	if (qp->xrcd && (qp->real || !last)) {
		qp->xrcd->users--;
		qp->xrcd = NULL;
	}
	return last;
}

/* An orphan whose last opener has let go of it, or NULL. ctx->lock held. */
static struct hca_qp *ended_orphan(struct hca_context *ctx)
{
	uint32_t i;

	for (i = 0; ctx->orphans && i < ctx->seg->max_qp; i++) {
		struct hca_qp *qp = ctx->qp[i];

		if (qp && qp->closed && !qp->handles && !xrc_is_open_elsewhere(ctx, qp)) {
			ctx->orphans--;
			ctx->qps++;
			return qp;
		}
	}
	return NULL;
}

static void give_back_orphans(struct hca_context *ctx)
{
	struct hca_qp *orphan;

	do {
		pthread_mutex_lock(&ctx->lock);
		orphan = ended_orphan(ctx);
		pthread_mutex_unlock(&ctx->lock);
		if (orphan)
			qp_tear_down(orphan);
	} while (orphan);
}

/* Without its device: nobody else has the QP open any more. */
static void destroy_lost(struct hca_context *ctx, struct hca_qp *qp)
{
	struct hca_qp *real = qp_real(qp);
	bool last = false;

	pthread_mutex_lock(&ctx->lock);
	if (qp->home)
		qp->xrcd->users--;
	else
		last = handle_close(ctx, qp);
	if (last) {
		ctx->qp[real->index] = NULL;
		qp_count_users(real, -1);
		ctx->qps--;
	}
	pthread_mutex_unlock(&ctx->lock);
	if (qp->home || qp->real)
		object_free(qp, sizeof(*qp));
	else if (!last)
		qp->magic = 0;
	if (last)
		qp_free(real);
}

int ibv_destroy_qp(struct ibv_qp *ibqp)
{
	struct hca_qp *qp = to_qp(ibqp, "ibv_destroy_qp");
	struct hca_context *ctx = context_of(ibqp->context);
	struct hca_qp *real = qp_real(qp);
	bool last;

	if (context_is_lost(ctx)) {
		destroy_lost(ctx, qp);
		return 0;
	}
	if (qp->home) {
		xrc_close_foreign(ctx, qp);
		await_acknowledgements(qp);
		object_free(qp, sizeof(*qp));
		return 0;
	}
	give_back_orphans(ctx);

	pthread_mutex_lock(&ctx->lock);
	if (qp->groups) {
		pthread_mutex_unlock(&ctx->lock);
		return hca_errno(EBUSY);
	}
	last = handle_close(ctx, qp);
	pthread_mutex_unlock(&ctx->lock);

	if (qp->real) {
		await_acknowledgements(qp);
		object_free(qp, sizeof(*qp));
	} else if (!last) {
		/* The QP lives on behind its other handles, this one is not valid any more. */
		await_acknowledgements(qp);
		qp->magic = 0;
	}
	if (last)
		qp_tear_down(real);
	return 0;
}

int ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init)
{
	struct hca_qp *qp = qp_real(to_qp(ibqp, "ibv_query_qp"));
	struct hca_context *ctx = context_of(ibqp->context);

	if (seg_load(&ctx->seg->fatal))
		return hca_errno(EIO);
	pthread_mutex_lock(&qp->sq.lock);
	qp_lock_responder(ctx->seg, qp->shm, qp->index);
	if (ibqp->qp_type == IBV_QPT_XRC_RECV)
		qp->attr = qp->shm->attr;
	*attr = qp->attr;
	attr->qp_state = qp->shm->state;
	attr->cur_qp_state = qp->shm->state;
	attr->qp_access_flags = qp->shm->access;
	attr->rq_psn = qp->shm->rq_psn;
	attr->sq_psn = qp->sq.psn;
	attr->sq_draining = qp->sq.draining;
	seg_unlock(&qp->shm->lock);
	pthread_mutex_unlock(&qp->sq.lock);
	*init = qp->init_attr;
	init->qp_context = ibqp->qp_context;
	init->cap = qp->attr.cap;
	if (attr_mask & IBV_QP_STATE)
		ibqp->state = attr->qp_state;
	return 0;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibqp)
{
	struct hca_qp *qp = to_qp(ibqp, "ibv_qp_to_qp_ex");

	return qp->extended ? &qp->qpx : NULL;
}

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	to_qp(qp, "ibv_query_qp_data_in_order");
	(void)op;
	(void)flags;
	return 0;
}
