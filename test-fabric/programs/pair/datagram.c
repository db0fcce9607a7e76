/*
 * datagram: datagrams with a global route, to a queue pair with a shared receive queue that has grown and to a multicast
 * group, answered by address handles made of their completions; before READY and after it, by handles of before and by new
 * ones. The route header's GIDs are looked at each time. In the modes group and unicast what the route has besides GIDs is not looked at, for devices without; in mode unicast there
 * is no group.
 */
#include <string.h>

#include "../common/route.h"
#include "pair.h"

#define HEADER ROUTE_SIZE
#define SIZE 200
#define SLOT (HEADER + SIZE)
#define SLOTS 4
#define QKEY 0x1234567
#define MULTICAST_LID 0xc007

const char *const program_name = "datagram";
const char *const program_modes[] = { "plain", "group", "unicast", NULL };

static const union ibv_gid group = { .raw = { 0xff, 0x0e, [14] = 0x12, 0x34 } };

struct card {
	union ibv_gid gid;
	uint32_t qp_num;
	uint16_t lid;
};

struct station {
	struct pair *pair;
	struct area area;		/* SLOTS to receive, one to send */
	/* Of their own: between a datagram sent and the answer to it nothing says which is completed first. */
	struct ibv_cq *send_cq, *cq;
	struct ibv_srq *srq;		/* of rank 1 */
	struct ibv_qp *qp;
	struct card own, peer;
	uint64_t sent;
	bool multicast, route;
};

static void to_state(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask)
{
	int err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask);

	if (err)
		die(err, "ibv_modify_qp to state %d", attr.qp_state);
}

static unsigned char *slot(struct station *s, uint64_t number)
{
	return s->area.memory + number * SLOT;
}

static void post_receive(struct station *s, uint64_t number)
{
	struct ibv_sge sge = { (uintptr_t)slot(s, number), SLOT, s->area.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1 }, *bad;
	int err = s->srq ? ibv_post_srq_recv(s->srq, &wr, &bad) : ibv_post_recv(s->qp, &wr, &bad);

	if (err)
		die(err, "posting a receive");
}

static void set_up(struct station *s)
{
	struct endpoint *e = &s->pair->endpoint;
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = SLOTS / 2, .max_sge = 1 } };
	struct ibv_srq_attr more = { .max_wr = SLOTS };
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = 4, .max_recv_wr = SLOTS, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UD,
	};

	area_create(s->pair, &s->area, (SLOTS + 1) * SLOT, ACCESS_NOTHING_REMOTE);
	s->send_cq = endpoint_create_cq(e, 16, NULL);
	s->cq = endpoint_create_cq(e, 16, NULL);
	if (s->pair->rank) {
		s->srq = ibv_create_srq(e->pd, &shared);
		if (!s->srq)
			die(errno, "ibv_create_srq");
		if (ibv_modify_srq(s->srq, &more, IBV_SRQ_MAX_WR))
			die(errno, "ibv_modify_srq");
	}
	init.send_cq = s->send_cq;
	init.recv_cq = s->cq;
	init.srq = s->srq;
	s->qp = ibv_create_qp(e->pd, &init);
	if (!s->qp)
		die(errno, "ibv_create_qp of datagrams");
	to_state(s->qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = e->port_num, .qkey = QKEY },
		 IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	for (int i = 0; i < SLOTS; i++)
		post_receive(s, i);
	to_state(s->qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR }, 0);
	to_state(s->qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS }, IBV_QP_SQ_PSN);
	if (ibv_query_gid(e->context, e->port_num, 0, &s->own.gid))
		die(errno, "ibv_query_gid");
	s->own.qp_num = s->qp->qp_num;
	s->own.lid = e->port.lid;
	pair_exchange(s->pair, "cards", &s->own, &s->peer, sizeof(s->own));
}

static struct ibv_ah *create_ah(struct station *s, const union ibv_gid *gid, uint16_t lid)
{
	struct ibv_ah_attr attr = {
		.dlid = lid,
		.port_num = s->pair->endpoint.port_num,
		.is_global = 1,
		.grh = { .dgid = *gid, .hop_limit = 5, .traffic_class = 3, .flow_label = 0x54321 },
	};
	struct ibv_ah *ah = ibv_create_ah(s->pair->endpoint.pd, &attr);

	if (!ah)
		die(errno, "ibv_create_ah");
	return ah;
}

static void send_to(struct station *s, struct ibv_ah *ah, uint32_t qp_num, uint64_t seed)
{
	unsigned char *message = slot(s, SLOTS);
	struct ibv_sge sge = { (uintptr_t)message, SIZE, s->area.mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 100 + s->sent++,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { ah, qp_num, QKEY },
	}, *bad;
	struct ibv_wc wc;
	int err;

	pattern_fill(message, SIZE, seed, 0);
	err = ibv_post_send(s->qp, &wr, &bad);
	if (err)
		die(err, "ibv_post_send of a datagram");
	await_completion(s->send_cq, wr.wr_id, &wc, "a datagram to be sent");
}

