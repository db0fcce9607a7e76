/*
 * new-objects: after the go file has appeared it registers new regions, creates new completion queues and queue pairs,
 * connects them, and uses them along with the old ones, crosswise too: a new region on an old queue pair and an old one
 * on a new queue pair. Then the old objects go, and the new ones are used on.
 */
#include <stdio.h>
#include <string.h>

#include "pair.h"

#define SETS 3
#define SIZE 1024
#define COUNTER (4 * SIZE)
#define AREA (5 * SIZE)
#define EXCHANGES 20

const char *const program_name = "new-objects";
const char *const program_modes[] = { "plain", NULL };

/* A region, a completion queue and a queue pair. */
struct set {
	struct area area;
	struct ibv_cq *cq;
	struct link link;
	uint64_t adds;
};

static void set_create(struct pair *pair, struct set *set)
{
	struct link_wishes wishes = { .max_send = 8, .max_receive = 8, .access = ACCESS_ALL };

	area_create(pair, &set->area, AREA, ACCESS_ALL);
	store_word(set->area.memory + COUNTER, 0);
	set->cq = endpoint_create_cq(&pair->endpoint, 16, NULL);
	set->adds = 0;
	wishes.send_cq = wishes.receive_cq = set->cq;
	link_create(pair, &set->link, &wishes, &set->area);
}

static void set_destroy(struct set *set)
{
	link_destroy(&set->link);
	cq_destroy(set->cq);
	area_destroy(&set->area);
}

/*
 * Both ends send, write, read back and add over the queue pair of `over`, with the memory of `in` at both ends.
 * In an area: the message to send, the message received, what is written to the peer, what the peer wrote.
 */
static void use(struct pair *pair, struct set *over, struct set *in, int number)
{
	struct link link = over->link;
	unsigned char *memory = in->area.memory;
	uint64_t base = (uint64_t)number << 32;
	struct ibv_wc wc;

	link.lkey = in->link.lkey;
	link.rkey = in->link.rkey;
	link.remote = in->link.remote;
	memset(memory, POISON, 4 * SIZE);
	link_receive(&link, 1, memory + SIZE, SIZE);
	pair_sync(pair, "the peer's receive");
	pattern_fill(memory, SIZE, base + pair->rank, 0);
	pattern_fill(memory + 2 * SIZE, SIZE, base + 8 + pair->rank, 0);
	link_post(&link, IBV_WR_RDMA_WRITE, 2, 0, memory + 2 * SIZE, SIZE, 3 * SIZE);
	link_post(&link, IBV_WR_SEND, 3, 0, memory, SIZE, 0);
	link_fetch_add(&link, 4, IBV_SEND_SIGNALED, memory + COUNTER + 8, COUNTER, 1);
	/* The message and the own requests end in any order. */
	for (int left = 2; left; left--) {
		struct work_clock clock;

		work_clock_start(&clock);
		while (ibv_poll_cq(over->cq, 1, &wc) == 0) {
			if (work_clock_read(&clock) > PAIR_DEADLINE_S * NS_PER_S)
				die(0, "waited %d s for a completion of exchange %d", PAIR_DEADLINE_S, number);
			work_clock_rest(20);
		}
		if (wc.status != IBV_WC_SUCCESS || (wc.wr_id != 1 && wc.wr_id != 4) || wc.qp_num != link.own.qp_num)
			die(0, "exchange %d: request %lu, status '%s', qp_num %#x on %#x", number, wc.wr_id,
			    ibv_wc_status_str(wc.status), wc.qp_num, link.own.qp_num);
	}
	if (load_word(memory + COUNTER + 8) != in->adds)
		die(0, "exchange %d: FETCH_ADD returned %lu instead of %lu", number, load_word(memory + COUNTER + 8),
		    in->adds);
	in->adds++;
	if (!pattern_matches(memory + SIZE, SIZE, base + !pair->rank, 0))
		die(0, "exchange %d: the message is damaged", number);
	if (!pattern_matches(memory + 3 * SIZE, SIZE, base + 8 + !pair->rank, 0))
		die(0, "exchange %d: the WRITE is damaged", number);
	link_post(&link, IBV_WR_RDMA_READ, 5, IBV_SEND_SIGNALED, memory, SIZE, 2 * SIZE);
	await_completion(over->cq, 5, &wc, "the READ of what the peer wrote");
	if (!pattern_matches(memory, SIZE, base + 8 + !pair->rank, 0))
		die(0, "exchange %d: the READ is damaged", number);
	pair_sync(pair, "the peer's checks");
	if (load_word(memory + COUNTER) != in->adds)
		die(0, "exchange %d: the counter is %lu instead of %lu", number, load_word(memory + COUNTER), in->adds);
	expect_no_completion(over->cq, "after an exchange");
}

void program_run(struct pair *pair)
{
	struct set old[SETS], fresh[SETS];
	int number = 0;

	for (int i = 0; i < SETS; i++)
		set_create(pair, &old[i]);
	for (int i = 0; i < EXCHANGES; i++)
		use(pair, &old[i % SETS], &old[(i + i / SETS) % SETS], number++);
	pair_ready(pair);
	for (int i = 0; i < SETS; i++) {
		set_create(pair, &fresh[i]);
		use(pair, &fresh[i], &fresh[i], number++);
		use(pair, &old[i], &old[i], number++);
	}
	for (int i = 0; i < EXCHANGES; i++) {
		use(pair, &fresh[i % SETS], &old[(i + 1) % SETS], number++);
		use(pair, &old[i % SETS], &fresh[(i + 1) % SETS], number++);
	}
	for (int i = 0; i < SETS; i++)
		set_destroy(&old[i]);
	for (int i = 0; i < EXCHANGES; i++)
		use(pair, &fresh[i % SETS], &fresh[(i + i / SETS) % SETS], number++);
	for (int i = 0; i < SETS; i++)
		set_destroy(&fresh[i]);
}
