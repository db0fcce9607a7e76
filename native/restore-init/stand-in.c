// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
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

/* All that are open: what is not for the program was closed when this one was executed. */
static int inherited(int32_t *numbers)
{
	/* MPICH's mpirun leaves its line to its own proxy open in all ranks, of no use to them; no image can have it. */
	const char *control = getenv("HYDI_CONTROL_FD");
	int n = 0, limit = 0, launchers_own = control ? atoi(control) : -1;
	char *maximum = read_all("/proc/self/status"), *size = maximum ? strstr(maximum, "\nFDSize:") : NULL;

	limit = size ? atoi(size + 8) : 1024;
	free(maximum);
	for (int fd = 0; fd < limit; fd++) {
		if (fd == launchers_own || fcntl(fd, F_GETFD) < 0)
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

int stand_in(const char *socket, const char *path, char **argv)
{
	struct { int fd; off_t size; } written[3];
	int keeper_fd, signals;
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &blocked_at_start);
	keeper_fd = hand_over(socket, path, argv);
	/* Where whoever shares the file with this process goes on writing is behind what the program has written. */
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
	for (uint32_t i = 0; i < d.nfds; i++)
		if (d.fd[i] > 2)
			close(d.fd[i]);
	signals = signalfd(-1, &all, SFD_CLOEXEC);
	if (signals < 0)
		die(CANNOT_RUN, "signalfd", "");
	for (;;) {
		struct pollfd wait[2] = { { .fd = keeper_fd, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
		struct message message;
		int fds[MAX_FDS + 1], nfds;

		if (poll(wait, 2, -1) < 0)
			continue;
		if (wait[1].revents) {
			struct signalfd_siginfo info;

			if (read(signals, &info, sizeof(info)) == sizeof(info) && info.ssi_signo != SIGCHLD &&
			    info.ssi_signo != SIGTTIN && info.ssi_signo != SIGTTOU) {
				/* The terminal sends its signals to the whole process group, and the program is not in this one. */
				message = (struct message){ .kind = info.ssi_code == SI_KERNEL || info.ssi_signo == SIGCONT ?
							    GROUP_SIGNAL : SIGNAL, .value = info.ssi_signo };
				tell(keeper_fd, &message, NULL, 0);
			}
		}
		if (!wait[0].revents)
			continue;
		if (!hear(keeper_fd, &message, fds, &nfds)) {
			say("the job root has ended, and the program with it");
			end_as(SIGKILL);
		}
		if (message.kind == STOPPED) {
			kill(getpid(), SIGSTOP);
		} else if (message.kind == ENDED) {
			for (int fd = 0; fd < 3; fd++)
				if (written[fd].fd >= 0 && lseek(fd, 0, SEEK_CUR) == written[fd].size)
					lseek(fd, 0, SEEK_END);
			end_as(message.value);
		}
	}
}