/* The next datagram, in receive `number`, is the peer's of that seed; the GIDs in front of it are those of the beginning. */
static void expect_datagram(struct station *s, uint64_t number, uint64_t seed, bool to_all, struct ibv_wc *wc)
{
	await_completion(s->cq, number, wc, "a datagram");
	if (!(wc->wc_flags & IBV_WC_GRH) || wc->byte_len != SLOT || wc->src_qp != s->peer.qp_num ||
	    wc->qp_num != s->own.qp_num || wc->slid != s->peer.lid)
		die(0, "datagram %lu: %u bytes, flags %#x, of %#x at lid %#x for %#x", seed, wc->byte_len, wc->wc_flags,
		    wc->src_qp, wc->slid, wc->qp_num);
	if (!pattern_matches(slot(s, number) + HEADER, SIZE, seed, 0))
		die(0, "datagram %lu is damaged", seed);
	if (!route_says(slot(s, number), &s->peer.gid, to_all && s->multicast ? &group : &s->own.gid))
		die(0, "datagram %lu has a route header with other GIDs", seed);
}

static struct ibv_ah *ah_of(struct station *s, uint64_t number, struct ibv_wc *wc)
{
	struct ibv_grh *grh = (struct ibv_grh *)slot(s, number);
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;

	if (ibv_init_ah_from_wc(s->pair->endpoint.context, s->pair->endpoint.port_num, wc, grh, &attr))
		die(errno, "ibv_init_ah_from_wc");
	if (memcmp(&attr.grh.dgid, &s->peer.gid, sizeof(attr.grh.dgid)) || attr.dlid != s->peer.lid || !attr.is_global ||
	    attr.grh.sgid_index)
		die(0, "the way back is to another: lid %#x, GID index %d", attr.dlid, attr.grh.sgid_index);
	if (s->route && (attr.grh.flow_label != 0x54321 || attr.grh.traffic_class != 3 || attr.grh.hop_limit != 5))
		die(0, "the way back is another: flow label %#x", attr.grh.flow_label);
	ah = ibv_create_ah_from_wc(s->pair->endpoint.pd, wc, grh, s->pair->endpoint.port_num);
	if (!ah)
		die(errno, "ibv_create_ah_from_wc");
	return ah;
}

/* To all, which is a group of one, or to the one. */
static void send_to_all(struct station *s, struct ibv_ah *all, struct ibv_ah *one, uint64_t seed)
{
	send_to(s, s->multicast ? all : one, s->multicast ? 0xffffff : s->peer.qp_num, seed);
}

static void run_asker(struct station *s)
{
	struct ibv_ah *ah = create_ah(s, &s->peer.gid, s->peer.lid);
	struct ibv_ah *all = s->multicast ? create_ah(s, &group, MULTICAST_LID) : NULL;
	struct ibv_wc wc;

	pair_sync(s->pair, "the group");
	send_to(s, ah, s->peer.qp_num, 1);
	expect_datagram(s, 0, 2, false, &wc);
	send_to_all(s, all, ah, 3);
	pair_ready(s->pair);
	/* Answered by the handle of before, then by one made of it. */
	send_to(s, ah, s->peer.qp_num, 4);
	expect_datagram(s, 1, 5, false, &wc);
	expect_datagram(s, 2, 6, false, &wc);
	send_to_all(s, all, ah, 7);
	pair_sync(s->pair, "the group's end");
	if (all)
		send_to(s, all, 0xffffff, 8);
	ah_destroy(ah);
	ah = create_ah(s, &s->peer.gid, s->peer.lid);
	send_to(s, ah, s->peer.qp_num, 9);
	pair_sync(s->pair, "the peer's check");
	ah_destroy(ah);
	if (all)
		ah_destroy(all);
}

static void change_membership(struct station *s, int (*change)(struct ibv_qp *, const union ibv_gid *, uint16_t),
			      const char *what)
{
	int err = s->multicast ? change(s->qp, &group, MULTICAST_LID) : 0;

	if (err)
		die(err, "%s", what);
}

static void run_answerer(struct station *s)
{
	struct ibv_ah *before, *fresh;
	struct ibv_wc wc;

	change_membership(s, ibv_attach_mcast, "ibv_attach_mcast");
	pair_sync(s->pair, "the group");
	expect_datagram(s, 0, 1, false, &wc);
	before = ah_of(s, 0, &wc);
	send_to(s, before, wc.src_qp, 2);
	expect_datagram(s, 1, 3, true, &wc);
	pair_ready(s->pair);
	post_receive(s, 0);
	expect_datagram(s, 2, 4, false, &wc);
	send_to(s, before, wc.src_qp, 5);
	fresh = ah_of(s, 2, &wc);
	send_to(s, fresh, wc.src_qp, 6);
	expect_datagram(s, 3, 7, true, &wc);
	change_membership(s, ibv_detach_mcast, "ibv_detach_mcast");
	pair_sync(s->pair, "the group's end");
	expect_datagram(s, 0, 9, false, &wc);
	pair_sync(s->pair, "the peer's check");
	ah_destroy(before);
	ah_destroy(fresh);
}

void program_run(struct pair *pair)
{
	struct station s = {
		.pair = pair,
		.multicast = strcmp(pair->mode, "unicast"),
		.route = !strcmp(pair->mode, "plain"),
	};

	set_up(&s);
	if (pair->rank == 0)
		run_asker(&s);
	else
		run_answerer(&s);
	expect_no_completion(s.cq, "after all");
	expect_no_completion(s.send_cq, "after all");
	qp_destroy(s.qp);
	if (s.srq)
		srq_destroy(s.srq);
	cq_destroy(s.cq);
	cq_destroy(s.send_cq);
	area_destroy(&s.area);
}
