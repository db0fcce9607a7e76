// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "tcp_connection.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

const char *test = "start";
uint8_t content[MUCH];

void make_content(void)
{
	for (size_t i = 0; i < MUCH; i++)
		content[i] = i * 2654435761u >> 13;
}

socklen_t parse(const char *address, int port, struct sockaddr_storage *name)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)name;
	struct sockaddr_in *four = (struct sockaddr_in *)name;

	memset(name, 0, sizeof(*name));
	if (inet_pton(AF_INET, address, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
		return sizeof(*four);
	}
	CHECK(inet_pton(AF_INET6, address, &six->sin6_addr) == 1);
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(port);
	return sizeof(*six);
}

int port_of(int fd)
{
	struct sockaddr_storage name;
	socklen_t length = sizeof(name);

	CHECK(!getsockname(fd, (struct sockaddr *)&name, &length));
	return ntohs(((struct sockaddr_in *)&name)->sin_port);
}

int listener(const char *address, int backlog)
{
	struct sockaddr_storage name;
	socklen_t length = parse(address, 0, &name);
	int fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&name, length) && !listen(fd, backlog));
	return fd;
}

void send_some(struct connection *connection, size_t size)
{
	while (connection->sent < size) {
		ssize_t more = send(connection->client, content + connection->sent, size - connection->sent, MSG_DONTWAIT);

		if (more < 0) {
			CHECK(errno == EAGAIN);
			return;
		}
		connection->sent += more;
	}
}

struct connection opened(const char *address, int port, size_t size)
{
	struct connection connection = { .client = socket(strchr(address, ':') ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	struct sockaddr_storage name;
	socklen_t length = parse(address, port, &name);

	CHECK(connection.client >= 0 && !connect(connection.client, (struct sockaddr *)&name, length));
	length = sizeof(connection.name);
	CHECK(!getsockname(connection.client, (struct sockaddr *)&connection.name, &length));
	send_some(&connection, size);
	return connection;
}

void settle(const struct connection *connection)
{
	int queued = 1, before = -1;

	for (int looks = 0; queued && queued != before && looks < 1000; looks++) {
		before = queued;
		usleep(30000);
		CHECK(!ioctl(connection->client, SIOCOUTQ, &queued));
	}
}

void wait_for(int fd, short events)
{
	struct pollfd ready = { .fd = fd, .events = events };

	CHECK(poll(&ready, 1, DEADLINE_MS) == 1);
}

int accepted(int fd, struct sockaddr_storage *peer)
{
	socklen_t length = sizeof(*peer);
	int one;

	wait_for(fd, POLLIN);
	one = accept4(fd, (struct sockaddr *)peer, &length, SOCK_CLOEXEC);
	CHECK(one >= 0);
	return one;
}

void receives(int fd, size_t size)
{
	static uint8_t got[MUCH];
	size_t read = 0;

	while (read < size) {
		ssize_t more;

		wait_for(fd, POLLIN);
		more = recv(fd, got + read, size - read, 0);
		CHECK(more > 0);
		read += more;
	}
	CHECK(!memcmp(got, content, size));
}

void is_as_before(int listening, struct connection *connection, bool finished)
{
	struct sockaddr_storage peer;
	int server = accepted(listening, &peer);
	char byte = 0;

	CHECK(((struct sockaddr_in *)&peer)->sin_port == ((struct sockaddr_in *)&connection->name)->sin_port);
	receives(server, connection->sent);
	if (finished) {
		wait_for(server, POLLIN);
		CHECK(recv(server, &byte, 1, 0) == 0);
	} else if (connection->client >= 0) {
		CHECK(recv(server, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
		CHECK(send(connection->client, "c", 1, 0) == 1);
		wait_for(server, POLLIN);
		CHECK(recv(server, &byte, 1, 0) == 1 && byte == 'c');
	}
	if (connection->client >= 0) {
		CHECK(send(server, "s", 1, 0) == 1);
		wait_for(connection->client, POLLIN);
		CHECK(recv(connection->client, &byte, 1, 0) == 1 && byte == 's');
		close(connection->client);
	}
	close(server);
}
