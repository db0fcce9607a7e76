/* Timers: RNR with the responder's timer and the requester's count, and a peer that does not answer. */
#include "harness.h"

/* A crowded machine runs us late by that much. */
#define LATE_MS 3000

static struct endpoint a, b;

static void rnr_is_retried_for_ever(void)
{
	struct options opt = { .rnr_retry = 7, .min_rnr_timer = 1 };

	pair_open(&a, &b, &opt);
	CHECK_EQ(post_send(&a, 1, 0, 4, IBV_SEND_SIGNALED), 0);
	poll_none(a.send_cq, 50);
	CHECK_EQ(post_recv(&b, 2, 0, 4), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	expect(b.recv_cq, 2, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

/* Three attempts more, 81.92 ms apart; then the request fails and nothing arrives. */
static void rnr_count(void)
{
	struct options opt = { .rnr_retry = 3, .min_rnr_timer = 26 };
	uint64_t start;

	pair_open(&a, &b, &opt);
	start = now_ms();
	CHECK_EQ(post_send(&a, 1, 0, 4, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(post_send(&a, 2, 0, 4, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	CHECK(now_ms() - start >= 3 * 81);
	CHECK(now_ms() - start < 3 * 81 + LATE_MS);
	expect(a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(qp_state(a.qp), IBV_QPS_ERR);
	/* The responder noticed nothing. */
	CHECK_EQ(qp_state(b.qp), IBV_QPS_RTS);
	CHECK_EQ(post_recv(&b, 2, 0, 4), 0);
	poll_none(b.recv_cq, 5);
	pair_close(&a, &b);
}

/* The field value 0 is the longest timer, and RTS to RTS changes it. */
static void longest_timer_by_modify(void)
{
	struct options opt = { .rnr_retry = 1, .min_rnr_timer = 1 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .min_rnr_timer = 0 };
	uint64_t start;

	pair_open(&a, &b, &opt);
	CHECK_EQ(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER), 0);
	start = now_ms();
	CHECK_EQ(post_send(&a, 1, 0, 4, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(post_recv(&b, 2, 0, 4), 0);
	/* The receive is there at once, but the requester waits its timer out. */
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	CHECK(now_ms() - start >= 655);
	CHECK(now_ms() - start < 655 + LATE_MS);
	pair_close(&a, &b);
}

static void count_starts_again(void)
{
	struct options opt = { .rnr_retry = 1, .min_rnr_timer = 20 };
	int i;

	pair_open(&a, &b, &opt);
	for (i = 0; i < 3; i++) {
		CHECK_EQ(post_send(&a, i, 0, 4, IBV_SEND_SIGNALED), 0);
		CHECK_EQ(post_recv(&b, i, 0, 4), 0);
		expect(a.send_cq, i, IBV_WC_SUCCESS);
	}
	pair_close(&a, &b);
}

static void only_receives_wait(void)
{
	struct options opt = { .min_rnr_timer = 26 };
	struct address to_b;
	uint64_t *word;

	pair_open(&a, &b, &opt);
	to_b = endpoint_address(&b);
	word = (uint64_t *)b.buf;
	/* An atomic runs, unseen; then a SEND waits; what is behind it waits with it. */
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8, 8, 0, 0), 0);
	CHECK_EQ(post_send(&a, 2, 0, 4, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 8, 8, 0, IBV_SEND_SIGNALED), 0);
	poll_none(a.send_cq, 10);
	CHECK_EQ(__atomic_load_n(word, __ATOMIC_ACQUIRE), 5);
	CHECK_EQ(post_recv(&b, 4, 100, 4), 0);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	expect(a.send_cq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(__atomic_load_n(word, __ATOMIC_ACQUIRE), 10);
	pair_close(&a, &b);
}

/* Time-out 14 is 67 ms; two retries are three waits. */
static void peer_is_not_there(void)
{
	struct options opt = { .retry_cnt = 2, .timeout = 14 };
	struct address nobody = { .lid = 0xbfff, .qpn = 77, .psn = 5 };
	uint64_t start;

	endpoint_open(&a, &opt);
	endpoint_connect(&a, &nobody);
	start = now_ms();
	CHECK_EQ(post_send(&a, 1, 0, 4, 0), 0);
	expect(a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	CHECK(now_ms() - start >= 3 * 67);
	CHECK(now_ms() - start < 3 * 67 + LATE_MS);
	endpoint_close(&a);
}

static void peer_gets_ready_late(void)
{
	struct address to_a, to_b;

	endpoint_open(&a, NULL);
	endpoint_open(&b, NULL);
	to_a = endpoint_address(&a);
	to_b = endpoint_address(&b);
	endpoint_connect(&a, &to_b);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 1, 0, 4, 0, IBV_SEND_SIGNALED), 0);
	poll_none(a.send_cq, 10);
	CHECK_EQ(qp_init(&b, b.qp), 0);
	poll_none(a.send_cq, 80);
	CHECK_EQ(qp_rtr(&b, b.qp, &to_a), 0);
	/* Ready to receive is enough. */
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

static void silent(void (*spoil)(struct address *to_a, struct address *to_b))
{
	struct options opt = { .retry_cnt = 1, .timeout = 12 };
	struct address to_a, to_b;

	endpoint_open(&a, &opt);
	endpoint_open(&b, &opt);
	to_a = endpoint_address(&a);
	to_b = endpoint_address(&b);
	spoil(&to_a, &to_b);
	endpoint_connect(&a, &to_b);
	endpoint_connect(&b, &to_a);
	CHECK_EQ(post_send(&a, 1, 0, 4, 0), 0);
	expect(a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	pair_close(&a, &b);
}

static void spoil_lid(struct address *to_a, struct address *to_b)
{
	(void)to_b;
	to_a->lid ^= 1;
}

static void spoil_qpn(struct address *to_a, struct address *to_b)
{
	(void)to_b;
	to_a->qpn ^= 1;
}

static void spoil_psn(struct address *to_a, struct address *to_b)
{
	(void)to_b;
	to_a->psn++;
}

/* A responder that expects another peer, or another sequence number, does not answer. */
static void mismatched_connections(void)
{
	silent(spoil_lid);
	silent(spoil_qpn);
	silent(spoil_psn);
}

static void peer_in_error(void)
{
	struct options opt = { .retry_cnt = 1, .timeout = 12 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	pair_open(&a, &b, &opt);
	CHECK_EQ(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	CHECK_EQ(post_send(&a, 1, 0, 4, 0), 0);
	expect(a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	pair_close(&a, &b);
}

static void peer_closes(void)
{
	struct options opt = { .retry_cnt = 1, .timeout = 12 };

	pair_open(&a, &b, &opt);
	CHECK_EQ(post_recv(&b, 1, 0, 4), 0);
	CHECK_EQ(post_send(&a, 1, 0, 4, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	endpoint_close(&b);
	CHECK_EQ(post_send(&a, 2, 0, 4, 0), 0);
	expect(a.send_cq, 2, IBV_WC_RETRY_EXC_ERR);
	endpoint_close(&a);
}

static void gid_routes(void)
{
	struct options opt = { .retry_cnt = 1, .timeout = 12 };
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .max_dest_rd_atomic = 1,
		.ah_attr = { .port_num = 1, .is_global = 1 },
	};
	const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	struct address to_a, to_b;
	int wrong;

	for (wrong = 0; wrong < 2; wrong++) {
		endpoint_open(&a, &opt);
		endpoint_open(&b, &opt);
		to_a = endpoint_address(&a);
		to_b = endpoint_address(&b);
		endpoint_connect(&b, &to_a);
		CHECK_EQ(ibv_query_gid(b.ctx, 1, 1, &attr.ah_attr.grh.dgid), 0);
		attr.ah_attr.grh.dgid.raw[15] ^= wrong;
		attr.ah_attr.dlid = b.lid;
		attr.dest_qp_num = to_b.qpn;
		attr.rq_psn = to_b.psn;
		CHECK_EQ(qp_init(&a, a.qp), 0);
		CHECK_EQ(ibv_modify_qp(a.qp, &attr, mask), 0);
		CHECK_EQ(qp_rts(&a, a.qp), 0);
		CHECK_EQ(post_recv(&b, 1, 0, 4), 0);
		CHECK_EQ(post_send(&a, 1, 0, 4, IBV_SEND_SIGNALED), 0);
		expect(a.send_cq, 1, wrong ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
		pair_close(&a, &b);
	}
}

int main(void)
{
	harness_start();
	RUN(rnr_is_retried_for_ever);
	RUN(rnr_count);
	RUN(longest_timer_by_modify);
	RUN(count_starts_again);
	RUN(only_receives_wait);
	RUN(peer_is_not_there);
	RUN(peer_gets_ready_late);
	RUN(mismatched_connections);
	RUN(peer_in_error);
	RUN(peer_closes);
	RUN(gid_routes);
	return 0;
}
