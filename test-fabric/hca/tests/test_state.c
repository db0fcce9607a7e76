/* The state machine of a QP: what each transition needs and refuses, and what the states do to the queues. */
#include "harness.h"

#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_MASK (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | \
		  IBV_QP_MAX_QP_RD_ATOMIC)

static int modify(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static void each_attribute_is_required(void)
{
	struct ibv_qp_attr attr = { .port_num = 1, .path_mtu = IBV_MTU_1024, .dest_qp_num = 5,
				    .ah_attr = { .dlid = 9, .port_num = 1 }, .timeout = 14 };
	static const struct { enum ibv_qp_state state; int mask; } steps[] = {
		{ IBV_QPS_INIT, INIT_MASK }, { IBV_QPS_RTR, RTR_MASK }, { IBV_QPS_RTS, RTS_MASK },
	};
	struct endpoint a;
	unsigned int i, bit;

	endpoint_open(&a, NULL);
	for (i = 0; i < 3; i++) {
		attr.qp_state = steps[i].state;
		for (bit = 1; bit < 21; bit++) {
			if (steps[i].mask & (1 << bit)) {
				CHECK_EQ(ibv_modify_qp(a.qp, &attr, steps[i].mask & ~(1 << bit)), EINVAL);
			}
		}
		/* A queue key is of no use to a reliable connection. */
		CHECK_EQ(ibv_modify_qp(a.qp, &attr, steps[i].mask | IBV_QP_QKEY), EINVAL);
		CHECK_EQ(ibv_modify_qp(a.qp, &attr, steps[i].mask), 0);
		CHECK_EQ(a.qp->state, steps[i].state);
		CHECK_EQ(qp_state(a.qp), steps[i].state);
	}
	endpoint_close(&a);
}

static void order_of_states(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .timeout = 14 };
	struct endpoint a, b;
	struct address to_b;

	endpoint_open(&a, NULL);
	endpoint_open(&b, NULL);
	to_b = endpoint_address(&b);
	CHECK_EQ(qp_rtr(&a, a.qp, &to_b), EINVAL);
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, RTS_MASK), EINVAL);
	CHECK_EQ(post_recv(&a, 1, 0, 4), EINVAL);
	CHECK_EQ(post_send(&a, 1, 0, 4, 0), EINVAL);
	CHECK_EQ(qp_init(&a, a.qp), 0);
	CHECK_EQ(post_recv(&a, 1, 0, 4), 0);
	CHECK_EQ(post_send(&a, 1, 0, 4, 0), EINVAL);
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, RTS_MASK), EINVAL);
	CHECK_EQ(qp_rtr(&a, a.qp, &to_b), 0);
	CHECK_EQ(post_send(&a, 1, 0, 4, 0), EINVAL);
	CHECK_EQ(qp_rts(&a, a.qp), 0);
	attr.cur_qp_state = IBV_QPS_SQD;
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
	CHECK_EQ(modify(a.qp, IBV_QPS_INIT), EINVAL);
	CHECK_EQ(modify(a.qp, IBV_QPS_RESET), 0);
	/* The kernel's table has no step from here to ERR. */
	CHECK_EQ(modify(a.qp, IBV_QPS_ERR), EINVAL);
	CHECK_EQ(qp_init(&a, a.qp), 0);
	CHECK_EQ(modify(a.qp, IBV_QPS_ERR), 0);
	CHECK_EQ(modify(a.qp, IBV_QPS_ERR), 0);
	CHECK_EQ(modify(a.qp, IBV_QPS_INIT), EINVAL);
	CHECK_EQ(modify(a.qp, IBV_QPS_RTS), EINVAL);
	CHECK_EQ(modify(a.qp, IBV_QPS_RESET), 0);
	endpoint_close(&a);
	endpoint_close(&b);
}

