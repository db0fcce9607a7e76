// SPDX-License-Identifier: Apache-2.0
/*
 * The remote shell of a job (restore-init/rsh.c and rshd.c) on one host, without agents: what an agent is asked, and what becomes
 * of streams, statuses and signals. usage: rsh FOLDER, which has both programs.
 */
#define _GNU_SOURCE
#include "../restore-init/agent-frame.h"
#include "../restore-init/job-root.h"
#include "../restore-init/rsh-line.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                \
	do {                                                                                            \
		if (!(condition)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                 \
			abort();                                                                        \
		}                                                                                       \
	} while (0)

#define ASK_SHELL 36
#define SHELL_ANSWER 37
#define MUCH 3000000	/* bytes: many windows */

static char folder[] = "/tmp/shadowverbs-rsh-XXXXXX", agent[64];
static const char *programs;
static int agent_fd;

/* What rsh has asked for. */
static struct {
	const char *host, *token, *command, *directory;
	uint32_t port, mask;
	char *body;
} asked;

static char *path(const char *name)
{
	static char text[128];

	snprintf(text, sizeof(text), "%s/%s", folder, name);
	return text;
}

/* Starts it with this standard input (NULL: none) and its output in "out" and "err". */
static pid_t rsh(const char *input, char **argv)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		char program[256];

		snprintf(program, sizeof(program), "%s/shadowverbs-rsh", programs);
		close(0);
		if (input)
			open(input, O_RDONLY);
		dup2(open(path("out"), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
		dup2(open(path("err"), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
		execv(program, argv);
		_exit(126);
	}
	return pid;
}

/* Returns the connection on which it has asked. */
static int hear_request(void)
{
	int fd = accept(agent_fd, NULL, NULL);
	const char *cursor, *end;
	uint32_t version;
	size_t size;
	char *at;

	CHECK(fd >= 0);
	free(asked.body);
	asked.body = agent_receive(fd, ASK_SHELL, &size);
	CHECK(asked.body);
	cursor = asked.body;
	end = asked.body + size;
	CHECK(read_i32(&cursor, end, &version) && version == PROTOCOL_VERSION);
	at = asked.body + (cursor - asked.body);
	CHECK(read_string(&at, end, &asked.host));
	cursor = at;
	CHECK(read_i32(&cursor, end, &asked.port));
	at += sizeof(uint32_t);
	CHECK(read_string(&at, end, &asked.token) && read_string(&at, end, &asked.command) && read_string(&at, end, &asked.directory));
	cursor = at;
	CHECK(read_i32(&cursor, end, &asked.mask) && strlen(asked.token) == RSH_TOKEN);
	return fd;
}

/* As an agent has it launched, with a token that may be another one. */
static pid_t rshd(const char *token)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		char program[256], place[256];

		snprintf(program, sizeof(program), "%s/shadowverbs-rshd", programs);
		/* Nobody listens at the first. */
		snprintf(place, sizeof(place), "%s %u 127.0.0.2 127.0.0.1", token, asked.port);
		setenv(RSH_PLACE, place, 1);
		execl(program, program, asked.command, NULL);
		_exit(126);
	}
	return pid;
}

