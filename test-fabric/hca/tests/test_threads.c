/* Threads: several that post to one QP, poll one CQ, register and open at the same time. Meant for ThreadSanitizer. */
#include <pthread.h>

#include "harness.h"

#define THREADS 4
#define REQUESTS 2000

static struct endpoint a, b;
static struct address to_b;
static uint32_t polled;

static void *post_thread(void *arg)
{
	uint32_t i, me = (uintptr_t)arg;

	for (i = 0; i < REQUESTS; i++) {
		struct ibv_wc wc[4];
		int ret;

		/* All threads add to one word of the peer. */
		while ((ret = post_rdma(&a, &to_b, IBV_WR_ATOMIC_FETCH_AND_ADD, i, 1024 + me * 8, 8, 0,
					i % 3 ? 0 : IBV_SEND_SIGNALED)) == ENOMEM) {
			int n = ibv_poll_cq(a.send_cq, 4, wc);

			CHECK(n >= 0);
			while (n--)
				CHECK_EQ(wc[n].status, IBV_WC_SUCCESS);
		}
		CHECK_EQ(ret, 0);
	}
	return NULL;
}

static void many_posters(void)
{
	struct options opt = { .max_send_wr = 16 };
	pthread_t thread[THREADS];
	uintptr_t i;

	pair_open(&a, &b, &opt);
	to_b = endpoint_address(&b);
	for (i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, post_thread, (void *)i), 0);
	for (i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	CHECK_EQ(*(uint64_t *)b.buf, 5ULL * THREADS * REQUESTS);
	pair_close(&a, &b);
}

static void *poll_thread(void *arg)
{
	uint64_t deadline = now_ms() + 60000;

	(void)arg;
	while (__atomic_load_n(&polled, __ATOMIC_RELAXED) < REQUESTS) {
		struct ibv_wc wc;
		int n = ibv_poll_cq(b.recv_cq, 1, &wc);

		CHECK(n >= 0);
		CHECK(now_ms() < deadline);
		if (!n)
			continue;
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		__atomic_add_fetch(&polled, 1, __ATOMIC_RELAXED);
		CHECK_EQ(post_recv(&b, 1, 0, 64), 0);
	}
	return NULL;
}

/* Receives are posted and polled by several threads while the sender runs into RNR, so that the engine takes part. */
static void many_pollers(void)
{
	struct options opt = { .min_rnr_timer = 1, .max_recv_wr = 8 };
	pthread_t thread[THREADS];
	uint32_t i;

	pair_open(&a, &b, &opt);
	polled = 0;
	for (i = 0; i < 4; i++)
		CHECK_EQ(post_recv(&b, 1, 0, 64), 0);
	for (i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, poll_thread, NULL), 0);
	for (i = 0; i < REQUESTS; i++) {
		uint64_t deadline = now_ms() + 60000;
		struct ibv_wc wc;

		while (post_send(&a, i, 0, 8, IBV_SEND_SIGNALED)) {
			CHECK(now_ms() < deadline);
			ibv_poll_cq(a.send_cq, 1, &wc);
		}
	}
	for (i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	pair_close(&a, &b);
}

static void *register_thread(void *arg)
{
	int i;

	for (i = 0; i < 300; i++) {
		struct ibv_mr *mr = ibv_reg_mr(b.pd, b.buf, 4096, ACCESS_ALL);
		struct ibv_cq *cq = ibv_create_cq(b.ctx, 4, NULL, NULL, 0);

		CHECK(mr && cq);
		CHECK_EQ(ibv_dereg_mr(mr), 0);
		CHECK_EQ(ibv_destroy_cq(cq), 0);
	}
	(void)arg;
	return NULL;
}

/* Control verbs of both sides next to traffic. */
static void control_next_to_traffic(void)
{
	pthread_t thread[3];
	int i;

	pair_open(&a, &b, NULL);
	to_b = endpoint_address(&b);
	CHECK_EQ(pthread_create(&thread[0], NULL, register_thread, NULL), 0);
	CHECK_EQ(pthread_create(&thread[1], NULL, register_thread, NULL), 0);
	CHECK_EQ(pthread_create(&thread[2], NULL, post_thread, NULL), 0);
	for (i = 0; i < 3; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	pair_close(&a, &b);
}

static void *open_thread(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 5; i++) {
		struct endpoint x, y;

		pair_open(&x, &y, NULL);
		CHECK_EQ(post_recv(&y, 1, 0, 64), 0);
		CHECK_EQ(post_send(&x, 1, 0, 64, IBV_SEND_SIGNALED), 0);
		expect(x.send_cq, 1, IBV_WC_SUCCESS);
		pair_close(&x, &y);
	}
	return NULL;
}

static void many_contexts(void)
{
	pthread_t thread[THREADS];
	int i;

	for (i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, open_thread, NULL), 0);
	for (i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
}

int main(void)
{
	harness_start();
	RUN(many_posters);
	RUN(many_pollers);
	RUN(control_next_to_traffic);
	RUN(many_contexts);
	return 0;
}
