/* SPDX-License-Identifier: Apache-2.0 */
/* What every file of the preload library needs: exported declarations, atomics, small macros. */
#ifndef SV_BASE_H
#define SV_BASE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>

/* The library is built with hidden visibility; what these headers declare is what it exports. */
#pragma GCC visibility push(default)
#include <infiniband/verbs.h>
#include "shadowverbs.h"
#pragma GCC visibility pop

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define SV_CACHE_LINE 64
#define SV_NOINLINE __attribute__((noinline, cold))

#define sv_container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

#define sv_load(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define sv_load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define sv_store(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define sv_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define sv_add(p, v) __atomic_add_fetch(p, v, __ATOMIC_SEQ_CST)
#define sv_cas(p, expected, desired) \
	__atomic_compare_exchange_n(p, expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

/*
 * The fast side of an asymmetric fence (see thread.h): a store, then a load that must not pass it. The slow side
 * issues membarrier(2), so that here a compiler barrier is enough. ThreadSanitizer does not know membarrier; its
 * build pays for real fences.
 */
#if defined(__SANITIZE_THREAD__)
#define sv_store_fenced(p, v) __atomic_store_n(p, v, __ATOMIC_SEQ_CST)
#define sv_load_fenced(p) __atomic_load_n(p, __ATOMIC_SEQ_CST)
/* It does not know fences either; what they stand between is sequentially consistent in itself. */
#define sv_fence() ((void)0)
#else
#define sv_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define sv_store_fenced(p, v)                                 \
	do {                                                  \
		__atomic_store_n(p, v, __ATOMIC_RELAXED);     \
		__atomic_signal_fence(__ATOMIC_SEQ_CST);      \
	} while (0)
#define sv_load_fenced(p)                                                        \
	({                                                                       \
		__atomic_signal_fence(__ATOMIC_SEQ_CST);                         \
		__typeof__(*(p)) sv_value = __atomic_load_n(p, __ATOMIC_RELAXED); \
		__atomic_signal_fence(__ATOMIC_SEQ_CST);                         \
		sv_value;                                                        \
	})
#endif

static inline void sv_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif
