/*
 * unreliable: both ranks send numbered messages all the time, over transports that may lose some. What arrives must be
 * whole, in order, no message twice, from the right queue pair; and messages must go on arriving.
 *
 * uc, ud.
 * uc-paced: rank 0 alone sends, some messages at a time with rests between. All receives for them are there: nothing may be
 * lost, as long as the network loses nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pair.h"

#define SENDS 16
#define RECEIVES 64
#define SIZE 512
#define GRH 40
#define STRIDE (GRH + SIZE)
#define QKEY 0x11223344
#define MESSAGES 2000		/* before READY, and after the go file */
#define REST_US 100
#define PACED 8192		/* messages, and receives for them */
#define AT_ONCE 3
#define PACE_US 10000
#define LONG_REST_US 20000	/* while others of the job start, which need the processors */

const char *const program_name = "unreliable";
const char *const program_modes[] = { "uc", "ud", "uc-paced", NULL };

struct head {
	uint64_t number;
	uint64_t check;
};

struct stream {
	struct pair *pair;
	struct area area;		/* send buffers, then receive buffers */
	struct ibv_cq *send_cq, *receive_cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;		/* of UD */
	struct qp_address own, peer;
	uint32_t sends, receives;	/* slots */
	bool complete;			/* no message may be missing */
	uint64_t sent, retired;		/* the next number; those below are completed */
	uint64_t due;			/* the least number that may arrive */
	uint64_t arrived;
};

static uint32_t size_of(uint64_t number)
{
	return sizeof(struct head) + mix64(number) % (SIZE - sizeof(struct head) + 1);
}

