// SPDX-License-Identifier: Apache-2.0
/*
 * shadowverbs-rshd COMMAND: the other end of rsh.c, which an agent launches into the job root of its host. It connects to the one
 * that has asked, and runs the command by the user's shell. When the line breaks it ends the command.
 *
 * Until the line is there standard error is a file of the agent's, who passes on what is said there.
 */
#define _GNU_SOURCE
#include "job-root.h"
#include "rsh-line.h"
#include "say.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAILED 255
#define CONNECT_SECONDS 5	/* at each address */
#define END_SECONDS 5		/* that the command may take to end, when the line is broken */
#define LAST_SECONDS 10		/* that the other side may take to hear how it has ended */

static pid_t command;
static bool command_has_ended;
static int command_status;

/* -1: nobody there who knows the token. */
static int connect_at(const char *host, int port, const char *token)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
	socklen_t size = sizeof(error);

	if (fd < 0 || inet_pton(AF_INET, host, &address.sin_addr) != 1)
		die(FAILED, "address", host);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) && errno == EINPROGRESS)
		poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, 1000 * CONNECT_SECONDS);
	if (!getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) && !error && !fcntl(fd, F_SETFL, 0) &&
	    rsh_say_word(fd, token, RSH_TOKEN / 2) && rsh_hear_word(fd, token + RSH_TOKEN / 2, RSH_TOKEN / 2))
		return fd;
	close(fd);
	return -1;
}

/* From RSH_PLACE: "TOKEN PORT ADDRESS...". */
static int connection(void)
{
	const char *place = getenv(RSH_PLACE);
	char *words = strdup(place ? place : ""), *next = words, *token, *port, *address;
	int fd = -1;

	token = strsep(&next, " ");
	port = strsep(&next, " ");
	if (!port || strlen(token) != RSH_TOKEN) {
		say("rshd: is started by an agent");
		exit(FAILED);
	}
	while (fd < 0 && (address = strsep(&next, " ")))
		fd = connect_at(address, atoi(port), token);
	if (fd < 0) {
		say("no connection to the one that asks for a command, at port %s of any of its addresses:%s", port,
		    place + RSH_TOKEN + 1 + strlen(port));
		exit(FAILED);
	}
	unsetenv(RSH_PLACE);
	free(words);
	return fd;
}

/* What SHELL says, when it is one. */
static const char *shell(void)
{
	const char *named = getenv("SHELL");
	size_t size = named ? strlen(named) : 0;

	return size > 2 && *named == '/' && !strcmp(named + size - 2, "sh") && !access(named, X_OK) ? named : "/bin/sh";
}

static void run(const char *text)
{
	int pipes[3][2];
	const char *program = shell();

	for (int i = 0; i < 3; i++)
		if (pipe2(pipes[i], O_CLOEXEC))
			die(FAILED, "pipe", "for the command");
	command = fork();
	if (command < 0)
		die(FAILED, "fork", "");
	if (!command) {
		sigset_t none;

		setsid();
		dup2(pipes[0][0], 0);
		dup2(pipes[1][1], 1);
		dup2(pipes[2][1], 2);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		signal(SIGPIPE, SIG_DFL);
		execl(program, program, "-c", text, NULL);
		die(CANNOT_RUN, "execute", program);
	}
	close(pipes[0][0]);
	close(pipes[1][1]);
	close(pipes[2][1]);
	rsh_write_to(0, pipes[0][1]);
	rsh_read_from(1, pipes[1][0]);
	rsh_read_from(2, pipes[2][0]);
}

static void signal_command(int signo)
{
	/* Until it has made its session there is no such group. */
	if (!command_has_ended && kill(-command, signo))
		kill(command, signo);
}

static void told(enum rsh_frame type, uint32_t value)
{
	if (type == RSH_SIGNAL && value > 0 && value < NSIG)
		signal_command(value);
}

static void signalled(int signals)
{
	struct signalfd_siginfo info;
	pid_t pid;
	int status;

	if (read(signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo != SIGCHLD) {
		signal_command(info.ssi_signo);
		return;
	}
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == command) {
			command_has_ended = true;
			command_status = status;
		}
}

static void end_command(int signals)
{
	signal_command(SIGHUP);
	signal_command(SIGTERM);
	signal_command(SIGCONT);
	for (time_t until = now() + END_SECONDS; !command_has_ended && now() < until;)
		if (rsh_move(signals, 1000, told))
			signalled(signals);
	/* Also what it has started and that is still in its session. */
	kill(-command, SIGKILL);
}

/* So that the other side hears it, this one must not be the first to close. */
static void last_words(void)
{
	rsh_tell(RSH_EXIT, command_status);
	for (time_t until = now() + LAST_SECONDS; !rsh_is_over() && now() < until;)
		rsh_move(-1, 1000, told);
}

int main(int argc, char **argv)
{
	int signals, line, null;
	sigset_t passed_on;

	if (argc != 2) {
		say("rshd: is started by an agent");
		return FAILED;
	}
	line = connection();
	null = open("/dev/null", O_RDWR | O_NOCTTY | O_CLOEXEC);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	close(null);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&passed_on);
	for (int s = 0; s < 7; s++)
		sigaddset(&passed_on, (int[]){ SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 }[s]);
	sigprocmask(SIG_BLOCK, &passed_on, NULL);
	signals = signalfd(-1, &passed_on, SFD_CLOEXEC);
	if (signals < 0)
		return FAILED;
	rsh_keep_alive(line);
	rsh_open(line);
	run(argv[1]);
	while (!rsh_is_over() && !(command_has_ended && rsh_has_read_all()))
		if (rsh_move(signals, -1, told))
			signalled(signals);
	if (rsh_is_over())
		end_command(signals);
	else
		last_words();
	return 0;
}
