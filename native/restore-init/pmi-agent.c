// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "pmi-agent.h"
#include "agent-frame.h"

#include <stdlib.h>
#include <unistd.h>

#define PMI_STATE 34
#define PMI_NEWS 35
#define AGENT_SECONDS 5

static struct bytes frame_of(const struct pmi_state *state)
{
	struct bytes b = { 0 };

	frame_begin(&b, PMI_STATE);
	add_i32(&b, PROTOCOL_VERSION);
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
	frame_end(&b);
	return b;
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

bool pmi_tell(const char *agent, const char *job, const struct pmi_state *state, struct pmi_news *news)
{
	struct bytes frame = frame_of(state);
	int fd = agent_connect(agent, job, AGENT_SECONDS);
	size_t size;
	bool told;

	*news = (struct pmi_news){ 0 };
	news->text = fd >= 0 && agent_send(fd, &frame) ? agent_receive(fd, PMI_NEWS, &size) : NULL;
	told = news->text && read_news(news, news->text, size);
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
