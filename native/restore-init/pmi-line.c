// SPDX-License-Identifier: Apache-2.0
/* How a program gets its line to the launcher, before it is the program; and where a process is. */
#define _GNU_SOURCE
#include "job-root.h"
#include "pmi.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *variable(char **environment, const char *name)
{
	size_t size = strlen(name);

	for (; *environment; environment++)
		if (!strncmp(*environment, name, size) && (*environment)[size] == '=')
			return *environment + size + 1;
	return NULL;
}

static int32_t number_of(char **environment, const char *name)
{
	const char *value = variable(environment, name);

	return value ? atoi(value) : -1;
}

void pmi_hand_over(const char *tasks, char **environment, int line, int *fds, const int32_t *numbers, int nfds)
{
	struct pmi_hello hello = { .rank = number_of(environment, "PMI_RANK"), .size = number_of(environment, "PMI_SIZE") };
	struct message message = { .kind = LINE };
	const char *space = variable(environment, "PMI_JOBID"), *job = variable(environment, "SHADOWVERBS_JOB");
	char control[CMSG_SPACE(2 * sizeof(int))] = { 0 };
	struct iovec data = { .iov_base = &hello, .iov_len = sizeof(hello) };
	struct msghdr head = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *rights = CMSG_FIRSTHDR(&head);
	int launcher = 0, number = number_of(environment, "PMI_FD"), ends[2], keeper;
	struct stat st;

	while (launcher < nfds && numbers[launcher] != number)
		launcher++;
	if (number < 0 || launcher == nfds || fstat(fds[launcher], &st) || !S_ISSOCK(st.st_mode))
		return;
	snprintf(hello.space, sizeof(hello.space), "%s", space ? space : "");
	snprintf(hello.job, sizeof(hello.job), "%s", job ? job : "");
	keeper = connect_to(tasks);
	if (keeper < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) ||
	    !tell(keeper, &message, (int[]){ fds[launcher], ends[1] }, 2))
		die(CANNOT_RUN, "hand over the line to the launcher at", tasks);
	close(keeper);
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof(ends));
	memcpy(CMSG_DATA(rights), ends, sizeof(ends));
	if (sendmsg(line, &head, MSG_NOSIGNAL) != sizeof(hello))
		die(CANNOT_RUN, "hand over the line to the launcher", "to the job root");
	close_all(ends, 2);
	dup3(line, fds[launcher], O_CLOEXEC);
}

/* The host's life, the pid namespace there, and when its first process was started: a restart has another one. */
const char *pmi_place(void)
{
	static char text[256];
	char *boot = read_all("/proc/sys/kernel/random/boot_id"), *first = read_all("/proc/1/stat"), namespace[64];
	char *at = first ? strrchr(first, ')') : NULL;
	ssize_t n = readlink("/proc/self/ns/pid", namespace, sizeof(namespace) - 1);

	namespace[n > 0 ? n : 0] = 0;
	/* The 22nd field; the name before may have spaces. */
	for (int field = 2; at && field < 22; field++)
		if ((at = strchr(at, ' ')))
			at++;
	snprintf(text, sizeof(text), "%.36s %s %lld", boot ? boot : "", namespace, at ? atoll(at) : 0);
	free(boot);
	free(first);
	return text;
}
