// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "attend.h"
#include "job-root.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static sigset_t blocked_at_start;

static void put(int fd, const void *data, size_t size)
{
	while (size) {
		ssize_t n = write(fd, data, size);

		if (n < 0)
			die(CANNOT_RUN, "write", "the description of the program");
		data = (const char *)data + n;
		size -= n;
	}
}

static void put_string(int fd, const char *text)
{
	put(fd, text, strlen(text) + 1);
}

/* All that are open and were so when this program was executed, which closed what is not for the program. */
static int inherited(int32_t *numbers)
{
	/* MPICH's mpirun leaves its line to its own proxy open in all ranks, of no use to them; no image can have it. */
	const char *control = getenv("HYDI_CONTROL_FD");
	int n = 0, limit = 0, launchers_own = control ? atoi(control) : -1;
	char *maximum = read_all("/proc/self/status"), *size = maximum ? strstr(maximum, "\nFDSize:") : NULL;

	limit = size ? atoi(size + 8) : 1024;
	free(maximum);
	for (int fd = 0; fd < limit; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (fd == launchers_own || flags < 0 || flags & FD_CLOEXEC)
			continue;
		if (n == MAX_FDS) {
			errno = EMFILE;
			die(CANNOT_RUN, "more descriptors than can be handed to", "the job root");
		}
		numbers[n++] = fd;
	}
	return n;
}

static struct description d;

static void describe(void)
{
	d.mask = umask(0);
	umask(d.mask);
	d.niceness = getpriority(PRIO_PROCESS, 0);
	d.policy = sched_getscheduler(0);
	if (d.policy >= 0) {
		struct sched_param priority = { 0 };

		sched_getparam(0, &priority);
		d.priority = priority.sched_priority;
	}
	d.io_priority = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
	d.no_new_privileges = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
	for (int i = 0; i < RLIM_NLIMITS; i++)
		getrlimit(i, &d.limits[i]);
	for (int s = 1; s <= 64; s++) {
		struct sigaction action;

		if (!sigaction(s, NULL, &action) && action.sa_handler == SIG_IGN)
			d.ignored |= UINT64_C(1) << (s - 1);
		if (sigismember(&blocked_at_start, s) == 1)
			d.blocked |= UINT64_C(1) << (s - 1);
	}
	long bytes = syscall(SYS_sched_getaffinity, 0, AFFINITY_BYTES, d.affinity);

	d.affinity_bytes = bytes > 0 ? bytes : 0;
}

static int hand_over(const char *socket, const char *path, char **argv)
{
	struct message message = { .kind = LAUNCH };
	int fds[MAX_FDS + 1], keeper_fd;
	char *folder, *groups;

	d.nfds = inherited(d.fd);
	describe();
	while (argv[d.argc])
		d.argc++;
	while (environ[d.envc])
		d.envc++;
	folder = getcwd(NULL, 0);
	groups = read_all("/proc/self/cgroup");
	fds[0] = memfd_create("launch", MFD_CLOEXEC);
	if (!folder || !groups || fds[0] < 0)
		die(CANNOT_RUN, "describe", path);
	put(fds[0], &d, sizeof(d));
	put_string(fds[0], folder);
	put_string(fds[0], groups);
	put_string(fds[0], path);
	for (uint32_t i = 0; i < d.argc; i++)
		put_string(fds[0], argv[i]);
	for (uint32_t i = 0; i < d.envc; i++)
		put_string(fds[0], environ[i]);
	for (uint32_t i = 0; i < d.nfds; i++)
		fds[i + 1] = d.fd[i];
	keeper_fd = connect_to(socket);
	if (keeper_fd < 0 || !tell(keeper_fd, &message, fds, d.nfds + 1))
		die(CANNOT_RUN, "the job root at", socket);
	close(fds[0]);
	free(folder);
	free(groups);
	return keeper_fd;
}

static void __attribute__((noreturn)) end_as(int status)
{
	if (WIFSIGNALED(status)) {
		const struct rlimit no_core = { 0 };
		sigset_t one;

		/* The program has made its own. */
		setrlimit(RLIMIT_CORE, &no_core);
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
		signal(WTERMSIG(status), SIG_DFL);
		sigemptyset(&one);
		sigaddset(&one, WTERMSIG(status));
		kill(getpid(), WTERMSIG(status));
		sigprocmask(SIG_UNBLOCK, &one, NULL);
		_exit(128 + WTERMSIG(status));
	}
	_exit(WEXITSTATUS(status));
}

static struct { int fd; off_t size; } written[3];

/* Where whoever shares the file with this process goes on writing is behind what the program has written. */
static void note_offsets(void)
{
	for (int fd = 0; fd < 3; fd++) {
		struct stat st;
		int flags = fcntl(fd, F_GETFL);

		written[fd].fd = -1;
		if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && !(flags & O_APPEND) && !fstat(fd, &st) &&
		    S_ISREG(st.st_mode) && lseek(fd, 0, SEEK_CUR) == st.st_size) {
			written[fd].fd = fd;
			written[fd].size = st.st_size;
		}
	}
}