/* In which states a step to another is refused, whatever is given with it. */
static void no_other_steps(void)
{
	static const bool steps[IBV_QPS_ERR + 1][IBV_QPS_ERR + 1] = {
		[IBV_QPS_RESET] = { [IBV_QPS_RESET] = true, [IBV_QPS_INIT] = true },
		[IBV_QPS_INIT] = { [IBV_QPS_RESET] = true, [IBV_QPS_INIT] = true, [IBV_QPS_RTR] = true, [IBV_QPS_ERR] = true },
		[IBV_QPS_RTR] = { [IBV_QPS_RESET] = true, [IBV_QPS_RTS] = true, [IBV_QPS_ERR] = true },
		[IBV_QPS_RTS] = { [IBV_QPS_RESET] = true, [IBV_QPS_RTS] = true, [IBV_QPS_SQD] = true, [IBV_QPS_ERR] = true },
		[IBV_QPS_SQD] = { [IBV_QPS_RESET] = true, [IBV_QPS_RTS] = true, [IBV_QPS_SQD] = true, [IBV_QPS_ERR] = true },
		[IBV_QPS_ERR] = { [IBV_QPS_RESET] = true, [IBV_QPS_ERR] = true },
	};
	static const int masks[] = { IBV_QP_STATE, INIT_MASK, RTR_MASK, RTS_MASK };
	struct ibv_qp_attr attr = { .port_num = 1, .path_mtu = IBV_MTU_1024, .dest_qp_num = 5,
				    .ah_attr = { .dlid = 9, .port_num = 1 }, .timeout = 14 };
	static const enum ibv_qp_state way[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD };
	int from, to;
	unsigned int i;

	for (from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++) {
		for (to = IBV_QPS_RESET; to <= IBV_QPS_ERR && from != IBV_QPS_SQE; to++) {
			struct endpoint a;
			bool taken = false;

			endpoint_open(&a, NULL);
			for (i = 0; i < 4 && from != IBV_QPS_RESET; i++) {
				attr.qp_state = way[i];
				CHECK_EQ(ibv_modify_qp(a.qp, &attr, i < 3 ? masks[i + 1] : IBV_QP_STATE), 0);
				if ((int)way[i] == from)
					break;
			}
			if (from == IBV_QPS_ERR)
				CHECK_EQ(modify(a.qp, IBV_QPS_ERR), 0);
			CHECK_EQ(qp_state(a.qp), from);
			attr.qp_state = to;
			for (i = 0; i < 4 && !taken; i++)
				taken = !ibv_modify_qp(a.qp, &attr, masks[i]);
			if (taken != steps[from][to])
				fprintf(stderr, "from %d to %d\n", from, to);
			CHECK_EQ(taken, steps[from][to]);
			endpoint_close(&a);
		}
	}
}

static void bad_values(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 2 };
	struct endpoint a;
	struct address peer = { 0 };

	endpoint_open(&a, NULL);
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, INIT_MASK), EINVAL);
	attr.port_num = 1;
	attr.pkey_index = 128;
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, INIT_MASK), EINVAL);
	CHECK_EQ(qp_init(&a, a.qp), 0);
	CHECK_EQ(qp_rtr(&a, a.qp, &peer), EINVAL);
	peer.lid = 0xc001;
	CHECK_EQ(qp_rtr(&a, a.qp, &peer), EINVAL);
	peer.lid = 5;
	peer.qpn = 0x1000000;
	CHECK_EQ(qp_rtr(&a, a.qp, &peer), EINVAL);
	CHECK_EQ(qp_state(a.qp), IBV_QPS_INIT);
	endpoint_close(&a);
}

