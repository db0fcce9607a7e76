/* SPDX-License-Identifier: Apache-2.0 */
#include "datapath/landing.h"
#include "base/say.h"
#include "datapath/grh.h"
#include "datapath/keep.h"
#include "datapath/kept.h"
#include "datapath/foreign_qps.h"
#include "datapath/target.h"
#include "interpose/real.h"
#include "objects/build.h"
#include "objects/xrc.h"

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

/* A landing's buffer, and the request for it. Returns NULL with errno. */
static struct sv_landing *prepare(struct ibv_pd *vpd, uint64_t length, struct ibv_recv_wr *request, struct ibv_sge *sge)
{
	struct sv_landing *landing = sv_block_alloc(sizeof(*landing));

	errno = ENOMEM;
	if (!landing || !length)
		return landing;
	landing->size = length;
	landing->buffer = sv_block_alloc(length);
	if (landing->buffer)
		landing->real_mr = sv_real_reg_mr(sv_real(vpd), landing->buffer, length, (uintptr_t)landing->buffer,
						  IBV_ACCESS_LOCAL_WRITE);
	if (!landing->real_mr) {
		int err = landing->buffer && errno ? errno : ENOMEM;

		free_landing(landing);
		errno = err;
		return NULL;
	}
	*sge = (struct ibv_sge){ (uintptr_t)landing->buffer, length, landing->real_mr->lkey };
	request->sg_list = sge;
	request->num_sge = 1;
	return landing;
}

static int posted(struct sv_landings *landings, struct sv_landing *landing, int err)
{
	if (err) {
		free_landing(landing);
		return err;
	}
	append(&landings->awaited, landing);
	landings->count++;
	return 0;
}

int sv_qp_post_landing(struct ibv_qp *vqp, uint64_t length)
{
	struct sv_qp *qp = sv_qp_of(vqp);
	struct ibv_recv_wr request = {
		.wr_id = qp->sq.id | SV_ID(0, SV_ID_INTERNAL, 0) | SV_INTERNAL_LANDING,
	}, *bad;
	struct ibv_sge sge;
	struct sv_landing *landing = prepare(vqp->pd, length, &request, &sge);

	if (!landing)
		return errno;
	return posted(&qp->landings, landing,
		      sv_context_of(vqp->context)->post_recv(qp->rq.real, &request, &bad));
}

int sv_srq_post_landing(struct ibv_srq *vsrq, uint64_t length)
{
	struct sv_srq *srq = sv_srq_of(vsrq);
	struct ibv_recv_wr request = {
		.wr_id = srq->id | SV_ID(0, SV_ID_INTERNAL, 0) | SV_INTERNAL_SHARED_LANDING,
	}, *bad;
	struct ibv_sge sge;
	struct sv_landing *landing = prepare(vsrq->pd, length, &request, &sge);

	if (!landing)
		return errno;
	return posted(&srq->landings, landing,
		      sv_context_of(vsrq->context)->post_srq_recv(srq->real, &request, &bad));
}

void sv_landing_completed(struct sv_qp *qp, struct sv_srq *srq, const struct ibv_wc *wc)
{
	struct sv_landings *landings = srq ? &srq->landings : &qp->landings;
	struct sv_landing *landing = take_first(&landings->awaited);

	if (!landing)
		return;
	landings->count--;
	/* Without a QP: of XRC that of another process, else one that is no more, and with it the message. */
	if (wc->status != IBV_WC_SUCCESS || (!qp && !srq->xrcd)) {
		if (qp && wc->status != IBV_WC_WR_FLUSH_ERR)
			sv_sayf("a landing receive of QP 0x%x failed with status %d", qp->v.qp_num, wc->status);
		free_landing(landing);
		return;
	}
	landing->qp = qp;
	landing->wc = *wc;
	if (qp) {
		qp->landed_total++;
		/* The sender is looked up now, by the current ids. */
		if (!sv_is_datagram(qp) || !sv_grh_translate_at(qp->v.context, &landing->wc, landing->buffer))
			sv_translate_sender(qp, &landing->wc, NULL);
		if (qp->xrc && qp->xrc->of_file) {
			/* What others have open may be no more when it is taken. */
			landing->wc.qp_num = qp->v.qp_num;
			landing->qp = NULL;
		} else {
			sv_translate_invalidation(qp, &landing->wc);
		}
	} else {
		sv_foreign_qp_brought(srq, &landing->wc);
	}
	append(&landings->landed, landing);
	if (srq)
		srq->landed = 1;
	else
		qp->rq.landed = 1;
}

