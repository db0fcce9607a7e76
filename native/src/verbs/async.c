/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous events of a device. Real ones are acknowledged at once; the application's acknowledgements count here. */
#include "base/futex.h"
#include "base/say.h"
#include "interpose/real.h"
#include "objects/objects.h"

#define REPORT_AFTER 30000000000LL

static bool concerns_qp(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return true;
	default:
		return false;
	}
}

static bool concerns_srq(enum ibv_event_type type)
{
	return type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_SRQ_LIMIT_REACHED;
}

static bool concerns_port(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_DEVICE_FATAL:
		return true;
	default:
		return false;
	}
}

/* Takes one event from the real context. 1: *event is the application's; 0: there is none; else -1 with errno. */
static int take_real(struct sv_context *context, struct sv_event *event)
{
	struct ibv_async_event real;

	while (context->real) {
		if (SV_REAL(ibv_get_async_event)(context->real, &real))
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		event->type = real.event_type;
		event->object = NULL;
		if (real.event_type == IBV_EVENT_CQ_ERR)
			event->object = real.element.cq->cq_context;
		else if (concerns_qp(real.event_type))
			event->object = real.element.qp->qp_context;
		else if (concerns_srq(real.event_type))
			event->object = real.element.srq->srq_context;
		else if (concerns_port(real.event_type))
			event->object = (void *)(uintptr_t)real.element.port_num;
		SV_REAL(ibv_ack_async_event)(&real);
		if (real.event_type == IBV_EVENT_QP_LAST_WQE_REACHED) {
			struct sv_qp *qp = sv_qp_of(event->object);

			/* The drain puts the QPs of datagrams into the error state. */
			if (qp->v.qp_type == IBV_QPT_UD && (sv_load(&sv_gate_word) & SV_GATE_CLOSED))
				continue;
			sv_store_release(&qp->last_receive, 1);
		}
		if (real.event_type == IBV_EVENT_SQ_DRAINED)
			sv_store_release(&sv_qp_of(event->object)->sq_drained, 1);
		/* Nothing that we virtualize has the others (WQ). */
		if (event->object || concerns_port(real.event_type))
			return 1;
	}
	return 0;
}

/* False when the object is about to end: no event of it is handed out any more. */
static bool report(const struct sv_event *event)
{
	if (event->type == IBV_EVENT_CQ_ERR) {
		struct sv_cq *cq = sv_cq_of(event->object);

		if (sv_load_acquire(&cq->ending))
			return false;
		sv_add(&cq->async_reported, 1);
	} else if (concerns_qp(event->type)) {
		struct sv_qp *qp = sv_qp_of(event->object);

		/* Since ANNOUNCE it may be of the checkpoint's own making. */
		if (sv_load_acquire(&qp->ending) ||
		    (event->type == IBV_EVENT_QP_LAST_WQE_REACHED && sv_load_acquire(&sv_announced)))
			return false;
		sv_add(&qp->events_reported, 1);
	} else if (concerns_srq(event->type)) {
		struct sv_srq *srq = sv_srq_of(event->object);

		if (sv_load_acquire(&srq->ending))
			return false;
		sv_add(&srq->events_reported, 1);
	}
	return true;
}

/* 1: *event is handed out; 0: there is none; -1 with errno. The events' mutex must be held. */
static int next_event(struct sv_context *context, struct sv_event *event)
{
	uint32_t kept = context->events.count;
	int got;

	while (kept--) {
		sv_events_take(&context->events, event);
		if (report(event))
			return 1;
		sv_events_keep(&context->events, *event);
	}
	while ((got = take_real(context, event)) > 0) {
		if (report(event))
			return 1;
		sv_events_keep(&context->events, *event);
	}
	return got;
}

int ibv_get_async_event(struct ibv_context *vcontext, struct ibv_async_event *event)
{
	struct sv_context *context = sv_context_of(vcontext);

	if (!sv_ours(vcontext))
		return SV_REAL(ibv_get_async_event)(vcontext, event);
	for (;;) {
		int cancel;
		struct sv_thread *self = sv_events_enter("ibv_get_async_event", &cancel);
		struct sv_event next;
		int got, err;

		pthread_mutex_lock(&context->events.mutex);
		got = next_event(context, &next);
		err = errno;
		pthread_mutex_unlock(&context->events.mutex);
		sv_events_leave(self, cancel);
		if (got > 0) {
			event->event_type = next.type;
			if (concerns_port(next.type))
				event->element.port_num = (uintptr_t)next.object;
			else
				event->element.qp = next.object;
			return 0;
		}
		if (got < 0) {
			errno = err;
			return -1;
		}
		if (sv_events_wait(&context->events))
			return -1;
	}
}

static void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed, unsigned count)
{
	pthread_mutex_lock(mutex);
	*completed += count;
	pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	if (event->event_type == IBV_EVENT_CQ_ERR && sv_ours(event->element.cq)) {
		struct ibv_cq *cq = event->element.cq;

		acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed, 1);
	} else if (concerns_qp(event->event_type) && sv_ours(event->element.qp)) {
		struct ibv_qp *qp = event->element.qp;

		acknowledge(&qp->mutex, &qp->cond, &qp->events_completed, 1);
	} else if (concerns_srq(event->event_type) && sv_ours(event->element.srq)) {
		struct ibv_srq *srq = event->element.srq;

		acknowledge(&srq->mutex, &srq->cond, &srq->events_completed, 1);
	} else if (!concerns_port(event->event_type)) {
		SV_REAL(ibv_ack_async_event)(event);
	}
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	if (sv_ours(cq))
		acknowledge(&cq->mutex, &cq->cond, &cq->comp_events_completed, count);
	else
		SV_REAL(ibv_ack_cq_events)(cq, count);
}

void sv_await_acks(const char *verb, pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
		   const uint32_t *reported)
{
	pthread_mutex_lock(mutex);
	while (*completed != sv_load_acquire(reported)) {
		struct timespec until;
		int64_t at = sv_now() + REPORT_AFTER;

		until.tv_sec = at / 1000000000;
		until.tv_nsec = at % 1000000000;
		if (pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT)
			sv_sayf("%s still waits for the acknowledgement of %u events", verb,
				sv_load_acquire(reported) - *completed);
	}
	pthread_mutex_unlock(mutex);
}

void sv_async_forget(struct sv_context *context, const void *object)
{
	pthread_mutex_lock(&context->events.mutex);
	sv_events_forget(&context->events, object);
	pthread_mutex_unlock(&context->events.mutex);
}

void sv_async_forget_last_receive(struct sv_qp *qp)
{
	struct sv_events *events = &sv_context_of(qp->v.context)->events;
	uint32_t count;
	struct sv_event event;

	pthread_mutex_lock(&events->mutex);
	for (count = events->count; count--;) {
		sv_events_take(events, &event);
		if (event.object != &qp->v || event.type != IBV_EVENT_QP_LAST_WQE_REACHED)
			sv_events_keep(events, event);	/* there is room: one was just taken */
	}
	pthread_mutex_unlock(&events->mutex);
}

int sv_context_drain(struct ibv_context *vcontext)
{
	struct sv_context *context = sv_context_of(vcontext);
	struct sv_event event;
	int got, err = 0;

	pthread_mutex_lock(&context->events.mutex);
	while (!err && (got = take_real(context, &event)) > 0)
		err = sv_events_keep(&context->events, event);
	if (!err && got < 0)
		err = errno;
	pthread_mutex_unlock(&context->events.mutex);
	return err;
}
