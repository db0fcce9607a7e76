/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of librdmacm's functions: a counter of who is inside, and a bit that keeps others out. The functions talk to the
 * kernel anyway, so an atomic addition to a word that all threads share costs them nothing that counts.
 */
#include "control/cm_gate.h"
#include "base/futex.h"

#define CLOSED (1u << 31)

static uint32_t gate;			/* CLOSED | threads inside */
static __thread uint32_t depth;		/* librdmacm's functions call each other */

void sv_cm_enter(void)
{
	uint32_t word = sv_load_acquire(&gate);

	if (depth++)
		return;
	for (;;) {
		if (word & CLOSED) {
			sv_futex_wait(&gate, word, -1);
			word = sv_load_acquire(&gate);
		} else if (sv_cas(&gate, &word, word + 1)) {
			return;
		}
	}
}

void sv_cm_leave(void)
{
	if (!--depth && sv_add(&gate, -1u) & CLOSED)
		sv_futex_wake(&gate, INT_MAX);
}

uint32_t sv_cm_leave_wholly(void)
{
	uint32_t was = depth;

	depth = 1;
	sv_cm_leave();
	return was;
}

void sv_cm_enter_again(uint32_t was)
{
	sv_cm_enter();
	depth = was;
}

int sv_cm_close(int64_t deadline, int *inside)
{
	uint32_t word = __atomic_or_fetch(&gate, CLOSED, __ATOMIC_SEQ_CST);

	for (; word != CLOSED; word = sv_load_acquire(&gate)) {
		int64_t left = deadline < 0 ? -1 : deadline - sv_now();

		if (deadline >= 0 && left <= 0) {
			*inside = word & ~CLOSED;
			sv_cm_open();
			return ETIMEDOUT;
		}
		sv_futex_wait(&gate, word, left);
	}
	return 0;
}

void sv_cm_open(void)
{
	if (__atomic_fetch_and(&gate, ~CLOSED, __ATOMIC_SEQ_CST) & CLOSED)
		sv_futex_wake(&gate, INT_MAX);
}

void sv_cm_forked(void)
{
	gate = depth ? 1 : 0;
}
