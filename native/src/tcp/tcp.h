/* SPDX-License-Identifier: Apache-2.0 */
/* ib2tcp's operations and functions, in place of a provider's and of libibverbs'. */
#ifndef SV_TCP_H
#define SV_TCP_H

#include "base/tcp_abi.h"

struct sv_real_functions;

int sv_tcp_post_send(struct ibv_qp *v, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int sv_tcp_post_recv(struct ibv_qp *v, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int sv_tcp_post_srq_recv(struct ibv_srq *v, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int sv_tcp_bind_mw(struct ibv_qp *v, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int sv_tcp_poll_cq(struct ibv_cq *v, int count, struct ibv_wc *wc);
int sv_tcp_req_notify_cq(struct ibv_cq *v, int solicited_only);
/* A poll's first look at a CQ. Who looks at an empty one many times in a row sleeps for a moment. */
bool sv_tcp_cq_empty(struct sv_tcp_cq *cq);
/* A lock that is held for a few instructions; a store of 0, with release order, gives it back. */
void sv_tcp_take(uint32_t *lock);
/* The lock of threads that poll or resize a CQ; held for a few instructions. */
void sv_tcp_cq_lock(struct sv_tcp_cq *cq);
void sv_tcp_cq_unlock(struct sv_tcp_cq *cq);
/*
 * Takes a turn of the engine, if it is free and those who poll drive it. True when a turn was taken: rings are to be looked
 * at again.
 */
bool sv_tcp_drive(enum sv_tcp_turn turn);
/* Could the calling thread drive the engine? */
bool sv_tcp_may_drive(void);
/* Puts a QP into the error state, soon. */
void sv_tcp_fail(struct ibv_qp *v);

/* Puts ib2tcp's functions in place of those of libibverbs that the preload library calls with real objects. */
void sv_tcp_functions(struct sv_real_functions *functions);

#endif
