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
 * lent: as crossed, and the sender has the receiver's queue pair open (ibv_open_qp), connects it, and modifies it. inherited:
 * likewise, and the receiver has destroyed its own handle of it.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pair.h"

#define QUEUES 2
#define SIZE 1000
#define WRITTEN 0		/* offsets in the receiver's area */
#define COUNTER 64
#define MESSAGES 128
#define CROSSED (MESSAGES + 3 * SIZE)	/* in the sender's area: what it has sent to itself */
#define AREA (MESSAGES + 4 * SIZE)
#define ADD 5
#define START 1000
#define ROUNDS 50
#define RECEIVER_SAW 0x5eeULL
#define HANDLES 2
#define NO_SRQ 1			/* the number of none */

const char *const program_name = "xrc";
const char *const program_modes[] = { "blocked", "opened", "shared", "crossed", "landed", "left", "lent", "inherited", NULL };

enum { ID_WRITE = 1, ID_ADD, ID_FIRST, ID_SECOND, ID_CROSSING };

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

static bool lent(const struct pair *pair)
{
	return inherited(pair) || !strcmp(pair->mode, "lent");
}

static bool crossed(const struct pair *pair)
{
	return landed(pair) || left(pair) || lent(pair) || !strcmp(pair->mode, "crossed");
}

static bool shared(const struct pair *pair)
{
	return crossed(pair) || !strcmp(pair->mode, "shared");
}

static struct ibv_srq *create_srq(struct pair *pair, struct ibv_xrcd *xrcd, struct ibv_cq *cq, uint32_t *number)
{
	struct ibv_srq *srq = endpoint_create_xrc_srq(&pair->endpoint, xrcd, cq, 4, 1);

	if (ibv_get_srq_num(srq, number))
		die(errno, "ibv_get_srq_num");
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

static void expect_message(struct ibv_cq *cq, uint64_t wr_id, uint32_t qp_num, const struct card *sender,
			   const void *local, uint64_t seed)
{
	struct ibv_wc wc;

	await_completion(cq, wr_id, &wc, "a message");
	if (wc.byte_len != SIZE || wc.qp_num != qp_num || wc.src_qp != sender->qp.qp_num)
		die(0, "message %lu: %u bytes of %#x for %#x instead of %d of %#x for %#x", wr_id, wc.byte_len, wc.src_qp,
		    wc.qp_num, SIZE, sender->qp.qp_num, qp_num);
	if (!pattern_matches(local, SIZE, seed, 0))
		die(0, "message %lu is damaged", wr_id);
}

/* That of a file which both processes know. */
static struct ibv_xrcd *open_shared_domain(struct pair *pair)
{
	struct ibv_xrcd *xrcd;
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s%s", pair->domain ? pair->domain : pair->dir.path, pair->domain ? "" : "/domain");
	fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0)
		die(errno, "%s", path);
	xrcd = endpoint_open_xrcd(&pair->endpoint, fd);
	close(fd);
	return xrcd;
}

/* What the sender has in the receiver's domain. */
struct side {
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	uint32_t number;
};

static void side_open(struct pair *pair, struct side *side, struct area *area)
{
	side->xrcd = open_shared_domain(pair);
	side->cq = endpoint_create_cq(&pair->endpoint, 16, NULL);
	side->srq = create_srq(pair, side->xrcd, side->cq, &side->number);
	post_receive(side->srq, ID_CROSSING, area, area->memory + CROSSED);
}

static void side_close(struct side *side)
{
	expect_no_completion(side->cq, "of what nobody has sent");
	srq_destroy(side->srq);
	cq_destroy(side->cq);
	xrcd_close(side->xrcd);
}

/* A message that has come to the sender's own queue, which gets another receive. */
static void take_crossed(struct area *area, struct side *side, const struct card *mine, const struct card *theirs,
			 uint64_t seed)
{
	unsigned char *to = area->memory + CROSSED;

	expect_message(side->cq, ID_CROSSING, theirs->qp.qp_num, mine, to, seed);
	post_receive(side->srq, ID_CROSSING, area, to);
}

