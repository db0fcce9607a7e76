// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "agent-frame.h"
#include "../src/base/agent_place.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define FRAME_MAX (64 << 20)	/* FrameType.MAX_FRAME */

static void add(struct bytes *b, const void *data, size_t size)
{
	if (b->size + size > b->room) {
		size_t room = 2 * (b->size + size);
		char *more = b->failed ? NULL : realloc(b->data, room);

		b->failed |= !more;
		if (!more)
			return;
		b->data = more;
		b->room = room;
	}
	memcpy(b->data + b->size, data, size);
	b->size += size;
}

void add_byte(struct bytes *b, char value)
{
	add(b, &value, 1);
}

void add_i32(struct bytes *b, int32_t value)
{
	uint32_t big = htobe32(value);

	add(b, &big, sizeof(big));
}

void add_i64(struct bytes *b, int64_t value)
{
	uint64_t big = htobe64(value);

	add(b, &big, sizeof(big));
}

void add_string(struct bytes *b, const char *text)
{
	add_i32(b, strlen(text));
	add(b, text, strlen(text));
}

void frame_begin(struct bytes *b, char type)
{
	add_i32(b, 0);
	add(b, &type, 1);
}

void frame_end(struct bytes *b)
{
	uint32_t length = htobe32(b->size - sizeof(length));

	if (!b->failed)
		memcpy(b->data, &length, sizeof(length));
}

bool read_i32(const char **at, const char *end, uint32_t *value)
{
	if (end - *at < (ptrdiff_t)sizeof(*value))
		return false;
	memcpy(value, *at, sizeof(*value));
	*value = be32toh(*value);
	*at += sizeof(*value);
	return true;
}

bool read_i64(const char **at, const char *end, int64_t *value)
{
	uint64_t big;

	if (end - *at < (ptrdiff_t)sizeof(big))
		return false;
	memcpy(&big, *at, sizeof(big));
	*value = be64toh(big);
	*at += sizeof(big);
	return true;
}

bool read_string(char **at, const char *end, const char **text)
{
	uint32_t size;
	const char *from = *at;

	if (!read_i32(&from, end, &size) || (size_t)(end - from) < size)
		return false;
	*text = memmove(*at, from, size);
	(*at)[size] = 0;
	*at += sizeof(size) + size;
	return true;
}

int agent_connect(const char *agent, const char *job, int seconds)
{
	const struct timeval patience = { .tv_sec = seconds };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (fd >= 0 && (!sv_agent_socket(agent, job, address.sun_path, sizeof(address.sun_path)) ||
			connect(fd, (struct sockaddr *)&address, sizeof(address)))) {
		close(fd);
		return -1;
	}
	return fd;
}

bool agent_send(int fd, const struct bytes *frame)
{
	const char *data = frame->data;
	size_t size = frame->size;

	while (!frame->failed && size) {
		ssize_t n = send(fd, data, size, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		data += n;
		size -= n;
	}
	return !frame->failed;
}

char *agent_receive_any(int fd, char *type, size_t *size)
{
	uint32_t length;
	char *body;

	if (recv(fd, &length, sizeof(length), MSG_WAITALL) != sizeof(length))
		return NULL;
	length = be32toh(length);
	if (length < 1 || length > FRAME_MAX || !(body = malloc(length)))
		return NULL;
	if (recv(fd, body, length, MSG_WAITALL) != (ssize_t)length) {
		free(body);
		return NULL;
	}
	*type = body[0];
	*size = length - 1;
	memmove(body, body + 1, *size);
	return body;
}

char *agent_receive(int fd, char type, size_t *size)
{
	char has;
	char *body = agent_receive_any(fd, &has, size);

	if (body && has != type) {
		free(body);
		return NULL;
	}
	return body;
}
