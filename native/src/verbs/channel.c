/* SPDX-License-Identifier: Apache-2.0 */
/* Completion channels and their events. */
#include "base/futex.h"
#include "control/control.h"
#include "interpose/real.h"
#include "datapath/notify.h"
#include "objects/objects.h"

struct ibv_comp_channel *sv_channel_alloc(struct ibv_context *vcontext)
{
	struct sv_channel *channel = sv_slot_alloc(SV_KIND_CHANNEL, sizeof(*channel));

	if (!channel)
		return NULL;
	if (sv_events_open(&channel->events)) {
		sv_slot_free(SV_KIND_CHANNEL, sizeof(*channel), channel);
		return NULL;
	}
	channel->v.context = vcontext;
	channel->v.fd = channel->events.fd;
	return &channel->v;
}

int sv_channel_bind(struct ibv_comp_channel *vchannel, struct ibv_comp_channel *real)
{
	struct sv_channel *channel = sv_channel_of(vchannel);

	channel->real = real;
	return sv_events_bind(&channel->events, real ? real->fd : -1);
}

void sv_channel_free(struct ibv_comp_channel *vchannel)
{
	struct sv_channel *channel = sv_channel_of(vchannel);

	sv_events_close(&channel->events);
	sv_slot_free(SV_KIND_CHANNEL, sizeof(*channel), channel);
}

/* The next real event: its virtual CQ in *cq. 1, 0: there is none, -1 with errno. */
static int take_real(struct sv_channel *channel, struct sv_cq **cq)
{
	struct ibv_cq *real;
	void *context;

	if (!channel->real)
		return 0;
	do {
		if (SV_REAL(ibv_get_cq_event)(channel->real, &real, &context))
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		SV_REAL(ibv_ack_cq_events)(real, 1);
		*cq = sv_cq_of(context);
	} while (!sv_notify_event(*cq));
	return 1;
}

static int keep(struct sv_channel *channel, struct sv_cq *cq)
{
	return sv_events_keep(&channel->events, (struct sv_event){ .object = &cq->v });
}

/* 1: an event of *cq is handed out; 0: there is none; -1 with errno. The events' mutex must be held. */
static int next_event(struct sv_channel *channel, struct sv_cq **cq)
{
	uint32_t kept = channel->events.count;
	struct sv_event event;
	int got;

	while (kept--) {
		sv_events_take(&channel->events, &event);
		*cq = sv_cq_of(event.object);
		if (!sv_load_acquire(&(*cq)->ending))
			return 1;
		keep(channel, *cq);
	}
	while ((got = take_real(channel, cq)) > 0) {
		if (!sv_load_acquire(&(*cq)->ending))
			return 1;
		keep(channel, *cq);
	}
	return got;
}

int ibv_get_cq_event(struct ibv_comp_channel *vchannel, struct ibv_cq **vcq, void **cq_context)
{
	struct sv_channel *channel = sv_channel_of(vchannel);

	if (!sv_ours(vchannel))
		return SV_REAL(ibv_get_cq_event)(vchannel, vcq, cq_context);
	for (;;) {
		int cancel;
		struct sv_thread *self = sv_events_enter("ibv_get_cq_event", &cancel);
		struct sv_cq *cq = NULL;
		int got, err;

		pthread_mutex_lock(&channel->events.mutex);
		got = next_event(channel, &cq);
		err = errno;
		if (got > 0)
			sv_add(&cq->comp_reported, 1);
		pthread_mutex_unlock(&channel->events.mutex);
		sv_events_leave(self, cancel);
		if (got > 0) {
			*vcq = &cq->v;
			*cq_context = cq->v.cq_context;
			return 0;
		}
		if (got < 0) {
			errno = err;
			return -1;
		}
		if (sv_events_wait(&channel->events))
			return -1;
	}
}

int sv_channel_drain(struct ibv_comp_channel *vchannel)
{
	struct sv_channel *channel = sv_channel_of(vchannel);
	struct sv_cq *cq;
	int got, err = 0;

	pthread_mutex_lock(&channel->events.mutex);
	while (!err && (got = take_real(channel, &cq)) > 0)
		err = keep(channel, cq);
	if (!err && got < 0)
		err = errno;
	pthread_mutex_unlock(&channel->events.mutex);
	return err;
}

void sv_cq_event_now(struct sv_cq *cq)
{
	struct sv_channel *channel;

	sv_store(&cq->event_made, 0);
	if (!cq->v.channel)
		return;
	channel = sv_channel_of(cq->v.channel);
	pthread_mutex_lock(&channel->events.mutex);
	keep(channel, cq);
	pthread_mutex_unlock(&channel->events.mutex);
}

/* An error that nobody has decided about is the application's when the gate opens. */
static bool holds_errors(const struct sv_cq *cq)
{
	for (uint32_t at = cq->head; at != cq->tail; at++)
		if (cq->kept[at].held)
			return true;
	return false;
}

void sv_events_resume(void)
{
	struct sv_cq *cq;
	uint32_t index = 0;

	while ((cq = sv_slot_next(SV_KIND_CQ, sizeof(*cq), &index))) {
		if (holds_errors(cq))
			sv_notify_made(cq);
		if (sv_load(&cq->event_made))
			sv_cq_event_now(cq);
	}
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	if (!sv_ours(context))
		return SV_REAL(ibv_create_comp_channel)(context);
	return SV_CONTROL_POINTER(struct ibv_comp_channel, SV_OP_CREATE_COMP_CHANNEL, "ibv_create_comp_channel",
				  SV_POINTER(context));
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (!sv_ours(channel))
		return SV_REAL(ibv_destroy_comp_channel)(channel);
	return SV_CONTROL(SV_OP_DESTROY_COMP_CHANNEL, "ibv_destroy_comp_channel", NULL, SV_POINTER(channel));
}
