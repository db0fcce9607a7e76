/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer-left: rank 1 has destroyed its end of two connections, a reliable one and an unreliable one. To rank 0's ends nothing
 * happens by that: they have their receives, and are in RTS. A send over the reliable one fails when its retries have run out,
 * and flushes what it has; over the unreliable one it is lost. After a reset each is connected anew, and works.
 */
#include <string.h>

#include "pair.h"

#define SIZE 512
#define RECEIVES 3

const char *const program_name = "peer-left";
const char *const program_modes[] = { "plain", NULL };

/* Retries that run out soon: 67 ms, twice. */
static const struct qp_timing brief = { .timeout = 14, .retry_cnt = 1, .rnr_retry = 7, .min_rnr_timer = 12 };

static void create(struct pair *pair, struct link *link, struct ibv_cq *cq, const struct area *area, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .cap = { 4, RECEIVES + 1, 1, 1, 0 }, .qp_type = type,
	};

	link->qp = ibv_create_qp(pair->endpoint.pd, &init);
	if (!link->qp)
		die(errno, "ibv_create_qp");
	link->cap = init.cap;
	link->lkey = area->mr->lkey;
}

static void connect(struct pair *pair, struct link *link)
{
	int access = link->qp->qp_type == IBV_QPT_RC ? ACCESS_ALL : IBV_ACCESS_LOCAL_WRITE;

	qp_initialize(&pair->endpoint, link->qp, access, &link->own);
	pair_exchange(pair, "the peer's queue pair", &link->own, &link->peer, sizeof(link->own));
	qp_connect(&pair->endpoint, link->qp, &link->own, &link->peer, &brief);
}

/* Both ends send a message and get the peer's. */
static void use(struct pair *pair, struct link *link, struct area *area, struct ibv_cq *cq, int number)
{
	unsigned char *memory = area->memory;
	int left = 2;

	memset(memory + SIZE, POISON, SIZE);
	pattern_fill(memory, SIZE, number * 2 + pair->rank, 0);
	link_receive(link, 1, memory + SIZE, SIZE);
	pair_sync(pair, "the peer's receive");
	link_post(link, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, memory, SIZE, 0);
	for (; left; left--) {
		struct ibv_wc wc;

		await_next_completion(cq, &wc, "a completion of an exchange");
		if (wc.status != IBV_WC_SUCCESS || wc.wr_id < 1 || wc.wr_id > 2)
			die(0, "exchange %d: request %lu, status '%s'", number, wc.wr_id, ibv_wc_status_str(wc.status));
	}
	if (!pattern_matches(memory + SIZE, SIZE, number * 2 + !pair->rank, 0))
		die(0, "exchange %d: the message is damaged", number);
	pair_sync(pair, "the peer's message");
}

static void expect(struct link *link, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	int err = ibv_query_qp(link->qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN, &init);

	if (err)
		die(err, "ibv_query_qp");
	if (attr.qp_state != state)
		die(0, "a queue pair whose peer has left is in state %d, not %d", attr.qp_state, state);
	if (state == IBV_QPS_RTS && attr.dest_qp_num != link->peer.qp_num)
		die(0, "its destination is queue pair %#x, not %#x", attr.dest_qp_num, link->peer.qp_num);
}

static void await(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	await_next_completion(cq, &wc, "a completion after the peer has left");
	if (wc.wr_id != wr_id || wc.status != status)
		die(0, "request %lu, status '%s'; expected %lu, '%s'", wc.wr_id, ibv_wc_status_str(wc.status), wr_id,
		    ibv_wc_status_str(status));
}

static void left_behind(struct link *link, struct area *area, struct ibv_cq *cq)
{
	bool reliable = link->qp->qp_type == IBV_QPT_RC;

	expect(link, IBV_QPS_RTS);
	expect_no_completion(cq, "the peer has left");
	link_receive(link, 10 + RECEIVES, area->memory, SIZE);
	link_post(link, IBV_WR_SEND, 7, IBV_SEND_SIGNALED, area->memory, SIZE, 0);
	await(cq, 7, reliable ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
	if (!reliable) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
		int err = ibv_modify_qp(link->qp, &attr, IBV_QP_STATE);

		if (err)
			die(err, "to ERR");
	}
	for (int i = 0; i <= RECEIVES; i++)
		await(cq, 10 + i, IBV_WC_WR_FLUSH_ERR);
	expect(link, IBV_QPS_ERR);
}

void program_run(struct pair *pair)
{
	enum ibv_qp_type types[2] = { IBV_QPT_RC, IBV_QPT_UC };
	struct link links[2];
	struct ibv_cq *cq[2];
	struct area area;

	area_create(pair, &area, 2 * SIZE, ACCESS_ALL);
	for (int i = 0; i < 2; i++) {
		cq[i] = endpoint_create_cq(&pair->endpoint, 16, NULL);
		create(pair, &links[i], cq[i], &area, types[i]);
		connect(pair, &links[i]);
		use(pair, &links[i], &area, cq[i], i);
		for (int j = 0; pair->rank == 0 && j < RECEIVES; j++)
			link_receive(&links[i], 10 + j, area.memory, SIZE);
		if (pair->rank == 1)
			qp_destroy(links[i].qp);
	}
	pair_ready(pair);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

		if (pair->rank == 0) {
			left_behind(&links[i], &area, cq[i]);
			if (ibv_modify_qp(links[i].qp, &reset, IBV_QP_STATE))
				die(errno, "to RESET");
		} else {
			create(pair, &links[i], cq[i], &area, types[i]);
		}
		connect(pair, &links[i]);
		use(pair, &links[i], &area, cq[i], 2 + i);
		qp_destroy(links[i].qp);
		cq_destroy(cq[i]);
	}
	area_destroy(&area);
}