static void post_receive(struct stream *stream, uint64_t slot)
{
	struct ibv_sge sge = { (uintptr_t)stream->area.memory + stream->sends * SIZE + slot * STRIDE, STRIDE, stream->area.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;
	int err = ibv_post_recv(stream->qp, &wr, &bad);

	if (err)
		die(err, "ibv_post_recv");
}

static void send_one(struct stream *stream)
{
	uint64_t number = stream->sent++;
	unsigned char *memory = stream->area.memory + number % stream->sends * SIZE;
	struct head head = { number, mix64_two(number, stream->pair->rank) };
	struct ibv_sge sge = { (uintptr_t)memory, size_of(number), stream->area.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				  .imm_data = number, .send_flags = IBV_SEND_SIGNALED }, *bad;
	int err;

	memcpy(memory, &head, sizeof(head));
	pattern_fill(memory + sizeof(head), size_of(number) - sizeof(head), head.check, 0);
	if (stream->ah) {
		wr.wr.ud.ah = stream->ah;
		wr.wr.ud.remote_qpn = stream->peer.qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	}
	err = ibv_post_send(stream->qp, &wr, &bad);
	if (err)
		die(err, "ibv_post_send of message %lu", number);
}

static void check_message(struct stream *stream, const struct ibv_wc *wc)
{
	uint32_t before = stream->ah ? GRH : 0, length = wc->byte_len - before;
	const unsigned char *memory = stream->area.memory + stream->sends * SIZE + wc->wr_id * STRIDE + before;
	struct head head;

	if (wc->byte_len < before + sizeof(head) || wc->byte_len > before + SIZE)
		die(0, "a message of %u bytes", wc->byte_len);
	memcpy(&head, memory, sizeof(head));
	if (head.check != mix64_two(head.number, !stream->pair->rank) || length != size_of(head.number) ||
	    wc->imm_data != (uint32_t)head.number ||
	    !pattern_matches(memory + sizeof(head), length - sizeof(head), head.check, 0))
		die(0, "a message of %u bytes is damaged", length);
	if (head.number < stream->due || (stream->complete && head.number != stream->due))
		die(0, "message %lu when %lu was due", head.number, stream->due);
	if (wc->qp_num != stream->own.qp_num || wc->src_qp != stream->peer.qp_num)
		die(0, "message %lu from queue pair %#x to %#x instead of %#x to %#x", head.number, wc->src_qp,
		    wc->qp_num, stream->peer.qp_num, stream->own.qp_num);
	stream->due = head.number + 1;
	stream->arrived++;
}

static void require_good(const struct ibv_wc *wc, const char *what)
{
	if (wc->status != IBV_WC_SUCCESS)
		die(0, "%s %lu: status '%s', vendor error %#x", what, wc->wr_id, ibv_wc_status_str(wc->status),
		    wc->vendor_err);
}

static void retire(struct stream *stream, const struct ibv_wc *wc)
{
	require_good(wc, "send");
	if (wc->wr_id != stream->retired)
		die(0, "completion of send %lu when %lu was due", wc->wr_id, stream->retired);
	stream->retired++;
}

/* Returns whether there was something to do. */
static bool step(struct stream *stream, bool send)
{
	bool moved = false;
	struct ibv_wc wc;

	while (ibv_poll_cq(stream->receive_cq, 1, &wc) > 0) {
		require_good(&wc, "receive");
		check_message(stream, &wc);
		post_receive(stream, wc.wr_id);
		moved = true;
	}
	while (ibv_poll_cq(stream->send_cq, 1, &wc) > 0) {
		retire(stream, &wc);
		moved = true;
	}
	if (send && stream->sent - stream->retired < SENDS) {
		send_one(stream);
		moved = true;
	}
	return moved;
}

/* Sends so many messages, or until the go file is there; then with longer rests. Some of them must get through. */
static void work(struct stream *stream, uint64_t messages)
{
	uint64_t enough = stream->sent + messages;
	unsigned int rest_us = messages ? REST_US : LONG_REST_US;

	while (messages ? stream->sent < enough : !pair_may_go(stream->pair))
		/* Now and then a rest, so that the peer gets to post receives. */
		if (!step(stream, true) || stream->sent % SENDS == 0)
			work_clock_rest(rest_us);
}

static void connect_uc(struct stream *stream)
{
	struct endpoint *endpoint = &stream->pair->endpoint;
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = stream->own.mtu, .dest_qp_num = stream->peer.qp_num,
		.rq_psn = stream->peer.psn,
		.ah_attr = { .dlid = stream->peer.lid, .port_num = endpoint->port_num, .is_global = endpoint->with_gid,
			     .grh = { .dgid = stream->peer.gid, .hop_limit = 64,
				      .sgid_index = endpoint->with_gid ? endpoint->gid_index : 0 } },
	};
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .sq_psn = stream->own.psn };
	int err = ibv_modify_qp(stream->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN);

	if (!err)
		err = ibv_modify_qp(stream->qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN);
	if (err)
		die(err, "ibv_modify_qp");
}

