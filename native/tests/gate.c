/* SPDX-License-Identifier: Apache-2.0 */
/* The gate and the locks, with several threads on the same objects. */
#include "test.h"

#include <sys/syscall.h>

enum { THREADS = 4 };

static const struct shape shape = { .send_wr = 64, .recv_wr = 64, .sge = 1 };
static unsigned stop;

struct worker {
	struct fixture *f;
	struct ibv_qp *qp;
	unsigned index;
	uint64_t posted;
	pthread_t thread;
};

static uint64_t polled_sum, posted_sum, polled_count;

static void poll_some(struct fixture *f)
{
	struct ibv_wc wc[8];
	int got = ibv_poll_cq(f->cq, 8, wc);

	CHECK(got >= 0);
	for (int i = 0; i < got; i++) {
		CHECK_EQUAL(wc[i].status, IBV_WC_SUCCESS);
		__atomic_add_fetch(&polled_sum, wc[i].wr_id, __ATOMIC_RELAXED);
		__atomic_add_fetch(&polled_count, 1, __ATOMIC_RELAXED);
	}
}

/* Posts to its QP, which others may post to as well, and polls the CQ that all share. */
static void *work(void *argument)
{
	struct worker *w = argument;
	struct ibv_sge sge = { (uintptr_t)w->f->buffer, 8, w->f->mr->lkey };

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		uint64_t id = (uint64_t)(w->index + 1) << 32 | w->posted;
		struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_SIGNALED }, *bad;
		int err = ibv_post_send(w->qp, &wr, &bad);

		if (!err) {
			w->posted++;
			__atomic_add_fetch(&posted_sum, id, __ATOMIC_RELAXED);
		} else {
			CHECK_EQUAL(err, ENOMEM);
		}
		poll_some(w->f);
	}
	return NULL;
}

static void hammer(struct fixture *f, struct ibv_qp *qps[THREADS], int closings)
{
	struct worker workers[THREADS] = { 0 };
	struct sv_gate_report report;
	uint64_t posted = 0;

	stop = 0;
	polled_sum = posted_sum = polled_count = 0;
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .f = f, .qp = qps[i], .index = i };
		CHECK_EQUAL(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < closings; i++) {
		uint64_t before = __atomic_load_n(&polled_count, __ATOMIC_RELAXED);

		CHECK_EQUAL(sv_gate_close(20 * SECOND, &report), 0);
		__atomic_store_n(&mock_forbidden, 1, __ATOMIC_SEQ_CST);
		sched_yield();
		__atomic_store_n(&mock_forbidden, 0, __ATOMIC_SEQ_CST);
		sv_gate_open();
		/* Every thread gets on afterwards. */
		for (int tries = 0; __atomic_load_n(&polled_count, __ATOMIC_RELAXED) < before + 20; tries++) {
			CHECK(tries < 20000);
			usleep(1000);
		}
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		posted += workers[i].posted;
	}
	for (int i = 0; i < 1000; i++)
		poll_some(f);
	CHECK_EQUAL(polled_count, posted);
	CHECK_EQUAL(polled_sum, posted_sum);
}

static void threads_on_one_qp(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_qp *qps[THREADS] = { f->qp, f->qp, f->qp, f->qp };

	mock_completes_at_once = true;
	hammer(f, qps, 60);
	mock_completes_at_once = false;
	close_fixture(f);
}

static void threads_on_their_own(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_qp *qps[THREADS] = { f->qp, f->other };

	for (int i = 2; i < THREADS; i++)
		qps[i] = make_qp(f, shape);
	for (int i = 1; i < THREADS; i++)
		to_state(qps[i], IBV_QPS_RTS);
	mock_completes_at_once = true;
	hammer(f, qps, 60);
	mock_completes_at_once = false;
	for (int i = 2; i < THREADS; i++)
		CHECK_EQUAL(ibv_destroy_qp(qps[i]), 0);
	close_fixture(f);
}

