/* SPDX-License-Identifier: Apache-2.0 */
/* Shared receive queues: posting, completions in any order of several QPs, and what a checkpoint does to them. */
#include "test.h"

#include <sched.h>

#define RECEIVES 16
#define LONGEST 2

static const struct shape shape = { .send_wr = 16, .recv_wr = 16, .sge = 2, .payload = 32 };

struct shared {
	struct fixture *f;
	struct ibv_srq *srq;
	struct ibv_qp *qps[2];
};

static struct shared *open_shared(void)
{
	struct shared *s = calloc(1, sizeof(*s));
	struct ibv_srq_init_attr attr = { .srq_context = s, .attr = { RECEIVES, LONGEST, 0 } };

	s->f = open_fixture(shape);
	s->srq = ibv_create_srq(s->f->pd, &attr);
	CHECK(s->srq);
	CHECK(s->srq->srq_context == s && s->srq->pd == s->f->pd && s->srq->context == s->f->context);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = {
			.send_cq = s->f->cq,
			.recv_cq = s->f->cq,
			.srq = s->srq,
			.cap = { 4, 0, 1, 0, 0 },
			.qp_type = IBV_QPT_RC,
		};

		s->qps[i] = ibv_create_qp(s->f->pd, &init);
		CHECK(s->qps[i] && s->qps[i]->srq == s->srq);
		to_state(s->qps[i], IBV_QPS_INIT);
		to_state(s->qps[i], IBV_QPS_RTR);
		to_state(s->qps[i], IBV_QPS_RTS);
	}
	return s;
}

static void close_shared(struct shared *s)
{
	for (int i = 0; i < 2; i++)
		if (s->qps[i])
			CHECK_EQUAL(ibv_destroy_qp(s->qps[i]), 0);
	CHECK_EQUAL(ibv_destroy_srq(s->srq), 0);
	close_fixture(s->f);
	free(s);
}

static int post(struct shared *s, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)s->f->buffer, 64, s->f->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;
	int err = ibv_post_srq_recv(s->srq, &wr, &bad);

	CHECK(!err == !bad);
	return err;
}

static void complete(struct shared *s, unsigned number, int qp)
{
	mock_complete_shared(mock_srq(s->srq), number, mock_qp(s->qps[qp]), IBV_WC_SUCCESS, number);
}

static struct sv_srq_mark srq_bookmark(struct shared *s)
{
	struct sv_srq_mark mark;

	sv_srq_bookmark(s->srq, &mark);
	return mark;
}

/* Whose message it was is told by the QP number; room comes back with the completion, whatever the order. */
static void any_order(void)
{
	static const unsigned order[] = { 3, 0, 2, 1 };
	struct shared *s = open_shared();
	struct ibv_wc wc;

	for (int i = 0; i < RECEIVES; i++)
		CHECK_EQUAL(post(s, 100 + i), 0);
	CHECK_EQUAL(post(s, 99), ENOMEM);
	for (int i = 0; i < 4; i++)
		complete(s, order[i], i % 2);
	for (int i = 0; i < 4; i++) {
		wc = expect(s->f->cq, 100 + order[i], IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.qp_num, s->qps[i % 2]->qp_num);
		CHECK_EQUAL(wc.src_qp, 0x77);
		CHECK_EQUAL(wc.slid, 0x33);
		CHECK_EQUAL(post(s, 200 + i), 0);
		CHECK_EQUAL(post(s, 99), ENOMEM);
	}
	close_gate();
	CHECK_EQUAL(bookmark(s->qps[0]).received, 2);
	CHECK_EQUAL(bookmark(s->qps[1]).received, 2);
	CHECK_EQUAL(bookmark(s->qps[0]).receives, 0);
	CHECK(bookmark(s->qps[0]).shared && !bookmark(s->f->qp).shared);
	CHECK_EQUAL(srq_bookmark(s).receives, RECEIVES);
	sv_gate_open();
	close_shared(s);
}

