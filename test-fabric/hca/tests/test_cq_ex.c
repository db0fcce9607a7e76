/* Extended completion queues: the poll cycle, each field, what is locked meanwhile, timestamps. */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

static struct endpoint a, b;
static struct ibv_poll_cq_attr no_attr;

/* @b receives into an extended CQ. */
static struct ibv_cq_ex *open_with(struct ibv_cq_init_attr_ex *init, const struct options *opt)
{
	struct address to_a, to_b;
	struct ibv_cq_ex *cq;

	endpoint_open(&a, opt);
	endpoint_open(&b, opt);
	init->cqe = 16;
	init->cq_context = &b;
	init->channel = b.channel;
	cq = ibv_create_cq_ex(b.ctx, init);
	CHECK(cq);
	CHECK(ibv_cq_ex_to_cq(cq)->cq_context == &b);
	CHECK_EQ(ibv_destroy_qp(b.qp), 0);
	CHECK_EQ(ibv_destroy_cq(b.recv_cq), 0);
	b.recv_cq = ibv_cq_ex_to_cq(cq);
	b.qp = endpoint_qp(&b);
	to_a = endpoint_address(&a);
	to_b = endpoint_address(&b);
	endpoint_connect(&a, &to_b);
	endpoint_connect(&b, &to_a);
	return cq;
}

static void send_some(int n)
{
	struct address to_b = endpoint_address(&b);
	int i;

	for (i = 0; i < n; i++) {
		CHECK_EQ(post_recv(&b, 100 + i, 0, 64), 0);
		CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_SEND_WITH_IMM, i, 0, 4 + i, 0, IBV_SEND_SIGNALED), 0);
		expect(a.send_cq, i, IBV_WC_SUCCESS);
	}
}

