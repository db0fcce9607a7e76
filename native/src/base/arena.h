/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of our own. Virtual structs come from one reserved range of addresses that never moves, cut into equal
 * regions, one for each kind, so that "is it ours?", "which kind?" and "which index?" are arithmetic. Logs and
 * other blocks come from chunks outside of it. Nothing here is malloc'ed: the application's allocator is not ours to
 * call in the middle of its verbs. All of it is ordinary private memory, which a process checkpointer saves as such.
 */
#ifndef SV_ARENA_H
#define SV_ARENA_H

#include "base/base.h"

enum sv_kind {
	SV_KIND_DEVICE,
	SV_KIND_CONTEXT,
	SV_KIND_PD,
	SV_KIND_MR,
	SV_KIND_CHANNEL,
	SV_KIND_CQ,
	SV_KIND_QP,
	SV_KIND_DM,
	SV_KIND_SRQ,
	SV_KIND_MW,
	SV_KIND_TD,
	SV_KIND_AH,
	SV_KIND_XRCD,
	SV_KIND_COUNT
};

#define SV_REGION_SHIFT 28
#define SV_ARENA_SIZE ((uintptr_t)16 << SV_REGION_SHIFT)
/*
 * How much later than in the region before it the slots of a region begin. Equal offsets would put the objects that a
 * verb touches together into one set of the cache, and on processors that tell the ways of a set apart by a hash of
 * some address bits (AMD's since Zen: bits 12 to 27) even into one way: each would throw out the next.
 */
#define SV_REGION_STAGGER (5 * 4096 + 5 * 128)

extern uintptr_t sv_arena_base __attribute__((visibility("hidden")));

/* False for everything while nothing was allocated: the base is then 0 and no object lies that low. */
static inline bool sv_ours(const void *pointer)
{
	return (uintptr_t)pointer - sv_arena_base < SV_ARENA_SIZE && sv_arena_base;
}

static inline uintptr_t sv_region_base(enum sv_kind kind)
{
	return sv_arena_base + ((uintptr_t)kind << SV_REGION_SHIFT) + (uintptr_t)kind * SV_REGION_STAGGER;
}

static inline enum sv_kind sv_kind_of(const void *pointer)
{
	return ((uintptr_t)pointer - sv_arena_base) >> SV_REGION_SHIFT;
}

/*
 * Slots of a kind. A new slot is zeroed; a freed one is filled with a poison pattern and used again after all that were
 * freed before it.
 */
void *sv_slot_alloc(enum sv_kind kind, size_t size);
void sv_slot_free(enum sv_kind kind, size_t size, void *slot);
/* Makes sure that a slot can be read, in use or not. Returns 0 or ENOMEM. */
int sv_slot_reach(enum sv_kind kind, size_t size, uint32_t index);
uint32_t sv_slot_index(enum sv_kind kind, size_t size, const void *slot);
/* The slots of a kind in use, in order of their index: pass 0 first, then the last index + 1. NULL at the end. */
void *sv_slot_next(enum sv_kind kind, size_t size, uint32_t *index);

/* Zeroed blocks, aligned to a cache line. The size must be given back at the free. NULL when out of memory. */
void *sv_block_alloc(size_t size);
void sv_block_free(void *block, size_t size);

#endif
