// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "job-root.h"
#include "lines.h"
#include "namespaces.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RESERVED_SECONDS 60		/* from "start" to "run" of one launch */

struct launch {
	int stand_in;		/* -1 when it was killed */
	pid_t pid;		/* 0: no child of the top has asked for it yet */
	int fds[MAX_FDS + 1];	/* until then */
	int nfds;
};

static struct launch *launches;
static size_t nlaunches;
/* Connections that have not said what they are. */
static int *callers;
static size_t ncallers;
/* Launches that were announced and have not come: of the first one the keeper knows without being told. */
static int reserved = 1;
static time_t reserved_until;
static bool none_left = true;
static pid_t top_pid;
static char report_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
static const char *socket_path;

static void *grown(void *array, size_t size)
{
	void *more = realloc(array, size);

	if (!more)
		die(CANNOT_RUN, "memory", "for launches");
	return more;
}

static void forget(size_t i)
{
	if (launches[i].stand_in >= 0)
		close(launches[i].stand_in);
	close_all(launches[i].fds, launches[i].nfds);
	memmove(&launches[i], &launches[i + 1], (--nlaunches - i) * sizeof(*launches));
}

static void ended(size_t i, int status)
{
	struct message message = { .kind = ENDED, .value = status };

	tell(launches[i].stand_in, &message, NULL, 0);
	forget(i);
}

/* A child of the top asks what it is to become: the program that has waited longest. */
static void asked(int caller)
{
	for (size_t i = 0; i < nlaunches; i++) {
		struct launch *launch = &launches[i];
		struct message message = { .kind = LAUNCH };

		if (launch->pid)
			continue;
		launch->pid = peer_pid(caller);
		/* Nobody stands in for it any more: the child hears nothing, and ends. */
		if (launch->stand_in >= 0)
			tell(caller, &message, launch->fds, launch->nfds);
		close_all(launch->fds, launch->nfds);
		launch->nfds = 0;
		return;
	}
}

/* Returns whether the connection is a stand-in's, which stays. */
static bool called(int caller)
{
	struct message message;
	int fds[MAX_FDS + 1], nfds;

	if (!hear(caller, &message, fds, &nfds)) {
		close_all(fds, nfds);
		return false;
	}
	if (message.kind == LAUNCH && nfds) {
		launches = grown(launches, (nlaunches + 1) * sizeof(*launches));
		launches[nlaunches] = (struct launch){ .stand_in = caller, .nfds = nfds };
		memcpy(launches[nlaunches++].fds, fds, nfds * sizeof(int));
		if (reserved)
			reserved--;
		none_left = false;
		kill(top_pid, SIG_BIRTH);
		return true;
	}
	if (message.kind == LINE && nfds == 2) {
		lines_add(fds[0], fds[1]);
		return false;
	}
	close_all(fds, nfds);
	if (message.kind == ASK) {
		asked(caller);
	} else if (message.kind == RESERVE) {
		if (!message.value)
			reserved++;
		reserved_until = now() + RESERVED_SECONDS;
		tell(caller, &message, NULL, 0);
	}
	return false;
}

static void from_stand_in(size_t i)
{
	struct message message;
	int fds[MAX_FDS + 1], nfds;
	bool heard = hear(launches[i].stand_in, &message, fds, &nfds);

	close_all(fds, nfds);
	if (heard && launches[i].pid > 0) {
		kill(message.kind == GROUP_SIGNAL ? -launches[i].pid : launches[i].pid, message.value);
	} else if (!heard) {
		/* It was killed, and the program is to end as it would have without it. */
		if (launches[i].pid > 0)
			kill(launches[i].pid, SIGKILL);
		close(launches[i].stand_in);
		launches[i].stand_in = -1;
	}
}

static void from_top(int reports)
{
	struct message message;

	if (recv(reports, &message, sizeof(message), 0) != sizeof(message))
		return;
	if (message.kind == NONE_LEFT)
		none_left = true;
	for (size_t i = 0; i < nlaunches; i++)
		if (launches[i].pid && launches[i].pid == message.pid) {
			if (message.kind == ENDED)
				ended(i, message.value);
			else
				tell(launches[i].stand_in, &message, NULL, 0);
			return;
		}
	/* Of a child that could not be had, or ended before it asked. */
	for (size_t i = 0; message.kind == ENDED && i < nlaunches; i++)
		if (!launches[i].pid) {
			ended(i, message.value);
			return;
		}
}

/*
 * From here on nobody comes any more. Whoever has come and was not heard finds the connection closed, and the next one finds no
 * socket: it makes another job root, whose socket this process must leave alone.
 */
