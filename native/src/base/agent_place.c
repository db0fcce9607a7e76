/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_place.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool fits(int length, size_t size)
{
	return length >= 0 && (size_t)length < size;
}

bool sv_first_line(const char *path, char *line, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, line, size - 1);
	close(fd);
	if (n <= 0)
		return false;
	line[n] = 0;
	line[strcspn(line, "\n")] = 0;
	return true;
}

bool sv_beside(const char *socket, const char *name, char *path, size_t size)
{
	const char *last = strrchr(socket, '/');

	return last && fits(snprintf(path, size, "%.*s%s", (int)(last + 1 - socket), socket, name), size);
}

/* The file's name has the job's, in which a slash is an underscore. */
static bool sign(const char *agent, const char *job, char *path, size_t size)
{
	char name[NAME_MAX + 1];

	if (!fits(snprintf(name, sizeof(name), "moved-%s", job), sizeof(name)))
		return false;
	for (char *c = name; *c; c++)
		if (*c == '/')
			*c = '_';
	return sv_beside(agent, name, path, size);
}

bool sv_agent_socket(const char *agent, const char *job, char *socket, size_t size)
{
	char path[SV_SOCKET_PATH + NAME_MAX];

	if (!agent || !strchr(agent, '/'))
		return false;
	if (job && *job && sign(agent, job, path, sizeof(path)) && sv_first_line(path, socket, size) && strchr(socket, '/'))
		return true;
	return fits(snprintf(socket, size, "%s", agent), size);
}
