/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/fork.h"

#include <sys/mman.h>

#define GROWTH ((size_t)2 << 20)
#define CHUNK ((size_t)1 << 20)
#define POISON 0x5a

uintptr_t sv_arena_base;

pthread_mutex_t sv_arena_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- Slots ---------------------------------------------------------------------------------------------------- */

#define SLOT_LIVE UINT32_MAX
#define SLOT_NONE (UINT32_MAX - 1)

static struct region {
	uint32_t used;			/* slots ever handed out */
	size_t ready;			/* bytes that may be touched, from the region's very beginning on */
	uint32_t first, last;		/* freed slots, oldest first */
	uint32_t *next;			/* of each slot: SLOT_LIVE, or the next freed one */
} regions[SV_KIND_COUNT];

static char *region_base(enum sv_kind kind)
{
	return (char *)sv_region_base(kind);
}

/* Address space only: it is made readable in steps as it fills. */
static int reserve(void)
{
	void *base = mmap(NULL, SV_ARENA_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return -1;
	for (int kind = 0; kind < SV_KIND_COUNT; kind++)
		regions[kind].first = regions[kind].last = SLOT_NONE;
	sv_store_release(&sv_arena_base, (uintptr_t)base);
	return 0;
}

/* The first `size` bytes of a region's slots. */
static bool make_ready(enum sv_kind kind, size_t size)
{
	struct region *region = &regions[kind];
	size_t end = kind * (size_t)SV_REGION_STAGGER + size;
	char *begin = (char *)sv_arena_base + ((uintptr_t)kind << SV_REGION_SHIFT);

	if (end > (uintptr_t)1 << SV_REGION_SHIFT)
		return false;
	while (region->ready < end) {
		if (mprotect(begin + region->ready, GROWTH, PROT_READ | PROT_WRITE))
			return false;
		region->ready += GROWTH;
	}
	return true;
}

static void *grow(enum sv_kind kind, size_t size)
{
	struct region *region = &regions[kind];

	if (!make_ready(kind, (region->used + (size_t)1) * size))
		return NULL;
	if (!region->next) {
		size_t bytes = (((uintptr_t)1 << SV_REGION_SHIFT) / size) * sizeof(*region->next);
		void *next = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
				  -1, 0);

		if (next == MAP_FAILED)
			return NULL;
		region->next = next;
	}
	return region_base(kind) + region->used++ * size;
}

void *sv_slot_alloc(enum sv_kind kind, size_t size)
{
	struct region *region = &regions[kind];
	void *slot = NULL;

	pthread_mutex_lock(&sv_arena_lock);
	if (sv_arena_base || !reserve()) {
		if (region->first != SLOT_NONE) {
			uint32_t index = region->first;

			region->first = region->next[index];
			if (region->first == SLOT_NONE)
				region->last = SLOT_NONE;
			slot = region_base(kind) + index * size;
		} else {
			slot = grow(kind, size);
		}
	}
	if (slot) {
		memset(slot, 0, size);
		region->next[sv_slot_index(kind, size, slot)] = SLOT_LIVE;
	}
	pthread_mutex_unlock(&sv_arena_lock);
	return slot;
}

void sv_slot_free(enum sv_kind kind, size_t size, void *slot)
{
	struct region *region = &regions[kind];
	uint32_t index = sv_slot_index(kind, size, slot);

	pthread_mutex_lock(&sv_arena_lock);
	memset(slot, POISON, size);
	region->next[index] = SLOT_NONE;
	if (region->last != SLOT_NONE)
		region->next[region->last] = index;
	else
		region->first = index;
	region->last = index;
	pthread_mutex_unlock(&sv_arena_lock);
}

int sv_slot_reach(enum sv_kind kind, size_t size, uint32_t index)
{
	bool ready;

	pthread_mutex_lock(&sv_arena_lock);
	ready = make_ready(kind, (index + (size_t)1) * size);
	pthread_mutex_unlock(&sv_arena_lock);
	return ready ? 0 : ENOMEM;
}

uint32_t sv_slot_index(enum sv_kind kind, size_t size, const void *slot)
{
	return ((const char *)slot - region_base(kind)) / size;
}

void *sv_slot_next(enum sv_kind kind, size_t size, uint32_t *index)
{
	struct region *region = &regions[kind];
	void *slot = NULL;

	pthread_mutex_lock(&sv_arena_lock);
	while (*index < region->used && !slot) {
		if (region->next[*index] == SLOT_LIVE)
			slot = region_base(kind) + *index * size;
		++*index;
	}
	pthread_mutex_unlock(&sv_arena_lock);
	return slot;
}

/* ---- Blocks --------------------------------------------------------------------------------------------------- */

/*
 * Size classes, each an odd number of cache lines: 1, 3 to 15, then eight to a doubling. Queues of the same depth then
 * do not start at the same cache set, which at a thousand queues would leave them a few sets to share.
 */
#define CLASSES (8 * 30)
#define SMALL_CLASSES 8

static struct free_block {
	struct free_block *next;
} *free_blocks[CLASSES];
static char *chunk, *chunk_end;

/* The number of lines of a class, and the class of a number of lines. */
static size_t class_lines(unsigned class)
{
	if (class < SMALL_CLASSES)
		return class * 2 + 1;
	return ((size_t)(8 + class % 8) << (class / 8)) | 1;
}

static unsigned class_of(size_t lines)
{
	unsigned class = lines / 2;

	if (lines > 16)
		class = (63 - __builtin_clzl(lines) - 4) * 8;
	while (class_lines(class) < lines)
		class++;
	return class;
}

static bool is_large(size_t bytes)
{
	return bytes > CHUNK / 4;
}

/* Large blocks go back to the system when they are freed. */
static size_t large_bytes(size_t bytes)
{
	return (bytes + 4095) & ~(size_t)4095;
}

void *sv_block_alloc(size_t size)
{
	unsigned class = class_of((size + SV_CACHE_LINE - 1) / SV_CACHE_LINE);
	size_t bytes = class_lines(class) * SV_CACHE_LINE;
	void *block = NULL;

	if (is_large(bytes)) {
		block = mmap(NULL, large_bytes(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		return block == MAP_FAILED ? NULL : block;
	}
	pthread_mutex_lock(&sv_arena_lock);
	if (free_blocks[class]) {
		block = free_blocks[class];
		free_blocks[class] = free_blocks[class]->next;
	} else {
		if ((size_t)(chunk_end - chunk) < bytes) {
			void *fresh = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			/* What is left of the old chunk is less than a quarter of it, and is given up. */
			if (fresh != MAP_FAILED) {
				chunk = fresh;
				chunk_end = chunk + CHUNK;
			}
		}
		if ((size_t)(chunk_end - chunk) >= bytes) {
			block = chunk;
			chunk += bytes;
		}
	}
	pthread_mutex_unlock(&sv_arena_lock);
	if (block)
		memset(block, 0, bytes);
	return block;
}

void sv_block_free(void *block, size_t size)
{
	unsigned class = class_of((size + SV_CACHE_LINE - 1) / SV_CACHE_LINE);
	size_t bytes = class_lines(class) * SV_CACHE_LINE;
	struct free_block *freed = block;

	if (!block)
		return;
	if (is_large(bytes)) {
		munmap(block, large_bytes(bytes));
		return;
	}
	memset(block, POISON, bytes);
	pthread_mutex_lock(&sv_arena_lock);
	freed->next = free_blocks[class];
	free_blocks[class] = freed;
	pthread_mutex_unlock(&sv_arena_lock);
}