static void close_for_good(int *listening)
{
	if (*listening < 0)
		return;
	unlink(socket_path);
	close(*listening);
	*listening = -1;
	close_all(callers, ncallers);
	ncallers = 0;
}

static void __attribute__((noreturn)) end(int listening)
{
	close_for_good(&listening);
	unlink(report_path);
	while (nlaunches)
		ended(nlaunches - 1, SIGKILL);
	exit(0);
}

static void children(int signals, int listening)
{
	struct signalfd_siginfo info;
	pid_t pid;

	if (read(signals, &info, sizeof(info)) < 0)
		return;
	/* The end of this process ends whatever is left. */
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		if (pid == top_pid)
			end(listening);
}

static void serve(int listening, int reports, int signals)
{
	struct pollfd *wait = NULL;

	for (;;) {
		size_t n = 3, had_callers, had_launches = nlaunches, had_lines = lines_count();

		if (reserved && now() >= reserved_until)
			reserved = 0;
		if (none_left && !nlaunches && !reserved) {
			close_for_good(&listening);
			kill(top_pid, SIG_END);
		}
		had_callers = ncallers;
		wait = grown(wait, (3 + ncallers + nlaunches + had_lines) * sizeof(*wait));
		wait[0] = (struct pollfd){ .fd = listening, .events = POLLIN };
		wait[1] = (struct pollfd){ .fd = reports, .events = POLLIN };
		wait[2] = (struct pollfd){ .fd = signals, .events = POLLIN };
		for (size_t i = 0; i < ncallers; i++)
			wait[n++] = (struct pollfd){ .fd = callers[i], .events = POLLIN };
		for (size_t i = 0; i < nlaunches; i++)
			wait[n++] = (struct pollfd){ .fd = launches[i].stand_in, .events = POLLIN };
		lines_wait(wait + n);
		n += had_lines;
		if (poll(wait, n, reserved ? 1000 : -1) <= 0)
			continue;
		lines_copy(wait + n - had_lines, had_lines);
		/* From the end, so that what is removed moves nothing that is still to be looked at. */
		for (size_t i = had_launches; i-- > 0;)
			if (wait[3 + had_callers + i].revents)
				from_stand_in(i);
		for (size_t i = had_callers; i-- > 0;) {
			if (!wait[3 + i].revents)
				continue;
			if (!called(callers[i]))
				close(callers[i]);
			memmove(&callers[i], &callers[i + 1], (--ncallers - i) * sizeof(*callers));
		}
		if (wait[1].revents)
			from_top(reports);
		if (wait[2].revents)
			children(signals, listening);
		if (wait[0].revents) {
			int caller = accept4(listening, NULL, NULL, SOCK_CLOEXEC);

			if (caller >= 0) {
				callers = grown(callers, (ncallers + 1) * sizeof(*callers));
				callers[ncallers++] = caller;
			}
		}
	}
}

void keeper(const char *self, const char *socket, bool user, int ready)
{
	int listening, reports, signals, null;
	unsigned long long name;
	sigset_t all;

	socket_path = socket;
	reserved_until = now() + RESERVED_SECONDS;
	umask(077);
	if (!own_proc())
		die(CANNOT_RUN, "mount", "/proc");
	if (getrandom(&name, sizeof(name), 0) != sizeof(name) ||
	    snprintf(report_path, sizeof(report_path), "%s.%llx", socket_path, name) >= (int)sizeof(report_path)) {
		errno = ENAMETOOLONG;
		die(CANNOT_RUN, "socket", socket_path);
	}
	reports = bound(report_path, SOCK_DGRAM);
	listening = bound(socket_path, SOCK_SEQPACKET);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	top_pid = fork();
	if (top_pid < 0)
		die(CANNOT_RUN, "fork", "");
	if (!top_pid) {
		setsid();
		null = open("/dev/null", O_RDWR | O_NOCTTY);
		for (int fd = 0; fd < 3; fd++)
			dup2(null, fd);
		close(null);
		/* Its segments are saved with the tree then. CRIU can't do that for an ordinary user. */
		if (!user && unshare(CLONE_NEWIPC))
			_exit(CANNOT_RUN);
		execl(self, "shadowverbs-job", "top", socket_path, report_path, NULL);
		_exit(CANNOT_RUN);
	}
	sigemptyset(&all);
	sigaddset(&all, SIGCHLD);
	signals = signalfd(-1, &all, SFD_CLOEXEC);
	if (signals < 0 || listen(listening, SOMAXCONN))
		die(CANNOT_RUN, "listen", socket_path);
	if (write(ready, "ready", 5) != 5)
		exit(1);
	close(ready);
	null = open("/dev/null", O_RDWR | O_NOCTTY);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	close(null);
	serve(listening, reports, signals);
	exit(0);
}
