/* Shared receive queues: order, slots, the limit, the last-WQE event, resizing, destruction, many consumers. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static struct endpoint a, b;
static struct options srq4 = { .srq_wr = 4 };

/* A second connection between @a and @b, on the same queues. */
static void second_pair(struct ibv_qp **qa, struct ibv_qp **qb)
{
	struct endpoint a2 = a, b2 = b;
	struct address to_a, to_b;

	a2.qp = *qa = endpoint_qp(&a);
	b2.qp = *qb = endpoint_qp(&b);
	to_a = endpoint_address(&a2);
	to_b = endpoint_address(&b2);
	endpoint_connect(&a2, &to_b);
	endpoint_connect(&b2, &to_a);
}

static void two_qps_share(void)
{
	struct endpoint a2;
	struct ibv_qp *qb2;
	struct ibv_wc wc;
	int i;

	pair_open(&a, &b, &srq4);
	a2 = a;
	second_pair(&a2.qp, &qb2);
	for (i = 0; i < 4; i++)
		CHECK_EQ(post_srq_recv(&b, i, 1024 * i, 1024), 0);
	CHECK_EQ(post_srq_recv(&b, 4, 0, 4), ENOMEM);
	CHECK_EQ(post_recv(&b, 4, 0, 4), EINVAL);
	for (i = 0; i < 4; i++) {
		memset(a.buf, 'a' + i, 100);
		CHECK_EQ(post_send(i & 1 ? &a2 : &a, i, 0, 100, IBV_SEND_SIGNALED), 0);
		expect(a.send_cq, i, IBV_WC_SUCCESS);
	}
	/* In the order in which they were posted, whichever QP took them. */
	for (i = 0; i < 4; i++) {
		wc = expect(b.recv_cq, i, IBV_WC_SUCCESS);
		CHECK_EQ(wc.qp_num, i & 1 ? qb2->qp_num : b.qp->qp_num);
		CHECK_EQ(wc.byte_len, 100);
		CHECK_EQ(b.buf[1024 * i + 99], 'a' + i);
		/* Each polled completion gives a slot back. */
		CHECK_EQ(post_srq_recv(&b, 10 + i, 0, 4), 0);
		CHECK_EQ(post_srq_recv(&b, 20, 0, 4), ENOMEM);
	}
	CHECK_EQ(ibv_destroy_srq(b.srq), EBUSY);
	CHECK_EQ(ibv_destroy_qp(a2.qp), 0);
	CHECK_EQ(ibv_destroy_qp(qb2), 0);
	CHECK_EQ(ibv_destroy_srq(b.srq), EBUSY);
	pair_close(&a, &b);
}

