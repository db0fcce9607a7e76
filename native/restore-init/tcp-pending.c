// SPDX-License-Identifier: Apache-2.0
/* Connections that no program has accepted yet: accepted here, and looked at. What they have had stays in them. */
#define _GNU_SOURCE
#include "tcp-hold.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

struct listener {
	int fd;
	unsigned room;
};

struct pending {
	int fd;
	bool passed;
};

static struct listener *listeners;
static size_t nlisteners;
static struct pending *pending;
static size_t npending;

void pending_listen(int fd, unsigned room)
{
	listeners = reallocarray(listeners, nlisteners + 1, sizeof(*listeners));
	if (!listeners)
		out_of_memory();
	listeners[nlisteners++] = (struct listener){ .fd = fd, .room = room };
}

/*
 * All that wait now are to wait again, all at once. Connections that have not come through their handshake wait beside the queue, so
 * there may be more of them than it has room for. It has room for one more than its program has asked for.
 */
static void make_room(const struct listener *listener)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);

	if (getsockopt(listener->fd, IPPROTO_TCP, TCP_INFO, &info, &size))
		fail("TCP_INFO");
	if (listener->room > info.tcpi_sacked + 1 && listen(listener->fd, listener->room))
		fail("listen");
}

/* IPv4 addresses within IPv6 are IPv4 addresses. */
static void print_address(const struct sockaddr_storage *address)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
	const struct sockaddr_in *four = (const struct sockaddr_in *)address;
	char text[INET6_ADDRSTRLEN];

	if (address->ss_family == AF_INET)
		inet_ntop(AF_INET, &four->sin_addr, text, sizeof(text));
	else if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
		inet_ntop(AF_INET, &six->sin6_addr.s6_addr[12], text, sizeof(text));
	else
		inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof(text));
	/* The port is at the same place in both. */
	printf(" %s %d", text, ntohs(four->sin_port));
}

static void print_data(int fd)
{
	int size = 0, got;
	uint8_t *data;

	/* What has come since is dropped. An end of data counts as a byte here, and is none. */
	if (ioctl(fd, FIONREAD, &size))
		fail("FIONREAD");
	data = malloc(size + 1);
	if (!data)
		out_of_memory();
	got = size ? recv(fd, data, size, MSG_PEEK | MSG_DONTWAIT) : 0;
	if (got < 0 && errno != EAGAIN)
		fail("recv");
	putchar(' ');
	for (int i = 0; i < got; i++)
		printf("%02x", data[i]);
	puts(got > 0 ? "" : "-");
	free(data);
}

static void tell(size_t number)
{
	struct sockaddr_storage local, remote;
	socklen_t local_length = sizeof(local), remote_length = sizeof(remote);
	int fd = pending[number].fd;
	uint32_t expected;

	if (getsockname(fd, (struct sockaddr *)&local, &local_length) || getpeername(fd, (struct sockaddr *)&remote, &remote_length))
		fail("getpeername");
	if (set_repair(fd, true))
		fail("TCP_REPAIR");
	expected = sequence(fd, TCP_RECV_QUEUE);
	/* Outside of repair mode again, so that its client hears of it when this process is killed. */
	if (set_repair(fd, false))
		fail("TCP_REPAIR");
	printf("waits %zu", number);
	print_address(&local);
	print_address(&remote);
	printf(" %u %d", expected, state_of(fd) == TCP_CLOSE_WAIT);
	print_data(fd);
}

/* accept4() on a listener that blocks would wait for the next one. */
static bool waits(int fd)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size))
		fail("TCP_INFO");
	return info.tcpi_unacked > 0;
}

void pending_take(void)
{
	for (size_t i = 0; i < nlisteners; i++) {
		make_room(&listeners[i]);
		while (waits(listeners[i].fd)) {
			int fd = accept4(listeners[i].fd, NULL, NULL, SOCK_CLOEXEC);

			if (fd < 0)
				fail("accept");
			if (state_of(fd) == TCP_CLOSE) {
				close(fd); /* Its client has reset it: there is nothing to come back. */
				continue;
			}
			pending = reallocarray(pending, npending + 1, sizeof(*pending));
			if (!pending)
				out_of_memory();
			pending[npending++] = (struct pending){ .fd = fd };
			filter(fd);
			tell(npending - 1);
		}
	}
}

void pending_passed(unsigned long number)
{
	if (number >= npending) {
		errno = EINVAL;
		fail("passed");
	}
	pending[number].passed = true;
}

/* The clients of those that nobody has passed on must not wait for ever. */
static void reset(int fd)
{
	struct linger at_once = { .l_onoff = 1 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

void pending_release(bool silent)
{
	for (size_t i = 0; i < npending; i++) {
		if (silent || pending[i].passed)
			set_repair(pending[i].fd, true);
		else
			reset(pending[i].fd);
		close(pending[i].fd);
	}
	npending = 0;
	free(pending);
	pending = NULL;
	free(listeners);
	listeners = NULL;
	nlisteners = 0;
}
