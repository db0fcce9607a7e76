/* SPDX-License-Identifier: Apache-2.0 */
/* librdmacm's events: the kernel's while its file is there, ours on a channel that is lost. */
#include "base/arena.h"
#include "cm/cm_channel.h"

#include <poll.h>

/* An event of ours, until it is acknowledged. */
struct made_event {
	struct made_event *next;
	struct rdma_cm_event event;
};

static struct made_event *made_events;	/* sv_cm_lock */

static bool is_readable(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, 0) == 1;
}

/* 1: *event is one; 0: there is none yet; -1 with errno. */
static int next_event(struct rdma_event_channel *of, struct sv_cm_channel *channel, struct rdma_cm_event **event)
{
	struct made_event *made;
	struct sv_event kept;
	int result = 0;

	if (!channel->lost) {
		pthread_mutex_lock(&channel->reading);
		if (is_readable(of->fd))
			result = CM_REAL(rdma_get_cm_event)(of, event) ? -1 : 1;
		pthread_mutex_unlock(&channel->reading);
		return result;
	}
	pthread_mutex_lock(&channel->events.mutex);
	result = sv_events_take(&channel->events, &kept);
	pthread_mutex_unlock(&channel->events.mutex);
	if (!result)
		return 0;
	made = sv_block_alloc(sizeof(*made));
	if (!made) {
		errno = ENOMEM;
		return -1;
	}
	made->event.id = kept.object;
	made->event.event = (uint32_t)kept.type;
	made->event.status = (int32_t)(kept.type >> 32);
	pthread_mutex_lock(&sv_cm_lock);
	made->next = made_events;
	made_events = made;
	pthread_mutex_unlock(&sv_cm_lock);
	*event = &made->event;
	return 1;
}

/* One of the units; the others are for the other sleepers, which they wake when they are put back. */
static void take_wake_up(void)
{
	uint64_t units;

	if (read(sv_cm_wake_fd, &units, sizeof(units)) == sizeof(units) && --units)
		(void)!write(sv_cm_wake_fd, &units, sizeof(units));
}

int rdma_get_cm_event(struct rdma_event_channel *of, struct rdma_cm_event **event)
{
	int result;

	sv_cm_enter();
	for (;;) {
		struct sv_cm_channel *channel = sv_cm_channel_of(of);
		uint32_t was;

		result = channel ? next_event(of, channel, event) : CM_REAL(rdma_get_cm_event)(of, event) ? -1 : 1;
		if (result)
			break;
		sv_add(&sv_cm_sleepers, 1);
		was = sv_cm_leave_wholly();
		result = sv_readable_wait(of->fd, sv_cm_wake_fd);
		sv_cm_enter_again(was);
		sv_add(&sv_cm_sleepers, -1u);
		take_wake_up();
		if (result)
			break;
	}
	sv_cm_leave();
	return result > 0 ? 0 : -1;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct made_event **at, *made = NULL;

	pthread_mutex_lock(&sv_cm_lock);
	for (at = &made_events; *at && &(*at)->event != event; at = &(*at)->next)
		;
	if (*at) {
		made = *at;
		*at = made->next;
	}
	pthread_mutex_unlock(&sv_cm_lock);
	if (!made)
		return CM_REAL(rdma_ack_cm_event)(event);
	sv_block_free(made, sizeof(*made));
	return 0;
}
