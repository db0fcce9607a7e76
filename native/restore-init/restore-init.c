// SPDX-License-Identifier: Apache-2.0
/*
 * The first process of a pid namespace in which process trees are restored.
 *
 * A restored process needs the pid that it had, which may be in use, and a parent that learns how it ended. A program
 * that restores (CRIU) is run in a namespace of its own, and makes the restored process a child of this one.
 *
 * Commands come as lines on stdin, with fields separated by tabs; answers go to stdout in the same way. The end of
 * stdin ends the namespace with all that runs in it, and so does the death of the process that started this one.
 *
 * Before the namespace exists, as paths below /proc mean the host's processes then:
 *   open FD r|w|rw PATH          open PATH as descriptor FD for the programs to be run
 *   terminal FD IN OUT DIRECT    the same with a terminal: OUT if that is one and DIRECT is 1; else a new one, from and
 *                                to which is copied what is read from IN and written to OUT
 *   user                         for an ordinary user: the namespace gets a user namespace around it, and programs to be run
 *                                have all capabilities there
 *   devpts                       the namespace gets a /dev/pts of its own, in which all numbers are free
 *   shm                          the namespace gets a /dev/shm of its own, which is empty
 *   start LAST_PID               make the namespace; programs get pids from LAST_PID + 1 on
 * answer: started PID            PID of the first process as the host sees it
 * Then:
 *   run TAG MONOTONIC BOOTTIME PATH ARG...
 *                                answer: ran TAG STATUS, when it has ended; TAG is a number below 1024. It and its children
 *                                see these clocks so many nanoseconds ahead of this process; "-" as this process does
 *   kill PID SIGNAL              PID as in the namespace
 * and at any time:
 *   exit PID STATUS              a child that was not run by "run" has ended
 *   clocks TEXT                  the clocks of a program could not be set; it runs with those of this process
 *   error TEXT                   a command failed; before "started" it is the last answer
 * STATUS is 0 to 255, or 128 + signal.
 */
#define _GNU_SOURCE
#include "namespaces.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80	/* Linux 5.6 */
#endif
#define NS INT64_C(1000000000)
#define MAX_LINE 65536
#define MAX_FIELDS 512
#define MAX_TERMINALS 8
#define MAX_OPENED 256
#define MAX_RUNNING 1024
#define COPY_SIZE 4096
/* For so long what a terminal has said last is waited for when all has ended. */
#define LAST_WORDS_MS 200

struct terminal {
	int master;
	int in;
	int out;
};

static struct terminal terminals[MAX_TERMINALS];
static int nterminals;
static bool own_devpts;
static bool own_shm;
static bool ordinary_user;
/* Descriptors for the programs to be run, and how each was opened. */
static struct {
	int fd;
	int flags;
} opened[MAX_OPENED];
static int nopened;
static char line[MAX_LINE];
static size_t line_used;
static pid_t running[MAX_RUNNING];

static void answer(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_line(STDOUT_FILENO, "", format, args);
	va_end(args);
}

static bool is_terminal(const char *path)
{
	int fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	bool yes = fd >= 0 && isatty(fd);

	if (fd >= 0)
		close(fd);
	return yes;
}

static int open_at(int wanted, const char *path, int flags)
{
	int fd = open(path, flags | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		die(1, "open", path);
	if (wanted < 0)
		return fd;
	if (dup2(fd, wanted) < 0)
		die(1, "dup2", path);
	if (fd != wanted)
		close(fd);
	return wanted;
}

static void command_open(int nfields, char **field)
{
	int flags;

	if (nfields != 4) {
		errno = EINVAL;
		die(1, "command", "open");
	}
	if (nopened == MAX_OPENED) {
		errno = EMFILE;
		die(1, "open", field[3]);
	}
	flags = !strcmp(field[2], "rw") ? O_RDWR : !strcmp(field[2], "w") ? O_WRONLY | O_APPEND : O_RDONLY;
	opened[nopened].fd = open_at(atoi(field[1]), field[3], flags);
	opened[nopened++].flags = flags;
}

/*
 * What was opened by its name before the namespace existed is on a mount of the old one, which CRIU does not know when it
 * saves the restored processes again. The same file is opened once more, by the mounts that they have.
 */
static void reopen(int fd, int flags)
{
	int again = open_again(fd, flags);

	if (again >= 0) {
		dup2(again, fd);
		close(again);
	}
}

static void command_terminal(int nfields, char **field)
{
	struct terminal *terminal = &terminals[nterminals];
	int slave;

	if (nfields != 5 || nterminals == MAX_TERMINALS) {
		errno = EINVAL;
		die(1, "command", "terminal");
	}
	if (!strcmp(field[4], "1") && is_terminal(field[3])) {
		open_at(atoi(field[1]), field[3], O_RDWR);
		return;
	}
	if (openpty(&terminal->master, &slave, NULL, NULL, NULL))
		die(1, "openpty", field[1]);
	fcntl(terminal->master, F_SETFD, FD_CLOEXEC);
	if (dup2(slave, atoi(field[1])) < 0)
		die(1, "dup2", field[1]);
	close(slave);
	terminal->in = open_at(-1, field[2], O_RDONLY);
	terminal->out = open_at(-1, field[3], O_WRONLY | O_APPEND);
	nterminals++;
}

static bool write_all(int fd, const char *data, ssize_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		data += n;
		size -= n;
	}
	return true;
}

