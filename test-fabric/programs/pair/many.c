/*
 * many: --count queue pairs, all with the same two completion queues.
 *
 * blocked: on each a FETCH_ADD has taken effect, unsignaled, and the SEND behind it waits for a receive that is not
 * posted. sends: on each a SEND alone waits. quiet: nothing is posted. busy: messages go over all of them all the time.
 * Whatever is lost, comes twice or over another queue pair is found out.
 */
#include <stdlib.h>
#include <string.h>

#include "pair.h"

#define SLOT 64			/* of each queue pair, in both areas */
#define MESSAGE_SIZE 40
#define COUNTER 48		/* offset in the slot of the receiver */
#define TOTAL 56		/* the same, in that of the first: how many messages there were */
#define ADD 5
#define START 1000
#define DEPTH 2

const char *const program_name = "many";
const char *const program_modes[] = { "blocked", "sends", "quiet", "busy", NULL };

struct many {
	struct pair *pair;
	struct area area;
	struct ibv_cq *send_cq, *receive_cq;
	struct link *links;
	uint64_t *counts;		/* messages sent or received, of each */
};

static bool mode_is(const struct many *many, const char *mode)
{
	return !strcmp(many->pair->mode, mode);
}

static unsigned char *slot(struct many *many, int i)
{
	return many->area.memory + (size_t)i * SLOT;
}

static void post_send(struct many *many, int i, int flags)
{
	pattern_fill(slot(many, i), MESSAGE_SIZE, mix64_two(i, many->counts[i]++), 0);
	link_post(&many->links[i], IBV_WR_SEND, i, flags, slot(many, i), MESSAGE_SIZE, 0);
}

static void post_receive(struct many *many, int i)
{
	link_receive(&many->links[i], i, slot(many, i), MESSAGE_SIZE);
}

/* A completion, of whichever queue pair; false: there is none. */
static bool poll_any(struct ibv_cq *cq, struct ibv_wc *wc, int count)
{
	int got = ibv_poll_cq(cq, 1, wc);

	if (got < 0)
		die(0, "ibv_poll_cq fails");
	if (got && (wc->status != IBV_WC_SUCCESS || wc->wr_id >= (uint64_t)count))
		die(0, "request %#lx: status '%s'", wc->wr_id, ibv_wc_status_str(wc->status));
	return got;
}

static int await_any(struct ibv_cq *cq, struct ibv_wc *wc, int count, const char *what)
{
	struct work_clock clock;

	work_clock_start(&clock);
	while (!poll_any(cq, wc, count)) {
		if (work_clock_read(&clock) > PAIR_DEADLINE_S * NS_PER_S)
			die(0, "waited %d s for %s", PAIR_DEADLINE_S, what);
		work_clock_rest(50);
	}
	return wc->wr_id;
}

static void check_message(struct many *many, const struct ibv_wc *wc)
{
	int i = wc->wr_id;

	if (wc->qp_num != many->links[i].qp->qp_num || wc->byte_len != MESSAGE_SIZE ||
	    !pattern_matches(slot(many, i), MESSAGE_SIZE, mix64_two(i, many->counts[i]), 0))
		die(0, "message %lu of queue pair %d is damaged, lost or came by another", many->counts[i], i);
	many->counts[i]++;
}

/* One more over each, when both may go. */
static void exchange_over_all(struct many *many, int count)
{
	struct ibv_wc wc;

	if (many->pair->rank == 1)
		for (int i = 0; i < count; i++)
			post_receive(many, i);
	pair_sync(many->pair, "the receives of all");
	for (int i = 0; i < count; i++) {
		if (many->pair->rank == 0) {
			post_send(many, i, IBV_SEND_SIGNALED);
			await_any(many->send_cq, &wc, count, "a SEND after all");
		} else {
			await_any(many->receive_cq, &wc, count, "a message after all");
			check_message(many, &wc);
		}
	}
}

static void send_blocked(struct many *many, int count)
{
	bool adds = mode_is(many, "blocked");
	uint64_t *old = calloc(count, sizeof(*old));
	struct ibv_mr *mr = endpoint_register(&many->pair->endpoint, old, count * sizeof(*old), ACCESS_ALL);
	struct ibv_wc wc;

	for (int i = 0; i < count; i++) {
		uint32_t lkey = many->links[i].lkey;

		many->links[i].lkey = mr->lkey;
		if (adds)
			link_fetch_add(&many->links[i], i, 0, &old[i], (size_t)i * SLOT + COUNTER, ADD);
		many->links[i].lkey = lkey;
		post_send(many, i, IBV_SEND_SIGNALED);
	}
	pair_ready(many->pair);
	for (int i = 0; i < count; i++)
		await_any(many->send_cq, &wc, count, "a SEND that waited for a receive");
	for (int i = 0; adds && i < count; i++)
		if (old[i] != START)
			die(0, "FETCH_ADD %d returned %lu instead of %d", i, old[i], START);
	mr_deregister(mr);
	free(old);
}

