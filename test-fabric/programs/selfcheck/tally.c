#include "tally.h"

#include <stdarg.h>
#include <stdio.h>

#include "../common/die.h"

#define LINES_AT_MOST 20

static const char *const names[] = { "lost", "doubled", "damaged", "unexpected" };
static atomic_uint lines;

void tally_found(struct tally *tally, enum finding finding, uint64_t count, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	atomic_fetch_add(&tally->found[finding], count);
	if (atomic_fetch_add(&lines, 1) >= LINES_AT_MOST)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s: %s: %s\n", die_prefix(), names[finding], text);
}

int tally_is_clean(const struct tally *tally)
{
	for (int i = 0; i < FINDINGS; i++)
		if (atomic_load(&tally->found[i]))
			return 0;
	return 1;
}
