/* Each fault setting does what README.md says, and nothing is lost or doubled by it. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"

static struct endpoint a, b;

static void set(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	harness_set(name, value ? text : NULL);
}

static void delayed_execution(void)
{
	struct address to_b;
	uint64_t start;

	set("SV_HCA_EXEC_DELAY_US", 50000);
	pair_open(&a, &b, NULL);
	set("SV_HCA_EXEC_DELAY_US", 0);
	to_b = endpoint_address(&b);
	a.buf[0] = 7;
	start = now_ms();
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 1, 0, 1, 0, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 2, 0, 1, 1, IBV_SEND_SIGNALED), 0);
	/* The device reads the buffer when it executes, not when the request is posted. */
	a.buf[0] = 9;
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	CHECK(now_ms() - start >= 50);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(b.buf[0], 9);
	CHECK_EQ(b.buf[1], 9);
	pair_close(&a, &b);
}

static void delayed_completion(void)
{
	struct options opt = { .channel = true };
	struct ibv_cq *cq;
	struct ibv_wc wc;
	uint64_t start;
	void *context;

	set("SV_HCA_COMPLETION_DELAY_US", 60000);
	pair_open(&a, &b, &opt);
	set("SV_HCA_COMPLETION_DELAY_US", 0);
	CHECK_EQ(ibv_req_notify_cq(b.recv_cq, 0), 0);
	CHECK_EQ(post_recv(&b, 1, 0, 4), 0);
	a.buf[0] = 5;
	start = now_ms();
	CHECK_EQ(post_send(&a, 1, 0, 1, IBV_SEND_SIGNALED), 0);
	/* Executed, but not told. */
	CHECK_EQ(b.buf[0], 5);
	CHECK_EQ(ibv_poll_cq(a.send_cq, 1, &wc), 0);
	await_readable(b.channel->fd, "the delayed event");
	CHECK(now_ms() - start >= 60);
	CHECK_EQ(ibv_get_cq_event(b.channel, &cq, &context), 0);
	CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 1);
	ibv_ack_cq_events(cq, 1);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

static void withheld_polls(void)
{
	struct ibv_wc wc;
	int empty = 0;

	set("SV_HCA_WITHHOLD_POLLS", 5);
	pair_open(&a, &b, NULL);
	set("SV_HCA_WITHHOLD_POLLS", 0);
	CHECK_EQ(post_recv(&b, 1, 0, 4), 0);
	CHECK_EQ(post_send(&a, 1, 0, 1, IBV_SEND_SIGNALED), 0);
	while (!ibv_poll_cq(a.send_cq, 1, &wc))
		CHECK(++empty < 100);
	CHECK_EQ(empty, 5);
	pair_close(&a, &b);
}

/* Each time that it has found nothing 1,024 times in succession. */
static void polls_rest(void)
{
	struct ibv_wc wc;
	uint64_t start;
	int i;

	set("SV_HCA_REST_US", 20000);
	pair_open(&a, &b, NULL);
	set("SV_HCA_REST_US", 0);
	start = now_ms();
	for (i = 0; i < 3 * 1024; i++)
		CHECK_EQ(ibv_poll_cq(a.send_cq, 1, &wc), 0);
	CHECK(now_ms() - start >= 60);
	pair_close(&a, &b);
}

/* Completions of different QPs change places, those of one QP do not, and all come. */
static void reordered(void)
{
	uint64_t next[2] = { 0, 0 }, last = 0, swapped = 0;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *qp[2];
	int i, n, rounds = 0;

	set("SV_HCA_REORDER", 1);
	endpoint_open(&a, NULL);
	set("SV_HCA_REORDER", 0);
	qp[0] = a.qp;
	qp[1] = endpoint_qp(&a);
	for (i = 0; i < 2; i++) {
		CHECK_EQ(qp_init(&a, qp[i]), 0);
		CHECK_EQ(ibv_modify_qp(qp[i], &attr, IBV_QP_STATE), 0);
	}
	/* Where the device completes no faster than this polls, no two ever wait together. */
	do {
		for (n = 0; n < 40; n++) {
			struct ibv_send_wr wr = { .wr_id = 40 * rounds + n, .opcode = IBV_WR_SEND }, *bad;

			CHECK_EQ(ibv_post_send(qp[n & 1], &wr, &bad), 0);
		}
		for (n = 0; n < 40; n++) {
			struct ibv_wc wc = poll_one(a.send_cq, "a reordered completion");
			int which = wc.qp_num == qp[1]->qp_num;

			CHECK_EQ(wc.wr_id, 2 * next[which] + which);
			next[which]++;
			swapped += wc.wr_id < last;
			last = wc.wr_id;
		}
		rounds++;
		CHECK_EQ(next[0], 20 * rounds);
	} while (!swapped && rounds < 100);
	CHECK(swapped);
	CHECK_EQ(ibv_destroy_qp(qp[1]), 0);
	endpoint_close(&a);
}

