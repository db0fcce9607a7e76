/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's callbacks. They are called on a thread of their own: not on one of the virtual machine, whose stacks are small,
 * nor on the program's, of which nobody knows when it would come by. The driver's half is in shadowverbs.h.
 */
#ifndef SV_CALLBACKS_H
#define SV_CALLBACKS_H

#include <stdbool.h>

struct shadowverbs_callbacks;

/* As shadowverbs_register and shadowverbs_unregister; -1 with a problem. */
int sv_callbacks_add(const struct shadowverbs_callbacks *callbacks, void *argument);
int sv_callbacks_remove(int number);

/* Whether the calling thread is the one that calls them. */
bool sv_callbacks_here(void);
/* Waits until all that were to be called have returned. */
void sv_callbacks_await(void);

#endif
