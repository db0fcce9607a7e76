/*
 * xrc: requests of XRC that name two shared receive queues of the peer. A WRITE and a FETCH_ADD have taken effect, but
 * nobody has told the sender, as the SEND behind them waits for a receive in the first queue; the one behind that finds one
 * in the second. Whoever runs WRITE or FETCH_ADD again, or loses or mixes up the SENDs, is found out.
 *
 * opened: the same, where the receiver has opened its queue pair a second and a third time through another handle of the
 * domain, has destroyed the handle that it was made with, and closed the domain's through which it was made.
 *
 * shared: the same, where the sender has a queue of its own in the same domain, which both have opened by one file, and
 * which nobody sends to. crossed: the sender's requests go there, too, by way of the receiver's queue pair, messages and
 * RDMA WRITEs into the sender's own memory; one such message has arrived, which nobody has told the sender. landed: there
 * the SEND waits for its receive, too. left: as crossed until READY, but the sender has taken that message, and then
 * destroyed its queue and closed the domain.
 *
 * opened-by-sender: as crossed, and the sender has the receiver's queue pair open (ibv_open_qp), connects it, and modifies
 * it. inherited: likewise, and the receiver has destroyed its own handle of it.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "xrc_domain.h"

#define QUEUES 2
#define WRITTEN 0		/* offsets in the receiver's area, before the messages */
#define COUNTER 64
#define ADD 5
#define START 1000
#define RECEIVER_SAW 0x5eeULL
#define HANDLES 2
#define LENT_RNR_TIMER 5

const char *const program_name = "xrc";
const char *const program_modes[] = { "blocked", "opened", "shared", "crossed", "landed", "left", "opened-by-sender", "inherited", NULL };

enum { ID_WRITE = 1, ID_ADD, ID_FIRST, ID_SECOND };

/* What the sender has to know. */
struct card {
	struct qp_address qp;
	uint64_t memory;
	uint32_t rkey;
	uint32_t srqs[QUEUES];
};

static bool opened(const struct pair *pair)
{
	return !strcmp(pair->mode, "opened");
}

static bool landed(const struct pair *pair)
{
	return !strcmp(pair->mode, "landed");
}

static bool left(const struct pair *pair)
{
	return !strcmp(pair->mode, "left");
}

static bool inherited(const struct pair *pair)
{
	return !strcmp(pair->mode, "inherited");
}

static bool opened_by_sender(const struct pair *pair)
{
	return inherited(pair) || !strcmp(pair->mode, "opened-by-sender");
}

static bool crossed(const struct pair *pair)
{
	return landed(pair) || left(pair) || opened_by_sender(pair) || !strcmp(pair->mode, "crossed");
}

static bool shared(const struct pair *pair)
{
	return crossed(pair) || !strcmp(pair->mode, "shared");
}

