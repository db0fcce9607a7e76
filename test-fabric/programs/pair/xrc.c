/*
 * xrc: requests of XRC that name two shared receive queues of the peer. A WRITE and a FETCH_ADD have taken effect, but
 * nobody has told the sender, as the SEND behind them waits for a receive in the first queue; the one behind that finds one
 * in the second. Whoever runs WRITE or FETCH_ADD again, or loses or mixes up the SENDs, is found out.
 */
#include <fcntl.h>
#include <string.h>

#include "pair.h"

#define QUEUES 2
#define SIZE 1000
#define WRITTEN 0		/* offsets in the receiver's area */
#define COUNTER 64
#define MESSAGES 128
#define AREA (MESSAGES + 4 * SIZE)
#define ADD 5
#define START 1000
#define ROUNDS 50
#define RECEIVER_SAW 0x5eeULL

const char *const program_name = "xrc";
const char *const program_modes[] = { "blocked", NULL };

enum { ID_WRITE = 1, ID_ADD, ID_FIRST, ID_SECOND };

/* What the sender has to know. */
struct card {
	struct qp_address qp;
	uint64_t memory;
	uint32_t rkey;
	uint32_t srqs[QUEUES];
};

static void post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct area *area, void *local, uint32_t length, uint32_t srq)
{
	struct ibv_sge sge = { (uintptr_t)local, length, area->mr->lkey };
	struct ibv_send_wr *bad;
	int err;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->qp_type.xrc.remote_srqn = srq;
	err = ibv_post_send(qp, wr, &bad);
	if (err)
		die(err, "ibv_post_send of request %lu", wr->wr_id);
}

static void post_send(struct ibv_qp *qp, uint64_t wr_id, int flags, struct area *area, void *local, uint32_t srq)
{
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = IBV_WR_SEND, .send_flags = flags };

	post(qp, &wr, area, local, SIZE, srq);
}

static void send(struct pair *pair, struct area *area)
{
	unsigned char *first = area->memory + MESSAGES, *second = first + SIZE;
	uint64_t *value = (uint64_t *)area->memory, *old = value + 8;
	struct ibv_cq *cq = endpoint_create_cq(&pair->endpoint, 16, NULL);
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.cap = { .max_send_wr = 8, .max_send_sge = 1 },
		.qp_type = IBV_QPT_XRC_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp(pair->endpoint.pd, &init);
	struct card mine = { 0 }, theirs;
	struct ibv_wc wc;

	if (!qp)
		die(errno, "ibv_create_qp of XRC");
	qp_initialize(&pair->endpoint, qp, ACCESS_NOTHING_REMOTE, &mine.qp);
	pair_exchange(pair, "cards", &mine, &theirs, sizeof(mine));
	qp_connect(&pair->endpoint, qp, &mine.qp, &theirs.qp, &qp_patient);
	pair_sync(pair, "the connection");
	*value = 7;
	pattern_fill(first, SIZE, 1, 0);
	pattern_fill(second, SIZE, 2, 0);
	{
		struct ibv_send_wr write = {
			.wr_id = ID_WRITE, .opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = { .remote_addr = theirs.memory + WRITTEN, .rkey = theirs.rkey },
		};
		struct ibv_send_wr add = {
			.wr_id = ID_ADD, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
			.wr.atomic = { .remote_addr = theirs.memory + COUNTER, .compare_add = ADD, .rkey = theirs.rkey },
		};

		post(qp, &write, area, value, 8, theirs.srqs[0]);
		post(qp, &add, area, old, 8, theirs.srqs[0]);
	}
	post_send(qp, ID_FIRST, pair->signaled ? IBV_SEND_SIGNALED : 0, area, first, theirs.srqs[0]);
	post_send(qp, ID_SECOND, IBV_SEND_SIGNALED, area, second, theirs.srqs[1]);
	pair_ready(pair);
	if (pair->signaled)
		await_completion(cq, ID_FIRST, &wc, "the SEND that waited for a receive");
	await_completion(cq, ID_SECOND, &wc, "the SEND to the other queue");
	if (*old != START)
		die(0, "FETCH_ADD returned %lu instead of %d", *old, START);
	for (int i = 0; i < ROUNDS; i++) {
		pair_sync(pair, "the receives of a round");
		pattern_fill(first, SIZE, 10 + i, 0);
		post_send(qp, i, IBV_SEND_SIGNALED, area, first, theirs.srqs[i % QUEUES]);
		await_completion(cq, i, &wc, "a SEND after the restart");
	}
	pair_sync(pair, "the receiver's check");
	expect_no_completion(cq, "after all");
	qp_destroy(qp);
	cq_destroy(cq);
}

static struct ibv_srq *create_srq(struct pair *pair, struct ibv_xrcd *xrcd, struct ibv_cq *cq, uint32_t *number)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 4, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pair->endpoint.pd,
		.xrcd = xrcd,
		.cq = cq,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(pair->endpoint.context, &init);

	if (!srq || ibv_get_srq_num(srq, number))
		die(errno, "ibv_create_srq_ex of XRC");
	return srq;
}

