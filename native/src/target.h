/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that say where they go: datagrams, and those of XRC, which name the shared receive queue at the peer. Their
 * queue pairs' sq.max_wr is 0, so that the way of RC and UC need not ask: what finds no room there comes here.
 *
 * In the log of a UD QP an entry's remote_addr is the virtual address handle, its rkey the remote QP number and its
 * compare_add the Q_Key, the first two of which is where struct ibv_send_wr has them, too. In that of an XRC send QP the
 * (virtual) number of the SRQ is in compare_add, or in imm of an atomic.
 */
#ifndef SV_TARGET_H
#define SV_TARGET_H

#include "build.h"
#include "xrc.h"

static inline bool sv_is_datagram(const struct sv_qp *qp)
{
	return qp->v.qp_type == IBV_QPT_UD;
}

/* The types beside RC and UC; of these XRC's receive QP has no send queue. */
static inline bool sv_names_target(const struct sv_qp *qp)
{
	return qp->v.qp_type >= IBV_QPT_UD;
}

/* Posts a list; the send queue's lock is held. */
int sv_post_to_target(struct sv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* Fills in where a logged request goes. */
void sv_aim(const struct sv_qp *qp, uint32_t slot, struct ibv_send_wr *real);
/* Whom a datagram came from, as the application knows it. */
void sv_translate_source(const struct sv_qp *qp, struct ibv_wc *wc);

/* Whom a receive's completion says that the message came from: of a connection, its peer. */
static SV_ALWAYS_INLINE void sv_translate_sender(const struct sv_qp *qp, struct ibv_wc *wc)
{
	if (unlikely(qp->rq.peer_qp_num == SV_PEER_ANY)) {
		sv_translate_source(qp, wc);
	} else {
		wc->src_qp = qp->rq.peer_qp_num;
		wc->slid = qp->rq.peer_lid;
	}
}

#endif
