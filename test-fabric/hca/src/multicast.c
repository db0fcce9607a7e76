/* Multicast: which QPs of our own listen to which group. Senders of all processes read the table. */
#include "hca.h"

/* ctx->lock held */
static struct seg_mcast *find(struct hca_context *ctx, const struct hca_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	unsigned int i;

	for (i = 0; i < SEG_MAX_MCAST; i++) {
		struct seg_mcast *m = &ctx->seg->mcast[i];

		if (m->valid && m->qp_index == qp->index && m->lid == lid && !memcmp(&m->gid, gid, sizeof(*gid)))
			return m;
	}
	return NULL;
}

int ibv_attach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid)
{
	struct hca_qp *qp = to_qp(ibqp, "ibv_attach_mcast");
	struct hca_context *ctx = context_of(ibqp->context);
	struct seg_mcast *m;
	unsigned int i;
	int ret = 0;

	if (ibqp->qp_type != IBV_QPT_UD || gid->raw[0] != 0xff)
		return hca_errno(EINVAL);
	pthread_mutex_lock(&ctx->lock);
	if (find(ctx, qp, gid, lid))
		goto out;
	for (i = 0; i < SEG_MAX_MCAST && ctx->seg->mcast[i].valid; i++)
		;
	if (i == SEG_MAX_MCAST) {
		ret = ENOMEM;
		goto out;
	}
	m = &ctx->seg->mcast[i];
	m->gid = *gid;
	m->lid = lid;
	m->qp_index = qp->index;
	m->qp_gen = qp->gen;
	seg_store(&m->valid, 1);
	if (i >= ctx->seg->max_mcast)
		seg_store(&ctx->seg->max_mcast, i + 1);
	qp->groups++;
out:
	pthread_mutex_unlock(&ctx->lock);
	return ret ? hca_errno(ret) : 0;
}

int ibv_detach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid)
{
	struct hca_qp *qp = to_qp(ibqp, "ibv_detach_mcast");
	struct hca_context *ctx = context_of(ibqp->context);
	struct seg_mcast *m;

	pthread_mutex_lock(&ctx->lock);
	m = find(ctx, qp, gid, lid);
	if (m) {
		seg_store(&m->valid, 0);
		qp->groups--;
	}
	pthread_mutex_unlock(&ctx->lock);
	return m ? 0 : hca_errno(EINVAL);
}
