/*
 * full-queue: a send queue as full as it was created for, with its first request waiting for a receive, so that none
 * behind it has taken effect.
 *
 * last-signaled: all but the last are unsignaled. unsignaled: all are, so the sender can never post again.
 */
#include <string.h>

#include "pair.h"

#define WANTED 24
#define COUNTER 0
#define WORDS 1024		/* one for each request: what FETCH_ADD returned at one end, what WRITE left at the other */
#define SLOTS_AT 4096
#define SLOT 256
#define MOST 128		/* requests; devices round up what they were asked for */
#define RECEIVER_SAW 0x5eeULL

const char *const program_name = "full-queue";
const char *const program_modes[] = { "last-signaled", "unsignaled", NULL };

enum kind { SEND, ADD, WRITE };

/* In turn, but the first and the last are SENDs. */
static enum kind kind_of(int number, int requests)
{
	return number == requests - 1 ? SEND : (enum kind)(number % 3);
}

static void post_all(struct pair *pair, struct link *link, struct area *area, int requests)
{
	bool last_signaled = !strcmp(pair->mode, "last-signaled");

	for (int i = 0; i < requests; i++) {
		unsigned char *memory = area->memory + SLOTS_AT + i * SLOT;
		int flags = pair->signaled || (last_signaled && i == requests - 1) ? IBV_SEND_SIGNALED : 0;

		pattern_fill(memory, SLOT, i, 0);
		switch (kind_of(i, requests)) {
		case SEND:
			link_post(link, IBV_WR_SEND, i, flags, memory, SLOT, 0);
			break;
		case ADD:
			link_fetch_add(link, i, flags, area->memory + WORDS + i * 8, COUNTER, i + 1);
			break;
		case WRITE:
			link_post(link, IBV_WR_RDMA_WRITE, i, flags, memory, 8, WORDS + i * 8);
			break;
		}
	}
}

static void check_old_values(struct area *area, int requests)
{
	uint64_t sum = 0;

	for (int i = 0; i < requests; i++) {
		if (kind_of(i, requests) != ADD)
			continue;
		if (load_word(area->memory + WORDS + i * 8) != sum)
			die(0, "FETCH_ADD, request %d, returned %lu instead of %lu", i,
			    load_word(area->memory + WORDS + i * 8), sum);
		sum += i + 1;
	}
}

static void send(struct pair *pair, struct link *link, struct area *area, struct ibv_cq *cq, int requests)
{
	bool unsignaled = !pair->signaled && !strcmp(pair->mode, "unsignaled");
	struct ibv_wc wc;

	post_all(pair, link, area, requests);
	pair_ready(pair);
	if (pair->signaled)
		for (int i = 0; i < requests; i++)
			await_completion(cq, i, &wc, "the next request of the full queue");
	else if (!unsignaled)
		await_completion(cq, requests - 1, &wc, "the last request of the full queue");
	pair_sync(pair, "the receiver's check");
	expect_no_completion(cq, "after all");
	if (!unsignaled)
		check_old_values(area, requests);
}

/* What has taken effect when message `number` is here and the SEND behind it waits. */
static void check_effects(struct area *area, int number, int requests)
{
	uint64_t least = 0, most = 0, expected;
	int next = number + 1, before = number - 1;

	while (before >= 0 && kind_of(before, requests) != SEND)
		before--;
	while (next < requests && kind_of(next, requests) != SEND)
		next++;
	for (int i = 0; i < requests; i++) {
		unsigned char *word = area->memory + WORDS + i * 8;

		if (kind_of(i, requests) == ADD) {
			least += i < number ? i + 1 : 0;
			most += i < next ? i + 1 : 0;
		}
		if (kind_of(i, requests) != WRITE || (i > number && i < next))
			continue;
		pattern_fill(&expected, 8, i, 0);
		if (i < number && i > before) {
			if (load_word(word) != expected)
				die(0, "the WRITE of request %d is missing at message %d", i, number);
			/* Its place is used again: should the WRITE run again, the last check sees it. */
			store_word(word, RECEIVER_SAW);
		} else if (load_word(word) != (i < number ? RECEIVER_SAW : 0)) {
			die(0, "at message %d the WRITE of request %d %s", number, i,
			    i < number ? "took effect again" : "overtook the SEND that waits");
		}
	}
	if (load_word(area->memory + COUNTER) < least || load_word(area->memory + COUNTER) > most)
		die(0, "at message %d the counter is %lu, not %lu to %lu", number, load_word(area->memory + COUNTER),
		    least, most);
}

static void receive(struct pair *pair, struct link *link, struct area *area, struct ibv_cq *cq, int requests)
{
	struct ibv_wc wc;

	pair_ready(pair);
	for (int i = 0; i < requests; i++)
		if (load_word(area->memory + WORDS + i * 8) || load_word(area->memory + COUNTER))
			die(0, "requests behind a SEND that waits have taken effect");
	for (int i = 0; i < requests; i++) {
		unsigned char *memory = area->memory + SLOTS_AT + i * SLOT;

		if (kind_of(i, requests) != SEND)
			continue;
		link_receive(link, i, memory, SLOT);
		await_completion(cq, i, &wc, "the next message of the full queue");
		if (wc.byte_len != SLOT || !pattern_matches(memory, SLOT, i, 0))
			die(0, "message %d is damaged or not the one that is due, %u bytes", i, wc.byte_len);
		check_effects(area, i, requests);
	}
	pair_sync(pair, "the sender's check");
	check_effects(area, requests + 2, requests);
	expect_no_completion(cq, "after all");
}

void program_run(struct pair *pair)
{
	struct ibv_cq *cq = endpoint_create_cq(&pair->endpoint, 2 * MOST, NULL);
	struct link_wishes wishes = {
		.send_cq = cq, .receive_cq = cq, .max_send = WANTED, .max_receive = 4, .access = ACCESS_ALL,
	};
	struct area area;
	struct link link;
	uint32_t requests, peers;

	area_create(pair, &area, SLOTS_AT + MOST * SLOT, ACCESS_ALL);
	memset(area.memory, 0, SLOTS_AT);
	link_create(pair, &link, &wishes, &area);
	requests = link.cap.max_send_wr < MOST ? link.cap.max_send_wr : MOST;
	pair_exchange(pair, "the queue's size", &requests, &peers, sizeof(requests));
	if (pair->rank == 0)
		send(pair, &link, &area, cq, requests);
	else
		receive(pair, &link, &area, cq, peers);
	link_destroy(&link);
	area_destroy(&area);
	cq_destroy(cq);
}
