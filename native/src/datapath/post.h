/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SV_POST_H
#define SV_POST_H

#include "objects/objects.h"

/* Logs and posts a list of send requests; inside the gate, with the send queue's lock. */
int sv_post_send_locked(struct sv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

#endif
