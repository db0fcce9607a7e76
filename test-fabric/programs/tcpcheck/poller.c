#include "poller.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/die.h"
#include "blocking.h"
#include "end.h"
#include "line.h"
#include "run.h"

/* After which it looks whose pause is over. */
#define TICK_MS 10
#define EVENTS 256

enum how { LEVEL, EDGE, POLL, HOWS };

struct poller {
	enum how how;
	pthread_t thread;
	int epoll;
	struct end *ends;
	struct pollfd *polled;
	size_t room;
	pthread_mutex_t lock;
	struct end *added; /* under lock */
};

static struct poller pollers[HOWS];

static bool wants_to_read(const struct end *end, uint64_t now)
{
	return !end->role || (!end->in.over && end->in.pause_until <= now);
}

static bool wants_to_write(const struct end *end, uint64_t now)
{
	return end->connecting || (end->role && !end->out.over &&
				   (end->out.sent < end->out.length || end->out.pause_until <= now));
}

static void watch(struct poller *poller, struct end *end, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = end };
	int operation = !events ? EPOLL_CTL_DEL : end->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (events != end->watched && epoll_ctl(poller->epoll, operation, end->fd, &event))
		die(errno, "epoll_ctl");
	end->watched = events;
}

static void wait_by_epoll(struct poller *poller)
{
	struct epoll_event events[EVENTS];
	uint64_t now = now_ms();
	int count;

	if (poller->how == LEVEL) {
		for (struct end *end = poller->ends; end; end = end->next_of_poller) {
			end->readable = end->writable = false;
			/* It would be told again and again of what it does not want now: of a hang-up even without asking. */
			watch(poller, end, (wants_to_read(end, now) ? EPOLLIN : 0) | (wants_to_write(end, now) ? EPOLLOUT : 0));
		}
	}
	count = epoll_wait(poller->epoll, events, EVENTS, TICK_MS);
	if (count < 0 && errno != EINTR)
		die(errno, "epoll_wait");
	for (int i = 0; i < count; i++) {
		struct end *end = events[i].data.ptr;

		/* With an error or a hang-up both find out what it is. */
		if (events[i].events & ~EPOLLOUT)
			end->readable = true;
		if (events[i].events & ~EPOLLIN)
			end->writable = true;
	}
}

static void wait_by_poll(struct poller *poller)
{
	uint64_t now = now_ms();
	size_t count = 0, i = 0;

	for (struct end *end = poller->ends; end; end = end->next_of_poller)
		count++;
	if (count > poller->room) {
		poller->room = 2 * count;
		poller->polled = realloc(poller->polled, poller->room * sizeof(*poller->polled));
		if (!poller->polled)
			die(0, "out of memory");
	}
	for (struct end *end = poller->ends; end; end = end->next_of_poller) {
		short events = (wants_to_read(end, now) ? POLLIN : 0) | (wants_to_write(end, now) ? POLLOUT : 0);

		/* Of one that wants nothing poll would tell a hang-up again and again. */
		poller->polled[i++] = (struct pollfd){ .fd = events ? end->fd : -1, .events = events };
	}
	if (poll(poller->polled, count, TICK_MS) < 0 && errno != EINTR)
		die(errno, "poll");
	i = 0;
	for (struct end *end = poller->ends; end; end = end->next_of_poller, i++) {
		end->readable = poller->polled[i].revents & ~POLLOUT;
		end->writable = poller->polled[i].revents & ~POLLIN;
	}
}

static void connected(struct end *end)
{
	int error = 0;
	socklen_t length = sizeof(error);

	if (getsockopt(end->fd, SOL_SOCKET, SO_ERROR, &error, &length))
		error = errno;
	if (error)
		end_error(end, error, "connect");
	end->connecting = false;
}

/* What an end can do now. False: it is not this poller's any more. */
static bool serve(struct poller *poller, struct end *end, uint64_t now)
{
	if (end->connecting) {
		if (!end->writable)
			return true;
		connected(end);
	}
	if (!end->role && end->readable) {
		enum greeted greeted = end_greet(end);

		if (greeted == GREETING_COMPLETE && (end->kind == KIND_LINE || end->kind == KIND_BLOCKING)) {
			if (poller->how != POLL)
				watch(poller, end, 0);
			(end->kind == KIND_LINE ? line_accepted : blocking_take)(end);
			return false;
		}
		if (greeted == GREETING_INCOMPLETE)
			end->readable = false;
	}
	if (end->role && end->readable && wants_to_read(end, now))
		end->readable = end_read(end, false);
	if (end->role && end->writable && wants_to_write(end, now))
		end->writable = end_write(end, false);
	if (end->broken || (end->role && end_is_over(end))) {
		end_close(end);
		return false;
	}
	return true;
}

static void take_added(struct poller *poller)
{
	struct end *end;

	pthread_mutex_lock(&poller->lock);
	end = poller->added;
	poller->added = NULL;
	pthread_mutex_unlock(&poller->lock);
	while (end) {
		struct end *next = end->next_of_poller;

		end->next_of_poller = poller->ends;
		poller->ends = end;
		if (poller->how == EDGE)
			watch(poller, end, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
		end = next;
	}
}

static void *work(void *argument)
{
	struct poller *poller = argument;

	for (;;) {
		uint64_t now;

		take_added(poller);
		if (poller->how == POLL)
			wait_by_poll(poller);
		else
			wait_by_epoll(poller);
		now = now_ms();
		for (struct end **at = &poller->ends; *at;) {
			struct end *next = (*at)->next_of_poller;

			if (serve(poller, *at, now))
				at = &(*at)->next_of_poller;
			else
				*at = next;
		}
	}
	return NULL;
}

void pollers_start(void)
{
	for (int how = 0; how < HOWS; how++) {
		struct poller *poller = &pollers[how];
		int error;

		poller->how = how;
		pthread_mutex_init(&poller->lock, NULL);
		if (how != POLL && (poller->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
			die(errno, "epoll_create1");
		error = pthread_create(&poller->thread, NULL, work, poller);
		if (error)
			die(error, "pthread_create");
	}
}

void pollers_take(struct end *end)
{
	static atomic_uint turn;
	struct poller *poller = &pollers[turn++ % HOWS];

	pthread_mutex_lock(&poller->lock);
	end->next_of_poller = poller->added;
	poller->added = end;
	pthread_mutex_unlock(&poller->lock);
}
