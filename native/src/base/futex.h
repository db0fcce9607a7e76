/* SPDX-License-Identifier: Apache-2.0 */
/* Private futexes; timeouts are relative, in nanoseconds, negative meaning for ever. */
#ifndef SV_FUTEX_H
#define SV_FUTEX_H

#include "base/base.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline int64_t sv_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Returns when *word is no longer `expected`, on a wake, a signal, or the timeout: the caller looks again. */
static inline void sv_futex_wait(const uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
	struct timespec timeout = { timeout_ns / 1000000000, timeout_ns % 1000000000 };
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns < 0 ? NULL : &timeout, NULL, 0);
	errno = saved;
}

static inline void sv_futex_wake(const uint32_t *word, int count)
{
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
	errno = saved;
}

#endif
