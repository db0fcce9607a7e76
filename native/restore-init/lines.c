// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "lines.h"
#include "job-root.h"
#include "say.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define COPY_SIZE 65536

static struct { int ends[2]; } *lines;
static size_t nlines;

void lines_add(int launcher, int program)
{
	lines = realloc(lines, (nlines + 1) * sizeof(*lines));
	if (!lines)
		die(CANNOT_RUN, "memory", "for lines to the launcher");
	lines[nlines].ends[0] = launcher;
	lines[nlines++].ends[1] = program;
}

size_t lines_count(void)
{
	return 2 * nlines;
}

void lines_wait(struct pollfd *wait)
{
	for (size_t i = 0; i < 2 * nlines; i++)
		wait[i] = (struct pollfd){ .fd = lines[i / 2].ends[i % 2], .events = POLLIN };
}

/* At once whatever there is, for the launcher takes what it reads at once for one request. False: the line has ended. */
static bool copy(int from, int to)
{
	static char data[COPY_SIZE];
	ssize_t n = recv(from, data, sizeof(data), MSG_DONTWAIT);

	return n > 0 && send(to, data, n, MSG_NOSIGNAL | MSG_DONTWAIT) == n;
}

void lines_copy(const struct pollfd *wait, size_t n)
{
	for (size_t i = n / 2; i-- > 0;)
		for (int end = 0; end < 2; end++)
			if (wait[2 * i + end].revents && !copy(lines[i].ends[end], lines[i].ends[!end])) {
				/* The top of the tree has this end, too, and is to see that it is the end. */
				shutdown(lines[i].ends[1], SHUT_RDWR);
				close_all(lines[i].ends, 2);
				memmove(&lines[i], &lines[i + 1], (--nlines - i) * sizeof(*lines));
				break;
			}
}
