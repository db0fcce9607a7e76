#include "open.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "../common/die.h"
#include "../common/work_clock.h"
#include "blocking.h"
#include "end.h"
#include "poller.h"
#include "run.h"

#define LATE_US 1500000

struct slot {
	int target;
	enum kind kind;
	atomic_bool open;
	_Atomic uint64_t due_ms;
};

static struct slot slots[MAX_PROCESSES][MAX_SLOTS];
static uint32_t opened[MAX_PROCESSES];
static uint16_t late_ports[MAX_PROCESSES];
static int late_listener;

static void set_port(struct sockaddr_storage *address, uint16_t port)
{
	/* In both families it is at the same place. */
	((struct sockaddr_in *)address)->sin_port = htons(port);
}

int open_listener(struct sockaddr_storage *address, socklen_t length)
{
	int on = 1, fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		die(errno, "a socket to listen");
	if (bind(fd, (struct sockaddr *)address, length) || listen(fd, SOMAXCONN))
		die(errno, "listening at port %d", ntohs(((struct sockaddr_in *)address)->sin_port));
	if (getsockname(fd, (struct sockaddr *)address, &length))
		die(errno, "getsockname");
	return fd;
}

static void *accept_at_once(void *argument)
{
	int listener = (int)(intptr_t)argument;

	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0)
			pollers_take(end_accepted(fd));
		else if (errno != EINTR)
			die(errno, "accept");
	}
	return NULL;
}

static void *accept_late(void *unused)
{
	(void)unused;
	for (;;) {
		int fd = accept4(late_listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0)
			pollers_take(end_accepted(fd));
		else if (errno == EAGAIN)
			work_clock_rest(LATE_US);
		else if (errno != EINTR)
			die(errno, "accept");
	}
	return NULL;
}

static void start(void *(*work)(void *), void *argument)
{
	pthread_t thread;
	int error = pthread_create(&thread, NULL, work, argument);

	if (error)
		die(error, "pthread_create");
	pthread_detach(thread);
}

/*
 * A little too few for those who come between two accepts, so that some have to ask again. With much less room the kernel would
 * turn to SYN cookies, and with them reset connections by itself.
 */
static int late_backlog(void)
{
	int slots = 0;

	for (int i = 0; i < run.settings.slots; i++)
		slots += kind_of_slot(i, run.settings.kinds) == KIND_LATE;
	return slots * (run.settings.processes - 1) * 3 / 4 + 1;
}

void open_acceptors(int prompt, int late)
{
	if (listen(late, late_backlog()) || fcntl(late, F_SETFL, O_NONBLOCK))
		die(errno, "the late listener");
	late_listener = late;
	start(accept_at_once, (void *)(intptr_t)prompt);
	start(accept_late, NULL);
	for (int process = 0; process < run.settings.processes; process++)
		for (int i = 0; i < run.settings.slots; i++)
			slots[process][i] = (struct slot){ .target = process, .kind = kind_of_slot(i, run.settings.kinds) };
}

void open_set_late_port(int process, uint16_t port)
{
	late_ports[process] = port;
}

static void open_one(struct slot *slot)
{
	const struct place *place = &run.settings.places[slot->target];
	struct sockaddr_storage address = place->address;
	int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct end *end;

	if (fd < 0)
		die(errno, "socket");
	slot->open = true;
	run.opened++;
	end = end_opened(fd, slot->target, opened[slot->target]++, slot->kind, slot);
	if (slot->kind == KIND_BLOCKING) {
		blocking_take(end);
		return;
	}
	if (slot->kind == KIND_LATE)
		set_port(&address, late_ports[slot->target]);
	if (connect(fd, (struct sockaddr *)&address, place->length) && errno != EINPROGRESS)
		end_error(end, errno, "connect");
	pollers_take(end);
}

void open_due(void)
{
	uint64_t now = now_ms();

	for (int process = 0; process < run.settings.processes; process++) {
		if (!late_ports[process])
			continue;
		for (int i = 0; i < run.settings.slots && !run.stopping; i++)
			if (!slots[process][i].open && slots[process][i].due_ms <= now)
				open_one(&slots[process][i]);
	}
}

void slot_ended(struct slot *slot)
{
	uint32_t again = behaviours[slot->kind].again_ms;

	/* One that was to last and has ended is not opened anew. */
	slot->due_ms = again ? now_ms() + again : UINT64_MAX;
	slot->open = false;
}

bool open_is_complete(void)
{
	for (int process = 0; process < run.settings.processes; process++)
		if (process != run.settings.me && opened[process] < (uint32_t)run.settings.slots)
			return false;
	return true;
}

bool open_is_over(int process)
{
	for (int i = 0; i < run.settings.slots; i++)
		if (slots[process][i].open)
			return false;
	return true;
}

uint32_t open_count(int process)
{
	return opened[process];
}
