/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads, the gate, and locks that belong to a thread.
 *
 * All three rest on one asymmetric fence. An application thread announces what it does with a plain store to its own
 * record and then loads one shared word; whoever wants it out (the closing gate, the thread that takes a lock away)
 * stores to that word, lets membarrier(2) run a full barrier on every thread of the process, and then reads the record.
 * Either the thread sees the word or its announcement is seen: the fast side costs no fence.
 */
#ifndef SV_THREAD_H
#define SV_THREAD_H

#include "base/base.h"

/* Which of a thread's locks: one thread holds at most one of each, and takes them in this order. */
enum sv_held {
	SV_HELD_SEND,
	SV_HELD_RECV,
	SV_HELD_CQ,
	SV_HELD_SECOND_CQ,
	SV_HELD_COUNT
};

struct sv_lock;

struct sv_thread {
	uint32_t inside;			/* 1 in a verb; a futex word, the closing gate waits on it */
	uint32_t id;				/* index in the registry, from 1; the name that a biased lock knows */
	const char *verb;			/* the verb it is or was in */
	const struct sv_lock *held[SV_HELD_COUNT];	/* biased locks it is in, see struct sv_lock */
	int32_t tid;
	uint32_t live;
	uint32_t sections;			/* how deep it is in sections that are kept free of checkpoints, see sections.h */
} __attribute__((aligned(SV_CACHE_LINE)));

extern __thread struct sv_thread *sv_self __attribute__((tls_model("initial-exec"), visibility("hidden")));

#define SV_GATE_CLOSED 1u
/* No membarrier(2) on this kernel: every passage takes the slow way, with a real fence. */
#define SV_GATE_FENCED 2u

extern uint32_t sv_gate_word __attribute__((visibility("hidden")));
extern uint32_t sv_announced __attribute__((visibility("hidden")));
/* How often the gate has been closed or opened. */
extern uint32_t sv_gate_moves __attribute__((visibility("hidden")));

struct sv_thread *sv_thread_register(void);
struct sv_thread *sv_thread_by_id(uint32_t id);
/* Ids so far: from 1 on. */
uint32_t sv_thread_count(void);
void sv_membarrier(void);

void sv_gate_enter_slow(struct sv_thread *self);
void sv_gate_leave_slow(struct sv_thread *self);
/* Called inside the gate: steps out, sleeps until the announcement has ended, steps in again. */
void sv_gate_await_resume(struct sv_thread *self);

static inline struct sv_thread *sv_thread_self(void)
{
	struct sv_thread *self = sv_self;

	return likely(self) ? self : sv_thread_register();
}

/* Enters a verb; blocks while the gate is closed. Verbs do not nest. */
static inline struct sv_thread *sv_gate_enter(const char *verb)
{
	struct sv_thread *self = sv_thread_self();

	sv_store(&self->verb, verb);
	sv_store_fenced(&self->inside, 1);
	if (unlikely(sv_load_fenced(&sv_gate_word)))
		sv_gate_enter_slow(self);
	return self;
}