static void receive_blocked(struct many *many, int count)
{
	bool adds = mode_is(many, "blocked");
	struct ibv_wc wc;

	for (int i = 0; adds && i < count; i++)
		await_word(slot(many, i) + COUNTER, START + ADD, "a FETCH_ADD to take effect");
	pair_ready(many->pair);
	for (int i = 0; i < count; i++)
		post_receive(many, i);
	for (int i = 0; i < count; i++) {
		await_any(many->receive_cq, &wc, count, "a message that waited for its receive");
		check_message(many, &wc);
	}
	for (int i = 0; adds && i < count; i++)
		if (load_word(slot(many, i) + COUNTER) != START + ADD)
			die(0, "counter %d is %lu", i, load_word(slot(many, i) + COUNTER));
}

static void send_busily(struct many *many, int count)
{
	uint64_t *total = (uint64_t *)(slot(many, 0) + TOTAL);
	struct ibv_wc wc;

	for (int i = 0; i < count; i++)
		post_send(many, i, IBV_SEND_SIGNALED);
	pair_say_ready(many->pair);
	for (*total = count; *total % 256 || !pair_may_go(many->pair); ++*total)
		post_send(many, await_any(many->send_cq, &wc, count, "a SEND among many"), IBV_SEND_SIGNALED);
	for (int i = 0; i < count; i++)
		await_any(many->send_cq, &wc, count, "the last SEND of each");
	link_post(&many->links[0], IBV_WR_RDMA_WRITE, 0, IBV_SEND_SIGNALED, total, sizeof(*total), TOTAL);
	await_any(many->send_cq, &wc, count, "the WRITE of the total");
}

/* One message of each is under way, so no slot is overwritten before its message was looked at. */
static void receive_busily(struct many *many, int count)
{
	struct work_clock clock;
	struct ibv_wc wc;

	store_word(slot(many, 0) + TOTAL, UINT64_MAX);
	for (int i = 0; i < count; i++)
		post_receive(many, i);
	pair_say_ready(many->pair);
	work_clock_start(&clock);
	for (uint64_t received = 0; received < load_word(slot(many, 0) + TOTAL);) {
		if (poll_any(many->receive_cq, &wc, count)) {
			check_message(many, &wc);
			post_receive(many, wc.wr_id);
			received++;
			work_clock_start(&clock);
		} else if (work_clock_read(&clock) > PAIR_DEADLINE_S * NS_PER_S) {
			die(0, "waited %d s for message %lu", PAIR_DEADLINE_S, received);
		}
	}
}

void program_run(struct pair *pair)
{
	int count = pair->count;
	struct many many = { .pair = pair };
	struct link_wishes wishes = { .max_send = DEPTH, .max_receive = DEPTH, .access = ACCESS_ALL };

	area_create(pair, &many.area, (size_t)count * SLOT, ACCESS_ALL);
	many.send_cq = wishes.send_cq = endpoint_create_cq(&pair->endpoint, DEPTH * count, NULL);
	many.receive_cq = wishes.receive_cq = endpoint_create_cq(&pair->endpoint, DEPTH * count, NULL);
	many.links = calloc(count, sizeof(*many.links));
	many.counts = calloc(count, sizeof(*many.counts));
	for (int i = 0; i < count; i++) {
		store_word(slot(&many, i) + COUNTER, START);
		link_create(pair, &many.links[i], &wishes, &many.area);
	}
	pair_sync(pair, "all connections");
	if (mode_is(&many, "quiet"))
		pair_ready(pair);
	else if (mode_is(&many, "busy"))
		(pair->rank == 0 ? send_busily : receive_busily)(&many, count);
	else
		(pair->rank == 0 ? send_blocked : receive_blocked)(&many, count);
	exchange_over_all(&many, count);
	pair_sync(pair, "the other's check");
	expect_no_completion(many.send_cq, "after all");
	expect_no_completion(many.receive_cq, "after all");
	for (int i = 0; i < count; i++)
		link_destroy(&many.links[i]);
	area_destroy(&many.area);
	cq_destroy(many.send_cq);
	cq_destroy(many.receive_cq);
	free(many.links);
	free(many.counts);
}
