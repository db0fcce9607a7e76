// SPDX-License-Identifier: Apache-2.0
/*
 * shadowverbs-tcp-release PID [FILE]: lets the restored TCP sockets of a process and its descendants take in what comes: tcp-quiet.h.
 *
 * The processes are restored, and do not run yet. A filter that the program itself had is another one, and stays.
 *
 * FILE names connections that no program had accepted, which are to be made again by their client's end (tcp-again.c), in lines
 *   again LOCAL PORT REMOTE PORT SEQUENCE DATA   one of the sockets has it; its other end expected SEQUENCE next ("-": it had nothing)
 *   closed LOCAL PORT REMOTE PORT - DATA         its client had closed it
 * with the ends as the client has them, and connections that are to ask whether the other end is alive (SO_KEEPALIVE), which nobody
 * answered before all were there:
 *   alive LOCAL PORT REMOTE PORT
 * DATA is the path of a file with what the other end has had, or "-" when that is nothing.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tcp-hold.h"
#include "tcp-quiet.h"

#define NAME "shadowverbs-tcp-release: "

/* Addresses of IPv4 are mapped into IPv6. */
struct end {
	struct in6_addr address;
	int port;
};

struct wanted {
	struct end local, remote;
	bool known, found;
	int state; /* of a socket at its port that has no connection; 0: there is none */
	uint32_t upto;
	uint8_t *data;
	size_t size;
};

/* Which asks whether the other end is alive. */
struct asking {
	struct end local, remote;
};

static struct wanted *wanted;
static size_t nwanted;
static struct asking *asking;
static size_t nasking;
static bool failed;

static _Noreturn void fail_at(const char *what, int pid)
{
	fprintf(stderr, NAME "%s of pid %d: %s\n", what, pid, strerror(errno));
	exit(1);
}

void complain(const char *format, ...)
{
	va_list values;

	va_start(values, format);
	fputs(NAME, stderr);
	vfprintf(stderr, format, values);
	fputc('\n', stderr);
	va_end(values);
	failed = true;
}

void fail(const char *what)
{
	complain("%s: %s", what, strerror(errno));
	exit(1);
}

void out_of_memory(void)
{
	errno = ENOMEM;
	fail("memory");
}

/* ---- connections that are made again ---- */

static struct end end_of(const char *address, int port)
{
	struct end end = { .port = port };
	struct in_addr four;

	if (inet_pton(AF_INET, address, &four) == 1) {
		end.address.s6_addr[10] = end.address.s6_addr[11] = 0xff;
		memcpy(&end.address.s6_addr[12], &four, sizeof(four));
	} else if (inet_pton(AF_INET6, address, &end.address) != 1) {
		errno = EINVAL;
		fail(address);
	}
	return end;
}

static uint8_t *read_file(const char *path, size_t *size)
{
	FILE *file;
	struct stat is;
	uint8_t *data;

	*size = 0;
	if (!strcmp(path, "-"))
		return NULL;
	file = fopen(path, "re");
	if (!file || fstat(fileno(file), &is))
		fail(path);
	data = malloc(is.st_size + 1);
	if (!data)
		out_of_memory();
	*size = fread(data, 1, is.st_size, file);
	if (*size != (size_t)is.st_size)
		fail(path);
	fclose(file);
	return data;
}

static void read_line(char *line)
{
	char kind[8], local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN], expected[16];
	int local_port, remote_port, path = 0;
	struct wanted *one;
	uint8_t *data;
	size_t size;

	if (sscanf(line, "alive %45s %d %45s %d", local, &local_port, remote, &remote_port) == 4) {
		asking = reallocarray(asking, nasking + 1, sizeof(*asking));
		if (!asking)
			out_of_memory();
		asking[nasking++] = (struct asking){ end_of(local, local_port), end_of(remote, remote_port) };
		return;
	}
	if (sscanf(line, "%7s %45s %d %45s %d %15s %n", kind, local, &local_port, remote, &remote_port, expected, &path) != 6 || !path) {
		errno = EINVAL;
		fail("a connection that is to be made again");
	}
	data = read_file(line + path, &size);
	if (!strcmp(kind, "closed")) {
		again_closed(local, local_port, remote, remote_port, data, size);
		return;
	}
	wanted = reallocarray(wanted, nwanted + 1, sizeof(*wanted));
	if (!wanted)
		out_of_memory();
	one = &wanted[nwanted++];
	*one = (struct wanted){ .local = end_of(local, local_port), .remote = end_of(remote, remote_port),
				.known = strcmp(expected, "-"), .upto = strtoul(expected, NULL, 10), .data = data, .size = size };
}

static void read_wanted(const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	ssize_t length;

	if (!file)
		fail(path);
	while ((length = getline(&line, &size, file)) > 0) {
		if (line[length - 1] == '\n')
			line[length - 1] = 0;
		read_line(line);
	}
	free(line);
	fclose(file);
}

