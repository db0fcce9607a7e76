/* SPDX-License-Identifier: Apache-2.0 */
/* Control verbs: how a wrapper hands one to the driver. */
#ifndef SV_CONTROL_H
#define SV_CONTROL_H

#include "base/base.h"

/*
 * Carries one verb out in the driver: starts it if need be, passes the gate, waits for the answer. The arguments after
 * `result` (NULL: none is wanted) are those of struct sv_request, each cast to uint64_t by SV_ARG. Returns the answer's
 * errno value; EIO when there is no driver.
 */
int sv_control(enum sv_op op, const char *verb, uint64_t *result, unsigned count, const uint64_t *args);

#define SV_ARG(value) ((uint64_t)(value))
#define SV_POINTER(value) ((uint64_t)(uintptr_t)(value))
#define SV_CONTROL(op, verb, result, ...)                                                       \
	({                                                                                      \
		const uint64_t sv_args[] = { __VA_ARGS__ };                                     \
		sv_control(op, verb, result, sizeof(sv_args) / sizeof(sv_args[0]), sv_args);    \
	})

/* For verbs that return a pointer: it, or NULL with errno set. */
#define SV_CONTROL_POINTER(type, op, verb, ...)                                         \
	({                                                                              \
		uint64_t sv_result = 0;                                                 \
		int sv_err = SV_CONTROL(op, verb, &sv_result, __VA_ARGS__);             \
		if (sv_err)                                                             \
			errno = sv_err;                                                 \
		sv_err ? NULL : (type *)(uintptr_t)sv_result;                           \
	})

/* The mailbox without the gate and the start, for the exit handler. */
int sv_mailbox_call(enum sv_op op, const char *verb, uint64_t *result, unsigned count, const uint64_t *args,
		    int64_t timeout_ns);

/* jvm.c: 0 when the driver runs; else one line was said, and an errno value. */
int sv_driver_start(const char *verb);
bool sv_driver_running(void);
/* It runs, or can be started: not in a forked child of a process in which it ran, nor where its start has failed. */
bool sv_driver_possible(void);
void sv_driver_forked(void);
void sv_mailbox_forked(void);

#endif
