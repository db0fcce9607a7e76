/* SPDX-License-Identifier: Apache-2.0 */
/* Takes completions of the real queue into the virtual one. */
#ifndef SV_KEEP_H
#define SV_KEEP_H

#include "objects/objects.h"

static inline void sv_raise_to(uint64_t *position, uint64_t to)
{
	if (*position < to)
		*position = to;
}

/*
 * Takes a completion of the real queue into the virtual one, which has room for it, and retires what it proves. Returns
 * 1, or 0 when it was of a queue that is no more. The CQ's lock is held, or the gate is closed.
 */
int sv_keep(struct sv_cq *cq, const struct ibv_wc *wc);
/*
 * Takes a completion of a request of ours, a marker or a landing. These may still be on their way when a checkpoint is
 * given up. Returns 1, or 0 when it is none.
 */
int sv_keep_own(const struct ibv_wc *wc);
/* Puts a completion of our own making into the virtual queue, which has room for it. */
void sv_keep_made(struct sv_cq *cq, struct sv_qp *qp, enum sv_queue queue, uint64_t position, const struct ibv_wc *wc);
/* Likewise of a receive of an SRQ that one of its QPs has taken. */
void sv_keep_shared(struct sv_cq *cq, struct sv_qp *qp, struct sv_srq *srq, uint32_t slot, const struct ibv_wc *wc);
/* A held error is the application's after all: its request is done. */
void sv_settle_error(struct sv_completion *completion);

#endif
