// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "job-root.h"
#include "pmi.h"
#include "say.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t *programs;
static size_t nprograms;

/* Returns whether the keeper heard it. After a restart there is none. */
static bool report(const char *reports, int kind, pid_t pid, int value)
{
	struct message message = { .kind = kind, .pid = pid, .value = value };
	struct sockaddr_un address = address_of(reports);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool heard = fd >= 0 && sendto(fd, &message, sizeof(message), MSG_NOSIGNAL, (struct sockaddr *)&address,
				       sizeof(address)) == sizeof(message);

	if (fd >= 0)
		close(fd);
	return heard;
}

static void birth(const char *tasks, const char *reports)
{
	pid_t *more = realloc(programs, (nprograms + 1) * sizeof(*programs));
	pid_t pid = -1;
	int line[2];

	if (more)
		programs = more;
	if (more && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line)) {
		pid = fork();
		if (!pid)
			program(tasks, line[1]);
		close(line[1]);
		if (pid < 0)
			close(line[0]);
		else
			pmi_expect(line[0]);
	}
	if (pid < 0)
		report(reports, ENDED, -1, W_EXITCODE(CANNOT_RUN, 0));
	else
		programs[nprograms++] = pid;
}

static bool is_program(pid_t pid, bool forget)
{
	for (size_t i = 0; i < nprograms; i++)
		if (programs[i] == pid) {
			if (forget)
				programs[i] = programs[--nprograms];
			return true;
		}
	return false;
}

static bool wait_for(int signals, int requests, struct signalfd_siginfo *info)
{
	struct pollfd wait[2] = { { .fd = signals, .events = POLLIN }, { .fd = requests, .events = POLLIN } };
	int n = poll(wait, 2, pmi_timeout());

	if (n == 0 || (n > 0 && wait[1].revents))
		pmi_serve();
	return n > 0 && wait[0].revents && read(signals, info, sizeof(*info)) == sizeof(*info);
}

void top(const char *tasks, const char *reports)
{
	const char *agent = getenv("SHADOWVERBS_AGENT");
	bool heals = getenv("SHADOWVERBS_RECOVER");
	int first_failure = 0, signals, requests;
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signals = signalfd(-1, &all, SFD_CLOEXEC);
	if (signals < 0)
		die(CANNOT_RUN, "signalfd", "");
	requests = pmi_open(pmi_place, agent ? agent : "");
	/* What a program leaves behind stays in the tree. */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	for (;;) {
		struct signalfd_siginfo info;
		int signo, status;
		pid_t pid;

		if (!wait_for(signals, requests, &info))
			continue;
		signo = info.ssi_signo;
		if (signo == SIG_BIRTH) {
			birth(tasks, reports);
			continue;
		}
		if (signo != SIGCHLD && signo != SIG_END) {
			/* From a restart, which passes on what it is told. Whoever else sends one sends it to the programs too. */
			for (size_t i = 0; info.ssi_pid == 1 && i < nprograms; i++)
				kill(programs[i], signo);
			continue;
		}
		while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
			if (WIFSTOPPED(status)) {
				if (is_program(pid, false))
					report(reports, STOPPED, pid, WSTOPSIG(status));
			} else if (!WIFCONTINUED(status) && is_program(pid, true)) {
				if (!first_failure)
					first_failure = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
				/* After a restart only this process's end tells the agent, which ends the rest. */
				if (!report(reports, ENDED, pid, status) && first_failure && heals)
					exit(first_failure);
			}
		}
		if (pid < 0 && errno == ECHILD && (signo == SIG_END || !report(reports, NONE_LEFT, 0, 0)))
			exit(first_failure);
	}
}
