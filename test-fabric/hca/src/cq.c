/* Completion queues: the ring that any process may add to, and the owner's poll. */
#include "hca.h"

/* A rest is much longer than these. */
#define POLLS_BEFORE_REST 1024

static void cqe_event(struct hca_context *ctx, struct seg *seg, uint32_t index, struct seg_cq *cq)
{
	cq->announced = cq->prod;
	__atomic_add_fetch(&cq->events, 1, __ATOMIC_SEQ_CST);
	if (seg == ctx->seg)
		event_completion(cq_at(ctx, index));
	else
		seg_mail(seg, MAIL_CQ_EVENT, index, cq->gen, 0);
}

static void cq_overrun(struct hca_context *ctx, struct seg *seg, uint32_t index, struct seg_cq *cq)
{
	if (cq->error)
		return;
	cq->error = 1;
	event_async_at(ctx, seg, IBV_EVENT_CQ_ERR, index, cq->gen);
}

int cq_push(struct hca_context *ctx, struct seg *seg, uint32_t index, const struct seg_cqe *cqe, bool solicited)
{
	struct seg_cq *cq = &seg->cq[index];
	uint32_t delay = seg_load(&seg->settings.completion_delay_us);
	struct seg_cqe *slot;
	uint32_t armed;

	seg_lock(&cq->lock, "a completion queue");
	if (cq->error || cq->prod - seg_load(&cq->cons) >= cq->cqe) {
		cq_overrun(ctx, seg, index, cq);
		seg_unlock(&cq->lock);
		return -1;
	}
	slot = seg_cqe(seg, cq, cq->prod);
	*slot = *cqe;
	slot->completed_ns = cq->timestamps ? hca_now_ns() : 0;
	slot->visible_ns = delay ? hca_now_ns() + delay * 1000ULL : 0;
	if (seg != ctx->seg)
		die_at(ctx, DIE_IN_CQ);
	seg_store_seq(&cq->prod, cq->prod + 1);

	armed = seg_load_seq(&cq->armed);
	if (armed == CQ_ARMED_NEXT ||
	    (armed == CQ_ARMED_SOLICITED && (solicited || cqe->status != IBV_WC_SUCCESS))) {
		/* With a delay the owner's engine reports it once poll would show it. */
		if (delay) {
			if (seg == ctx->seg)
				engine_delayed_cq(ctx, index);
			else
				seg_mail(seg, MAIL_CQ_EVENT, index, cq->gen, delay);
		} else {
			seg_store_seq(&cq->armed, CQ_NOT_ARMED);
			cqe_event(ctx, seg, index, cq);
		}
	}
	seg_unlock(&cq->lock);
	return 0;
}

bool cq_contains(struct seg *seg, uint32_t cq_index, uint32_t qp_index, uint32_t qp_gen, uint32_t wqe_index)
{
	struct seg_cq *cq = &seg->cq[cq_index];
	uint32_t i, n;

	for (i = cq->prod - 1, n = 0; n < cq->slots && n < seg_load(&cq->prod); n++, i--) {
		const struct seg_cqe *cqe = seg_cqe(seg, cq, i);

		if (!cqe->is_send && cqe->qp_index == qp_index && cqe->qp_gen == qp_gen &&
		    cqe->wqe_index == wqe_index)
			return true;
	}
	return false;
}

static void release_slots(struct hca_context *ctx, const struct seg_cqe *cqe)
{
	struct hca_qp *qp;

	/* Receives of an SRQ are polled in any order, so they are counted. */
	if (cqe->srq) {
		struct hca_srq *srq = srq_at(ctx, cqe->srq - 1);

		if (srq)
			__atomic_add_fetch(&srq->released, 1, __ATOMIC_RELEASE);
		return;
	}
	qp = qp_at(ctx, cqe->qp_index);
	if (!qp || qp->gen != cqe->qp_gen)
		return;
	if (cqe->is_send)
		seg_store(&qp->sq.released, cqe->wqe_index + 1);
	else
		seg_store(&qp->rq.released, cqe->wqe_index + 1);
}

