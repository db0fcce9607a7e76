/*
 * Completion and asynchronous events. A list has an eventfd that counts its entries, so the descriptor behaves like
 * that of a kernel driver: readable exactly when an event waits, blocking or not as the application set it.
 */
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hca.h"

struct event {
	struct event *next;
	enum ibv_event_type type;
	void *object;		/* struct hca_cq, hca_qp or hca_srq, NULL for the port */
};

struct hca_event_list {
	pthread_mutex_t lock;
	int fd;
	struct event *first, **last;
};

struct hca_event_list *event_list_create(void)
{
	struct hca_event_list *list = calloc(1, sizeof(*list));

	if (!list)
		return NULL;
	list->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (list->fd < 0) {
		free(list);
		return NULL;
	}
	pthread_mutex_init(&list->lock, NULL);
	list->last = &list->first;
	return list;
}

void event_list_destroy(struct hca_event_list *list)
{
	struct event *event;

	while ((event = list->first)) {
		list->first = event->next;
		free(event);
	}
	close(list->fd);
	free(list);
}

int event_list_fd(struct hca_event_list *list)
{
	return list->fd;
}

static void list_add(struct hca_event_list *list, enum ibv_event_type type, void *object)
{
	struct event *event = calloc(1, sizeof(*event));
	uint64_t one = 1;

	if (!event) {
		fprintf(stderr, "shadow-hca: no memory for an event\n");
		return;
	}
	event->type = type;
	event->object = object;
	pthread_mutex_lock(&list->lock);
	*list->last = event;
	list->last = &event->next;
	pthread_mutex_unlock(&list->lock);
	if (write(list->fd, &one, sizeof(one)) != sizeof(one))
		fprintf(stderr, "shadow-hca: event descriptor: %s\n", strerror(errno));
}

/* Blocks like a read of the descriptor does; 0, or -1 with errno. *@reported counts while the list is locked. */
static int list_take(struct hca_event_list *list, struct event *taken, void (*report)(struct event *event))
{
	struct event *event;
	uint64_t count;

	do {
		if (read(list->fd, &count, sizeof(count)) != sizeof(count))
			return -1;
		pthread_mutex_lock(&list->lock);
		event = list->first;
		if (event) {
			list->first = event->next;
			if (!list->first)
				list->last = &list->first;
			*taken = *event;
			report(event);
		}
		pthread_mutex_unlock(&list->lock);
		/* None: it was forgotten between our read and the lock, so the next read blocks as it should. */
	} while (!event);
	free(event);
	return 0;
}

static void list_forget(struct hca_event_list *list, const void *object)
{
	struct event **link, *event;
	struct iovec iov;
	uint64_t count;

	pthread_mutex_lock(&list->lock);
	for (link = &list->first; (event = *link); ) {
		if (event->object != object) {
			link = &event->next;
			continue;
		}
		*link = event->next;
		free(event);
		/* Fails where a reader was faster, which then finds that there is nothing and reads again. */
		iov.iov_base = &count;
		iov.iov_len = sizeof(count);
		if (preadv2(list->fd, &iov, 1, -1, RWF_NOWAIT) < 0 && errno != EAGAIN)
			fprintf(stderr, "shadow-hca: event descriptor: %s\n", strerror(errno));
	}
	list->last = link;
	pthread_mutex_unlock(&list->lock);
}

void event_completion(struct hca_cq *cq)
{
	uint32_t n = __atomic_exchange_n(&cq->shm->events, 0, __ATOMIC_SEQ_CST);

	if (!cq->cq.channel)
		return;
	while (n--)
		list_add(((struct hca_channel *)cq->cq.channel)->events, IBV_EVENT_CQ_ERR, cq);
}

static bool is_cq_event(enum ibv_event_type type)
{
	return type == IBV_EVENT_CQ_ERR;
}

static bool is_qp_event(enum ibv_event_type type)
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

static bool is_srq_event(enum ibv_event_type type)
{
	return type == IBV_EVENT_SRQ_LIMIT_REACHED || type == IBV_EVENT_SRQ_ERR;
}

/* To each handle of a QP. */
static void add_to_handles(struct hca_context *ctx, enum ibv_event_type type, struct hca_qp *qp)
{
	struct hca_qp *handle;

	pthread_mutex_lock(&ctx->handle_lock);
	if (!qp->closed)
		list_add(ctx->async, type, qp);
	for (handle = qp->handles; handle; handle = handle->next_handle)
		list_add(ctx->async, type, handle);
	pthread_mutex_unlock(&ctx->handle_lock);
	xrc_tell_openers(ctx, qp->shm, type);
}

void event_async_opened(struct hca_context *ctx, enum ibv_event_type type, uint32_t number)
{
	struct hca_qp *handle;

	pthread_mutex_lock(&ctx->handle_lock);
	for (handle = ctx->foreign; handle; handle = handle->next_handle)
		if (handle->qp.handle == number)
			list_add(ctx->async, type, handle);
	pthread_mutex_unlock(&ctx->handle_lock);
}

void event_async(struct hca_context *ctx, enum ibv_event_type type, uint32_t index, uint32_t gen)
{
	void *object = NULL;

	if (is_cq_event(type)) {
		struct hca_cq *cq = cq_at(ctx, index);

		if (!cq || cq->shm->gen != gen)
			return;
		object = cq;
	} else if (is_qp_event(type)) {
		struct hca_qp *qp = qp_at(ctx, index);

		if (qp && qp->gen == gen)
			add_to_handles(ctx, type, qp);
		return;
	} else if (is_srq_event(type)) {
		struct hca_srq *srq = srq_at(ctx, index);

		if (!srq || srq->shm->gen != gen)
			return;
		object = srq;
	}
	list_add(ctx->async, type, object);
}