static void send(struct pair *pair, struct area *area)
{
	unsigned char *first = area->memory + XRC_MESSAGES, *second = first + XRC_SIZE, *third = second + XRC_SIZE;
	uint64_t *value = (uint64_t *)area->memory, *old = value + 8;
	struct ibv_cq *cq = endpoint_create_cq(&pair->endpoint, 16, NULL);
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.cap = { .max_send_wr = 8, .max_send_sge = 1 },
		.qp_type = IBV_QPT_XRC_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp(pair->endpoint.pd, &init);
	struct card mine = { 0 }, theirs;
	struct ibv_qp *handles[HANDLES];
	struct xrc_side side;
	struct ibv_wc wc;

	if (!qp)
		die(errno, "ibv_create_qp of XRC");
	if (shared(pair))
		xrc_side_open(pair, &side, area);
	qp_initialize(&pair->endpoint, qp, ACCESS_NOTHING_REMOTE, &mine.qp);
	pair_exchange(pair, "cards", &mine, &theirs, sizeof(mine));
	qp_connect(&pair->endpoint, qp, &mine.qp, &theirs.qp, &qp_patient);
	if (opened_by_sender(pair)) {
		xrc_open_again(pair, &handles[0], side.xrcd, theirs.qp.qp_num);
		qp_connect(&pair->endpoint, handles[0], &theirs.qp, &mine.qp, &qp_patient);
	}
	pair_sync(pair, "the connection");
	if (crossed(pair)) {
		xrc_cross(qp, area, &side, theirs.qp.qp_num, 1000);
		pattern_fill(third, XRC_SIZE, 3, 0);
		xrc_post_send(qp, XRC_ID_CROSSING, 0, area, third, side.number);
	}
	*value = 7;
	pattern_fill(first, XRC_SIZE, 1, 0);
	pattern_fill(second, XRC_SIZE, 2, 0);
	{
		struct ibv_send_wr write = {
			.wr_id = ID_WRITE, .opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = { .remote_addr = theirs.memory + WRITTEN, .rkey = theirs.rkey },
		};
		struct ibv_send_wr add = {
			.wr_id = ID_ADD, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
			.wr.atomic = { .remote_addr = theirs.memory + COUNTER, .compare_add = ADD, .rkey = theirs.rkey },
		};

		xrc_post(qp, &write, area, value, 8, theirs.srqs[0]);
		xrc_post(qp, &add, area, old, 8, theirs.srqs[0]);
	}
	xrc_post_send(qp, ID_FIRST, pair->signaled ? IBV_SEND_SIGNALED : 0, area, first,
		  landed(pair) ? side.number : theirs.srqs[0]);
	xrc_post_send(qp, ID_SECOND, IBV_SEND_SIGNALED, area, second, theirs.srqs[1]);
	if (left(pair)) {
		xrc_take_crossed(area, &side, qp->qp_num, theirs.qp.qp_num, 3);
		xrc_side_close(&side);
	}
	pair_ready(pair);
	if (opened_by_sender(pair))
		xrc_check_handle(&handles[0], qp->qp_num);
	if (crossed(pair) && !left(pair))
		xrc_take_crossed(area, &side, qp->qp_num, theirs.qp.qp_num, 3);
	if (landed(pair))
		xrc_take_crossed(area, &side, qp->qp_num, theirs.qp.qp_num, 1);
	if (pair->signaled)
		await_completion(cq, ID_FIRST, &wc, "the SEND that waited for a receive");
	await_completion(cq, ID_SECOND, &wc, "the SEND to the other queue");
	if (*old != START)
		die(0, "FETCH_ADD returned %lu instead of %d", *old, START);
	for (int i = 0; i < XRC_ROUNDS; i++) {
		pair_sync(pair, "the receives of a round");
		pattern_fill(first, XRC_SIZE, 10 + i, 0);
		xrc_post_send(qp, i, IBV_SEND_SIGNALED, area, first, theirs.srqs[i % QUEUES]);
		await_completion(cq, i, &wc, "a SEND after the restart");
		if (crossed(pair) && !left(pair) && i % 10 == 5)
			xrc_cross(qp, area, &side, theirs.qp.qp_num, 2000 + i);
		if (opened_by_sender(pair) && i % 10 == 5)
			xrc_reopen(pair, handles, side.xrcd, theirs.qp.qp_num);
	}
	if (opened_by_sender(pair)) {
		xrc_check_handle(&handles[0], qp->qp_num);
		xrc_set_rnr_timer(handles[0], LENT_RNR_TIMER);
	}
	pair_sync(pair, "the receiver's check");
	expect_no_completion(cq, "after all");
	if (opened(pair) || opened_by_sender(pair))
		xrc_send_to_nobody(qp, area);
	if (opened_by_sender(pair)) {
		xrc_await_request_error(pair, handles[0]);
		qp_destroy(handles[0]);
	}
	if (shared(pair) && !left(pair))
		xrc_side_close(&side);
	qp_destroy(qp);
	cq_destroy(cq);
}

/* Each handle has the event, as its own, and can be destroyed by itself. */
static void end_handles(struct pair *pair, struct ibv_qp **handles)
{
	bool seen[HANDLES] = { false };

	for (int count = 0; count < HANDLES;) {
		struct pollfd readable = { .fd = pair->endpoint.context->async_fd, .events = POLLIN };
		struct ibv_async_event event;

		if (poll(&readable, 1, PAIR_DEADLINE_S * 1000) != 1)
			die(0, "%d of %d handles had an event within %d s", count, HANDLES, PAIR_DEADLINE_S);
		if (ibv_get_async_event(pair->endpoint.context, &event))
			die(errno, "ibv_get_async_event");
		ibv_ack_async_event(&event);
		for (int i = 0; i < HANDLES && event.event_type == IBV_EVENT_QP_REQ_ERR; i++)
			if (event.element.qp == handles[i] && event.element.qp->qp_context == &handles[i]) {
				count += !seen[i];
				seen[i] = true;
			}
	}
	for (int i = 0; i < HANDLES; i++)
		qp_destroy(handles[i]);
}