/* Copies the message to where the receive points to. */
static enum ibv_wc_status scatter(struct ibv_context *vcontext, struct sv_recv_entry *entry,
				   const struct sv_landing *landing)
{
	struct ibv_sge *sges = sv_recv_sges(entry);
	uint64_t left = landing->wc.opcode == IBV_WC_RECV ? landing->wc.byte_len : 0;
	const char *from = landing->buffer;

	for (uint32_t i = 0; i < entry->num_sge && left; i++) {
		uint64_t part = left < sges[i].length ? left : sges[i].length;

		if (!sv_memory_write(vcontext, sges[i].lkey, sges[i].addr, from, part))
			return IBV_WC_LOC_PROT_ERR;
		from += part;
		left -= part;
	}
	return left ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

/* Room in the virtual completion queue, and then nothing can fail. */
static int begin_fill(struct sv_cq *cq, struct sv_thread *self)
{
	sv_lock_take_nested(&cq->lock, self, SV_HELD_CQ);
	if (!sv_kept_reserve(cq, 1))
		return 0;
	sv_lock_drop(&cq->lock);
	return ENOMEM;
}

static void end_fill(struct sv_cq *cq, struct sv_landing *landing, enum ibv_wc_status status)
{
	bool event = sv_load(&cq->event_made);

	sv_lock_drop(&cq->lock);
	if (event)
		sv_cq_event_now(cq);
	/* As on a device, where such a receive breaks the connection; the sender alone was told otherwise. */
	if (status != IBV_WC_SUCCESS && !landing->qp) {
		sv_sayf("a message by way of queue pair 0x%x, which others may have open, did not fit the receive (status %d): that queue pair is not told",
			landing->wc.qp_num, status);
	} else if (status != IBV_WC_SUCCESS && landing->qp->rq.real) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

		SV_REAL(ibv_modify_qp)(landing->qp->rq.real, &attr, IBV_QP_STATE);
	}
	free_landing(landing);
}

int sv_landing_fill(struct sv_qp *qp, uint64_t position, struct sv_thread *self)
{
	struct sv_cq *cq = sv_cq_of(qp->v.recv_cq);
	struct sv_landing *landing;
	struct ibv_wc wc;
	int err = begin_fill(cq, self);

	if (err)
		return err;
	landing = take_first(&qp->landings.landed);
	qp->rq.landed = qp->landings.landed.first != NULL;
	wc = landing->wc;
	wc.status = scatter(qp->v.context, sv_recv_entry(qp, position), landing);
	qp->recv_filled++;
	qp->recv_retired = position + 1;
	sv_keep_made(cq, qp, SV_QUEUE_RECV, position, &wc);
	end_fill(cq, landing, wc.status);
	return 0;
}

int sv_landing_fill_shared(struct sv_srq *srq, uint32_t slot, struct sv_thread *self)
{
	struct sv_landing *landing = srq->landings.landed.first;
	struct sv_cq *cq = sv_shared_cq(srq, landing->qp);
	struct ibv_wc wc = landing->wc;
	int err = begin_fill(cq, self);

	if (err)
		return err;
	take_first(&srq->landings.landed);
	srq->landed = srq->landings.landed.first != NULL;
	wc.status = scatter(srq->v.context, &srq->log[slot].recv, landing);
	srq->log[slot].number = 0;
	sv_keep_shared(cq, landing->qp, srq, slot, &wc);
	end_fill(cq, landing, wc.status);
	return 0;
}

void sv_landings_unbind(struct sv_landings *landings)
{
	struct sv_landing *landing;

	while ((landing = take_first(&landings->awaited)))
		free_landing(landing);
	landings->count = 0;
	for (landing = landings->landed.first; landing; landing = landing->next)
		deregister(landing);
}

void sv_landings_forget(struct sv_landings *landings, const struct sv_qp *qp)
{
	struct sv_landing_list landed = landings->landed;
	struct sv_landing *landing;

	if (!qp)
		sv_landings_unbind(landings);
	landings->landed = (struct sv_landing_list){ 0 };
	while ((landing = take_first(&landed))) {
		if (qp && landing->qp != qp)
			append(&landings->landed, landing);
		else
			free_landing(landing);
	}
}
