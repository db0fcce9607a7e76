/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues: objects and verbs. Polling is in poll.c, events in channel.c. */
#include "base/tcp_abi.h"
#include "control/control.h"
#include "interpose/real.h"
#include "datapath/notify.h"
#include "objects/objects.h"

static int detached_poll(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	(void)cq;
	(void)count;
	(void)wc;
	return 0;
}

struct ibv_cq *sv_cq_alloc(struct ibv_context *vcontext)
{
	struct sv_cq *cq = sv_slot_alloc(SV_KIND_CQ, sizeof(*cq));

	if (!cq)
		return NULL;
	cq->v.context = vcontext;
	cq->v.handle = sv_slot_index(SV_KIND_CQ, sizeof(*cq), cq);
	cq->poll = detached_poll;
	pthread_mutex_init(&cq->v.mutex, NULL);
	pthread_cond_init(&cq->v.cond, NULL);
	return &cq->v;
}

static void count_on_channel(struct ibv_comp_channel *channel, int change)
{
	if (!channel)
		return;
	pthread_mutex_lock(&channel->context->mutex);
	channel->refcnt += change;
	pthread_mutex_unlock(&channel->context->mutex);
}

int sv_cq_open(struct ibv_cq *vcq, const struct sv_cq_spec *spec)
{
	if (spec->extended)
		sv_cq_ex_open(sv_cq_of(vcq), spec);
	vcq->channel = spec->channel;
	vcq->cq_context = spec->cq_context;
	vcq->cqe = spec->cqe;
	count_on_channel(spec->channel, 1);
	return 0;
}

/* Asks the device. Returns 0 or an errno value. */
static int request(struct sv_cq *cq, bool solicited_only)
{
	int err;

	/* First here: an event of the request may be taken before the device's function has come back. */
	sv_notify_asked(cq, solicited_only);
	err = cq->real->context->ops.req_notify_cq(cq->real, solicited_only);
	if (err != SV_TCP_MISSED)
		return err;
	sv_notify_made(cq);
	sv_cq_event_now(cq);
	return 0;
}

int sv_cq_bind(struct ibv_cq *vcq, struct ibv_cq *real)
{
	struct sv_cq *cq = sv_cq_of(vcq);
	enum sv_armed armed;
	uint32_t owed;

	cq->real = real;
	cq->poll = real ? real->context->ops.poll_cq : detached_poll;
	if (!real)
		return 0;
	/* The old queue's events have not come and will not. */
	for (owed = sv_notify_owed(cq); owed; owed--)
		sv_cq_event_now(cq);
	armed = sv_notify_armed(cq);
	return armed == SV_ARMED_NOT ? 0 : request(cq, armed == SV_ARMED_SOLICITED);
}

/* Nobody takes an event of the queue's channel, if it has one, until they are unlocked. */
static void lock_events(struct ibv_cq *vcq)
{
	if (vcq->channel)
		pthread_mutex_lock(&sv_channel_of(vcq->channel)->events.mutex);
}

static void unlock_events(struct ibv_cq *vcq)
{
	if (vcq->channel)
		pthread_mutex_unlock(&sv_channel_of(vcq->channel)->events.mutex);
}

/*
 * Takes what has come to the virtual queue, with the events that the device does not make of it: of what came while it was not
 * asked for one, which may be all that is due if it was asked just before.
 */
static int look_through(struct sv_cq *cq, const struct sv_qp *ending, bool asked_just_before)
{
	uint32_t due, events;
	int err;

	/* Who takes an event afterwards knows whose it is. */
	lock_events(&cq->v);
	due = sv_notify_due(cq);
	err = sv_notify_set_aside(cq, ending);
	events = sv_load(&cq->event_made);
	sv_store(&cq->event_made, 0);
	for (; asked_just_before && sv_notify_due(cq) > due; events++)
		sv_notify_given(cq);
	unlock_events(&cq->v);
	for (; events; events--)
		sv_cq_event_now(cq);
	return err;
}

int sv_cq_go_on(struct ibv_cq *vcq)
{
	struct sv_cq *cq = sv_cq_of(vcq);
	enum sv_armed armed = sv_notify_armed(cq);
	int err;

	if (armed == SV_ARMED_NOT || !cq->disarmed)
		return 0;
	err = look_through(cq, NULL, false);
	if (err || sv_notify_armed(cq) != armed)
		return err;
	err = request(cq, armed == SV_ARMED_SOLICITED);
	/* Between the two looks; of that there may be one event too many. */
	err = err ? err : look_through(cq, NULL, true);
	if (!err && armed == SV_ARMED_SOLICITED && sv_notify_missed_message(cq))
		sv_cq_event_now(cq);
	return err;
}

