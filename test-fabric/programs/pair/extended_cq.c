/*
 * extended-cq: completions of an extended completion queue, some of them unread, and a poll that was started and not
 * ended. They must come out later, all of them once, in order and with all fields.
 *
 * plain: fields that an ibv_wc has. timestamps: also the time of each completion.
 */
#include <errno.h>
#include <string.h>

#include "pair.h"

#define MESSAGES 32
#define READ_BEFORE 5
#define SIZE 128
#define LANDED (2 * MESSAGES * SIZE)
#define FIELDS (IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP | \
		IBV_WC_EX_WITH_SLID)

const char *const program_name = "extended-cq";
const char *const program_modes[] = { "plain", "timestamps", NULL };

struct queue {
	struct ibv_cq_ex *cq;
	struct link *link;
	struct area *area;
	uint64_t last;			/* timestamp */
};

static struct ibv_cq_ex *create(struct pair *pair, int entries)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = entries, .wc_flags = FIELDS };
	struct ibv_cq_ex *cq;

	if (!strcmp(pair->mode, "timestamps"))
		attr.wc_flags |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	cq = ibv_create_cq_ex(pair->endpoint.context, &attr);
	if (!cq)
		die(errno, "ibv_create_cq_ex with wc_flags %#lx", (long)attr.wc_flags);
	return cq;
}

static int start(struct queue *queue)
{
	struct ibv_poll_cq_attr attr = { 0 };

	return ibv_start_poll(queue->cq, &attr);
}

static uint32_t size_of(int number)
{
	return number % SIZE + 1;
}

static void check_common(struct queue *queue, int number)
{
	struct ibv_cq_ex *cq = queue->cq;

	if (cq->status != IBV_WC_SUCCESS || cq->wr_id != (uint64_t)number)
		die(0, "completion of request %#lx with status '%s' instead of request %d", (long)cq->wr_id,
		    ibv_wc_status_str(cq->status), number);
	if (ibv_wc_read_qp_num(cq) != queue->link->own.qp_num)
		die(0, "completion %d is of qp_num %#x", number, ibv_wc_read_qp_num(cq));
	if (cq->read_completion_ts) {
		uint64_t now = ibv_wc_read_completion_ts(cq);

		if (!now || now < queue->last)
			die(0, "completion %d was at %lu, the one before at %lu", number, (long)now, (long)queue->last);
		queue->last = now;
	}
}

static void check_send(struct queue *queue, int number)
{
	check_common(queue, number);
	if (ibv_wc_read_opcode(queue->cq) != IBV_WC_SEND)
		die(0, "send completion %d has opcode %d", number, ibv_wc_read_opcode(queue->cq));
}

static void check_receive(struct queue *queue, int number)
{
	unsigned char *memory = queue->area->memory + (MESSAGES + number % MESSAGES) * SIZE;
	struct ibv_cq_ex *cq = queue->cq;
	uint32_t length;

	check_common(queue, number);
	length = ibv_wc_read_byte_len(cq);
	if (length != size_of(number) || ibv_wc_read_opcode(cq) != IBV_WC_RECV ||
	    !(ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM) || ibv_wc_read_imm_data(cq) != (uint32_t)number ||
	    ibv_wc_read_src_qp(cq) != queue->link->peer.qp_num || ibv_wc_read_slid(cq) != queue->link->peer.lid)
		die(0, "receive completion %d: %u bytes, opcode %d, flags %#x, src_qp %#x, slid %#x", number, length,
		    ibv_wc_read_opcode(cq), ibv_wc_read_wc_flags(cq), ibv_wc_read_src_qp(cq), ibv_wc_read_slid(cq));
	if (!pattern_matches(memory, length, number, 0) || !is_poison(memory + length, SIZE - length))
		die(0, "message %d is damaged", number);
}