/* By way of the receiver's queue pair to the sender's own queue, and memory. */
static void cross(struct ibv_qp *qp, struct area *area, struct side *side, const struct card *mine,
		  const struct card *theirs, uint64_t seed)
{
	unsigned char *from = area->memory + MESSAGES + 2 * SIZE, *to = area->memory + CROSSED;
	struct ibv_send_wr write = {
		.wr_id = ID_CROSSING, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)to, .rkey = area->mr->rkey },
	};
	struct ibv_wc wc;

	pattern_fill(from, SIZE, seed, 0);
	post_send(qp, ID_CROSSING, IBV_SEND_SIGNALED, area, from, side->number);
	take_crossed(area, side, mine, theirs, seed);
	await_completion(qp->send_cq, ID_CROSSING, &wc, "a SEND to the own queue");
	pattern_fill(from, SIZE, seed + ROUNDS, 0);
	post(qp, &write, area, from, SIZE, side->number);
	await_completion(qp->send_cq, ID_CROSSING, &wc, "a WRITE to the own memory");
	if (!pattern_matches(to, SIZE, seed + ROUNDS, 0))
		die(0, "what was written to the own memory is damaged");
}

/* A request that the peer cannot take, so that its queue pair has an event to report. */
static void send_to_nobody(struct ibv_qp *qp, struct area *area)
{
	struct work_clock clock;
	struct ibv_wc wc;

	post_send(qp, 1, IBV_SEND_SIGNALED, area, area->memory, NO_SRQ);
	work_clock_start(&clock);
	while (ibv_poll_cq(qp->send_cq, 1, &wc) != 1)
		if (work_clock_read(&clock) > PAIR_DEADLINE_S * NS_PER_S)
			die(0, "a SEND to no queue has not completed within %d s", PAIR_DEADLINE_S);
	if (wc.wr_id != 1 || wc.status != IBV_WC_REM_INV_REQ_ERR)
		die(0, "a SEND to no queue: request %lu, %s", wc.wr_id, ibv_wc_status_str(wc.status));
}

/* The place of the handle is its context. */
static void open_again(struct pair *pair, struct ibv_qp **handle, struct ibv_xrcd *xrcd, uint32_t qp_num)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
			     IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = qp_num, .xrcd = xrcd, .qp_context = handle, .qp_type = IBV_QPT_XRC_RECV,
	};

	*handle = ibv_open_qp(pair->endpoint.context, &attr);
	if (!*handle)
		die(errno, "ibv_open_qp of 0x%x", qp_num);
	if ((*handle)->qp_num != qp_num || (*handle)->qp_context != handle)
		die(0, "ibv_open_qp of 0x%x gave 0x%x, or not the context asked for", qp_num, (*handle)->qp_num);
}

static void check_handle(struct ibv_qp **handle, const struct card *sender)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	int err = ibv_query_qp(*handle, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN, &init);

	if (err)
		die(err, "ibv_query_qp of another handle");
	if (attr.qp_state != IBV_QPS_RTS || attr.dest_qp_num != sender->qp.qp_num || init.qp_context != handle)
		die(0, "another handle is in state %d and of peer 0x%x, or does not have its own context", attr.qp_state,
		    attr.dest_qp_num);
}

#define LENT_RNR_TIMER 5

/* Of a queue pair that both processes may change. */
static int rnr_timer(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	int err = ibv_query_qp(qp, &attr, IBV_QP_MIN_RNR_TIMER, &init);

	if (err)
		die(err, "ibv_query_qp of a shared queue pair");
	return attr.min_rnr_timer;
}

static void set_rnr_timer(struct ibv_qp *qp, int value)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .min_rnr_timer = value };
	int err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER);

	if (err)
		die(err, "ibv_modify_qp of a shared queue pair");
}

