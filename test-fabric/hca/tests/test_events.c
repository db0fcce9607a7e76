/* Completion channels, asynchronous events, acknowledgements, resize and overrun. */
#include <fcntl.h>
#include <pthread.h>

#include "harness.h"

static struct endpoint a, b;
static struct options with_channel = { .channel = true };

static struct ibv_cq *take_event(struct endpoint *ep)
{
	struct ibv_cq *cq;
	void *context;

	await_readable(ep->channel->fd, "a completion event");
	CHECK_EQ(ibv_get_cq_event(ep->channel, &cq, &context), 0);
	CHECK(context == ep);
	return cq;
}

static void send_one(uint64_t wr_id, unsigned int flags)
{
	CHECK_EQ(post_recv(&b, wr_id, 0, 64), 0);
	CHECK_EQ(post_send(&a, wr_id, 0, 4, flags), 0);
}

static void one_event_for_one_arming(void)
{
	pair_open(&a, &b, &with_channel);
	send_one(1, IBV_SEND_SIGNALED);
	/* Not armed: nothing, and arming later does not report what is there already. */
	expect_silent(b.channel->fd, 20);
	CHECK_EQ(ibv_req_notify_cq(b.recv_cq, 0), 0);
	expect_silent(b.channel->fd, 20);
	send_one(2, IBV_SEND_SIGNALED);
	CHECK(take_event(&b) == b.recv_cq);
	send_one(3, IBV_SEND_SIGNALED);
	expect_silent(b.channel->fd, 20);
	ibv_ack_cq_events(b.recv_cq, 1);
	expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	expect(b.recv_cq, 2, IBV_WC_SUCCESS);
	expect(b.recv_cq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_req_notify_cq(a.send_cq, 0), 0);
	send_one(4, IBV_SEND_SIGNALED);
	CHECK(take_event(&a) == a.send_cq);
	ibv_ack_cq_events(a.send_cq, 1);
	pair_close(&a, &b);
}

static void solicited(void)
{
	struct address to_b;

	pair_open(&a, &b, &with_channel);
	CHECK_EQ(ibv_req_notify_cq(b.recv_cq, 1), 0);
	send_one(1, IBV_SEND_SIGNALED);
	expect_silent(b.channel->fd, 20);
	send_one(2, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	CHECK(take_event(&b) == b.recv_cq);
	ibv_ack_cq_events(b.recv_cq, 1);
	/* Errors count as solicited. */
	CHECK_EQ(ibv_req_notify_cq(a.send_cq, 1), 0);
	to_b = endpoint_address(&b);
	to_b.rkey++;
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 3, 0, 4, 0, 0), 0);
	CHECK(take_event(&a) == a.send_cq);
	ibv_ack_cq_events(a.send_cq, 1);
	pair_close(&a, &b);
}