/* Returns false at the end of what there is to copy. */
static bool copy(int from, int to)
{
	char data[COPY_SIZE];
	ssize_t n = read(from, data, sizeof(data));

	if (n < 0)
		return errno == EINTR || errno == EAGAIN;
	return n > 0 && write_all(to, data, n);
}

/* A kernel that has no time namespaces, or a container that may not set clocks, is no reason not to restore. */
static void no_clocks(const char *what)
{
	answer("clocks\t%s: %s", what, strerror(errno));
}

static void split(int64_t ns, int64_t *s, int64_t *rest)
{
	*s = ns / NS;
	*rest = ns % NS;
	if (*rest < 0) {
		*rest += NS;
		--*s;
	}
}

/*
 * Moves this process, which has no other thread, to a time namespace of its own. Offsets are from the host's clocks, so those
 * of a namespace that it is in already are added to.
 */
static void set_clocks(int64_t monotonic, int64_t boottime)
{
	int64_t s, ns, s_boot, ns_boot;
	char name[16], text[128];
	FILE *offsets;
	int fd, n;

	if (unshare(CLONE_NEWTIME)) {
		no_clocks("unshare CLONE_NEWTIME");
		return;
	}
	offsets = fopen("/proc/self/timens_offsets", "re");
	while (offsets && fscanf(offsets, "%15s %" SCNd64 " %" SCNd64, name, &s, &ns) == 3)
		*(!strcmp(name, "monotonic") ? &monotonic : &boottime) += s * NS + ns;
	if (offsets)
		fclose(offsets);
	split(monotonic, &s, &ns);
	split(boottime, &s_boot, &ns_boot);
	n = snprintf(text, sizeof(text), "monotonic %" PRId64 " %" PRId64 "\nboottime %" PRId64 " %" PRId64 "\n", s, ns, s_boot,
		     ns_boot);
	fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, n) != n) {
		no_clocks("/proc/self/timens_offsets");
		return;
	}
	close(fd);
	fd = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWTIME))
		no_clocks("setns to the time namespace");
	close(fd);
}

static void command_run(int nfields, char **field)
{
	int tag = nfields > 4 ? atoi(field[1]) : -1;
	sigset_t none;
	pid_t pid;

	if (tag < 0 || tag >= MAX_RUNNING || running[tag]) {
		say("run: no program, or a tag in use");
		return;
	}
	pid = fork();
	if (pid < 0) {
		say("fork: %s", strerror(errno));
		return;
	}
	if (pid) {
		running[tag] = pid;
		return;
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (strcmp(field[2], "-"))
		set_clocks(strtoll(field[2], NULL, 10), strtoll(field[3], NULL, 10));
	/* Commands and answers are not the program's, nor what it says part of them. */
	dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	field[nfields] = NULL;
	if (ordinary_user && !hand_on_capabilities())
		_exit(126);
	execv(field[4], field + 4);
	_exit(127);
}

static void command(char *text)
{
	char *field[MAX_FIELDS + 1];
	int nfields = 0;

	while (nfields < MAX_FIELDS && (field[nfields] = strsep(&text, "\t")))
		nfields++;
	if (!strcmp(field[0], "run"))
		command_run(nfields, field);
	else if (!strcmp(field[0], "kill") && nfields == 3)
		kill(atoi(field[1]), atoi(field[2]));
	else
		say("unknown command %s", field[0]);
}

/* Runs the commands that have come whole. Returns false at the end of stdin. */
static bool commands(void)
{
	ssize_t n = read(STDIN_FILENO, line + line_used, sizeof(line) - line_used);
	char *end;

	if (n <= 0)
		return n < 0 && errno == EINTR;
	line_used += n;
	while ((end = memchr(line, '\n', line_used))) {
		size_t used = end + 1 - line;

		*end = 0;
		command(line);
		line_used -= used;
		memmove(line, end + 1, line_used);
	}
	return line_used < sizeof(line);
}

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
		int value = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);

		int tag = 0;

		while (tag < MAX_RUNNING && running[tag] != pid)
			tag++;
		if (tag < MAX_RUNNING) {
			running[tag] = 0;
			answer("ran\t%d\t%d", tag, value);
		} else {
			answer("exit\t%d\t%d", pid, value);
		}
	}
}