static int status_of(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static bool says(const char *name, const char *text)
{
	char *all = read_all(path(name));
	bool found = all && strstr(all, text);

	if (!found)
		fprintf(stderr, "%s: %s\n", name, all);
	free(all);
	return found;
}

/* Runs it to its end. Returns its status. */
static int run(const char *input, char **argv)
{
	pid_t client = rsh(input, argv), server;
	int fd = hear_request(), status;

	server = rshd(asked.token);
	status = status_of(client);
	close(fd);
	status_of(server);
	return status;
}

#define RUN(input, ...) run(input, (char *[]){ "rsh", __VA_ARGS__, NULL })

static void streams(void)
{
	char *input = strdup(path("input")), *read, *written;
	FILE *file = fopen(input, "w");

	for (int i = 0; i < MUCH; i++)
		putc('a' + i % 26, file);
	fclose(file);
	CHECK(RUN(input, "somewhere", "cat; echo 'an error' >&2;", "exit", "7") == 7);
	CHECK(!strcmp(asked.host, "somewhere") && !strcmp(asked.command, "cat; echo 'an error' >&2; exit 7"));
	read = read_all(input);
	written = read_all(path("out"));
	CHECK(strlen(written) == MUCH && !strcmp(read, written) && says("err", "an error"));
	free(read);
	free(written);
	/* A command that does not read, and one whose output nobody reads. */
	CHECK(RUN(input, "somewhere", "exec <&-; sleep 0.1; echo done") == 0 && says("out", "done"));
	CHECK(RUN(input, "-x", "-o", "BatchMode=yes", "-n", "somewhere", "-q", "cat; echo $SHADOWVERBS_RSH.") == 0 && says("out", "."));
	CHECK(RUN(NULL, "somewhere", "cat; echo nothing") == 0 && says("out", "nothing"));
	free(input);
}

static void ends(void)
{
	pid_t client, server;
	int fd;

	CHECK(RUN(NULL, "somewhere", "kill -TERM $$") == 128 + SIGTERM);
	CHECK(RUN(NULL, "somewhere", "no-such-command") == 127);
	/* A signal for the command, which comes after it has begun. */
	client = rsh(NULL, (char *[]){ "rsh", "somewhere", "trap 'echo heard; exit 3' USR1; echo begun; while :; do sleep 0.1; done", NULL });
	fd = hear_request();
	server = rshd(asked.token);
	for (int i = 0; i < 600 && !read_all(path("out"))[0]; i++)
		usleep(100000);
	kill(client, SIGUSR1);
	CHECK(status_of(client) == 3 && says("out", "heard"));
	status_of(server);
	close(fd);
	/* Whoever knows no token gets no command. */
	client = rsh(NULL, (char *[]){ "rsh", "somewhere", "echo done", NULL });
	fd = hear_request();
	server = rshd("0123456789012345678901234567890123456789012345678901234567890123");
	CHECK(status_of(server) == 255);
	server = rshd(asked.token);
	CHECK(status_of(client) == 0 && says("out", "done"));
	status_of(server);
	close(fd);
}

static void refusals(void)
{
	struct bytes answer = { 0 };
	pid_t client = rsh(NULL, (char *[]){ "rsh", "somewhere", "true", NULL });
	int fd = hear_request();

	frame_begin(&answer, SHELL_ANSWER);
	add_string(&answer, "not there");
	frame_end(&answer);
	CHECK(agent_send(fd, &answer) && status_of(client) == 255 && says("err", "shadowverbs: rsh: not there"));
	close(fd);
	free(answer.data);
	client = rsh(NULL, (char *[]){ "rsh", "somewhere", "true", NULL });
	close(hear_request());
	CHECK(status_of(client) == 255 && says("err", "was lost before somewhere ran the command"));
	CHECK(status_of(rsh(NULL, (char *[]){ "rsh", "somewhere", NULL })) == 255 && says("err", "usage:"));
	CHECK(status_of(rsh(NULL, (char *[]){ "rsh", "-?", "somewhere", "true", NULL })) == 255 && says("err", "unknown option -?"));
	CHECK(status_of(rsh(NULL, (char *[]){ "rsh", "-l", "nobody", "somewhere", "true", NULL })) == 255 && says("err", "not by nobody"));
	close(agent_fd);
	CHECK(status_of(rsh(NULL, (char *[]){ "rsh", "somewhere", "true", NULL })) == 255 && says("err", "does not answer"));
	unsetenv("SHADOWVERBS_AGENT");
	CHECK(status_of(rsh(NULL, (char *[]){ "rsh", "somewhere", "true", NULL })) == 255 && says("err", "of no job"));
}

int main(int argc, char **argv)
{
	CHECK(argc == 2 && mkdtemp(folder));
	programs = argv[1];
	snprintf(agent, sizeof(agent), "%s/agent.sock", folder);
	agent_fd = bound(agent, SOCK_STREAM);
	CHECK(!listen(agent_fd, 8));
	setenv("SHADOWVERBS_AGENT", agent, 1);
	setenv("SHADOWVERBS_JOB", "job", 1);
	streams();
	ends();
	refusals();
	for (int i = 0; i < 4; i++)
		unlink(path((const char *[]){ "input", "out", "err", "agent.sock" }[i]));
	rmdir(folder);
	return 0;
}
