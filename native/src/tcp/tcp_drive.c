/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ib2tcp's engine, driven by the application's threads: who polls and finds nothing moves the bytes itself, in place of
 * waiting for the engine's thread to do it. Here alone an application's thread enters the Java virtual machine, by a
 * function pointer, with these provisions:
 *
 * - inside the gate: at a checkpoint nobody is in a turn;
 * - with no handler of the application but those of faults, which the virtual machine needs (handlers.c): none runs
 *   there, or jumps out of it;
 * - not cancellable: read(2) and write(2) are points of cancellation;
 * - only with enough stack, on the thread's own stack.
 *
 * A thread that may not, and one that finds the engine taken, goes on as if there were no turns.
 */
#include "base/futex.h"
#include "control/handlers.h"
#include "control/thread.h"
#include "tcp/tcp.h"

#include <pthread.h>
#include <unistd.h>

/* What a turn may need. */
#define STACK_LEFT (256u << 10)
/* The virtual machine takes no more than this of the first thread's stack for a stack: its ThreadStackSize. */
#define FIRST_STACK (1u << 20)

/* Where on its stack a thread may be when it takes a turn: from floor on, for room bytes; 0 until it is known. */
static __thread uintptr_t stack_floor, stack_room;

static SV_NOINLINE void find_stack(void)
{
	pthread_attr_t attributes;
	void *low = NULL;
	size_t size = 0;
	int saved = errno;

	if (!pthread_getattr_np(pthread_self(), &attributes)) {
		pthread_attr_getstack(&attributes, &low, &size);
		pthread_attr_destroy(&attributes);
	}
	errno = saved;
	stack_floor = (uintptr_t)low + size;
	if (getpid() == syscall(SYS_gettid) && size > FIRST_STACK)
		size = FIRST_STACK;
	stack_floor -= size;
	if (size > STACK_LEFT) {
		stack_floor += STACK_LEFT;
		stack_room = size - STACK_LEFT;
	} else {
		stack_floor = UINTPTR_MAX;
		stack_room = 1;
	}
}

bool sv_tcp_may_drive(void)
{
	struct sv_thread *self = sv_self;

	/* The driver's own threads poll, too, at a checkpoint. */
	if (!self || !sv_load(&self->inside))
		return false;
	if (unlikely(!stack_room))
		find_stack();
	return (uintptr_t)__builtin_frame_address(0) - stack_floor < stack_room;
}

void sv_tcp_call_engine(void)
{
	struct sv_tcp_doorbell *bell = sv_tcp_doorbell();
	uint64_t one = 1;
	int saved = errno;

	__atomic_store_n(&bell->called, 1, __ATOMIC_SEQ_CST);
	sv_futex_wake(&bell->called, 1);
	/* It, or who drives for it, may sleep in epoll. */
	if (__atomic_exchange_n(&bell->sleeping, 0, __ATOMIC_SEQ_CST))
		(void)!write(sv_load(&bell->wake_fd), &one, sizeof(one));
	errno = saved;
}

static void let_go(struct sv_tcp_doorbell *bell)
{
	if (__atomic_exchange_n(&bell->holder, SV_TCP_HOLDER_NONE, __ATOMIC_SEQ_CST) == SV_TCP_HOLDER_AND_WAITER)
		sv_futex_wake(&bell->holder, 1);
}

/* The engine is held. */
static int take_turn(struct sv_tcp_doorbell *bell, enum sv_tcp_turn turn)
{
	int (*function)(int) = (int (*)(int))(uintptr_t)bell->turn;
	uint64_t mask;
	bool out;
	int cancellable, needed, saved = errno;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
	out = sv_handlers_out(&mask);
	sv_store(&bell->turns, bell->turns + 1);
	needed = function(turn);
	sv_handlers_in(out, &mask);
	pthread_setcancelstate(cancellable, NULL);
	errno = saved;
	return needed;
}

bool sv_tcp_drive(enum sv_tcp_turn turn)
{
	struct sv_tcp_doorbell *bell = sv_tcp_doorbell();
	bool taken = false;
	int needed = 0;

	if (!sv_tcp_may_drive())
		return false;
	do {
		uint32_t none = SV_TCP_HOLDER_NONE;

		/* Who is called takes it next. */
		if (sv_load_acquire(&bell->called) || !sv_cas(&bell->holder, &none, SV_TCP_HOLDER_ONE))
			break;
		if (sv_load(&bell->polled)) {
			needed |= take_turn(bell, turn);
			taken = true;
			turn = SV_TCP_TURN_POST;
		}
		let_go(bell);
		/* Somebody has posted meanwhile who found it taken. */
	} while (sv_load(&bell->polled) && __atomic_load_n(&bell->pending, __ATOMIC_SEQ_CST));
	if (needed)
		sv_tcp_call_engine();
	return taken;
}

/* Nobody drives there. */
static void in_forked_child(void)
{
	struct sv_tcp_doorbell *bell = sv_tcp_doorbell();

	bell->polled = 0;
	bell->turn = 0;
}

static __attribute__((constructor)) void watch_forks(void)
{
	pthread_atfork(NULL, NULL, in_forked_child);
}
