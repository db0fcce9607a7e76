/*
 * unsignaled-tail: the last requests of a send queue were unsignaled and have all taken effect; no completion will ever
 * say so. None may be lost, run again or be reported.
 */
#include <string.h>

#include "pair.h"

#define MESSAGES 4
#define SIZE 300
#define WRITTEN 0		/* offsets in the target's area */
#define COUNTER 8
#define READABLE 64
#define READ_INTO 512		/* in the sender's area */
#define OLD_VALUES 1024
#define MESSAGES_AT 2048
#define START 50
#define ADD 3
#define RECEIVER_SAW 0x5eeULL

const char *const program_name = "unsignaled-tail";
const char *const program_modes[] = { "plain", "inline", NULL };

enum { ID_MESSAGE = 1, ID_WRITE = 100, ID_READ, ID_ADD, ID_LAST };

static void send(struct pair *pair, struct link *link, struct area *area, struct ibv_cq *cq)
{
	int flags = !strcmp(pair->mode, "inline") && link->cap.max_inline_data >= 8 ? IBV_SEND_INLINE : 0;
	uint64_t value = 7;
	struct ibv_wc wc;

	for (int i = 0; i < MESSAGES; i++) {
		pattern_fill(area->memory + MESSAGES_AT + i * 512, SIZE, i, 0);
		link_post(link, IBV_WR_SEND, ID_MESSAGE + i, i == 0 ? IBV_SEND_SIGNALED : 0,
			  area->memory + MESSAGES_AT + i * 512, SIZE, 0);
	}
	memcpy(area->memory, &value, 8);
	link_post(link, IBV_WR_RDMA_READ, ID_READ, 0, area->memory + READ_INTO, SIZE, READABLE);
	link_fetch_add(link, ID_ADD, 0, area->memory + OLD_VALUES, COUNTER, ADD);
	link_post(link, IBV_WR_RDMA_WRITE, ID_WRITE, flags, area->memory, 8, WRITTEN);
	if (flags)
		/* The bytes were taken when the request was posted. */
		memset(area->memory, POISON, 8);
	await_completion(cq, ID_MESSAGE, &wc, "the only signaled SEND");
	pair_ready(pair);
	expect_no_completion(cq, "for an unsignaled request");
	link_fetch_add(link, ID_LAST, IBV_SEND_SIGNALED, area->memory + OLD_VALUES + 8, COUNTER, ADD);
	await_completion(cq, ID_LAST, &wc, "the signaled FETCH_ADD behind the tail");
	if (load_word(area->memory + OLD_VALUES) != START || load_word(area->memory + OLD_VALUES + 8) != START + ADD)
		die(0, "the FETCH_ADDs returned %lu and %lu instead of %d and %d", load_word(area->memory + OLD_VALUES),
		    load_word(area->memory + OLD_VALUES + 8), START, START + ADD);
	if (!pattern_matches(area->memory + READ_INTO, SIZE, 99, 0))
		die(0, "what the READ brought is damaged");
	pair_sync(pair, "the target's check");
	expect_no_completion(cq, "after all");
}

static void receive(struct pair *pair, struct area *area, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (int i = 0; i < MESSAGES; i++) {
		unsigned char *memory = area->memory + MESSAGES_AT + i * 512;

		await_completion(cq, ID_MESSAGE + i, &wc, "a message of the tail");
		if (wc.byte_len != SIZE || !pattern_matches(memory, SIZE, i, 0) || !is_poison(memory + SIZE, 512 - SIZE))
			die(0, "message %d is damaged, %u bytes", i, wc.byte_len);
	}
	await_word(area->memory + WRITTEN, 7, "the WRITE at the end of the tail");
	if (load_word(area->memory + COUNTER) != START + ADD)
		die(0, "the counter is %lu when the WRITE behind the FETCH_ADD is here",
		    load_word(area->memory + COUNTER));
	/* Its place is used again: should the WRITE run again, that is seen. */
	store_word(area->memory + WRITTEN, RECEIVER_SAW);
	pair_ready(pair);
	await_word(area->memory + COUNTER, START + 2 * ADD, "the FETCH_ADD behind the tail");
	pair_sync(pair, "the sender's check");
	if (load_word(area->memory + COUNTER) != START + 2 * ADD)
		die(0, "the counter is %lu instead of %d", load_word(area->memory + COUNTER), START + 2 * ADD);
	if (load_word(area->memory + WRITTEN) != RECEIVER_SAW)
		die(0, "the WRITE took effect again");
	expect_no_completion(cq, "after all");
}

void program_run(struct pair *pair)
{
	struct ibv_cq *cq = endpoint_create_cq(&pair->endpoint, 32, NULL);
	struct link_wishes wishes = {
		.send_cq = cq, .receive_cq = cq, .max_send = 16, .max_receive = 2 * MESSAGES, .max_inline = 32,
		.access = ACCESS_ALL,
	};
	struct area area;
	struct link link;

	area_create(pair, &area, 8192, ACCESS_ALL);
	store_word(area.memory + COUNTER, START);
	pattern_fill(area.memory + READABLE, SIZE, 99, 0);
	link_create(pair, &link, &wishes, &area);
	for (int i = 0; pair->rank == 1 && i < 2 * MESSAGES; i++)
		link_receive(&link, ID_MESSAGE + i, area.memory + MESSAGES_AT + i * 512, 512);
	pair_sync(pair, "the peer's receives");
	if (pair->rank == 0)
		send(pair, &link, &area, cq);
	else
		receive(pair, &area, cq);
	link_destroy(&link);
	area_destroy(&area);
	cq_destroy(cq);
}
