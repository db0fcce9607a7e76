// SPDX-License-Identifier: Apache-2.0
/*
 * The job root: the one tree of a job on a host, in namespaces of its own, however many launches started its programs.
 *
 *   outside                      in the namespaces
 *   launch, now the stand-in <-> keeper, process 1 <-- top, process 2 --> program, program, ...
 *
 * The top is the parent of all programs and the top of the tree that is saved. So it holds nothing that leads out of the tree:
 * the keeper asks it by a signal for a child, and it tells the keeper by a datagram what became of one. After a restart another
 * process 1 is there (restore-init.c), the datagrams arrive nowhere, and the top ends by itself with its last child.
 *
 * The keeper is not saved. It listens at a socket, takes programs from launches (descriptors and all that a process has
 * from the one that started it), hands them to the top's children, and passes on signals one way and statuses the other.
 *
 * usage: shadowverbs-job-root start SOCKET [user]        makes the job root that listens there, unless there is one, and makes
 *                                                         it wait for a launch. Says the top's pid on this host. With "user",
 *                                                         who has no privilege, a user namespace is around the others.
 *        shadowverbs-job-root run SOCKET PROGRAM ARG0...  hands PROGRAM over with all that this process has, and is its stand-in
 *        shadowverbs-job-root enter PID PROGRAM ARG...    runs PROGRAM with all capabilities in the namespaces of PID
 *        shadowverbs-job-root try PROGRAM ARG...          runs PROGRAM as "enter" does, in new namespaces of an ordinary user
 *        shadowverbs-job-root top TASKS REPORTS           the top itself
 *
 * Exit status of run: the program's, or its death by the same signal; 126 and 127 as a shell has them.
 */
#define _GNU_SOURCE
#include "namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define SIG_BIRTH SIGRTMIN		/* from the keeper to the top: have a child that asks for a program */
#define SIG_END (SIGRTMIN + 1)		/* and: end */
#define MAX_FDS 250			/* that one message can carry (SCM_MAX_FD is 253) */
#define RESERVED_SECONDS 60		/* from "start" to "run" of one launch */
#define ANSWER_SECONDS 60		/* that a process of the job root may take to answer, on a host with much to do */
#define CANNOT_RUN 126
#define NOT_FOUND 127
#define AFFINITY_BYTES 1024		/* 8,192 processors */
#define IOPRIO_WHO_PROCESS 1
#define TEXT 4096

enum kind {
	RESERVE = 1,	/* start to keeper: a launch will come; value is 1 when it is the first. Answered by the same */
	LAUNCH,		/* run to keeper: a program, with descriptors; the first is its description */
	ASK,		/* a child of the top to the keeper. Answered with the program */
	SIGNAL,		/* run to keeper: for the program; value is the signal */
	GROUP_SIGNAL,	/* the same for its process group */
	ENDED,		/* keeper to run: value is what wait(2) says. Top to keeper: the same, of pid */
	STOPPED,	/* value is the signal */
	NONE_LEFT,	/* top to keeper: it has no child */
};

struct message {
	int32_t kind;
	int32_t pid;
	int32_t value;
};

/* What a program has from the process that starts it. Strings follow, each with its end: folder, groups, program, argv, environment. */
struct description {
	uint32_t argc, envc;
	uint32_t nfds;
	int32_t fd[MAX_FDS];		/* its numbers in the program */
	uint32_t mask;			/* umask */
	int32_t niceness, policy, priority, io_priority, no_new_privileges;
	uint64_t ignored, blocked;	/* bit n-1 for signal n */
	uint64_t affinity_bytes;
	unsigned char affinity[AFFINITY_BYTES];
	struct rlimit limits[RLIM_NLIMITS];
};

