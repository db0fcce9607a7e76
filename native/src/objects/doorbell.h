/* SPDX-License-Identifier: Apache-2.0 */
/* Posting over a provider that rings the doorbell by write(2). */
#ifndef SV_DOORBELL_H
#define SV_DOORBELL_H

#include "base/base.h"

/*
 * What posts send requests to QPs of a real context: the provider's own function, or for rxe one that also works in a
 * restored process.
 */
int (*sv_ringing_post_send(struct ibv_context *real))(struct ibv_qp *qp, struct ibv_send_wr *wr,
						      struct ibv_send_wr **bad);

#endif