/* What the ended programs have written to their terminals. */
static void last_words(void)
{
	for (int i = 0; i < nterminals; i++) {
		struct pollfd ready = { .fd = terminals[i].master, .events = POLLIN };

		while (poll(&ready, 1, LAST_WORDS_MS) > 0 && ready.revents & POLLIN)
			if (!copy(ready.fd, terminals[i].out))
				break;
	}
}

static void serve(int children)
{
	struct pollfd wait[2 + 2 * MAX_TERMINALS];

	for (;;) {
		wait[0] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
		wait[1] = (struct pollfd){ .fd = children, .events = POLLIN };
		for (int i = 0; i < nterminals; i++) {
			wait[2 + 2 * i] = (struct pollfd){ .fd = terminals[i].master, .events = POLLIN };
			wait[3 + 2 * i] = (struct pollfd){ .fd = terminals[i].in, .events = POLLIN };
		}
		if (poll(wait, 2 + 2 * nterminals, -1) < 0)
			continue;
		for (int i = 0; i < nterminals; i++) {
			struct terminal *terminal = &terminals[i];

			if (wait[2 + 2 * i].revents & POLLIN)
				copy(terminal->master, terminal->out);
			if (wait[3 + 2 * i].revents && !copy(terminal->in, terminal->master))
				terminal->in = -1;
		}
		if (wait[1].revents) {
			struct signalfd_siginfo info;

			if (read(children, &info, sizeof(info)) > 0)
				reap();
		}
		if (wait[0].revents && !commands()) {
			kill(-1, SIGKILL);
			last_words();
			return;
		}
	}
}

/* The pid of the first process in its own namespace is 1: its end ends all that runs there. */
static int first_process(const char *last_pid)
{
	sigset_t set;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setsid();
	if (!own_proc())
		die(1, "mount", "/proc");
	if (own_devpts &&
	    mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"))
		die(1, "mount", "/dev/pts");
	for (int i = 0; i < nopened; i++)
		reopen(opened[i].fd, opened[i].flags);
	fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, last_pid, strlen(last_pid)) < 0)
		die(1, "write", "/proc/sys/kernel/ns_last_pid");
	close(fd);

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (fd < 0)
		die(1, "signalfd", "");
	signal(SIGPIPE, SIG_IGN);
	serve(fd);
	return 0;
}

static void start(const char *last_pid)
{
	int ready[2], status;
	const char *what;
	char byte = 0;
	sigset_t all;
	pid_t child;

	/* A signal from the terminal is the supervisor's to pass on. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	if (pipe2(ready, O_CLOEXEC))
		die(1, "pipe", "");
	if (ordinary_user && !user_namespace(&what))
		die(1, "make", what);
	if (unshare(CLONE_NEWPID | CLONE_NEWNS))
		die(1, "unshare", "");
	/* Before "started", for files are put there then. */
	if (own_shm && (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) ||
			mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")))
		die(1, "mount", "/dev/shm");
	child = fork();
	if (child < 0)
		die(1, "fork", "");
	if (!child) {
		/* "started" comes before any answer of this process. */
		if (read(ready[0], &byte, 1) != 1)
			exit(1);
		exit(first_process(last_pid));
	}
	answer("started\t%d", child);
	if (write(ready[1], &byte, 1) != 1)
		die(1, "write", "pipe");
	/* The supervisor's death is seen on stdin, by the child alone. */
	close(STDIN_FILENO);
	for (int i = 0; i < nterminals; i++)
		close(terminals[i].master);
	if (waitpid(child, &status, 0) < 0)
		die(1, "waitpid", "");
	exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

int main(void)
{
	say_to(STDOUT_FILENO, "error\t");
	for (;;) {
		char *field[6], *text = line;
		int nfields = 0;
		ssize_t n = 0;

		/* Byte by byte: what follows "start" is read by another process. */
		for (line_used = 0; line_used < sizeof(line) - 1; line_used++) {
			n = read(STDIN_FILENO, line + line_used, 1);
			if (n <= 0 || line[line_used] == '\n')
				break;
		}
		if (n <= 0)
			return 1;
		line[line_used] = 0;
		line_used = 0;
		while (nfields < 6 && (field[nfields] = strsep(&text, "\t")))
			nfields++;
		if (!strcmp(field[0], "open")) {
			command_open(nfields, field);
		} else if (!strcmp(field[0], "terminal")) {
			command_terminal(nfields, field);
		} else if (!strcmp(field[0], "devpts") && nfields == 1) {
			own_devpts = true;
		} else if (!strcmp(field[0], "shm") && nfields == 1) {
			own_shm = true;
		} else if (!strcmp(field[0], "user") && nfields == 1) {
			ordinary_user = true;
		} else if (!strcmp(field[0], "start") && nfields == 2) {
			start(field[1]);
		} else {
			errno = EINVAL;
			die(1, "command", field[0]);
		}
	}
}