static void say(const char *format, ...)
{
	char text[TEXT];
	va_list args;
	int n = snprintf(text, sizeof(text), "shadowverbs: ");

	va_start(args, format);
	n += vsnprintf(text + n, sizeof(text) - n - 1, format, args);
	va_end(args);
	if (n > (int)sizeof(text) - 2)
		n = sizeof(text) - 2;
	text[n++] = '\n';
	if (write(STDERR_FILENO, text, n) < 0)
		return;
}

static void __attribute__((noreturn)) die(int status, const char *what, const char *subject)
{
	say("%s %s: %s", what, subject, strerror(errno));
	exit(status);
}

static struct sockaddr_un address_of(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		die(CANNOT_RUN, "socket", path);
	}
	strcpy(address.sun_path, path);
	return address;
}

static void set_timeout(int socket, int option)
{
	struct timeval patience = { .tv_sec = ANSWER_SECONDS };

	setsockopt(socket, SOL_SOCKET, option, &patience, sizeof(patience));
}

/* -1 when nobody listens there. */
static int connect_to(const char *path)
{
	struct sockaddr_un address = address_of(path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die(CANNOT_RUN, "socket", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		close(fd);
		return -1;
	}
	return fd;
}

static pid_t peer_pid(int fd)
{
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) ? -1 : peer.pid;
}

static bool tell(int fd, const struct message *message, const int *fds, int nfds)
{
	char control[CMSG_SPACE(sizeof(int) * (MAX_FDS + 1))] = { 0 };
	struct iovec data = { .iov_base = (void *)message, .iov_len = sizeof(*message) };
	struct msghdr head = { .msg_iov = &data, .msg_iovlen = 1 };
	ssize_t n;

	if (nfds) {
		struct cmsghdr *rights;

		head.msg_control = control;
		head.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
		rights = CMSG_FIRSTHDR(&head);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
		memcpy(CMSG_DATA(rights), fds, sizeof(int) * nfds);
	}
	do {
		n = sendmsg(fd, &head, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n == sizeof(*message);
}

/* Returns false at the other side's end, and for what is no message. */
static bool hear(int fd, struct message *message, int *fds, int *nfds)
{
	char control[CMSG_SPACE(sizeof(int) * (MAX_FDS + 1))];
	struct iovec data = { .iov_base = message, .iov_len = sizeof(*message) };
	struct msghdr head = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *rights;
	ssize_t n;

	*nfds = 0;
	do {
		n = recvmsg(fd, &head, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	rights = n < 0 ? NULL : CMSG_FIRSTHDR(&head);
	if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS) {
		*nfds = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(rights), sizeof(int) * *nfds);
	}
	return n == sizeof(*message) && !(head.msg_flags & MSG_CTRUNC);
}

static void close_all(const int *fds, int nfds)
{
	for (int i = 0; i < nfds; i++)
		close(fds[i]);
}

static char *read_all(const char *path)
{
	size_t used = 0, size = 65536;
	char *text = malloc(size);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	while (text && fd >= 0 && (n = read(fd, text + used, size - used - 1)) > 0) {
		used += n;
		if (used + 1 == size)
			text = realloc(text, size *= 2);
	}
	if (fd >= 0)
		close(fd);
	if (text)
		text[used] = 0;
	return text;
}

/* ---- a program, as the child of the top that becomes it ---- */

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

static void __attribute__((noreturn)) program(const char *tasks)
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
	set_timeout(keeper, SO_RCVTIMEO);
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

/* ---- the top ---- */

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

	if (more) {
		programs = more;
		pid = fork();
	}
	if (!pid)
		program(tasks);
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

static void __attribute__((noreturn)) top(const char *tasks, const char *reports)
{
	int first_failure = 0;
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	/* What a program leaves behind stays in the tree. */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	for (;;) {
		siginfo_t info;
		int signo = sigwaitinfo(&all, &info), status;
		pid_t pid;

		if (signo < 0)
			continue;
		if (signo == SIG_BIRTH) {
			birth(tasks, reports);
			continue;
		}
		if (signo != SIGCHLD && signo != SIG_END) {
			/* From a restart, which passes on what it is told. Whoever else sends one sends it to the programs too. */
			for (size_t i = 0; info.si_pid == 1 && i < nprograms; i++)
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
				report(reports, ENDED, pid, status);
			}
		}
		if (pid < 0 && errno == ECHILD && (signo == SIG_END || !report(reports, NONE_LEFT, 0, 0)))
			exit(first_failure);
	}
}

/* ---- the keeper ---- */

struct launch {
	int stand_in;		/* -1 when it was killed */
	pid_t pid;		/* 0: no child of the top has asked for it yet */
	int fds[MAX_FDS + 1];	/* until then */
	int nfds;
};

static struct launch *launches;
static size_t nlaunches;
/* Connections that have not said what they are. */
static int *callers;
static size_t ncallers;
/* Launches that were announced and have not come: of the first one the keeper knows without being told. */
static int reserved = 1;
static time_t reserved_until;
static bool none_left = true;
static pid_t top_pid;
static char report_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
static const char *socket_path;

static time_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec;
}

