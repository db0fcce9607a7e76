/* Packet pacing: what the device says, when a limit may be set, that it holds and that it ends. */
#include "harness.h"

#define BYTES 4096

static int limit(struct ibv_qp *qp, uint32_t rate, uint32_t burst, uint16_t packet)
{
	struct ibv_qp_rate_limit_attr attr = { .rate_limit = rate, .max_burst_sz = burst, .typical_pkt_sz = packet };

	return ibv_modify_qp_rate_limit(qp, &attr);
}

static uint32_t rate_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.rate_limit;
}

static void what_the_device_says(void)
{
	struct ibv_device_attr_ex attr;
	struct endpoint a, b;

	harness_set("SV_HCA_RATE_LIMIT_MIN", "10");
	harness_set("SV_HCA_RATE_LIMIT_MAX", "1000");
	pair_open(&a, &b, NULL);
	CHECK_EQ(ibv_query_device_ex(a.ctx, NULL, &attr), 0);
	CHECK_EQ(attr.packet_pacing_caps.qp_rate_limit_min, 10);
	CHECK_EQ(attr.packet_pacing_caps.qp_rate_limit_max, 1000);
	CHECK_EQ(attr.packet_pacing_caps.supported_qpts, 1 << IBV_QPT_RC | 1 << IBV_QPT_UC | 1 << IBV_QPT_UD);
	CHECK_EQ(limit(a.qp, 9, 0, 0), EINVAL);
	CHECK_EQ(limit(a.qp, 1001, 0, 0), EINVAL);
	CHECK_EQ(limit(a.qp, 0, 64, 0), EINVAL);
	CHECK_EQ(rate_of(a.qp), 0);
	CHECK_EQ(limit(a.qp, 1000, 64, 64), 0);
	CHECK_EQ(rate_of(a.qp), 1000);
	CHECK_EQ(limit(a.qp, 0, 0, 0), 0);
	CHECK_EQ(rate_of(a.qp), 0);
	pair_close(&a, &b);
	harness_set("SV_HCA_RATE_LIMIT_MIN", NULL);
	harness_set("SV_HCA_RATE_LIMIT_MAX", "0");
	pair_open(&a, &b, NULL);
	CHECK_EQ(ibv_query_device_ex(a.ctx, NULL, &attr), 0);
	CHECK_EQ(attr.packet_pacing_caps.supported_qpts, 0);
	CHECK_EQ(limit(a.qp, 100, 0, 0), EOPNOTSUPP);
	pair_close(&a, &b);
	harness_set("SV_HCA_RATE_LIMIT_MAX", NULL);
}

static void in_which_states(void)
{
	struct ibv_qp_attr attr = { .rate_limit = 5000 };
	struct endpoint a, b;
	struct address to_b;

	endpoint_open(&a, NULL);
	endpoint_open(&b, NULL);
	to_b = endpoint_address(&b);
	CHECK_EQ(limit(a.qp, 5000, 0, 0), EINVAL);
	CHECK_EQ(qp_init(&a, a.qp), 0);
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_RATE_LIMIT), EINVAL);
	CHECK_EQ(qp_rtr(&a, a.qp, &to_b), 0);
	CHECK_EQ(limit(a.qp, 5000, 0, 0), EINVAL);
	CHECK_EQ(qp_rts(&a, a.qp), 0);
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_RATE_LIMIT), 0);
	CHECK_EQ(rate_of(a.qp), 5000);
	attr.qp_state = IBV_QPS_RESET;
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	CHECK_EQ(rate_of(a.qp), 0);
	endpoint_close(&a);
	endpoint_close(&b);
}

/* Milliseconds that so many messages take, at least. */
static uint64_t duration(struct endpoint *a, struct endpoint *b, int messages)
{
	uint64_t begin = now_ms();
	int i;

	for (i = 0; i < messages; i++)
		CHECK_EQ(post_recv(b, i, 0, BYTES), 0);
	for (i = 0; i < messages; i++)
		CHECK_EQ(post_send(a, i, 0, BYTES, IBV_SEND_SIGNALED), 0);
	for (i = 0; i < messages; i++)
		expect(a->send_cq, i, IBV_WC_SUCCESS);
	for (i = 0; i < messages; i++)
		expect(b->recv_cq, i, IBV_WC_SUCCESS);
	return now_ms() - begin;
}

static void it_holds_and_ends(void)
{
	struct endpoint a, b;

	pair_open(&a, &b, NULL);
	/* The first goes at once, each of the others when the one before is paid for: 32768 bits at 800 in a ms are 40.96 ms. */
	CHECK_EQ(limit(a.qp, 800, 0, 0), 0);
	CHECK(duration(&a, &b, 5) >= 4 * 40);
	/* A debt is not taken along, and so much goes on credit. */
	CHECK_EQ(limit(a.qp, 800, 2 * BYTES, 0), 0);
	CHECK(duration(&a, &b, 5) >= 2 * 40);
	/* At 1 kbit/s the second message would wait for half a minute. */
	CHECK_EQ(limit(a.qp, 1, 0, 0), 0);
	CHECK_EQ(post_recv(&b, 1, 0, BYTES), 0);
	CHECK_EQ(post_recv(&b, 2, 0, BYTES), 0);
	CHECK_EQ(post_send(&a, 1, 0, BYTES, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(post_send(&a, 2, 0, BYTES, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	poll_none(a.send_cq, 50);
	CHECK_EQ(limit(a.qp, 0, 0, 0), 0);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	expect(b.recv_cq, 2, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

int main(void)
{
	harness_start();
	RUN(what_the_device_says);
	RUN(in_which_states);
	RUN(it_holds_and_ends);
	return 0;
}