/* Lists, lists of SGEs, what the device refuses, and a QP that has no receive queue of its own. */
static void lists_and_errors(void)
{
	struct shared *s = open_shared();
	struct ibv_sge sges[] = { { 0x10, 1, s->f->mr->lkey }, { 0x20, 2, s->f->mr->lkey }, { 0 } };
	struct ibv_recv_wr wrs[4], *bad = NULL;

	for (int i = 0; i < 4; i++)
		wrs[i] = (struct ibv_recv_wr){ .wr_id = i, .next = i < 3 ? &wrs[i + 1] : NULL, .sg_list = sges,
					       .num_sge = i % 3 };
	CHECK_EQUAL(ibv_post_srq_recv(s->srq, wrs, &bad), 0);
	CHECK_EQUAL(mock_srq(s->srq)->recv.posted, 4);
	CHECK_EQUAL(mock_srq(s->srq)->recv.requests[2].sges[1].addr, 0x20);
	CHECK_EQUAL(mock_srq(s->srq)->recv.requests[2].sges[1].lkey, ((struct ibv_mr *)sv_real(s->f->mr))->lkey);
	wrs[2].num_sge = LONGEST + 1;
	CHECK_EQUAL(ibv_post_srq_recv(s->srq, wrs, &bad), EINVAL);
	CHECK(bad == &wrs[2]);
	CHECK_EQUAL(mock_srq(s->srq)->recv.posted, 6);
	wrs[2].num_sge = 1;
	mock_fail_after = 1;
	CHECK_EQUAL(ibv_post_srq_recv(s->srq, wrs, &bad), ENOSPC);
	mock_fail_after = -1;
	CHECK(bad == &wrs[1]);
	CHECK_EQUAL(srq_bookmark(s).receives, 7);
	/* What was refused left its place free. */
	for (int i = 7; i < RECEIVES; i++)
		CHECK_EQUAL(post(s, 100 + i), 0);
	CHECK_EQUAL(post(s, 99), ENOMEM);
	wrs[0].next = NULL;
	CHECK_EQUAL(ibv_post_recv(s->qps[0], wrs, &bad), EINVAL);
	for (int i = 0; i < RECEIVES; i++)
		complete(s, i, 1);
	for (int i = 0; i < RECEIVES; i++)
		CHECK_EQUAL(ibv_poll_cq(s->f->cq, 1, &(struct ibv_wc){ 0 }), 1);
	CHECK_EQUAL(srq_bookmark(s).receives, 0);
	CHECK_EQUAL(ibv_destroy_srq(s->srq), EBUSY);
	close_shared(s);
}

/* What is left is posted again in the order in which it was posted first; what was consumed and not polled is kept. */
static void replay_in_order(void)
{
	struct shared *s = open_shared();
	uint64_t position;
	struct mock_srq *real;
	struct ibv_wc wc;

	for (int i = 0; i < RECEIVES; i++)
		CHECK_EQUAL(post(s, i), 0);
	for (int i = 0; i < 6; i++)
		complete(s, 2 * i, 0);
	for (int i = 0; i < 3; i++)
		expect(s->f->cq, 2 * i, IBV_WC_SUCCESS);
	/* The free places are used in an order of their own. */
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(post(s, 50 + i), 0);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(s->f->cq), 3);
	CHECK_EQUAL(srq_bookmark(s).receives, RECEIVES - 3);
	CHECK_EQUAL(bookmark(s->qps[0]).received, 6);
	driver_detach(s->f->context);
	CHECK_EQUAL(mock_objects, 0);
	driver_reattach(s->f->context);
	CHECK_EQUAL(sv_srq_replay(s->srq, &position), 0);
	CHECK_EQUAL(position, RECEIVES - 3);
	real = mock_srq(s->srq);
	CHECK_EQUAL(real->recv.posted, RECEIVES - 3);
	CHECK_EQUAL(real->recv.requests[0].sges[0].lkey, ((struct ibv_mr *)sv_real(s->f->mr))->lkey);
	sv_gate_open();
	for (unsigned i = 0; i < RECEIVES - 3; i++)
		complete(s, i, 1);
	for (int i = 3; i < 6; i++) {
		wc = expect(s->f->cq, 2 * i, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.qp_num, s->qps[0]->qp_num);
	}
	for (int i = 0; i < 16; i++)
		if (i > 11 || i % 2) {
			wc = expect(s->f->cq, i, IBV_WC_SUCCESS);
			CHECK_EQUAL(wc.qp_num, s->qps[1]->qp_num);
		}
	for (int i = 0; i < 3; i++)
		expect(s->f->cq, 50 + i, IBV_WC_SUCCESS);
	expect_none(s->f->cq);
	for (int i = 0; i < RECEIVES; i++)
		CHECK_EQUAL(post(s, i), 0);
	CHECK_EQUAL(post(s, 99), ENOMEM);
	close_shared(s);
}

