// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "pmi.h"
#include "job-root.h"
#include "pmi-agent.h"
#include "pmi-text.h"
#include "say.h"

#include <fcntl.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define TICK_MS 1000		/* so often it is looked whether this process was restored elsewhere */
#define ASK_MS 100		/* and the agent is asked while a rank waits for others */
#define READ_SIZE 65536
#define NO_SPAWN "ShadowVerbs_refuses_spawn:_what_the_launcher_starts_cannot_be_saved_with_the_job"
#define NO_NAMES "there_are_no_published_names_after_a_restart"

struct pair {
	char *key, *value;
	bool put;		/* by a rank of this tree, whose word others have to take for it */
	bool told;		/* to the agent that there is now */
};

struct buffer {
	char *data;
	size_t size;
};

/* What a rank waits for. */
struct request {
	char *text;
	int64_t number;		/* of the first state in which others were asked for it; 0: they were not */
};

struct space {
	char *name;
	int32_t size;
	void *values;		/* a tree of pairs */
	void *nodes;		/* and of what the ranks of this host have told each other */
	int64_t number;		/* of the last state */
	char *abort;
	char job[PMI_NAME];
};

struct line {
	int rank_end;
	int launcher_end;	/* -1: nobody is behind it */
	int other_end;		/* of the same socket, which the keeper has, too; without it CRIU would take that for a loss */
	int version;
	int32_t rank;
	struct space *space;	/* NULL: the child that becomes the program has not spoken yet */
	struct buffer from_rank, from_launcher;
	struct request *open;	/* asked and not answered */
	size_t nopen;
	void *answers;		/* a tree: what the launcher has answered to what */
	int64_t entered, passed;
	bool told;
	bool over;		/* the others are told, and do not wait for it */
};

/* Requests of version 1 and what their answers are called; those of version 2 have "-response" behind their name. */
static const struct { const char *request, *answer; } answers_of_1[] = {
	{ "init", "response_to_init" }, { "get_maxes", "maxes" }, { "get_universe_size", "universe_size" },
	{ "get_appnum", "appnum" }, { "get_my_kvsname", "my_kvsname" }, { "put", "put_result" }, { "get", "get_result" },
	{ "barrier_in", "barrier_out" }, { "finalize", "finalize_ack" }, { "publish_name", "publish_result" },
	{ "unpublish_name", "unpublish_result" }, { "lookup_name", "lookup_result" }, { "spawn", "spawn_result" },
};

static struct line **lines;
static size_t nlines;
static struct space **spaces;
static size_t nspaces;
static int waiting;		/* epoll */
static const char *(*place)(void);
static char *placed;
static const char *agent;
static bool alone;		/* since a restart: the launcher is not there */

static void *must(void *memory)
{
	if (!memory)
		die(CANNOT_RUN, "memory", "for PMI");
	return memory;
}

static char *text_of(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	return must(text);
}

/* ---- what is kept ---- */

static int compare(const void *one, const void *other)
{
	return strcmp(((const struct pair *)one)->key, ((const struct pair *)other)->key);
}

static struct pair *look_up(void **tree, const char *key)
{
	struct pair **found = tfind(&(struct pair){ .key = (char *)key }, tree, compare);

	return found ? *found : NULL;
}

static struct pair *keep(void **tree, const char *key, const char *value)
{
	struct pair *pair = look_up(tree, key);

	if (!pair) {
		pair = must(calloc(1, sizeof(*pair)));
		pair->key = must(strdup(key));
		must(tsearch(pair, tree, compare));
	}
	free(pair->value);
	pair->value = must(strdup(value));
	return pair;
}

static void forget_pair(void *pair)
{
	free(((struct pair *)pair)->key);
	free(((struct pair *)pair)->value);
	free(pair);
}

static struct space *space_of(const char *name, int32_t size)
{
	struct space *space;

	for (size_t i = 0; i < nspaces; i++)
		if (!strcmp(spaces[i]->name, name))
			return spaces[i];
	space = must(calloc(1, sizeof(*space)));
	space->name = must(strdup(name));
	space->size = size;
	spaces = must(realloc(spaces, (nspaces + 1) * sizeof(struct space *)));
	spaces[nspaces++] = space;
	return space;
}

