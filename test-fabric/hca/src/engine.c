/*
 * The engine thread of a context: timers of stalled send queues, completions and events that other processes left
 * for us, delays. It sleeps on the doorbell when there is nothing to do.
 */
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hca.h"

#define ENGINE_STACK (256 * 1024)

void engine_stall(struct hca_qp *qp)
{
	struct hca_context *ctx = context_of(qp->qp.context);
	bool ring = false;

	pthread_mutex_lock(&ctx->stall_lock);
	if (!qp->sq.stall_listed) {
		qp->sq.stall_listed = true;
		qp->sq.stall_next = ctx->stalled;
		ctx->stalled = qp;
	}
	qp->sq.stall_due = qp->sq.stall_until;
	if (qp->sq.stall_until < ctx->engine_wakes_ns) {
		ctx->engine_wakes_ns = qp->sq.stall_until;
		ring = true;
	}
	pthread_mutex_unlock(&ctx->stall_lock);
	if (ring && !pthread_equal(pthread_self(), ctx->engine))
		seg_ring_doorbell(ctx->seg);
}

/* engine_lock held, so that the engine is not looking at the QP. */
void engine_forget(struct hca_qp *qp)
{
	struct hca_context *ctx = context_of(qp->qp.context);
	struct hca_qp **link;

	pthread_mutex_lock(&ctx->stall_lock);
	for (link = &ctx->stalled; *link; link = &(*link)->sq.stall_next) {
		if (*link == qp) {
			*link = qp->sq.stall_next;
			qp->sq.stall_listed = false;
			break;
		}
	}
	pthread_mutex_unlock(&ctx->stall_lock);
}

void engine_delayed_cq(struct hca_context *ctx, uint32_t index)
{
	seg_mail(ctx->seg, MAIL_CQ_EVENT, index, ctx->seg->cq[index].gen, 1);
}

static void run_qp(struct hca_context *ctx, uint32_t index, uint32_t gen, bool kick)
{
	struct hca_qp *qp = qp_at(ctx, index);

	if (!qp || qp->gen != gen)
		return;
	pthread_mutex_lock(&qp->sq.lock);
	if (seg_load_seq(&qp->shm->state) == IBV_QPS_ERR)
		qp_error_locked(qp);
	if (kick && qp->sq.stall == STALL_RNR)
		qp->sq.stall_until = 0;
	requester_run(qp);
	pthread_mutex_unlock(&qp->sq.lock);
}

/*
 * The event of a CQ whose completions are delayed: reported when poll would show the completion that caused it, which
 * is the last one at the first call. engine_lock held.
 */
static void delayed_event(struct hca_cq *cq)
{
	struct hca_context *ctx = context_of(cq->cq.context);
	struct seg_cq *shm = cq->shm;

	pthread_mutex_lock(&cq->poll_lock);
	seg_lock(&shm->lock, "an own completion queue");
	if (!cq->delayed_until && shm->prod != shm->cons)
		cq->delayed_until = seg_cqe(ctx->seg, shm, shm->prod - 1)->visible_ns;
	if (cq->delayed_until <= hca_now_ns()) {
		cq->delayed_until = 0;
		if (__atomic_exchange_n(&shm->armed, CQ_NOT_ARMED, __ATOMIC_SEQ_CST) != CQ_NOT_ARMED) {
			shm->announced = shm->prod;
			__atomic_add_fetch(&shm->events, 1, __ATOMIC_SEQ_CST);
			event_completion(cq);
		}
	}
	seg_unlock(&shm->lock);
	pthread_mutex_unlock(&cq->poll_lock);
	if (!cq->delayed_until)
		return;
	pthread_mutex_lock(&ctx->stall_lock);
	if (cq->delayed_until < ctx->engine_wakes_ns)
		ctx->engine_wakes_ns = cq->delayed_until;
	pthread_mutex_unlock(&ctx->stall_lock);
}

static void cq_event(struct hca_context *ctx, uint32_t index, uint32_t gen, bool delayed)
{
	struct hca_cq *cq = cq_at(ctx, index);

	if (!cq || cq->shm->gen != gen)
		return;
	if (delayed)
		delayed_event(cq);
	else
		event_completion(cq);
}

/* Mail was lost: whatever it may have said is done. */
static void look_at_everything(struct hca_context *ctx)
{
	uint32_t i;

	for (i = 0; i < SEG_MAX_CQ; i++) {
		struct hca_cq *cq = cq_at(ctx, i);

		if (cq)
			event_completion(cq);
		if (cq && seg_load(&ctx->seg->settings.completion_delay_us))
			delayed_event(cq);
	}
	for (i = 0; i < seg_load(&ctx->seg->max_qp); i++) {
		struct hca_qp *qp = qp_at(ctx, i);

		if (qp)
			run_qp(ctx, i, qp->gen, true);
	}
}