static void forced_rnr(void)
{
	struct options opt = { .min_rnr_timer = 20 };
	uint64_t start;

	set("SV_HCA_RNR_FORCE", 4);
	pair_open(&a, &b, &opt);
	set("SV_HCA_RNR_FORCE", 0);
	CHECK_EQ(post_recv(&b, 1, 0, 4), 0);
	start = now_ms();
	CHECK_EQ(post_send(&a, 1, 0, 4, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	/* Four times 10.24 ms. */
	CHECK(now_ms() - start >= 40);
	expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	pair_close(&a, &b);

	opt.rnr_retry = 3;
	set("SV_HCA_RNR_FORCE", 4);
	pair_open(&a, &b, &opt);
	set("SV_HCA_RNR_FORCE", 0);
	CHECK_EQ(post_recv(&b, 1, 0, 4), 0);
	CHECK_EQ(post_send(&a, 1, 0, 4, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	pair_close(&a, &b);
}

/* With rnr_kick the sender does not wait out a timer of 655 ms once a receive is there. */
static void kicked_rnr(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .min_rnr_timer = 0 };
	uint64_t start;

	set("SV_HCA_RNR_KICK", 1);
	pair_open(&a, &b, NULL);
	set("SV_HCA_RNR_KICK", 0);
	CHECK_EQ(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER), 0);
	CHECK_EQ(post_send(&a, 1, 0, 4, IBV_SEND_SIGNALED), 0);
	start = now_ms();
	CHECK_EQ(post_recv(&b, 1, 0, 4), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	CHECK(now_ms() - start < 400);
	pair_close(&a, &b);
}

static void slow_peer(void)
{
	struct address to_b;
	uint64_t start;

	set("SV_HCA_SLOW_PEER_US", 30000);
	pair_open(&a, &b, NULL);
	set("SV_HCA_SLOW_PEER_US", 0);
	to_b = endpoint_address(&b);
	start = now_ms();
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 1, 0, 1, 0, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 2, 0, 1, 0, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	CHECK(now_ms() - start >= 60);
	pair_close(&a, &b);
}

static void post_fails_now_and_then(void)
{
	struct address to_b;
	int i, failed = 0;

	set("SV_HCA_ENOMEM_EVERY", 3);
	pair_open(&a, &b, NULL);
	set("SV_HCA_ENOMEM_EVERY", 0);
	to_b = endpoint_address(&b);
	for (i = 0; i < 30; i++) {
		int ret = post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, i, 0, 1, 0, IBV_SEND_SIGNALED);

		CHECK(ret == 0 || ret == ENOMEM);
		failed += ret == ENOMEM;
	}
	CHECK_EQ(failed, 10);
	pair_close(&a, &b);
}

static void expect_fatal(void)
{
	struct ibv_async_event event;

	await_readable(a.ctx->async_fd, "the fatal event");
	CHECK_EQ(ibv_get_async_event(a.ctx, &event), 0);
	CHECK_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&event);
}

static void device_disappears(void)
{
	struct options opt = { .timeout = 12, .retry_cnt = 1 };
	struct address to_b, to_a;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	set("SV_HCA_FATAL_AFTER", 3);
	pair_open(&a, &b, &opt);
	set("SV_HCA_FATAL_AFTER", 0);
	to_a = endpoint_address(&a);
	to_b = endpoint_address(&b);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 1, 0, 1, 0, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 2, 0, 1, 0, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 3, 0, 1, 0, IBV_SEND_SIGNALED), EIO);
	expect_fatal();
	/* What was complete can be polled, all else fails, and the peer gets no answer. */
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), EIO);
	CHECK(!ibv_alloc_pd(a.ctx));
	CHECK_EQ(errno, EIO);
	CHECK_EQ(post_recv(&a, 1, 0, 1), EIO);
	CHECK_EQ(post_rdma(&b, &to_a, IBV_WR_RDMA_WRITE, 4, 0, 1, 0, IBV_SEND_SIGNALED), 0);
	expect(b.send_cq, 4, IBV_WC_RETRY_EXC_ERR);
	pair_close(&a, &b);
}

static int fabricctl(const char *arguments)
{
	char self[PATH_MAX], command[PATH_MAX + 128];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	CHECK(n > 0);
	self[n] = 0;
	*strrchr(self, '/') = 0;
	snprintf(command, sizeof(command), "%s/../bin/fabricctl %s", self, arguments);
	return system(command);
}

static void by_fabricctl(void)
{
	struct options elsewhere = { .device = 1 };
	struct ibv_async_event event;
	struct address to_a, to_b;
	char text[64];
	uint64_t start;

	harness_set("SV_HCA_DEVICES", "2");
	endpoint_open(&a, NULL);
	endpoint_open(&b, &elsewhere);
	to_a = endpoint_address(&a);
	to_b = endpoint_address(&b);
	endpoint_connect(&a, &to_b);
	endpoint_connect(&b, &to_a);
	snprintf(text, sizeof(text), "event %u port_err", a.lid);
	CHECK_EQ(fabricctl(text), 0);
	await_readable(a.ctx->async_fd, "the port event");
	CHECK_EQ(ibv_get_async_event(a.ctx, &event), 0);
	CHECK_EQ(event.event_type, IBV_EVENT_PORT_ERR);
	CHECK_EQ(event.element.port_num, 1);
	ibv_ack_async_event(&event);
	expect_silent(b.ctx->async_fd, 5);

	snprintf(text, sizeof(text), "set %u slow_peer_us=30000", b.lid);
	CHECK_EQ(fabricctl(text), 0);
	start = now_ms();
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 1, 0, 1, 0, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	CHECK(now_ms() - start >= 30);

	snprintf(text, sizeof(text), "event %u device_fatal", a.lid);
	CHECK_EQ(fabricctl(text), 0);
	expect_fatal();
	pair_close(&a, &b);
	harness_set("SV_HCA_DEVICES", NULL);
	CHECK(fabricctl("event 1 no_such_event 2>/dev/null"));
	CHECK(fabricctl("2>/dev/null"));
}

int main(void)
{
	harness_start();
	RUN(delayed_execution);
	RUN(delayed_completion);
	RUN(withheld_polls);
	RUN(polls_rest);
	RUN(reordered);
	RUN(forced_rnr);
	RUN(kicked_rnr);
	RUN(slow_peer);
	RUN(post_fails_now_and_then);
	RUN(device_disappears);
	RUN(by_fabricctl);
	return 0;
}
