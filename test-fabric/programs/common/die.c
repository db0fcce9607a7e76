#include "die.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char prefix[64] = "verbs program";

void die_name(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(prefix, sizeof(prefix), fmt, ap);
	va_end(ap);
}

const char *die_prefix(void)
{
	return prefix;
}

/* One write per line: several ranks share a stderr. */
static void complain(int err, const char *fmt, va_list ap)
{
	char text[400];

	vsnprintf(text, sizeof(text), fmt, ap);
	if (err)
		fprintf(stderr, "%s: %s: %s\n", prefix, text, strerror(err));
	else
		fprintf(stderr, "%s: %s\n", prefix, text);
}

void die(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	complain(err, fmt, ap);
	va_end(ap);
	exit(1);
}

void die_usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	complain(0, fmt, ap);
	va_end(ap);
	exit(2);
}

unsigned long long parse_number(const char *option, const char *text, unsigned long long least,
				unsigned long long most)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || end == text || *end || text[0] == '-')
		die_usage("%s: '%s' is not a number", option, text);
	if (value < least || value > most)
		die_usage("%s: %llu is not between %llu and %llu", option, value, least, most);
	return value;
}
