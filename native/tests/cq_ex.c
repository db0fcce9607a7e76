/* SPDX-License-Identifier: Apache-2.0 */
/* Extended completion queues: fields, order, and what a checkpoint does to them, also between start and end of a poll. */
#include "test.h"

#define PLAIN (IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP | \
	       IBV_WC_EX_WITH_SLID)
#define STAMPED (PLAIN | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)

static const struct shape shape = { .send_wr = 16, .recv_wr = 16, .sge = 1 };
static const uint64_t kinds[] = { PLAIN, STAMPED };

struct extended {
	struct fixture *f;
	struct ibv_cq_ex *ex;
	struct ibv_qp *qp;
	struct mock_cq *real;
};

/* The fixture, and a queue pair on an extended queue. */
static struct extended open_extended(uint64_t wc_flags, uint32_t flags)
{
	struct extended e = { .f = open_fixture(shape) };
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 100,
		.cq_context = (void *)&shape,
		.channel = e.f->channel,
		.wc_flags = wc_flags,
		.comp_mask = flags ? IBV_CQ_INIT_ATTR_MASK_FLAGS : 0,
		.flags = flags,
	};
	struct ibv_cq *plain = e.f->cq;

	e.ex = ibv_create_cq_ex(e.f->context, &attr);
	CHECK(e.ex);
	e.real = mock_cq(ibv_cq_ex_to_cq(e.ex));
	CHECK_EQUAL(e.real->extended, wc_flags == STAMPED);
	CHECK(e.ex->cq_context == &shape && e.ex->channel == e.f->channel);
	CHECK_EQUAL(e.ex->cqe, 100);
	e.f->cq = ibv_cq_ex_to_cq(e.ex);
	e.qp = make_qp(e.f, shape);
	e.f->cq = plain;
	to_state(e.qp, IBV_QPS_INIT);
	to_state(e.qp, IBV_QPS_RTR);
	to_state(e.qp, IBV_QPS_RTS);
	return e;
}

static void close_extended(struct extended *e)
{
	CHECK_EQUAL(ibv_destroy_qp(e->qp), 0);
	CHECK_EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(e->ex)), 0);
	close_fixture(e->f);
}