static void post_receive(struct ibv_srq *srq, uint64_t wr_id, struct area *area, void *local)
{
	struct ibv_sge sge = { (uintptr_t)local, SIZE, area->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;
	int err = ibv_post_srq_recv(srq, &wr, &bad);

	if (err)
		die(err, "ibv_post_srq_recv");
}

static void expect_message(struct ibv_cq *cq, uint64_t wr_id, const struct ibv_qp *qp, const struct card *sender,
			   const void *local, uint64_t seed)
{
	struct ibv_wc wc;

	await_completion(cq, wr_id, &wc, "a message");
	if (wc.byte_len != SIZE || wc.qp_num != qp->qp_num || wc.src_qp != sender->qp.qp_num)
		die(0, "message %lu: %u bytes of %#x for %#x instead of %d of %#x for %#x", wr_id, wc.byte_len, wc.src_qp,
		    wc.qp_num, SIZE, sender->qp.qp_num, qp->qp_num);
	if (!pattern_matches(local, SIZE, seed, 0))
		die(0, "message %lu is damaged", wr_id);
}

static void receive(struct pair *pair, struct area *area)
{
	unsigned char *first = area->memory + MESSAGES, *second = first + SIZE;
	struct ibv_xrcd_init_attr of_nobody = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT,
	};
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct card mine = { .memory = (uintptr_t)area->memory, .rkey = area->mr->rkey }, theirs;
	struct ibv_srq *srqs[QUEUES];
	struct ibv_cq *cqs[QUEUES];
	uint32_t number;

	init.xrcd = ibv_open_xrcd(pair->endpoint.context, &of_nobody);
	if (!init.xrcd)
		die(errno, "ibv_open_xrcd");
	for (int i = 0; i < QUEUES; i++) {
		cqs[i] = endpoint_create_cq(&pair->endpoint, 16, NULL);
		srqs[i] = create_srq(pair, init.xrcd, cqs[i], &mine.srqs[i]);
	}
	struct ibv_qp *qp = ibv_create_qp_ex(pair->endpoint.context, &init);

	if (!qp)
		die(errno, "ibv_create_qp_ex of XRC");
	qp_initialize(&pair->endpoint, qp, ACCESS_ALL, &mine.qp);
	store_word(area->memory + COUNTER, START);
	post_receive(srqs[1], 2, area, second);
	pair_exchange(pair, "cards", &mine, &theirs, sizeof(mine));
	qp_connect(&pair->endpoint, qp, &mine.qp, &theirs.qp, &qp_patient);
	pair_sync(pair, "the connection");
	/* The adder is behind the writer: with the sum there the WRITE is done, and its place may be used again. */
	await_word(area->memory + COUNTER, START + ADD, "the FETCH_ADD to take effect");
	if (load_word(area->memory + WRITTEN) != 7)
		die(0, "the WRITE before the FETCH_ADD has not taken effect");
	store_word(area->memory + WRITTEN, RECEIVER_SAW);
	pair_ready(pair);
	for (int i = 0; i < QUEUES; i++)
		if (ibv_get_srq_num(srqs[i], &number) || number != mine.srqs[i])
			die(0, "the number of a queue is %#x instead of %#x", number, mine.srqs[i]);
	post_receive(srqs[0], 1, area, first);
	expect_message(cqs[0], 1, qp, &theirs, first, 1);
	expect_message(cqs[1], 2, qp, &theirs, second, 2);
	for (int i = 0; i < ROUNDS; i++) {
		post_receive(srqs[i % QUEUES], i, area, first);
		pair_sync(pair, "the receives of a round");
		expect_message(cqs[i % QUEUES], i, qp, &theirs, first, 10 + i);
	}
	if (load_word(area->memory + COUNTER) != START + ADD)
		die(0, "the counter is %lu instead of %d", load_word(area->memory + COUNTER), START + ADD);
	if (load_word(area->memory + WRITTEN) != RECEIVER_SAW)
		die(0, "the WRITE has taken effect twice");
	pair_sync(pair, "the receiver's check");
	qp_destroy(qp);
	for (int i = 0; i < QUEUES; i++) {
		expect_no_completion(cqs[i], "after all");
		if (ibv_destroy_srq(srqs[i]))
			die(errno, "ibv_destroy_srq");
		cq_destroy(cqs[i]);
	}
	if (ibv_close_xrcd(init.xrcd))
		die(errno, "ibv_close_xrcd");
}

void program_run(struct pair *pair)
{
	struct area area;

	area_create(pair, &area, AREA, ACCESS_ALL);
	if (pair->rank == 0)
		send(pair, &area);
	else
		receive(pair, &area);
	area_destroy(&area);
}