static void *grown(void *array, size_t size)
{
	void *more = realloc(array, size);

	if (!more)
		die(CANNOT_RUN, "memory", "for launches");
	return more;
}

static void forget(size_t i)
{
	if (launches[i].stand_in >= 0)
		close(launches[i].stand_in);
	close_all(launches[i].fds, launches[i].nfds);
	memmove(&launches[i], &launches[i + 1], (--nlaunches - i) * sizeof(*launches));
}

static void ended(size_t i, int status)
{
	struct message message = { .kind = ENDED, .value = status };

	tell(launches[i].stand_in, &message, NULL, 0);
	forget(i);
}

/* A child of the top asks what it is to become: the program that has waited longest. */
static void asked(int caller)
{
	for (size_t i = 0; i < nlaunches; i++) {
		struct launch *launch = &launches[i];
		struct message message = { .kind = LAUNCH };

		if (launch->pid)
			continue;
		launch->pid = peer_pid(caller);
		/* Nobody stands in for it any more: the child hears nothing, and ends. */
		if (launch->stand_in >= 0)
			tell(caller, &message, launch->fds, launch->nfds);
		close_all(launch->fds, launch->nfds);
		launch->nfds = 0;
		return;
	}
}

/* Returns whether the connection is a stand-in's, which stays. */
static bool called(int caller)
{
	struct message message;
	int fds[MAX_FDS + 1], nfds;

	if (!hear(caller, &message, fds, &nfds)) {
		close_all(fds, nfds);
		return false;
	}
	if (message.kind == LAUNCH && nfds) {
		launches = grown(launches, (nlaunches + 1) * sizeof(*launches));
		launches[nlaunches] = (struct launch){ .stand_in = caller, .nfds = nfds };
		memcpy(launches[nlaunches++].fds, fds, nfds * sizeof(int));
		if (reserved)
			reserved--;
		none_left = false;
		kill(top_pid, SIG_BIRTH);
		return true;
	}
	close_all(fds, nfds);
	if (message.kind == ASK) {
		asked(caller);
	} else if (message.kind == RESERVE) {
		if (!message.value)
			reserved++;
		reserved_until = now() + RESERVED_SECONDS;
		tell(caller, &message, NULL, 0);
	}
	return false;
}

static void from_stand_in(size_t i)
{
	struct message message;
	int fds[MAX_FDS + 1], nfds;
	bool heard = hear(launches[i].stand_in, &message, fds, &nfds);

	close_all(fds, nfds);
	if (heard && launches[i].pid > 0) {
		kill(message.kind == GROUP_SIGNAL ? -launches[i].pid : launches[i].pid, message.value);
	} else if (!heard) {
		/* It was killed, and the program is to end as it would have without it. */
		if (launches[i].pid > 0)
			kill(launches[i].pid, SIGKILL);
		close(launches[i].stand_in);
		launches[i].stand_in = -1;
	}
}

