// SPDX-License-Identifier: Apache-2.0
/*
 * Holds TCP connections still while they are saved.
 *
 * The processes that have them are stopped, but their kernels go on: what is under way between two hosts would arrive after
 * one end was saved and before the other is, and be in neither image. So each connection gets a filter that drops all that
 * comes in. From then on no byte and no acknowledgement is taken in, and what the other end sends meanwhile stays in its
 * queue. It does not matter in which order hosts do this: what one end has acknowledged the other end has.
 *
 * A connection that no program has accepted yet can be in no image: the kernel alone has it, and cannot be given it back. So it
 * is accepted here, to learn what its client has sent. When all is over its client's end makes it again (tcp-again.c), and it
 * waits in the listener's queue as before.
 *
 * What was sent and closed is taken in before that: tcp-room.c.
 *
 * Commands come as lines on stdin, answers go to stdout. DATA is hexadecimal, or "-" when there is none.
 *   open PID FD INODE           a socket makes room until hold, for what its other end has left to send
 *   tell                        all that make room tell so to their other ends; answer: told
 *   take PID FD INODE           the socket that process PID has as descriptor FD; a descriptor that is another one by now is an
 *                               error
 *   listen PID FD INODE ROOM    the same of one that listens; its queue is to have room for so many connections
 *   hold                        filters are attached to all that were taken; answer: held COUNT. From now on none comes to a
 *                               listener any more, so it can be seen from outside which ones wait
 *   accept                      what waits at the listeners is accepted; answer: a line for each,
 *                                 waits NUMBER LOCAL PORT REMOTE PORT SEQUENCE FINISHED DATA
 *                               with the sequence number that is expected next, whether the client's end of data has come (1, 0)
 *                               and what was read; then: accepted
 *   passed NUMBER               the client of the one with that number is going to make it again
 *   again PID FD INODE SEQUENCE DATA
 *                               the connection of this socket is to be made again; its other end has had DATA, and expected
 *                               SEQUENCE next ("-": nothing has come there)
 *   closed LOCAL PORT REMOTE PORT DATA
 *                               likewise, of a socket that its program has closed: the ends as the client has them
 *   check                       answer: ready, when all commands before have been understood
 *   drop                        from now on the end of the sockets is not told to anybody: their processes are to be killed, and
 *                               come back elsewhere; answer: dropped
 * At the end of stdin the filters are taken away, and the connections made again; answer: released, and before it a line "error
 * TEXT" for each one that could not be. The death of the process that started this one is the end of stdin, too. At any other
 * time an error is answered with "error TEXT", and ends it all in the same way.
 *
 * A socket that has a filter of its program's own keeps that one and is not held.
 *
 * An end that hears nothing from the other end while both are held must not take that for its death, however long it takes to save
 * the job. So it does not ask (SO_KEEPALIVE), and has all the patience that there is (TCP_USER_TIMEOUT). An image has the former as it
 * is then: "alive INODE" before "held" says which sockets ask else.
 */
#define _GNU_SOURCE
#include "tcp-hold.h"

#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
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
	bool listens;
	bool held;
	bool asks;			/* SO_KEEPALIVE */
	int patience;			/* TCP_USER_TIMEOUT, in milliseconds; 0: the system's */
	unsigned long inode;
};

static struct taken *sockets;
static size_t nsockets;
static bool dropped;

static void release(void)
{
	int unused = 0;

	room_close();
	/* While nothing is taken in: a client's end that sent something now would hear that there is no such connection. */
	if (!dropped)
		again_unmake();
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
	pending_release(dropped);
	if (!dropped)
		again_make();
}

void complain(const char *format, ...)
{
	va_list values;

	va_start(values, format);
	fputs("error ", stdout);
	vprintf(format, values);
	putchar('\n');
	va_end(values);
}

void fail(const char *what)
{
	complain("%s: %s", what, strerror(errno));
	release();
	exit(1);
}

void out_of_memory(void)
{
	errno = ENOMEM;
	fail("memory");
}

int descriptor_of(int pid, int fd, unsigned long inode)
{
	char what[64];
	struct stat is;
	int pidfd, own;

	snprintf(what, sizeof(what), "descriptor %d of pid %d", fd, pid);
	pidfd = syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		fail(what);
	own = syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	close(pidfd);
	if (own < 0)
		fail(what);
	if (fstat(own, &is) || is.st_ino != inode) {
		errno = ESTALE;
		fail(what);
	}
	return own;
}

bool filter(int fd)
{
	struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = { .len = 1, .filter = &nothing };
	socklen_t instructions = 0;

	if (!getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &instructions) && instructions)
		return false;
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)))
		fail("SO_ATTACH_FILTER");
	return true;
}

static void bad_command(void)
{
	errno = EINVAL;
	fail("command");
}

