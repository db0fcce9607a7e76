/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of application threads, the gate, and the slow sides of both the gate and the biased locks. */
#include "base/arena.h"
#include "base/fork.h"
#include "base/futex.h"
#include "base/say.h"
#include "control/cm_gate.h"
#include "control/events.h"
#include "control/sections.h"
#include "control/thread.h"

#include <linux/membarrier.h>
#include <stdio.h>

/* Ids up to this many threads at one time; records of threads that ended are used again. */
#define THREADS_PER_PAGE 64
#define THREAD_PAGES 1024

__thread struct sv_thread *sv_self __attribute__((tls_model("initial-exec")));
uint32_t sv_gate_word;
uint32_t sv_announced;
uint32_t sv_gate_moves;

static struct sv_thread *pages[THREAD_PAGES];
static uint32_t thread_count;
pthread_mutex_t sv_registry_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t registry_key;
static bool registry_ready;

static void thread_ended(void *value)
{
	struct sv_thread *thread = value;

	/* It may have been cancelled in a verb. */
	sv_thread_holds_nothing(thread);
	__atomic_store_n(&thread->inside, 0, __ATOMIC_SEQ_CST);
	sv_futex_wake(&thread->inside, 1);
	sv_sections_thread_ended(thread);
	sv_self = NULL;
	sv_store_release(&thread->live, 0);
}

static int register_membarrier(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}

void sv_membarrier(void)
{
	int saved = errno;

	sv_fence();
	/* EPERM: the registration did not come through a restore. */
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) < 0 && errno == EPERM &&
	    register_membarrier() == 0)
		syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	errno = saved;
}

struct sv_thread *sv_thread_by_id(uint32_t id)
{
	return &sv_load_acquire(&pages[(id - 1) / THREADS_PER_PAGE])[(id - 1) % THREADS_PER_PAGE];
}

uint32_t sv_thread_count(void)
{
	return sv_load_acquire(&thread_count);
}

struct sv_thread *sv_thread_register(void)
{
	struct sv_thread *self = NULL;
	int saved = errno;

	pthread_mutex_lock(&sv_registry_lock);
	if (!registry_ready) {
		if (register_membarrier() < 0)
			__atomic_fetch_or(&sv_gate_word, SV_GATE_FENCED, __ATOMIC_SEQ_CST);
		pthread_key_create(&registry_key, thread_ended);
		registry_ready = true;
	}
	for (uint32_t id = 1; id <= thread_count && !self; id++) {
		struct sv_thread *thread = sv_thread_by_id(id);

		if (!sv_load_acquire(&thread->live))
			self = thread;
	}
	if (!self) {
		uint32_t index = thread_count;

		if (index % THREADS_PER_PAGE == 0) {
			struct sv_thread *page = NULL;

			if (index / THREADS_PER_PAGE < THREAD_PAGES)
				page = sv_block_alloc(THREADS_PER_PAGE * sizeof(*page));
			if (!page) {
				sv_say("out of memory for the record of a thread");
				__builtin_trap();
			}
			sv_store_release(&pages[index / THREADS_PER_PAGE], page);
		}
		self = &pages[index / THREADS_PER_PAGE][index % THREADS_PER_PAGE];
		self->id = index + 1;
		sv_store_release(&thread_count, index + 1);
	}
	self->tid = syscall(SYS_gettid);
	self->live = 1;
	pthread_mutex_unlock(&sv_registry_lock);
	pthread_setspecific(registry_key, self);
	sv_self = self;
	errno = saved;
	return self;
}

void sv_gate_enter_slow(struct sv_thread *self)
{
	for (;;) {
		uint32_t word;

		__atomic_store_n(&self->inside, 1, __ATOMIC_SEQ_CST);
		sv_fence();
		word = __atomic_load_n(&sv_gate_word, __ATOMIC_SEQ_CST);
		if (!(word & SV_GATE_CLOSED))
			return;
		__atomic_store_n(&self->inside, 0, __ATOMIC_SEQ_CST);
		sv_futex_wake(&self->inside, 1);
		sv_futex_wait(&sv_gate_word, word, -1);
	}
}

void sv_gate_leave_slow(struct sv_thread *self)
{
	sv_fence();
	sv_futex_wake(&self->inside, 1);
}

void sv_gate_await_resume(struct sv_thread *self)
{
	__atomic_store_n(&self->inside, 0, __ATOMIC_SEQ_CST);
	sv_gate_leave_slow(self);
	while (sv_load_acquire(&sv_announced))
		sv_futex_wait(&sv_announced, 1, -1);
	sv_gate_enter_slow(self);
}

void sv_gate_announce(int on)
{
	__atomic_store_n(&sv_announced, on ? 1 : 0, __ATOMIC_SEQ_CST);
	if (!on)
		sv_futex_wake(&sv_announced, INT_MAX);
}

static void open_gate(void)
{
	sv_add(&sv_gate_moves, 1);
	__atomic_fetch_and(&sv_gate_word, ~SV_GATE_CLOSED, __ATOMIC_SEQ_CST);
	sv_futex_wake(&sv_gate_word, INT_MAX);
	sv_cm_open();
}

static int count_inside(struct sv_gate_report *report)
{
	uint32_t count = sv_load_acquire(&thread_count);
	int inside = 0;

	for (uint32_t id = 1; id <= count; id++) {
		struct sv_thread *thread = sv_thread_by_id(id);

		if (!__atomic_load_n(&thread->inside, __ATOMIC_SEQ_CST))
			continue;
		if (!inside++ && report) {
			report->tid = thread->tid;
			snprintf(report->verb, sizeof(report->verb), "%s", sv_load(&thread->verb));
		}
	}
	if (report)
		report->inside = inside;
	return inside;
}