static void from_top(int reports)
{
	struct message message;

	if (recv(reports, &message, sizeof(message), 0) != sizeof(message))
		return;
	if (message.kind == NONE_LEFT)
		none_left = true;
	for (size_t i = 0; i < nlaunches; i++)
		if (launches[i].pid && launches[i].pid == message.pid) {
			if (message.kind == ENDED)
				ended(i, message.value);
			else
				tell(launches[i].stand_in, &message, NULL, 0);
			return;
		}
	/* Of a child that could not be had, or ended before it asked. */
	for (size_t i = 0; message.kind == ENDED && i < nlaunches; i++)
		if (!launches[i].pid) {
			ended(i, message.value);
			return;
		}
}

static void __attribute__((noreturn)) end(void)
{
	unlink(report_path);
	unlink(socket_path);
	while (nlaunches)
		ended(nlaunches - 1, SIGKILL);
	exit(0);
}

static void children(int signals)
{
	struct signalfd_siginfo info;
	pid_t pid;

	if (read(signals, &info, sizeof(info)) < 0)
		return;
	/* The end of this process ends whatever is left. */
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		if (pid == top_pid)
			end();
}

static void serve(int listening, int reports, int signals)
{
	struct pollfd *wait = NULL;

	for (;;) {
		size_t n = 3, had_callers = ncallers, had_launches = nlaunches;
		bool ending = none_left && !nlaunches;

		if (reserved && now() >= reserved_until)
			reserved = 0;
		if (ending && !reserved)
			kill(top_pid, SIG_END);
		wait = grown(wait, (3 + ncallers + nlaunches) * sizeof(*wait));
		wait[0] = (struct pollfd){ .fd = listening, .events = POLLIN };
		wait[1] = (struct pollfd){ .fd = reports, .events = POLLIN };
		wait[2] = (struct pollfd){ .fd = signals, .events = POLLIN };
		for (size_t i = 0; i < ncallers; i++)
			wait[n++] = (struct pollfd){ .fd = callers[i], .events = POLLIN };
		for (size_t i = 0; i < nlaunches; i++)
			wait[n++] = (struct pollfd){ .fd = launches[i].stand_in, .events = POLLIN };
		if (poll(wait, n, reserved ? 1000 : -1) <= 0)
			continue;
		/* From the end, so that what is removed moves nothing that is still to be looked at. */
		for (size_t i = had_launches; i-- > 0;)
			if (wait[3 + had_callers + i].revents)
				from_stand_in(i);
		for (size_t i = had_callers; i-- > 0;) {
			if (!wait[3 + i].revents)
				continue;
			if (!called(callers[i]))
				close(callers[i]);
			memmove(&callers[i], &callers[i + 1], (--ncallers - i) * sizeof(*callers));
		}
		if (wait[1].revents)
			from_top(reports);
		if (wait[2].revents)
			children(signals);
		if (wait[0].revents) {
			int caller = accept4(listening, NULL, NULL, SOCK_CLOEXEC);

			if (caller >= 0) {
				callers = grown(callers, (ncallers + 1) * sizeof(*callers));
				callers[ncallers++] = caller;
			}
		}
	}
}

static int bound(const char *path, int type)
{
	struct sockaddr_un address = address_of(path);
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)))
		die(CANNOT_RUN, "bind", path);
	return fd;
}

