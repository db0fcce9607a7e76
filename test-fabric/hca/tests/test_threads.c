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

/* Of eight bytes whose halves are alike. */
#define WORDS 512

static uint64_t word_of(uint32_t number)
{
	return (uint64_t)number << 32 | number;
}

static void check_words(const unsigned char *from)
{
	for (int i = 0; i < WORDS; i++) {
		uint64_t word;

		memcpy(&word, from + i * 8, 8);
		CHECK_EQ(word, word_of(word));
	}
}

static bool over;

static void *change_words(void *arg)
{
	uint64_t *words = arg;

	for (uint32_t number = 0; !__atomic_load_n(&over, __ATOMIC_ACQUIRE); number++)
		for (int i = 0; i < WORDS; i++)
			__atomic_store_n(&words[i], word_of(number), __ATOMIC_RELAXED);
	return NULL;
}

static void *look_at_words(void *arg)
{
	uint64_t *words = arg;

	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
		for (int i = 0; i < WORDS; i++) {
			uint64_t word = __atomic_load_n(&words[i], __ATOMIC_RELAXED);

			CHECK_EQ(word, word_of(word));
		}
	return NULL;
}

#define PIECES 16

/* Moves them @times from or to that place of @a's buffer, in pieces of so many bytes. */
static void move_words(enum ibv_wr_opcode opcode, uint32_t place, uint32_t size, int times)
{
	struct ibv_sge pieces[PIECES];
	struct ibv_send_wr wr = {
		.sg_list = pieces, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = to_b.buf, .rkey = to_b.rkey },
	}, *bad;

	for (uint32_t done = 0; done < WORDS * 8; done += size)
		pieces[wr.num_sge++] = sge_of(&a, place + done, done + size < WORDS * 8 ? size : WORDS * 8 - done);
	for (int i = 0; i < times; i++) {
		for (int j = 0; opcode == IBV_WR_RDMA_WRITE && j < WORDS; j++)
			memcpy(a.buf + place + j * 8, &(uint64_t){ word_of(i) }, 8);
		CHECK_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
		expect(a.send_cq, 0, IBV_WC_SUCCESS);
		if (opcode == IBV_WR_RDMA_READ)
			check_words(a.buf + place);
	}
}

/* What an HCA reads and writes while somebody writes and reads it is old or new in each aligned word. */
static void words_are_moved_whole(void)
{
	struct options opt = { .max_sge = PIECES };
	enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE };

	for (int i = 0; i < 2; i++) {
		pthread_t thread;

		pair_open(&a, &b, &opt);
		to_b = endpoint_address(&b);
		__atomic_store_n(&over, false, __ATOMIC_RELEASE);
		CHECK_EQ(pthread_create(&thread, NULL, i ? look_at_words : change_words, b.buf), 0);
		for (uint32_t place = 0; place < 64; place += 7) {
			move_words(opcodes[i], place, WORDS * 8, 300);
			move_words(opcodes[i], place, WORDS * 8 / PIECES + 1 + place, 500);
		}
		__atomic_store_n(&over, true, __ATOMIC_RELEASE);
		CHECK_EQ(pthread_join(thread, NULL), 0);
		pair_close(&a, &b);
	}
}

int main(void)
{
	harness_start();
	RUN(many_posters);
	RUN(many_pollers);
	RUN(control_next_to_traffic);
	RUN(many_contexts);
	RUN(words_are_moved_whole);
	return 0;
}
