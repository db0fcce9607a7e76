/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"
#include "base/futex.h"
#include "control/control.h"
#include "control/sections.h"
#include "program/callbacks.h"
#include "program/problem.h"
#include "shadowverbs_program.h"

#pragma GCC visibility push(default)
#include "shadowverbs_program_abi.h"
#pragma GCC visibility pop

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SECOND 1000000000LL
/* What was asked may have been lost with a coordinator: it is asked again. */
#define ASK_AGAIN_AFTER (5 * SECOND)

/* The call that waits. There is one: others wait for their turn. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static struct {
	uint32_t answered;	/* a futex word; the rest is good with it */
	int result, err;
	char why[400];
} call;
static uint64_t number;

static int join(const char *function)
{
	int err = sv_driver_running() ? 0 : sv_driver_start(function);

	return err ? sv_problem(err, err == EOPNOTSUPP ? "not in this process: a forked child, or one with a Java virtual machine"
							: "ShadowVerbs could not be started in this process; standard error says why") : 0;
}

/* Where the driver runs nobody asks the environment, which the program may be changing. */
static bool launched(void)
{
	return sv_driver_running() || (getenv("SHADOWVERBS_HOME") && getenv("SHADOWVERBS_JVM") && getenv("SHADOWVERBS_AGENT"));
}

static int available(void)
{
	return sv_driver_possible() && launched() ? SHADOWVERBS_DONE : SHADOWVERBS_ABSENT;
}

/* Outside of the gate: the checkpoint would wait for this thread. */
static void await_answer(uint64_t which, int processes)
{
	const uint64_t args[] = { SV_ARG(which), SV_ARG((int64_t)processes) };

	while (!sv_load_acquire(&call.answered)) {
		sv_mailbox_call(SV_OP_CHECKPOINT, "shadowverbs_checkpoint", NULL, 2, args, -1);
		sv_futex_wait(&call.answered, 0, ASK_AGAIN_AFTER);
	}
}

static int checkpoint(int processes)
{
	int previous, result, err;
	char why[sizeof(call.why)];

	if (!launched())
		return SHADOWVERBS_ABSENT;
	if (processes < 0)
		return sv_problem(EINVAL, "a checkpoint together with no process");
	if (sv_callbacks_here())
		return sv_problem(EDEADLK, "shadowverbs_checkpoint was called by a callback");
	if (sv_thread_self()->sections)
		return sv_problem(EDEADLK, "shadowverbs_checkpoint was called between shadowverbs_delay_begin and _end");
	if (join("shadowverbs_checkpoint"))
		return -1;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &previous);
	pthread_mutex_lock(&turn);
	__atomic_add_fetch(&number, 1, __ATOMIC_SEQ_CST);
	sv_store_release(&call.answered, 0);
	await_answer(number, processes);
	result = call.result;
	err = call.err;
	memcpy(why, call.why, sizeof(why));
	pthread_mutex_unlock(&turn);
	sv_callbacks_await();
	pthread_setcancelstate(previous, NULL);
	return result < 0 ? sv_problem(err, "%s", why) : result;
}

void sv_program_answer(uint64_t which, int result, int err, const char *why)
{
	if (which != __atomic_load_n(&number, __ATOMIC_SEQ_CST) || sv_load_acquire(&call.answered))
		return;
	call.result = result;
	call.err = err;
	snprintf(call.why, sizeof(call.why), "%s", why);
	sv_store_release(&call.answered, 1);
	sv_futex_wake(&call.answered, INT_MAX);
}

/* What the call returns at once, or SHADOWVERBS_DONE: it goes on, in a rank. */
static int enter(const char *function)
{
	if (!launched())
		return SHADOWVERBS_ABSENT;
	return join(function) ? -1 : SHADOWVERBS_DONE;
}

static int delay_begin(void)
{
	int entered = enter("shadowverbs_delay_begin");

	if (entered == SHADOWVERBS_DONE)
		sv_section_begin(sv_thread_self());
	return entered;
}

static int delay_end(void)
{
	int entered = enter("shadowverbs_delay_end");

	if (entered != SHADOWVERBS_DONE || sv_section_end(sv_thread_self()))
		return entered;
	return sv_problem(EPERM, "this thread is in no section that shadowverbs_delay_begin has begun");
}

static int add_callbacks(const struct shadowverbs_callbacks *callbacks, void *argument)
{
	int entered = enter("shadowverbs_register");

	return entered == SHADOWVERBS_DONE ? sv_callbacks_add(callbacks, argument) : entered;
}

static int remove_callbacks(int which)
{
	int entered = enter("shadowverbs_unregister");

	return entered == SHADOWVERBS_DONE ? sv_callbacks_remove(which) : entered;
}

const struct sv_program *sv_program(void)
{
	static const struct sv_program functions = {
		.size = sizeof(functions),
		.available = available,
		.checkpoint = checkpoint,
		.delay_begin = delay_begin,
		.delay_end = delay_end,
		.add_callbacks = add_callbacks,
		.remove_callbacks = remove_callbacks,
		.problem = sv_problem_text,
	};

	return &functions;
}
