// SPDX-License-Identifier: Apache-2.0
/*
 * shadowverbs-rsh HOST COMMAND...: runs a command on another host of the job, as ssh(1) does: `shadowverbs rsh`, and what `launch`
 * names to launchers as their remote shell.
 *
 *   host of the launcher                                      HOST
 *   mpirun --> rsh  <------- one TCP connection ------->  rshd --> $SHELL -c COMMAND
 *               :                                          ^ a program of HOST's job root
 *               ...> agent ...> coordinator ...> agent ...> launch (stands in for rshd, outside of the tree)
 *
 * The dotted way is gone as soon as the line is there: from then on both ends hold nothing that leads out of the job, and so are in
 * its images with the connection between them.
 *
 * usage: see usage(). Exit status: the command's, 128 + its signal; 255 it could not be run, or the line has broken.
 */
#define _GNU_SOURCE
#include "agent-frame.h"
#include "job-root.h"
#include "rsh-line.h"
#include "say.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ASK_SHELL 36
#define SHELL_ANSWER 37
#define FAILED 255		/* as ssh(1) has it */
#define AGENT_SECONDS 5
#define START_SECONDS 150	/* an agent may have to be started first */
/* Those of ssh(1) that launchers may give. */
#define WITH_VALUE "BbcDEeFIiJLlmOopQRSWw"
#define WITHOUT_VALUE "46AaCfGgKkMNnqsTtVvXxYy"

extern char **environ;

static struct {
	const char *host, *user;
	bool no_input;
	char *command;
} wanted;

static bool has_ended;
static int command_status;

static void __attribute__((noreturn)) usage(void)
{
	say("usage: shadowverbs rsh [-n] [OPTION OF ssh]... HOST COMMAND...");
	exit(FAILED);
}

/* Returns the index behind the options that begin at i. */
static int options(int argc, char **argv, int i)
{
	for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
		if (!strcmp(argv[i], "--"))
			return i + 1;
		for (const char *c = argv[i] + 1; *c; c++) {
			if (strchr(WITH_VALUE, *c)) {
				const char *value = c[1] ? c + 1 : i + 1 < argc ? argv[++i] : NULL;

				if (!value)
					usage();
				if (*c == 'l')
					wanted.user = value;
				break;
			}
			if (!strchr(WITHOUT_VALUE, *c)) {
				say("rsh: unknown option -%c", *c);
				usage();
			}
			wanted.no_input |= *c == 'n' || *c == 'f';
		}
	}
	return i;
}

static void parse(int argc, char **argv)
{
	int i = options(argc, argv, 1);
	size_t size = 1;
	char *at;

	if (i >= argc)
		usage();
	at = strrchr(argv[i], '@');
	if (at) {
		*at = 0;
		wanted.user = argv[i];
	}
	wanted.host = at ? at + 1 : argv[i];
	i = options(argc, argv, i + 1);
	if (i >= argc || !*wanted.host)
		usage();
	for (int j = i; j < argc; j++)
		size += strlen(argv[j]) + 1;
	wanted.command = malloc(size);
	if (!wanted.command)
		die(FAILED, "memory", "for the command");
	/* For the shell there to read, as ssh has it. */
	for (at = wanted.command; i < argc; i++)
		at = stpcpy(stpcpy(at, argv[i]), i + 1 < argc ? " " : "");
}

static void check_user(void)
{
	struct passwd *user = wanted.user ? getpwnam(wanted.user) : NULL;

	if (wanted.user && (!user || user->pw_uid != geteuid())) {
		say("rsh: a job's commands are run by its own user, not by %s", wanted.user);
		exit(FAILED);
	}
}

/* A launcher's own descriptors are of no use here, and would keep open what it waits for the end of. */
static void close_others(void)
{
	int null = open("/dev/null", O_RDWR);

	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 || (fd == 0 && wanted.no_input))
			dup2(null, fd);
	if (close_range(3, ~0U, 0))
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
}

static void make_token(char *token)
{
	unsigned char random[RSH_TOKEN / 2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		die(FAILED, "getrandom", "");
	for (int i = 0; i < RSH_TOKEN / 2; i++)
		sprintf(token + 2 * i, "%02x", random[i]);
}

static int listener(int *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, 8) ||
	    getsockname(fd, (struct sockaddr *)&address, &size))
		die(FAILED, "listen", "for the other host");
	*port = ntohs(address.sin_port);
	return fd;
}

