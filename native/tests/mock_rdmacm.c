/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for librdmacm: a channel is an event counter, an event a unit of it, and a command needs it to be one. */
#define _GNU_SOURCE
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static unsigned hold;

/* Set: rdma_listen returns only when it is cleared. */
void mock_cm_hold(unsigned on)
{
	__atomic_store_n(&hold, on, __ATOMIC_SEQ_CST);
}

static int command(const struct rdma_event_channel *channel)
{
	uint64_t none = 0;

	return write(channel->fd, &none, sizeof(none)) == sizeof(none) ? 0 : -1;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *channel = malloc(sizeof(*channel));

	channel->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	return channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
	free(channel);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps)
{
	if (command(channel))
		return -1;
	*id = calloc(1, sizeof(**id));
	(*id)->channel = channel;
	(*id)->context = context;
	(*id)->ps = ps;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	if (command(id->channel))
		return -1;
	free(id);
	return 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)param;
	return command(id->channel);
}

/* As librdmacm's do, it calls another. */
int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)backlog;
	while (__atomic_load_n(&hold, __ATOMIC_SEQ_CST))
		usleep(1000);
	return rdma_connect(id, NULL);
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	return command(id->channel);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	uint64_t one;

	if (read(channel->fd, &one, sizeof(one)) != sizeof(one))
		return -1;
	*event = calloc(1, sizeof(**event));
	(*event)->event = RDMA_CM_EVENT_ESTABLISHED;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	free(event);
	return 0;
}
