/*
 * no-remote-write: queue pairs and regions that let the peer do nothing by itself, and a send queue that ends in
 * unsignaled SENDs. Whoever needs to know how far that queue has come finds no WRITE to ask with.
 *
 * arrived: all messages have arrived. blocked: the last ones wait for receives.
 */
#include <string.h>

#include "pair.h"

#define MESSAGES 12
#define BLOCKED 4
#define SIZE 512

const char *const program_name = "no-remote-write";
const char *const program_modes[] = { "arrived", "blocked", NULL };

static void check_message(struct area *area, struct ibv_cq *cq, int number)
{
	unsigned char *memory = area->memory + number * SIZE;
	uint32_t size = SIZE - number * 8;
	struct ibv_wc wc;

	await_completion(cq, number, &wc, "the next message");
	if (wc.byte_len != size || !pattern_matches(memory, size, number, 0) ||
	    !is_poison(memory + size, SIZE - size))
		die(0, "message %d is damaged or not the one that is due, %u bytes", number, wc.byte_len);
}

static void send(struct pair *pair, struct link *link, struct area *area, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (int i = 0; i < MESSAGES; i++) {
		uint32_t size = SIZE - i * 8;

		pattern_fill(area->memory + i * SIZE, size, i, 0);
		link_post(link, IBV_WR_SEND, i, i == 0 || pair->signaled ? IBV_SEND_SIGNALED : 0,
			  area->memory + i * SIZE, size, 0);
	}
	await_completion(cq, 0, &wc, "the first SEND");
	pair_ready(pair);
	for (int i = 1; pair->signaled && i < MESSAGES; i++)
		await_completion(cq, i, &wc, "a SEND");
	pattern_fill(area->memory + MESSAGES * SIZE, SIZE - MESSAGES * 8, MESSAGES, 0);
	link_post(link, IBV_WR_SEND, MESSAGES, IBV_SEND_SIGNALED, area->memory + MESSAGES * SIZE,
		  SIZE - MESSAGES * 8, 0);
	await_completion(cq, MESSAGES, &wc, "the signaled SEND behind the others");
	expect_no_completion(cq, "after all");
}

static void receive(struct pair *pair, struct link *link, struct area *area, struct ibv_cq *cq)
{
	int arrived = !strcmp(pair->mode, "blocked") ? MESSAGES - BLOCKED : MESSAGES;

	for (int i = 0; i < arrived; i++)
		check_message(area, cq, i);
	pair_ready(pair);
	expect_no_completion(cq, "between the halves");
	for (int i = arrived; i <= MESSAGES; i++)
		link_receive(link, i, area->memory + i * SIZE, SIZE);
	for (int i = arrived; i <= MESSAGES; i++)
		check_message(area, cq, i);
	expect_no_completion(cq, "after all");
}

void program_run(struct pair *pair)
{
	struct ibv_cq *cq = endpoint_create_cq(&pair->endpoint, 2 * MESSAGES + 2, NULL);
	struct link_wishes wishes = {
		.send_cq = cq, .receive_cq = cq, .max_send = MESSAGES + 1, .max_receive = MESSAGES + 1, .access = 0,
	};
	struct area area;
	struct link link;

	area_create(pair, &area, (MESSAGES + 1) * SIZE, ACCESS_NOTHING_REMOTE);
	link_create(pair, &link, &wishes, &area);
	if (pair->rank == 1) {
		int posted = !strcmp(pair->mode, "blocked") ? MESSAGES - BLOCKED : MESSAGES;

		for (int i = 0; i < posted; i++)
			link_receive(&link, i, area.memory + i * SIZE, SIZE);
	}
	pair_sync(pair, "the peer's receives");
	if (pair->rank == 0)
		send(pair, &link, &area, cq);
	else
		receive(pair, &link, &area, cq);
	pair_sync(pair, "the peer's checks");
	link_destroy(&link);
	area_destroy(&area);
	cq_destroy(cq);
}
