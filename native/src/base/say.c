/* SPDX-License-Identifier: Apache-2.0 */
#include "base/say.h"
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define PREFIX "shadowverbs: "

void sv_say(const char *line)
{
	char text[1024];
	int saved = errno;
	int length = snprintf(text, sizeof(text) - 1, PREFIX "%s", line);

	if (length > (int)sizeof(text) - 2)
		length = sizeof(text) - 2;
	text[length] = '\n';
	/* One write, so that lines of several ranks on one terminal do not mix. Nothing can be done if it fails. */
	if (write(STDERR_FILENO, text, length + 1) < 0)
		errno = saved;
	errno = saved;
}

void sv_sayf(const char *format, ...)
{
	char line[960];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	sv_say(line);
}

void sv_refuse(const char *verb, int *said)
{
	if (!__atomic_exchange_n(said, 1, __ATOMIC_RELAXED))
		sv_sayf("%s%s is not supported under checkpointing: Operation not supported",
			strncmp(verb, "ibv_", 4) ? "ibv_" : "", verb);
}
