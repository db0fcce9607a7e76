/*
 * Executes sends of UD queue pairs: to one QP, or to all that listen to a multicast group. Whoever cannot take a
 * datagram does not get it, and nobody is told.
 */
#include <netinet/in.h>
#include <netinet/ip.h>

#include "request.h"

struct datagram {
	struct request *req;
	struct ibv_grh grh;
};

/* IBTA volume 1, annex A17 (RoCE v2): an IPv4 header fills the last twenty bytes, those before it mean nothing. */
static void ipv4_fill(struct datagram *dg)
{
	const struct ibv_ah_attr *av = &dg->req->wqe->ud.av;
	struct iphdr *ip = (struct iphdr *)((char *)&dg->grh + sizeof(dg->grh) - sizeof(*ip));

	*ip = (struct iphdr){
		.version = 4, .ihl = 5, .tos = av->grh.traffic_class, .ttl = av->grh.hop_limit, .protocol = IPPROTO_UDP,
		.tot_len = htobe16(sizeof(*ip) + 8 + 20 + ((dg->req->length + 3) & ~3ULL) + 4),
	};
	memcpy(&ip->saddr, dg->req->ctx->seg->port[av->port_num - 1].gid[av->grh.sgid_index].raw + 12, 4);
	memcpy(&ip->daddr, av->grh.dgid.raw + 12, 4);
	ip->check = ipv4_checksum(ip);
}

/* IBTA volume 1, 8.3. Without a route the forty bytes mean nothing, so they hold garbage. */
static void grh_fill(struct datagram *dg)
{
	const struct ibv_ah_attr *av = &dg->req->wqe->ud.av;

	memset(&dg->grh, 0xa5, sizeof(dg->grh));
	if (!av->is_global)
		return;
	if (gid_is_ipv4(&av->grh.dgid)) {
		ipv4_fill(dg);
		return;
	}
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

		if (seg_load(&m->valid) && (seg->ethernet || m->lid == av->dlid) && !memcmp(&m->gid, &av->grh.dgid, sizeof(m->gid)))
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
	struct hca_context *ctx = context_of(qp->qp.context);
	uint32_t lid = av_lid(ctx->seg, &wqe->ud.av);
	struct destination found;

	if (qp->remote && seg_has_lid(qp->peer->seg, lid) && qp->remote->qp_num == wqe->ud.qpn &&
	    seg_alive(qp->peer->seg) && seg_load(&qp->remote->gen) == qp->remote_gen)
		return true;
	qp->remote = NULL;
	if (!fabric_find(ctx, lid, wqe->ud.qpn, false, &found))
		return false;
	qp->peer = found.peer;
	qp->remote = found.qp;
	qp->remote_index = found.index;
	qp->remote_gen = found.gen;
	return true;
}

static int transmit(struct request *req)
{
	const struct ibv_ah_attr *av = &req->wqe->ud.av;
	struct hca_qp *qp = req->qp;
	struct datagram dg = { .req = req };
	int status = IBV_WC_SUCCESS;

	grh_fill(&dg);
	if (av_is_multicast(req->ctx->seg, av)) {
		fabric_each(req->ctx, multicast_in, &dg);
	} else if (find_destination(qp, req->wqe) && !seg_load(&qp->peer->seg->fatal) &&
		   (!av->is_global || gid_is_of(qp->peer->seg, qp->remote->port, &av->grh.dgid))) {
		status = deliver_to(&dg, qp->peer->seg, qp->remote_index, qp->remote_gen);
	}
	return status == IBV_WC_LOC_PROT_ERR ? status : IBV_WC_SUCCESS;
}

/*
 * Datagrams may overtake each other: one of several that go out in a row is kept, with its payload, until after the next.
 * sq.lock held.
 */
static bool hold(struct request *req)
{
	struct hca_sq *sq = &req->qp->sq;
	uint64_t left = req->length;
	char *to;
	int i;

	if (sq->holds || sq->prod - sq->head < 2 || !personality_whim(req->ctx, &sq->dice, 3))
		return false;
	if (!sq->held)
		sq->held = malloc(sizeof(*sq->held) + HCA_MTU);
	if (!sq->held)
		return false;
	*sq->held = *req->wqe;
	to = (char *)sq->held->sge;
	for (i = 0; i < req->nlocal && left; i++) {
		uint64_t part = req->local[i].iov_len < left ? req->local[i].iov_len : left;

		if (copy_from_own(to, &req->local[i], 1, part))
			return false;
		to += part;
		left -= part;
	}
	sq->held->flags |= IBV_SEND_INLINE;
	sq->held->inline_len = req->length;
	sq->holds = true;
	return true;
}

void datagram_flush(struct request *req)
{
	struct hca_sq *sq = &req->qp->sq;
	struct request late = *req;

	sq->holds = false;
	late.wqe = sq->held;
	late.local[0].iov_base = sq->held->sge;
	late.local[0].iov_len = sq->held->inline_len;
	late.nlocal = 1;
	late.length = sq->held->inline_len;
	transmit(&late);
}

int datagram_execute(struct request *req)
{
	int status;

	if (req->length > HCA_MTU)
		return IBV_WC_LOC_LEN_ERR;
	req->qp->sq.psn = (req->qp->sq.psn + 1) & 0xffffff;
	if (hold(req))
		return IBV_WC_SUCCESS;
	status = transmit(req);
	if (req->qp->sq.holds)
		datagram_flush(req);
	return status;
}
