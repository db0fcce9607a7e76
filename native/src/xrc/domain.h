/* SPDX-License-Identifier: Apache-2.0 */
/* XRC domains and their receive queue pairs, as the verbs of queue pairs and shared receive queues need them. */
#ifndef SV_XRC_DOMAIN_H
#define SV_XRC_DOMAIN_H

#include "objects/xrc.h"

/*
 * All SRQs of a receive QP's domain, under a lock of their own. `self` is the thread of a verb, which takes the locks of
 * queues as well, or NULL with the gate closed.
 */
void sv_xrc_each_cq(const struct sv_qp *qp, void (*visit)(struct sv_cq *cq, const struct sv_qp *qp));
/* Takes what has come into the virtual completion queues; nothing more will. */
void sv_xrc_collect(const struct sv_qp *qp, struct sv_thread *self);
/* Forgets its messages and their completions. */
void sv_xrc_forget_receiver(struct sv_qp *qp, struct sv_thread *self);
/* It goes on as the QP of another process: its number is not known here any more. */
void sv_xrc_make_foreign(struct sv_qp *qp, struct sv_thread *self);
/* An SRQ is about to end: it leaves its domain. */
void sv_xrc_leave(struct sv_srq *srq);
/* Counts a handle of a receive QP. False: it has none any more. */
bool sv_xrc_hold(struct sv_qp *qp);
/* Counts one less. True: it was the last. */
bool sv_xrc_let_go(struct sv_qp *qp);
/* It is still there. */
void sv_xrc_take_back(struct sv_qp *qp);

/* For the operations of a context. */
struct ibv_xrcd *sv_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int sv_close_xrcd(struct ibv_xrcd *xrcd);
int sv_get_srq_num(struct ibv_srq *srq, uint32_t *number);
struct ibv_qp *sv_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

#endif
