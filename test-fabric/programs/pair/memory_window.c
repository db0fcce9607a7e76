/*
 * memory-window: windows that were bound, and were used by the peer; behind a SEND that waits for a receive, a window
 * that is to be bound and one that is to lose its memory. What was bound must still be there, with its rkey; what was
 * not done must be done later, once.
 *
 * type-2: requests, and invalidation by the peer. type-1: ibv_bind_mw. invalid: type-2, and LOCAL_INV behind the SEND.
 */
#include <errno.h>
#include <string.h>

#include "pair.h"

#define PART 4096
#define PARTS 4

const char *const program_name = "memory-window";
const char *const program_modes[] = { "type-2", "type-1", "invalid", NULL };

static bool type_1;

static struct ibv_mw *allocate(struct pair *pair)
{
	struct ibv_mw *mw = ibv_alloc_mw(pair->endpoint.pd, type_1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);

	if (!mw)
		die(errno, "ibv_alloc_mw");
	return mw;
}

static void deallocate(struct ibv_mw *mw)
{
	int err = ibv_dealloc_mw(mw);

	if (err)
		die(err, "ibv_dealloc_mw");
}

/* In front of a part of the area; with part -1 in front of nothing. */
static void bind(struct link *link, struct area *area, struct ibv_mw *mw, int part, uint64_t wr_id)
{
	struct ibv_mw_bind_info info = { 0 };
	int err;

	if (part >= 0)
		info = (struct ibv_mw_bind_info){ area->mr, (uintptr_t)area->memory + part * PART, PART,
						  IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };
	if (type_1) {
		struct ibv_mw_bind request = { .wr_id = wr_id, .send_flags = IBV_SEND_SIGNALED, .bind_info = info };

		err = ibv_bind_mw(link->qp, mw, &request);
	} else {
		struct ibv_send_wr *bad, wr = { .wr_id = wr_id, .opcode = IBV_WR_BIND_MW,
						.send_flags = IBV_SEND_SIGNALED };

		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info = info;
		err = ibv_post_send(link->qp, &wr, &bad);
		mw->rkey = wr.bind_mw.rkey;
	}
	if (err)
		die(err, "bind %ld", (long)wr_id);
}

static void invalidate(struct link *link, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t wr_id)
{
	struct ibv_send_wr *bad, wr = { .wr_id = wr_id, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
					.invalidate_rkey = rkey };
	int err = ibv_post_send(link->qp, &wr, &bad);

	if (err)
		die(err, "invalidation %ld", (long)wr_id);
}

static void await_opcode(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_opcode opcode, const char *what)
{
	struct ibv_wc wc;

	await_completion(cq, wr_id, &wc, what);
	if (wc.opcode != opcode)
		die(0, "%s: opcode %d", what, wc.opcode);
}

static void await_failure(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status, const char *what)
{
	struct work_clock clock;
	struct ibv_wc wc;

	work_clock_start(&clock);
	while (!ibv_poll_cq(cq, 1, &wc))
		if (work_clock_read(&clock) > PAIR_DEADLINE_S * NS_PER_S)
			die(0, "waited %d s for the failure of %s", PAIR_DEADLINE_S, what);
	if (wc.wr_id != wr_id || wc.status != status)
		die(0, "%s: request %ld, status '%s'", what, (long)wc.wr_id, ibv_wc_status_str(wc.status));
}

static uint32_t tell(struct pair *pair, uint32_t rkey, const char *what)
{
	uint32_t theirs;

	pair_exchange(pair, what, &rkey, &theirs, sizeof(rkey));
	return theirs;
}

/* Each writes a pattern through the other's window, and looks at what came through the own one. */
static void use(struct pair *pair, struct link *link, struct area *area, struct ibv_cq *cq, uint32_t rkey, int part,
		int seed)
{
	struct link through = *link;
	unsigned char *here = area->memory + PARTS * PART;

	through.rkey = rkey;
	pattern_fill(here, PART, seed, 0);
	link_post(&through, IBV_WR_RDMA_WRITE, 1000 + seed, IBV_SEND_SIGNALED, here, PART, part * PART);
	await_opcode(cq, 1000 + seed, IBV_WC_RDMA_WRITE, "a WRITE through a window");
	pair_sync(pair, "the peer's WRITE");
	if (!pattern_matches(area->memory + part * PART, PART, seed, 0))
		die(0, "what came through window %d is damaged", part);
	memset(area->memory + part * PART, POISON, PART);
	pair_sync(pair, "the peer's look at it");
}

/* Rank 0 finds that there is nothing behind the window any more; that breaks the connection. */
static void use_in_vain(struct pair *pair, struct link *link, struct area *area, struct ibv_cq *cq, uint32_t rkey,
			int part)
{
	struct link through = *link;

	through.rkey = rkey;
	if (pair->rank == 0) {
		link_post(&through, IBV_WR_RDMA_WRITE, 5, IBV_SEND_SIGNALED, area->memory, 64, part * PART);
		await_failure(cq, 5, IBV_WC_REM_ACCESS_ERR, "a WRITE through a window that is invalid");
	}
	pair_sync(pair, "the WRITE in vain");
	if (!is_poison(area->memory + part * PART, PART))
		die(0, "something came through a window that is invalid");
}

