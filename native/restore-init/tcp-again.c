// SPDX-License-Identifier: Apache-2.0
/*
 * Makes connections again by their client's end, which its program has as before: the same socket, with the same addresses. The
 * program has had nothing from the other end, which no program has accepted yet, so there is nothing that it could miss.
 */
#define _GNU_SOURCE
#include "tcp-hold.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* A first segment that meets an end of before is lost, and comes again after 1 s, 3 s, 7 s. */
#define DEADLINE_S 20
/* What the kernel needs for its own beside the data of a buffer. */
#define SPARE_BUFFER 65536

struct again {
	int fd;
	bool closed; /* its program has closed it: the socket is ours */
	bool known;  /* something has come to the other end, up to: */
	uint32_t upto;
	uint8_t *data; /* what the other end has had; then all that is to be sent */
	size_t size;
	struct sockaddr_storage local, remote;
	socklen_t length;
	int flags;     /* of the open file; its program's */
	bool unmade;   /* and so to be made */
	bool connects; /* it is on its way */
	bool finish;   /* its end of data was sent, too */
};

static struct again *all;
static size_t count;

static struct again *another(uint8_t *data, size_t size)
{
	all = reallocarray(all, count + 1, sizeof(*all));
	if (!all) {
		count = 0;
		out_of_memory();
	}
	all[count] = (struct again){ .fd = -1, .data = data, .size = size, .length = sizeof(struct sockaddr_storage) };
	return &all[count++];
}

void again_socket(int fd, const uint32_t *upto, uint8_t *data, size_t size)
{
	struct again *again = another(data, size);

	again->fd = fd;
	again->known = upto;
	again->upto = upto ? *upto : 0;
}

static socklen_t parse(const char *text, int port, struct sockaddr_storage *address)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
	struct sockaddr_in *four = (struct sockaddr_in *)address;

	memset(address, 0, sizeof(*address));
	if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
		address->ss_family = AF_INET;
		four->sin_port = htons(port);
		return sizeof(*four);
	}
	if (inet_pton(AF_INET6, text, &six->sin6_addr) == 1) {
		address->ss_family = AF_INET6;
		six->sin6_port = htons(port);
		return sizeof(*six);
	}
	errno = EINVAL;
	fail("address");
}

void again_closed(const char *local, int local_port, const char *remote, int remote_port, uint8_t *data, size_t size)
{
	struct again *again = another(data, size);

	again->closed = true;
	again->finish = true;
	again->length = parse(local, local_port, &again->local);
	if (parse(remote, remote_port, &again->remote) != again->length) {
		errno = EAFNOSUPPORT;
		fail("address");
	}
}

/* ---- one connection ---- */

static void give_up(struct again *again, const char *what)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&again->remote;
	const struct sockaddr_in *four = (const struct sockaddr_in *)&again->remote;
	char text[INET6_ADDRSTRLEN] = "?";
	int error = errno;

	if (again->remote.ss_family == AF_INET)
		inet_ntop(AF_INET, &four->sin_addr, text, sizeof(text));
	else
		inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof(text));
	complain("the connection from port %d to %s port %d could not be made again: %s: %s", ntohs(((struct sockaddr_in *)&again->local)->sin_port), text,
		 ntohs(four->sin_port), what, strerror(error));
	again->connects = false;
}

/* What the client's end still has, of which the other end may have had the beginning, goes behind what that end has had. */
static bool append_queue(struct again *again)
{
	uint32_t first, next = sequence(again->fd, TCP_SEND_QUEUE);
	int queued, got;
	size_t had;
	uint8_t *data;

	if (ioctl(again->fd, SIOCOUTQ, &queued))
		return false;
	if (queued == 0)
		return true;
	first = next - queued;
	data = malloc(queued);
	if (!data)
		return false;
	got = recv(again->fd, data, queued, MSG_PEEK | MSG_DONTWAIT);
	if (got < 0) {
		free(data);
		return errno == EAGAIN;
	}
	had = again->known ? again->upto - first : 0;
	if (had < (size_t)got) {
		uint8_t *larger = realloc(again->data, again->size + got - had);

		if (!larger) {
			free(data);
			return false;
		}
		memcpy(larger + again->size, data + had, got - had);
		again->data = larger;
		again->size += got - had;
	}
	free(data);
	return true;
}

/* The connection is forgotten, and the socket bound to the same address. Only in repair mode is nobody told, and no port in use. */
static bool unmake(struct again *again)
{
	const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
	socklen_t length;
	int error;

	if (connect(again->fd, &nowhere, sizeof(nowhere)))
		return false;
	length = sizeof(error);
	getsockopt(again->fd, SOL_SOCKET, SO_ERROR, &error, &length); /* which takes it away */
	/* A port that its program has chosen has stayed; any other one has gone, whatever getsockname() says. */
	return !bind(again->fd, (struct sockaddr *)&again->local, again->length) || errno == EINVAL;
}

