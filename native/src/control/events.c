/* SPDX-License-Identifier: Apache-2.0 */
#include "control/events.h"
#include "base/arena.h"
#include "control/handlers.h"
#include "control/thread.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

int sv_events_open(struct sv_events *events)
{
	struct epoll_event readable = { .events = EPOLLIN };

	events->real_fd = -1;
	pthread_mutex_init(&events->mutex, NULL);
	events->fd = epoll_create1(EPOLL_CLOEXEC);
	/* No semaphore: CRIU restores one as an eventfd of the plain kind, of which one read takes all units. */
	events->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (events->fd < 0 || events->wake_fd < 0 ||
	    epoll_ctl(events->fd, EPOLL_CTL_ADD, events->wake_fd, &readable)) {
		int err = errno;

		sv_events_close(events);
		return err;
	}
	return 0;
}

void sv_events_close(struct sv_events *events)
{
	if (events->fd >= 0)
		close(events->fd);
	if (events->wake_fd >= 0)
		close(events->wake_fd);
	sv_block_free(events->kept, events->capacity * sizeof(*events->kept));
	events->fd = events->wake_fd = events->real_fd = -1;
	events->kept = NULL;
	events->head = events->count = events->capacity = 0;
}

int sv_events_bind(struct sv_events *events, int real_fd)
{
	struct epoll_event readable = { .events = EPOLLIN };

	/* It is closed already when the real object was destroyed before it was unbound: then epoll has let it go. */
	if (events->real_fd >= 0)
		epoll_ctl(events->fd, EPOLL_CTL_DEL, events->real_fd, &readable);
	events->real_fd = -1;
	if (real_fd < 0)
		return 0;
	if (fcntl(real_fd, F_SETFL, fcntl(real_fd, F_GETFL) | O_NONBLOCK) < 0 ||
	    epoll_ctl(events->fd, EPOLL_CTL_ADD, real_fd, &readable))
		return errno;
	events->real_fd = real_fd;
	return 0;
}

int sv_events_keep(struct sv_events *events, struct sv_event event)
{
	uint64_t one = 1;

	if (events->count == events->capacity) {
		uint32_t capacity = events->capacity ? events->capacity * 2 : 16;
		struct sv_event *kept = sv_block_alloc(capacity * sizeof(*kept));

		if (!kept)
			return ENOMEM;
		for (uint32_t i = 0; i < events->count; i++)
			kept[i] = events->kept[(events->head + i) % events->capacity];
		sv_block_free(events->kept, events->capacity * sizeof(*kept));
		events->kept = kept;
		events->head = 0;
		events->capacity = capacity;
	}
	events->kept[(events->head + events->count++) % events->capacity] = event;
	return write(events->wake_fd, &one, sizeof(one)) == sizeof(one) ? 0 : errno;
}

bool sv_events_take(struct sv_events *events, struct sv_event *event)
{
	uint64_t units;

	if (!events->count)
		return false;
	*event = events->kept[events->head];
	events->head = (events->head + 1) % events->capacity;
	events->count--;
	/* Readable as long as events are left; each has been written, for who is woken by edges. */
	if (!events->count)
		(void)!read(events->wake_fd, &units, sizeof(units));
	return true;
}

void sv_events_forget(struct sv_events *events, const void *object)
{
	uint32_t count = events->count;
	struct sv_event event;

	while (count--) {
		sv_events_take(events, &event);
		if (event.object != object)
			sv_events_keep(events, event);	/* there is room: one was just taken */
	}
}

struct sv_thread *sv_events_enter(const char *verb, int *cancel)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancel);
	return sv_gate_enter(verb);
}

void sv_events_leave(struct sv_thread *self, int cancel)
{
	sv_gate_leave(self);
	pthread_setcancelstate(cancel, NULL);
}

/* Would read(2) have been interrupted for good? It is restarted when every handler asks for that. */
static bool interrupts_read(void)
{
	for (int number = 1; number < NSIG; number++) {
		struct sigaction action;

		if (!sv_is_fault(number) && !sigaction(number, NULL, &action) && action.sa_handler != SIG_DFL &&
		    action.sa_handler != SIG_IGN && !(action.sa_flags & SA_RESTART) &&
		    !sv_is_the_jvms((void *)action.sa_handler))
			return true;
	}
	return false;
}

int sv_events_wait(struct sv_events *events)
{
	return sv_readable_wait(events->fd, -1);
}

int sv_readable_wait(int fd, int wake_fd)
{
	struct pollfd ready[] = { { .fd = fd, .events = POLLIN }, { .fd = wake_fd, .events = POLLIN } };
	uint32_t moves = sv_load(&sv_gate_moves);
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && (flags & O_NONBLOCK)) {
		errno = EAGAIN;
		return -1;
	}
	while (poll(ready, 2, -1) < 0) {
		if (errno != EINTR)
			return -1;
		/* A process checkpointer ends the poll of a process that it saves or restores. */
		if ((sv_load(&sv_gate_word) & SV_GATE_CLOSED) || sv_load(&sv_gate_moves) != moves)
			continue;
		if (interrupts_read()) {
			errno = EINTR;
			return -1;
		}
	}
	if (ready[0].revents & POLLNVAL) {
		errno = EBADF;
		return -1;
	}
	return 0;
}
