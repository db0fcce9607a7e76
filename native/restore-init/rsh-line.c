// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "rsh-line.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define STREAMS 3
#define HEAD 8
/* A pipe that can be written to takes so much without waiting (PIPE_BUF). */
#define PIECE 4096
/* Nothing is read, or acknowledged, while half of it is still to be sent. */
#define OUT_ROOM (128 << 10)
/* Seconds of silence until the other side is asked, between questions, and how many. */
#define IDLE 10
#define INTERVAL 5
#define QUESTIONS 6

struct stream {
	enum { UNUSED, READ, WRITTEN } kind;
	int fd;				/* -1: it has ended here */
	size_t on_the_way;		/* READ: sent and not acknowledged */
	bool ending;			/* WRITTEN: no more comes */
	size_t start, size;		/* WRITTEN: of data */
	size_t written;			/* WRITTEN: and not acknowledged yet */
	char data[RSH_WINDOW];
};

static struct stream streams[STREAMS];
static int line = -1;
static char out[OUT_ROOM];
static size_t out_size;
static char in[HEAD + RSH_WINDOW];
static size_t in_size;

void rsh_open(int socket)
{
	line = socket;
}

bool rsh_is_over(void)
{
	return line < 0;
}

static void over(void)
{
	if (line >= 0)
		close(line);
	line = -1;
}

static void use(int stream, int fd, int kind)
{
	streams[stream].kind = kind;
	streams[stream].fd = fd;
}

void rsh_read_from(int stream, int fd)
{
	use(stream, fd, READ);
}

void rsh_write_to(int stream, int fd)
{
	use(stream, fd, WRITTEN);
}

static void frame(enum rsh_frame type, int stream, uint32_t value, const void *data, size_t size)
{
	uint32_t big = htobe32(value);
	char head[HEAD] = { type, stream };

	if (line < 0)
		return;
	if (out_size + HEAD + size > OUT_ROOM) {
		over();
		return;
	}
	memcpy(head + 4, &big, sizeof(big));
	memcpy(out + out_size, head, HEAD);
	if (size)
		memcpy(out + out_size + HEAD, data, size);
	out_size += HEAD + size;
}

void rsh_tell(enum rsh_frame type, uint32_t value)
{
	frame(type, 0, value, NULL, 0);
}

static void end_here(int stream)
{
	if (streams[stream].fd >= 0)
		close(streams[stream].fd);
	streams[stream].fd = -1;
}

static void read_stream(int stream)
{
	struct stream *s = &streams[stream];
	char data[PIECE];
	ssize_t n = read(s->fd, data, RSH_WINDOW - s->on_the_way < PIECE ? RSH_WINDOW - s->on_the_way : PIECE);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0) {
		s->on_the_way += n;
		frame(RSH_DATA, stream, n, data, n);
	} else {
		end_here(stream);
		frame(RSH_END, stream, 0, NULL, 0);
	}
}

static void write_stream(int stream)
{
	struct stream *s = &streams[stream];
	ssize_t n = write(s->fd, s->data + s->start, s->size < PIECE ? s->size : PIECE);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0) {
		/* Nobody takes more. */
		end_here(stream);
		s->size = 0;
		frame(RSH_END, stream, 0, NULL, 0);
		return;
	}
	s->start += n;
	s->size -= n;
	s->written += n;
	if (!s->size && s->ending)
		end_here(stream);
}

/* Returns whether the other side keeps to the rules. */
static bool take(enum rsh_frame type, int stream, uint32_t value, const char *data,
		 void (*told)(enum rsh_frame type, uint32_t value))
{
	struct stream *s = &streams[stream];

	if (type == RSH_SIGNAL || type == RSH_EXIT) {
		told(type, value);
	} else if (type == RSH_ACK && s->kind == READ && value <= s->on_the_way) {
		s->on_the_way -= value;
	} else if (type == RSH_END && s->kind == READ) {
		end_here(stream);
	} else if (type == RSH_END && s->kind == WRITTEN) {
		s->ending = true;
		if (!s->size)
			end_here(stream);
	} else if (type == RSH_DATA && s->kind == WRITTEN && !s->ending && value <= RSH_WINDOW - s->size) {
		if (s->fd < 0)
			return true;	/* sent before it heard that nobody takes it */
		memmove(s->data, s->data + s->start, s->size);
		s->start = 0;
		memcpy(s->data + s->size, data, value);
		s->size += value;
	} else {
		return false;
	}
	return true;
}