/* Threads that come and go: their records and their locks' bias are used again. */
static void many_short_threads(void)
{
	struct fixture *f = open_fixture(shape);

	mock_completes_at_once = true;
	for (int round = 0; round < 200; round++) {
		struct worker w = { .f = f, .qp = f->qp, .index = round };

		stop = 1;
		CHECK_EQUAL(pthread_create(&w.thread, NULL, work, &w), 0);
		CHECK_EQUAL(post_send(f, round, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
		poll_some(f);
		pthread_join(w.thread, NULL);
	}
	mock_completes_at_once = false;
	close_fixture(f);
}

static void *post_one(void *argument)
{
	CHECK_EQUAL(post_send(argument, 1, IBV_WR_SEND, 0), 0);
	return NULL;
}

static void await_user(struct fixture *f)
{
	while (!__atomic_load_n(&mock_qp(f->qp)->users, __ATOMIC_SEQ_CST))
		sched_yield();
}

/* Who takes a lock from its owner waits until the owner is out; at each of the ways that a lock can go. */
static void owners_are_awaited(void)
{
	struct fixture *f = open_fixture(shape);

	for (int round = 0; round < 8; round++) {
		pthread_t first, second;

		__atomic_store_n(&mock_hold, 1, __ATOMIC_SEQ_CST);
		CHECK_EQUAL(pthread_create(&first, NULL, post_one, f), 0);
		await_user(f);
		CHECK_EQUAL(pthread_create(&second, NULL, post_one, f), 0);
		usleep(20000);
		CHECK_EQUAL(__atomic_load_n(&mock_qp(f->qp)->users, __ATOMIC_SEQ_CST), 1);
		__atomic_store_n(&mock_hold, 0, __ATOMIC_SEQ_CST);
		pthread_join(first, NULL);
		pthread_join(second, NULL);
	}
	CHECK_EQUAL(mock_qp(f->qp)->send.posted, 16);
	close_fixture(f);
}

static void *register_memory(void *argument)
{
	struct fixture *f = argument;
	struct ibv_mr *mr = ibv_reg_mr(f->pd, f->buffer, 1, IBV_ACCESS_LOCAL_WRITE);

	CHECK(mr);
	return mr;
}

static void hold_driver(unsigned on)
{
	__atomic_store_n(&driver_hold, on, __ATOMIC_RELEASE);
}

/* Waits until the driver has a request more: a thread is inside a verb and will stay there while it is held. */
static void await_taken(unsigned before)
{
	for (int tries = 0; __atomic_load_n(&driver_taken, __ATOMIC_ACQUIRE) == before; tries++) {
		CHECK(tries < 20000);
		usleep(1000);
	}
}

/* The deadline names the verb and its thread, and the gate is open again. */
static void deadline_names_the_verb(void)
{
	struct fixture *f = open_fixture(shape);
	struct sv_gate_report report = { 0 };
	unsigned before = driver_taken;
	pthread_t thread;
	void *mr;

	hold_driver(1);
	CHECK_EQUAL(pthread_create(&thread, NULL, register_memory, f), 0);
	await_taken(before);
	CHECK_EQUAL(sv_gate_close(SECOND / 20, &report), ETIMEDOUT);
	CHECK_EQUAL(strcmp(report.verb, "ibv_reg_mr"), 0);
	CHECK_EQUAL(report.inside, 1);
	CHECK(report.tid > 0 && report.tid != (int)syscall(SYS_gettid));
	expect_none(f->cq);
	hold_driver(0);
	CHECK_EQUAL(pthread_join(thread, &mr), 0);
	CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	close_gate();
	sv_gate_open();
	close_fixture(f);
}

/* A verb that began before the gate closed is finished first, one that begins later waits. */
static void close_waits_for_verbs(void)
{
	struct fixture *f = open_fixture(shape);
	unsigned before = driver_requests[SV_OP_REG_MR];
	struct sv_gate_report report;
	pthread_t threads[2];
	void *mr;

	close_gate();
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, register_memory, f), 0);
	usleep(50000);
	CHECK_EQUAL(driver_requests[SV_OP_REG_MR], before);
	sv_gate_open();
	for (int i = 0; i < 2; i++) {
		CHECK_EQUAL(pthread_join(threads[i], &mr), 0);
		CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	}
	CHECK_EQUAL(sv_gate_close(10 * SECOND, &report), 0);
	sv_gate_open();
	close_fixture(f);
}

/* More callers than the mailbox has slots. */
static void full_mailbox(void)
{
	enum { CALLERS = SV_MAILBOX_SLOTS + 30 };
	struct fixture *f = open_fixture(shape);
	pthread_t threads[CALLERS];
	void *mr;

	hold_driver(1);
	for (int i = 0; i < CALLERS; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, register_memory, f), 0);
	usleep(50000);
	hold_driver(0);
	for (int i = 0; i < CALLERS; i++) {
		CHECK_EQUAL(pthread_join(threads[i], &mr), 0);
		CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	}
	CHECK_EQUAL(sv_mailbox_take(20), -1);
	close_fixture(f);
}

int main(void)
{
	RUN(threads_on_one_qp);
	RUN(threads_on_their_own);
	RUN(many_short_threads);
	RUN(owners_are_awaited);
	RUN(deadline_names_the_verb);
	RUN(close_waits_for_verbs);
	RUN(full_mailbox);
	return 0;
}
