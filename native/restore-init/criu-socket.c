// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded into CRIU, so that the TCP sockets that it restores take in nothing before all of them are there: tcp-quiet.h.
 * tcp-release.c ends that.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tcp-quiet.h"

static pid_t main_process;

static void __attribute__((constructor)) remember(void)
{
	main_process = getpid();
}

int socket(int domain, int type, int protocol)
{
	const struct sock_fprog program = { .len = TCP_QUIET_LENGTH, .filter = (struct sock_filter *)tcp_quiet };
	int fd = syscall(SYS_socket, domain, type, protocol);

	/* The first process of CRIU only tries out what the kernel can; those that it forks become the restored ones. */
	if (fd >= 0 && (domain == AF_INET || domain == AF_INET6) && type == SOCK_STREAM && getpid() != main_process &&
	    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program))) {
		int error = errno;

		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}