static void connect_ud(struct stream *stream)
{
	struct endpoint *endpoint = &stream->pair->endpoint;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int err = ibv_modify_qp(stream->qp, &attr, IBV_QP_STATE);

	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = stream->own.psn;
	if (!err)
		err = ibv_modify_qp(stream->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	if (err)
		die(err, "ibv_modify_qp");
	stream->ah = endpoint_create_ah(endpoint, &stream->peer.gid, stream->peer.lid, endpoint->with_gid);
}

static void stream_open(struct stream *stream)
{
	struct pair *pair = stream->pair;
	bool ud = !strcmp(pair->mode, "ud");
	struct ibv_qp_init_attr init = {
		.qp_type = ud ? IBV_QPT_UD : IBV_QPT_UC,
		.cap = { .max_send_wr = stream->sends, .max_recv_wr = stream->receives, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = pair->endpoint.port_num, .qkey = QKEY };
	int err;

	area_create(pair, &stream->area, stream->sends * SIZE + stream->receives * STRIDE, ACCESS_NOTHING_REMOTE);
	init.send_cq = stream->send_cq = endpoint_create_cq(&pair->endpoint, stream->sends, NULL);
	init.recv_cq = stream->receive_cq = endpoint_create_cq(&pair->endpoint, stream->receives, NULL);
	stream->qp = ibv_create_qp(pair->endpoint.pd, &init);
	if (!stream->qp)
		die(errno, "ibv_create_qp");
	err = ibv_modify_qp(stream->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	if (err)
		die(err, "ibv_modify_qp to INIT");
	stream->own = (struct qp_address){ .gid = pair->endpoint.gid, .lid = pair->endpoint.port.lid,
					   .qp_num = stream->qp->qp_num, .mtu = pair->endpoint.port.active_mtu,
					   .psn = mix64(pair->rank) & 0xffffff };
	for (uint32_t i = 0; i < stream->receives; i++)
		post_receive(stream, i);
	pair_exchange(pair, "the peer's queue pair", &stream->own, &stream->peer, sizeof(stream->own));
	if (ud)
		connect_ud(stream);
	else
		connect_uc(stream);
	pair_sync(pair, "the peer to be connected");
}

static void stream_close(struct stream *stream)
{
	if (stream->ah)
		ah_destroy(stream->ah);
	qp_destroy(stream->qp);
	cq_destroy(stream->send_cq);
	cq_destroy(stream->receive_cq);
	area_destroy(&stream->area);
}

/* Rank 0 of uc-paced. One poll for many completions, because polls may take long. */
static void send_paced(struct stream *stream)
{
	struct ibv_wc wc[SENDS];
	bool more = true;

	while (more || stream->retired < stream->sent) {
		int got = ibv_poll_cq(stream->send_cq, SENDS, wc);

		for (int i = 0; i < got; i++)
			retire(stream, &wc[i]);
		for (int i = 0; more && i < AT_ONCE && stream->sent < PACED; i++)
			send_one(stream);
		more = more && (stream->sent < SENDS || !pair_may_go(stream->pair));
		work_clock_rest(PACE_US);
	}
}

/* Rank 1. */
static void receive_paced(struct stream *stream)
{
	while (!pair_may_go(stream->pair))
		if (!step(stream, false))
			work_clock_rest(REST_US);
}

static void run_paced(struct pair *pair)
{
	struct stream stream = { .pair = pair, .sends = pair->rank ? 1 : PACED, .receives = pair->rank ? PACED : 1,
				 .complete = true };
	uint64_t sent;

	stream_open(&stream);
	pair_say_ready(pair);
	if (pair->rank)
		receive_paced(&stream);
	else
		send_paced(&stream);
	pair_exchange(pair, "how many there were", &stream.sent, &sent, sizeof(sent));
	while (pair->rank && step(&stream, false))
		;
	if (pair->rank && stream.arrived != sent)
		die(0, "%lu of %lu messages arrived", stream.arrived, sent);
	printf("%s: sent %lu, %lu of the peer's arrived\n", program_name, stream.sent, stream.arrived);
	stream_close(&stream);
}

void program_run(struct pair *pair)
{
	struct stream stream = { .pair = pair, .sends = SENDS, .receives = RECEIVES };
	uint64_t before;

	if (!strcmp(pair->mode, "uc-paced")) {
		run_paced(pair);
		return;
	}
	stream_open(&stream);
	work(&stream, MESSAGES);
	pair_say_ready(pair);
	work(&stream, 0);
	before = stream.arrived;
	work(&stream, MESSAGES);
	/* Whoever is through first lets the rest of the other's messages fill its receives, and then be lost. */
	pair_sync(pair, "the peer to have sent all");
	while (step(&stream, false) || stream.retired < stream.sent)
		;
	if (stream.arrived < before + SENDS)
		die(0, "only %lu of the last messages arrived", stream.arrived - before);
	printf("%s: sent %lu, %lu of the peer's arrived, the last one was number %lu\n", program_name, stream.sent,
	       stream.arrived, stream.due - 1);
	stream_close(&stream);
}
