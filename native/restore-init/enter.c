// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "job-root.h"
#include "namespaces.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

int enter(const char *pid, char **argv)
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

int attempt(char **argv)
{
	const char *what;

	if (!user_namespace(&what))
		die(CANNOT_RUN, "make", what);
	if (unshare(CLONE_NEWPID | CLONE_NEWNS))
		die(CANNOT_RUN, "make", "a pid and a mount namespace");
	return run_with_all_rights(argv);
}
