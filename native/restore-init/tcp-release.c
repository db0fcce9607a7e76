// SPDX-License-Identifier: Apache-2.0
/*
 * shadowverbs-tcp-release PID: lets the restored TCP sockets of a process and its descendants take in what comes: tcp-quiet.h.
 *
 * The processes are restored, and do not run yet. A filter that the program itself had is another one, and stays.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tcp-quiet.h"

static _Noreturn void fail(const char *what, int pid)
{
	fprintf(stderr, "shadowverbs-tcp-release: %s of pid %d: %s\n", what, pid, strerror(errno));
	exit(1);
}

static int is_quiet(int fd)
{
	struct sock_filter filter[TCP_QUIET_LENGTH];
	socklen_t length = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &length) || length != TCP_QUIET_LENGTH)
		return 0;
	return !getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, filter, &length) && !memcmp(filter, tcp_quiet, sizeof(filter));
}

static void release_socket(int pid, int pidfd, int number)
{
	int fd = syscall(SYS_pidfd_getfd, pidfd, number, 0), unused = 0;

	if (fd < 0)
		fail("a socket", pid);
	if (is_quiet(fd) && setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused)))
		fail("the filter of a socket", pid);
	close(fd);
}

static void release_process(int pid)
{
	int pidfd = syscall(SYS_pidfd_open, pid, 0);
	char path[300], target[64];
	struct dirent *entry;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	folder = opendir(path);
	if (pidfd < 0 || !folder)
		fail("the descriptors", pid);
	while ((entry = readdir(folder))) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, entry->d_name);
		length = readlink(path, target, sizeof(target));
		if (length > 7 && !memcmp(target, "socket:", 7))
			release_socket(pid, pidfd, atoi(entry->d_name));
	}
	closedir(folder);
	close(pidfd);
}

static void release_tree(int pid)
{
	struct dirent *entry;
	char path[300];
	DIR *folder;

	release_process(pid);
	/* A process is the child of the thread that has forked it. */
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	folder = opendir(path);
	if (!folder)
		fail("the threads", pid);
	while ((entry = readdir(folder))) {
		FILE *children;
		int child;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/children", pid, entry->d_name);
		children = fopen(path, "re");
		if (!children)
			fail("the children", pid);
		while (fscanf(children, "%d", &child) == 1)
			release_tree(child);
		fclose(children);
	}
	closedir(folder);
}

int main(int argc, char **argv)
{
	int pid = argc == 2 ? atoi(argv[1]) : 0;

	if (pid <= 0) {
		fprintf(stderr, "usage: shadowverbs-tcp-release PID\n");
		return 2;
	}
	release_tree(pid);
	return 0;
}
