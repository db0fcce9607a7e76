/* SPDX-License-Identifier: Apache-2.0 */
#include "program/problem.h"
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>

static __thread char text[400];

int sv_problem(int err, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	errno = err;
	return -1;
}

const char *sv_problem_text(void)
{
	return text;
}
