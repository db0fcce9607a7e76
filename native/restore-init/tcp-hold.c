// SPDX-License-Identifier: Apache-2.0
/*
 * Holds TCP connections still while they are saved.
 *
 * The processes that have them are stopped, but their kernels go on: what is under way between two hosts would arrive after
 * one end was saved and before the other is, and be in neither image. So each connection gets a filter that drops all that
 * comes in. From then on no byte and no acknowledgement is taken in, and what the other end sends meanwhile stays in its
 * queue. It does not matter in which order hosts do this: what one end has acknowledged the other end has.
 *
 * Commands come as lines on stdin, answers go to stdout:
 *   take PID FD INODE     the socket that process PID has as descriptor FD; a descriptor that is another one by now is an error
 *   hold                  filters are attached to all that were taken; answer: held COUNT
 *   drop                  from now on the end of the sockets is not told to anybody: their processes are to be killed, and
 *                         come back elsewhere; answer: dropped
 * The end of stdin takes the filters away again, and so does the death of the process that started this one. An error is
 * answered with "error TEXT"; then nothing is held.
 *
 * A socket that has a filter of its program's own keeps that one and is not held.
 *
 * An end that hears nothing from the other end while both are held must not take that for its death, however long it takes to save
 * the job. So it does not ask (SO_KEEPALIVE), and has all the patience that there is (TCP_USER_TIMEOUT). An image has the former as it
 * is then: "alive INODE" before "held" says which sockets ask else.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct taken {
	int fd;
	bool held;
	bool asks;			/* SO_KEEPALIVE */
	int patience;			/* TCP_USER_TIMEOUT, in milliseconds; 0: the system's */
	unsigned long inode;
};

static struct taken *sockets;
static size_t nsockets;

static void release(void)
{
	int unused = 0;

	for (size_t i = 0; i < nsockets; i++) {
		struct taken *socket = &sockets[i];
		int on = 1;

		if (!socket->held)
			continue;
		setsockopt(socket->fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused));
		if (socket->asks)
			setsockopt(socket->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
		if (socket->patience)
			setsockopt(socket->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &socket->patience, sizeof(socket->patience));
	}
}

static _Noreturn void fail(const char *what)
{
	int error = errno;

	release();
	printf("error %s: %s\n", what, strerror(error));
	exit(1);
}

static void take(const char *line)
{
	unsigned long inode;
	char what[64];
	struct stat is;
	int pid, fd;
	int pidfd;

	if (sscanf(line, "take %d %d %lu", &pid, &fd, &inode) != 3) {
		errno = EINVAL;
		fail("take");
	}
	snprintf(what, sizeof(what), "descriptor %d of pid %d", fd, pid);
	sockets = reallocarray(sockets, nsockets + 1, sizeof(*sockets));
	if (!sockets)
		fail(what);
	pidfd = syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		fail(what);
	sockets[nsockets] = (struct taken){ .fd = syscall(SYS_pidfd_getfd, pidfd, fd, 0), .inode = inode };
	close(pidfd);
	if (sockets[nsockets].fd < 0)
		fail(what);
	if (fstat(sockets[nsockets].fd, &is) || is.st_ino != inode) {
		errno = ESTALE;
		fail(what);
	}
	nsockets++;
}

/* Returns whether it is held. */
static bool hold_one(struct taken *socket)
{
	struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = { .len = 1, .filter = &nothing };
	const int off = 0, endless = INT_MAX;
	socklen_t size = 0;
	int asks = 0;

	if (!getsockopt(socket->fd, SOL_SOCKET, SO_GET_FILTER, NULL, &size) && size)
		return false;
	if (setsockopt(socket->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)))
		fail("SO_ATTACH_FILTER");
	socket->held = true;
	size = sizeof(asks);
	if (getsockopt(socket->fd, SOL_SOCKET, SO_KEEPALIVE, &asks, &size) ||
	    (asks && setsockopt(socket->fd, SOL_SOCKET, SO_KEEPALIVE, &off, sizeof(off))))
		fail("SO_KEEPALIVE");
	socket->asks = asks;
	size = sizeof(socket->patience);
	if (getsockopt(socket->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &socket->patience, &size) ||
	    (socket->patience && setsockopt(socket->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &endless, sizeof(endless))))
		fail("TCP_USER_TIMEOUT");
	if (asks)
		printf("alive %lu\n", socket->inode);
	return true;
}

static void hold(void)
{
	size_t held = 0;

	for (size_t i = 0; i < nsockets; i++)
		held += hold_one(&sockets[i]);
	printf("held %zu\n", held);
}

/* A connection that is closed in repair mode ends without a word to the other end. */
static void drop(void)
{
	int on = 1;

	for (size_t i = 0; i < nsockets; i++)
		if (setsockopt(sockets[i].fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof(on)))
			fail("TCP_REPAIR");
	printf("dropped\n");
}

int main(void)
{
	struct rlimit files;
	char line[256];

	/* A host's processes may have more connections than one process has descriptors by default. */
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "take ", 5)) {
			take(line);
		} else if (!strcmp(line, "hold\n")) {
			hold();
		} else if (!strcmp(line, "drop\n")) {
			drop();
		} else {
			errno = EINVAL;
			fail("command");
		}
	}
	release();
	return 0;
}