static void error_flushes_in_order(void)
{
	struct endpoint a, b;
	int i;

	pair_open(&a, &b, NULL);
	for (i = 0; i < 5; i++)
		CHECK_EQ(post_recv(&a, 100 + i, 0, 4), 0);
	/* The first waits for a receive, the others behind it. */
	for (i = 0; i < 5; i++)
		CHECK_EQ(post_send(&a, i, 0, 4, i == 2 ? IBV_SEND_SIGNALED : 0), 0);
	poll_none(a.send_cq, 2);
	CHECK_EQ(modify(a.qp, IBV_QPS_ERR), 0);
	for (i = 0; i < 5; i++) {
		expect(a.send_cq, i, IBV_WC_WR_FLUSH_ERR);
		expect(a.recv_cq, 100 + i, IBV_WC_WR_FLUSH_ERR);
	}
	CHECK_EQ(post_recv(&a, 9, 0, 4), 0);
	expect(a.recv_cq, 9, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(post_send(&a, 9, 0, 4, 0), 0);
	expect(a.send_cq, 9, IBV_WC_WR_FLUSH_ERR);
	pair_close(&a, &b);
}

static void reset_forgets(void)
{
	struct endpoint a, b;
	struct address to_b;

	pair_open(&a, &b, NULL);
	to_b = endpoint_address(&b);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 1, 0, 4, 0, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(post_send(&a, 2, 0, 4, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(post_recv(&a, 3, 0, 4), 0);
	/* The WRITE is complete but not polled: to RESET takes its completion away too, as mlx5 does. */
	CHECK_EQ(modify(a.qp, IBV_QPS_RESET), 0);
	poll_none(a.send_cq, 2);
	poll_none(a.recv_cq, 2);
	pair_close(&a, &b);
}

static void reuse_after_reset(void)
{
	struct endpoint a, b;
	struct address to_a, to_b;

	pair_open(&a, &b, NULL);
	to_a = endpoint_address(&a);
	to_b = endpoint_address(&b);
	CHECK_EQ(post_recv(&b, 1, 0, 64), 0);
	CHECK_EQ(post_send(&a, 1, 0, 4, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(modify(a.qp, IBV_QPS_RESET), 0);
	CHECK_EQ(modify(b.qp, IBV_QPS_RESET), 0);
	poll_none(b.recv_cq, 1);
	endpoint_connect(&a, &to_b);
	endpoint_connect(&b, &to_a);
	CHECK_EQ(post_recv(&b, 2, 0, 64), 0);
	CHECK_EQ(post_send(&a, 2, 0, 4, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	expect(b.recv_cq, 2, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

static void send_queue_drained(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_async_event event;
	struct endpoint a, b;
	struct address to_b;

	pair_open(&a, &b, NULL);
	to_b = endpoint_address(&b);
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	await_readable(a.ctx->async_fd, "the drained event");
	CHECK_EQ(ibv_get_async_event(a.ctx, &event), 0);
	CHECK_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
	ibv_ack_async_event(&event);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 1, 0, 4, 0, IBV_SEND_SIGNALED), 0);
	poll_none(a.send_cq, 5);
	CHECK_EQ(modify(a.qp, IBV_QPS_RTS), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

/* A request that waits out an RNR timer is under way: it ends before the queue is drained, the next does not begin. */
static void drained_after_what_is_under_way(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct options opt = { .min_rnr_timer = 20 };
	struct ibv_qp_init_attr init;
	struct ibv_async_event event;
	struct endpoint a, b;
	struct address to_b;

	pair_open(&a, &b, &opt);
	to_b = endpoint_address(&b);
	CHECK_EQ(post_send(&a, 1, 0, 4, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 2, 0, 4, 0, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	expect_silent(a.ctx->async_fd, 30);
	CHECK_EQ(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.sq_draining, 1);
	CHECK_EQ(post_recv(&b, 3, 0, 4), 0);
	await_readable(a.ctx->async_fd, "the drained event");
	CHECK_EQ(ibv_get_async_event(a.ctx, &event), 0);
	CHECK_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
	ibv_ack_async_event(&event);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	poll_none(a.send_cq, 5);
	CHECK_EQ(modify(a.qp, IBV_QPS_RTS), 0);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

static void destroy_purges(void)
{
	struct endpoint a, b;
	struct address to_b;
	struct ibv_qp *other;

	pair_open(&a, &b, NULL);
	to_b = endpoint_address(&b);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 1, 0, 4, 0, IBV_SEND_SIGNALED), 0);
	other = endpoint_qp(&a);
	CHECK_EQ(qp_init(&a, other), 0);
	CHECK_EQ(modify(other, IBV_QPS_ERR), 0);
	{
		struct ibv_send_wr wr = { .wr_id = 50, .opcode = IBV_WR_SEND }, *bad;

		CHECK_EQ(ibv_post_send(other, &wr, &bad), 0);
	}
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 2, 0, 4, 0, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(ibv_destroy_qp(other), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	poll_none(a.send_cq, 2);
	pair_close(&a, &b);
}

int main(void)
{
	harness_start();
	RUN(each_attribute_is_required);
	RUN(order_of_states);
	RUN(no_other_steps);
	RUN(bad_values);
	RUN(error_flushes_in_order);
	RUN(reset_forgets);
	RUN(reuse_after_reset);
	RUN(send_queue_drained);
	RUN(drained_after_what_is_under_way);
	RUN(destroy_purges);
	return 0;
}