static void receive(struct pair *pair, struct area *area)
{
	unsigned char *first = area->memory + XRC_MESSAGES, *second = first + XRC_SIZE;
	struct ibv_qp *qp;
	struct ibv_qp_init_attr_ex init = {
		.qp_context = &qp, .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD,
	};
	struct ibv_qp *handles[HANDLES];
	FILE *file = opened(pair) ? tmpfile() : NULL;
	struct ibv_xrcd *xrcd = shared(pair) ? xrc_open_shared_domain(pair) : endpoint_open_xrcd(&pair->endpoint, file ? fileno(file) : -1);
	struct card mine = { .memory = (uintptr_t)area->memory, .rkey = area->mr->rkey }, theirs;
	struct ibv_srq *srqs[QUEUES];
	struct ibv_cq *cqs[QUEUES];
	uint32_t number;

	init.xrcd = file ? endpoint_open_xrcd(&pair->endpoint, fileno(file)) : xrcd;
	for (int i = 0; i < QUEUES; i++) {
		cqs[i] = endpoint_create_cq(&pair->endpoint, 16, NULL);
		srqs[i] = xrc_create_srq(pair, xrcd, cqs[i], &mine.srqs[i]);
	}
	qp = ibv_create_qp_ex(pair->endpoint.context, &init);
	if (!qp)
		die(errno, "ibv_create_qp_ex of XRC");
	qp_initialize(&pair->endpoint, qp, ACCESS_ALL, &mine.qp);
	store_word(area->memory + COUNTER, START);
	xrc_post_receive(srqs[1], 2, area, second);
	pair_exchange(pair, "cards", &mine, &theirs, sizeof(mine));
	if (!opened_by_sender(pair))
		qp_connect(&pair->endpoint, qp, &mine.qp, &theirs.qp, &qp_patient);
	pair_sync(pair, "the connection");
	/* The adder is behind the writer: with the sum there the WRITE is done, and its place may be used again. */
	await_word(area->memory + COUNTER, START + ADD, "the FETCH_ADD to take effect");
	if (load_word(area->memory + WRITTEN) != 7)
		die(0, "the WRITE before the FETCH_ADD has not taken effect");
	store_word(area->memory + WRITTEN, RECEIVER_SAW);
	if (file) {
		for (int i = 0; i < HANDLES; i++)
			xrc_open_again(pair, &handles[i], xrcd, mine.qp.qp_num);
		qp_destroy(qp);
		xrcd_close(init.xrcd);
	}
	if (inherited(pair))
		qp_destroy(qp);
	pair_ready(pair);
	if (opened_by_sender(pair) && !inherited(pair))
		xrc_check_handle(&qp, theirs.qp.qp_num);
	for (int i = 0; file && i < HANDLES; i++)
		xrc_check_handle(&handles[i], theirs.qp.qp_num);
	for (int i = 0; i < QUEUES; i++)
		if (ibv_get_srq_num(srqs[i], &number) || number != mine.srqs[i])
			die(0, "the number of a queue is %#x instead of %#x", number, mine.srqs[i]);
	if (!landed(pair)) {
		xrc_post_receive(srqs[0], 1, area, first);
		xrc_expect_message(cqs[0], 1, mine.qp.qp_num, theirs.qp.qp_num, first, 1);
	}
	xrc_expect_message(cqs[1], 2, mine.qp.qp_num, theirs.qp.qp_num, second, 2);
	for (int i = 0; i < XRC_ROUNDS; i++) {
		if (file && i % 10 == 5) {
			qp_destroy(handles[0]);
			xrc_open_again(pair, &handles[0], xrcd, mine.qp.qp_num);
		}
		xrc_post_receive(srqs[i % QUEUES], i, area, first);
		pair_sync(pair, "the receives of a round");
		xrc_expect_message(cqs[i % QUEUES], i, mine.qp.qp_num, theirs.qp.qp_num, first, 10 + i);
	}
	if (load_word(area->memory + COUNTER) != START + ADD)
		die(0, "the counter is %lu instead of %d", load_word(area->memory + COUNTER), START + ADD);
	if (load_word(area->memory + WRITTEN) != RECEIVER_SAW)
		die(0, "the WRITE has taken effect twice");
	pair_sync(pair, "the receiver's check");
	if (opened_by_sender(pair) && !inherited(pair)) {
		if (xrc_rnr_timer(qp) != LENT_RNR_TIMER)
			die(0, "the other process' change of the RNR timer is not known: %d", xrc_rnr_timer(qp));
		xrc_await_request_error(pair, qp);
	}
	if (file)
		end_handles(pair, handles);
	else if (!inherited(pair))
		qp_destroy(qp);
	for (int i = 0; i < QUEUES; i++) {
		expect_no_completion(cqs[i], "after all");
		srq_destroy(srqs[i]);
		cq_destroy(cqs[i]);
	}
	xrcd_close(xrcd);
	if (file)
		fclose(file);
}

void program_run(struct pair *pair)
{
	struct area area;

	area_create(pair, &area, XRC_AREA, ACCESS_ALL);
	if (pair->rank == 0)
		send(pair, &area);
	else
		receive(pair, &area);
	area_destroy(&area);
}
