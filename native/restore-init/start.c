// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "job-root.h"
#include "namespaces.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t top_of(pid_t keeper_pid)
{
	char path[64], *children;
	pid_t pid;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", keeper_pid, keeper_pid);
	children = read_all(path);
	pid = children ? atoi(children) : 0;
	free(children);
	return pid;
}

static void make(const char *self, const char *socket, bool user)
{
	int ready[2], status;
	const char *what;
	char word[8];
	pid_t child;

	if (pipe2(ready, O_CLOEXEC))
		die(CANNOT_RUN, "pipe", "");
	child = fork();
	if (child < 0)
		die(CANNOT_RUN, "fork", "");
	if (!child) {
		pid_t inner;

		close(ready[0]);
		setsid();
		for (int fd = 3; fd < 1024; fd++)
			if (fd != ready[1])
				close(fd);
		if (user && !user_namespace(&what))
			die(CANNOT_RUN, "make", what);
		if (unshare(CLONE_NEWPID | CLONE_NEWNS))
			die(CANNOT_RUN, "make", "a pid and a mount namespace");
		inner = fork();
		if (inner < 0)
			die(CANNOT_RUN, "fork", "");
		if (!inner)
			keeper(self, socket, user, ready[1]);
		_exit(0);
	}
	close(ready[1]);
	/* Also at the end of the child and the keeper, which hold the other end. */
	if (poll(&(struct pollfd){ .fd = ready[0], .events = POLLIN }, 1, 1000 * ANSWER_SECONDS) == 0) {
		errno = ETIMEDOUT;
		die(CANNOT_RUN, "wait for the job root at", socket);
	}
	if (waitpid(child, &status, 0) != child)
		die(CANNOT_RUN, "wait", "for the job root");
	/* The keeper has said why it ended, if it has. */
	if (status || read(ready[0], word, sizeof(word)) != 5)
		exit(CANNOT_RUN);
	close(ready[0]);
}

/* Another launch that holds it makes the job root now. */
static void take(int locked, const char *lock)
{
	const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };

	for (time_t until = now() + ANSWER_SECONDS; flock(locked, LOCK_EX | LOCK_NB); nanosleep(&pause, NULL)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			die(CANNOT_RUN, "lock", lock);
		if (now() >= until) {
			errno = ETIMEDOUT;
			die(CANNOT_RUN, "wait for another launch, which has locked", lock);
		}
	}
}

int start(const char *self, const char *socket, bool user)
{
	char lock[PATH_MAX];
	struct message message = { .kind = RESERVE };
	int fd, locked, fds[MAX_FDS + 1], nfds;

	snprintf(lock, sizeof(lock), "%s.lock", socket);
	locked = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (locked < 0)
		die(CANNOT_RUN, "open", lock);
	take(locked, lock);
	for (int tries = 0; tries < 3; tries++) {
		fd = connect_to(socket);
		if (fd < 0) {
			make(self, socket, user);
			message.value = 1;
			fd = connect_to(socket);
		}
		if (fd < 0)
			continue;
		expect_answer(fd);
		if (tell(fd, &message, NULL, 0) && hear(fd, &message, fds, &nfds)) {
			printf("%d\n", top_of(peer_pid(fd)));
			return 0;
		}
		close(fd);	/* one that was just ending */
	}
	die(CANNOT_RUN, "no answer from the job root at", socket);
}