static inline void sv_gate_leave(struct sv_thread *self)
{
#if defined(__SANITIZE_THREAD__)
	__atomic_store_n(&self->inside, 0, __ATOMIC_SEQ_CST);
#else
	__atomic_store_n(&self->inside, 0, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
#endif
	if (unlikely(sv_load_fenced(&sv_gate_word)))
		sv_gate_leave_slow(self);
}

/*
 * A lock that belongs to the first thread that takes it, for the price of a plain store. Another thread takes it over
 * with membarrier(2); after a few of these it is an ordinary spinlock for good.
 *
 * Its owner writes down that it is in it (held) and does not cross that out: it is in it while it is in a verb and the
 * note stands. A note that is out of date only makes another thread wait until the verb ends. Two threads that take
 * over locks of each other must not wait so, therefore who takes a lock the slow way first crosses out the locks that it
 * is not in: all, or for a lock taken inside another (nested), those of its own kind and later ones. Kinds are taken in
 * the order of enum sv_held, so around a circle of threads that wait the kinds would have to increase for ever.
 */
struct sv_lock {
	uint32_t bias;		/* 0, a thread id, SV_BIAS_MOVING or SV_BIAS_NONE */
	uint16_t word;		/* the spinlock when the bias is SV_BIAS_NONE */
	uint16_t moves;		/* how often it changed hands */
};

#define SV_BIAS_NONE UINT32_MAX
#define SV_BIAS_MOVING (UINT32_MAX - 1)
#define SV_BIAS_MOVES 3

void sv_lock_take_slow(struct sv_lock *lock, struct sv_thread *self, enum sv_held held, bool nested);

/* One turn of the wait for a lock that will be free in a moment. */
void sv_spin_turn(unsigned tries);

/*
 * Inside the gate, in any order: takes the lock if it belongs to the calling thread, and else changes nothing. Whoever
 * goes on to other locks in the same verb crosses this one out of held.
 */
static inline bool sv_lock_try_owned(struct sv_lock *lock, struct sv_thread *self, enum sv_held held)
{
	if (unlikely(sv_load(&lock->bias) != self->id))
		return false;
	sv_store_fenced(&self->held[held], lock);
	if (likely(sv_load_fenced(&lock->bias) == self->id))
		return true;
	sv_store_release(&self->held[held], NULL);
	return false;
}

/* Inside the gate. The note comes first; should the lock be another's, the slow side crosses it out before it waits. */
static inline void sv_lock_take(struct sv_lock *lock, struct sv_thread *self, enum sv_held held)
{
	sv_store_fenced(&self->held[held], lock);
	if (unlikely(sv_load_fenced(&lock->bias) != self->id))
		sv_lock_take_slow(lock, self, held, false);
}

/* Before a verb that waits for something else: nobody need wait for its end. */
static inline void sv_thread_holds_nothing(struct sv_thread *self)
{
	for (int kind = 0; kind < SV_HELD_COUNT; kind++)
		sv_store_release(&self->held[kind], NULL);
}

/* While another lock is held. */
static inline void sv_lock_take_nested(struct sv_lock *lock, struct sv_thread *self, enum sv_held held)
{
	sv_store_fenced(&self->held[held], lock);
	if (unlikely(sv_load_fenced(&lock->bias) != self->id))
		sv_lock_take_slow(lock, self, held, true);
}

/* An owner that drops its lock has nothing to do: it can be taken from it once the verb has ended. */
static inline void sv_lock_drop(struct sv_lock *lock)
{
	if (unlikely(sv_load(&lock->bias) == SV_BIAS_NONE))
		sv_store_release(&lock->word, 0);
}

/*
 * A lock that is held from one verb to another (ibv_wr_start to ibv_wr_complete), outside of the gate. It belongs to the
 * first thread that takes it, like the other; when a second one wants it, it is an ordinary spinlock from then on.
 */
struct sv_long_lock {
	uint32_t bias;
	uint32_t inside;	/* its owner holds it */
	uint32_t word;		/* the spinlock when the bias is SV_BIAS_NONE */
};

void sv_long_lock_take_slow(struct sv_long_lock *lock, struct sv_thread *self);

static inline void sv_long_lock_take(struct sv_long_lock *lock)
{
	struct sv_thread *self = sv_thread_self();

	if (likely(sv_load(&lock->bias) == self->id)) {
		sv_store_fenced(&lock->inside, 1);
		if (likely(sv_load_fenced(&lock->bias) == self->id))
			return;
		sv_store_release(&lock->inside, 0);
	}
	sv_long_lock_take_slow(lock, self);
}

static inline void sv_long_lock_drop(struct sv_long_lock *lock)
{
	if (likely(sv_load(&lock->bias) != SV_BIAS_NONE))
		sv_store_release(&lock->inside, 0);
	else
		sv_store_release(&lock->word, 0);
}

/* In a forked child: only the calling thread is left, and the gate is open. */
void sv_gate_forked(void);

#endif
