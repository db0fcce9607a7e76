/*
 * unread: completions of sends and receives that the program has not read yet. They must come out later, all of them
 * once, in order and as they were.
 *
 * all: none is read before the go file. partly: some are.
 */
#include <string.h>

#include "pair.h"

#define MESSAGES 32
#define READ_BEFORE 5
#define SIZE 128
#define LANDED (2 * MESSAGES * SIZE)

const char *const program_name = "unread";
const char *const program_modes[] = { "all", "partly", NULL };

static uint32_t size_of(int number)
{
	return number % SIZE + 1;
}

static enum ibv_wr_opcode opcode_of(int number)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM };

	return opcodes[number % 3];
}

static void check_send(struct ibv_cq *cq, int number)
{
	struct ibv_wc wc;

	await_completion(cq, number, &wc, "an unread send completion");
	if (wc.opcode != (number % 3 == 2 ? IBV_WC_RDMA_WRITE : IBV_WC_SEND))
		die(0, "send completion %d has opcode %d", number, wc.opcode);
}

static void check_receive(struct link *link, struct area *area, struct ibv_cq *cq, int number)
{
	unsigned char *memory = area->memory + (MESSAGES + number % MESSAGES) * SIZE;
	bool with_imm = number % 3 != 0;
	struct ibv_wc wc;

	await_completion(cq, number, &wc, "an unread receive completion");
	if (wc.byte_len != size_of(number) || wc.qp_num != link->own.qp_num ||
	    wc.opcode != (number % 3 == 2 ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) ||
	    !!(wc.wc_flags & IBV_WC_WITH_IMM) != with_imm || (with_imm && wc.imm_data != (uint32_t)number))
		die(0, "receive completion %d: %u bytes, qp_num %#x, opcode %d, flags %#x, immediate %u", number,
		    wc.byte_len, wc.qp_num, wc.opcode, wc.wc_flags, wc.imm_data);
	if (!pattern_matches(memory, wc.byte_len, number, 0) || !is_poison(memory + wc.byte_len, SIZE - wc.byte_len))
		die(0, "message %d is damaged", number);
}

static void post_sends(struct link *link, struct area *area, int from, int to)
{
	for (int i = from; i < to; i++) {
		unsigned char *memory = area->memory + i % MESSAGES * SIZE;

		pattern_fill(memory, size_of(i), i, 0);
		/* A WRITE_WITH_IMM goes to where the receive with its number would. */
		link_post(link, opcode_of(i), i, IBV_SEND_SIGNALED, memory, size_of(i),
			  (MESSAGES + i % MESSAGES) * SIZE);
	}
}

static void post_receives(struct link *link, struct area *area, int from, int to)
{
	memset(area->memory + MESSAGES * SIZE, POISON, MESSAGES * SIZE);
	for (int i = from; i < to; i++)
		link_receive(link, i, area->memory + (MESSAGES + i % MESSAGES) * SIZE, SIZE);
}

void program_run(struct pair *pair)
{
	struct ibv_cq *send_cq = endpoint_create_cq(&pair->endpoint, MESSAGES + 1, NULL);
	struct ibv_cq *receive_cq = endpoint_create_cq(&pair->endpoint, MESSAGES, NULL);
	struct link_wishes wishes = {
		.send_cq = send_cq, .receive_cq = receive_cq, .max_send = MESSAGES + 1, .max_receive = MESSAGES,
		.access = ACCESS_ALL,
	};
	int before = !strcmp(pair->mode, "partly") ? READ_BEFORE : 0;
	struct area area;
	struct link link;

	area_create(pair, &area, LANDED + 64, ACCESS_ALL);
	link_create(pair, &link, &wishes, &area);
	post_receives(&link, &area, 0, MESSAGES);
	pair_sync(pair, "the peer's receives");
	post_sends(&link, &area, 0, MESSAGES);
	/* Behind all the others: when its bytes are here, so are the completions of the receives. */
	store_word(area.memory + LANDED + 8, MESSAGES);
	link_post(&link, IBV_WR_RDMA_WRITE, MESSAGES, 0, area.memory + LANDED + 8, 8, LANDED);
	await_word(area.memory + LANDED, MESSAGES, "the peer's last WRITE");
	for (int i = 0; i < before; i++) {
		check_send(send_cq, i);
		check_receive(&link, &area, receive_cq, i);
	}
	pair_ready(pair);
	for (int i = before; i < MESSAGES; i++)
		check_send(send_cq, i);
	for (int i = before; i < MESSAGES; i++)
		check_receive(&link, &area, receive_cq, i);
	expect_no_completion(send_cq, "behind the unread sends");
	expect_no_completion(receive_cq, "behind the unread receives");
	post_receives(&link, &area, MESSAGES, 2 * MESSAGES);
	pair_sync(pair, "the peer's new receives");
	post_sends(&link, &area, MESSAGES, 2 * MESSAGES);
	for (int i = MESSAGES; i < 2 * MESSAGES; i++)
		check_send(send_cq, i);
	for (int i = MESSAGES; i < 2 * MESSAGES; i++)
		check_receive(&link, &area, receive_cq, i);
	pair_sync(pair, "the peer's checks");
	expect_no_completion(send_cq, "after all");
	expect_no_completion(receive_cq, "after all");
	link_destroy(&link);
	area_destroy(&area);
	cq_destroy(send_cq);
	cq_destroy(receive_cq);
}
