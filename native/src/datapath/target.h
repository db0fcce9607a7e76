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

#include "base/idmap.h"
#include "objects/build.h"
#include "objects/xrc.h"

static inline bool sv_is_datagram(const struct sv_qp *qp)
{
	return qp->v.qp_type == IBV_QPT_UD;
}

/* The types beside RC and UC; of these XRC's receive QP has no send queue. */
static inline bool sv_names_target(const struct sv_qp *qp)
{
	return qp->v.qp_type >= IBV_QPT_UD;
}

/* Where a logged datagram goes. */
static SV_ALWAYS_INLINE void sv_aim_datagram(uint64_t vah, uint32_t qp_num, uint32_t qkey, struct ibv_send_wr *real)
{
	const struct sv_ah *ah = sv_ah_of((struct ibv_ah *)(uintptr_t)vah);
	uint64_t found;

	if (sv_idmap_find(ah->map, qp_num, &found)) {
		real->wr.ud.ah = ah->reals[found >> 32];
		real->wr.ud.remote_qpn = (uint32_t)found;
	} else {
		/* The multicast number stands for no QP. */
		real->wr.ud.remote_qpn = qp_num == 0xffffff ? qp_num : qp_num ^ sv_masks.qp_num;
		real->wr.ud.ah = ah->makers ? ah->reals[ah->makers[real->wr.ud.remote_qpn >> 16 & 0xff]] : ah->real;
	}
	real->wr.ud.remote_qkey = qkey;
}

/* Posts one datagram; `real`, and `sges` for its SGEs, are room to build it in. The send queue's lock is held. */
static SV_ALWAYS_INLINE int sv_post_datagram(struct sv_qp *qp, const struct ibv_send_wr *wr, struct ibv_send_wr *real,
					     struct ibv_sge *sges, const bool simple)
{
	uint32_t qkey = wr->wr.ud.remote_qkey;
	struct sv_request_fields fields;
	int err;

	if (unlikely((wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM) || !sv_ours(wr->wr.ud.ah)))
		return EINVAL;
	err = sv_log_send_within(qp, wr, &fields, qp->targeted, simple);
	if (unlikely(err))
		return err;
	fields.entry->compare_add = qkey;
	sv_build_send(qp, &fields, real, sges, simple);
	sv_aim_datagram(fields.remote_addr, fields.rkey, qkey, real);
	return sv_post_built(qp, real);
}

/* Posts a list; the send queue's lock is held. */
int sv_post_to_target(struct sv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* Fills in where a logged request goes. */
void sv_aim(const struct sv_qp *qp, uint32_t slot, struct ibv_send_wr *real);
/*
 * Translates the sender of a message to what the application knows. `entry`: the receive that a datagram has filled, whose
 * route header is made to say the same; else NULL.
 */
void sv_translate_source(struct ibv_context *vcontext, struct ibv_wc *wc, struct sv_recv_entry *entry);

/* Translates the sender in a receive's completion; on a connection it is the peer. */
static SV_ALWAYS_INLINE void sv_translate_sender(const struct sv_qp *qp, struct ibv_wc *wc, struct sv_recv_entry *entry)
{
	if (unlikely(qp->rq.peer_qp_num == SV_PEER_ANY)) {
		sv_translate_source(qp->v.context, wc, sv_is_datagram(qp) ? entry : NULL);
	} else {
		wc->src_qp = qp->rq.peer_qp_num;
		wc->slid = qp->rq.peer_lid;
	}
}

#endif
