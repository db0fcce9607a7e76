// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "attend.h"
#include "agent-frame.h"
#include "job-root.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAY 72
#define JOB_ENDED 89
#define STAND_IN 90
#define STANDING_IN 91
#define LAUNCH_ENDED 92
#define LAUNCH_SIGNAL 93
#define OUTPUT 94

#define AGENT_SECONDS 5		/* that it may take to hear or to say a whole frame */
#define RETRY_MS 100
#define START_AFTER_MS 500	/* whoever else starts one may be doing so */
#define START_AGAIN_MS 15000

static const char *place, *launched;
static bool outlives;
static int line = -1;
/* Of the monotonic clock, in milliseconds, when the agent was lost, and when one was started last; 0: not. */
static int64_t lost_at, started_at;
static int lock = -1;
/* Program and arguments, by which the agent is started; NULL: nobody has said. */
static char **command;
static bool has_ended, reported;
static int ended_with;

static int64_t milliseconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64_C(1000) + time.tv_nsec / 1000000;
}

/* A line that has broken is seen by who reads it. */
static bool send_number(char type, int32_t value)
{
	struct bytes b = { 0 };
	bool sent;

	frame_begin(&b, type);
	add_i32(&b, value);
	frame_end(&b);
	sent = line >= 0 && agent_send(line, &b);
	free(b.data);
	return sent;
}

/* Once: what a later agent has to do with is not this life of the program. */
static void report(void)
{
	if (has_ended && !reported)
		reported = send_number(LAUNCH_ENDED, ended_with);
}

static void unlock(void)
{
	if (lock >= 0)
		close(lock);
	lock = -1;
}

static void lose(void)
{
	if (line >= 0)
		close(line);
	line = -1;
	if (!lost_at)
		lost_at = milliseconds();
}

static void introduce(void)
{
	struct bytes b = { 0 };

	line = agent_connect(place, NULL, AGENT_SECONDS);
	if (line < 0)
		return;
	frame_begin(&b, STAND_IN);
	add_i32(&b, PROTOCOL_VERSION);
	add_i64(&b, getpid());
	add_string(&b, launched);
	add_byte(&b, outlives);
	frame_end(&b);
	if (agent_send(line, &b)) {
		lost_at = 0;
		unlock();
		report();
	} else {
		lose();
	}
	free(b.data);
}

void attend(const char *agent, const char *program, bool stays)
{
	place = agent;
	launched = program;
	outlives = stays;
	lost_at = milliseconds();
	introduce();
}

int attend_fd(void)
{
	return line;
}

int attend_timeout(void)
{
	return line >= 0 || (!outlives && has_ended) ? -1 : RETRY_MS;
}

void attend_program_ended(int status)
{
	has_ended = true;
	ended_with = status;
	report();
}

void attend_signal(int signal)
{
	send_number(LAUNCH_SIGNAL, signal);
}

/* Of an answer that is no list of strings nothing is known. */
static void learn_command(char *body, size_t size)
{
	const char *at = body, *end = body + size, *word;
	char *text = body + sizeof(uint32_t);
	uint32_t n;

	if (!read_i32(&at, end, &n) || !n || n > size)
		return;
	for (char **c = command; c && *c; c++)
		free(*c);
	free(command);
	command = calloc(n + 1, sizeof(*command));
	for (uint32_t i = 0; command && i < n; i++)
		if (!read_string(&text, end, &word) || !(command[i] = strdup(word))) {
			command = NULL;
			return;
		}
}