static void add(int fd, bool listens, unsigned long inode)
{
	sockets = reallocarray(sockets, nsockets + 1, sizeof(*sockets));
	if (!sockets) {
		nsockets = 0;
		out_of_memory();
	}
	sockets[nsockets++] = (struct taken){ .fd = fd, .listens = listens, .inode = inode };
}

static void take(const char *line)
{
	unsigned long inode;
	int pid, fd;

	if (sscanf(line, "take %d %d %lu", &pid, &fd, &inode) != 3)
		bad_command();
	add(descriptor_of(pid, fd, inode), false, inode);
}

static void make_room(const char *line)
{
	unsigned long inode;
	int pid, fd;

	if (sscanf(line, "open %d %d %lu", &pid, &fd, &inode) != 3)
		bad_command();
	room_open(descriptor_of(pid, fd, inode));
}

static void take_listener(const char *line)
{
	unsigned long inode;
	unsigned room;
	int pid, fd;

	if (sscanf(line, "listen %d %d %lu %u", &pid, &fd, &inode, &room) != 4)
		bad_command();
	fd = descriptor_of(pid, fd, inode);
	add(fd, true, inode);
	pending_listen(fd, room);
}

/* An end that asks whether the other one is there would be told that it is not. */
static void keep_quiet(struct taken *socket)
{
	const int off = 0, endless = INT_MAX;
	socklen_t size = sizeof(int);
	int asks = 0;

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
}

/* First the connections, so that none goes on that has been seen to wait; and with the listeners no other one comes. */
static void hold(void)
{
	size_t held = 0;

	for (size_t i = 0; i < nsockets; i++) {
		sockets[i].held = filter(sockets[i].fd);
		if (!sockets[i].held || sockets[i].listens)
			continue;
		keep_quiet(&sockets[i]);
		held++;
	}
	room_close();
	printf("held %zu\n", held);
}

/* A connection that is closed in repair mode ends without a word to the other end. */
static void drop(void)
{
	for (size_t i = 0; i < nsockets; i++)
		if (!sockets[i].listens && set_repair(sockets[i].fd, true))
			fail("TCP_REPAIR");
	dropped = true;
	printf("dropped\n");
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The bytes behind the last space of a line; the caller frees them. */
static uint8_t *data_of(const char *line, size_t *size)
{
	const char *text = strrchr(line, ' ') + 1;
	size_t length = strlen(text);
	uint8_t *data = malloc(length / 2 + 1);

	if (!data)
		out_of_memory();
	*size = 0;
	if (!strcmp(text, "-"))
		return data;
	if (length % 2)
		bad_command();
	for (; *size < length / 2; ++*size) {
		int high = digit(text[2 * *size]), low = digit(text[2 * *size + 1]);

		if (high < 0 || low < 0)
			bad_command();
		data[*size] = high << 4 | low;
	}
	return data;
}

static void again(const char *line)
{
	char expected[16], first;
	unsigned long inode;
	uint8_t *data;
	uint32_t upto;
	size_t size;
	int pid, fd;

	if (sscanf(line, "again %d %d %lu %15s %c", &pid, &fd, &inode, expected, &first) != 5)
		bad_command();
	upto = strtoul(expected, NULL, 10);
	data = data_of(line, &size);
	again_socket(descriptor_of(pid, fd, inode), strcmp(expected, "-") ? &upto : NULL, data, size);
}

static void closed(const char *line)
{
	char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN], first;
	int local_port, remote_port;
	uint8_t *data;
	size_t size;

	if (sscanf(line, "closed %45s %d %45s %d %c", local, &local_port, remote, &remote_port, &first) != 5)
		bad_command();
	data = data_of(line, &size);
	again_closed(local, local_port, remote, remote_port, data, size);
}

static void command(const char *line)
{
	unsigned long number;

	if (!strncmp(line, "take ", 5))
		take(line);
	else if (!strncmp(line, "open ", 5)) {
		make_room(line);
	} else if (!strcmp(line, "tell")) {
		room_tell();
		printf("told\n");
	} else if (!strncmp(line, "listen ", 7))
		take_listener(line);
	else if (!strcmp(line, "hold"))
		hold();
	else if (!strcmp(line, "accept")) {
		pending_take();
		printf("accepted\n");
	} else if (sscanf(line, "passed %lu", &number) == 1)
		pending_passed(number);
	else if (!strncmp(line, "again ", 6))
		again(line);
	else if (!strncmp(line, "closed ", 7))
		closed(line);
	else if (!strcmp(line, "check"))
		printf("ready\n");
	else if (!strcmp(line, "drop"))
		drop();
	else
		bad_command();
}

int main(void)
{
	struct rlimit files;
	char *line = NULL;
	size_t size = 0;
	ssize_t length;

	/* A host's processes may have more connections than one process has descriptors by default. */
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((length = getline(&line, &size, stdin)) > 0) {
		if (line[length - 1] == '\n')
			line[length - 1] = 0;
		command(line);
	}
	free(line);
	release();
	printf("released\n");
	free(sockets);
	return 0;
}
