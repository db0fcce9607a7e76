// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "job-root.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

time_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec;
}

struct sockaddr_un address_of(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		die(CANNOT_RUN, "socket", path);
	}
	strcpy(address.sun_path, path);
	return address;
}

static const struct timeval patience = { .tv_sec = ANSWER_SECONDS };

void expect_answer(int socket)
{
	setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

int connect_to(const char *path)
{
	struct sockaddr_un address = address_of(path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die(CANNOT_RUN, "socket", path);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		close(fd);
		return -1;
	}
	return fd;
}

int bound(const char *path, int type)
{
	struct sockaddr_un address = address_of(path);
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)))
		die(CANNOT_RUN, "bind", path);
	return fd;
}

pid_t peer_pid(int fd)
{
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) ? -1 : peer.pid;
}

bool tell(int fd, const struct message *message, const int *fds, int nfds)
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

bool hear(int fd, struct message *message, int *fds, int *nfds)
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

void close_all(const int *fds, int nfds)
{
	for (int i = 0; i < nfds; i++)
		close(fds[i]);
}

char *read_all(const char *path)
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
