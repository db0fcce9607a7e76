/* The null mode: correct enough to be measured, and how fast it is. */
#include <time.h>

#include "harness.h"

#define QPS 1024
#define MRS 4096

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

static struct ibv_qp *connected_qp(struct endpoint *ep)
{
	struct address nobody = { .lid = 1, .qpn = 1 };
	struct ibv_qp *qp = endpoint_qp(ep);

	CHECK_EQ(qp_init(ep, qp), 0);
	CHECK_EQ(qp_rtr(ep, qp, &nobody), 0);
	CHECK_EQ(qp_rts(ep, qp), 0);
	return qp;
}

/* Nanoseconds for a request posted and its completion polled, over @qps queue pairs in turn. */
static double measure(struct endpoint *ep, struct ibv_qp **qp, int qps, int rounds)
{
	struct ibv_sge sge = sge_of(ep, 0, 8);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;
	double start = now_ns();
	struct ibv_wc wc;
	int i;

	for (i = 0; i < rounds; i++) {
		wr.wr_id = i;
		CHECK_EQ(ibv_post_send(qp[i % qps], &wr, &bad), 0);
		CHECK_EQ(ibv_poll_cq(ep->send_cq, 1, &wc), 1);
		CHECK_EQ(wc.wr_id, i);
	}
	return (now_ns() - start) / rounds;
}

static void many_objects_and_speed(void)
{
	static struct ibv_qp *qp[QPS];
	static struct ibv_mr *mr[MRS];
	struct endpoint ep;
	struct ibv_wc wc;
	double start, one, many, empty;
	int i;

	harness_set("SV_HCA_NULL", "1");
	endpoint_open(&ep, NULL);
	for (i = 0; i < QPS; i++)
		qp[i] = connected_qp(&ep);
	for (i = 0; i < MRS; i++) {
		mr[i] = ibv_reg_mr(ep.pd, ep.buf, 4096, ACCESS_ALL);
		CHECK(mr[i]);
	}
	measure(&ep, qp, 1, 100000);
	one = measure(&ep, qp, 1, 1000000);
	many = measure(&ep, qp, QPS, 1000000);
	start = now_ns();
	for (i = 0; i < 1000000; i++)
		CHECK_EQ(ibv_poll_cq(ep.recv_cq, 1, &wc), 0);
	empty = (now_ns() - start) / 1000000;
	printf("  post and poll %.1f ns on 1 QP, %.1f ns on %d QPs; empty poll %.1f ns\n", one, many, QPS, empty);
	for (i = 0; i < QPS; i++)
		CHECK_EQ(ibv_destroy_qp(qp[i]), 0);
	for (i = 0; i < MRS; i++)
		CHECK_EQ(ibv_dereg_mr(mr[i]), 0);
	endpoint_close(&ep);
	harness_set("SV_HCA_NULL", NULL);
}

static void slots_and_signals(void)
{
	struct options opt = { .max_send_wr = 2 };
	struct address nobody = { .lid = 1, .qpn = 1 };
	struct endpoint ep;

	harness_set("SV_HCA_NULL", "1");
	endpoint_open(&ep, &opt);
	CHECK_EQ(post_send(&ep, 1, 0, 4, 0), EINVAL);
	endpoint_connect(&ep, &nobody);
	CHECK_EQ(post_send(&ep, 1, 0, 4, 0), 0);
	poll_none(ep.send_cq, 1);
	CHECK_EQ(post_send(&ep, 2, 0, 4, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(post_send(&ep, 3, 0, 4, IBV_SEND_SIGNALED), ENOMEM);
	expect(ep.send_cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(post_send(&ep, 3, 0, 4, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(post_recv(&ep, 4, 0, 4), 0);
	poll_none(ep.recv_cq, 1);
	endpoint_close(&ep);

	harness_set("SV_HCA_NULL_RECV", "1");
	endpoint_open(&ep, &opt);
	endpoint_connect(&ep, &nobody);
	CHECK_EQ(post_recv(&ep, 4, 0, 4), 0);
	expect(ep.recv_cq, 4, IBV_WC_SUCCESS);
	/* Completions of a QP that is gone do not come. */
	CHECK_EQ(post_recv(&ep, 5, 0, 4), 0);
	CHECK_EQ(ibv_destroy_qp(ep.qp), 0);
	poll_none(ep.recv_cq, 1);
	ep.qp = endpoint_qp(&ep);
	endpoint_close(&ep);
	harness_set("SV_HCA_NULL_RECV", NULL);
	harness_set("SV_HCA_NULL", NULL);
}

int main(void)
{
	harness_start();
	RUN(slots_and_signals);
	RUN(many_objects_and_speed);
	return 0;
}
