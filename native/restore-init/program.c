// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "job-root.h"
#include "namespaces.h"
#include "pmi.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TEXT 4096

/* The folder of the group at path below the mount of that kind of control group, as /proc/self/cgroup and mountinfo have them. */
static bool group_folder(const char *mounts, const char *controllers, const char *group, char *folder, size_t size)
{
	for (const char *line = mounts; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		char root[TEXT], point[TEXT], type[64], options[TEXT];
		const char *dash;

		if (sscanf(line, "%*d %*d %*s %4095s %4095s", root, point) != 2 || !(dash = strstr(line, " - ")) ||
		    sscanf(dash, " - %63s %*s %4095s", type, options) != 2)
			continue;
		if (*controllers ? strcmp(type, "cgroup") : strcmp(type, "cgroup2"))
			continue;
		if (*controllers) {
			char *found = strstr(options, controllers);
			char end = found ? found[strlen(controllers)] : 'x';

			if (!found || (end && end != ','))
				continue;
		}
		if (!strcmp(root, "/"))
			root[0] = 0;
		if (strncmp(group, root, strlen(root)))
			continue;
		return snprintf(folder, size, "%s%s/cgroup.procs", point, group + strlen(root)) < (int)size;
	}
	return false;
}

/* This process is in the groups of the launch that made the job root. A launch of another step has others. */
static void enter_groups(char *groups)
{
	char *own = read_all("/proc/self/cgroup"), *mounts = read_all("/proc/self/mountinfo");
	char *line;

	while (own && mounts && (line = strsep(&groups, "\n")) && *line) {
		char folder[2 * TEXT], *controllers = strchr(line, ':') + 1, *group = strchr(controllers, ':');
		int fd;

		if (strstr(own, line))
			continue;
		*group++ = 0;
		fd = group_folder(mounts, controllers, group, folder, sizeof(folder)) ? open(folder, O_WRONLY | O_CLOEXEC) : -1;
		if (fd < 0 || write(fd, "0", 1) != 1) {
			say("the program is not in the control group %s of its launch (%s), but in that of the first launch of the"
			    " job on this host", group, strerror(errno));
			break;
		}
		close(fd);
	}
	free(own);
	free(mounts);
}

static bool same_file(int one, int other)
{
	return syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, one, other) == 0;
}

/* Who starts a job learns it now, and not when the first checkpoint fails. */
static void say_not_opened(int fd, int number)
{
	char link[64], path[TEXT];
	int err = errno;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = 0;
	say("descriptor %d, %s, can't be opened by this user (%s): while a program has it, no checkpoint can be made", number, path,
	    strerror(err));
}

/*
 * The same files, opened by the mounts of this namespace: CRIU knows no others. What shared an offset shares it again. A file that
 * is written at its end is appended to, for whoever else writes there has an offset of his own.
 */
static void open_by_these_mounts(int *fds, const int32_t *numbers, int nfds)
{
	for (int i = 0; i < nfds; i++) {
		int flags = fcntl(fds[i], F_GETFL), again, original;
		off_t offset = lseek(fds[i], 0, SEEK_CUR);
		struct stat st;

		if (flags < 0 || fstat(fds[i], &st))
			continue;
		flags &= O_ACCMODE | O_APPEND | O_NONBLOCK | O_SYNC | O_DSYNC | O_DIRECT | O_DIRECTORY | O_NOATIME | O_PATH;
		if (S_ISREG(st.st_mode) && (flags & O_ACCMODE) != O_RDONLY && offset == st.st_size)
			flags |= O_APPEND;
		again = open_again(fds[i], flags);
		if (again < 0) {
			if (errno != EINVAL)
				say_not_opened(fds[i], numbers[i]);
			continue;
		}
		if (S_ISREG(st.st_mode))
			lseek(again, offset, SEEK_SET);
		original = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
		dup3(again, fds[i], O_CLOEXEC);
		for (int j = i + 1; original >= 0 && j < nfds; j++)
			if (same_file(original, fds[j]))
				dup3(again, fds[j], O_CLOEXEC);
		close(again);
		close(original);
	}
}

/* Puts descriptors at the numbers that the program knows, none of which is to be overwritten before it is moved. */
static void number(int *fds, const int32_t *wanted, uint32_t nfds)
{
	int above = 3;

	for (uint32_t i = 0; i < nfds; i++)
		if (wanted[i] >= above)
			above = wanted[i] + 1;
	for (uint32_t i = 0; i < nfds; i++) {
		int moved = fcntl(fds[i], F_DUPFD_CLOEXEC, above);

		if (moved < 0)
			die(CANNOT_RUN, "descriptors", "of the launch");
		close(fds[i]);
		fds[i] = moved;
	}
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	for (uint32_t i = 0; i < nfds; i++) {
		dup2(fds[i], wanted[i]);
		close(fds[i]);
	}
}