void program_run(struct pair *pair)
{
	bool local = !strcmp(pair->mode, "invalid");
	struct ibv_cq *send_cq = endpoint_create_cq(&pair->endpoint, 64, NULL);
	struct ibv_cq *receive_cq = endpoint_create_cq(&pair->endpoint, 16, NULL);
	struct link_wishes wishes = {
		.send_cq = send_cq, .receive_cq = receive_cq, .max_send = 16, .max_receive = 8, .access = ACCESS_ALL,
	};
	struct ibv_mw *first, *second, *third;
	uint32_t first_there, second_there, third_there;
	struct link link, blocked;
	struct area area;
	struct ibv_wc wc;

	type_1 = !strcmp(pair->mode, "type-1");
	area_create(pair, &area, (PARTS + 1) * PART, ACCESS_ALL | IBV_ACCESS_MW_BIND);
	link_create(pair, &link, &wishes, &area);
	link_create(pair, &blocked, &wishes, &area);
	first = allocate(pair);
	second = allocate(pair);
	third = allocate(pair);
	/* Bound, and used; the second is bound twice, and of the third nothing is known yet. */
	bind(&link, &area, first, 0, 1);
	await_opcode(send_cq, 1, IBV_WC_BIND_MW, "the first bind");
	bind(&blocked, &area, second, 1, 2);
	await_opcode(send_cq, 2, IBV_WC_BIND_MW, "the second bind");
	first_there = tell(pair, first->rkey, "the first window");
	second_there = tell(pair, second->rkey, "the second window");
	use(pair, &link, &area, send_cq, first_there, 0, 1);
	use(pair, &blocked, &area, send_cq, second_there, 1, 2);
	/* Behind a SEND that waits for a receive. */
	link_post(&blocked, IBV_WR_SEND, 10, IBV_SEND_SIGNALED, area.memory, 0, 0);
	bind(&blocked, &area, third, 2, 11);
	if (local)
		invalidate(&blocked, IBV_WR_LOCAL_INV, second->rkey, 12);
	else if (type_1)
		bind(&blocked, &area, second, -1, 12);
	/* Done, and not read. */
	link_post(&link, IBV_WR_RDMA_READ, 13, IBV_SEND_SIGNALED, area.memory + 3 * PART, 64, 3 * PART);
	pair_ready(pair);
	await_opcode(send_cq, 13, IBV_WC_RDMA_READ, "the READ");
	use(pair, &link, &area, send_cq, first_there, 0, 3);
	link_receive(&blocked, 20, area.memory, 0);
	await_opcode(send_cq, 10, IBV_WC_SEND, "the SEND that waited");
	await_opcode(send_cq, 11, IBV_WC_BIND_MW, "the bind behind it");
	if (local || type_1)
		await_opcode(send_cq, 12, local ? IBV_WC_LOCAL_INV : IBV_WC_BIND_MW, "the change behind that");
	await_completion(receive_cq, 20, &wc, "the message that waited");
	third_there = tell(pair, third->rkey, "the third window");
	use(pair, &blocked, &area, send_cq, third_there, 2, 4);
	if (!local && !type_1) {
		use(pair, &blocked, &area, send_cq, second_there, 1, 5);
		link_receive(&blocked, 21, area.memory, 0);
		pair_sync(pair, "the peer's receive");
		invalidate(&blocked, IBV_WR_SEND_WITH_INV, second_there, 22);
		await_opcode(send_cq, 22, IBV_WC_SEND, "SEND_WITH_INV");
		await_completion(receive_cq, 21, &wc, "the peer's SEND_WITH_INV");
		if (!(wc.wc_flags & IBV_WC_WITH_INV) || wc.invalidated_rkey != second->rkey)
			die(0, "the peer has invalidated %#x instead of %#x", wc.invalidated_rkey, second->rkey);
	}
	use(pair, &link, &area, send_cq, first_there, 0, 6);
	use_in_vain(pair, &blocked, &area, send_cq, second_there, 1);
	/* A window goes on to be of use. */
	bind(&link, &area, first, type_1 ? -1 : 0, 30);
	/* It was bound, and has not been invalidated. */
	if (!type_1)
		await_failure(send_cq, 30, IBV_WC_MW_BIND_ERR, "a bind of a window that is bound");
	else
		await_opcode(send_cq, 30, IBV_WC_BIND_MW, "the last bind");
	pair_sync(pair, "the end");
	deallocate(first);
	deallocate(second);
	deallocate(third);
	link_destroy(&blocked);
	link_destroy(&link);
	area_destroy(&area);
	cq_destroy(send_cq);
	cq_destroy(receive_cq);
}
