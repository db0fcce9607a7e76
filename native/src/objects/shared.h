/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a shared receive queue: slots that are taken in any order, in stacks threaded through the log itself. */
#ifndef SV_SHARED_H
#define SV_SHARED_H

#include "objects/build.h"

static inline char *sv_shared_side(const struct sv_srq *srq, uint32_t slot)
{
	return srq->side + (size_t)slot * srq->stride;
}

/* Takes a slot and logs the request. The queue's lock is held. Returns 0 or an errno value; then nothing has changed. */
static SV_ALWAYS_INLINE int sv_log_shared(struct sv_srq *srq, const struct ibv_recv_wr *wr, uint32_t *slot)
{
	uint32_t top = srq->free;
	struct sv_shared_entry *entry;

	if (unlikely(!top)) {
		top = srq->free = __atomic_exchange_n(&srq->returned, 0, __ATOMIC_ACQUIRE);
		if (unlikely(!top))
			return ENOMEM;
	}
	entry = &srq->log[top - 1];
	if (likely(wr->num_sge == 1)) {
		sv_copy_sge(&entry->recv.sge, wr->sg_list);
	} else {
		int err = sv_log_scatter(&entry->recv, sv_shared_side(srq, top - 1), srq->max_sge, wr);

		if (unlikely(err))
			return err;
	}
	entry->recv.wr_id = wr->wr_id;
	entry->recv.num_sge = wr->num_sge;
	entry->number = ++srq->posted;
	srq->free = entry->next;
	*slot = top - 1;
	return 0;
}

/* The request was not posted after all. The queue's lock is held. */
static inline void sv_unlog_shared(struct sv_srq *srq, uint32_t slot)
{
	srq->log[slot].number = 0;
	srq->log[slot].next = srq->free;
	srq->free = slot + 1;
}

/* The application sees its completion: there is room for another. From any thread. */
static inline void sv_shared_return(struct sv_srq *srq, uint32_t slot)
{
	struct sv_shared_entry *entry = &srq->log[slot];
	uint32_t top = sv_load(&srq->returned);

	entry->number = 0;
	do {
		entry->next = top;
	} while (!__atomic_compare_exchange_n(&srq->returned, &top, slot + 1, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

/*
 * The same by a thread that is in a verb and polls. If it posts to the SRQ, too, and nobody else does, the queue's lock is
 * its own, and it costs no atomic operation. It waits for nothing, so the order of the locks does not matter, and it
 * crosses the lock out again, for its verb goes on with others.
 */
static SV_ALWAYS_INLINE void sv_shared_return_polled(struct sv_srq *srq, uint32_t slot, struct sv_thread *self)
{
	if (likely(sv_lock_try_owned(&srq->lock, self, SV_HELD_RECV))) {
		sv_unlog_shared(srq, slot);
		sv_store_release(&self->held[SV_HELD_RECV], NULL);
	} else {
		sv_shared_return(srq, slot);
	}
}

static SV_ALWAYS_INLINE void sv_build_shared(const struct sv_srq *srq, uint32_t slot, struct ibv_recv_wr *real,
					     struct ibv_sge *sges, const bool simple)
{
	sv_build_receive(sv_context_of(srq->v.context), &srq->log[slot].recv, srq->id | slot, real, sges, simple);
}

#endif
