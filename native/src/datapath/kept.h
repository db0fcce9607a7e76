/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The virtual completion queue: completions that were taken from the real queue for the application and that it has not
 * polled yet. They come before anything in the real queue, in order. It exists only while it holds something.
 */
#ifndef SV_KEPT_H
#define SV_KEPT_H

#include "objects/objects.h"

/* Makes room for so many more. Returns 0 or ENOMEM. */
int sv_kept_reserve(struct sv_cq *cq, uint32_t count);
/* Appends; there must be room. */
void sv_kept_append(struct sv_cq *cq, const struct sv_completion *completion);
/* Removes the first `count`. */
void sv_kept_remove(struct sv_cq *cq, uint32_t count);
/* Removes those of the QP; or of them only those that are held. */
void sv_kept_purge(struct sv_cq *cq, const struct sv_qp *qp);
void sv_kept_purge_held(struct sv_cq *cq, const struct sv_qp *qp);
/* Those of the QP are from now on another process'. */
void sv_kept_disown(struct sv_cq *cq, const struct sv_qp *qp);
/* Removes those of an SRQ that ends. */
void sv_kept_purge_srq(struct sv_cq *cq, const struct sv_srq *srq);

static inline bool sv_kept_any(const struct sv_cq *cq)
{
	return cq->head != cq->tail;
}

#endif
