/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where regions are, while their table is swept, in lock step: the thread that sweeps makes its stores one by one, as the
 * loads of the one that looks let it. Needs no library: it has region.c in it, whose atomics it counts.
 */
#include "base/base.h"

static void before_load(void);
static void before_store(void);

#undef sv_load
#undef sv_load_acquire
#undef sv_store
#undef sv_store_release
#define sv_load(p) (before_load(), __atomic_load_n(p, __ATOMIC_RELAXED))
#define sv_load_acquire(p) (before_load(), __atomic_load_n(p, __ATOMIC_ACQUIRE))
#define sv_store(p, v) (before_store(), __atomic_store_n(p, v, __ATOMIC_RELAXED))
#define sv_store_release(p, v) (before_store(), __atomic_store_n(p, v, __ATOMIC_RELEASE))

#include "../src/objects/region.c"

#include <semaphore.h>

#include "test.h"

#define STAYING 10
#define IN_THE_WAY 12

static sem_t may_store, waits;
static __thread bool sweeps;
static bool swept = true;
/* Of the one who looks: how many stores the other makes for how many loads, what is left of that, and after how many first. */
static unsigned stores, loads, due, at_first;

static struct ibv_context *vcontext;
static uint32_t next_key = 1;
static uint32_t staying[STAYING];

uint32_t sv_slot_index(enum sv_kind kind, size_t size, const void *slot)
{
	(void)kind, (void)size, (void)slot;
	return 0;
}

void *sv_block_alloc(size_t size)
{
	return calloc(1, size);
}

void sv_block_free(void *block, size_t size)
{
	(void)size;
	free(block);
}

static void before_store(void)
{
	if (!sweeps)
		return;
	sem_post(&waits);
	sem_wait(&may_store);
}

static void let_store(void)
{
	sem_post(&may_store);
	sem_wait(&waits);
}

static void before_load(void)
{
	if (sweeps || swept)
		return;
	if (at_first) {
		at_first--;
		return;
	}
	for (due += stores; due >= loads && !swept; due -= loads)
		let_store();
	due %= loads;
}

static uint64_t shift_of(uint32_t key)
{
	return key * 0x1000ull;
}

static struct sv_mr region(uint32_t key)
{
	struct sv_mr mr = { .kind = SV_MR_MEMORY, .iova = 0x10000 };

	mr.v.context = vcontext;
	mr.v.lkey = key;
	mr.v.addr = (void *)(uintptr_t)(mr.iova + shift_of(key));
	return mr;
}

static uint32_t comes(void)
{
	struct sv_mr mr = region(next_key);

	sv_region_note(&mr);
	next_key = next_key * 1664525 + 1013904223;	/* so that some are in others' way */
	return mr.v.lkey;
}

static void goes(uint32_t key)
{
	struct sv_mr mr = region(key);

	sv_region_forget(&mr);
}

static void *sweep_table(void *arg)
{
	(void)arg;
	sweeps = true;
	goes(comes());
	sweeps = false;
	swept = true;
	sem_post(&waits);
	return NULL;
}

/* Makes the table full but for one; some that stay lie behind others that have gone. */
static void fill(void)
{
	uint32_t others[IN_THE_WAY];

	for (int i = 0; i < STAYING; i++)
		if (staying[i])
			goes(staying[i]);
	while (table && table->used > 1)
		goes(comes());
	for (int i = 0; i < IN_THE_WAY; i++)
		others[i] = comes();
	for (int i = 0; i < STAYING; i++)
		staying[i] = comes();
	for (int i = 0; i < IN_THE_WAY; i++)
		goes(others[i]);
	while (table->used < (table->mask + 1) / 2)
		goes(comes());
}

static void expect_known(uint32_t key, uint64_t shift)
{
	CHECK_EQUAL((uintptr_t)sv_region_at(vcontext, key, 0x10000), 0x10000 + shift);
}

/*
 * Beginning with which of those that stay, and when how many stores have been made.
 * @return how many have another place now
 */
static int look_while_swept(int first, int made)
{
	struct place *places[STAYING];
	pthread_t thread;
	int moved = 0;

	for (int i = 0; i < STAYING; i++)
		places[i] = find(table, key_of(vcontext, staying[i]));
	swept = false;
	CHECK_EQUAL(pthread_create(&thread, NULL, sweep_table, NULL), 0);
	sem_wait(&waits);
	while (made--)
		let_store();
	due = 0;
	for (int i = first; !swept; i++) {
		expect_known(staying[i % STAYING], shift_of(staying[i % STAYING]));
		expect_known(UINT32_MAX, 0);
	}
	pthread_join(thread, NULL);
	for (int i = 0; i < STAYING; i++)
		moved += places[i] != find(table, key_of(vcontext, staying[i]));
	return moved;
}

static int look_at_pace(unsigned of_stores, unsigned of_loads, unsigned before)
{
	int moved = 0;

	for (int made = 0; made < 60; made += 15)
		for (int first = 0; first < STAYING; first++) {
			fill();
			stores = of_stores;
			loads = of_loads;
			at_first = before;
			moved += look_while_swept(first, made);
		}
	return moved;
}

/* One step of the sweep for some loads, or some for one. */
static void looking_while_places_move(void)
{
	int moved = 0;

	for (unsigned pace = 1; pace < 8; pace++)
		moved += look_at_pace(1, pace, 0) + look_at_pace(pace, 1, 0);
	CHECK(moved > 100);
	CHECK_EQUAL(table->mask + 1, 64);
}

/* All of it between two loads of one look-up. */
static void looking_before_and_after(void)
{
	int moved = 0;

	for (unsigned before = 0; before < 8; before++)
		moved += look_at_pace(1000, 1, before);
	CHECK(moved > 100);
}

int main(void)
{
	struct sv_context context;

	memset(&context, 0, sizeof(context));
	vcontext = &context.ex.context;
	sem_init(&may_store, 0, 0);
	sem_init(&waits, 0, 0);
	RUN(looking_while_places_move);
	RUN(looking_before_and_after);
	return 0;
}
