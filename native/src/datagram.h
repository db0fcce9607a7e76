/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams. In the log of a UD QP an entry's remote_addr is the virtual address handle, its rkey the remote QP number
 * and its compare_add the Q_Key, the first two of which is where struct ibv_send_wr has them, too. Its sq.max_wr is 0, so
 * that the way of reliable connections need not ask: what finds no room there comes here.
 */
#ifndef SV_DATAGRAM_H
#define SV_DATAGRAM_H

#include "build.h"

static inline bool sv_is_datagram(const struct sv_qp *qp)
{
	return qp->v.qp_type == IBV_QPT_UD;
}

/* Posts a list; the send queue's lock is held. */
int sv_post_datagrams(struct sv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* Fills in where a logged datagram goes. */
void sv_aim(const struct sv_qp *qp, uint32_t slot, struct ibv_send_wr *real);
/* Whom a datagram came from, as the application knows it. */
void sv_translate_source(const struct sv_qp *qp, struct ibv_wc *wc);

#endif
