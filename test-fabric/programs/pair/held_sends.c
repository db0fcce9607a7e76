/*
 * held-sends: a send queue in SQD. What was begun before has taken effect, in part without a completion; what was posted
 * since is held back until the queue pair is in RTS again. None of it may be lost, run early, or run again; the event that
 * says that the queue is drained comes once. Meanwhile a message of the peer waits for a receive of this queue pair.
 *
 * Modes: all requests signaled; those before SQD not (tail, shared: with a shared receive queue); SQD while the request at
 * the head waits for a receive (begun).
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "pair.h"

#define SIZE 300
#define WRITTEN 0		/* offsets in the target's area */
#define HELD_WORD 8
#define COUNTER 16
#define READABLE 64
#define WORDS_AT 512		/* in the sender's area: what is written, and what the READ and the FETCH_ADDs bring */
#define READ_INTO 1024
#define OLD_VALUES 2048
#define MESSAGES_AT 4096	/* in both */
#define START 50
#define ADD 3
#define RECEIVER_SAW 0x5eeULL
#define LOOK_EVERY_MS 1000

const char *const program_name = "held-sends";
const char *const program_modes[] = { "signaled", "tail", "shared", "begun", NULL };

enum { ID_MESSAGE = 1, ID_HELD_MESSAGE, ID_WRITE = 100, ID_READ, ID_ADD, ID_HELD_WRITE, ID_HELD_ADD, ID_REPLY };

struct held {
	struct pair *pair;
	struct area area;
	struct link link;
	struct ibv_cq *send_cq, *receive_cq;
	struct ibv_srq *srq;
	bool begun;
	int flags;
};

static void change_state(struct held *held, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state, .en_sqd_async_notify = 1 };
	int err = ibv_modify_qp(held->link.qp, &attr,
				IBV_QP_STATE | (state == IBV_QPS_SQD ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0));

	if (err)
		die(err, "ibv_modify_qp to state %d", state);
}

static bool has_event(struct held *held, int milliseconds)
{
	struct pollfd events = { .fd = held->pair->endpoint.context->async_fd, .events = POLLIN };

	return poll(&events, 1, milliseconds) > 0;
}

static void await_drained(struct held *held)
{
	struct ibv_async_event event;
	struct work_clock clock;

	work_clock_start(&clock);
	while (!has_event(held, LOOK_EVERY_MS))
		if (work_clock_read(&clock) > PAIR_DEADLINE_S * NS_PER_S)
			die(0, "waited %d s for the event of the drained send queue", PAIR_DEADLINE_S);
	if (ibv_get_async_event(held->pair->endpoint.context, &event))
		die(errno, "ibv_get_async_event");
	if (event.event_type != IBV_EVENT_SQ_DRAINED || event.element.qp != held->link.qp)
		die(0, "event '%s' in place of the drained send queue's", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
}

static void expect_held(struct held *held)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	if (ibv_query_qp(held->link.qp, &attr, IBV_QP_STATE, &init))
		die(errno, "ibv_query_qp");
	if (attr.qp_state != IBV_QPS_SQD || attr.sq_draining)
		die(0, "state %d, draining %d, instead of SQD and drained", attr.qp_state, attr.sq_draining);
	expect_no_completion(held->send_cq, "of a send queue in SQD");
}

static void post_send(struct held *held, int id, int flags)
{
	unsigned char *message = held->area.memory + MESSAGES_AT + id * 512;

	pattern_fill(message, SIZE, id, 0);
	link_post(&held->link, IBV_WR_SEND, id, flags, message, SIZE, 0);
}

static void receive(struct held *held, int id)
{
	void *memory = held->area.memory + MESSAGES_AT + id * 512;
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 512, .lkey = held->link.lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (!held->srq)
		link_receive(&held->link, id, memory, 512);
	else if (ibv_post_srq_recv(held->srq, &wr, &bad))
		die(errno, "ibv_post_srq_recv");
}

static void await_message(struct held *held, int id)
{
	unsigned char *memory = held->area.memory + MESSAGES_AT + id * 512;
	struct ibv_wc wc;

	await_completion(held->receive_cq, id, &wc, "a message");
	if (wc.byte_len != SIZE || !pattern_matches(memory, SIZE, id, 0) || !is_poison(memory + SIZE, 512 - SIZE))
		die(0, "message %d is damaged, %u bytes", id, wc.byte_len);
}

static void post_before(struct held *held)
{
	unsigned char *memory = held->area.memory;

	link_post(&held->link, IBV_WR_RDMA_READ, ID_READ, held->flags, memory + READ_INTO, SIZE, READABLE);
	link_fetch_add(&held->link, ID_ADD, held->flags, memory + OLD_VALUES, COUNTER, ADD);
	store_word(memory + WORDS_AT, 7);
	link_post(&held->link, IBV_WR_RDMA_WRITE, ID_WRITE, held->flags, memory + WORDS_AT, 8, WRITTEN);
	post_send(held, ID_MESSAGE, held->flags);
	store_word(memory + WORDS_AT + 16, 8);
	if (!held->begun)
		link_post(&held->link, IBV_WR_RDMA_WRITE, ID_WRITE, held->flags, memory + WORDS_AT + 16, 8, WRITTEN);
}

static void await_before(struct held *held)
{
	static const int ids[] = { ID_READ, ID_ADD, ID_WRITE, ID_MESSAGE, ID_WRITE };
	struct ibv_wc wc;

	for (int i = 0; held->flags && i < 5; i++)
		await_completion(held->send_cq, ids[i], &wc, "a request before SQD");
}

