/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of what a forked child goes on using: held over a fork, so that it finds them free and what they guard whole. */
#ifndef SV_FORK_H
#define SV_FORK_H

#include <pthread.h>

#define SV_HIDDEN __attribute__((visibility("hidden")))

/* In the order in which they are taken. */
extern pthread_mutex_t sv_device_lock SV_HIDDEN, sv_registry_lock SV_HIDDEN, sv_arena_lock SV_HIDDEN;

#endif
