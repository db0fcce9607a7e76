/* SPDX-License-Identifier: Apache-2.0 */
#include "objects/region.h"

#include <pthread.h>

#define FIRST_SIZE 64

struct place {
	uint64_t key;			/* 0: free */
	uint64_t shift;			/* from what requests say to where the memory is; 0 of a region that is no more */
};

struct table {
	uint32_t mask;
	uint32_t used;			/* places that are not free: of which */
	uint32_t live;			/* regions that there are */
	struct place places[];
};

#define NOWHERE UINT64_MAX

static pthread_mutex_t change = PTHREAD_MUTEX_INITIALIZER;
/* Who looks takes no lock, so a table that has become too small is left as it is; each is twice as large as the one before. */
static struct table *table;
/* Odd while places get other keys: who has looked meanwhile looks again. */
static uint32_t sequence;
static uint32_t incomplete;		/* memory ran out: nothing is known of any region */

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

	in->live += !place->shift;
	sv_store(&place->shift, shift);
	if (!place->key) {
		in->used++;
		sv_store_release(&place->key, key);
	}
}

static struct table *new_table(uint32_t size)
{
	struct table *new = sv_block_alloc(sizeof(*new) + size * sizeof(new->places[0]));

	if (new)
		new->mask = size - 1;
	return new;
}

static void copy_live(struct table *to, const struct table *from)
{
	for (uint32_t i = 0; i <= from->mask; i++)
		if (from->places[i].shift)
			put(to, from->places[i].key, from->places[i].shift);
}

/* Regions that come and go leave places behind, which are free again then; for that `room` is needed, as large as the table. */
static void sweep(struct table *room)
{
	uint32_t size = table->mask + 1;

	copy_live(room, table);
	sv_store(&sequence, sequence + 1);
	for (uint32_t i = 0; i < size; i++) {
		sv_store_release(&table->places[i].key, room->places[i].key);
		sv_store_release(&table->places[i].shift, room->places[i].shift);
	}
	sv_store_release(&sequence, sequence + 1);
	table->used = table->live = room->live;
	sv_block_free(room, sizeof(*room) + size * sizeof(room->places[0]));
}

/* Room for one more. */
static bool make_room(void)
{
	uint32_t size = table ? table->mask + 1 : FIRST_SIZE / 2;
	bool grows = !table || table->live >= size / 4;
	struct table *new;

	if (table && table->used < size / 2)
		return true;
	new = new_table(grows ? size * 2 : size);
	if (!new)
		return false;
	if (!grows) {
		sweep(new);
		return true;
	}
	if (table)
		copy_live(new, table);
	sv_store_release(&table, new);
	return true;
}

void sv_region_note(const struct sv_mr *mr)
{
	uint64_t shift = mr->kind == SV_MR_MEMORY ? (uintptr_t)mr->v.addr - mr->iova : NOWHERE;

	if (!shift)
		return;
	pthread_mutex_lock(&change);
	if (make_room())
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
	if (place->key && place->shift) {
		sv_store(&place->shift, 0);
		table->live--;
	}
	pthread_mutex_unlock(&change);
}

void *sv_region_at(const struct ibv_context *vcontext, uint32_t vlkey, uint64_t address)
{
	struct table *now = sv_load_acquire(&table);
	uint64_t key = key_of(vcontext, vlkey), shift = 0;
	struct place *place;
	uint32_t before;

	while (now) {
		before = sv_load_acquire(&sequence);
		place = find(now, key);
		/* A free place may be another region's by now. */
		shift = sv_load_acquire(&place->key) == key ? sv_load_acquire(&place->shift) : 0;
		if (likely(!(before & 1) && sv_load(&sequence) == before))
			break;
	}
	return shift == NOWHERE || sv_load(&incomplete) ? NULL : (void *)(uintptr_t)(address + shift);
}
