/* SPDX-License-Identifier: Apache-2.0 */
/* Posting to a shared receive queue, and posting again what is left of it. */
#include "datapath/landing.h"
#include "objects/shared.h"

#include <stdlib.h>

/* Lists of requests or of SGEs, and queues for which messages have landed. */
static SV_NOINLINE int chain(struct sv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad,
			     struct sv_thread *self)
{
	const struct sv_context *context = sv_context_of(srq->v.context);
	struct ibv_recv_wr real[SV_BATCH], *from[SV_BATCH], *real_bad;
	struct ibv_sge one[SV_BATCH];
	uint32_t slots[SV_BATCH];
	int err = 0;

	while (wr && !err) {
		uint32_t count = 0, done;

		while (wr && count < SV_BATCH && !(err = sv_log_shared(srq, wr, &slots[count]))) {
			if (srq->landed && !count) {
				err = sv_landing_fill_shared(srq, slots[0], self);
				if (err) {
					sv_unlog_shared(srq, slots[0]);
					break;
				}
				wr = wr->next;
				continue;
			}
			sv_build_shared(srq, slots[count], &real[count],
					wr->num_sge > 1 ? srq->scratch + count * srq->max_sge : &one[count], false);
			if (count)
				real[count - 1].next = &real[count];
			from[count++] = wr;
			wr = wr->next;
		}
		if (err)
			*bad = wr;
		if (count) {
			int real_err;

			real_bad = real;
			real_err = context->post_srq_recv(srq->real, real, &real_bad);
			if (real_err) {
				done = real_bad ? real_bad - real : 0;
				while (count > done)
					sv_unlog_shared(srq, slots[--count]);
				*bad = from[done];
				err = real_err;
			}
		}
	}
	return err;
}

int sv_post_srq_recv(struct ibv_srq *vsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sv_srq *srq = sv_srq_of(vsrq);
	struct sv_thread *self = sv_gate_enter("ibv_post_srq_recv");
	struct ibv_recv_wr real, *real_bad;
	struct ibv_sge one;
	uint32_t slot;
	int err;

	sv_lock_take(&srq->lock, self, SV_HELD_RECV);
	if (unlikely(!wr || wr->next || wr->num_sge > 1 || srq->landed)) {
		err = chain(srq, wr, bad, self);
	} else {
		err = sv_log_shared(srq, wr, &slot);
		if (likely(!err)) {
			sv_build_shared(srq, slot, &real, &one, true);
			err = sv_context_of(vsrq->context)->post_srq_recv(srq->real, &real, &real_bad);
			if (unlikely(err))
				sv_unlog_shared(srq, slot);
		}
		if (unlikely(err))
			*bad = wr;
	}
	sv_lock_drop(&srq->lock);
	sv_gate_leave(self);
	return err;
}

/* A posted request in the order in which it was posted. */
struct ordered {
	uint64_t number;
	uint64_t slot;
};

static int by_number(const void *left, const void *right)
{
	const struct ordered *a = left, *b = right;

	return (a->number > b->number) - (a->number < b->number);
}

int sv_srq_replay(struct ibv_srq *vsrq, uint64_t *position)
{
	struct sv_srq *srq = sv_srq_of(vsrq);
	const struct sv_context *context = sv_context_of(vsrq->context);
	size_t size = srq->slots * sizeof(struct ordered);
	struct ordered *left = sv_block_alloc(size);
	uint64_t count = 0;
	int err = left ? 0 : ENOMEM;

	*position = 0;
	if (err)
		return err;
	for (uint32_t slot = 0; slot < srq->slots; slot++)
		if (srq->log[slot].number)
			left[count++] = (struct ordered){ srq->log[slot].number, slot };
	qsort(left, count, sizeof(*left), by_number);
	for (; *position < count && !err; *position += !err) {
		uint32_t slot = left[*position].slot;
		struct ibv_recv_wr real, *bad;
		struct ibv_sge one;

		sv_build_shared(srq, slot, &real, srq->log[slot].recv.num_sge > 1 ? srq->scratch : &one, false);
		err = context->post_srq_recv(srq->real, &real, &bad);
	}
	sv_block_free(left, size);
	return err;
}