static void empty_is_rnr(void)
{
	struct options opt = { .srq_wr = 4, .min_rnr_timer = 1 };

	pair_open(&a, &b, &opt);
	CHECK_EQ(post_send(&a, 1, 0, 4, IBV_SEND_SIGNALED), 0);
	poll_none(a.send_cq, 20);
	CHECK_EQ(post_srq_recv(&b, 2, 0, 4), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	expect(b.recv_cq, 2, IBV_WC_SUCCESS);
	pair_close(&a, &b);

	/* With the setting, posting wakes the sender: the timer alone would take 492 ms. */
	opt.min_rnr_timer = 31;
	harness_set("SV_HCA_RNR_KICK", "1");
	pair_open(&a, &b, &opt);
	CHECK_EQ(post_send(&a, 1, 0, 4, IBV_SEND_SIGNALED), 0);
	poll_none(a.send_cq, 5);
	{
		uint64_t start = now_ms();

		CHECK_EQ(post_srq_recv(&b, 2, 0, 4), 0);
		expect(a.send_cq, 1, IBV_WC_SUCCESS);
		CHECK(now_ms() - start < 400);
	}
	pair_close(&a, &b);
	harness_set("SV_HCA_RNR_KICK", NULL);
}

static void limit_event(void)
{
	struct ibv_srq_attr attr = { .srq_limit = 5 };
	struct ibv_async_event event;
	int i;

	pair_open(&a, &b, &srq4);
	CHECK_EQ(ibv_modify_srq(b.srq, &attr, IBV_SRQ_LIMIT), EINVAL);
	attr.srq_limit = 3;
	CHECK_EQ(ibv_modify_srq(b.srq, &attr, 1 << 5), EINVAL);
	for (i = 0; i < 4; i++)
		CHECK_EQ(post_srq_recv(&b, i, 0, 64), 0);
	CHECK_EQ(ibv_modify_srq(b.srq, &attr, IBV_SRQ_LIMIT), 0);
	CHECK_EQ(ibv_query_srq(b.srq, &attr), 0);
	CHECK_EQ(attr.srq_limit, 3);
	CHECK_EQ(attr.max_wr, 4);
	CHECK_EQ(attr.max_sge, 4);
	/* COMM_EST of the QP is no concern here: it is in RTS. */
	CHECK_EQ(post_send(&a, 1, 0, 4, IBV_SEND_SIGNALED), 0);
	expect(b.recv_cq, 0, IBV_WC_SUCCESS);
	expect_silent(b.ctx->async_fd, 5);
	CHECK_EQ(post_send(&a, 2, 0, 4, IBV_SEND_SIGNALED), 0);
	event = await_async(&b, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(event.element.srq == b.srq);
	CHECK(event.element.srq->srq_context == &b);
	/* Once: it has to be armed again. */
	CHECK_EQ(ibv_query_srq(b.srq, &attr), 0);
	CHECK_EQ(attr.srq_limit, 0);
	CHECK_EQ(post_send(&a, 3, 0, 4, IBV_SEND_SIGNALED), 0);
	expect_silent(b.ctx->async_fd, 5);
	attr.srq_limit = 1;
	CHECK_EQ(ibv_modify_srq(b.srq, &attr, IBV_SRQ_LIMIT), 0);
	CHECK_EQ(post_send(&a, 4, 0, 4, IBV_SEND_SIGNALED), 0);
	await_async(&b, IBV_EVENT_SRQ_LIMIT_REACHED);
	pair_close(&a, &b);
}

static void *destroy_thread(void *arg)
{
	CHECK_EQ(ibv_destroy_srq(arg), 0);
	return NULL;
}

static void destroy_waits_for_acknowledgement(void)
{
	struct ibv_srq_attr attr = { .srq_limit = 1 };
	struct ibv_async_event event;
	pthread_t thread;

	pair_open(&a, &b, &srq4);
	CHECK_EQ(ibv_modify_srq(b.srq, &attr, IBV_SRQ_LIMIT), 0);
	CHECK_EQ(post_srq_recv(&b, 1, 0, 64), 0);
	CHECK_EQ(post_send(&a, 1, 0, 4, 0), 0);
	await_readable(b.ctx->async_fd, "the limit event");
	CHECK_EQ(ibv_get_async_event(b.ctx, &event), 0);
	CHECK_EQ(ibv_destroy_qp(b.qp), 0);
	CHECK_EQ(pthread_create(&thread, NULL, destroy_thread, b.srq), 0);
	usleep(20000);
	CHECK(pthread_tryjoin_np(thread, NULL) == EBUSY);
	ibv_ack_async_event(&event);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	b.srq = NULL;
	b.qp = endpoint_qp(&b);
	pair_close(&a, &b);
}

/* A QP that fails takes nothing more, flushes nothing of the SRQ and says so, once. */
static void last_wqe_reached(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_async_event event;

	pair_open(&a, &b, &srq4);
	CHECK_EQ(post_srq_recv(&b, 1, 0, 64), 0);
	CHECK_EQ(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	event = await_async(&b, IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK(event.element.qp == b.qp);
	CHECK_EQ(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	expect_silent(b.ctx->async_fd, 5);
	poll_none(b.recv_cq, 2);
	/* Through RESET it can be reported anew. */
	attr.qp_state = IBV_QPS_RESET;
	CHECK_EQ(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	CHECK_EQ(qp_init(&b, b.qp), 0);
	attr.qp_state = IBV_QPS_ERR;
	CHECK_EQ(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	await_async(&b, IBV_EVENT_QP_LAST_WQE_REACHED);
	pair_close(&a, &b);
}

/* The failure comes from the peer: its request is bad, our engine finds out. */
static void last_wqe_after_a_remote_error(void)
{
	pair_open(&a, &b, &srq4);
	CHECK_EQ(post_srq_recv(&b, 1, 0, 4), 0);
	CHECK_EQ(post_srq_recv(&b, 2, 0, 64), 0);
	CHECK_EQ(post_send(&a, 1, 0, 64, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	expect(b.recv_cq, 1, IBV_WC_LOC_LEN_ERR);
	await_async(&b, IBV_EVENT_QP_LAST_WQE_REACHED);
	poll_none(b.recv_cq, 2);
	pair_close(&a, &b);
}

/* Completions that go with their QP give their slots back. */
static void purged_completions_free_slots(void)
{
	int i;

	pair_open(&a, &b, &srq4);
	for (i = 0; i < 4; i++) {
		CHECK_EQ(post_srq_recv(&b, i, 0, 64), 0);
		CHECK_EQ(post_send(&a, i, 0, 4, 0), 0);
	}
	CHECK_EQ(post_srq_recv(&b, 9, 0, 64), ENOMEM);
	CHECK_EQ(ibv_destroy_qp(b.qp), 0);
	for (i = 0; i < 4; i++)
		CHECK_EQ(post_srq_recv(&b, i, 0, 64), 0);
	b.qp = endpoint_qp(&b);
	pair_close(&a, &b);
}

static void resize(void)
{
	struct ibv_srq_attr attr = { .max_wr = 3 };
	int i;

	pair_open(&a, &b, &srq4);
	for (i = 0; i < 4; i++)
		CHECK_EQ(post_srq_recv(&b, i, 64 * i, 64), 0);
	CHECK_EQ(ibv_modify_srq(b.srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	attr.max_wr = 9;
	CHECK_EQ(ibv_modify_srq(b.srq, &attr, IBV_SRQ_MAX_WR), 0);
	for (; i < 9; i++)
		CHECK_EQ(post_srq_recv(&b, i, 64 * i, 64), 0);
	CHECK_EQ(post_srq_recv(&b, i, 0, 64), ENOMEM);
	for (i = 0; i < 9; i++) {
		a.buf[0] = i + 1;
		CHECK_EQ(post_send(&a, i, 0, 4, IBV_SEND_SIGNALED), 0);
		expect(a.send_cq, i, IBV_WC_SUCCESS);
		expect(b.recv_cq, i, IBV_WC_SUCCESS);
		CHECK_EQ(b.buf[64 * i], i + 1);
	}
	pair_close(&a, &b);
}

static void bad_arguments(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1 << 20, .max_sge = 1 } };
	struct ibv_srq_init_attr_ex ex = {
		.attr = { .max_wr = 4, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD, .srq_type = IBV_SRQT_BASIC,
	};
	struct ibv_recv_wr wr = { .num_sge = 5 }, *bad = NULL;
	struct ibv_sge sge[5];
	struct ibv_srq *srq;

	pair_open(&a, &b, &srq4);
	CHECK(!ibv_create_srq(a.pd, &init));
	CHECK_EQ(errno, EINVAL);
	wr.sg_list = sge;
	CHECK_EQ(ibv_post_srq_recv(a.srq, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	ex.pd = a.pd;
	srq = ibv_create_srq_ex(a.ctx, &ex);
	CHECK(srq);
	CHECK_EQ(ibv_dealloc_pd(a.pd), EBUSY);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	ex.srq_type = IBV_SRQT_TM;
	CHECK(!ibv_create_srq_ex(a.ctx, &ex));
	CHECK_EQ(errno, EOPNOTSUPP);
	pair_close(&a, &b);
}

#define SENDERS 4
#define MESSAGES 3000

static void *sender_thread(void *arg)
{
	struct endpoint *ep = arg;
	int i;

	for (i = 0; i < MESSAGES; i++) {
		CHECK_EQ(post_send(ep, i, 0, 64, IBV_SEND_SIGNALED), 0);
		expect(ep->send_cq, i, IBV_WC_SUCCESS);
	}
	return NULL;
}

/* Every receive is used once, however many take from the queue at the same time. */
static void many_senders(void)
{
	struct options opt = { .srq_wr = 16, .min_rnr_timer = 1, .channel = true };
	static struct endpoint sender[SENDERS], receiver[SENDERS];
	uint32_t posted = 0, seen[SENDERS] = { 0 };
	pthread_t thread[SENDERS];
	uint8_t used[16] = { 0 };
	int i;

	endpoint_open(&b, &opt);
	for (i = 0; i < SENDERS; i++) {
		struct address to_a, to_b;

		endpoint_open(&sender[i], NULL);
		receiver[i] = b;
		if (i)
			receiver[i].qp = endpoint_qp(&b);
		to_a = endpoint_address(&sender[i]);
		to_b = endpoint_address(&receiver[i]);
		endpoint_connect(&receiver[i], &to_a);
		endpoint_connect(&sender[i], &to_b);
	}
	for (; posted < 16; posted++)
		CHECK_EQ(post_srq_recv(&b, posted % 16, 64 * (posted % 16), 64), 0);
	for (i = 0; i < SENDERS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, sender_thread, &sender[i]), 0);
	for (i = 0; i < SENDERS * MESSAGES; i++) {
		struct ibv_wc wc = poll_one(b.recv_cq, "a message");
		int s;

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		for (s = 0; wc.qp_num != receiver[s].qp->qp_num; s++)
			CHECK(s < SENDERS - 1);
		seen[s]++;
		used[wc.wr_id]++;
		CHECK_EQ(post_srq_recv(&b, wc.wr_id, 64 * wc.wr_id, 64), 0);
	}
	for (i = 0; i < SENDERS; i++) {
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
		CHECK_EQ(seen[i], MESSAGES);
		if (i)
			CHECK_EQ(ibv_destroy_qp(receiver[i].qp), 0);
		endpoint_close(&sender[i]);
	}
	endpoint_close(&b);
}

/* A sender that dies at the three places where the shared queue is half changed; the next one is served. */
static void killed_in_the_middle(void)
{
	int down[2], up[2], point;

	for (point = 1; point <= 3; point++) {
		struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
		struct address to_a, to_b;
		char text[2] = { '0' + point, 0 };
		pid_t pid;

		CHECK_EQ(pipe(down), 0);
		CHECK_EQ(pipe(up), 0);
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			harness_set("SV_HCA_DIE_AT", text);
			endpoint_open(&a, NULL);
			to_a = endpoint_address(&a);
			CHECK_EQ(write(up[1], &to_a, sizeof(to_a)), sizeof(to_a));
			CHECK_EQ(read(down[0], &to_b, sizeof(to_b)), sizeof(to_b));
			endpoint_connect(&a, &to_b);
			post_send(&a, 1, 0, 4, IBV_SEND_SIGNALED);
			_exit(1);
		}
		endpoint_open(&b, &srq4);
		CHECK_EQ(post_srq_recv(&b, 1, 0, 64), 0);
		CHECK_EQ(post_srq_recv(&b, 2, 0, 64), 0);
		await_readable(up[0], "the sender's address");
		CHECK_EQ(read(up[0], &to_a, sizeof(to_a)), sizeof(to_a));
		to_b = endpoint_address(&b);
		endpoint_connect(&b, &to_a);
		CHECK_EQ(write(down[1], &to_b, sizeof(to_b)), sizeof(to_b));
		CHECK_EQ(waitpid(pid, NULL, 0), pid);
		close(down[0]);
		close(down[1]);
		close(up[0]);
		close(up[1]);

		CHECK_EQ(ibv_modify_qp(b.qp, &error, IBV_QP_STATE), 0);
		CHECK_EQ(ibv_destroy_qp(b.qp), 0);
		b.qp = endpoint_qp(&b);
		endpoint_open(&a, NULL);
		to_a = endpoint_address(&a);
		to_b = endpoint_address(&b);
		endpoint_connect(&a, &to_b);
		endpoint_connect(&b, &to_a);
		CHECK_EQ(post_send(&a, 5, 0, 4, IBV_SEND_SIGNALED), 0);
		expect(a.send_cq, 5, IBV_WC_SUCCESS);
		/* The first receive is used up only if its completion got out. */
		expect(b.recv_cq, point == 3 ? 2 : 1, IBV_WC_SUCCESS);
		poll_none(b.recv_cq, 1);
		pair_close(&a, &b);
	}
}

static void null_mode(void)
{
	struct options opt = { .srq_wr = 2 };
	struct address nobody = { .lid = 1, .qpn = 1 };

	harness_set("SV_HCA_NULL", "1");
	harness_set("SV_HCA_NULL_RECV", "1");
	endpoint_open(&a, &opt);
	endpoint_connect(&a, &nobody);
	CHECK_EQ(post_srq_recv(&a, 1, 0, 4), 0);
	CHECK_EQ(post_srq_recv(&a, 2, 0, 4), 0);
	CHECK_EQ(post_srq_recv(&a, 3, 0, 4), ENOMEM);
	expect(a.recv_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(post_srq_recv(&a, 3, 0, 4), 0);
	CHECK_EQ(ibv_destroy_qp(a.qp), 0);
	poll_none(a.recv_cq, 1);
	a.qp = endpoint_qp(&a);
	CHECK_EQ(post_srq_recv(&a, 4, 0, 4), 0);
	expect(a.recv_cq, 4, IBV_WC_SUCCESS);
	endpoint_close(&a);
	harness_set("SV_HCA_NULL_RECV", NULL);
	harness_set("SV_HCA_NULL", NULL);
}

int main(void)
{
	harness_start();
	/* Before there are threads: the thread sanitizer does not follow a process that forks with them. */
	if (!getenv("HARNESS_NO_FORK"))
		RUN(killed_in_the_middle);
	RUN(two_qps_share);
	RUN(empty_is_rnr);
	RUN(limit_event);
	RUN(destroy_waits_for_acknowledgement);
	RUN(last_wqe_reached);
	RUN(last_wqe_after_a_remote_error);
	RUN(purged_completions_free_slots);
	RUN(resize);
	RUN(bad_arguments);
	RUN(many_senders);
	RUN(null_mode);
	return 0;
}
