/*
 * rnr-wait: a WRITE and a FETCH_ADD have taken effect, but nobody has told the sender, as the SEND behind them waits for
 * a receive that is not posted. Whoever runs WRITE or FETCH_ADD again, or loses the SEND, is found out.
 *
 * infinite: the SEND waits for as long as it takes (rnr_retry 7). finite: for some 4 seconds of running time, so the go
 * file must appear in time.
 */
#include <string.h>

#include "pair.h"

#define WRITTEN 0		/* offsets in the receiver's area */
#define COUNTER 64
#define MESSAGES 128
#define MESSAGE_SIZE 1000
#define ADD 5
#define START 1000
#define RECEIVER_SAW 0x5eeULL

const char *const program_name = "rnr-wait";
const char *const program_modes[] = { "infinite", "finite", NULL };

enum { ID_WRITE = 1, ID_ADD, ID_SEND, ID_LAST };

static void send(struct pair *pair, struct link *link, struct area *area, struct ibv_cq *cq)
{
	uint32_t length = pair->zero_length ? 0 : MESSAGE_SIZE;
	uint64_t *value = (uint64_t *)area->memory, *old = value + 8;
	struct ibv_wc wc;

	*value = 7;
	pattern_fill(area->memory + MESSAGES, MESSAGE_SIZE, 1, 0);
	pattern_fill(area->memory + 2 * MESSAGES + MESSAGE_SIZE, 8, 2, 0);
	link_post(link, IBV_WR_RDMA_WRITE, ID_WRITE, 0, value, 8, WRITTEN);
	link_fetch_add(link, ID_ADD, 0, old, COUNTER, ADD);
	link_post(link, IBV_WR_SEND, ID_SEND, pair->signaled ? IBV_SEND_SIGNALED : 0, area->memory + MESSAGES, length, 0);
	pair_ready(pair);
	if (pair->signaled)
		await_completion(cq, ID_SEND, &wc, "the SEND that waited for a receive");
	/* In order behind the others: its completion says that they are done. */
	link_post(link, IBV_WR_SEND, ID_LAST, IBV_SEND_SIGNALED, area->memory + 2 * MESSAGES + MESSAGE_SIZE, 8, 0);
	await_completion(cq, ID_LAST, &wc, "the last SEND");
	if (*old != START)
		die(0, "FETCH_ADD returned %lu instead of %d", *old, START);
	pair_sync(pair, "the receiver's check");
	expect_no_completion(cq, "after all");
}

static void receive(struct pair *pair, struct link *link, struct area *area, struct ibv_cq *cq)
{
	uint32_t length = pair->zero_length ? 0 : MESSAGE_SIZE;
	unsigned char *first = area->memory + MESSAGES, *second = first + MESSAGE_SIZE + MESSAGES;
	struct ibv_wc wc;

	/* The adder is behind the writer: with the sum there the WRITE is done, and its place may be used again. */
	await_word(area->memory + COUNTER, START + ADD, "the FETCH_ADD to take effect");
	if (load_word(area->memory + WRITTEN) != 7)
		die(0, "the WRITE before the FETCH_ADD has not taken effect");
	store_word(area->memory + WRITTEN, RECEIVER_SAW);
	pair_ready(pair);
	link_receive(link, ID_SEND, first, MESSAGE_SIZE);
	await_completion(cq, ID_SEND, &wc, "the message that waited for this receive");
	if (wc.byte_len != length || wc.opcode != IBV_WC_RECV || !pattern_matches(first, length, 1, 0) ||
	    !is_poison(first + length, MESSAGE_SIZE - length))
		die(0, "the message that waited is damaged, %u bytes", wc.byte_len);
	link_receive(link, ID_LAST, second, 64);
	await_completion(cq, ID_LAST, &wc, "the last message");
	if (wc.byte_len != 8 || !pattern_matches(second, 8, 2, 0))
		die(0, "the last message is damaged: %u bytes", wc.byte_len);
	if (load_word(area->memory + COUNTER) != START + ADD)
		die(0, "the counter is %lu instead of %d", load_word(area->memory + COUNTER), START + ADD);
	if (load_word(area->memory + WRITTEN) != RECEIVER_SAW)
		die(0, "the WRITE took effect again");
	pair_sync(pair, "the sender's check");
	expect_no_completion(cq, "after all");
}

void program_run(struct pair *pair)
{
	bool finite = !strcmp(pair->mode, "finite");
	/* min_rnr_timer 0 is the longest, 655 ms. */
	struct qp_timing timing = {
		.timeout = qp_patient.timeout, .retry_cnt = qp_patient.retry_cnt,
		.rnr_retry = finite ? 6 : 7, .min_rnr_timer = finite ? 0 : 12,
	};
	struct ibv_cq *cq = endpoint_create_cq(&pair->endpoint, 16, NULL);
	struct link_wishes wishes = {
		.send_cq = cq, .receive_cq = cq, .max_send = 8, .max_receive = 4, .access = ACCESS_ALL,
		.timing = &timing,
	};
	struct area area;
	struct link link;

	area_create(pair, &area, 4096, ACCESS_ALL);
	store_word(area.memory + COUNTER, START);
	link_create(pair, &link, &wishes, &area);
	pair_sync(pair, "the peer's connection");
	if (pair->rank == 0)
		send(pair, &link, &area, cq);
	else
		receive(pair, &link, &area, cq);
	link_destroy(&link);
	area_destroy(&area);
	cq_destroy(cq);
}