struct purge {
	bool srq;		/* index is that of an SRQ */
	uint32_t index, gen;
};

static bool purge_matches(const struct purge *purge, const struct seg_cqe *cqe)
{
	if (purge->srq)
		return cqe->srq == purge->index + 1;
	return cqe->qp_index == purge->index && cqe->qp_gen == purge->gen;
}

static void purge_where(struct hca_cq *cq, const struct purge *purge)
{
	struct hca_context *ctx = context_of(cq->cq.context);
	struct seg_cq *shm = cq->shm;
	uint32_t from, to;

	pthread_mutex_lock(&cq->poll_lock);
	seg_lock(&shm->lock, "a completion queue");
	/* Survivors move towards the end of the ring, because producers count on prod staying where it is. */
	for (from = to = shm->prod; from != shm->cons; ) {
		const struct seg_cqe *cqe = seg_cqe(ctx->seg, shm, --from);

		if (purge_matches(purge, cqe)) {
			if (cqe->srq)
				release_slots(ctx, cqe);
			continue;
		}
		if (--to != from)
			*seg_cqe(ctx->seg, shm, to) = *cqe;
	}
	seg_store(&shm->cons, to);
	seg_unlock(&shm->lock);
	pthread_mutex_unlock(&cq->poll_lock);
}

void cq_purge(struct hca_cq *cq, uint32_t qp_index, uint32_t qp_gen)
{
	purge_where(cq, &(struct purge){ .index = qp_index, .gen = qp_gen });
}

void cq_purge_srq(struct hca_cq *cq, uint32_t srq_index)
{
	purge_where(cq, &(struct purge){ .srq = true, .index = srq_index });
}

/* Fields that mean nothing in a completion hold garbage, so that whoever reads them finds out. */
static void wc_fill(const struct seg_cqe *cqe, struct ibv_wc *wc)
{
	memset(wc, 0xa5, sizeof(*wc));
	wc->wr_id = cqe->wr_id;
	wc->status = cqe->status;
	wc->qp_num = cqe->qp_num;
	wc->vendor_err = cqe->vendor_err;
	if (cqe->status != IBV_WC_SUCCESS)
		return;
	wc->opcode = cqe->opcode;
	wc->wc_flags = cqe->wc_flags;
	if (cqe->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV))
		wc->imm_data = cqe->imm;
	if (!cqe->is_send) {
		wc->byte_len = cqe->byte_len;
		wc->src_qp = cqe->src_qp;
		wc->slid = cqe->slid;
		wc->sl = cqe->sl;
		wc->pkey_index = 0;
		wc->dlid_path_bits = 0;
	} else if (cqe->opcode == IBV_WC_RDMA_READ || cqe->opcode == IBV_WC_COMP_SWAP ||
		   cqe->opcode == IBV_WC_FETCH_ADD) {
		wc->byte_len = cqe->byte_len;
	}
}

/* A fault on request: brings a completion of another QP to the front, where no earlier one of that QP waits. */
static void reorder(struct hca_context *ctx, struct hca_cq *cq, uint32_t cons, uint32_t prod)
{
	struct seg_cq *shm = cq->shm;
	uint32_t window = prod - cons < 16 ? prod - cons : 16;
	uint32_t pick, i;
	struct seg_cqe chosen;

	if (window < 2)
		return;
	/* A linear congruential generator of the CQ's own: the poll lock is all that is held here. */
	cq->dice = cq->dice * 1664525u + 1013904223u;
	pick = (cq->dice >> 16) % window;
	chosen = *seg_cqe(ctx->seg, shm, cons + pick);
	for (i = 0; i < pick; i++) {
		const struct seg_cqe *cqe = seg_cqe(ctx->seg, shm, cons + i);

		if (cqe->qp_index == chosen.qp_index && cqe->qp_gen == chosen.qp_gen)
			return;
	}
	for (i = pick; i > 0; i--)
		*seg_cqe(ctx->seg, shm, cons + i) = *seg_cqe(ctx->seg, shm, cons + i - 1);
	*seg_cqe(ctx->seg, shm, cons) = chosen;
}