/* Polls [from, to), in pieces of a few; the poll is ended, but for the last piece when `leave_open`. */
static void poll(struct queue *queue, int from, int to, void (*check)(struct queue *queue, int number), bool leave_open)
{
	struct work_clock clock;

	work_clock_start(&clock);
	while (from < to) {
		int piece = 0;

		if (start(queue)) {
			if (work_clock_read(&clock) > PAIR_DEADLINE_S * NS_PER_S)
				die(0, "waited %d s for completion %d", PAIR_DEADLINE_S, from);
			work_clock_rest(50);
			continue;
		}
		do
			check(queue, from++);
		while (from < to && ++piece < 3 && !ibv_next_poll(queue->cq));
		if (from < to || !leave_open)
			ibv_end_poll(queue->cq);
	}
}

static void post_sends(struct link *link, struct area *area, int from, int to)
{
	for (int i = from; i < to; i++) {
		unsigned char *memory = area->memory + i % MESSAGES * SIZE;

		pattern_fill(memory, size_of(i), i, 0);
		link_post(link, IBV_WR_SEND_WITH_IMM, i, IBV_SEND_SIGNALED, memory, size_of(i), 0);
	}
}

static void post_receives(struct link *link, struct area *area, int from, int to)
{
	memset(area->memory + MESSAGES * SIZE, POISON, MESSAGES * SIZE);
	for (int i = from; i < to; i++)
		link_receive(link, i, area->memory + (MESSAGES + i % MESSAGES) * SIZE, SIZE);
}

static void expect_nothing(struct queue *queue, const char *what)
{
	if (!start(queue))
		die(0, "%s: there is a completion, request %#lx", what, (long)queue->cq->wr_id);
}

void program_run(struct pair *pair)
{
	struct link link;
	struct area area;
	struct queue send = { create(pair, MESSAGES + 1), &link, &area, 0 };
	struct queue receive = { create(pair, MESSAGES), &link, &area, 0 };
	struct link_wishes wishes = {
		.send_cq = ibv_cq_ex_to_cq(send.cq), .receive_cq = ibv_cq_ex_to_cq(receive.cq),
		.max_send = MESSAGES + 1, .max_receive = MESSAGES, .access = ACCESS_ALL,
	};

	area_create(pair, &area, LANDED + 64, ACCESS_ALL);
	link_create(pair, &link, &wishes, &area);
	post_receives(&link, &area, 0, MESSAGES);
	pair_sync(pair, "the peer's receives");
	post_sends(&link, &area, 0, MESSAGES);
	/* Behind all the others: when its bytes are here, so are the completions of the receives. */
	store_word(area.memory + LANDED + 8, MESSAGES);
	link_post(&link, IBV_WR_RDMA_WRITE, MESSAGES, 0, area.memory + LANDED + 8, 8, LANDED);
	await_word(area.memory + LANDED, MESSAGES, "the peer's last WRITE");
	poll(&send, 0, READ_BEFORE, check_send, false);
	poll(&receive, 0, READ_BEFORE, check_receive, true);
	pair_ready(pair);
	/* In the midst of a poll: what it stood at is still there. */
	check_receive(&receive, READ_BEFORE - 1);
	if (ibv_next_poll(receive.cq))
		die(0, "no completion behind that of the poll that was left open");
	check_receive(&receive, READ_BEFORE);
	ibv_end_poll(receive.cq);
	poll(&send, READ_BEFORE, MESSAGES, check_send, false);
	poll(&receive, READ_BEFORE + 1, MESSAGES, check_receive, false);
	expect_nothing(&send, "behind the unread sends");
	expect_nothing(&receive, "behind the unread receives");
	/* Made anew elsewhere, the clock may be another. */
	send.last = receive.last = 0;
	post_receives(&link, &area, MESSAGES, 2 * MESSAGES);
	pair_sync(pair, "the peer's new receives");
	post_sends(&link, &area, MESSAGES, 2 * MESSAGES);
	poll(&send, MESSAGES, 2 * MESSAGES, check_send, false);
	poll(&receive, MESSAGES, 2 * MESSAGES, check_receive, false);
	pair_sync(pair, "the peer's checks");
	expect_nothing(&send, "after all");
	expect_nothing(&receive, "after all");
	link_destroy(&link);
	area_destroy(&area);
	cq_destroy(ibv_cq_ex_to_cq(send.cq));
	cq_destroy(ibv_cq_ex_to_cq(receive.cq));
}