/* Hydra does not say in the environment which ranks belong together; each message about values does. */
static void learn_space(struct line *line, const char *text)
{
	char *name = *line->space->name ? NULL : pmi_value(line->version, text, "kvsname");

	if (name) {
		struct space *space = space_of(name, line->space->size);

		memcpy(space->job, line->space->job, sizeof(space->job));
		line->space = space;
	}
	free(name);
}

/* ---- lines ---- */

static void watch(int fd, struct line *line)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = line };

	epoll_ctl(waiting, EPOLL_CTL_ADD, fd, &event);
}

/* A child that has not become its program yet may have the same socket: so it has to be taken out. */
static void drop(int *fd)
{
	if (*fd < 0)
		return;
	epoll_ctl(waiting, EPOLL_CTL_DEL, *fd, NULL);
	close(*fd);
	*fd = -1;
}

/* Who goes through the requests of a line and answers them looks for that, too: it may end over an answer, and has none then. */
static void close_request(struct line *line, size_t i)
{
	if (i >= line->nopen)
		return;
	free(line->open[i].text);
	memmove(&line->open[i], &line->open[i + 1], (--line->nopen - i) * sizeof(*line->open));
}

static void close_line(struct line *line)
{
	drop(&line->rank_end);
	drop(&line->launcher_end);
	drop(&line->other_end);
	while (line->nopen)
		close_request(line, line->nopen - 1);
	line->entered = INT64_MAX;
	line->told = false;
	line->over = true;
}

static void free_line(struct line *line)
{
	free(line->open);
	free(line->from_rank.data);
	free(line->from_launcher.data);
	tdestroy(line->answers, forget_pair);
	free(line);
}

void pmi_expect(int end)
{
	struct line *line = must(calloc(1, sizeof(*line)));

	*line = (struct line){ .rank_end = end, .launcher_end = -1, .other_end = -1, .version = 1, .rank = -1 };
	lines = must(realloc(lines, (nlines + 1) * sizeof(struct line *)));
	lines[nlines++] = line;
	watch(end, line);
}

