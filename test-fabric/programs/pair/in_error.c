/* SPDX-License-Identifier: Apache-2.0 */
/*
 * in-error: queue pairs in the error state beside one that works. After the go file they are in error still, what was posted to
 * them has been flushed, and the one that works does.
 *
 * fallen: one that has been connected and has receives, and one that has got no further than INIT. limits: none of these, but a
 * queue pair with as many RDMA READs and atomics as the device has, and several regions that no peer may reach, whose rkeys
 * some devices give as 0.
 */
#include <string.h>

#include "pair.h"

#define SIZE 512
#define RECEIVES 3
#define REGIONS 3
#define EXCHANGES 10

const char *const program_name = "in-error";
const char *const program_modes[] = { "fallen", "limits", NULL };

static struct ibv_qp *create_qp(struct pair *pair, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .cap = { 4, RECEIVES, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pair->endpoint.pd, &init);

	if (!qp)
		die(errno, "ibv_create_qp");
	return qp;
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const char *what)
{
	int err = ibv_modify_qp(qp, attr, mask);

	if (err)
		die(err, "%s", what);
}

static void fall(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	modify(qp, &attr, IBV_QP_STATE, "to ERR");
}

static void expect_in_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	int err = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);

	if (err)
		die(err, "ibv_query_qp");
	if (attr.qp_state != IBV_QPS_ERR)
		die(0, "a queue pair that was in error is in state %d", attr.qp_state);
}

/* Both ends send a message and read it back from the peer, over the link's queue pair, in memory of the area. */
static void use(struct pair *pair, struct link *link, struct area *area, struct ibv_cq *cq, int number)
{
	unsigned char *memory = area->memory;
	struct ibv_wc wc;

	memset(memory + SIZE, POISON, 2 * SIZE);
	pattern_fill(memory, SIZE, number * 2 + pair->rank, 0);
	link_receive(link, 1, memory + SIZE, SIZE);
	pair_sync(pair, "the peer's receive");
	link_post(link, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, memory, SIZE, 0);
	for (int left = 2; left; left--) {
		await_next_completion(cq, &wc, "a completion of an exchange");
		if (wc.status != IBV_WC_SUCCESS || wc.wr_id < 1 || wc.wr_id > 2)
			die(0, "exchange %d: request %lu, status '%s'", number, wc.wr_id, ibv_wc_status_str(wc.status));
	}
	link_post(link, IBV_WR_RDMA_READ, 3, IBV_SEND_SIGNALED, memory + 2 * SIZE, SIZE, 0);
	await_completion(cq, 3, &wc, "a read");
	if (!pattern_matches(memory + SIZE, SIZE, number * 2 + !pair->rank, 0) || memcmp(memory + SIZE, memory + 2 * SIZE, SIZE))
		die(0, "exchange %d: the message or what was read is damaged", number);
	pair_sync(pair, "the peer's read");
}

static void flushed(struct pair *pair, struct area *area, struct ibv_cq *cq)
{
	struct link_wishes wishes = { .send_cq = cq, .receive_cq = cq, .max_send = 4, .max_receive = RECEIVES, .access = ACCESS_ALL };
	struct ibv_cq *own = endpoint_create_cq(&pair->endpoint, 16, NULL);
	struct ibv_qp *begun = create_qp(pair, own);
	struct link works, fallen;
	struct qp_address unused;
	struct ibv_wc wc;

	link_create(pair, &works, &wishes, area);
	wishes.send_cq = wishes.receive_cq = own;
	link_create(pair, &fallen, &wishes, area);
	for (int i = 0; i < RECEIVES; i++)
		link_receive(&fallen, 10 + i, area->memory, SIZE);
	use(pair, &works, area, cq, 0);
	qp_initialize(&pair->endpoint, begun, 0, &unused);
	fall(begun);
	fall(fallen.qp);
	pair_ready(pair);
	expect_in_error(begun);
	expect_in_error(fallen.qp);
	for (int i = 0; i < RECEIVES; i++) {
		await_next_completion(own, &wc, "a flushed receive");
		if (wc.wr_id != 10u + i || wc.status != IBV_WC_WR_FLUSH_ERR || wc.qp_num != fallen.own.qp_num)
			die(0, "receive %d: request %lu, status '%s'", i, wc.wr_id, ibv_wc_status_str(wc.status));
	}
	for (int i = 1; i <= EXCHANGES; i++)
		use(pair, &works, area, cq, i);
	/* By way of RESET one that was in error is as good as new. */
	modify(begun, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, IBV_QP_STATE, "to RESET");
	qp_initialize(&pair->endpoint, begun, 0, &unused);
	qp_destroy(begun);
	link_destroy(&fallen);
	link_destroy(&works);
	cq_destroy(own);
}

