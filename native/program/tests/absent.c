// SPDX-License-Identifier: Apache-2.0
/* A program that runs without ShadowVerbs: nothing is done, nothing is called, and every function says so. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "shadowverbs_program.h"

#define CHECK(condition)                                                                        \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);         \
			exit(1);                                                                \
		}                                                                               \
	} while (0)

static int before(void *argument)
{
	(void)argument;
	abort();
}

static void after(void *argument, int outcome)
{
	(void)argument;
	(void)outcome;
	abort();
}

int main(void)
{
	const struct shadowverbs_callbacks callbacks = { before, after };

	errno = 0;
	CHECK(shadowverbs_available() == SHADOWVERBS_ABSENT);
	CHECK(shadowverbs_register(&callbacks, NULL) == SHADOWVERBS_ABSENT);
	CHECK(shadowverbs_delay_begin() == SHADOWVERBS_ABSENT);
	CHECK(shadowverbs_delay_end() == SHADOWVERBS_ABSENT);
	CHECK(shadowverbs_delay_end() == SHADOWVERBS_ABSENT);
	CHECK(shadowverbs_checkpoint() == SHADOWVERBS_ABSENT);
	CHECK(shadowverbs_checkpoint_together(4) == SHADOWVERBS_ABSENT);
	CHECK(shadowverbs_checkpoint_together(0) == SHADOWVERBS_ABSENT);
	CHECK(shadowverbs_unregister(1) == SHADOWVERBS_ABSENT);
	CHECK(!*shadowverbs_problem());
	CHECK(errno == 0);
	printf("ok absent\n");
	return 0;
}