static void set_signals(uint64_t ignored, uint64_t blocked)
{
	sigset_t mask;

	sigemptyset(&mask);
	for (int s = 1; s <= 64; s++) {
		signal(s, ignored >> (s - 1) & 1 ? SIG_IGN : SIG_DFL);
		if (blocked >> (s - 1) & 1)
			sigaddset(&mask, s);
	}
	sigprocmask(SIG_SETMASK, &mask, NULL);
}

static void __attribute__((noreturn)) become(const char *program, char **argv, char **environment, uint32_t argc)
{
	execve(program, argv, environment);
	if (errno == ENOEXEC) {
		/* A script without #! is for the shell, as execvp(3) has it. */
		char **shell = calloc(argc + 2, sizeof(*shell));

		if (shell) {
			shell[0] = "/bin/sh";
			shell[1] = (char *)program;
			memcpy(shell + 2, argv + 1, argc * sizeof(*shell));
			execve(shell[0], shell, environment);
		}
	}
	die(CANNOT_RUN, "execute", program);
}

/* The next string of a description, of which `end` is behind the last one. */
static char *next_string(char **at, const char *end)
{
	char *text = *at;
	size_t left = end - text;
	size_t size = strnlen(text, left);

	if (size == left) {
		errno = EPROTO;
		die(CANNOT_RUN, "the description", "of the program");
	}
	*at += size + 1;
	return text;
}

void program(const char *tasks, int line)
{
	int fds[MAX_FDS + 1], nfds, keeper;
	struct message message = { .kind = ASK };
	struct description *d;
	struct stat st;
	char *at, *end, *folder, *groups, *path, **argv, **environment;

	setpgid(0, 0);
	keeper = connect_to(tasks);
	if (keeper < 0)
		die(CANNOT_RUN, "connect", tasks);
	expect_answer(keeper);
	if (!tell(keeper, &message, NULL, 0) || !hear(keeper, &message, fds, &nfds) || nfds < 1)
		die(CANNOT_RUN, "program", "from the job root");
	close(keeper);
	if (fstat(fds[0], &st) || st.st_size < (off_t)sizeof(*d))
		die(CANNOT_RUN, "program", "description");
	d = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fds[0], 0);
	if (d == MAP_FAILED || (int)d->nfds != nfds - 1)
		die(CANNOT_RUN, "program", "description");
	close(fds[0]);
	/* So that what goes wrong is said where the program would say it. */
	for (uint32_t i = 0; i < d->nfds; i++)
		if (d->fd[i] == STDERR_FILENO)
			dup2(fds[i + 1], STDERR_FILENO);
	at = (char *)(d + 1);
	end = (char *)d + st.st_size;
	folder = next_string(&at, end);
	groups = next_string(&at, end);
	path = next_string(&at, end);
	argv = calloc(d->argc + 1, sizeof(*argv));
	environment = calloc(d->envc + 1, sizeof(*environment));
	if (!argv || !environment)
		die(CANNOT_RUN, "memory", "for the arguments");
	for (uint32_t i = 0; i < d->argc; i++)
		argv[i] = next_string(&at, end);
	for (uint32_t i = 0; i < d->envc; i++)
		environment[i] = next_string(&at, end);
	pmi_hand_over(tasks, environment, line, fds + 1, d->fd, nfds - 1);
	open_by_these_mounts(fds + 1, d->fd, nfds - 1);
	number(fds + 1, d->fd, d->nfds);
	if (chdir(folder))
		die(CANNOT_RUN, "folder", folder);
	enter_groups(groups);
	umask(d->mask);
	syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, d->io_priority);
	if (d->policy != sched_getscheduler(0)) {
		struct sched_param priority = { .sched_priority = d->priority };

		if (sched_setscheduler(0, d->policy, &priority))
			say("the program does not have the scheduling policy of its launch: %s", strerror(errno));
	}
	if (getpriority(PRIO_PROCESS, 0) != d->niceness && setpriority(PRIO_PROCESS, 0, d->niceness))
		say("the program does not have the niceness of its launch, %d: %s", d->niceness, strerror(errno));
	if (d->affinity_bytes && syscall(SYS_sched_setaffinity, 0, d->affinity_bytes, d->affinity) < 0)
		say("the program does not have the processors of its launch: %s", strerror(errno));
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit have;

		if (!getrlimit(i, &have) && memcmp(&have, &d->limits[i], sizeof(have)) && setrlimit(i, &d->limits[i]))
			say("the program does not have the resource limit %d of its launch: %s", i, strerror(errno));
	}
	if (d->no_new_privileges)
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	set_signals(d->ignored, d->blocked);
	become(path, argv, environment, d->argc);
}
