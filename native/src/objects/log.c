/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that do not fit in a log entry of their own: lists of SGEs, and inline payloads. */
#include "objects/build.h"

int sv_log_gather(struct sv_qp *qp, struct sv_sent_entry *entry, uint32_t slot, const struct ibv_send_wr *wr)
{
	char *side = qp->send_side + (size_t)slot * qp->send_stride;
	uint64_t length = 0;

	if ((uint32_t)wr->num_sge > qp->cap.max_send_sge)
		return EINVAL;
	if (wr->num_sge == 0) {
		entry->sge = (struct ibv_sge){ 0 };
		return 0;
	}
	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	if (wr->send_flags & IBV_SEND_INLINE) {
		char *to = side;

		if (length > qp->cap.max_inline_data)
			return EINVAL;
		for (int i = 0; i < wr->num_sge; i++) {
			memcpy(to, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
			to += wr->sg_list[i].length;
		}
	} else {
		memcpy(side, wr->sg_list, wr->num_sge * sizeof(*wr->sg_list));
	}
	entry->sge.addr = (uintptr_t)side;
	entry->sge.length = length;
	entry->sge.lkey = 0;
	return 0;
}

int sv_log_scatter(struct sv_recv_entry *entry, char *side, uint32_t max_sge, const struct ibv_recv_wr *wr)
{
	if ((uint32_t)wr->num_sge > max_sge)
		return EINVAL;
	entry->sge = (struct ibv_sge){ 0 };
	if (wr->num_sge) {
		memcpy(side, wr->sg_list, wr->num_sge * sizeof(*wr->sg_list));
		entry->sge.addr = (uintptr_t)side;
	}
	return 0;
}