/* Process 1 of the namespaces. It says "ready" when the top is there, which is as long as it is. */
static void __attribute__((noreturn)) keeper(const char *self, bool user, int ready)
{
	int listening, reports, signals, null;
	unsigned long long name;
	sigset_t all;

	reserved_until = now() + RESERVED_SECONDS;
	umask(077);
	if (!own_proc())
		die(CANNOT_RUN, "mount", "/proc");
	if (getrandom(&name, sizeof(name), 0) != sizeof(name) ||
	    snprintf(report_path, sizeof(report_path), "%s.%llx", socket_path, name) >= (int)sizeof(report_path)) {
		errno = ENAMETOOLONG;
		die(CANNOT_RUN, "socket", socket_path);
	}
	reports = bound(report_path, SOCK_DGRAM);
	listening = bound(socket_path, SOCK_SEQPACKET);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	top_pid = fork();
	if (top_pid < 0)
		die(CANNOT_RUN, "fork", "");
	if (!top_pid) {
		setsid();
		null = open("/dev/null", O_RDWR | O_NOCTTY);
		for (int fd = 0; fd < 3; fd++)
			dup2(null, fd);
		close(null);
		/* Its segments are saved with the tree then. CRIU can't do that for an ordinary user. */
		if (!user && unshare(CLONE_NEWIPC))
			_exit(CANNOT_RUN);
		execl(self, "shadowverbs-job", "top", socket_path, report_path, NULL);
		_exit(CANNOT_RUN);
	}
	sigemptyset(&all);
	sigaddset(&all, SIGCHLD);
	signals = signalfd(-1, &all, SFD_CLOEXEC);
	if (signals < 0 || listen(listening, SOMAXCONN))
		die(CANNOT_RUN, "listen", socket_path);
	if (write(ready, "ready", 5) != 5)
		exit(1);
	close(ready);
	null = open("/dev/null", O_RDWR | O_NOCTTY);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	close(null);
	serve(listening, reports, signals);
	exit(0);
}

/* ---- start ---- */

static pid_t top_of(pid_t keeper_pid)
{
	char path[64], *children;
	pid_t pid;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", keeper_pid, keeper_pid);
	children = read_all(path);
	pid = children ? atoi(children) : 0;
	free(children);
	return pid;
}

static void make(const char *self, bool user)
{
	int ready[2], status;
	const char *what;
	char word[8];
	pid_t child;

	if (pipe2(ready, O_CLOEXEC))
		die(CANNOT_RUN, "pipe", "");
	child = fork();
	if (child < 0)
		die(CANNOT_RUN, "fork", "");
	if (!child) {
		pid_t inner;

		close(ready[0]);
		setsid();
		for (int fd = 3; fd < 1024; fd++)
			if (fd != ready[1])
				close(fd);
		if (user && !user_namespace(&what))
			die(CANNOT_RUN, "make", what);
		if (unshare(CLONE_NEWPID | CLONE_NEWNS))
			die(CANNOT_RUN, "make", "a pid and a mount namespace");
		inner = fork();
		if (inner < 0)
			die(CANNOT_RUN, "fork", "");
		if (!inner)
			keeper(self, user, ready[1]);
		_exit(0);
	}
	close(ready[1]);
	if (waitpid(child, &status, 0) != child)
		die(CANNOT_RUN, "wait", "for the job root");
	/* The keeper has said why it ended, if it has. */
	if (status || read(ready[0], word, sizeof(word)) != 5)
		exit(CANNOT_RUN);
	close(ready[0]);
}

static int start(const char *self, bool user)
{
	char lock[PATH_MAX];
	struct message message = { .kind = RESERVE };
	int fd, locked, fds[MAX_FDS + 1], nfds;

	snprintf(lock, sizeof(lock), "%s.lock", socket_path);
	locked = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (locked < 0 || flock(locked, LOCK_EX))
		die(CANNOT_RUN, "lock", lock);
	for (int tries = 0; tries < 3; tries++) {
		fd = connect_to(socket_path);
		if (fd < 0) {
			make(self, user);
			message.value = 1;
			fd = connect_to(socket_path);
		}
		if (fd < 0)
			continue;
		set_timeout(fd, SO_RCVTIMEO);
		if (tell(fd, &message, NULL, 0) && hear(fd, &message, fds, &nfds)) {
			printf("%d\n", top_of(peer_pid(fd)));
			return 0;
		}
		close(fd);	/* one that was just ending */
	}
	die(CANNOT_RUN, "no answer from the job root at", socket_path);
}