int sv_gate_close(int64_t timeout_ns, struct sv_gate_report *report)
{
	int64_t deadline = sv_now() + timeout_ns;
	uint32_t count;
	int inside;

	if (sv_cm_close(timeout_ns < 0 ? -1 : deadline, &inside)) {
		if (report) {
			*report = (struct sv_gate_report){ .inside = inside };
			snprintf(report->verb, sizeof(report->verb), "a function of librdmacm");
		}
		return ETIMEDOUT;
	}
	sv_add(&sv_gate_moves, 1);
	__atomic_fetch_or(&sv_gate_word, SV_GATE_CLOSED, __ATOMIC_SEQ_CST);
	sv_membarrier();
	/* A thread that registers from now on sees the closed gate at its first verb. */
	count = sv_load_acquire(&thread_count);
	for (uint32_t id = 1; id <= count; id++) {
		struct sv_thread *thread = sv_thread_by_id(id);

		while (__atomic_load_n(&thread->inside, __ATOMIC_SEQ_CST)) {
			int64_t left = deadline - sv_now();

			if (timeout_ns >= 0 && left <= 0) {
				if (!count_inside(report))
					break;	/* it has just left */
				open_gate();
				return ETIMEDOUT;
			}
			sv_futex_wait(&thread->inside, 1, timeout_ns < 0 ? -1 : left);
		}
	}
	return 0;
}

void sv_gate_open(void)
{
	sv_events_resume();
	sv_gate_announce(0);
	open_gate();
	sv_sections_open();
}

void sv_gate_forked(void)
{
	sv_gate_word &= ~SV_GATE_CLOSED;
	sv_announced = 0;
	for (uint32_t id = 1; id <= thread_count; id++) {
		struct sv_thread *thread = sv_thread_by_id(id);

		if (thread == sv_self) {
			thread->tid = syscall(SYS_gettid);
			continue;
		}
		thread->inside = 0;
		thread->live = 0;
		thread->sections = 0;
		memset(thread->held, 0, sizeof(thread->held));
	}
}

/* ---- Biased locks, the slow side ------------------------------------------------------------------------------ */

void sv_spin_turn(unsigned tries)
{
	static const struct timespec rest = { .tv_nsec = 20000 };
	int saved = errno;

	/*
	 * Who is in the lock may be off the processor: there are more threads than processors in many jobs. A rest and not
	 * sched_yield(2): Linux 6.18 lets threads that yield in a loop starve others for many seconds.
	 */
	if (tries % 512 == 0)
		syscall(SYS_nanosleep, &rest, NULL);	/* no point of cancellation */
	else
		sv_pause();
	errno = saved;
}

#define take_spinlock(word)                                                                          \
	for (unsigned tries = 1; sv_load(word) || __atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE); tries++) \
		sv_spin_turn(tries)

static bool is_in(const struct sv_thread *owner, const struct sv_lock *lock)
{
	if (!__atomic_load_n(&owner->inside, __ATOMIC_SEQ_CST))
		return false;
	/* One lock may be taken as either of two kinds: as a CQ's, and as that of the second CQ. */
	for (int kind = 0; kind < SV_HELD_COUNT; kind++)
		if (__atomic_load_n(&owner->held[kind], __ATOMIC_SEQ_CST) == lock)
			return true;
	return false;
}

static void await_owner(const struct sv_lock *lock, const struct sv_thread *owner)
{
	sv_membarrier();
	for (unsigned tries = 1; is_in(owner, lock); tries++)
		sv_spin_turn(tries);
}

void sv_lock_take_slow(struct sv_lock *lock, struct sv_thread *self, enum sv_held held, bool nested)
{
	bool fenced = sv_load(&sv_gate_word) & SV_GATE_FENCED;
	uint32_t bias;

	for (int kind = nested ? held : 0; kind < SV_HELD_COUNT; kind++)
		__atomic_store_n(&self->held[kind], NULL, __ATOMIC_SEQ_CST);
	for (unsigned tries = 1; (bias = sv_load_acquire(&lock->bias)) != SV_BIAS_NONE; tries++) {
		if (bias == SV_BIAS_MOVING || !sv_cas(&lock->bias, &bias, SV_BIAS_MOVING)) {
			sv_spin_turn(tries);
			continue;
		}
		if (bias && bias != self->id)
			await_owner(lock, sv_thread_by_id(bias));
		if (lock->moves == SV_BIAS_MOVES || fenced) {
			__atomic_store_n(&lock->bias, SV_BIAS_NONE, __ATOMIC_SEQ_CST);
			break;
		}
		lock->moves++;
		__atomic_store_n(&self->held[held], lock, __ATOMIC_SEQ_CST);
		__atomic_store_n(&lock->bias, self->id, __ATOMIC_SEQ_CST);
		return;
	}
	take_spinlock(&lock->word);
}

void sv_long_lock_take_slow(struct sv_long_lock *lock, struct sv_thread *self)
{
	bool fenced = sv_load(&sv_gate_word) & SV_GATE_FENCED;
	uint32_t bias;

	for (unsigned tries = 1; (bias = sv_load_acquire(&lock->bias)) != SV_BIAS_NONE; tries++) {
		if (bias == SV_BIAS_MOVING || !sv_cas(&lock->bias, &bias, SV_BIAS_MOVING)) {
			sv_spin_turn(tries);
			continue;
		}
		if (!bias && !fenced) {
			sv_store(&lock->inside, 1);
			sv_store_release(&lock->bias, self->id);
			return;
		}
		sv_membarrier();
		for (tries = 1; __atomic_load_n(&lock->inside, __ATOMIC_SEQ_CST); tries++)
			sv_spin_turn(tries);
		sv_store_release(&lock->bias, SV_BIAS_NONE);
		break;
	}
	take_spinlock(&lock->word);
}
