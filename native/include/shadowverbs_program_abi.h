/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between libshadowverbs-program, which a program is linked with (program/), and the preload library, if there is one. What each
 * function does is in program/include/shadowverbs_program.h.
 */
#ifndef SHADOWVERBS_PROGRAM_ABI_H
#define SHADOWVERBS_PROGRAM_ABI_H

#include <stdint.h>

struct shadowverbs_callbacks;

/* It only grows, at its end. `size` tells what is there: that of the preload library is the one that counts. */
struct sv_program {
	uint64_t size;
	int (*available)(void);
	int (*checkpoint)(int processes);	/* 0: of this process alone */
	int (*delay_begin)(void);
	int (*delay_end)(void);
	int (*add_callbacks)(const struct shadowverbs_callbacks *callbacks, void *argument);
	int (*remove_callbacks)(int number);
	const char *(*problem)(void);
};

/* Found by its name. */
const struct sv_program *sv_program(void);

#endif