/* ---- run: the stand-in ---- */

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
	int n = 0, limit = 0;
	char *maximum = read_all("/proc/self/status"), *size = maximum ? strstr(maximum, "\nFDSize:") : NULL;

	limit = size ? atoi(size + 8) : 1024;
	free(maximum);
	for (int fd = 0; fd < limit; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
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

static int hand_over(const char *path, char **argv)
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
	keeper_fd = connect_to(socket_path);
	if (keeper_fd < 0 || !tell(keeper_fd, &message, fds, d.nfds + 1))
		die(CANNOT_RUN, "the job root at", socket_path);
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

static int stand_in(const char *path, char **argv)
{
	struct { int fd; off_t size; } written[3];
	int keeper_fd, signals;
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &blocked_at_start);
	keeper_fd = hand_over(path, argv);
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

/* ---- enter ---- */

/* As a child, which is in the pid namespace that this process has chosen. */
static int run_with_all_rights(char **argv)
{
	int status;
	pid_t child;

	child = fork();
	if (child < 0)
		die(CANNOT_RUN, "fork", "");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getpid() == 1 && !own_proc())
			die(CANNOT_RUN, "mount", "/proc");
		if (!hand_on_capabilities())
			die(CANNOT_RUN, "capabilities", "");
		execv(argv[0], argv);
		die(NOT_FOUND, "execute", argv[0]);
	}
	if (waitpid(child, &status, 0) != child)
		die(CANNOT_RUN, "wait", argv[0]);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int enter(const char *pid, char **argv)
{
	static const struct { const char *name; int flag; } kinds[] = {
		{ "user", CLONE_NEWUSER }, { "mnt", CLONE_NEWNS }, { "pid", CLONE_NEWPID }, { "time", 0x80 },
	};
	int fds[4];

	for (int i = 0; i < 4; i++) {
		char path[64], own[64];
		struct stat there, here;

		snprintf(path, sizeof(path), "/proc/%s/ns/%s", pid, kinds[i].name);
		snprintf(own, sizeof(own), "/proc/self/ns/%s", kinds[i].name);
		fds[i] = -1;
		if (stat(path, &there) || stat(own, &here)) {
			if (errno == ENOENT && i == 3)
				continue;	/* a kernel without time namespaces */
			die(CANNOT_RUN, "look at", path);
		}
		if (there.st_ino != here.st_ino && (fds[i] = open(path, O_RDONLY | O_CLOEXEC)) < 0)
			die(CANNOT_RUN, "open", path);
	}
	for (int i = 0; i < 4; i++)
		if (fds[i] >= 0 && setns(fds[i], kinds[i].flag))
			die(CANNOT_RUN, "enter the namespace", kinds[i].name);
	return run_with_all_rights(argv);
}

static int attempt(char **argv)
{
	const char *what;

	if (!user_namespace(&what))
		die(CANNOT_RUN, "make", what);
	if (unshare(CLONE_NEWPID | CLONE_NEWNS))
		die(CANNOT_RUN, "make", "a pid and a mount namespace");
	return run_with_all_rights(argv);
}

int main(int argc, char **argv)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		die(CANNOT_RUN, "read", "/proc/self/exe");
	self[n] = 0;
	if (argc >= 3)
		socket_path = argv[2];
	if (argc >= 3 && argc <= 4 && !strcmp(argv[1], "start"))
		return start(self, argc == 4 && !strcmp(argv[3], "user"));
	if (argc >= 5 && !strcmp(argv[1], "run"))
		return stand_in(argv[3], argv + 4);
	if (argc >= 3 && !strcmp(argv[1], "try"))
		return attempt(argv + 2);
	if (argc >= 4 && !strcmp(argv[1], "enter"))
		return enter(argv[2], argv + 3);
	if (argc == 4 && !strcmp(argv[1], "top"))
		top(argv[2], argv[3]);
	say("usage: see job-root.c");
	return CANNOT_RUN;
}
