/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's way to wait on a pipe: a plain blocking read(2), which a process checkpointer restores as such. */
#include "base/base.h"

#include <unistd.h>

int sv_read_line(int fd, char *line, int size)
{
	int length = 0;

	while (length < size - 1) {
		ssize_t got = read(fd, line + length, 1);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0 || line[length] == '\n')
			break;
		length++;
	}
	line[length] = '\0';
	return length;
}