int sv_cq_collect(struct ibv_cq *vcq, const struct sv_qp *ending)
{
	struct sv_cq *cq = sv_cq_of(vcq);
	int err, last, cancel;

	if (!cq->real)
		return 0;
	/* The channel is written to and read, which a thread must not be cancelled in while it has locks. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	err = look_through(cq, ending, false);
	/* What is no event of the application's is to wake nobody, if the device has made it by now. */
	last = vcq->channel && cq->disarmed ? sv_channel_drain(vcq->channel) : 0;
	err = err ? err : last;
	last = sv_cq_go_on(vcq);
	pthread_setcancelstate(cancel, NULL);
	return err ? err : last;
}

void sv_cq_resized(struct ibv_cq *vcq, int cqe)
{
	vcq->cqe = cqe;
}

void sv_cq_free(struct ibv_cq *vcq)
{
	struct sv_cq *cq = sv_cq_of(vcq);

	if (vcq->channel) {
		struct sv_channel *channel = sv_channel_of(vcq->channel);

		pthread_mutex_lock(&channel->events.mutex);
		sv_events_forget(&channel->events, vcq);
		pthread_mutex_unlock(&channel->events.mutex);
		count_on_channel(vcq->channel, -1);
	}
	sv_async_forget(sv_context_of(vcq->context), vcq);
	sv_block_free(cq->kept, cq->capacity * sizeof(*cq->kept));
	sv_slot_free(SV_KIND_CQ, sizeof(*cq), cq);
}

int sv_req_notify_cq(struct ibv_cq *vcq, int solicited_only)
{
	struct sv_cq *cq = sv_cq_of(vcq);
	struct sv_thread *self = sv_gate_enter("ibv_req_notify_cq");
	int err = ENODEV;

	sv_lock_take(&cq->lock, self, SV_HELD_CQ);
	if (cq->real)
		err = vcq->channel ? sv_notify_set_aside(cq, NULL) : 0;
	if (!err && vcq->channel && sv_notify_missed(cq, solicited_only))
		sv_cq_event_now(cq);
	else if (!err)
		err = request(cq, solicited_only);
	sv_lock_drop(&cq->lock);
	sv_gate_leave(self);
	return err;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
			     int comp_vector)
{
	if (!sv_ours(context))
		return SV_REAL(ibv_create_cq)(context, cqe, cq_context, channel, comp_vector);
	return SV_CONTROL_POINTER(struct ibv_cq, SV_OP_CREATE_CQ, "ibv_create_cq", SV_POINTER(context),
				  SV_ARG((int64_t)cqe), SV_POINTER(cq_context), SV_POINTER(channel),
				  SV_ARG((int64_t)comp_vector));
}

/*
 * How many completions the application has not polled yet; or -errno. The real queue, which has room for more than it was asked
 * for, does not say: they become kept ones, whose order is the same.
 */
static int unread(struct ibv_cq *vcq, const char *verb)
{
	struct sv_cq *cq = sv_cq_of(vcq);
	struct sv_thread *self = sv_gate_enter(verb);
	int count;

	sv_lock_take(&cq->lock, self, SV_HELD_CQ);
	count = -sv_cq_collect(vcq, NULL);
	if (!count)
		count = cq->tail - cq->head;
	sv_lock_drop(&cq->lock);
	sv_gate_leave(self);
	return count;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	if (!sv_ours(cq))
		return SV_REAL(ibv_resize_cq)(cq, cqe);
	if (cqe > 0 && cqe < cq->cqe) {
		int count = unread(cq, "ibv_resize_cq");

		if (count < 0 || count > cqe)
			return count < 0 ? -count : EINVAL;
	}
	return SV_CONTROL(SV_OP_RESIZE_CQ, "ibv_resize_cq", NULL, SV_POINTER(cq), SV_ARG((int64_t)cqe));
}

int ibv_destroy_cq(struct ibv_cq *vcq)
{
	struct sv_cq *cq = sv_cq_of(vcq);
	int err;

	if (!sv_ours(vcq))
		return SV_REAL(ibv_destroy_cq)(vcq);
	/* A device says so at once; it waits for acknowledgements only of a queue that it can destroy. */
	if (sv_load_acquire(&cq->users))
		return EBUSY;
	sv_store_release(&cq->ending, 1);
	/* Who is handing out an event has done so after this. */
	lock_events(vcq);
	unlock_events(vcq);
	sv_await_acks("ibv_destroy_cq", &vcq->mutex, &vcq->cond, &vcq->comp_events_completed, &cq->comp_reported);
	sv_await_acks("ibv_destroy_cq", &vcq->mutex, &vcq->cond, &vcq->async_events_completed, &cq->async_reported);
	err = SV_CONTROL(SV_OP_DESTROY_CQ, "ibv_destroy_cq", NULL, SV_POINTER(vcq));
	if (err)
		sv_store_release(&cq->ending, 0);
	return err;
}