bool cq_withheld(struct hca_cq *cq)
{
	uint32_t polls = seg_load(&context_of(cq->cq.context)->seg->settings.withhold_polls);

	/* With a channel the program polls once for each event and would sleep on what is withheld. */
	if (!polls || cq->cq.channel || seg_load_seq(&cq->shm->prod) == cq->shm->cons)
		return false;
	if (cq->withheld++ < polls)
		return true;
	cq->withheld = 0;
	return false;
}

/* A setting: a poll takes its time before it looks. */
void cq_delay(struct hca_cq *cq)
{
	uint32_t us = seg_load(&context_of(cq->cq.context)->seg->settings.poll_delay_us);
	struct timespec delay = { us / 1000000, us % 1000000 * 1000l };

	if (us)
		nanosleep(&delay, NULL);
}

/*
 * A setting: who polls in a loop leaves the processor to others from time to time. Two threads that poll at once may miscount,
 * and rest a little earlier or later.
 */
void cq_rest(struct hca_cq *cq)
{
	uint32_t us = seg_load(&context_of(cq->cq.context)->seg->settings.rest_us);
	struct timespec rest = { us / 1000000, us % 1000000 * 1000l };
	uint32_t polls;

	if (!us)
		return;
	polls = seg_load(&cq->empty_polls) + 1;
	seg_store(&cq->empty_polls, polls < POLLS_BEFORE_REST ? polls : 0);
	if (polls == POLLS_BEFORE_REST)
		nanosleep(&rest, NULL);
}

/* What comes next may not have arrived yet; with a channel, its event would have to be still to come. */
bool cq_stops_short(struct hca_cq *cq)
{
	return !cq->cq.channel && personality_whim(context_of(cq->cq.context), &cq->dice, 4);
}

bool cq_take(struct hca_cq *cq, struct ibv_wc *wc, uint64_t *completed_ns)
{
	struct hca_context *ctx = context_of(cq->cq.context);
	struct seg_cq *shm = cq->shm;
	uint32_t cons = shm->cons, prod = seg_load_seq(&shm->prod);
	const struct seg_cqe *cqe = seg_cqe(ctx->seg, shm, cons);

	if (prod == cons || (cqe->visible_ns && cqe->visible_ns > hca_now_ns()))
		return false;
	if (seg_load(&ctx->seg->settings.reorder))
		reorder(ctx, cq, cons, prod);
	seg_store(&cq->empty_polls, 0);
	wc_fill(cqe, wc);
	*completed_ns = cqe->completed_ns;
	release_slots(ctx, cqe);
	seg_store(&shm->cons, cons + 1);
	return true;
}

int cq_poll(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc)
{
	struct hca_cq *cq = to_cq(ibcq, "ibv_poll_cq");
	uint64_t completed_ns;
	int n = 0;

	cq_delay(cq);
	if (seg_load_seq(&cq->shm->prod) == seg_load(&cq->shm->cons)) {
		cq_rest(cq);
		return 0;
	}
	pthread_mutex_lock(&cq->poll_lock);
	if (!cq_withheld(cq))
		while (n < num_entries && !(n && cq_stops_short(cq)) && cq_take(cq, &wc[n], &completed_ns))
			n++;
	pthread_mutex_unlock(&cq->poll_lock);
	return n;
}

/*
 * An event of which the CQ has nothing to show, as when a completion came between the last poll and this arming, and is polled
 * already when the event is taken (ibv_get_cq_event(3): "poll all of the completions from the CQ (if any exist)").
 */
static bool spurious_event(struct hca_context *ctx, struct hca_cq *cq)
{
	bool fires;

	pthread_mutex_lock(&cq->poll_lock);
	fires = personality_whim(ctx, &cq->dice, 8);
	pthread_mutex_unlock(&cq->poll_lock);
	if (!fires)
		return false;
	seg_lock(&cq->shm->lock, "an own completion queue");
	seg_store_seq(&cq->shm->armed, CQ_NOT_ARMED);
	cqe_event(ctx, ctx->seg, cq->index, cq->shm);
	seg_unlock(&cq->shm->lock);
	return true;
}

