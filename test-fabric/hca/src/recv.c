/* ibv_post_recv */
#include "hca.h"

void recv_kick(struct hca_context *ctx, struct seg_qp *shm)
{
	uint32_t waiter = __atomic_exchange_n(&shm->rnr_waiter, 0, __ATOMIC_SEQ_CST);
	struct destination found;

	if (waiter && fabric_find(ctx, shm->dlid, shm->dest_qpn, false, &found))
		seg_mail(found.peer->seg, MAIL_RUN_QP, waiter - 1, shm->rnr_waiter_gen, 1);
}

void recv_capture(struct seg_recv_wqe *wqe, const struct ibv_recv_wr *wr)
{
	int i;

	wqe->wr_id = wr->wr_id;
	wqe->num_sge = wr->num_sge;
	for (i = 0; i < wr->num_sge; i++)
		wqe->sge[i] = wr->sg_list[i];
}

int recv_post(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct hca_qp *qp = to_qp(ibqp, "ibv_post_recv");
	struct hca_context *ctx = context_of(ibqp->context);
	struct seg_qp *shm = qp->shm;
	struct seg_rq *rq = &shm->rq;
	int ret = 0;

	pthread_mutex_lock(&qp->rq.lock);
	for (; wr; wr = wr->next) {
		if (seg_load(&ctx->seg->fatal)) {
			ret = EIO;
			break;
		}
		if (seg_load(&shm->state) == IBV_QPS_RESET || !rq->slots || wr->num_sge < 0 ||
		    (uint32_t)wr->num_sge > rq->max_sge) {
			ret = EINVAL;
			break;
		}
		if (qp->rq.prod - seg_load(&qp->rq.released) >= rq->max_wr) {
			ret = ENOMEM;
			break;
		}
		recv_capture(seg_recv_wqe(ctx->seg, rq, qp->rq.prod), wr);
		qp->rq.prod++;
		seg_store_seq(&rq->prod, qp->rq.prod);
	}
	pthread_mutex_unlock(&qp->rq.lock);

	/* Whoever set ERR has flushed what it saw; what came after is for us to flush. */
	if (seg_load_seq(&shm->state) == IBV_QPS_ERR) {
		qp_lock_responder(ctx->seg, shm, qp->index);
		qp_flush_recv_locked(ctx, qp);
		seg_unlock(&shm->lock);
	} else if (seg_load(&ctx->seg->settings.rnr_kick)) {
		recv_kick(ctx, shm);
	}
	if (ret)
		*bad_wr = wr;
	return ret;
}