static bool name_of(int fd, int (*ask)(int, struct sockaddr *, socklen_t *), struct end *end)
{
	struct sockaddr_storage name = { 0 };
	socklen_t length = sizeof(name);
	char text[INET6_ADDRSTRLEN];

	if (ask(fd, (struct sockaddr *)&name, &length))
		return false;
	if (name.ss_family == AF_INET6) {
		end->address = ((struct sockaddr_in6 *)&name)->sin6_addr;
		end->port = ntohs(((struct sockaddr_in6 *)&name)->sin6_port);
		return true;
	}
	if (name.ss_family != AF_INET)
		return false;
	inet_ntop(AF_INET, &((struct sockaddr_in *)&name)->sin_addr, text, sizeof(text));
	*end = end_of(text, ntohs(((struct sockaddr_in *)&name)->sin_port));
	return true;
}

static bool same(const struct end *one, const struct end *other)
{
	return one->port == other->port && !memcmp(&one->address, &other->address, sizeof(one->address));
}

/* @return whether the socket is wanted, and so kept */
static bool is_wanted(int fd)
{
	struct end local, remote;
	bool connected;

	if (!name_of(fd, getsockname, &local))
		return false;
	connected = name_of(fd, getpeername, &remote);
	for (size_t i = 0; i < nwanted; i++) {
		struct wanted *one = &wanted[i];

		if (!connected && same(&one->local, &local))
			one->state = state_of(fd);
		if (connected && !one->found && same(&one->local, &local) && same(&one->remote, &remote)) {
			one->found = true;
			again_socket(fd, one->known ? &one->upto : NULL, one->data, one->size);
			return true;
		}
	}
	return false;
}

static bool ask_again(int fd)
{
	struct end local, remote;
	int on = 1;

	if (!name_of(fd, getsockname, &local) || !name_of(fd, getpeername, &remote))
		return false;
	for (size_t i = 0; i < nasking; i++)
		if (same(&asking[i].local, &local) && same(&asking[i].remote, &remote) &&
		    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)))
			fail("SO_KEEPALIVE");
	return false;
}

/* ---- filters ---- */

static bool is_quiet(int fd)
{
	struct sock_filter filter[TCP_QUIET_LENGTH];
	socklen_t length = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &length) || length != TCP_QUIET_LENGTH)
		return false;
	return !getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, filter, &length) && !memcmp(filter, tcp_quiet, sizeof(filter));
}

static bool release_socket(int fd)
{
	int unused = 0;

	if (is_quiet(fd) && setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused)))
		fail("the filter of a socket");
	return false;
}

/* ---- all sockets ---- */

/* @param visit returns whether it keeps the descriptor, which is this process's own */
static void walk_process(int pid, bool (*visit)(int fd))
{
	int pidfd = syscall(SYS_pidfd_open, pid, 0);
	char path[300], target[64];
	struct dirent *entry;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	folder = opendir(path);
	if (pidfd < 0 || !folder)
		fail_at("the descriptors", pid);
	while ((entry = readdir(folder))) {
		ssize_t length;
		int fd;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, entry->d_name);
		length = readlink(path, target, sizeof(target));
		if (length <= 7 || memcmp(target, "socket:", 7))
			continue;
		fd = syscall(SYS_pidfd_getfd, pidfd, atoi(entry->d_name), 0);
		if (fd < 0)
			fail_at("a socket", pid);
		if (!visit(fd))
			close(fd);
	}
	closedir(folder);
	close(pidfd);
}

static void walk_tree(int pid, bool (*visit)(int fd))
{
	struct dirent *entry;
	char path[300];
	DIR *folder;

	walk_process(pid, visit);
	/* A process is the child of the thread that has forked it. */
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	folder = opendir(path);
	if (!folder)
		fail_at("the threads", pid);
	while ((entry = readdir(folder))) {
		FILE *children;
		int child;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/children", pid, entry->d_name);
		children = fopen(path, "re");
		if (!children)
			fail_at("the children", pid);
		while (fscanf(children, "%d", &child) == 1)
			walk_tree(child, visit);
		fclose(children);
	}
	closedir(folder);
}

int main(int argc, char **argv)
{
	int pid = argc == 2 || argc == 3 ? atoi(argv[1]) : 0;
	struct rlimit files;

	if (pid <= 0) {
		fprintf(stderr, "usage: shadowverbs-tcp-release PID [FILE]\n");
		return 2;
	}
	if (argc == 3) {
		if (!getrlimit(RLIMIT_NOFILE, &files)) {
			files.rlim_cur = files.rlim_max;
			setrlimit(RLIMIT_NOFILE, &files);
		}
		read_wanted(argv[2]);
		walk_tree(pid, is_wanted);
		for (size_t i = 0; i < nwanted; i++)
			if (!wanted[i].found)
				complain("no socket has the connection from port %d to port %d; state of the one at that port: %d",
					 wanted[i].local.port, wanted[i].remote.port, wanted[i].state);
		free(wanted);
		if (nasking)
			walk_tree(pid, ask_again);
		free(asking);
	}
	/* Before they take in anything: their other ends are not there, and their hosts would say so. */
	again_unmake();
	walk_tree(pid, release_socket);
	again_make();
	return failed;
}
