// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "pmi-agent.h"
#include "../src/base/agent_place.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define VERSION 6		/* FrameType.VERSION */
#define PMI_STATE 34
#define PMI_NEWS 35
#define ANSWER_MAX (64 << 20)	/* FrameType.MAX_FRAME */
#define AGENT_SECONDS 5

struct bytes {
	char *data;
	size_t size, room;
	bool failed;
};

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

static void add_i32(struct bytes *b, int32_t value)
{
	uint32_t big = htobe32(value);

	add(b, &big, sizeof(big));
}

static void add_i64(struct bytes *b, int64_t value)
{
	uint64_t big = htobe64(value);

	add(b, &big, sizeof(big));
}

static void add_string(struct bytes *b, const char *text)
{
	add_i32(b, strlen(text));
	add(b, text, strlen(text));
}

static struct bytes frame_of(const struct pmi_state *state)
{
	struct bytes b = { 0 };
	const char type = PMI_STATE;
	uint32_t length;

	add_i32(&b, 0);
	add(&b, &type, 1);
	add_i32(&b, VERSION);
	add_string(&b, state->space);
	add_i32(&b, state->size);
	add_i64(&b, state->number);
	add_i32(&b, state->nranks);
	for (size_t i = 0; i < state->nranks; i++) {
		add_i32(&b, state->ranks[i].rank);
		add_i64(&b, state->ranks[i].entered);
		add_i64(&b, state->ranks[i].passed);
	}
	add_i32(&b, state->nput);
	for (size_t i = 0; i < state->nput; i++) {
		add_string(&b, state->put[i].key);
		add_string(&b, state->put[i].value);
	}
	add_i32(&b, state->nwanted);
	for (size_t i = 0; i < state->nwanted; i++)
		add_string(&b, state->wanted[i]);
	add_string(&b, state->abort);
	if (!b.failed) {
		length = htobe32(b.size - sizeof(length));
		memcpy(b.data, &length, sizeof(length));
	}
	return b;
}

static bool send_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = send(fd, data, size, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		data += n;
		size -= n;
	}
	return true;
}

static bool read_i32(const char **at, const char *end, uint32_t *value)
{
	if (end - *at < (ptrdiff_t)sizeof(*value))
		return false;
	memcpy(value, *at, sizeof(*value));
	*value = be32toh(*value);
	*at += sizeof(*value);
	return true;
}

static bool read_i64(const char **at, const char *end, int64_t *value)
{
	uint64_t big;

	if (end - *at < (ptrdiff_t)sizeof(big))
		return false;
	memcpy(&big, *at, sizeof(big));
	*value = be64toh(big);
	*at += sizeof(big);
	return true;
}

/* Where the string's end goes is its own length, or that of what follows: both have been read then. */
static bool read_string(char **at, const char *end, const char **text)
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

/* What follows the type of a PMI_NEWS. */
static bool read_news(struct pmi_news *news, char *body, size_t size)
{
	const char *at = body, *end = body + size;
	uint32_t n;
	char *text;

	/* The space and the rank, which it knows. */
	if (!read_i32(&at, end, &n) || n > (size_t)(end - at))
		return false;
	at += n;
	if (!read_i32(&at, end, &n) || !read_i64(&at, end, &news->number) || !read_i64(&at, end, &news->passed) || at == end)
		return false;
	news->all = *at++;
	if (!read_i32(&at, end, &n) || n > (size_t)(end - at) / 8)
		return false;
	news->found = calloc(n ? n : 1, sizeof(*news->found));
	text = body + (at - body);
	for (; news->found && news->nfound < n; news->nfound++)
		if (!read_string(&text, end, &news->found[news->nfound].key) ||
		    !read_string(&text, end, &news->found[news->nfound].value))
			return false;
	return news->found;
}

static bool answer(int fd, struct pmi_news *news)
{
	uint32_t length;

	if (recv(fd, &length, sizeof(length), MSG_WAITALL) != sizeof(length))
		return false;
	length = be32toh(length);
	if (length < 1 || length > ANSWER_MAX || !(news->text = malloc(length)))
		return false;
	return recv(fd, news->text, length, MSG_WAITALL) == (ssize_t)length && news->text[0] == PMI_NEWS &&
	       read_news(news, news->text + 1, length - 1);
}

bool pmi_tell(const char *agent, const char *job, const struct pmi_state *state, struct pmi_news *news)
{
	const struct timeval patience = { .tv_sec = AGENT_SECONDS };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct bytes frame = frame_of(state);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool told;

	*news = (struct pmi_news){ 0 };
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	told = fd >= 0 && !frame.failed && sv_agent_socket(agent, job, address.sun_path, sizeof(address.sun_path)) &&
	       !connect(fd, (struct sockaddr *)&address, sizeof(address)) &&
	       send_all(fd, frame.data, frame.size) && answer(fd, news);
	if (fd >= 0)
		close(fd);
	free(frame.data);
	if (!told)
		pmi_free(news);
	return told;
}

void pmi_free(struct pmi_news *news)
{
	free(news->found);
	free(news->text);
	*news = (struct pmi_news){ 0 };
}
