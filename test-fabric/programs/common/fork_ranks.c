#include "fork_ranks.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "die.h"
#include "rank_dir.h"

static volatile sig_atomic_t stop_signal;

static void note_stop(int sig)
{
	/* SIGCHLD has a handler only to end the wait. */
	if (sig != SIGCHLD)
		stop_signal = sig;
}

static void pass_on(const pid_t *pids, int ranks, int sig)
{
	for (int rank = 0; rank < ranks; rank++)
		if (pids[rank] > 0)
			kill(pids[rank], sig);
}

static int rank_of(const pid_t *pids, int ranks, pid_t pid)
{
	for (int rank = 0; rank < ranks; rank++)
		if (pids[rank] == pid)
			return rank;
	return -1;
}

static int wait_for_all(pid_t *pids, int ranks, const sigset_t *unblocked)
{
	int living = ranks, failed = 0;

	while (living) {
		int status, rank;
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid == 0) {
			/* SIGCHLD and the stop signals are blocked but for this call: none can be missed. */
			sigsuspend(unblocked);
			if (stop_signal) {
				pass_on(pids, ranks, SIGTERM);
				stop_signal = 0;
			}
			continue;
		}
		if (pid < 0)
			die(errno, "waitpid");
		rank = rank_of(pids, ranks, pid);
		if (rank < 0)
			continue;
		pids[rank] = 0;
		living--;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			continue;
		if (WIFSIGNALED(status))
			fprintf(stderr, "%s: rank %d died of signal %d\n", die_prefix(), rank, WTERMSIG(status));
		if (!failed)
			/* The others cannot end well without it: let them stop and say what they saw. */
			pass_on(pids, ranks, SIGTERM);
		failed = 1;
	}
	return failed;
}

int fork_ranks(int ranks, const char **dir)
{
	struct sigaction sa = { .sa_handler = note_stop };
	pid_t *pids = calloc(ranks, sizeof(*pids)), parent = getpid();
	sigset_t blocked, before;
	int failed;

	if (!pids)
		die(ENOMEM, "calloc");
	*dir = rank_dir_create();
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGINT);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	for (int rank = 0; rank < ranks; rank++) {
		pids[rank] = fork();
		if (pids[rank] < 0) {
			int err = errno;

			pids[rank] = 0;
			pass_on(pids, ranks, SIGKILL);
			rank_dir_destroy(*dir);
			die(err, "fork");
		}
		if (pids[rank] == 0) {
			sigprocmask(SIG_SETMASK, &before, NULL);
			/* No rank is left running when the parent is killed. */
			prctl(PR_SET_PDEATHSIG, SIGTERM);
			if (getppid() != parent)
				raise(SIGTERM);
			free(pids);
			return rank;
		}
	}
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGCHLD, &sa, NULL);
	failed = wait_for_all(pids, ranks, &before);
	rank_dir_destroy(*dir);
	exit(failed);
}