static void non_blocking(void)
{
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *context;
	int flags;

	pair_open(&a, &b, &with_channel);
	flags = fcntl(b.channel->fd, F_GETFL);
	CHECK_EQ(fcntl(b.channel->fd, F_SETFL, flags | O_NONBLOCK), 0);
	CHECK_EQ(ibv_get_cq_event(b.channel, &cq, &context), -1);
	CHECK_EQ(errno, EAGAIN);
	flags = fcntl(b.ctx->async_fd, F_GETFL);
	CHECK_EQ(fcntl(b.ctx->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
	CHECK_EQ(ibv_get_async_event(b.ctx, &event), -1);
	CHECK_EQ(errno, EAGAIN);
	pair_close(&a, &b);
}

static void *destroy_thread(void *cq)
{
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	return NULL;
}

static void destroy_waits_for_acknowledgement(void)
{
	struct timespec soon;
	pthread_t thread;

	pair_open(&a, &b, &with_channel);
	CHECK_EQ(ibv_req_notify_cq(b.recv_cq, 0), 0);
	send_one(1, IBV_SEND_SIGNALED);
	CHECK(take_event(&b) == b.recv_cq);
	CHECK_EQ(ibv_destroy_comp_channel(b.channel), EBUSY);
	CHECK_EQ(ibv_destroy_qp(b.qp), 0);
	CHECK_EQ(pthread_create(&thread, NULL, destroy_thread, b.recv_cq), 0);
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec += 50000000;
	if (soon.tv_nsec >= 1000000000) {
		soon.tv_nsec -= 1000000000;
		soon.tv_sec++;
	}
	CHECK_EQ(pthread_timedjoin_np(thread, NULL, &soon), ETIMEDOUT);
	ibv_ack_cq_events(b.recv_cq, 1);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	b.recv_cq = ibv_create_cq(b.ctx, 4, &b, b.channel, 0);
	b.qp = endpoint_qp(&b);
	pair_close(&a, &b);
}

/* An event that was not read goes with its CQ, and the descriptor is not readable any more. */
static void unread_event_goes_with_the_cq(void)
{
	pair_open(&a, &b, &with_channel);
	CHECK_EQ(ibv_req_notify_cq(b.recv_cq, 0), 0);
	send_one(1, IBV_SEND_SIGNALED);
	await_readable(b.channel->fd, "a completion event");
	CHECK_EQ(ibv_destroy_qp(b.qp), 0);
	CHECK_EQ(ibv_destroy_cq(b.recv_cq), 0);
	expect_silent(b.channel->fd, 20);
	b.recv_cq = ibv_create_cq(b.ctx, 4, &b, b.channel, 0);
	b.qp = endpoint_qp(&b);
	pair_close(&a, &b);
}

static void *get_thread(void *arg)
{
	struct ibv_cq *cq;
	void *context;

	CHECK_EQ(ibv_get_cq_event(arg, &cq, &context), 0);
	CHECK(cq == b.recv_cq);
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

static void sleeper_wakes(void)
{
	pthread_t thread;

	pair_open(&a, &b, &with_channel);
	CHECK_EQ(ibv_req_notify_cq(b.recv_cq, 0), 0);
	CHECK_EQ(pthread_create(&thread, NULL, get_thread, b.channel), 0);
	send_one(1, IBV_SEND_SIGNALED);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	pair_close(&a, &b);
}

static void communication_established(void)
{
	struct ibv_async_event event;
	struct address to_a, to_b;

	endpoint_open(&a, NULL);
	endpoint_open(&b, NULL);
	to_a = endpoint_address(&a);
	to_b = endpoint_address(&b);
	endpoint_connect(&a, &to_b);
	CHECK_EQ(qp_init(&b, b.qp), 0);
	CHECK_EQ(qp_rtr(&b, b.qp, &to_a), 0);
	send_one(1, IBV_SEND_SIGNALED);
	await_readable(b.ctx->async_fd, "the established event");
	CHECK_EQ(ibv_get_async_event(b.ctx, &event), 0);
	CHECK_EQ(event.event_type, IBV_EVENT_COMM_EST);
	CHECK(event.element.qp == b.qp);
	ibv_ack_async_event(&event);
	pair_close(&a, &b);
}

static void resize(void)
{
	struct options opt = { .cqe = 4 };
	int i;

	pair_open(&a, &b, &opt);
	for (i = 0; i < 4; i++)
		send_one(i, 0);
	CHECK_EQ(ibv_resize_cq(b.recv_cq, 3), EINVAL);
	CHECK_EQ(ibv_resize_cq(b.recv_cq, 9), 0);
	CHECK_EQ(b.recv_cq->cqe, 9);
	for (i = 4; i < 9; i++)
		send_one(i, 0);
	for (i = 0; i < 6; i++)
		expect(b.recv_cq, i, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_resize_cq(b.recv_cq, 3), 0);
	for (i = 6; i < 9; i++)
		expect(b.recv_cq, i, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

/* Exactly cqe completions fit; one more and the CQ and its QP are broken, and the application is told. */
static void overrun(void)
{
	struct options opt = { .cqe = 4 };
	struct ibv_async_event event;
	struct address to_b;
	int i;

	pair_open(&a, &b, &opt);
	to_b = endpoint_address(&b);
	for (i = 0; i < 4; i++)
		CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, i, 0, 4, 0, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(qp_state(a.qp), IBV_QPS_RTS);
	expect_silent(a.ctx->async_fd, 5);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 4, 0, 4, 0, IBV_SEND_SIGNALED), 0);
	await_readable(a.ctx->async_fd, "the overrun event");
	CHECK_EQ(ibv_get_async_event(a.ctx, &event), 0);
	CHECK_EQ(event.event_type, IBV_EVENT_CQ_ERR);
	CHECK(event.element.cq == a.send_cq);
	ibv_ack_async_event(&event);
	CHECK_EQ(ibv_get_async_event(a.ctx, &event), 0);
	CHECK_EQ(event.event_type, IBV_EVENT_QP_FATAL);
	CHECK(event.element.qp == a.qp);
	ibv_ack_async_event(&event);
	CHECK_EQ(qp_state(a.qp), IBV_QPS_ERR);
	for (i = 0; i < 4; i++)
		expect(a.send_cq, i, IBV_WC_SUCCESS);
	poll_none(a.send_cq, 2);
	pair_close(&a, &b);
}

int main(void)
{
	harness_start();
	RUN(one_event_for_one_arming);
	RUN(solicited);
	RUN(non_blocking);
	RUN(destroy_waits_for_acknowledgement);
	RUN(unread_event_goes_with_the_cq);
	RUN(sleeper_wakes);
	RUN(communication_established);
	RUN(resize);
	RUN(overrun);
	return 0;
}
