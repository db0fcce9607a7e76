/* SPDX-License-Identifier: Apache-2.0 */
#include "landing.h"
#include "build.h"
#include "drain.h"
#include "kept.h"
#include "real.h"
#include "say.h"

static void append(struct sv_landing_list *list, struct sv_landing *landing)
{
	landing->next = NULL;
	if (list->last)
		list->last->next = landing;
	else
		list->first = landing;
	list->last = landing;
}

static struct sv_landing *take_first(struct sv_landing_list *list)
{
	struct sv_landing *landing = list->first;

	if (landing) {
		list->first = landing->next;
		if (!list->first)
			list->last = NULL;
	}
	return landing;
}

static void deregister(struct sv_landing *landing)
{
	if (landing->real_mr && SV_REAL(ibv_dereg_mr)(landing->real_mr))
		sv_sayf("ibv_dereg_mr of a landing buffer failed: %s", strerror(errno));
	landing->real_mr = NULL;
}

static void free_landing(struct sv_landing *landing)
{
	deregister(landing);
	sv_block_free(landing->buffer, landing->size);
	sv_block_free(landing, sizeof(*landing));
}

int sv_qp_post_landing(struct ibv_qp *vqp, uint64_t length)
{
	struct sv_qp *qp = sv_qp_of(vqp);
	struct sv_landing *landing = sv_block_alloc(sizeof(*landing));
	struct ibv_recv_wr request = {
		.wr_id = qp->sq.id | SV_ID(0, SV_ID_INTERNAL, 0) | SV_INTERNAL_LANDING,
	}, *bad;
	struct ibv_sge sge;
	int err = 0;

	if (!landing)
		return ENOMEM;
	if (length) {
		landing->size = length;
		landing->buffer = sv_block_alloc(length);
		if (landing->buffer)
			landing->real_mr = sv_real_reg_mr(sv_real(vqp->pd), landing->buffer, length,
							  (uintptr_t)landing->buffer, IBV_ACCESS_LOCAL_WRITE);
		if (!landing->real_mr) {
			err = landing->buffer && errno ? errno : ENOMEM;
			goto fail;
		}
		sge = (struct ibv_sge){ (uintptr_t)landing->buffer, length, landing->real_mr->lkey };
		request.sg_list = &sge;
		request.num_sge = 1;
	}
	err = sv_context_of(vqp->context)->post_recv(qp->rq.real, &request, &bad);
	if (err)
		goto fail;
	append(&qp->awaited, landing);
	qp->landings++;
	return 0;
fail:
	free_landing(landing);
	return err;
}

void sv_landing_completed(struct sv_qp *qp, const struct ibv_wc *wc)
{
	struct sv_landing *landing = take_first(&qp->awaited);

	if (!landing)
		return;
	qp->landings--;
	if (wc->status != IBV_WC_SUCCESS) {
		if (wc->status != IBV_WC_WR_FLUSH_ERR)
			sv_sayf("a landing receive of QP 0x%x failed with status %d", qp->v.qp_num, wc->status);
		free_landing(landing);
		return;
	}
	landing->wc = *wc;
	qp->landed_total++;
	append(&qp->landed, landing);
	qp->rq.landed = 1;
}

/* Copies the message to where the receive points to. */
static enum ibv_wc_status scatter(struct sv_qp *qp, struct sv_recv_entry *entry, const struct sv_landing *landing)
{
	struct ibv_sge *sges = sv_recv_sges(entry);
	uint64_t left = landing->wc.opcode == IBV_WC_RECV ? landing->wc.byte_len : 0;
	const char *from = landing->buffer;

	for (uint32_t i = 0; i < entry->num_sge && left; i++) {
		uint64_t part = left < sges[i].length ? left : sges[i].length;

		if (!sv_memory_write(qp->v.context, sges[i].lkey, sges[i].addr, from, part))
			return IBV_WC_LOC_PROT_ERR;
		from += part;
		left -= part;
	}
	return left ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

int sv_landing_fill(struct sv_qp *qp, uint64_t position, struct sv_thread *self)
{
	struct sv_cq *cq = sv_cq_of(qp->v.recv_cq);
	struct sv_landing *landing;
	struct ibv_wc wc;
	bool event;

	sv_lock_take_nested(&cq->lock, self, SV_HELD_CQ);
	if (sv_kept_reserve(cq, 1)) {
		sv_lock_drop(&cq->lock);
		return ENOMEM;
	}
	landing = take_first(&qp->landed);
	qp->rq.landed = qp->landed.first != NULL;
	wc = landing->wc;
	wc.status = scatter(qp, sv_recv_entry(qp, position), landing);
	qp->recv_filled++;
	qp->recv_retired = position + 1;
	sv_keep_made(cq, qp, SV_QUEUE_RECV, position, &wc);
	event = cq->event_due;
	sv_lock_drop(&cq->lock);
	if (event)
		sv_cq_event_now(cq);
	/* As on a device, where such a receive breaks the connection; the sender alone was told otherwise. */
	if (wc.status != IBV_WC_SUCCESS) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

		SV_REAL(ibv_modify_qp)(qp->rq.real, &attr, IBV_QP_STATE);
	}
	free_landing(landing);
	return 0;
}

void sv_landings_unbind(struct sv_qp *qp)
{
	struct sv_landing *landing;

	while ((landing = take_first(&qp->awaited)))
		free_landing(landing);
	qp->landings = 0;
	for (landing = qp->landed.first; landing; landing = landing->next)
		deregister(landing);
}

void sv_landings_forget(struct sv_qp *qp)
{
	struct sv_landing *landing;

	sv_landings_unbind(qp);
	while ((landing = take_first(&qp->landed)))
		free_landing(landing);
	qp->rq.landed = 0;
}