void event_async_at(struct hca_context *ctx, struct seg *seg, enum ibv_event_type type, uint32_t index, uint32_t gen)
{
	if (seg == ctx->seg)
		event_async(ctx, type, index, gen);
	else if (seg_alive(seg))
		seg_mail(seg, MAIL_ASYNC, index, gen, type);
	else if (is_qp_event(type))
		xrc_tell_openers(ctx, &seg->qp[index], type);
}

void event_forget_cq(struct hca_cq *cq)
{
	if (cq->cq.channel)
		list_forget(((struct hca_channel *)cq->cq.channel)->events, cq);
	list_forget(context_of(cq->cq.context)->async, cq);
}

void event_forget_qp(struct hca_qp *qp)
{
	list_forget(context_of(qp->qp.context)->async, qp);
}

void event_forget_srq(struct hca_srq *srq)
{
	list_forget(context_of(srq->srq.context)->async, srq);
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct hca_context *ctx = to_context(context, "ibv_create_comp_channel");
	struct hca_channel *channel = object_alloc(sizeof(*channel));

	if (!channel)
		return NULL;
	channel->events = event_list_create();
	if (!channel->events) {
		free(channel);
		return NULL;
	}
	channel->channel.context = context;
	channel->channel.fd = event_list_fd(channel->events);
	channel->magic = OBJECT_MAGIC(MAGIC_CHANNEL, channel);
	__atomic_add_fetch(&ctx->channels, 1, __ATOMIC_RELAXED);
	return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibchannel)
{
	struct hca_channel *channel = to_channel(ibchannel, "ibv_destroy_comp_channel");
	struct hca_context *ctx = context_of(ibchannel->context);

	pthread_mutex_lock(&ibchannel->context->mutex);
	if (ibchannel->refcnt) {
		pthread_mutex_unlock(&ibchannel->context->mutex);
		return hca_errno(EBUSY);
	}
	pthread_mutex_unlock(&ibchannel->context->mutex);
	event_list_destroy(channel->events);
	__atomic_sub_fetch(&ctx->channels, 1, __ATOMIC_RELAXED);
	object_free(channel, sizeof(*channel));
	return 0;
}

static void report_completion(struct event *event)
{
	struct hca_cq *cq = event->object;

	pthread_mutex_lock(&cq->cq.mutex);
	cq->comp_events_reported++;
	pthread_mutex_unlock(&cq->cq.mutex);
}

int ibv_get_cq_event(struct ibv_comp_channel *ibchannel, struct ibv_cq **cq, void **cq_context)
{
	struct hca_channel *channel = to_channel(ibchannel, "ibv_get_cq_event");
	struct event event;

	if (list_take(channel->events, &event, report_completion))
		return -1;
	*cq = event.object;
	*cq_context = (*cq)->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	to_cq(cq, "ibv_ack_cq_events");
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

static void report_async(struct event *event)
{
	if (is_cq_event(event->type)) {
		struct hca_cq *cq = event->object;

		pthread_mutex_lock(&cq->cq.mutex);
		cq->async_events_reported++;
		pthread_mutex_unlock(&cq->cq.mutex);
	} else if (is_qp_event(event->type)) {
		struct hca_qp *qp = event->object;

		pthread_mutex_lock(&qp->qp.mutex);
		qp->events_reported++;
		pthread_mutex_unlock(&qp->qp.mutex);
	} else if (is_srq_event(event->type)) {
		struct hca_srq *srq = event->object;

		pthread_mutex_lock(&srq->srq.mutex);
		srq->events_reported++;
		pthread_mutex_unlock(&srq->srq.mutex);
	}
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct hca_context *ctx = to_context(context, "ibv_get_async_event");
	struct event taken;

	if (list_take(ctx->async, &taken, report_async))
		return -1;
	event->event_type = taken.type;
	if (is_cq_event(taken.type))
		event->element.cq = taken.object;
	else if (is_qp_event(taken.type))
		event->element.qp = taken.object;
	else if (is_srq_event(taken.type))
		event->element.srq = taken.object;
	else
		event->element.port_num = 1;
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	if (is_cq_event(event->event_type)) {
		struct ibv_cq *cq = event->element.cq;

		to_cq(cq, "ibv_ack_async_event");
		pthread_mutex_lock(&cq->mutex);
		cq->async_events_completed++;
		pthread_cond_signal(&cq->cond);
		pthread_mutex_unlock(&cq->mutex);
	} else if (is_qp_event(event->event_type)) {
		struct ibv_qp *qp = event->element.qp;

		to_qp(qp, "ibv_ack_async_event");
		pthread_mutex_lock(&qp->mutex);
		qp->events_completed++;
		pthread_cond_signal(&qp->cond);
		pthread_mutex_unlock(&qp->mutex);
	} else if (is_srq_event(event->event_type)) {
		struct ibv_srq *srq = event->element.srq;

		to_srq(srq, "ibv_ack_async_event");
		pthread_mutex_lock(&srq->mutex);
		srq->events_completed++;
		pthread_cond_signal(&srq->cond);
		pthread_mutex_unlock(&srq->mutex);
	}
}