/* Returns the connection to the agent, on which comes what goes wrong. */
static int ask(const char *token, int port)
{
	const char *agent = getenv("SHADOWVERBS_AGENT"), *job = getenv("SHADOWVERBS_JOB");
	struct bytes b = { 0 };
	mode_t mask = umask(0);
	char *folder = getcwd(NULL, 0);
	int n = 0, fd;

	umask(mask);
	if (!agent || !job) {
		say("rsh: this process is of no job: put launch before the launcher: shadowverbs launch mpirun ...");
		exit(FAILED);
	}
	while (environ[n])
		n++;
	frame_begin(&b, ASK_SHELL);
	add_i32(&b, PROTOCOL_VERSION);
	add_string(&b, wanted.host);
	add_i32(&b, port);
	add_string(&b, token);
	add_string(&b, wanted.command);
	add_string(&b, folder ? folder : "/");
	add_i32(&b, mask);
	add_i32(&b, n);
	for (int i = 0; i < n; i++)
		add_string(&b, environ[i]);
	frame_end(&b);
	fd = agent_connect(agent, job, AGENT_SECONDS);
	if (fd < 0 || !agent_send(fd, &b)) {
		say("rsh: the agent of this host does not answer at %s", agent);
		exit(FAILED);
	}
	free(folder);
	free(b.data);
	return fd;
}

static void __attribute__((noreturn)) refused(int agent)
{
	size_t size;
	char *body = agent_receive(agent, SHELL_ANSWER, &size), *at = body;
	const char *problem;

	if (body && read_string(&at, body + size, &problem))
		say("rsh: %s", problem);
	else
		say("rsh: the agent of this host was lost before %s ran the command", wanted.host);
	exit(FAILED);
}

/* Waits until rshd connects, and returns its connection. */
static int connection(int listening, int agent, const char *token)
{
	for (time_t until = now() + START_SECONDS; now() < until;) {
		struct pollfd wait[2] = { { .fd = listening, .events = POLLIN }, { .fd = agent, .events = POLLIN } };
		int fd;

		if (poll(wait, 2, 1000) <= 0)
			continue;
		if (wait[0].revents) {
			fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
			if (fd >= 0 && rsh_hear_word(fd, token, RSH_TOKEN / 2) &&
			    rsh_say_word(fd, token + RSH_TOKEN / 2, RSH_TOKEN / 2))
				return fd;
			if (fd >= 0)
				close(fd);
		} else if (wait[1].revents) {
			refused(agent);
		}
	}
	say("rsh: %s has not run the command within %d s", wanted.host, START_SECONDS);
	exit(FAILED);
}

static void told(enum rsh_frame type, uint32_t value)
{
	if (type == RSH_EXIT) {
		has_ended = true;
		command_status = value;
	}
}

int main(int argc, char **argv)
{
	char token[RSH_TOKEN + 1];
	int port, listening, agent, line, signals;
	sigset_t passed_on;

	parse(argc, argv);
	check_user();
	close_others();
	make_token(token);
	listening = listener(&port);
	agent = ask(token, port);
	line = connection(listening, agent, token);
	close(listening);
	close(agent);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&passed_on);
	for (int s = 0; s < 6; s++)
		sigaddset(&passed_on, (int[]){ SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 }[s]);
	sigprocmask(SIG_BLOCK, &passed_on, NULL);
	signals = signalfd(-1, &passed_on, SFD_CLOEXEC);
	if (signals < 0)
		die(FAILED, "signalfd", "");
	rsh_keep_alive(line);
	rsh_open(line);
	rsh_read_from(0, 0);
	rsh_write_to(1, 1);
	rsh_write_to(2, 2);
	while (!rsh_is_over() && !has_ended) {
		struct signalfd_siginfo info;

		if (rsh_move(signals, -1, told) && read(signals, &info, sizeof(info)) == sizeof(info))
			rsh_tell(RSH_SIGNAL, info.ssi_signo);
	}
	while (!rsh_has_written_all())
		rsh_move(-1, -1, told);
	if (!has_ended) {
		say("rsh: the line to %s has broken; the command is ended there", wanted.host);
		return FAILED;
	}
	return WIFSIGNALED(command_status) ? 128 + WTERMSIG(command_status) : WEXITSTATUS(command_status);
}