/* The receiver's queue pair, as the sender has it open: another handle before the last one is gone. */
static void reopen(struct pair *pair, struct ibv_qp **handles, struct ibv_xrcd *xrcd, uint32_t qp_num)
{
	open_again(pair, &handles[1], xrcd, qp_num);
	qp_destroy(handles[0]);
	open_again(pair, &handles[0], xrcd, qp_num);
	qp_destroy(handles[1]);
}

static void await_request_error(struct pair *pair, const struct ibv_qp *handle)
{
	struct pollfd readable = { .fd = pair->endpoint.context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	do {
		if (poll(&readable, 1, PAIR_DEADLINE_S * 1000) != 1)
			die(0, "a handle had no event within %d s", PAIR_DEADLINE_S);
		if (ibv_get_async_event(pair->endpoint.context, &event))
			die(errno, "ibv_get_async_event");
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_QP_REQ_ERR || event.element.qp != handle);
}

static void send(struct pair *pair, struct area *area)
{
	unsigned char *first = area->memory + MESSAGES, *second = first + SIZE, *third = second + SIZE;
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
	struct side side;
	struct ibv_wc wc;

	if (!qp)
		die(errno, "ibv_create_qp of XRC");
	if (shared(pair))
		side_open(pair, &side, area);
	qp_initialize(&pair->endpoint, qp, ACCESS_NOTHING_REMOTE, &mine.qp);
	pair_exchange(pair, "cards", &mine, &theirs, sizeof(mine));
	qp_connect(&pair->endpoint, qp, &mine.qp, &theirs.qp, &qp_patient);
	if (lent(pair)) {
		open_again(pair, &handles[0], side.xrcd, theirs.qp.qp_num);
		qp_connect(&pair->endpoint, handles[0], &theirs.qp, &mine.qp, &qp_patient);
	}
	pair_sync(pair, "the connection");
	if (crossed(pair)) {
		cross(qp, area, &side, &mine, &theirs, 1000);
		pattern_fill(third, SIZE, 3, 0);
		post_send(qp, ID_CROSSING, 0, area, third, side.number);
	}
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
	post_send(qp, ID_FIRST, pair->signaled ? IBV_SEND_SIGNALED : 0, area, first,
		  landed(pair) ? side.number : theirs.srqs[0]);
	post_send(qp, ID_SECOND, IBV_SEND_SIGNALED, area, second, theirs.srqs[1]);
	if (left(pair)) {
		take_crossed(area, &side, &mine, &theirs, 3);
		side_close(&side);
	}
	pair_ready(pair);
	if (lent(pair))
		check_handle(&handles[0], &mine);
	if (crossed(pair) && !left(pair))
		take_crossed(area, &side, &mine, &theirs, 3);
	if (landed(pair))
		take_crossed(area, &side, &mine, &theirs, 1);
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
		if (crossed(pair) && !left(pair) && i % 10 == 5)
			cross(qp, area, &side, &mine, &theirs, 2000 + i);
		if (lent(pair) && i % 10 == 5)
			reopen(pair, handles, side.xrcd, theirs.qp.qp_num);
	}
	if (lent(pair)) {
		check_handle(&handles[0], &mine);
		set_rnr_timer(handles[0], LENT_RNR_TIMER);
	}
	pair_sync(pair, "the receiver's check");
	expect_no_completion(cq, "after all");
	if (opened(pair) || lent(pair))
		send_to_nobody(qp, area);
	if (lent(pair)) {
		await_request_error(pair, handles[0]);
		qp_destroy(handles[0]);
	}
	if (shared(pair) && !left(pair))
		side_close(&side);
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
	unsigned char *first = area->memory + MESSAGES, *second = first + SIZE;
	struct ibv_qp *qp;
	struct ibv_qp_init_attr_ex init = {
		.qp_context = &qp, .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD,
	};
	struct ibv_qp *handles[HANDLES];
	FILE *file = opened(pair) ? tmpfile() : NULL;
	struct ibv_xrcd *xrcd = shared(pair) ? open_shared_domain(pair) : endpoint_open_xrcd(&pair->endpoint, file ? fileno(file) : -1);
	struct card mine = { .memory = (uintptr_t)area->memory, .rkey = area->mr->rkey }, theirs;
	struct ibv_srq *srqs[QUEUES];
	struct ibv_cq *cqs[QUEUES];
	uint32_t number;

	init.xrcd = file ? endpoint_open_xrcd(&pair->endpoint, fileno(file)) : xrcd;
	for (int i = 0; i < QUEUES; i++) {
		cqs[i] = endpoint_create_cq(&pair->endpoint, 16, NULL);
		srqs[i] = create_srq(pair, xrcd, cqs[i], &mine.srqs[i]);
	}
	qp = ibv_create_qp_ex(pair->endpoint.context, &init);
	if (!qp)
		die(errno, "ibv_create_qp_ex of XRC");
	qp_initialize(&pair->endpoint, qp, ACCESS_ALL, &mine.qp);
	store_word(area->memory + COUNTER, START);
	post_receive(srqs[1], 2, area, second);
	pair_exchange(pair, "cards", &mine, &theirs, sizeof(mine));
	if (!lent(pair))
		qp_connect(&pair->endpoint, qp, &mine.qp, &theirs.qp, &qp_patient);
	pair_sync(pair, "the connection");
	/* The adder is behind the writer: with the sum there the WRITE is done, and its place may be used again. */
	await_word(area->memory + COUNTER, START + ADD, "the FETCH_ADD to take effect");
	if (load_word(area->memory + WRITTEN) != 7)
		die(0, "the WRITE before the FETCH_ADD has not taken effect");
	store_word(area->memory + WRITTEN, RECEIVER_SAW);
	if (file) {
		for (int i = 0; i < HANDLES; i++)
			open_again(pair, &handles[i], xrcd, mine.qp.qp_num);
		qp_destroy(qp);
		xrcd_close(init.xrcd);
	}
	if (inherited(pair))
		qp_destroy(qp);
	pair_ready(pair);
	if (lent(pair) && !inherited(pair))
		check_handle(&qp, &theirs);
	for (int i = 0; file && i < HANDLES; i++)
		check_handle(&handles[i], &theirs);
	for (int i = 0; i < QUEUES; i++)
		if (ibv_get_srq_num(srqs[i], &number) || number != mine.srqs[i])
			die(0, "the number of a queue is %#x instead of %#x", number, mine.srqs[i]);
	if (!landed(pair)) {
		post_receive(srqs[0], 1, area, first);
		expect_message(cqs[0], 1, mine.qp.qp_num, &theirs, first, 1);
	}
	expect_message(cqs[1], 2, mine.qp.qp_num, &theirs, second, 2);
	for (int i = 0; i < ROUNDS; i++) {
		if (file && i % 10 == 5) {
			qp_destroy(handles[0]);
			open_again(pair, &handles[0], xrcd, mine.qp.qp_num);
		}
		post_receive(srqs[i % QUEUES], i, area, first);
		pair_sync(pair, "the receives of a round");
		expect_message(cqs[i % QUEUES], i, mine.qp.qp_num, &theirs, first, 10 + i);
	}
	if (load_word(area->memory + COUNTER) != START + ADD)
		die(0, "the counter is %lu instead of %d", load_word(area->memory + COUNTER), START + ADD);
	if (load_word(area->memory + WRITTEN) != RECEIVER_SAW)
		die(0, "the WRITE has taken effect twice");
	pair_sync(pair, "the receiver's check");
	if (lent(pair) && !inherited(pair)) {
		if (rnr_timer(qp) != LENT_RNR_TIMER)
			die(0, "the other process' change of the RNR timer is not known: %d", rnr_timer(qp));
		await_request_error(pair, qp);
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

	area_create(pair, &area, AREA, ACCESS_ALL);
	if (pair->rank == 0)
		send(pair, &area);
	else
		receive(pair, &area);
	area_destroy(&area);
}
