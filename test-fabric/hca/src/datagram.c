/*
 * Executes sends of UD queue pairs: to one QP, or to all that listen to a multicast group. Whoever cannot take a
 * datagram does not get it, and nobody is told.
 */
#include "request.h"

struct datagram {
	struct request *req;
	struct ibv_grh grh;
};

/* IBTA volume 1, 8.3. Without a route the forty bytes mean nothing, so they hold garbage. */
static void grh_fill(struct datagram *dg)
{
	const struct ibv_ah_attr *av = &dg->req->wqe->ud.av;

	memset(&dg->grh, 0xa5, sizeof(dg->grh));
	if (!av->is_global)
		return;
	dg->grh.version_tclass_flow = htobe32(6u << 28 | (uint32_t)av->grh.traffic_class << 20 |
					      (av->grh.flow_label & 0xfffff));
	/* base and datagram headers, immediate data, payload padded to words, invariant checksum */
	dg->grh.paylen = htobe16(20 + (dg->req->wqe->opcode == IBV_WR_SEND_WITH_IMM ? 4 : 0) +
				 ((dg->req->length + 3) & ~3ULL) + 4);
	dg->grh.next_hdr = 0x1b;
	dg->grh.hop_limit = av->grh.hop_limit;
	dg->grh.sgid = dg->req->ctx->seg->port[av->port_num - 1].gid[av->grh.sgid_index];
	dg->grh.dgid = av->grh.dgid;
}

static int deliver_to(struct datagram *dg, struct seg *seg, uint32_t index, uint32_t gen)
{
	struct request copy = *dg->req;
	int i, status;

	copy.seg = seg;
	copy.remote = &seg->qp[index];
	copy.remote_index = index;
	copy.remote_gen = gen;
	/* The header goes in front of the payload. */
	for (i = copy.nlocal; i > 0; i--)
		copy.local[i] = copy.local[i - 1];
	copy.local[0].iov_base = &dg->grh;
	copy.local[0].iov_len = sizeof(dg->grh);
	copy.nlocal++;
	copy.length += sizeof(dg->grh);
	qp_lock_responder(seg, copy.remote, index);
	status = responder_execute(&copy);
	seg_unlock(&copy.remote->lock);
	return status;
}

static void multicast_in(struct hca_context *ctx, struct seg *seg, void *arg)
{
	struct datagram *dg = arg;
	const struct ibv_ah_attr *av = &dg->req->wqe->ud.av;
	uint32_t i, max = seg_load(&seg->max_mcast);

	(void)ctx;
	for (i = 0; i < max; i++) {
		const struct seg_mcast *m = &seg->mcast[i];

		if (seg_load(&m->valid) && m->lid == av->dlid && !memcmp(&m->gid, &av->grh.dgid, sizeof(m->gid)))
			deliver_to(dg, seg, m->qp_index, m->qp_gen);
	}
}

static bool gid_is_of(const struct seg *seg, uint32_t port, const union ibv_gid *gid)
{
	unsigned int i;

	for (i = 0; i < SEG_GIDS_USED; i++)
		if (!memcmp(&seg_port(seg, port)->gid[i], gid, sizeof(*gid)))
			return true;
	return false;
}

/* The destination of the last datagram is remembered in the QP. */
static bool find_destination(struct hca_qp *qp, const struct hca_send_wqe *wqe)
{
	const struct ibv_ah_attr *av = &wqe->ud.av;

	if (qp->remote && qp->peer->lid == av->dlid && qp->remote->qp_num == wqe->ud.qpn &&
	    seg_alive(qp->peer->seg) && seg_load(&qp->remote->gen) == qp->remote_gen)
		return true;
	qp->remote = NULL;
	qp->peer = fabric_peer(context_of(qp->qp.context), av->dlid);
	if (qp->peer)
		qp->remote = fabric_find_qp(qp->peer->seg, wqe->ud.qpn, &qp->remote_index, &qp->remote_gen);
	return qp->remote;
}

int datagram_execute(struct request *req)
{
	const struct ibv_ah_attr *av = &req->wqe->ud.av;
	struct hca_qp *qp = req->qp;
	struct datagram dg = { .req = req };
	int status = IBV_WC_SUCCESS;

	if (req->length > HCA_MTU)
		return IBV_WC_LOC_LEN_ERR;
	qp->sq.psn = (qp->sq.psn + 1) & 0xffffff;
	grh_fill(&dg);
	if (av->dlid >= LID_MULTICAST) {
		fabric_each(req->ctx, multicast_in, &dg);
	} else if (find_destination(qp, req->wqe) && !seg_load(&qp->peer->seg->fatal) &&
		   (!av->is_global || gid_is_of(qp->peer->seg, qp->remote->port, &av->grh.dgid))) {
		status = deliver_to(&dg, qp->peer->seg, qp->remote_index, qp->remote_gen);
	}
	return status == IBV_WC_LOC_PROT_ERR ? status : IBV_WC_SUCCESS;
}