static void send(struct held *held)
{
	unsigned char *memory = held->area.memory;
	struct ibv_wc wc;

	post_before(held);
	await_before(held);
	pair_sync(held->pair, "the effect of all before SQD");
	change_state(held, IBV_QPS_SQD);
	if (!held->begun)
		await_drained(held);
	else if (has_event(held, 50))
		die(0, "an event, although the send queue cannot be drained");
	store_word(memory + WORDS_AT + 8, 9);
	link_post(&held->link, IBV_WR_RDMA_WRITE, ID_HELD_WRITE, held->flags, memory + WORDS_AT + 8, 8, HELD_WORD);
	link_fetch_add(&held->link, ID_HELD_ADD, held->flags, memory + OLD_VALUES + 8, COUNTER, ADD);
	post_send(held, ID_HELD_MESSAGE, IBV_SEND_SIGNALED);
	pair_ready(held->pair);
	if (held->begun)
		pair_sync(held->pair, "the target's receive");
	if (held->begun)
		await_drained(held);
	expect_held(held);
	receive(held, ID_REPLY);
	await_message(held, ID_REPLY);
	pair_sync(held->pair, "the target's look at what is held");
	change_state(held, IBV_QPS_RTS);
	for (int i = 0; held->flags && i < 2; i++)
		await_completion(held->send_cq, i ? ID_HELD_ADD : ID_HELD_WRITE, &wc, "a request that was held");
	await_completion(held->send_cq, ID_HELD_MESSAGE, &wc, "the SEND that was held");
	if (load_word(memory + OLD_VALUES) != START || load_word(memory + OLD_VALUES + 8) != START + ADD)
		die(0, "the FETCH_ADDs returned %lu and %lu instead of %d and %d", load_word(memory + OLD_VALUES),
		    load_word(memory + OLD_VALUES + 8), START, START + ADD);
	if (!pattern_matches(memory + READ_INTO, SIZE, 99, 0))
		die(0, "what the READ brought is damaged");
	pair_sync(held->pair, "the target's check");
	expect_no_completion(held->send_cq, "after all");
	expect_no_completion(held->receive_cq, "after all");
	if (has_event(held, 0))
		die(0, "there is one more event");
}

static void expect_not_run(struct held *held)
{
	unsigned char *memory = held->area.memory;

	if (load_word(memory + COUNTER) != START + ADD || !is_poison(memory + HELD_WORD, 8))
		die(0, "a request took effect although the send queue was in SQD");
	if (!held->begun)
		expect_no_completion(held->receive_cq, "of a SEND that is held");
}

static void target(struct held *held)
{
	unsigned char *memory = held->area.memory;
	struct ibv_wc wc;

	await_word(memory + WRITTEN, held->begun ? 7 : 8, "the last WRITE before SQD");
	if (!held->begun)
		await_message(held, ID_MESSAGE);
	if (load_word(memory + COUNTER) != START + ADD)
		die(0, "the counter is %lu when the WRITE behind the FETCH_ADD is here", load_word(memory + COUNTER));
	pair_sync(held->pair, "the effect of all before SQD");
	/* Its place is used again: should the WRITE run again, that is seen. */
	store_word(memory + WRITTEN, RECEIVER_SAW);
	post_send(held, ID_REPLY, IBV_SEND_SIGNALED);
	pair_ready(held->pair);
	if (held->begun) {
		receive(held, ID_MESSAGE);
		pair_sync(held->pair, "the target's receive");
	}
	receive(held, ID_HELD_MESSAGE);
	await_completion(held->send_cq, ID_REPLY, &wc, "the SEND to the queue pair in SQD");
	expect_not_run(held);
	pair_sync(held->pair, "the target's look at what is held");
	if (held->begun)
		await_message(held, ID_MESSAGE);
	await_message(held, ID_HELD_MESSAGE);
	pair_sync(held->pair, "the sender's check");
	if (load_word(memory + COUNTER) != START + 2 * ADD || load_word(memory + HELD_WORD) != 9)
		die(0, "the counter is %lu, the word %lu", load_word(memory + COUNTER), load_word(memory + HELD_WORD));
	if (load_word(memory + WRITTEN) != RECEIVER_SAW)
		die(0, "a WRITE of before SQD took effect again");
	expect_no_completion(held->receive_cq, "after all");
	expect_no_completion(held->send_cq, "after all");
}

void program_run(struct pair *pair)
{
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct held held = {
		.pair = pair,
		.send_cq = endpoint_create_cq(&pair->endpoint, 32, NULL),
		.receive_cq = endpoint_create_cq(&pair->endpoint, 32, NULL),
		.begun = !strcmp(pair->mode, "begun"),
		.flags = !strcmp(pair->mode, "signaled") ? IBV_SEND_SIGNALED : 0,
	};
	struct link_wishes wishes = {
		.send_cq = held.send_cq, .receive_cq = held.receive_cq, .max_send = 16, .max_receive = 4,
		.access = ACCESS_ALL,
	};

	if (!strcmp(pair->mode, "shared")) {
		wishes.srq = held.srq = ibv_create_srq(pair->endpoint.pd, &shared);
		if (!held.srq)
			die(errno, "ibv_create_srq");
	}
	area_create(pair, &held.area, 65536 + MESSAGES_AT, ACCESS_ALL);
	store_word(held.area.memory + COUNTER, START);
	pattern_fill(held.area.memory + READABLE, SIZE, 99, 0);
	link_create(pair, &held.link, &wishes, &held.area);
	if (pair->rank == 1 && !held.begun)
		receive(&held, ID_MESSAGE);
	pair_sync(pair, "the peer's receives");
	if (pair->rank == 0)
		send(&held);
	else
		target(&held);
	link_destroy(&held.link);
	if (held.srq && ibv_destroy_srq(held.srq))
		die(errno, "ibv_destroy_srq");
	area_destroy(&held.area);
	cq_destroy(held.send_cq);
	cq_destroy(held.receive_cq);
}
