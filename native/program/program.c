// SPDX-License-Identifier: Apache-2.0
/* Finds the preload library, if the program runs under it, and passes each call on. */
#define _GNU_SOURCE
#include "shadowverbs_program.h"
#include "../include/shadowverbs_program_abi.h"

#include <dlfcn.h>
#include <stddef.h>

/* NULL: there is none, or it is older than the function. */
static const struct sv_program *preload(size_t needed)
{
	static const struct sv_program *known;
	const struct sv_program *found = __atomic_load_n(&known, __ATOMIC_ACQUIRE);

	if (!found) {
		const struct sv_program *(*ask)(void);

		*(void **)&ask = dlsym(RTLD_DEFAULT, "sv_program");
		if (!ask)
			return NULL;
		found = ask();
		__atomic_store_n(&known, found, __ATOMIC_RELEASE);
	}
	return found->size >= needed ? found : NULL;
}

#define CALL(function, ...)                                                                              \
	do {                                                                                             \
		const struct sv_program *p = preload(offsetof(struct sv_program, function) + sizeof(p->function)); \
		return p ? p->function(__VA_ARGS__) : SHADOWVERBS_ABSENT;                                \
	} while (0)

int shadowverbs_available(void)
{
	CALL(available);
}

int shadowverbs_checkpoint(void)
{
	CALL(checkpoint, 0);
}

int shadowverbs_checkpoint_together(int processes)
{
	/* 0 has another meaning behind this. */
	CALL(checkpoint, processes > 0 ? processes : -1);
}

int shadowverbs_delay_begin(void)
{
	CALL(delay_begin);
}

int shadowverbs_delay_end(void)
{
	CALL(delay_end);
}

int shadowverbs_register(const struct shadowverbs_callbacks *callbacks, void *argument)
{
	CALL(add_callbacks, callbacks, argument);
}

int shadowverbs_unregister(int number)
{
	CALL(remove_callbacks, number);
}

const char *shadowverbs_problem(void)
{
	const struct sv_program *p = preload(offsetof(struct sv_program, problem) + sizeof(p->problem));

	return p ? p->problem() : "";
}
