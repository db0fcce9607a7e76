/* SPDX-License-Identifier: Apache-2.0 */
#include "target.h"
#include "idmap.h"
#include "tcp.h"

static SV_ALWAYS_INLINE void aim_datagram(uint64_t vah, uint32_t qp_num, uint32_t qkey, struct ibv_send_wr *real)
{
	const struct sv_ah *ah = sv_ah_of((struct ibv_ah *)(uintptr_t)vah);
	uint64_t found;

	if (sv_idmap_find(ah->map, qp_num, &found)) {
		real->wr.ud.ah = ah->reals[found >> 32];
		real->wr.ud.remote_qpn = (uint32_t)found;
	} else {
		real->wr.ud.ah = ah->real;
		/* The multicast number stands for no QP. */
		real->wr.ud.remote_qpn = qp_num == 0xffffff ? qp_num : qp_num ^ sv_masks.qp_num;
	}
	real->wr.ud.remote_qkey = qkey;
}

void sv_aim(const struct sv_qp *qp, uint32_t slot, struct ibv_send_wr *real)
{
	const struct sv_sent_entry *entry = sv_send_slot(qp, slot);

	if (sv_is_datagram(qp))
		aim_datagram(entry->remote_addr, entry->rkey, entry->compare_add, real);
	else
		real->qp_type.xrc.remote_srqn = sv_srq_number_real(qp, sv_logged_srq(entry));
}

/* Whether such a queue pair takes that request at all. */
static int check_request(const struct sv_qp *qp, const struct ibv_send_wr *wr)
{
	if (sv_is_datagram(qp))
		return (wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM) && sv_ours(wr->wr.ud.ah)
			       ? 0 : EINVAL;
	return wr->opcode <= IBV_WR_SEND_WITH_INV && sv_opcode_in(wr->opcode, SV_OPCODES) ? 0 : EINVAL;
}

int sv_post_to_target(struct sv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	const struct sv_context *context = sv_context_of(qp->v.context);
	struct sv_request_fields fields;
	struct ibv_send_wr real, *real_bad;
	struct ibv_sge one;
	int err = 0;

	for (; wr && !err; wr = wr->next) {
		err = check_request(qp, wr);
		if (!err)
			err = sv_log_send_within(qp, wr, &fields, qp->targeted);
		if (!err) {
			struct sv_sent_entry *entry = sv_send_slot(qp, fields.slot);

			sv_build_send(qp, &fields, &real, wr->num_sge > 1 ? qp->send_scratch : &one);
			if (sv_is_datagram(qp)) {
				entry->compare_add = wr->wr.ud.remote_qkey;
				aim_datagram(fields.remote_addr, fields.rkey, wr->wr.ud.remote_qkey, &real);
			} else {
				sv_log_srq(entry, wr->qp_type.xrc.remote_srqn);
				real.qp_type.xrc.remote_srqn = sv_srq_number_real(qp, wr->qp_type.xrc.remote_srqn);
			}
			err = context->post_send(qp->sq.real, &real, &real_bad);
			if (err)
				sv_unlog_send(qp, 1);
		}
		if (err)
			*bad = wr;
	}
	return err;
}

void sv_translate_source(const struct sv_qp *qp, struct ibv_wc *wc)
{
	const struct sv_idmap *sources = sv_context_of(qp->v.context)->sources;
	uint64_t found;

	if (sv_idmap_find(sources, sv_source_key(wc->slid, wc->src_qp), &found)) {
		wc->src_qp = found & 0xffffff;
		wc->slid = found >> 24;
		return;
	}
	wc->src_qp ^= sv_masks.qp_num;
	if (sv_idmap_find(sources, sv_source_key(wc->slid, 0), &found))
		wc->slid = found >> 24;
	else if (wc->slid && sv_tcp_selected())
		wc->slid = 0;	/* it tells processes apart, and is no lid */
	else if (wc->slid && wc->slid != sv_masks.lid)
		wc->slid ^= sv_masks.lid;
}
