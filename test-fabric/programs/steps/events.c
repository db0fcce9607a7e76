/* Completion events: those of all queues that have any come from one channel. */
#include "steps.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "../common/die.h"
#include "../common/work_clock.h"

#define EVENT_SECONDS 60

struct ibv_comp_channel *channel;
static bool seen[SLOTS];	/* the event of a queue has come since it was asked for */
static bool too_many_events;	/* the hostile device makes some of queues that are empty */

void events_open(void)
{
	const char *personality = getenv("SV_HCA_PERSONALITY");

	too_many_events = personality && !strncmp(personality, "hostile", strlen("hostile"));
	channel = ibv_create_comp_channel(endpoint.context);
	if (!channel || fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) < 0)
		die(errno, "a completion channel");
}

static bool take_event(void)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(channel, &cq, &context)) {
		if (errno != EAGAIN)
			die(errno, "ibv_get_cq_event");
		return false;
	}
	ibv_ack_cq_events(cq, 1);
	for (unsigned c = 0; c < SLOTS; c++) {
		if (cqs[c] != cq)
			continue;
		if (seen[c] && !too_many_events)
			die(0, "%s:%llu: queue %u has brought two events", file, (unsigned long long)line_number, c);
		seen[c] = true;
	}
	return true;
}

static void await_event(uint64_t c)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
	struct work_clock clock;

	work_clock_start(&clock);
	for (;;) {
		while (take_event())
			;
		if (seen[slot(c, SLOTS)])
			return;
		if (poll(&ready, 1, 100) < 0 && errno != EINTR)
			die(errno, "poll");
		if (work_clock_read(&clock) > EVENT_SECONDS * NS_PER_S)
			die(0, "%s:%llu: no event came within %d s", file, (unsigned long long)line_number, EVENT_SECONDS);
	}
}

bool event_step(const char *verb, const uint64_t *a)
{
	if (!strcmp(verb, "arm")) {
		seen[slot(a[0], SLOTS)] = false;
		result(ibv_req_notify_cq(CQ(a[0]), 0));
	} else if (!strcmp(verb, "sleep")) {
		await_event(a[0]);
	} else {
		return false;
	}
	return true;
}
