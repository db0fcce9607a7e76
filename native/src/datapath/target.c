/* SPDX-License-Identifier: Apache-2.0 */
#include "datapath/target.h"
#include "base/tcp_abi.h"
#include "datapath/grh.h"
#include "objects/qp_numbers.h"

void sv_aim(const struct sv_qp *qp, uint32_t slot, struct ibv_send_wr *real)
{
	const struct sv_sent_entry *entry = sv_send_slot(qp, slot);

	if (sv_is_datagram(qp))
		sv_aim_datagram(entry->remote_addr, entry->rkey, entry->compare_add, real);
	else
		real->qp_type.xrc.remote_srqn = sv_srq_number_real(qp, sv_logged_srq(entry));
}

static int post_to_srq(struct sv_qp *qp, struct ibv_send_wr *wr, struct ibv_sge *sges)
{
	struct ibv_send_wr real;
	struct sv_request_fields fields;
	int err;

	if (wr->opcode > IBV_WR_SEND_WITH_INV || !sv_opcode_in(wr->opcode, SV_OPCODES))
		return EINVAL;
	err = sv_log_send_within(qp, wr, &fields, qp->targeted, false);
	if (err)
		return err;
	sv_build_send(qp, &fields, &real, sges, false);
	sv_log_srq(fields.entry, wr->qp_type.xrc.remote_srqn);
	sv_xrc_note_target(qp, wr->qp_type.xrc.remote_srqn);
	real.qp_type.xrc.remote_srqn = sv_srq_number_real(qp, wr->qp_type.xrc.remote_srqn);
	return sv_post_built(qp, &real);
}

int sv_post_to_target(struct sv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_send_wr real;
	struct ibv_sge one;
	int err = 0;

	for (; wr && !err; wr = wr->next) {
		struct ibv_sge *sges = wr->num_sge > 1 ? qp->send_scratch : &one;

		err = sv_is_datagram(qp) ? sv_post_datagram(qp, wr, &real, sges, false) : post_to_srq(qp, wr, sges);
		if (err)
			*bad = wr;
	}
	return err;
}

void sv_translate_source(struct ibv_context *vcontext, struct ibv_wc *wc, struct sv_recv_entry *entry)
{
	const struct sv_idmap *sources = sv_load_acquire(&sv_context_of(vcontext)->sources);
	const struct sv_qp *own;
	uint64_t found;

	if (unlikely(sources || sv_masks.gid) && entry && sv_grh_translate(vcontext, wc, entry))
		return;
	own = sources && wc->slid ? sv_qp_by_number(vcontext, wc->src_qp) : NULL;
	if (own && sv_idmap_find(sources, sv_own_source_key(wc->slid), &found)) {
		wc->src_qp = own->v.qp_num;
		wc->slid = found >> 24;
		return;
	}
	if (sv_idmap_find(sources, sv_source_key(wc->slid, wc->src_qp), &found)) {
		wc->src_qp = found & 0xffffff;
		wc->slid = found >> 24;
		return;
	}
	wc->src_qp ^= sv_masks.qp_num;
	if (sv_idmap_find(sources, sv_source_key(wc->slid, 0), &found))
		wc->slid = found >> 24;
	else if (wc->slid && sv_tcp_selected() == SV_TCP_WITHOUT_LIDS)
		wc->slid = 0;	/* it tells processes apart, and is no lid */
	else if (wc->slid && wc->slid != sv_masks.lid)
		wc->slid ^= sv_masks.lid;
}