static void cycle_and_fields(void)
{
	struct ibv_cq_init_attr_ex init = { .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *cq = open_with(&init, NULL);
	struct ibv_poll_cq_attr bad = { .comp_mask = 1 };
	struct ibv_wc wc;
	int i;

	CHECK_EQ(ibv_start_poll(cq, &no_attr), ENOENT);
	send_some(3);
	CHECK_EQ(ibv_start_poll(cq, &bad), EINVAL);
	CHECK_EQ(ibv_start_poll(cq, &no_attr), 0);
	for (i = 0; i < 3; i++) {
		CHECK_EQ(cq->wr_id, 100 + i);
		CHECK_EQ(cq->status, IBV_WC_SUCCESS);
		CHECK_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
		CHECK_EQ(ibv_wc_read_byte_len(cq), 4 + i);
		CHECK_EQ(ibv_wc_read_imm_data(cq), 0x11223344);
		CHECK_EQ(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_IMM);
		CHECK_EQ(ibv_wc_read_qp_num(cq), b.qp->qp_num);
		CHECK_EQ(ibv_wc_read_src_qp(cq), a.qp->qp_num);
		CHECK_EQ(ibv_wc_read_slid(cq), a.lid);
		CHECK_EQ(ibv_wc_read_sl(cq), 0);
		CHECK_EQ(ibv_wc_read_dlid_path_bits(cq), 0);
		CHECK_EQ(ibv_wc_read_vendor_err(cq), 0);
		CHECK_EQ(ibv_next_poll(cq), i < 2 ? 0 : ENOENT);
	}
	/* What was read last stays until the end. */
	CHECK_EQ(cq->wr_id, 102);
	ibv_end_poll(cq);
	CHECK_EQ(ibv_start_poll(cq, &no_attr), ENOENT);

	/* The plain poll works on it too, after a cycle that stops early. */
	send_some(3);
	CHECK_EQ(ibv_start_poll(cq, &no_attr), 0);
	ibv_end_poll(cq);
	wc = expect(b.recv_cq, 101, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, 5);
	expect(b.recv_cq, 102, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

static void errors(void)
{
	struct ibv_cq_init_attr_ex init = { .wc_flags = IBV_WC_EX_WITH_QP_NUM };
	struct ibv_cq_ex *cq = open_with(&init, NULL);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	CHECK_EQ(post_recv(&b, 7, 0, 64), 0);
	CHECK_EQ(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	CHECK_EQ(ibv_start_poll(cq, &no_attr), 0);
	CHECK_EQ(cq->wr_id, 7);
	CHECK_EQ(cq->status, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(ibv_wc_read_qp_num(cq), b.qp->qp_num);
	CHECK(ibv_wc_read_vendor_err(cq) != 0);
	ibv_end_poll(cq);
	/* A field that was not asked for has no function. */
	CHECK(!cq->read_byte_len && !cq->read_imm_data && !cq->read_completion_ts);
	pair_close(&a, &b);
}

static void events(void)
{
	struct ibv_cq_init_attr_ex init = { .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct options opt = { .channel = true };
	struct ibv_cq_ex *cq = open_with(&init, &opt);
	struct ibv_cq *which;
	void *context;

	CHECK_EQ(ibv_req_notify_cq(b.recv_cq, 0), 0);
	send_some(1);
	await_readable(b.channel->fd, "the event of an extended CQ");
	CHECK_EQ(ibv_get_cq_event(b.channel, &which, &context), 0);
	CHECK(which == b.recv_cq && context == &b);
	ibv_ack_cq_events(which, 1);
	CHECK_EQ(ibv_start_poll(cq, &no_attr), 0);
	ibv_end_poll(cq);
	pair_close(&a, &b);
}

static void timestamps(void)
{
	struct ibv_cq_init_attr_ex init = {
		.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	struct ibv_cq_ex *cq = open_with(&init, NULL);
	struct ibv_values_ex before = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK }, after = before;
	struct ibv_device_attr_ex attr;
	struct timespec wall;
	uint64_t ts, ns;

	CHECK_EQ(ibv_query_device_ex(b.ctx, NULL, &attr), 0);
	CHECK(attr.completion_timestamp_mask && attr.hca_core_clock);
	CHECK_EQ(ibv_query_rt_values_ex(b.ctx, &before), 0);
	send_some(1);
	CHECK_EQ(ibv_query_rt_values_ex(b.ctx, &after), 0);
	usleep(2000);
	CHECK_EQ(ibv_start_poll(cq, &no_attr), 0);
	ts = ibv_wc_read_completion_ts(cq);
	CHECK(ts >= (uint64_t)before.raw_clock.tv_nsec && ts <= (uint64_t)after.raw_clock.tv_nsec);
	ns = ibv_wc_read_completion_wallclock_ns(cq);
	clock_gettime(CLOCK_REALTIME, &wall);
	CHECK(wall.tv_sec * 1000000000ULL + wall.tv_nsec - ns < 60000000000ULL);
	ibv_end_poll(cq);
	pair_close(&a, &b);
}

static void refused(void)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 4, .wc_flags = IBV_WC_EX_WITH_TM_INFO };

	endpoint_open(&a, NULL);
	CHECK(!ibv_create_cq_ex(a.ctx, &init));
	CHECK_EQ(errno, EOPNOTSUPP);
	init.wc_flags = 0;
	init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	init.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	CHECK(!ibv_create_cq_ex(a.ctx, &init));
	CHECK_EQ(errno, EOPNOTSUPP);
	init.flags = 0;
	init.cqe = 0;
	CHECK(!ibv_create_cq_ex(a.ctx, &init));
	CHECK_EQ(errno, EINVAL);
	endpoint_close(&a);
}

#define MESSAGES 4000

static int seen[MESSAGES];

static void *poll_thread(void *arg)
{
	struct ibv_cq_ex *cq = arg;
	uint64_t deadline = now_ms() + 60000;

	while (!__atomic_load_n(&seen[MESSAGES - 1], __ATOMIC_RELAXED)) {
		CHECK(now_ms() < deadline);
		if (ibv_start_poll(cq, &no_attr))
			continue;
		do {
			CHECK_EQ(cq->status, IBV_WC_SUCCESS);
			CHECK_EQ(ibv_wc_read_byte_len(cq), cq->wr_id % 60);
			__atomic_add_fetch(&seen[cq->wr_id], 1, __ATOMIC_RELAXED);
		} while (!ibv_next_poll(cq));
		ibv_end_poll(cq);
	}
	return NULL;
}

/* Two threads poll one CQ: a completion goes to one of them, and its fields with it. */
static void threads(void)
{
	struct ibv_cq_init_attr_ex init = { .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct options opt = { .min_rnr_timer = 1 };
	struct ibv_cq_ex *cq = open_with(&init, &opt);
	pthread_t thread[2];
	int i;

	for (i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, poll_thread, cq), 0);
	for (i = 0; i < MESSAGES; i++) {
		int ret;

		/* Slots come back as the others poll, the last send is answered then. */
		while ((ret = post_recv(&b, i, 0, 64)) == ENOMEM)
			sched_yield();
		CHECK_EQ(ret, 0);
		CHECK_EQ(post_send(&a, i, 0, i % 60, IBV_SEND_SIGNALED), 0);
		expect(a.send_cq, i, IBV_WC_SUCCESS);
		/* The CQ has sixteen places. */
		while (i >= 12 && !__atomic_load_n(&seen[i - 12], __ATOMIC_RELAXED))
			sched_yield();
	}
	for (i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	for (i = 0; i < MESSAGES; i++)
		CHECK_EQ(seen[i], 1);
	pair_close(&a, &b);
}

static void single_threaded(void)
{
	struct ibv_cq_init_attr_ex init = {
		.wc_flags = IBV_WC_STANDARD_FLAGS, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};
	struct ibv_cq_ex *cq = open_with(&init, NULL);

	send_some(2);
	CHECK_EQ(ibv_start_poll(cq, &no_attr), 0);
	/* Nothing is locked: the same thread may destroy a QP in between. */
	CHECK_EQ(ibv_destroy_qp(b.qp), 0);
	CHECK_EQ(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	b.qp = endpoint_qp(&b);
	pair_close(&a, &b);
}

static void delayed_and_withheld(void)
{
	struct ibv_cq_init_attr_ex init = { .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *cq;

	harness_set("SV_HCA_WITHHOLD_POLLS", "3");
	cq = open_with(&init, NULL);
	send_some(1);
	CHECK_EQ(ibv_start_poll(cq, &no_attr), ENOENT);
	CHECK_EQ(ibv_start_poll(cq, &no_attr), ENOENT);
	CHECK_EQ(ibv_start_poll(cq, &no_attr), ENOENT);
	CHECK_EQ(ibv_start_poll(cq, &no_attr), 0);
	ibv_end_poll(cq);
	pair_close(&a, &b);
	harness_set("SV_HCA_WITHHOLD_POLLS", NULL);
}

static void null_mode(void)
{
	struct ibv_cq_init_attr_ex init = { .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *cq;
	int i;

	harness_set("SV_HCA_NULL", "1");
	harness_set("SV_HCA_NULL_RECV", "1");
	cq = open_with(&init, NULL);
	CHECK_EQ(ibv_start_poll(cq, &no_attr), ENOENT);
	for (i = 0; i < 3; i++)
		CHECK_EQ(post_recv(&b, i, 0, 4), 0);
	CHECK_EQ(ibv_start_poll(cq, &no_attr), 0);
	for (i = 0; i < 3; i++) {
		CHECK_EQ(cq->wr_id, i);
		CHECK_EQ(cq->status, IBV_WC_SUCCESS);
		CHECK_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
		CHECK_EQ(ibv_wc_read_qp_num(cq), b.qp->qp_num);
		CHECK_EQ(ibv_next_poll(cq), i < 2 ? 0 : ENOENT);
	}
	ibv_end_poll(cq);
	pair_close(&a, &b);
	harness_set("SV_HCA_NULL_RECV", NULL);
	harness_set("SV_HCA_NULL", NULL);
}

int main(void)
{
	harness_start();
	RUN(cycle_and_fields);
	RUN(errors);
	RUN(events);
	RUN(timestamps);
	RUN(refused);
	RUN(threads);
	RUN(single_threaded);
	RUN(delayed_and_withheld);
	RUN(null_mode);
	return 0;
}