/* A message that landed at the SRQ fills its next receive, in the name of the QP that it was for. */
static void landing(void)
{
	struct shared *s = open_shared();
	struct mock_request *request;
	uint64_t position;
	struct ibv_wc wc;

	close_gate();
	CHECK_EQUAL(sv_srq_post_landing(s->srq, 5), 0);
	CHECK_EQUAL(srq_bookmark(s).landings, 1);
	request = &mock_srq(s->srq)->recv.requests[0];
	memcpy((void *)(uintptr_t)request->sges[0].addr, "hello", 5);
	mock_complete_shared(mock_srq(s->srq), 0, mock_qp(s->qps[1]), IBV_WC_SUCCESS, 5);
	CHECK_EQUAL(sv_cq_drain(s->f->cq), 1);
	CHECK_EQUAL(srq_bookmark(s).landings, 0);
	CHECK_EQUAL(bookmark(s->qps[1]).received, 1);
	CHECK_EQUAL(bookmark(s->qps[0]).received, 0);
	driver_detach(s->f->context);
	driver_reattach(s->f->context);
	CHECK_EQUAL(sv_srq_replay(s->srq, &position), 0);
	sv_gate_open();
	expect_none(s->f->cq);
	CHECK_EQUAL(post(s, 1), 0);
	CHECK_EQUAL(post(s, 2), 0);
	CHECK_EQUAL(mock_srq(s->srq)->recv.posted, 1);
	wc = expect(s->f->cq, 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.qp_num, s->qps[1]->qp_num);
	CHECK_EQUAL(wc.byte_len, 5);
	CHECK(!memcmp(s->f->buffer, "hello", 5));
	close_gate();
	CHECK_EQUAL(bookmark(s->qps[1]).received, 1);
	CHECK_EQUAL(srq_bookmark(s).receives, 1);
	sv_gate_open();
	close_shared(s);
}

/* A QP that ends takes its completions with it; the room of their receives comes back. */
static void destroyed_qp_gives_room_back(void)
{
	struct shared *s = open_shared();

	for (int i = 0; i < RECEIVES; i++)
		CHECK_EQUAL(post(s, i), 0);
	for (int i = 0; i < 4; i++)
		complete(s, i, i % 2);
	CHECK_EQUAL(ibv_destroy_qp(s->qps[0]), 0);
	s->qps[0] = NULL;
	expect(s->f->cq, 1, IBV_WC_SUCCESS);
	expect(s->f->cq, 3, IBV_WC_SUCCESS);
	expect_none(s->f->cq);
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(post(s, i), 0);
	CHECK_EQUAL(post(s, 99), ENOMEM);
	close_shared(s);
}

