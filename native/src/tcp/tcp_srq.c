/* SPDX-License-Identifier: Apache-2.0 */
/* The engine gives a shared receive queue of ib2tcp another ring. */
#include "control/thread.h"
#include "tcp/tcp.h"

#include <string.h>

void sv_tcp_take(uint32_t *lock)
{
	for (unsigned tries = 1; unlikely(__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)); tries++)
		sv_spin_turn(tries);
}

int sv_tcp_srq_move(struct sv_tcp_srq *srq, void *entries, uint32_t mask, uint32_t max)
{
	int err = EINVAL;

	sv_tcp_take(&srq->lock);
	if (srq->tail - srq->head <= max) {
		for (uint32_t i = srq->head; i != srq->tail; i++)
			memcpy((char *)entries + (uint64_t)(i & mask) * srq->recv.stride,
			       (char *)srq->recv.entries + (uint64_t)(i & srq->recv.mask) * srq->recv.stride,
			       srq->recv.stride);
		srq->recv.entries = (uintptr_t)entries;
		srq->recv.mask = mask;
		srq->recv.max = max;
		err = 0;
	}
	sv_store_release(&srq->lock, 0);
	return err;
}
