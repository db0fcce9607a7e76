/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landings: receives of our own, posted during a drain for a message whose sender waits for a receive that the
 * application has not posted yet. The message is kept, and fills the application's next receive.
 */
#ifndef SV_LANDING_H
#define SV_LANDING_H

#include "objects/objects.h"

/* One of our receives of a QP, or of an SRQ with a message for that QP, has completed; wc as the real queue gave it. */
void sv_landing_completed(struct sv_qp *qp, struct sv_srq *srq, const struct ibv_wc *wc);
/*
 * Fills the request just logged, at `position`, with the first landed message: its completion goes to the virtual
 * completion queue. The receive queue's lock must be held.
 */
int sv_landing_fill(struct sv_qp *qp, uint64_t position, struct sv_thread *self);
int sv_landing_fill_shared(struct sv_srq *srq, uint32_t slot, struct sv_thread *self);
/* The real queue is gone: so are the receives still posted to it. What has landed stays. */
void sv_landings_unbind(struct sv_landings *landings);
/* Forgets what has landed for the QP; NULL: for any, and what is awaited. */
void sv_landings_forget(struct sv_landings *landings, const struct sv_qp *qp);

#endif