static void read_mail(struct hca_context *ctx)
{
	struct seg_mail mail;
	int ret;

	while ((ret = seg_take_mail(ctx->seg, &mail))) {
		if (ret < 0) {
			look_at_everything(ctx);
			continue;
		}
		switch (mail.type) {
		case MAIL_RUN_QP:
			run_qp(ctx, mail.index, mail.gen, mail.detail);
			break;
		case MAIL_CQ_EVENT:
			cq_event(ctx, mail.index, mail.gen, mail.detail);
			break;
		case MAIL_ASYNC:
			event_async(ctx, mail.detail, mail.index, mail.gen);
			break;
		case MAIL_ASYNC_OPENED:
			event_async_opened(ctx, mail.detail, mail.index);
			break;
		case MAIL_FATAL:
			device_fatal(ctx);
			break;
		}
	}
}

static void run_timers(struct hca_context *ctx)
{
	struct hca_qp *due = NULL, *qp, **link;
	uint64_t now = hca_now_ns();
	uint32_t i;

	pthread_mutex_lock(&ctx->stall_lock);
	ctx->engine_wakes_ns = UINT64_MAX;
	for (link = &ctx->stalled; (qp = *link); ) {
		if (qp->sq.stall_due > now) {
			if (qp->sq.stall_due < ctx->engine_wakes_ns)
				ctx->engine_wakes_ns = qp->sq.stall_due;
			link = &qp->sq.stall_next;
			continue;
		}
		*link = qp->sq.stall_next;
		qp->sq.stall_listed = false;
		qp->sq.due_next = due;
		due = qp;
	}
	pthread_mutex_unlock(&ctx->stall_lock);
	while ((qp = due)) {
		due = qp->sq.due_next;
		run_qp(ctx, qp->index, qp->gen, false);
	}
	if (!seg_load(&ctx->seg->settings.completion_delay_us))
		return;
	for (i = 0; i < SEG_MAX_CQ; i++) {
		struct hca_cq *cq = cq_at(ctx, i);

		if (cq && cq->delayed_until)
			delayed_event(cq);
	}
}

static void sleep_until(struct hca_context *ctx, uint32_t seen, uint64_t wake)
{
	struct timespec ts, *timeout = NULL;

	if (wake != UINT64_MAX) {
		ts.tv_sec = wake / 1000000000ULL;
		ts.tv_nsec = wake % 1000000000ULL;
		timeout = &ts;
	}
	/* FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time. */
	syscall(SYS_futex, &ctx->seg->doorbell, FUTEX_WAIT_BITSET, seen, timeout, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void *engine_main(void *arg)
{
	struct hca_context *ctx = arg;

	/* Held as long as this thread lives: the kernel tells the peers when it does not any more. */
	seg_lock(&ctx->seg->alive, "the own segment");
	__atomic_store_n(&ctx->engine_runs, true, __ATOMIC_RELEASE);
	seg_ring_doorbell(ctx->seg);
	while (!__atomic_load_n(&ctx->engine_stop, __ATOMIC_ACQUIRE) && !context_is_lost(ctx)) {
		uint32_t seen = seg_load_seq(&ctx->seg->doorbell);
		uint64_t wake;

		pthread_mutex_lock(&ctx->engine_lock);
		read_mail(ctx);
		run_timers(ctx);
		pthread_mutex_unlock(&ctx->engine_lock);
		pthread_mutex_lock(&ctx->stall_lock);
		wake = ctx->engine_wakes_ns;
		pthread_mutex_unlock(&ctx->stall_lock);
		sleep_until(ctx, seen, wake);
	}
	if (!context_is_lost(ctx))
		seg_unlock(&ctx->seg->alive);
	return NULL;
}

/* A segment is shown to peers only when its engine holds the lock that stands for its life. */
static int await_engine(struct hca_context *ctx)
{
	uint64_t deadline = hca_now_ns() + 10000000000ULL;

	for (;;) {
		uint32_t seen = seg_load_seq(&ctx->seg->doorbell);

		if (__atomic_load_n(&ctx->engine_runs, __ATOMIC_ACQUIRE))
			return 0;
		if (hca_now_ns() > deadline) {
			fprintf(stderr, "shadow-hca: waited 10 s for the engine thread to start\n");
			errno = EAGAIN;
			return -1;
		}
		sleep_until(ctx, seen, deadline);
	}
}

int engine_start(struct hca_context *ctx)
{
	sigset_t all, old;
	pthread_attr_t attr;
	int ret;

	ctx->engine_wakes_ns = UINT64_MAX;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, ENGINE_STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&ctx->engine, &attr, engine_main, ctx);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (ret) {
		fprintf(stderr, "shadow-hca: cannot start the engine thread: %s\n", strerror(ret));
		errno = ret;
		return -1;
	}
	return await_engine(ctx);
}

void engine_stop(struct hca_context *ctx)
{
	__atomic_store_n(&ctx->engine_stop, true, __ATOMIC_RELEASE);
	seg_ring_doorbell(ctx->seg);
	pthread_join(ctx->engine, NULL);
}