/* As the environment was before the launch, but for the secret (HostEnvironment.java has the same list). */
static void forget_launch(void)
{
	static const char *const names[] = { "SHADOWVERBS_AGENT", "SHADOWVERBS_JOB", "SHADOWVERBS_TREE", "SHADOWVERBS_HOME",
					     "SHADOWVERBS_JVM", "SHADOWVERBS_ORIGIN" };
	const char *preload = getenv("LD_PRELOAD");
	char *all = preload ? strdup(preload) : NULL, *left = all ? calloc(1, strlen(all) + 1) : NULL, *at = all, *one;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		unsetenv(names[i]);
	unsetenv("LD_PRELOAD");
	while (left && (one = strsep(&at, ": "))) {
		const char *file = strrchr(one, '/');

		if (!*one || (file && (!strcmp(file, "/libshadowverbs.so") || !strcmp(file, "/libjsig.so"))))
			continue;
		if (*left)
			strcat(left, ":");
		strcat(left, one);
	}
	if (left && *left)
		setenv("LD_PRELOAD", left, 1);
}

/* One of this host's launching commands does it. The agent is nobody's child, and has none of the program's descriptors. */
static void start_agent(void)
{
	char path[PATH_MAX], errors[PATH_MAX];
	int null, log;

	if (!command || (started_at && milliseconds() - started_at < START_AGAIN_MS))
		return;
	snprintf(path, sizeof(path), "%s.lock", place);
	snprintf(errors, sizeof(errors), "%.*s/agent.err", (int)(strrchr(place, '/') - place), place);
	if (lock < 0)
		lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB))
		return;
	started_at = milliseconds();
	pid_t child = fork();

	if (child) {
		/* It ends at once, so that the agent is nobody's child that would have to be waited for. */
		if (child > 0)
			waitpid(child, NULL, 0);
		return;
	}
	setsid();
	if (fork())
		_exit(0);
	null = open("/dev/null", O_RDWR);
	log = open(errors, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	dup2(null, 0);
	dup2(null, 1);
	dup2(log < 0 ? null : log, 2);
	if (close_range(3, ~0U, 0))
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	forget_launch();
	execvp(command[0], command);
	_exit(NOT_FOUND);
}

static enum attend_news find_agent(void)
{
	introduce();
	if (line >= 0)
		return ATTEND_NOTHING;
	if (outlives && milliseconds() - lost_at > START_AFTER_MS)
		start_agent();
	return milliseconds() - lost_at > AGENT_GONE_SECONDS * INT64_C(1000) ? ATTEND_AGENT_GONE : ATTEND_NOTHING;
}

/* What programs have written that are on another host now. Who reads it may take his time. */
static void put_out(const char *body, size_t size)
{
	const char *at = body + 1, *end = body + size;
	uint32_t length;

	if (!size || (body[0] != STDOUT_FILENO && body[0] != STDERR_FILENO) || !read_i32(&at, end, &length) ||
	    length != (size_t)(end - at))
		return;
	lseek(body[0], 0, SEEK_END);
	while (at < end) {
		ssize_t n = write(body[0], at, end - at);

		if (n < 0 && errno != EINTR)
			return;
		at += n > 0 ? n : 0;
	}
}

static enum attend_news hear_agent(int *status)
{
	enum attend_news news = ATTEND_NOTHING;
	size_t size;
	char type;
	char *body = agent_receive_any(line, &type, &size), *at = body;
	const char *text, *bytes = body;
	uint32_t value;

	if (!body) {
		lose();
		return ATTEND_NOTHING;
	}
	if (type == SAY && read_string(&at, body + size, &text)) {
		/* A file that the program has had put back, or written to meanwhile, ends elsewhere by now. */
		lseek(STDERR_FILENO, 0, SEEK_END);
		say("%s", text);
	} else if (type == OUTPUT) {
		put_out(body, size);
	} else if (type == STANDING_IN) {
		learn_command(body, size);
	} else if (type == JOB_ENDED && read_i32(&bytes, body + size, &value)) {
		*status = value;
		news = (int32_t)value < 0 ? ATTEND_LEFT_ALONE : ATTEND_JOB_ENDED;
	}
	free(body);
	return news;
}

enum attend_news attend_serve(bool readable, int *status)
{
	if (line < 0)
		return find_agent();
	return readable ? hear_agent(status) : ATTEND_NOTHING;
}