static void move_offsets(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (written[fd].fd >= 0 && lseek(fd, 0, SEEK_CUR) == written[fd].size)
			lseek(fd, 0, SEEK_END);
}

/* The line to the job root; -1 when the program has ended. */
static int keeper_fd;
static bool stays;
/* What wait(2) says of the program, once it has ended. */
static int program_status;

static void program_ended(const struct stand_in_duties *duties, int status)
{
	close(keeper_fd);
	keeper_fd = -1;
	program_status = status;
	if (duties->agent)
		attend_program_ended(status);
	if (stays)
		return;	/* It may come back. */
	move_offsets();
	end_as(status);
}

/* As the program would, if that is how the job has ended. */
static void __attribute__((noreturn)) job_ended(int status)
{
	move_offsets();
	if (keeper_fd < 0 && WIFSIGNALED(program_status) && 128 + WTERMSIG(program_status) == status)
		end_as(program_status);
	_exit(status);
}

static bool asks_to_end(int signal)
{
	return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

static void signalled(const struct stand_in_duties *duties, const struct signalfd_siginfo *info)
{
	int signal = info->ssi_signo;
	/* The terminal sends its signals to the whole process group, and the program is not in this one. */
	struct message message = { .kind = info->ssi_code == SI_KERNEL || signal == SIGCONT ? GROUP_SIGNAL : SIGNAL,
				   .value = signal };

	if (signal == SIGCHLD || signal == SIGTTIN || signal == SIGTTOU)
		return;
	if (duties->checkpoint_signals && (signal == SIGUSR1 || signal == SIGUSR2)) {
		attend_signal(signal);
		/* What the program's death means then the agent knows. */
		stays |= signal == SIGUSR2;
		return;
	}
	/* Under nohup a hangup asks for nothing. It comes nevertheless: a signal that is blocked is not thrown away. */
	bool ignored = d.ignored >> (signal - 1) & 1;
	if (duties->agent && stays && !ignored && (asks_to_end(signal) || keeper_fd < 0))
		attend_signal(signal);
	if (keeper_fd >= 0)
		tell(keeper_fd, &message, NULL, 0);
}

static void from_keeper(const struct stand_in_duties *duties)
{
	struct message message;
	int fds[MAX_FDS + 1], nfds;

	if (!hear(keeper_fd, &message, fds, &nfds)) {
		if (!stays)
			say("the job root has ended, and the program with it");
		program_ended(duties, SIGKILL);
	} else if (message.kind == STOPPED) {
		kill(getpid(), SIGSTOP);
	} else if (message.kind == ENDED) {
		program_ended(duties, message.value);
	}
}

static void from_agent(bool readable)
{
	int status;

	switch (attend_serve(readable, &status)) {
	case ATTEND_JOB_ENDED:
		job_ended(status);
	case ATTEND_AGENT_GONE:
		if (!stays)
			break;
		if (keeper_fd >= 0) {
			say("this host has had no agent for %d s: the program is ended", AGENT_GONE_SECONDS);
			end_as(SIGKILL);
		}
		say("this host has had no agent for %d s, and the program has ended", AGENT_GONE_SECONDS);
		/* fall through */
	case ATTEND_LEFT_ALONE:
		stays = false;
		if (keeper_fd < 0) {
			move_offsets();
			end_as(program_status);
		}
		break;
	case ATTEND_NOTHING:
		break;
	}
}

/* What a launcher sees closed it takes for the end of the program, which may come back. */
static bool is_line_to_launcher(int fd)
{
	const char *pmi = getenv("PMI_FD");

	return stays && pmi && fd == atoi(pmi);
}

int stand_in(const struct stand_in_duties *duties, const char *socket, const char *path, char **argv)
{
	int signals;
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &blocked_at_start);
	stays = duties->stays;
	/* Both before the program runs: its end is not missed, and nothing that it writes is taken for the shell's. */
	if (duties->agent)
		attend(duties->agent, argv[0], stays);
	note_offsets();
	keeper_fd = hand_over(socket, path, argv);
	for (uint32_t i = 0; i < d.nfds; i++)
		if (d.fd[i] > 2 && !is_line_to_launcher(d.fd[i]))
			close(d.fd[i]);
	signals = signalfd(-1, &all, SFD_CLOEXEC);
	if (signals < 0)
		die(CANNOT_RUN, "signalfd", "");
	for (;;) {
		struct pollfd wait[3] = { { .fd = keeper_fd, .events = POLLIN }, { .fd = signals, .events = POLLIN },
					  { .fd = duties->agent ? attend_fd() : -1, .events = POLLIN } };
		struct signalfd_siginfo info;

		if (poll(wait, 3, duties->agent ? attend_timeout() : -1) < 0)
			continue;
		if (wait[1].revents && read(signals, &info, sizeof(info)) == sizeof(info))
			signalled(duties, &info);
		if (wait[0].revents)
			from_keeper(duties);
		if (duties->agent)
			from_agent(wait[2].revents);
	}
}