/* False: the program has no PMI, or has ended. */
static bool greeted(struct line *line)
{
	char control[CMSG_SPACE(2 * sizeof(int))];
	struct pmi_hello hello;
	struct iovec data = { .iov_base = &hello, .iov_len = sizeof(hello) };
	struct msghdr head = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(line->rank_end, &head, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	struct cmsghdr *rights = n < 0 ? NULL : CMSG_FIRSTHDR(&head);
	int ends[2];

	if (n != sizeof(hello) || !rights || rights->cmsg_len != CMSG_LEN(sizeof(ends)))
		return false;
	memcpy(ends, CMSG_DATA(rights), sizeof(ends));
	line->launcher_end = ends[0];
	line->other_end = ends[1];
	line->rank = hello.rank;
	line->space = space_of(hello.space, hello.size);
	snprintf(line->space->job, sizeof(line->space->job), "%s", hello.job);
	watch(line->launcher_end, line);
	return true;
}

/* Appends what can be read. False: nobody is there any more. */
static bool fill(int fd, struct buffer *buffer)
{
	ssize_t n;

	buffer->data = must(realloc(buffer->data, buffer->size + READ_SIZE));
	n = recv(fd, buffer->data + buffer->size, READ_SIZE, MSG_DONTWAIT);
	if (n > 0)
		buffer->size += n;
	return n > 0;
}

static void consume(struct buffer *buffer, size_t size)
{
	memmove(buffer->data, buffer->data + size, buffer->size - size);
	buffer->size -= size;
}

static void reply(struct line *line, const char *text)
{
	if (line->rank_end >= 0 && !pmi_send(line->rank_end, line->version, text))
		close_line(line);
}

static char *command_of(const struct line *line, const char *text)
{
	char *command = pmi_value(line->version, text, "cmd");

	if (!command)
		command = pmi_value(line->version, text, "mcmd");
	return command ? command : must(strdup(""));
}

static bool is(const char *command, const char *in_1, const char *in_2)
{
	return !strcmp(command, in_1) || !strcmp(command, in_2);
}

static bool is_barrier(const char *command)
{
	return is(command, "barrier_in", "kvs-fence");
}

/* For free(3). */
static char *answer_to(int version, const char *command)
{
	for (size_t i = 0; i < sizeof(answers_of_1) / sizeof(*answers_of_1); i++)
		if ((version == 1 || i == 0) && !strcmp(command, answers_of_1[i].request))
			return text_of("%s", answers_of_1[i].answer);
	return version == 1 ? text_of("%s_result", command) : text_of("%s-response", command);
}

/* ---- while the launcher is there ---- */

/* What a thread asks is as good an answer to another thread. */
static char *without_thread(const struct line *line, const char *text)
{
	return must(pmi_without(line->version, text, "thrid"));
}

/* Keeps what an answer says. */
static void learn(struct line *line, const char *request, const char *answer)
{
	char *command = command_of(line, request), *key = pmi_value(line->version, request, "key");
	char *value = pmi_value(line->version, answer, "value");
	bool good = pmi_number(line->version, answer, "rc", 0) == 0;

	learn_space(line, request);
	learn_space(line, answer);
	if (is(command, "get", "kvs-get")) {
		struct pair *known = key ? look_up(&line->space->values, key) : NULL;

		if (good && key && value && !(known && known->put))
			keep(&line->space->values, key, value);
	} else if (is_barrier(command)) {
		line->passed++;
	} else if (good) {
		char *asked = without_thread(line, request), *answered = without_thread(line, answer);

		keep(&line->answers, asked, answered);
		free(asked);
		free(answered);
	}
	if (!strcmp(command, "init"))
		line->version = pmi_number(1, answer, "pmi_version", 1) == 2 ? 2 : 1;
	free(command);
	free(key);
	free(value);
}

static void answered(struct line *line, const char *text)
{
	char *what = pmi_value(line->version, text, "cmd");

	for (size_t i = 0; what && i < line->nopen; i++) {
		char *command = command_of(line, line->open[i].text), *expected = answer_to(line->version, command);
		char *thread = pmi_value(line->version, line->open[i].text, "thrid");
		char *its = pmi_value(line->version, text, "thrid");
		bool found = !strcmp(what, expected) && !strcmp(thread ? thread : "", its ? its : "");

		free(command);
		free(expected);
		free(thread);
		free(its);
		if (found) {
			learn(line, line->open[i].text, text);
			close_request(line, i);
			break;
		}
	}
	free(what);
}

static void from_launcher(struct line *line)
{
	while (line->launcher_end >= 0 && fill(line->launcher_end, &line->from_launcher)) {
		struct buffer *buffer = &line->from_launcher;
		ssize_t n;

		/* The answer to "init", which decides about the version, is of version 1. */
		while ((n = pmi_length(line->version, buffer->data, buffer->size)) > 0) {
			char *text = must(pmi_text(line->version, buffer->data, n));

			if (send(line->rank_end, buffer->data, n, MSG_NOSIGNAL | MSG_DONTWAIT) != n)
				close_line(line);
			answered(line, text);
			free(text);
			consume(buffer, n);
		}
		if (n < 0)
			close_line(line);
	}
}

/* ---- after a restart ---- */

static char *kept_answer(struct line *line, const char *request)
{
	char *asked = without_thread(line, request);
	struct pair *pair = look_up(&line->answers, asked);

	free(asked);
	return pair ? must(strdup(pair->value)) : NULL;
}

static char *found(const struct line *line, const char *value)
{
	if (line->version == 1)
		return value ? text_of("cmd=get_result rc=0 msg=success value=%s", value)
			: text_of("cmd=get_result rc=-1 msg=key_not_found value=unknown");
	return value ? text_of("rc=0;found=TRUE;value=%s;", value) : text_of("rc=0;found=FALSE;");
}

static char *own_answer_1(struct line *line, const char *command)
{
	char *expected = answer_to(1, command), *text;

	if (!strcmp(command, "init"))
		text = text_of("cmd=%s pmi_version=1 pmi_subversion=1 rc=0", expected);
	else if (!strcmp(command, "get_maxes"))
		text = text_of("cmd=%s rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024", expected);
	else if (!strcmp(command, "get_universe_size"))
		text = text_of("cmd=%s rc=0 size=%d", expected, line->space->size);
	else if (!strcmp(command, "get_appnum"))
		text = text_of("cmd=%s rc=0 appnum=0", expected);
	else if (!strcmp(command, "get_my_kvsname"))
		text = text_of("cmd=%s rc=0 kvsname=%s", expected, *line->space->name ? line->space->name : "restarted");
	else if (!strcmp(command, "put") || !strcmp(command, "barrier_in") || !strcmp(command, "finalize"))
		text = text_of("cmd=%s rc=0 msg=success", expected);
	else
		text = text_of("cmd=%s rc=1 info=fail msg=%s", expected, strstr(command, "name") ? NO_NAMES : "unknown_command");
	free(expected);
	return text;
}

/* Without what all of version 2 begin with. */
static char *own_answer_2(struct line *line, const char *command, const char *key)
{
	if (!strcmp(command, "fullinit"))
		return text_of("rc=0;pmi-version=2;pmi-subversion=0;rank=%d;size=%d;appnum=0;debugged=FALSE;pmiverbose=FALSE;",
			       line->rank, line->space->size);
	if (!strcmp(command, "job-getid"))
		return text_of("rc=0;jobid=%s;", *line->space->name ? line->space->name : "restarted");
	if (!strcmp(command, "info-getjobattr") && key && !strcmp(key, "universeSize"))
		return text_of("rc=0;found=TRUE;value=%d;", line->space->size);
	if (!strcmp(command, "info-getjobattr") || !strcmp(command, "info-getnodeattr"))
		return text_of("rc=0;found=FALSE;");
	if (!strcmp(command, "kvs-put") || !strcmp(command, "kvs-fence") || !strcmp(command, "finalize") ||
	    !strcmp(command, "info-putnodeattr"))
		return text_of("rc=0;");
	return text_of("rc=1;errmsg=%s;", strncmp(command, "name-", 5) ? "not_after_a_restart" : NO_NAMES);
}

/* `answer` is whole, or of version 2 and without its name. The asking thread's number comes behind the name. */
static void reply_to(struct line *line, const char *request, const char *command, char *answer)
{
	char *thread = line->version == 2 ? pmi_value(2, request, "thrid") : NULL;
	char *expected = answer_to(line->version, command), *rest = answer, *whole;

	if (line->version == 2 && !strncmp(answer, "cmd=", 4) && strchr(answer, ';'))
		rest = strchr(answer, ';') + 1;
	if (line->version == 1)
		whole = text_of("%s", answer);
	else
		whole = text_of("cmd=%s;%s%s%s%s", expected, thread ? "thrid=" : "", thread ? thread : "", thread ? ";" : "", rest);
	reply(line, whole);
	free(whole);
	free(thread);
	free(expected);
	free(answer);
}

/* Whether the request was answered; else it waits for other ranks. */
static bool serve_alone(struct line *line, const char *request)
{
	char *command = command_of(line, request), *key = pmi_value(line->version, request, "key"), *answer = NULL;
	struct pair *pair;
	bool served = true;

	if (!strcmp(command, "abort")) {
		free(line->space->abort);
		line->space->abort = text_of("rank %d has called MPI_Abort", line->rank);
	} else if (is(command, "get", "kvs-get") && key) {
		pair = look_up(&line->space->values, key);
		served = pair;
		answer = pair ? found(line, pair->value) : NULL;
	} else if (is_barrier(command)) {
		served = false;
	} else if (!strcmp(command, "info-getnodeattr") && key && (pair = look_up(&line->space->nodes, key))) {
		answer = found(line, pair->value);
	} else if (!strcmp(command, "info-getnodeattr") && strstr(request, "wait=TRUE")) {
		served = false;
	} else if (is(command, "put", "finalize") || !strncmp(command, "kvs-", 4) || !(answer = kept_answer(line, request))) {
		if (!strcmp(command, "init") && pmi_number(1, request, "pmi_version", 1) == 2) {
			reply(line, "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0");
			line->version = 2;
			goto done;
		}
		answer = line->version == 1 ? own_answer_1(line, command) : own_answer_2(line, command, key);
	}
	if (answer)
		reply_to(line, request, command, answer);
	if (!strcmp(command, "finalize"))
		close_line(line);
done:
	free(command);
	free(key);
	return served;
}

static struct pmi_pair *untold;
static size_t nuntold;

static void add_untold(const void *node, VISIT visit, int depth)
{
	struct pair *pair = *(struct pair **)node;

	(void)depth;
	if ((visit != postorder && visit != leaf) || !pair->put || pair->told)
		return;
	untold = must(realloc(untold, (nuntold + 1) * sizeof(*untold)));
	untold[nuntold++] = (struct pmi_pair){ .key = pair->key, .value = pair->value };
}

/* Asks for what the ranks of a space wait for, after saying all that others may wait for. */
static void ask(struct space *space)
{
	struct pmi_state state = { .space = space->name, .size = space->size, .abort = space->abort ? space->abort : "" };
	struct pmi_rank *ranks = must(calloc(nlines + 1, sizeof(*ranks)));
	const char **wanted = NULL;
	struct pmi_news news;
	bool needed = *state.abort;

	for (size_t i = 0; i < nlines; i++) {
		struct line *line = lines[i];

		if (line->space != space)
			continue;
		ranks[state.nranks++] = (struct pmi_rank){ .rank = line->rank, .entered = line->entered, .passed = line->passed };
		needed |= !line->told;
		for (size_t j = 0; j < line->nopen; j++) {
			char *command = command_of(line, line->open[j].text);
			char *key = is(command, "get", "kvs-get") ? pmi_value(line->version, line->open[j].text, "key") : NULL;

			needed |= key || is_barrier(command);
			if (key) {
				wanted = must(realloc(wanted, (state.nwanted + 1) * sizeof(*wanted)));
				wanted[state.nwanted++] = key;
			}
			free(command);
		}
	}
	untold = NULL;
	nuntold = 0;
	twalk(space->values, add_untold);
	state.ranks = ranks;
	state.put = untold;
	state.nput = nuntold;
	state.wanted = wanted;
	state.number = space->number + 1;
	if (needed && state.nranks && pmi_tell(agent, space->job, &state, &news)) {
		space->number++;
		free(space->abort);
		space->abort = NULL;
		for (size_t i = 0; i < nuntold; i++)
			look_up(&space->values, untold[i].key)->told = true;
		for (size_t i = 0; i < news.nfound; i++)
			if (!look_up(&space->values, news.found[i].key))
				keep(&space->values, news.found[i].key, news.found[i].value);
		for (size_t i = 0; i < nlines; i++) {
			struct line *line = lines[i];

			if (line->space != space)
				continue;
			line->told = true;
			for (size_t j = line->nopen; j-- > 0 && j < line->nopen;) {
				struct request *request = &line->open[j];
				char *command = command_of(line, request->text);
				bool barrier = is_barrier(command), over = false;

				if (!request->number)
					request->number = state.number;
				if (barrier && news.passed >= line->entered) {
					line->passed = line->entered;
					reply_to(line, request->text, command, line->version == 1 ? own_answer_1(line, command)
						 : own_answer_2(line, command, NULL));
					over = true;
				} else if (!barrier) {
					over = serve_alone(line, request->text);
					if (!over && news.all && news.number >= request->number && is(command, "get", "kvs-get")) {
						reply_to(line, request->text, command, found(line, NULL));
						over = true;
					}
				}
				free(command);
				if (over)
					close_request(line, j);
			}
		}
		pmi_free(&news);
	}
	for (size_t i = 0; i < state.nwanted; i++)
		free((char *)wanted[i]);
	free(wanted);
	free(untold);
	free(ranks);
}

static void untell(const void *node, VISIT visit, int depth)
{
	(void)depth;
	if (visit == postorder || visit == leaf)
		(*(struct pair **)node)->told = false;
}

/* Once in each life: what came from the launcher is heard; what it has not answered is for others now. */
static void restored(void)
{
	for (size_t i = 0; i < nlines; i++) {
		struct line *line = lines[i];

		from_launcher(line);
		drop(&line->launcher_end);
		drop(&line->other_end);
		line->told = false;
		for (size_t j = 0; j < line->nopen; j++)
			line->open[j].number = 0;
	}
	for (size_t i = 0; i < nspaces; i++)
		twalk(spaces[i]->values, untell);
	alone = true;
	for (size_t i = 0; i < nlines; i++)
		for (size_t j = lines[i]->nopen; j-- > 0 && j < lines[i]->nopen;)
			if (serve_alone(lines[i], lines[i]->open[j].text))
				close_request(lines[i], j);
}

/* ---- requests ---- */

static void asked(struct line *line, const char *message, size_t size)
{
	char *text = must(pmi_text(line->version, message, size));
	char *command = command_of(line, text), *key = pmi_value(line->version, text, "key");
	char *value = pmi_value(line->version, text, "value");
	bool waits = strcmp(command, "abort");

	learn_space(line, text);
	if (is(command, "put", "kvs-put") && key && value) {
		struct pair *pair = keep(&line->space->values, key, value);

		pair->put = true;
		pair->told = false;
	} else if (!strcmp(command, "info-putnodeattr") && key && value) {
		keep(&line->space->nodes, key, value);
	} else if (is_barrier(command)) {
		line->entered++;
	}
	if (!strcmp(command, "spawn")) {
		/* Of several programs that are to be spawned at once the last one is answered. */
		if (pmi_number(1, text, "spawnssofar", 1) >= pmi_number(1, text, "totspawns", 1))
			reply_to(line, text, command, line->version == 1 ? text_of("cmd=spawn_result rc=1 msg=%s", NO_SPAWN)
				 : text_of("rc=1;errmsg=%s;", NO_SPAWN));
		waits = false;
	} else if (alone) {
		waits = !serve_alone(line, text);
	} else if (line->launcher_end < 0 ||
		   send(line->launcher_end, message, size, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)size) {
		close_line(line);
	}
	/* A line that is over waits for nothing: nobody would close the request. */
	if (waits && !line->over) {
		line->open = must(realloc(line->open, (line->nopen + 1) * sizeof(*line->open)));
		line->open[line->nopen++] = (struct request){ .text = text };
	} else {
		free(text);
	}
	free(command);
	free(key);
	free(value);
}

static void from_rank(struct line *line)
{
	struct buffer *buffer = &line->from_rank;
	ssize_t n;

	if (!line->space) {
		if (!greeted(line))
			close_line(line);
		return;
	}
	if (!fill(line->rank_end, buffer)) {
		close_line(line);
		return;
	}
	while (!line->over && (n = pmi_length(line->version, buffer->data, buffer->size))) {
		if (n < 0) {
			close_line(line);
			return;
		}
		asked(line, buffer->data, n);
		consume(buffer, n);
	}
}

int pmi_open(const char *(*its_place)(void), const char *its_agent)
{
	struct rlimit descriptors;

	place = its_place;
	placed = must(strdup(place()));
	agent = its_agent;
	/* Each line takes three descriptors. */
	if (!getrlimit(RLIMIT_NOFILE, &descriptors)) {
		descriptors.rlim_cur = descriptors.rlim_max;
		setrlimit(RLIMIT_NOFILE, &descriptors);
	}
	waiting = epoll_create1(EPOLL_CLOEXEC);
	if (waiting < 0)
		die(CANNOT_RUN, "epoll", "for PMI");
	return waiting;
}

static bool someone_waits(void)
{
	for (size_t i = 0; i < nlines; i++)
		if (lines[i]->nopen || (lines[i]->space && !lines[i]->told))
			return true;
	for (size_t i = 0; i < nspaces; i++)
		if (spaces[i]->abort)
			return true;
	return false;
}

int pmi_timeout(void)
{
	return !nlines ? -1 : alone && someone_waits() ? ASK_MS : TICK_MS;
}

/* Of a line that is over the others are told as long as one of them may ask. */
static bool is_needed(const struct line *line)
{
	if (!line->over)
		return true;
	for (size_t i = 0; line->space && i < nlines; i++)
		if (lines[i]->space == line->space && (!lines[i]->over || (alone && !lines[i]->told)))
			return true;
	return false;
}

/* What one rank of the host waits for another one may have said now. */
static void serve_nodes(void)
{
	for (size_t i = 0; i < nlines; i++)
		for (size_t j = lines[i]->nopen; j-- > 0 && j < lines[i]->nopen;)
			if (strstr(lines[i]->open[j].text, "cmd=info-getnodeattr;") && serve_alone(lines[i], lines[i]->open[j].text))
				close_request(lines[i], j);
}

void pmi_serve(void)
{
	struct epoll_event event;

	if (strcmp(placed, place())) {
		free(placed);
		placed = must(strdup(place()));
		restored();
	}
	/* One at a time, as a line may end with what another one brings. */
	while (epoll_wait(waiting, &event, 1, 0) == 1) {
		struct line *line = event.data.ptr;
		char byte;

		if (line->launcher_end >= 0 && recv(line->launcher_end, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0) {
			from_launcher(line);
			/* It has ended the line. */
			if (line->launcher_end >= 0 && recv(line->launcher_end, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
				close_line(line);
		}
		if (line->rank_end >= 0 && recv(line->rank_end, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
			from_rank(line);
	}
	if (alone)
		serve_nodes();
	for (size_t i = 0; alone && i < nspaces; i++)
		ask(spaces[i]);
	for (size_t i = nlines; i-- > 0;)
		if (!is_needed(lines[i])) {
			free_line(lines[i]);
			memmove(&lines[i], &lines[i + 1], (--nlines - i) * sizeof(struct line *));
		}
}