/* As mlx5 does, an event for what is unread and has come since the last event. Which was solicited is not kept. */
static void missed_event(struct hca_context *ctx, struct hca_cq *cq)
{
	struct seg_cq *shm = cq->shm;

	seg_lock(&shm->lock, "an own completion queue");
	if (shm->prod != seg_load(&shm->cons) && shm->prod != shm->announced) {
		seg_store_seq(&shm->armed, CQ_NOT_ARMED);
		cqe_event(ctx, ctx->seg, cq->index, shm);
	}
	seg_unlock(&shm->lock);
}

int cq_req_notify(struct ibv_cq *ibcq, int solicited_only)
{
	struct hca_cq *cq = to_cq(ibcq, "ibv_req_notify_cq");
	struct hca_context *ctx = context_of(ibcq->context);
	uint32_t want = solicited_only ? CQ_ARMED_SOLICITED : CQ_ARMED_NEXT;

	if (seg_load(&ctx->seg->fatal))
		return EIO;
	if (ctx->personality == PERSONALITY_HOSTILE && ibcq->channel && spurious_event(ctx, cq))
		return 0;
	/* Arming for the next completion is not weakened by a later call for solicited ones only. */
	if (seg_load(&cq->shm->armed) < want)
		seg_store_seq(&cq->shm->armed, want);
	/* Afterwards: what comes in between has made an event of its own. */
	if (ctx->personality == PERSONALITY_MLX5 && ibcq->channel)
		missed_event(ctx, cq);
	return 0;
}

/* ctx->lock held */
static int cq_place(struct hca_context *ctx, struct hca_cq *cq, int cqe)
{
	struct seg_cq *shm;
	uint32_t index, gen;

	for (index = 0; index < SEG_MAX_CQ; index++)
		if (!ctx->cq[index])
			break;
	if (index == SEG_MAX_CQ)
		return ENOMEM;
	shm = &ctx->seg->cq[index];
	gen = shm->gen + 1;
	memset(shm, 0, sizeof(*shm));
	shm->gen = gen;
	shm->cqe = cqe;
	shm->slots = ring_slots(cqe);
	shm->ring = heap_alloc(ctx, shm->slots * sizeof(struct seg_cqe));
	if (!shm->ring)
		return ENOMEM;
	seg_lock_init(&shm->lock);
	seg_store(&shm->in_use, 1);
	cq->shm = shm;
	cq->index = index;
	__atomic_store_n(&ctx->cq[index], cq, __ATOMIC_RELEASE);
	return 0;
}

struct ibv_cq *cq_create(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
			 int comp_vector, const char *verb)
{
	struct hca_context *ctx = to_context(context, verb);
	uint32_t size = cqe;
	struct hca_cq *cq;
	int ret;

	if (channel)
		to_channel(channel, verb);
	if (cqe < 1 || comp_vector < 0 || comp_vector >= context->num_comp_vectors ||
	    (channel && channel->context != context)) {
		errno = EINVAL;
		return NULL;
	}
	if (seg_load(&ctx->seg->fatal)) {
		errno = EIO;
		return NULL;
	}
	cq = object_alloc(sizeof(*cq));
	if (!cq)
		return NULL;
	cq->cq.context = context;
	cq->cq.channel = channel;
	cq->cq.cq_context = cq_context;
	pthread_mutex_init(&cq->cq.mutex, NULL);
	pthread_cond_init(&cq->cq.cond, NULL);
	pthread_mutex_init(&cq->poll_lock, NULL);

	pthread_mutex_lock(&ctx->lock);
	ret = personality_cq(ctx, &size);
	if (!ret)
		ret = cq_place(ctx, cq, size);
	if (!ret && ctx->null_mode)
		ret = null_create_cq(cq, size);
	if (!ret) {
		cq->cq.cqe = size;
		cq->dice = personality_dice(ctx);
		cq->cq.handle = ctx->handles++;
		ctx->cqs++;
	}
	pthread_mutex_unlock(&ctx->lock);
	if (ret) {
		free(cq);
		errno = ret;
		return NULL;
	}
	if (channel) {
		pthread_mutex_lock(&context->mutex);
		channel->refcnt++;
		pthread_mutex_unlock(&context->mutex);
	}
	cq->magic = OBJECT_MAGIC(MAGIC_CQ, cq);
	return (struct ibv_cq *)&cq->cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	return cq_create(context, cqe, cq_context, channel, comp_vector, "ibv_create_cq");
}

