/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sections.h"
#include "base/futex.h"

#include <pthread.h>
#include <stdio.h>

#define CLOSED 1u

/* Threads in a section, and those that were let into one and have not woken up yet. A futex word. */
static uint32_t inside;
/* Bit 0: closed. What is above changes whenever threads are let in. A futex word. */
static uint32_t word;
/* Guards `waiting`, and that a thread which waits is counted once: in there or in `inside`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t waiting;

static void leave(void)
{
	__atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
	sv_futex_wake(&inside, INT_MAX);
}

/* Who lets it in has counted it by then. */
static void await_entrance(void)
{
	uint32_t seen;

	pthread_mutex_lock(&lock);
	seen = sv_load(&word);
	if (!(seen & CLOSED)) {
		pthread_mutex_unlock(&lock);
		return;
	}
	waiting++;
	leave();
	pthread_mutex_unlock(&lock);
	while (sv_load_acquire(&word) == seen)
		sv_futex_wait(&word, seen, -1);
}

static void let_in(uint32_t closed)
{
	pthread_mutex_lock(&lock);
	__atomic_add_fetch(&inside, waiting, __ATOMIC_SEQ_CST);
	waiting = 0;
	__atomic_store_n(&word, ((sv_load(&word) | CLOSED) + 1) | closed, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&lock);
	sv_futex_wake(&word, INT_MAX);
}

void sv_section_begin(struct sv_thread *self)
{
	if (!self->sections) {
		__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
		if (unlikely(__atomic_load_n(&word, __ATOMIC_SEQ_CST) & CLOSED))
			await_entrance();
	}
	sv_store(&self->sections, self->sections + 1);
}

bool sv_section_end(struct sv_thread *self)
{
	if (!self->sections)
		return false;
	sv_store(&self->sections, self->sections - 1);
	if (!self->sections)
		leave();
	return true;
}

static void report_one(struct sv_gate_report *report)
{
	*report = (struct sv_gate_report){ .inside = sv_load(&inside) };
	snprintf(report->verb, sizeof(report->verb), "shadowverbs_delay_begin");
	for (uint32_t id = 1; id <= sv_thread_count(); id++)
		if (sv_load(&sv_thread_by_id(id)->sections))
			report->tid = sv_thread_by_id(id)->tid;
}

int sv_sections_close(int64_t timeout_ns, struct sv_gate_report *report)
{
	int64_t deadline = sv_now() + timeout_ns;
	uint32_t count;

	__atomic_fetch_or(&word, CLOSED, __ATOMIC_SEQ_CST);
	while ((count = __atomic_load_n(&inside, __ATOMIC_SEQ_CST))) {
		int64_t left = deadline - sv_now();

		if (left <= 0) {
			report_one(report);
			return ETIMEDOUT;
		}
		sv_futex_wait(&inside, count, left);
	}
	return 0;
}

void sv_sections_pass(void)
{
	let_in(CLOSED);
}

void sv_sections_open(void)
{
	if (sv_load_acquire(&word) & CLOSED)
		let_in(0);
}

void sv_sections_thread_ended(struct sv_thread *thread)
{
	if (thread->sections) {
		sv_store(&thread->sections, 0);
		leave();
	}
}

void sv_sections_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	word &= ~CLOSED;
	waiting = 0;
	inside = sv_self && sv_self->sections ? 1 : 0;
}
