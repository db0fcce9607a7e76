/* SPDX-License-Identifier: Apache-2.0 */
#include "region.h"

#include <pthread.h>

#define FIRST_SIZE 64

struct place {
	uint64_t key;			/* 0: free. Once there, it stays */
	uint64_t shift;			/* from what requests say to where the memory is; 0 of a region that is no more */
};

/* Who looks takes no lock, so one that has become too small is left as it is; each is twice as large as the one before. */
struct table {
	uint32_t mask;
	uint32_t used;
	struct place places[];
};

#define NOWHERE UINT64_MAX

static pthread_mutex_t change = PTHREAD_MUTEX_INITIALIZER;
static struct table *table;
static uint32_t incomplete;		/* for want of memory: nothing is known of any region */

static uint64_t key_of(const struct ibv_context *vcontext, uint32_t vlkey)
{
	uint64_t context = sv_slot_index(SV_KIND_CONTEXT, sizeof(struct sv_context), sv_context_of(vcontext));

	return (context + 1) << 32 | vlkey;
}

/* The key's place, or the free one that would be. */
static struct place *find(struct table *in, uint64_t key)
{
	for (uint32_t at = (key * 0x9e3779b97f4a7c15ull) >> 32 & in->mask;; at = (at + 1) & in->mask) {
		uint64_t found = sv_load_acquire(&in->places[at].key);

		if (!found || found == key)
			return &in->places[at];
	}
}

static void put(struct table *in, uint64_t key, uint64_t shift)
{
	struct place *place = find(in, key);

	sv_store(&place->shift, shift);
	if (!place->key) {
		in->used++;
		sv_store_release(&place->key, key);
	}
}

/* Room for one more. */
static bool grow(void)
{
	uint32_t size = table ? (table->mask + 1) * 2 : FIRST_SIZE;
	struct table *larger;

	if (table && table->used < (table->mask + 1) / 2)
		return true;
	larger = sv_block_alloc(sizeof(*larger) + size * sizeof(larger->places[0]));
	if (!larger)
		return false;
	larger->mask = size - 1;
	for (uint32_t i = 0; table && i <= table->mask; i++)
		if (table->places[i].shift)
			put(larger, table->places[i].key, table->places[i].shift);
	sv_store_release(&table, larger);
	return true;
}

void sv_region_note(const struct sv_mr *mr)
{
	uint64_t shift = mr->kind == SV_MR_MEMORY ? (uintptr_t)mr->v.addr - mr->iova : NOWHERE;

	if (!shift)
		return;
	pthread_mutex_lock(&change);
	if (grow())
		put(table, key_of(mr->v.context, mr->v.lkey), shift);
	else
		sv_store(&incomplete, 1);
	pthread_mutex_unlock(&change);
}

void sv_region_forget(const struct sv_mr *mr)
{
	struct place *place;

	if (!sv_load_acquire(&table))
		return;
	pthread_mutex_lock(&change);
	place = find(table, key_of(mr->v.context, mr->v.lkey));
	if (place->key)
		sv_store(&place->shift, 0);
	pthread_mutex_unlock(&change);
}

void *sv_region_at(const struct ibv_context *vcontext, uint32_t vlkey, uint64_t address)
{
	struct table *now = sv_load_acquire(&table);
	uint64_t shift = now ? sv_load(&find(now, key_of(vcontext, vlkey))->shift) : 0;

	return shift == NOWHERE || sv_load(&incomplete) ? NULL : (void *)(uintptr_t)(address + shift);
}
