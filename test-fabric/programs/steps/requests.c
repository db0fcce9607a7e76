/* The steps that post requests and poll completions, each in two ways. */
#include "steps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/die.h"
#include "../common/extended.h"
#include "../common/work_clock.h"

#define POLL_SECONDS 60

/* way: 1 is ibv_wr_*; to: of XRC the shared receive queue. */
static void post(uint64_t k, struct ibv_send_wr *wr, uint64_t m, uint64_t at, uint64_t length, uint64_t way, uint64_t to)
{
	struct ibv_sge sge = { (uintptr_t)memory[slot(m, SLOTS)] + at, length, MR(m)->lkey };
	struct ibv_send_wr *bad;
	uint32_t number;

	wr->wr_id = line_number;
	wr->sg_list = &sge;
	wr->num_sge = 1;
	/* Fenced: else a read may see what a later write puts there. */
	wr->send_flags |= IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	if (QP(k)->qp_type == IBV_QPT_XRC_SEND) {
		if (ibv_get_srq_num(SRQ(to), &number))
			die(errno, "ibv_get_srq_num");
		wr->qp_type.xrc.remote_srqn = number;
	}
	result(verbs_way(way)->post(QP(k), wr, &bad));
}

static void post_rdma(const uint64_t *a, enum ibv_wr_opcode opcode, uint64_t immediate, uint64_t way, uint64_t to)
{
	struct ibv_send_wr wr = { .opcode = opcode, .imm_data = htobe32(immediate) };

	wr.wr.rdma.remote_addr = (uintptr_t)memory[slot(a[4], SLOTS)] + a[5];
	wr.wr.rdma.rkey = MR(a[4])->rkey;
	post(a[0], &wr, a[1], a[2], a[3], way, to);
}

static void post_atomic(const uint64_t *a, enum ibv_wr_opcode opcode, uint64_t swap, uint64_t way, uint64_t to)
{
	struct ibv_send_wr wr = { .opcode = opcode };

	wr.wr.atomic.remote_addr = (uintptr_t)memory[slot(a[3], SLOTS)] + a[4];
	wr.wr.atomic.rkey = MR(a[3])->rkey;
	wr.wr.atomic.compare_add = a[5];
	wr.wr.atomic.swap = swap;
	post(a[0], &wr, a[1], a[2], 8, way, to);
}

static void post_send(const uint64_t *a)
{
	struct ibv_send_wr wr = { .opcode = a[4] ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, .imm_data = htobe32(a[4]),
				  .send_flags = a[5] ? IBV_SEND_INLINE : 0 };

	if (QP(a[0])->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = AH(a[8]);
		wr.wr.ud.remote_qpn = QP(a[7])->qp_num;
		wr.wr.ud.remote_qkey = ENDPOINT_QKEY;
	}
	post(a[0], &wr, a[1], a[2], a[3], a[6], a[7]);
}

/* Of the receives, by the numbers of their lines. */
static uint8_t region_of[LINES];

static void post_recv(const uint64_t *a)
{
	char *where = memory[slot(a[1], SLOTS)];
	struct ibv_sge sges[] = {
		{ (uintptr_t)where + HEADER(line_number), ROUTE_SIZE, MR(a[1])->lkey }, { (uintptr_t)where + a[2], a[3], MR(a[1])->lkey },
	};
	bool datagrams = QP(a[0])->qp_type == IBV_QPT_UD;
	struct ibv_recv_wr wr = { .wr_id = line_number, .sg_list = sges + !datagrams, .num_sge = 1 + datagrams }, *bad;

	region_of[line_number] = a[1];
	result(ibv_post_recv(QP(a[0]), &wr, &bad));
}

static void post_srq_recv(const uint64_t *a)
{
	struct ibv_sge sge = { (uintptr_t)memory[slot(a[1], SLOTS)] + a[2], a[3], MR(a[1])->lkey };
	struct ibv_recv_wr wr = { .wr_id = line_number, .sg_list = &sge, .num_sge = 1 }, *bad;

	result(ibv_post_srq_recv(SRQ(a[0]), &wr, &bad));
}

/* Between queue pairs there is no order, and none between the two queues of one. */
static int by_queue(const void *left, const void *right)
{
	const struct ibv_wc *a = left, *b = right;
	unsigned ka = qp_of(a->qp_num), kb = qp_of(b->qp_num);

	return ka != kb ? (ka > kb) - (ka < kb) : (a->wr_id > b->wr_id) - (a->wr_id < b->wr_id);
}

static void print_completion(const struct ibv_wc *wc)
{
	printf("%llu:   qp %u, request %llu: %s", (unsigned long long)line_number, qp_of(wc->qp_num),
	       (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status));
	/* Nothing else means anything after an error. */
	if (wc->status == IBV_WC_SUCCESS) {
		printf(", opcode %d, flags %u", wc->opcode, wc->wc_flags);
		if (wc->opcode & IBV_WC_RECV)
			printf(", %u bytes from qp %u", wc->byte_len, qp_of(wc->src_qp));
		if ((wc->opcode & IBV_WC_RECV) && QP(qp_of(wc->qp_num))->qp_type == IBV_QPT_UD)
			printf(", route %s", route_says(memory[region_of[wc->wr_id]] + HEADER(wc->wr_id), &endpoint.gid,
							&endpoint.gid) ? "own" : "STRANGE");
		if (wc->wc_flags & IBV_WC_WITH_IMM)
			printf(", immediate %u", be32toh(wc->imm_data));
	}
	putchar('\n');
}

static void poll_completions(uint64_t c, uint64_t count, uint64_t way)
{
	struct ibv_wc wcs[4 * QPS * DEPTH];
	struct work_clock clock;
	uint64_t got = 0;

	if (count > sizeof(wcs) / sizeof(wcs[0]))
		die(0, "%s:%llu: too many completions", file, (unsigned long long)line_number);
	work_clock_start(&clock);
	while (got < count) {
		int n = verbs_way(way)->poll(CQ(c), count - got, wcs + got);

		if (n < 0)
			die(0, "%s:%llu: a poll returned %d", file, (unsigned long long)line_number, n);
		got += n;
		if (n)
			continue;
		if (work_clock_read(&clock) > POLL_SECONDS * NS_PER_S)
			die(0, "%s:%llu: %llu of %llu completions came within %d s", file,
			    (unsigned long long)line_number, (unsigned long long)got, (unsigned long long)count,
			    POLL_SECONDS);
		work_clock_rest(100);
	}
	qsort(wcs, got, sizeof(wcs[0]), by_queue);
	for (uint64_t i = 0; i < got; i++)
		print_completion(&wcs[i]);
}

bool request_step(const char *verb, const uint64_t *a)
{
	if (!strcmp(verb, "send"))
		post_send(a);
	else if (!strcmp(verb, "recv"))
		post_recv(a);
	else if (!strcmp(verb, "srecv"))
		post_srq_recv(a);
	else if (!strcmp(verb, "write"))
		post_rdma(a, a[6] ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, a[6], a[7], a[8]);
	else if (!strcmp(verb, "read"))
		post_rdma(a, IBV_WR_RDMA_READ, 0, a[6], a[7]);
	else if (!strcmp(verb, "add"))
		post_atomic(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, a[6], a[7]);
	else if (!strcmp(verb, "swap"))
		post_atomic(a, IBV_WR_ATOMIC_CMP_AND_SWP, a[6], a[7], a[8]);
	else if (!strcmp(verb, "poll"))
		poll_completions(a[0], a[1], a[2]);
	else
		return false;
	return true;
}