/* Moderation delays events on a busy CQ; it is allowed to delay none. */
int cq_modify(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr)
{
	to_cq(ibcq, "ibv_modify_cq");
	if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return EOPNOTSUPP;
	return 0;
}

int ibv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct hca_cq *cq = to_cq(ibcq, "ibv_resize_cq");
	struct hca_context *ctx = context_of(ibcq->context);
	struct seg_cq *shm = cq->shm;
	uint32_t slots, old_slots, i, size = cqe;
	uint64_t ring, old_ring;
	int ret;

	if (cqe < 1)
		return hca_errno(EINVAL);
	if (ctx->null_mode)
		return hca_errno(EOPNOTSUPP);
	pthread_mutex_lock(&ctx->lock);
	pthread_mutex_lock(&cq->poll_lock);
	seg_lock(&shm->lock, "a completion queue");
	/* What was asked for has to be enough for what has not been polled, whatever it is rounded to. */
	ret = shm->prod - shm->cons > size ? EINVAL : personality_cq(ctx, &size);
	if (ret)
		goto out;
	slots = ring_slots(size);
	ring = heap_alloc(ctx, slots * sizeof(struct seg_cqe));
	if (!ring) {
		ret = ENOMEM;
		goto out;
	}
	old_ring = shm->ring;
	old_slots = shm->slots;
	for (i = shm->cons; i != shm->prod; i++)
		((struct seg_cqe *)seg_at(ctx->seg, ring))[i & (slots - 1)] = *seg_cqe(ctx->seg, shm, i);
	shm->ring = ring;
	shm->slots = slots;
	shm->cqe = size;
	cq->cq.cqe = size;
	heap_free(ctx, old_ring, old_slots * sizeof(struct seg_cqe));
out:
	seg_unlock(&shm->lock);
	pthread_mutex_unlock(&cq->poll_lock);
	pthread_mutex_unlock(&ctx->lock);
	return ret ? hca_errno(ret) : 0;
}

int ibv_destroy_cq(struct ibv_cq *ibcq)
{
	struct hca_cq *cq = to_cq(ibcq, "ibv_destroy_cq");
	struct hca_context *ctx = context_of(ibcq->context);
	struct ibv_comp_channel *channel = ibcq->channel;
	bool lost = context_is_lost(ctx);

	pthread_mutex_lock(&ctx->lock);
	if (cq->users) {
		pthread_mutex_unlock(&ctx->lock);
		return hca_errno(EBUSY);
	}
	pthread_mutex_lock(&ctx->engine_lock);
	seg_store(&cq->shm->in_use, 0);
	__atomic_store_n(&ctx->cq[cq->index], NULL, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&ctx->engine_lock);
	if (!lost)
		heap_free(ctx, cq->shm->ring, cq->shm->slots * sizeof(struct seg_cqe));
	ctx->cqs--;
	pthread_mutex_unlock(&ctx->lock);

	event_forget_cq(cq);
	/* The application has to acknowledge every event that it has got; that may take as long as it likes. */
	pthread_mutex_lock(&cq->cq.mutex);
	while (cq->cq.comp_events_completed != cq->comp_events_reported ||
	       cq->cq.async_events_completed != cq->async_events_reported)
		pthread_cond_wait(&cq->cq.cond, &cq->cq.mutex);
	pthread_mutex_unlock(&cq->cq.mutex);

	if (channel) {
		pthread_mutex_lock(&channel->context->mutex);
		channel->refcnt--;
		pthread_mutex_unlock(&channel->context->mutex);
	}
	free(cq->null_ring);
	object_free(cq, sizeof(*cq));
	return 0;
}
