/* SPDX-License-Identifier: Apache-2.0 */
/* TCP connections of a test, with both ends in its process, that nobody has accepted, and what must be true of them afterwards. */
#ifndef TCP_CONNECTION_H
#define TCP_CONNECTION_H

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CHECK(condition)                                                                                      \
	do {                                                                                                  \
		if (!(condition)) {                                                                           \
			fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, test, #condition,         \
				strerror(errno));                                                             \
			exit(1);                                                                              \
		}                                                                                             \
	} while (0)

#define DEADLINE_MS 30000
#define MUCH (6 << 20)

/* Which one runs, for messages. */
extern const char *test;
/* What all of them send. */
extern uint8_t content[MUCH];

struct connection {
	int client;
	size_t sent;
	struct sockaddr_storage name;
};

void make_content(void);
socklen_t parse(const char *address, int port, struct sockaddr_storage *name);
int port_of(int fd);
int listener(const char *address, int backlog);
/* Sends so much, or as much as goes. */
void send_some(struct connection *connection, size_t size);
struct connection opened(const char *address, int port, size_t size);
/* Until nothing is under way any more that the other end has room for. */
void settle(const struct connection *connection);
void wait_for(int fd, short events);
int accepted(int fd, struct sockaddr_storage *peer);
void receives(int fd, size_t size);
/* What the server's program finds is what it would have found, and the two can speak to each other. */
void is_as_before(int listening, struct connection *connection, bool finished);

#endif
