/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"
#include "program/callbacks.h"
#include "base/futex.h"
#include "program/problem.h"
#include "shadowverbs_program.h"

#include <pthread.h>
#include <signal.h>

static struct entry {
	int number;			/* 0: free */
	struct shadowverbs_callbacks callbacks;
	void *argument;
	bool told;			/* `before` has returned 0, and `after` is still to be called */
} entries[SHADOWVERBS_MAX_CALLBACKS];	/* in order of registration, with gaps */

/* Held while one is called, so that nobody takes back what runs; by the thread that calls them more than once. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static uint32_t registered;
static int last_number;
static bool thread_runs;
static __thread bool calls_them;

/*
 * Orders to the thread, counted: the odd ones are to call `before`, the even ones `after`. What was ordered and what is done are
 * futex words.
 */
static uint32_t ordered, done;
static int32_t refusal;
static int32_t outcome_of;

static void call_before(void)
{
	int32_t answer = 0;

	pthread_mutex_lock(&lock);
	for (int i = SHADOWVERBS_MAX_CALLBACKS - 1; i >= 0 && !answer; i--) {
		struct entry *e = &entries[i];

		if (!e->number)
			continue;
		e->told = true;
		if (e->callbacks.before && (answer = e->callbacks.before(e->argument)))
			e->told = false;
	}
	pthread_mutex_unlock(&lock);
	refusal = answer;
}

static void call_after(int outcome)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < SHADOWVERBS_MAX_CALLBACKS; i++) {
		struct entry *e = &entries[i];

		if (!e->number || !e->told)
			continue;
		e->told = false;
		if (e->callbacks.after)
			e->callbacks.after(e->argument, outcome);
	}
	pthread_mutex_unlock(&lock);
}

static void *serve(void *unused)
{
	(void)unused;
	calls_them = true;
	for (uint32_t next = 1;; next++) {
		while (sv_load_acquire(&ordered) == next - 1)
			sv_futex_wait(&ordered, next - 1, -1);
		if (next % 2)
			call_before();
		else
			call_after(sv_load(&outcome_of));
		sv_store_release(&done, next);
		sv_futex_wake(&done, INT_MAX);
	}
	return NULL;
}

/* With the lock held. Signals are for the program's own threads. */
static int start(void)
{
	sigset_t all, previous;
	pthread_t thread;
	int err;

	if (thread_runs)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &previous);
	err = pthread_create(&thread, NULL, serve, NULL);
	pthread_sigmask(SIG_SETMASK, &previous, NULL);
	if (!err) {
		pthread_setname_np(thread, "shadowverbs-call");
		pthread_detach(thread);
		thread_runs = true;
	}
	return err;
}

/* The place behind all others, which are moved together when it is the last one. */
static struct entry *place(void)
{
	int used = 0;

	for (int i = 0; i < SHADOWVERBS_MAX_CALLBACKS; i++)
		if (entries[i].number)
			used = i + 1;
	if (used == SHADOWVERBS_MAX_CALLBACKS && !calls_them) {
		used = 0;
		for (int i = 0; i < SHADOWVERBS_MAX_CALLBACKS; i++)
			if (entries[i].number)
				entries[used++] = entries[i];
		memset(&entries[used], 0, (SHADOWVERBS_MAX_CALLBACKS - used) * sizeof(entries[0]));
	}
	return used < SHADOWVERBS_MAX_CALLBACKS ? &entries[used] : NULL;
}

int sv_callbacks_add(const struct shadowverbs_callbacks *callbacks, void *argument)
{
	struct entry *entry;
	int number, err;

	if (!callbacks || (!callbacks->before && !callbacks->after))
		return sv_problem(EINVAL, "no callback was given");
	pthread_mutex_lock(&lock);
	entry = place();
	err = entry ? start() : ENOSPC;
	if (!err) {
		number = ++last_number;
		*entry = (struct entry){ number, *callbacks, argument, false };
		sv_add(&registered, 1);
	}
	pthread_mutex_unlock(&lock);
	if (err == ENOSPC)
		return sv_problem(err, "there are %d callbacks already", SHADOWVERBS_MAX_CALLBACKS);
	return err ? sv_problem(err, "the thread for callbacks cannot be started: %s", strerror(err)) : number;
}

int sv_callbacks_remove(int number)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < SHADOWVERBS_MAX_CALLBACKS && number > 0 && !found; i++) {
		found = entries[i].number == number;
		if (found) {
			memset(&entries[i], 0, sizeof(entries[i]));
			sv_add(&registered, -1);
		}
	}
	pthread_mutex_unlock(&lock);
	return found ? SHADOWVERBS_DONE : sv_problem(ENOENT, "no callbacks have number %d", number);
}

bool sv_callbacks_here(void)
{
	return calls_them;
}

/* false: not until then. */
static bool await_done(uint32_t order, int64_t deadline)
{
	uint32_t now;

	while ((int32_t)((now = sv_load_acquire(&done)) - order) < 0) {
		int64_t left = deadline < 0 ? -1 : deadline - sv_now();

		if (deadline >= 0 && left <= 0)
			return false;
		sv_futex_wait(&done, now, left);
	}
	return true;
}

void sv_callbacks_await(void)
{
	await_done(sv_load_acquire(&ordered), -1);
}

int sv_program_before(int64_t timeout_ns, int32_t *answer)
{
	int64_t deadline = sv_now() + timeout_ns;

	/* Those of the last checkpoint may still run. */
	if (!await_done(sv_load_acquire(&ordered), deadline))
		return ETIMEDOUT;
	if (!sv_load_acquire(&registered))
		return 0;
	sv_add(&ordered, 1);
	sv_futex_wake(&ordered, INT_MAX);
	if (!await_done(sv_load_acquire(&ordered), deadline))
		return ETIMEDOUT;
	*answer = refusal;
	return refusal ? ECANCELED : 0;
}

void sv_program_after(int outcome)
{
	if (sv_load_acquire(&ordered) % 2 == 0)
		return;
	sv_store(&outcome_of, outcome);
	sv_add(&ordered, 1);
	sv_futex_wake(&ordered, INT_MAX);
}