/* Errors since ANNOUNCE: withdrawn, the receive is posted again; delivered, it is the application's. */
static void held_errors(void)
{
	struct shared *s = open_shared();
	struct ibv_async_event event;
	uint64_t position;

	CHECK_EQUAL(post(s, 1), 0);
	CHECK_EQUAL(post(s, 2), 0);
	sv_gate_announce(1);
	close_gate();
	mock_complete_shared(mock_srq(s->srq), 0, mock_qp(s->qps[0]), IBV_WC_WR_FLUSH_ERR, 0);
	CHECK_EQUAL(sv_cq_drain(s->f->cq), 1);
	CHECK_EQUAL(bookmark(s->qps[0]).recv_error, IBV_WC_WR_FLUSH_ERR);
	CHECK(!bookmark(s->qps[0]).last_receive);
	mock_async_event(s->f->context, IBV_EVENT_QP_LAST_WQE_REACHED, sv_real(s->qps[0]));
	CHECK_EQUAL(sv_context_drain(s->f->context), 0);
	CHECK(bookmark(s->qps[0]).last_receive);
	CHECK_EQUAL(sv_qp_errors_withdraw(s->qps[0]), 0);
	CHECK_EQUAL(srq_bookmark(s).receives, 2);
	mock_complete_shared(mock_srq(s->srq), 1, mock_qp(s->qps[1]), IBV_WC_WR_FLUSH_ERR, 0);
	CHECK_EQUAL(sv_cq_drain(s->f->cq), 1);
	CHECK_EQUAL(sv_qp_errors_deliver(s->qps[1]), 0);
	CHECK_EQUAL(srq_bookmark(s).receives, 1);
	driver_detach(s->f->context);
	driver_reattach(s->f->context);
	CHECK_EQUAL(sv_srq_replay(s->srq, &position), 0);
	CHECK_EQUAL(position, 1);
	CHECK(!bookmark(s->qps[0]).last_receive);
	mock_async_event(s->f->context, IBV_EVENT_SRQ_LIMIT_REACHED, sv_real(s->srq));
	sv_gate_open();
	expect(s->f->cq, 2, IBV_WC_WR_FLUSH_ERR);
	expect_none(s->f->cq);
	/* The event of the withdrawn QP is gone; the limit's carries the virtual SRQ. */
	CHECK_EQUAL(ibv_get_async_event(s->f->context, &event), 0);
	CHECK_EQUAL(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(event.element.srq == s->srq);
	ibv_ack_async_event(&event);
	CHECK_EQUAL(s->srq->events_completed, 1);
	close_shared(s);
}

#define MESSAGES 10000

struct poller {
	struct shared *s;
	struct ibv_cq *cq;
	unsigned seen;
};

static void *poll_all(void *argument)
{
	struct poller *p = argument;
	struct ibv_wc wc;

	while (p->seen < MESSAGES / 2) {
		if (ibv_poll_cq(p->cq, 1, &wc) != 1) {
			sched_yield();
			continue;
		}
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		p->seen++;
	}
	return NULL;
}

/* All places have come back, and none twice. */
static void close_refilled(struct shared *s, struct ibv_qp *qp, struct ibv_cq *other)
{
	for (int i = 0; i < RECEIVES; i++)
		CHECK_EQUAL(post(s, i), 0);
	CHECK_EQUAL(post(s, 99), ENOMEM);
	CHECK_EQUAL(ibv_destroy_qp(qp), 0);
	CHECK_EQUAL(ibv_destroy_cq(other), 0);
	close_shared(s);
}

/* Two threads poll two completion queues while a third posts: every place is used again and again. */
static void several_threads(void)
{
	struct shared *s = open_shared();
	struct ibv_cq *other = ibv_create_cq(s->f->context, 1000, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = other,
		.recv_cq = other,
		.srq = s->srq,
		.cap = { 4, 0, 1, 0, 0 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(s->f->pd, &init);
	struct poller pollers[] = { { s, s->f->cq, 0 }, { s, other, 0 } };
	pthread_t threads[2];

	CHECK(qp);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, poll_all, &pollers[i]), 0);
	for (unsigned i = 0; i < MESSAGES; i++) {
		while (post(s, i) == ENOMEM)
			usleep(10);
		mock_complete_shared(mock_srq(s->srq), i, i % 2 ? mock_qp(qp) : mock_qp(s->qps[0]), IBV_WC_SUCCESS, 1);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	close_gate();
	CHECK_EQUAL(bookmark(qp).received, MESSAGES / 2);
	CHECK_EQUAL(bookmark(s->qps[0]).received, MESSAGES / 2);
	CHECK_EQUAL(srq_bookmark(s).receives, 0);
	sv_gate_open();
	close_refilled(s, qp, other);
}

struct worker {
	struct shared *s;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static void *post_and_poll(void *argument)
{
	struct worker *w = argument;
	unsigned taken = 0, seen = 0;

	while (seen < MESSAGES / 2) {
		struct ibv_wc wc;
		unsigned before = taken + seen;

		if (taken < MESSAGES / 2 && !post(w->s, taken)) {
			mock_complete_shared_oldest(mock_srq(w->s->srq), mock_qp(w->qp));
			taken++;
		}
		if (ibv_poll_cq(w->cq, 1, &wc) == 1) {
			CHECK_EQUAL(wc.qp_num, w->qp->qp_num);
			seen++;
		}
		if (taken + seen == before)
			sched_yield();
	}
	return NULL;
}

/*
 * Places that one thread takes and brings back while another takes the queue's lock over are neither lost nor doubled; the device
 * hands the processor to the other thread with the lock held.
 */
static void two_threads_post_and_poll(void)
{
	for (int round = 0; round < 2; round++) {
		struct shared *s = open_shared();
		struct ibv_cq *other = ibv_create_cq(s->f->context, 1000, NULL, NULL, 0);
		struct ibv_qp_init_attr init = { .send_cq = other, .recv_cq = other, .srq = s->srq,
						 .cap = { 4, 0, 1, 0, 0 }, .qp_type = IBV_QPT_RC };
		struct ibv_qp *qp = ibv_create_qp(s->f->pd, &init);
		struct worker here = { s, s->f->cq, s->qps[0] }, there = { s, other, qp };
		pthread_t thread;

		CHECK(qp);
		mock_yields = true;
		CHECK_EQUAL(pthread_create(&thread, NULL, post_and_poll, &there), 0);
		post_and_poll(&here);
		pthread_join(thread, NULL);
		mock_yields = false;
		CHECK_EQUAL(srq_bookmark(s).receives, 0);
		close_refilled(s, qp, other);
	}
}

/* The device gives the number of a QP that it has destroyed to another one before ours has been removed. */
static void number_given_again(void)
{
	struct shared *s = open_shared();
	struct ibv_qp_init_attr init = { .send_cq = s->f->cq, .recv_cq = s->f->cq, .srq = s->srq,
					 .cap = { 4, 0, 1, 0, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp;

	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(post(s, i), 0);
	complete(s, 0, 0);
	CHECK_EQUAL(expect(s->f->cq, 0, IBV_WC_SUCCESS).qp_num, s->qps[0]->qp_num);
	mock_next_qp_num = mock_qp(s->qps[0])->v.qp_num;
	qp = ibv_create_qp(s->f->pd, &init);
	CHECK(qp);
	mock_next_qp_num = 0x10000;
	for (int i = 1; i < 3; i++) {
		mock_complete_shared(mock_srq(s->srq), i, mock_qp(qp), IBV_WC_SUCCESS, 1);
		expect(s->f->cq, i, IBV_WC_SUCCESS);
		if (s->qps[0])
			CHECK_EQUAL(ibv_destroy_qp(s->qps[0]), 0);
		s->qps[0] = NULL;
	}
	close_gate();
	CHECK_EQUAL(bookmark(qp).received, 2);
	sv_gate_open();
	CHECK_EQUAL(ibv_destroy_qp(qp), 0);
	close_shared(s);
}

static int resize(struct shared *s, uint32_t max_wr)
{
	struct ibv_srq_attr attr = { .max_wr = max_wr };

	return ibv_modify_srq(s->srq, &attr, IBV_SRQ_MAX_WR);
}

/* It holds as many as it was told last; never fewer than there are. */
static void resized(void)
{
	struct shared *s = open_shared();
	uint64_t position;

	for (int i = 0; i < RECEIVES; i++)
		CHECK_EQUAL(post(s, i), 0);
	CHECK_EQUAL(resize(s, 65), EINVAL);
	CHECK_EQUAL(resize(s, 0), EINVAL);
	CHECK_EQUAL(resize(s, RECEIVES + 4), 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(post(s, RECEIVES + i), 0);
	CHECK_EQUAL(post(s, 99), ENOMEM);
	for (int i = 0; i < 5; i++) {
		complete(s, i, 0);
		expect(s->f->cq, i, IBV_WC_SUCCESS);
	}
	CHECK_EQUAL(resize(s, RECEIVES - 2), EINVAL);
	driver_fail_op = SV_OP_MODIFY_SRQ;
	driver_fail_err = ENOMEM;
	CHECK_EQUAL(resize(s, RECEIVES), ENOMEM);
	driver_fail_op = 0;
	for (int i = 0; i < 5; i++)
		CHECK_EQUAL(post(s, 50 + i), 0);
	CHECK_EQUAL(post(s, 99), ENOMEM);
	for (int i = 5; i < 10; i++) {
		complete(s, i, 0);
		expect(s->f->cq, i, IBV_WC_SUCCESS);
	}
	CHECK_EQUAL(resize(s, RECEIVES), 0);
	CHECK_EQUAL(post(s, 60), 0);
	CHECK_EQUAL(post(s, 99), ENOMEM);
	CHECK_EQUAL(resize(s, RECEIVES + 8), 0);
	CHECK_EQUAL(post(s, 61), 0);
	close_gate();
	CHECK_EQUAL(srq_bookmark(s).receives, RECEIVES + 1);
	driver_detach(s->f->context);
	driver_reattach(s->f->context);
	CHECK_EQUAL(sv_srq_replay(s->srq, &position), 0);
	CHECK_EQUAL(position, RECEIVES + 1);
	sv_gate_open();
	for (int i = 0; i < RECEIVES + 1; i++) {
		complete(s, i, 1);
		CHECK_EQUAL(ibv_poll_cq(s->f->cq, 1, &(struct ibv_wc){ 0 }), 1);
	}
	for (int i = 0; i < RECEIVES + 8; i++)
		CHECK_EQUAL(post(s, i), 0);
	CHECK_EQUAL(post(s, 99), ENOMEM);
	close_shared(s);
}

int main(void)
{
	RUN(any_order);
	RUN(lists_and_errors);
	RUN(replay_in_order);
	RUN(landing);
	RUN(destroyed_qp_gives_room_back);
	RUN(held_errors);
	RUN(several_threads);
	RUN(two_threads_post_and_poll);
	RUN(number_given_again);
	RUN(resized);
	return 0;
}
