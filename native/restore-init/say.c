// SPDX-License-Identifier: Apache-2.0
#include "say.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_LINE 4096

static int to = STDERR_FILENO;
static const char *start = "shadowverbs: ";

void say_to(int fd, const char *before)
{
	to = fd;
	start = before;
}

void say_line(int fd, const char *before, const char *format, va_list args)
{
	char text[MAX_LINE];
	int n = snprintf(text, sizeof(text), "%s", before);

	n += vsnprintf(text + n, sizeof(text) - n - 1, format, args);
	if (n > (int)sizeof(text) - 2)
		n = sizeof(text) - 2;
	text[n++] = '\n';
	/* Who does not listen any more is not told. */
	if (write(fd, text, n) < 0)
		return;
}

void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_line(to, start, format, args);
	va_end(args);
}

void die(int status, const char *what, const char *subject)
{
	say("%s %s: %s", what, subject, strerror(errno));
	exit(status);
}