static void receive(void (*told)(enum rsh_frame type, uint32_t value))
{
	ssize_t n = recv(line, in + in_size, sizeof(in) - in_size, MSG_DONTWAIT);
	size_t at = 0;

	if (n <= 0) {
		if (n == 0 || (errno != EINTR && errno != EAGAIN))
			over();
		return;
	}
	in_size += n;
	while (line >= 0 && in_size - at >= HEAD) {
		enum rsh_frame type = in[at];
		uint32_t value;
		size_t size;

		memcpy(&value, in + at + 4, sizeof(value));
		value = be32toh(value);
		size = type == RSH_DATA ? value : 0;
		if ((unsigned char)in[at + 1] >= STREAMS || size > RSH_WINDOW) {
			over();
			return;
		}
		if (in_size - at < HEAD + size)
			break;
		if (!take(type, in[at + 1], value, in + at + HEAD, told))
			over();
		at += HEAD + size;
	}
	memmove(in, in + at, in_size - at);
	in_size -= at;
}

static void transmit(void)
{
	ssize_t n = send(line, out, out_size, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n >= 0) {
		memmove(out, out + n, out_size - n);
		out_size -= n;
	} else if (errno != EINTR && errno != EAGAIN) {
		/* What the other side said last may be there still. */
		out_size = 0;
		shutdown(line, SHUT_WR);
	}
}

bool rsh_move(int other, int timeout, void (*told)(enum rsh_frame type, uint32_t value))
{
	struct pollfd wait[STREAMS + 2];
	bool room = out_size < OUT_ROOM / 2;

	for (int i = 0; i < STREAMS; i++) {
		struct stream *s = &streams[i];
		bool reads = s->kind == READ && s->on_the_way < RSH_WINDOW && room && line >= 0;
		bool writes = s->kind == WRITTEN && s->size;

		if (s->written && room) {
			frame(RSH_ACK, i, s->written, NULL, 0);
			s->written = 0;
		}
		wait[i] = (struct pollfd){ .fd = reads || writes ? s->fd : -1, .events = reads ? POLLIN : POLLOUT };
	}
	wait[STREAMS] = (struct pollfd){ .fd = line, .events = POLLIN | (out_size ? POLLOUT : 0) };
	wait[STREAMS + 1] = (struct pollfd){ .fd = other, .events = POLLIN };
	if (poll(wait, STREAMS + 2, timeout) <= 0)
		return false;
	if (wait[STREAMS].revents & POLLOUT)
		transmit();
	if (wait[STREAMS].revents & ~POLLOUT)
		receive(told);
	for (int i = 0; i < STREAMS; i++)
		if (wait[i].revents && streams[i].fd == wait[i].fd) {
			if (streams[i].kind == READ)
				read_stream(i);
			else
				write_stream(i);
		}
	return wait[STREAMS + 1].revents;
}

bool rsh_has_read_all(void)
{
	for (int i = 0; i < STREAMS; i++)
		if (streams[i].kind == READ && streams[i].fd >= 0)
			return false;
	return true;
}

bool rsh_has_written_all(void)
{
	for (int i = 0; i < STREAMS; i++)
		if (streams[i].kind == WRITTEN && streams[i].fd >= 0 && streams[i].size)
			return false;
	return true;
}

void rsh_keep_alive(int socket)
{
	const int on = 1, idle = IDLE, interval = INTERVAL, questions = QUESTIONS;

	setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &questions, sizeof(questions));
	setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void be_patient(int socket, int seconds)
{
	const struct timeval patience = { .tv_sec = seconds };

	setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

bool rsh_hear_word(int socket, const char *word, size_t size)
{
	char heard[RSH_TOKEN];
	ssize_t n;

	be_patient(socket, RSH_HELLO_SECONDS);
	n = recv(socket, heard, size, MSG_WAITALL);
	be_patient(socket, 0);
	return n == (ssize_t)size && !memcmp(heard, word, size);
}

bool rsh_say_word(int socket, const char *word, size_t size)
{
	ssize_t n;

	be_patient(socket, RSH_HELLO_SECONDS);
	n = send(socket, word, size, MSG_NOSIGNAL);
	be_patient(socket, 0);
	return n == (ssize_t)size;
}