/* As many reads under way as the device has, in both directions. */
static void connect_deeply(struct pair *pair, struct link *link, const struct area *area, struct ibv_cq *cq)
{
	struct endpoint *endpoint = &pair->endpoint;
	struct ibv_device_attr device;
	struct { uint64_t address; uint32_t rkey; } own = { (uintptr_t)area->memory, area->mr->rkey }, peer;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int err = ibv_query_device(endpoint->context, &device);

	if (err)
		die(err, "ibv_query_device");
	link->qp = create_qp(pair, cq);
	link->cap = (struct ibv_qp_cap){ 4, RECEIVES, 1, 1, 0 };
	link->lkey = area->mr->lkey;
	qp_initialize(endpoint, link->qp, ACCESS_ALL, &link->own);
	pair_exchange(pair, "the peer's queue pair", &link->own, &link->peer, sizeof(link->own));
	pair_exchange(pair, "the peer's memory", &own, &peer, sizeof(own));
	link->remote = peer.address;
	link->rkey = peer.rkey;
	attr.path_mtu = link->peer.mtu;
	attr.dest_qp_num = link->peer.qp_num;
	attr.rq_psn = link->peer.psn;
	attr.min_rnr_timer = 12;
	attr.max_dest_rd_atomic = device.max_qp_rd_atom;
	attr.ah_attr = (struct ibv_ah_attr){
		.dlid = link->peer.lid, .port_num = endpoint->port_num, .is_global = endpoint->with_gid,
		.grh = { .dgid = link->peer.gid, .sgid_index = endpoint->with_gid ? endpoint->gid_index : 0, .hop_limit = 64 },
	};
	modify(link->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, "to RTR with the device's max_qp_rd_atom");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .sq_psn = link->own.psn, .timeout = qp_patient.timeout, .retry_cnt = qp_patient.retry_cnt,
		.rnr_retry = 7, .max_rd_atomic = device.max_qp_init_rd_atom,
	};
	modify(link->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	       IBV_QP_MAX_QP_RD_ATOMIC, "to RTS with the device's max_qp_init_rd_atom");
}

static void at_the_limits(struct pair *pair, struct area *area, struct ibv_cq *cq)
{
	static unsigned char memory[REGIONS][SIZE];
	struct ibv_mr *local[REGIONS];
	struct link deep;

	for (int i = 0; i < REGIONS; i++)
		local[i] = endpoint_register(&pair->endpoint, memory[i], SIZE, ACCESS_NOTHING_REMOTE);
	connect_deeply(pair, &deep, area, cq);
	use(pair, &deep, area, cq, 0);
	pair_ready(pair);
	for (int i = 1; i <= EXCHANGES; i++)
		use(pair, &deep, area, cq, i);
	for (int i = 0; i < REGIONS; i++) {
		struct ibv_wc wc;

		/* Each is still its own memory. */
		deep.lkey = local[i]->lkey;
		link_post(&deep, IBV_WR_RDMA_READ, 7, IBV_SEND_SIGNALED, memory[i], SIZE, 0);
		await_completion(cq, 7, &wc, "a read into a region that no peer may reach");
		if (!pattern_matches(memory[i], SIZE, EXCHANGES * 2 + !pair->rank, 0))
			die(0, "region %d does not have what was read into it", i);
	}
	pair_sync(pair, "the peer's last read");
	qp_destroy(deep.qp);
	for (int i = 0; i < REGIONS; i++)
		mr_deregister(local[i]);
}

void program_run(struct pair *pair)
{
	struct ibv_cq *cq = endpoint_create_cq(&pair->endpoint, 32, NULL);
	struct area area;

	area_create(pair, &area, 3 * SIZE, ACCESS_ALL);
	if (!strcmp(pair->mode, "limits"))
		at_the_limits(pair, &area, cq);
	else
		flushed(pair, &area, cq);
	area_destroy(&area);
	cq_destroy(cq);
}
