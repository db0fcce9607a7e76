/* SPDX-License-Identifier: Apache-2.0 */
#include "datapath/kept.h"
#include "objects/shared.h"

int sv_kept_reserve(struct sv_cq *cq, uint32_t count)
{
	uint32_t used = cq->tail - cq->head, capacity = cq->capacity ? cq->capacity : 64;
	struct sv_completion *kept;

	if (cq->capacity - cq->tail >= count)
		return 0;
	while (capacity - used < count)
		capacity *= 2;
	kept = sv_block_alloc(capacity * sizeof(*kept));
	if (!kept)
		return ENOMEM;
	if (used)
		memcpy(kept, cq->kept + cq->head, used * sizeof(*kept));
	sv_block_free(cq->kept, cq->capacity * sizeof(*kept));
	cq->kept = kept;
	cq->capacity = capacity;
	cq->head = 0;
	cq->tail = used;
	return 0;
}

void sv_kept_append(struct sv_cq *cq, const struct sv_completion *completion)
{
	cq->kept[cq->tail++] = *completion;
}

static void free_if_empty(struct sv_cq *cq)
{
	if (sv_kept_any(cq))
		return;
	cq->announced = 0;
	/* Who waits for events fills it again at each request for one. */
	if (cq->v.channel) {
		cq->head = cq->tail = 0;
		return;
	}
	sv_block_free(cq->kept, cq->capacity * sizeof(*cq->kept));
	cq->kept = NULL;
	cq->head = cq->tail = cq->capacity = 0;
}

void sv_kept_remove(struct sv_cq *cq, uint32_t count)
{
	cq->head += count;
	cq->announced -= count < cq->announced ? count : cq->announced;
	free_if_empty(cq);
}

/* Removes those that `goes` says of owner. */
static void purge(struct sv_cq *cq, const void *owner, bool (*goes)(const struct sv_completion *completion, const void *owner))
{
	uint32_t to = cq->head, announced = cq->announced;

	for (uint32_t from = cq->head; from != cq->tail; from++)
		if (!goes(&cq->kept[from], owner))
			cq->kept[to++] = cq->kept[from];
		else if (from - cq->head < announced)
			cq->announced--;
	cq->tail = to;
	free_if_empty(cq);
}

static bool goes_with_srq(const struct sv_completion *completion, const void *srq)
{
	return completion->queue == SV_QUEUE_SHARED && completion->srq == SV_ID_INDEX(((const struct sv_srq *)srq)->id);
}

static bool is_of_qp(const struct sv_completion *completion, const void *qp)
{
	return completion->qp == sv_qp_index(qp);
}

static bool goes_with_qp(const struct sv_completion *completion, const void *qp)
{
	if (!is_of_qp(completion, qp))
		return false;
	if (completion->queue == SV_QUEUE_SHARED)
		sv_shared_return(sv_srq_at(completion->srq), completion->position);
	return true;
}

static bool is_held_of_qp(const struct sv_completion *completion, const void *qp)
{
	return completion->held && is_of_qp(completion, qp);
}

void sv_kept_disown(struct sv_cq *cq, const struct sv_qp *qp)
{
	for (uint32_t at = cq->head; at != cq->tail; at++)
		if (is_of_qp(&cq->kept[at], qp))
			cq->kept[at].qp = SV_NO_QP;
}

void sv_kept_purge_srq(struct sv_cq *cq, const struct sv_srq *srq)
{
	purge(cq, srq, goes_with_srq);
}

void sv_kept_purge(struct sv_cq *cq, const struct sv_qp *qp)
{
	purge(cq, qp, goes_with_qp);
}

void sv_kept_purge_held(struct sv_cq *cq, const struct sv_qp *qp)
{
	purge(cq, qp, is_held_of_qp);
}