/* What is left is a socket with the connection's own address. */
static bool forget(struct again *again)
{
	int reuse = 0;
	socklen_t size = sizeof(reuse);
	bool done;

	getsockopt(again->fd, SOL_SOCKET, SO_REUSEADDR, &reuse, &size);
	if (set_repair(again->fd, true)) {
		give_up(again, "TCP_REPAIR");
		return false;
	}
	if (again->closed)
		done = !bind(again->fd, (struct sockaddr *)&again->local, again->length);
	else
		done = append_queue(again) && unmake(again);
	if (!done)
		give_up(again, "its socket");
	set_repair(again->fd, false);
	/* Repair mode has its own, and forgets the program's. */
	setsockopt(again->fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
	return done;
}

static void unmake_one(struct again *again)
{
	if (again->closed) {
		again->fd = socket(again->local.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (again->fd < 0) {
			give_up(again, "socket");
			return;
		}
	} else {
		int state = state_of(again->fd);
		socklen_t length = again->length;

		/* Its first segment is sent again by itself, or it has been told that there is no connection any more. */
		if (state == TCP_SYN_SENT || state == TCP_CLOSE)
			return;
		again->finish = state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT;
		if (getsockname(again->fd, (struct sockaddr *)&again->local, &length) ||
		    getpeername(again->fd, (struct sockaddr *)&again->remote, &again->length)) {
			give_up(again, "getpeername");
			return;
		}
	}
	again->unmade = forget(again);
}

static void start(struct again *again)
{
	again->flags = fcntl(again->fd, F_GETFL);
	fcntl(again->fd, F_SETFL, again->flags | O_NONBLOCK);
	again->connects = true;
	if (connect(again->fd, (struct sockaddr *)&again->remote, again->length) && errno != EINPROGRESS)
		give_up(again, "connect");
}

static int milliseconds_until(const struct timespec *end)
{
	struct timespec now;
	long left;

	clock_gettime(CLOCK_MONOTONIC, &now);
	left = (end->tv_sec - now.tv_sec) * 1000 + (end->tv_nsec - now.tv_nsec) / 1000000;
	return left > 0 ? left : 0;
}

static bool await_writable(const struct again *again, const struct timespec *end)
{
	struct pollfd ready = { .fd = again->fd, .events = POLLOUT };

	if (poll(&ready, 1, milliseconds_until(end)) > 0)
		return true;
	errno = ETIMEDOUT;
	return false;
}

/* All that its program had sent fits into its buffer, which may be smaller than that: the other end had a part of it already. */
static bool send_all(struct again *again, const struct timespec *end)
{
	int buffer, locks, larger = again->size + SPARE_BUFFER;
	socklen_t size = sizeof(buffer);
	bool locked;
	size_t sent = 0;

	if (getsockopt(again->fd, SOL_SOCKET, SO_SNDBUF, &buffer, &size))
		return false;
	size = sizeof(locks);
	locked = !getsockopt(again->fd, SOL_SOCKET, SO_BUF_LOCK, &locks, &size);
	/* The kernel doubles what it is given. */
	if (larger > buffer / 2 && setsockopt(again->fd, SOL_SOCKET, SO_SNDBUFFORCE, &larger, sizeof(larger)))
		return false;
	while (sent < again->size) {
		ssize_t more = send(again->fd, again->data + sent, again->size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (more > 0)
			sent += more;
		else if (errno != EAGAIN || !await_writable(again, end))
			return false;
	}
	if (larger > buffer / 2) {
		buffer /= 2;
		setsockopt(again->fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer));
		if (locked)
			setsockopt(again->fd, SOL_SOCKET, SO_BUF_LOCK, &locks, sizeof(locks));
	}
	return true;
}

static void finish(struct again *again, const struct timespec *end)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (!await_writable(again, end)) {
		give_up(again, "connect");
	} else if (getsockopt(again->fd, SOL_SOCKET, SO_ERROR, &error, &size) || error) {
		errno = error;
		give_up(again, "connect");
	} else if (!send_all(again, end)) {
		give_up(again, "send");
	} else if (again->finish && shutdown(again->fd, SHUT_WR)) {
		give_up(again, "shutdown");
	}
	fcntl(again->fd, F_SETFL, again->flags);
}

void again_unmake(void)
{
	for (size_t i = 0; i < count; i++)
		unmake_one(&all[i]);
}

void again_make(void)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += DEADLINE_S;
	for (size_t i = 0; i < count; i++)
		if (all[i].unmade)
			start(&all[i]);
	for (size_t i = 0; i < count; i++) {
		if (all[i].connects)
			finish(&all[i], &end);
		if (all[i].fd >= 0)
			close(all[i].fd);
		free(all[i].data);
	}
	free(all);
	all = NULL;
	count = 0;
}