static void post_both(struct extended *e, uint64_t number)
{
	struct ibv_qp *other = e->f->qp;

	e->f->qp = e->qp;
	CHECK_EQUAL(post_send(e->f, 100 + number, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	CHECK_EQUAL(post_recv(e->f, 200 + number), 0);
	e->f->qp = other;
}

static void post_and_complete(struct extended *e, uint64_t number)
{
	post_both(e, number);
	mock_complete_sends(mock_qp(e->qp), 1, IBV_WC_SUCCESS);
	mock_complete_recvs(mock_qp(e->qp), 1, IBV_WC_SUCCESS, 10 + number);
}

static int start(struct extended *e)
{
	struct ibv_poll_cq_attr attr = { 0 };

	return ibv_start_poll(e->ex, &attr);
}

static void check_send(struct extended *e, uint64_t number)
{
	CHECK_EQUAL(e->ex->wr_id, 100 + number);
	CHECK_EQUAL(e->ex->status, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_wc_read_opcode(e->ex), IBV_WC_SEND);
	CHECK_EQUAL(ibv_wc_read_qp_num(e->ex), e->qp->qp_num);
	CHECK_EQUAL(ibv_wc_read_src_qp(e->ex), 0);
}

static void check_recv(struct extended *e, uint64_t number)
{
	CHECK_EQUAL(e->ex->wr_id, 200 + number);
	CHECK_EQUAL(e->ex->status, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_wc_read_opcode(e->ex), IBV_WC_RECV);
	CHECK_EQUAL(ibv_wc_read_byte_len(e->ex), 10 + number);
	CHECK_EQUAL(ibv_wc_read_src_qp(e->ex), 0x77);
	CHECK_EQUAL(ibv_wc_read_slid(e->ex), 0x33);
	CHECK_EQUAL(ibv_wc_read_wc_flags(e->ex), 0);
	CHECK_EQUAL(ibv_wc_read_vendor_err(e->ex), 0);
}

static void fields(void)
{
	for (int kind = 0; kind < 2; kind++) {
		struct extended e = open_extended(kinds[kind], 0);
		struct ibv_poll_cq_attr unknown = { .comp_mask = 1 };

		CHECK_EQUAL(start(&e), ENOENT);
		CHECK_EQUAL(ibv_start_poll(e.ex, &unknown), EINVAL);
		CHECK(!e.ex->read_sl && !e.ex->read_dlid_path_bits && !e.ex->read_tm_info);
		CHECK(!e.ex->read_completion_ts == !kind);
		for (uint64_t i = 0; i < 40; i++) {
			post_and_complete(&e, i);
			CHECK_EQUAL(start(&e), 0);
			check_send(&e, i);
			if (kind)
				CHECK_EQUAL(ibv_wc_read_completion_ts(e.ex), 1000 + 2 * i);
			CHECK_EQUAL(ibv_next_poll(e.ex), 0);
			check_recv(&e, i);
			CHECK_EQUAL(ibv_next_poll(e.ex), ENOENT);
			check_recv(&e, i);
			ibv_end_poll(e.ex);
		}
		CHECK_EQUAL(start(&e), ENOENT);
		close_extended(&e);
	}
}

static void errors(void)
{
	for (int kind = 0; kind < 2; kind++) {
		struct extended e = open_extended(kinds[kind], IBV_CREATE_CQ_ATTR_SINGLE_THREADED);

		post_both(&e, 1);
		mock_complete_sends(mock_qp(e.qp), 1, IBV_WC_REM_ACCESS_ERR);
		mock_complete_recvs(mock_qp(e.qp), 1, IBV_WC_WR_FLUSH_ERR, 0);
		CHECK_EQUAL(start(&e), 0);
		CHECK_EQUAL(e.ex->wr_id, 101);
		CHECK_EQUAL(e.ex->status, IBV_WC_REM_ACCESS_ERR);
		CHECK_EQUAL(ibv_wc_read_qp_num(e.ex), e.qp->qp_num);
		CHECK_EQUAL(ibv_next_poll(e.ex), 0);
		CHECK_EQUAL(e.ex->wr_id, 201);
		CHECK_EQUAL(e.ex->status, IBV_WC_WR_FLUSH_ERR);
		ibv_end_poll(e.ex);
		close_extended(&e);
	}
}

/* In the midst of a poll: what is looked at stays; kept completions come next, each with its own fields, then new ones. */
static void checkpoint_in_a_poll(void)
{
	for (int kind = 0; kind < 2; kind++) {
		struct extended e = open_extended(kinds[kind], 0);
		uint64_t position;

		for (uint64_t i = 0; i < 5; i++)
			post_and_complete(&e, i);
		CHECK_EQUAL(start(&e), 0);
		check_send(&e, 0);
		close_gate();
		CHECK_EQUAL(sv_cq_drain(ibv_cq_ex_to_cq(e.ex)), 9);
		driver_detach(e.f->context);
		CHECK_EQUAL(mock_objects, 0);
		check_send(&e, 0);
		driver_reattach(e.f->context);
		CHECK_EQUAL(sv_qp_replay_receives(e.qp, &position), 0);
		CHECK_EQUAL(sv_qp_replay_sends(e.qp, &position), 0);
		sv_gate_open();
		CHECK_EQUAL(mock_qp(e.qp)->send.posted, 0);
		check_send(&e, 0);
		if (kind)
			CHECK_EQUAL(ibv_wc_read_completion_ts(e.ex), 1000);
		post_and_complete(&e, 5);
		for (uint64_t i = 0; i < 6; i++) {
			if (i) {
				CHECK_EQUAL(ibv_next_poll(e.ex), 0);
				check_send(&e, i);
			}
			CHECK_EQUAL(ibv_next_poll(e.ex), 0);
			check_recv(&e, i);
			/* Of the new queue the count begins anew. */
			if (kind)
				CHECK_EQUAL(ibv_wc_read_completion_ts(e.ex), i < 5 ? 1001 + 2 * i : 1001);
		}
		CHECK_EQUAL(ibv_next_poll(e.ex), ENOENT);
		ibv_end_poll(e.ex);
		close_extended(&e);
	}
}

struct poller {
	struct extended *e;
	unsigned done;
};

static void *poll_until_there(void *argument)
{
	struct poller *p = argument;

	while (start(p->e))
		;
	CHECK_EQUAL(p->e->ex->wr_id, 101);
	CHECK_EQUAL(p->e->ex->status, IBV_WC_REM_OP_ERR);
	ibv_end_poll(p->e->ex);
	__atomic_store_n(&p->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* An error since ANNOUNCE stays unseen until the announcement ends. */
static void error_held(void)
{
	for (int kind = 0; kind < 2; kind++) {
		struct extended e = open_extended(kinds[kind], 0);
		struct poller poller = { .e = &e };
		pthread_t thread;

		post_both(&e, 1);
		sv_gate_announce(1);
		mock_complete_sends(mock_qp(e.qp), 1, IBV_WC_REM_OP_ERR);
		pthread_create(&thread, NULL, poll_until_there, &poller);
		usleep(50000);
		CHECK_EQUAL(__atomic_load_n(&poller.done, __ATOMIC_ACQUIRE), 0);
		close_gate();
		CHECK_EQUAL(bookmark(e.qp).send_error, IBV_WC_REM_OP_ERR);
		CHECK_EQUAL(sv_qp_errors_deliver(e.qp), 0);
		sv_gate_open();
		pthread_join(thread, NULL);
		CHECK_EQUAL(poller.done, 1);
		close_extended(&e);
	}
}

enum { EACH = 2000, POLLERS = 3 };

struct shared {
	struct extended *e;
	unsigned long sum;		/* guarded by the queue's own lock */
	unsigned seen;
};

static void *poll_shared(void *argument)
{
	struct shared *s = argument;

	while (__atomic_load_n(&s->seen, __ATOMIC_ACQUIRE) < EACH) {
		if (start(s->e)) {
			sched_yield();
			continue;
		}
		do {
			s->sum += s->e->ex->wr_id;
			CHECK_EQUAL(ibv_wc_read_qp_num(s->e->ex), s->e->qp->qp_num);
			__atomic_add_fetch(&s->seen, 1, __ATOMIC_RELEASE);
		} while (!ibv_next_poll(s->e->ex));
		ibv_end_poll(s->e->ex);
	}
	return NULL;
}

/* From start to end the queue belongs to one thread. */
static void several_threads(void)
{
	struct extended e = open_extended(PLAIN, 0);
	struct shared s = { .e = &e };
	pthread_t threads[POLLERS];
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	unsigned long sum = 0;

	for (int i = 0; i < POLLERS; i++)
		pthread_create(&threads[i], NULL, poll_shared, &s);
	for (int i = 0; i < EACH; i++) {
		wr.wr_id = i;
		sum += i;
		while (ibv_post_send(e.qp, &wr, &bad))
			sched_yield();
		mock_complete_sends(mock_qp(e.qp), 1, IBV_WC_SUCCESS);
	}
	for (int i = 0; i < POLLERS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQUAL(s.seen, EACH);
	CHECK_EQUAL(s.sum, sum);
	close_extended(&e);
}

static void creation(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_cq_init_attr_ex attr = { .cqe = 10, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG };
	struct ibv_modify_cq_attr moderation = { IBV_CQ_ATTR_MODERATE, { 7, 9 } };
	struct ibv_wc wc;

	errno = 0;
	CHECK(!ibv_create_cq_ex(f->context, &attr));
	CHECK_EQUAL(errno, ENOSYS);
	/* A classic queue can be moderated, an extended one polled the classic way. */
	CHECK_EQUAL(ibv_modify_cq(f->cq, &moderation), 0);
	CHECK_EQUAL(mock_cq(f->cq)->moderation[0], 7);
	CHECK_EQUAL(mock_cq(f->cq)->moderation[1], 9);
	close_fixture(f);
	struct extended e = open_extended(STAMPED, 0);

	CHECK_EQUAL(ibv_resize_cq(ibv_cq_ex_to_cq(e.ex), 50), 0);
	CHECK_EQUAL(e.ex->cqe, 50);
	post_and_complete(&e, 3);
	wc = expect(ibv_cq_ex_to_cq(e.ex), 103, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.qp_num, e.qp->qp_num);
	expect(ibv_cq_ex_to_cq(e.ex), 203, IBV_WC_SUCCESS);
	close_extended(&e);
}

int main(void)
{
	RUN(fields);
	RUN(errors);
	RUN(checkpoint_in_a_poll);
	RUN(error_held);
	RUN(several_threads);
	RUN(creation);
	return 0;
}
