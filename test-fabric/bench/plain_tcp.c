/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain sockets over the loopback, for comparison with ib2tcp: what the same work costs a program that has nothing but
 * TCP between itself and its peer. It waits as a program does that polls a completion queue: it looks again and again.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP 1000
/* Messages that may be under way: as many as perftest's send queue holds. */
#define WINDOW 128

static void die(const char *what)
{
	fprintf(stderr, "plain-tcp: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void send_all(int fd, const char *from, size_t size)
{
	while (size) {
		ssize_t n = send(fd, from, size, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			die("send");
		if (n > 0)
			from += n, size -= n;
	}
}

static void receive_all(int fd, char *to, size_t size)
{
	while (size) {
		ssize_t n = recv(fd, to, size, MSG_DONTWAIT);

		if (!n || (n < 0 && errno != EAGAIN))
			die("recv");
		if (n > 0)
			to += n, size -= n;
	}
}

static int compare(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* Half of a round trip in microseconds, the median. */
static double ping_pong(int fd, char *buffer, size_t size, long iterations, int begins)
{
	double *round_trips = malloc(iterations * sizeof(*round_trips));
	double start, median;

	if (!round_trips)
		die("malloc");
	for (long i = -WARM_UP; i < iterations; i++) {
		start = now();
		if (begins)
			send_all(fd, buffer, size);
		receive_all(fd, buffer, size);
		if (!begins)
			send_all(fd, buffer, size);
		if (i >= 0)
			round_trips[i] = now() - start;
	}
	qsort(round_trips, iterations, sizeof(*round_trips), compare);
	median = round_trips[iterations / 2] / 2 * 1e6;
	free(round_trips);
	return median;
}

/* Millions of messages a second, each sent and received by itself; every WINDOW the receiver answers with one byte. */
static double rate(int fd, char *buffer, size_t size, long iterations, int begins)
{
	double start = 0;
	char answer = 0;

	for (long i = -WARM_UP; i < iterations; i++) {
		if (!i)
			start = now();
		if (begins)
			send_all(fd, buffer, size);
		else
			receive_all(fd, buffer, size);
		if ((i + WARM_UP) % WINDOW == WINDOW - 1) {
			if (begins)
				receive_all(fd, &answer, 1);
			else
				send_all(fd, &answer, 1);
		}
	}
	return iterations / (now() - start) / 1e6;
}

static int connection(const char *port, int listens)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(port)),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0), peer = fd;

	if (fd < 0)
		die("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (listens) {
		if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 1))
			die("listen");
		peer = accept(fd, NULL, NULL);
		if (peer < 0)
			die("accept");
	} else if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		die("connect");
	}
	setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return peer;
}

int main(int argc, char **argv)
{
	char buffer[4096] = { 0 };
	int begins, fd;

	if (argc != 6 || (strcmp(argv[1], "latency") && strcmp(argv[1], "rate")) || atoi(argv[2]) < 1 ||
	    atoi(argv[2]) > (int)sizeof(buffer) || atol(argv[3]) < 1 ||
	    (strcmp(argv[5], "server") && strcmp(argv[5], "client"))) {
		fprintf(stderr, "usage: plain-tcp latency|rate BYTES ITERATIONS PORT server|client\n"
			"Prints microseconds for one way, or millions of messages a second; BYTES up to %zu.\n",
			sizeof(buffer));
		return 2;
	}
	begins = !strcmp(argv[5], "client");
	fd = connection(argv[4], !begins);
	printf("%.3f\n", (strcmp(argv[1], "rate") ? ping_pong : rate)(fd, buffer, atoi(argv[2]), atol(argv[3]), begins));
	return 0;
}
