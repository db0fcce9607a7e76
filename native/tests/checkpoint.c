/* SPDX-License-Identifier: Apache-2.0 */
/* What a checkpoint does to queue pairs and completion queues: drain, errors, markers, landings, replay. */
#include "test.h"

static const struct shape shape = { .send_wr = 16, .recv_wr = 16, .sge = 2, .payload = 32 };

static void detach_and_reattach(struct fixture *f)
{
	driver_detach(f->context);
	CHECK_EQUAL(mock_objects, 0);
	CHECK(!sv_real(f->qp) && !sv_real(f->cq) && !sv_real(f->context));
	driver_reattach(f->context);
}

static unsigned replay(struct ibv_qp *qp)
{
	unsigned before = mock_qp(qp)->send.posted;
	uint64_t position;

	CHECK_EQUAL(sv_qp_replay_receives(qp, &position), 0);
	CHECK_EQUAL(sv_qp_replay_sends(qp, &position), 0);
	CHECK_EQUAL(position, bookmark(qp).posted);
	return mock_qp(qp)->send.posted - before;
}

/* Completions that the application has not polled survive, in order, before new ones; they still hold their room. */
static void unread_completions(void)
{
	enum { COUNT = 16 };
	struct fixture *f = open_fixture(shape);
	struct ibv_wc wc;

	for (int i = 0; i < COUNT; i++) {
		CHECK_EQUAL(post_send(f, 100 + i, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
		CHECK_EQUAL(post_recv(f, 200 + i), 0);
		mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
		mock_complete_recvs(mock_qp(f->qp), 1, IBV_WC_SUCCESS, i);
	}
	close_gate();
	CHECK_EQUAL(sv_cq_drain(f->cq), 2 * COUNT);
	CHECK_EQUAL(sv_cq_drain(f->cq), 0);
	CHECK_EQUAL(bookmark(f->qp).retired, COUNT);
	CHECK_EQUAL(bookmark(f->qp).received, COUNT);
	CHECK_EQUAL(bookmark(f->qp).receives, 0);
	detach_and_reattach(f);
	CHECK_EQUAL(replay(f->qp), 0);
	sv_gate_open();
	CHECK_EQUAL(post_send(f, 99, IBV_WR_SEND, 0), ENOMEM);
	CHECK_EQUAL(post_recv(f, 99), ENOMEM);
	for (int i = 0; i < COUNT; i++) {
		expect(f->cq, 100 + i, IBV_WC_SUCCESS);
		wc = expect(f->cq, 200 + i, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.byte_len, i);
		CHECK_EQUAL(wc.src_qp, 0x77);
		CHECK_EQUAL(post_send(f, 300 + i, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
		mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	}
	for (int i = 0; i < COUNT; i++)
		expect(f->cq, 300 + i, IBV_WC_SUCCESS);
	expect_none(f->cq);
	CHECK_EQUAL(bookmark(f->qp).posted, 2 * COUNT);
	close_fixture(f);
}

/* A queue does not get smaller than what is in it, be that kept or not; the device below has room for more. */
static void resized_below_the_unread(void)
{
	enum { COUNT = 10 };
	struct fixture *f = open_fixture(shape);

	for (int i = 0; i < COUNT; i++)
		CHECK_EQUAL(post_send(f, i, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	mock_complete_sends(mock_qp(f->qp), COUNT / 2, IBV_WC_SUCCESS);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(f->cq), COUNT / 2);
	sv_gate_open();
	mock_complete_sends(mock_qp(f->qp), COUNT / 2, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_resize_cq(f->cq, COUNT - 1), EINVAL);
	CHECK_EQUAL(f->cq->cqe, 1000);
	CHECK_EQUAL(ibv_resize_cq(f->cq, COUNT), 0);
	CHECK_EQUAL(f->cq->cqe, COUNT);
	for (int i = 0; i < COUNT; i++)
		expect(f->cq, i, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_resize_cq(f->cq, 1), 0);
	CHECK_EQUAL(post_send(f, 50, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	expect(f->cq, 50, IBV_WC_SUCCESS);
	expect_none(f->cq);
	close_fixture(f);
}

/* One poll takes from both: kept ones first. */
static void kept_before_real(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_wc wc[8];

	for (int i = 0; i < 6; i++)
		CHECK_EQUAL(post_send(f, i, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	mock_complete_sends(mock_qp(f->qp), 3, IBV_WC_SUCCESS);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(f->cq), 3);
	sv_gate_open();
	mock_complete_sends(mock_qp(f->qp), 3, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_poll_cq(f->cq, 2, wc), 2);
	CHECK_EQUAL(ibv_poll_cq(f->cq, 8, wc + 2), 4);
	for (int i = 0; i < 6; i++)
		CHECK_EQUAL(wc[i].wr_id, i);
	close_fixture(f);
}

/* What took no effect is posted again to the new QP, with the new keys; what did is not. */
static void replay_posts_the_rest(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_sge sges[] = { { 0x10, 1, f->mr->lkey }, { 0x20, 2, f->mr->lkey } };
	struct ibv_recv_wr rwr = { .wr_id = 77, .sg_list = sges, .num_sge = 2 }, *bad;
	uint32_t old = ((struct ibv_mr *)sv_real(f->mr))->lkey, made;
	struct mock_qp *real;

	for (int i = 0; i < 10; i++)
		CHECK_EQUAL(post_send(f, i, i == 7 ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), 0);
	CHECK_EQUAL(ibv_post_recv(f->qp, &rwr, &bad), 0);
	mock_complete_sends(mock_qp(f->qp), 4, IBV_WC_SUCCESS);
	expect(f->cq, 0, IBV_WC_SUCCESS);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(f->cq), 3);
	detach_and_reattach(f);
	CHECK_EQUAL(replay(f->qp), 6);
	real = mock_qp(f->qp);
	made = ((struct ibv_mr *)sv_real(f->mr))->lkey;
	CHECK(made != old);
	CHECK_EQUAL(real->send.requests[0].sges[0].lkey, made);
	CHECK_EQUAL(real->send.requests[0].send.wr.rdma.rkey, made + 1);
	CHECK_EQUAL(real->send.requests[3].send.opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
	CHECK_EQUAL(real->recv.posted, 1);
	CHECK_EQUAL(real->recv.requests[0].recv.num_sge, 2);
	CHECK_EQUAL(real->recv.requests[0].sges[1].lkey, made);
	CHECK_EQUAL(real->recv.requests[0].sges[1].addr, 0x20);
	sv_gate_open();
	mock_complete_sends(real, 6, IBV_WC_SUCCESS);
	mock_complete_recvs(real, 1, IBV_WC_SUCCESS, 3);
	for (int i = 1; i < 10; i++)
		expect(f->cq, i, IBV_WC_SUCCESS);
	expect(f->cq, 77, IBV_WC_SUCCESS);
	/* What is posted from now on is translated too. */
	CHECK_EQUAL(post_send(f, 10, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED), 0);
	CHECK_EQUAL(real->send.requests[6].sges[0].lkey, made);
	CHECK_EQUAL(real->send.requests[6].send.wr.rdma.rkey, made + 1);
	CHECK_EQUAL(post_recv(f, 11), 0);
	CHECK_EQUAL(real->recv.requests[1].sges[0].lkey, made);
	CHECK_EQUAL(f->mr->lkey, old ^ (strcmp(getenv("SHADOWVERBS_IDS"), "scrambled") ? 0 : 0x3c3c3c3c));
	close_fixture(f);
}

/* A request that was built becomes the real one in place; the log has it as the application made it. */
static void built_requests(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = f->cq, .recv_cq = f->cq, .cap = { 8, 8, 2, 2, 16 }, .qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = f->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(f->context, &attr);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_mr *mr;
	struct mock_request *sent;
	char payload[] = "payload";

	to_state(qp, IBV_QPS_RTS);
	ex->wr_flags = IBV_SEND_SIGNALED;
	for (int round = 0; round < 2; round++) {
		sent = mock_qp(qp)->send.requests;
		mr = sv_real(f->mr);
		/* Two at once first: what is alone later goes alone. */
		ibv_wr_start(ex);
		for (ex->wr_id = 0; ex->wr_id < 2; ex->wr_id++) {
			ibv_wr_send(ex);
			ibv_wr_set_sge(ex, f->mr->lkey, 0x10, 1);
		}
		CHECK_EQUAL(ibv_wr_complete(ex), 0);
		for (int i = 2; i < 4; i++) {
			ibv_wr_start(ex);
			ex->wr_id = i;
			ibv_wr_rdma_write_imm(ex, f->mr->rkey, 0x9000, i);
			ibv_wr_set_sge(ex, f->mr->lkey, 0x20, i);
			CHECK_EQUAL(ibv_wr_complete(ex), 0);
			CHECK_EQUAL(sent[i].send.wr.rdma.rkey, mr->rkey);
			CHECK_EQUAL(sent[i].send.imm_data, i);
			CHECK_EQUAL(sent[i].sges[0].lkey, mr->lkey);
			CHECK_EQUAL(sent[i].sges[0].length, i);
		}
		ibv_wr_start(ex);
		ex->wr_id = 4;
		ibv_wr_send(ex);
		ibv_wr_set_inline_data(ex, payload, 4);
		CHECK_EQUAL(ibv_wr_complete(ex), 0);
		CHECK_EQUAL(memcmp(sent[4].payload, "payl", 4), 0);
		ibv_wr_start(ex);
		ex->wr_id = 5;
		ibv_wr_send(ex);
		CHECK_EQUAL(ibv_wr_complete(ex), 0);
		CHECK_EQUAL(sent[5].send.num_sge, 0);
		CHECK_EQUAL(mock_qp(qp)->send.posted, 6);
		/* What the device refuses is not in the log; what was refused or given up has no consequences. */
		mock_fail_after = 0;
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		CHECK_EQUAL(ibv_wr_complete(ex), ENOSPC);
		mock_fail_after = -1;
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		ibv_wr_set_inline_data(ex, payload, 17);
		ibv_wr_abort(ex);
		ibv_wr_start(ex);
		CHECK_EQUAL(ibv_wr_complete(ex), 0);
		close_gate();
		CHECK_EQUAL(bookmark(qp).posted, 6 * (round + 1));
		detach_and_reattach(f);
		CHECK_EQUAL(replay(qp), 6);
		sv_gate_open();
		sent = mock_qp(qp)->send.requests;
		mr = sv_real(f->mr);
		for (int i = 2; i < 4; i++) {
			CHECK_EQUAL(sent[i].send.wr.rdma.rkey, mr->rkey);
			CHECK_EQUAL(sent[i].send.wr.rdma.remote_addr, 0x9000);
			CHECK_EQUAL(sent[i].sges[0].lkey, mr->lkey);
			CHECK_EQUAL(sent[i].sges[0].addr, 0x20);
		}
		CHECK_EQUAL(memcmp(sent[4].payload, "payl", 4), 0);
		mock_complete_sends(mock_qp(qp), 6, IBV_WC_SUCCESS);
		for (int i = 0; i < 6; i++)
			expect(f->cq, i, IBV_WC_SUCCESS);
		close_gate();
		detach_and_reattach(f);
		CHECK_EQUAL(replay(qp), 0);
		sv_gate_open();
	}
	CHECK_EQUAL(ibv_destroy_qp(qp), 0);
	close_fixture(f);
}

static void replay_tells_how_far(void)
{
	struct fixture *f = open_fixture(shape);
	uint64_t position;

	for (int i = 0; i < 5; i++) {
		CHECK_EQUAL(post_send(f, i, IBV_WR_SEND, 0), 0);
		CHECK_EQUAL(post_recv(f, i), 0);
	}
	close_gate();
	detach_and_reattach(f);
	mock_fail_after = 3;
	CHECK_EQUAL(sv_qp_replay_sends(f->qp, &position), ENOSPC);
	CHECK_EQUAL(position, 3);
	mock_fail_after = 2;
	CHECK_EQUAL(sv_qp_replay_receives(f->qp, &position), ENOSPC);
	CHECK_EQUAL(position, 2);
	sv_gate_open();
	close_fixture(f);
}

/* The old QP's completions mean nothing to the new one. */
static void stale_generation(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_wc stale = { .status = IBV_WC_SUCCESS };

	CHECK_EQUAL(post_send(f, 1, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	stale.wr_id = mock_qp(f->qp)->send.requests[0].send.wr_id;
	close_gate();
	detach_and_reattach(f);
	CHECK_EQUAL(replay(f->qp), 1);
	mock_push(mock_cq(f->cq), &stale);
	CHECK_EQUAL(sv_cq_drain(f->cq), 0);
	sv_gate_open();
	mock_push(mock_cq(f->cq), &stale);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	mock_push(mock_cq(f->cq), &stale);
	expect(f->cq, 1, IBV_WC_SUCCESS);
	expect_none(f->cq);
	close_fixture(f);
}

struct poller {
	struct fixture *f;
	struct ibv_wc wc;
	unsigned done;
	pthread_t thread;
};

static void *poll_one(void *argument)
{
	struct poller *p = argument;

	while (!ibv_poll_cq(p->f->cq, 1, &p->wc))
		;
	__atomic_store_n(&p->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Since ANNOUNCE: errors stay unseen, the thread that polled one waits, and withdrawn requests are posted again. */
static void errors_withdrawn(void)
{
	struct fixture *f = open_fixture(shape);
	struct poller poller = { .f = f };
	struct ibv_wc wc[8];
	struct sv_bookmark mark;

	for (int i = 0; i < 8; i++)
		CHECK_EQUAL(post_send(f, i, IBV_WR_SEND, i == 2 || i == 3 ? 0 : IBV_SEND_SIGNALED), 0);
	CHECK_EQUAL(post_recv(f, 50), 0);
	sv_gate_announce(1);
	mock_complete_sends(mock_qp(f->qp), 4, IBV_WC_SUCCESS);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_RNR_RETRY_EXC_ERR);
	mock_complete_sends(mock_qp(f->qp), 3, IBV_WC_WR_FLUSH_ERR);
	mock_complete_recvs(mock_qp(f->qp), 1, IBV_WC_WR_FLUSH_ERR, 0);
	CHECK_EQUAL(ibv_poll_cq(f->cq, 8, wc), 2);
	CHECK_EQUAL(wc[1].wr_id, 1);
	CHECK_EQUAL(pthread_create(&poller.thread, NULL, poll_one, &poller), 0);
	close_gate();
	CHECK_EQUAL(__atomic_load_n(&poller.done, __ATOMIC_ACQUIRE), 0);
	CHECK_EQUAL(sv_cq_drain(f->cq), 0);
	mark = bookmark(f->qp);
	CHECK_EQUAL(mark.send_error, IBV_WC_RNR_RETRY_EXC_ERR);
	CHECK_EQUAL(mark.send_error_at, 4);
	CHECK_EQUAL(mark.recv_error, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQUAL(mark.retired, 2);
	CHECK_EQUAL(sv_qp_errors_withdraw(f->qp), 0);
	mark = bookmark(f->qp);
	CHECK_EQUAL(mark.retired, 4);
	CHECK_EQUAL(mark.send_error, 0);
	CHECK_EQUAL(mark.recv_error, 0);
	CHECK_EQUAL(mark.received, 0);
	CHECK_EQUAL(mark.receives, 1);
	detach_and_reattach(f);
	CHECK_EQUAL(replay(f->qp), 4);
	CHECK_EQUAL(mock_qp(f->qp)->recv.posted, 1);
	sv_gate_open();
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(pthread_join(poller.thread, NULL), 0);
	CHECK_EQUAL(poller.wc.wr_id, 4);
	CHECK_EQUAL(poller.wc.status, IBV_WC_SUCCESS);
	mock_complete_sends(mock_qp(f->qp), 3, IBV_WC_SUCCESS);
	mock_complete_recvs(mock_qp(f->qp), 1, IBV_WC_SUCCESS, 9);
	for (int i = 5; i < 8; i++)
		expect(f->cq, i, IBV_WC_SUCCESS);
	expect(f->cq, 50, IBV_WC_SUCCESS);
	close_fixture(f);
}

/* The application's own errors come through, after the gate has opened. */
static void errors_delivered(void)
{
	struct fixture *f = open_fixture(shape);
	struct poller poller = { .f = f };

	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(post_send(f, i, IBV_WR_SEND, 0), 0);
	CHECK_EQUAL(post_recv(f, 50), 0);
	sv_gate_announce(1);
	CHECK_EQUAL(pthread_create(&poller.thread, NULL, poll_one, &poller), 0);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_REM_ACCESS_ERR);
	mock_complete_sends(mock_qp(f->qp), 2, IBV_WC_WR_FLUSH_ERR);
	mock_complete_recvs(mock_qp(f->qp), 1, IBV_WC_WR_FLUSH_ERR, 0);
	close_gate();
	CHECK(sv_cq_drain(f->cq) >= 0);
	CHECK_EQUAL(__atomic_load_n(&poller.done, __ATOMIC_ACQUIRE), 0);
	CHECK_EQUAL(bookmark(f->qp).send_error, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQUAL(bookmark(f->qp).retired, 0);
	CHECK_EQUAL(sv_qp_errors_deliver(f->qp), 0);
	CHECK_EQUAL(bookmark(f->qp).retired, 3);
	CHECK_EQUAL(bookmark(f->qp).received, 0);
	CHECK_EQUAL(bookmark(f->qp).receives, 0);
	detach_and_reattach(f);
	CHECK_EQUAL(replay(f->qp), 0);
	CHECK_EQUAL(mock_qp(f->qp)->recv.posted, 0);
	sv_gate_open();
	CHECK_EQUAL(pthread_join(poller.thread, NULL), 0);
	CHECK_EQUAL(poller.wc.wr_id, 0);
	CHECK_EQUAL(poller.wc.status, IBV_WC_REM_ACCESS_ERR);
	expect(f->cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect(f->cq, 2, IBV_WC_WR_FLUSH_ERR);
	expect(f->cq, 50, IBV_WC_WR_FLUSH_ERR);
	expect_none(f->cq);
	close_fixture(f);
}

/* A checkpoint that is given up before CLOSE: what was held back comes after all. */
static void announcement_taken_back(void)
{
	struct fixture *f = open_fixture(shape);
	struct poller poller = { .f = f };

	CHECK_EQUAL(post_send(f, 1, IBV_WR_SEND, 0), 0);
	CHECK_EQUAL(post_send(f, 2, IBV_WR_SEND, 0), 0);
	sv_gate_announce(1);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_RETRY_EXC_ERR);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQUAL(pthread_create(&poller.thread, NULL, poll_one, &poller), 0);
	while (!mock_polled(mock_cq(f->cq)))
		sched_yield();
	sv_gate_announce(0);
	CHECK_EQUAL(pthread_join(poller.thread, NULL), 0);
	CHECK_EQUAL(poller.wc.wr_id, 1);
	CHECK_EQUAL(poller.wc.status, IBV_WC_RETRY_EXC_ERR);
	expect(f->cq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQUAL(bookmark(f->qp).retired, 2);
	CHECK_EQUAL(bookmark(f->qp).send_error, 0);
	close_fixture(f);
}

/* Errors without any announcement are none of our business. */
static void plain_errors(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_wc wc[4];

	CHECK_EQUAL(post_recv(f, 5), 0);
	CHECK_EQUAL(post_send(f, 1, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	CHECK_EQUAL(post_send(f, 2, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_RNR_RETRY_EXC_ERR);
	mock_complete_recvs(mock_qp(f->qp), 1, IBV_WC_WR_FLUSH_ERR, 0);
	CHECK_EQUAL(ibv_poll_cq(f->cq, 4, wc), 3);
	CHECK_EQUAL(wc[1].status, IBV_WC_RNR_RETRY_EXC_ERR);
	CHECK_EQUAL(wc[2].wr_id, 5);
	CHECK_EQUAL(bookmark(f->qp).received, 0);
	CHECK_EQUAL(bookmark(f->qp).receives, 0);
	CHECK_EQUAL(bookmark(f->qp).send_error, 0);
	close_fixture(f);
}

static void marker(void)
{
	struct fixture *f = open_fixture(shape);
	struct mock_qp *real = mock_qp(f->qp);
	struct ibv_send_wr *sent;

	/* A full queue: the marker's slot is one more. */
	for (int i = 0; i < 16; i++)
		CHECK_EQUAL(post_send(f, i, IBV_WR_RDMA_WRITE, i < 4 ? IBV_SEND_SIGNALED : 0), 0);
	mock_complete_sends(real, 16, IBV_WC_SUCCESS);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(f->cq), 4);
	CHECK_EQUAL(bookmark(f->qp).retired, 4);
	CHECK_EQUAL(bookmark(f->qp).last_signaled, 4);
	CHECK_EQUAL(bookmark(f->qp).marker, 0);
	CHECK_EQUAL(sv_qp_post_marker(f->qp), 0);
	CHECK_EQUAL(sv_qp_post_marker(f->qp), EBUSY);
	CHECK_EQUAL(bookmark(f->qp).marker, 1);
	CHECK_EQUAL(bookmark(f->qp).posted, 16);
	sent = &real->send.requests[16].send;
	CHECK_EQUAL(sent->opcode, IBV_WR_RDMA_WRITE);
	CHECK_EQUAL(sent->num_sge, 0);
	CHECK(sent->send_flags & IBV_SEND_SIGNALED);
	mock_complete_sends(real, 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(sv_cq_drain(f->cq), 1);
	CHECK_EQUAL(bookmark(f->qp).marker, 2);
	CHECK_EQUAL(bookmark(f->qp).retired, 16);
	CHECK_EQUAL(sv_qp_post_marker(f->qp), 0);
	mock_complete_sends(real, 1, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQUAL(sv_cq_drain(f->cq), 1);
	CHECK_EQUAL(bookmark(f->qp).marker, 3);
	detach_and_reattach(f);
	CHECK_EQUAL(bookmark(f->qp).marker, 0);
	CHECK_EQUAL(replay(f->qp), 0);
	sv_gate_open();
	for (int i = 0; i < 4; i++)
		expect(f->cq, i, IBV_WC_SUCCESS);
	expect_none(f->cq);
	/* The unsignaled ones have taken effect, but their room comes back as it would on a device. */
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(post_send(f, 20 + i, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), 0);
	CHECK_EQUAL(post_send(f, 24, IBV_WR_RDMA_WRITE, 0), ENOMEM);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	expect(f->cq, 20, IBV_WC_SUCCESS);
	CHECK_EQUAL(post_send(f, 24, IBV_WR_RDMA_WRITE, 0), 0);
	close_fixture(f);
}

/* A checkpoint given up before DETACH: the marker and the landing that are still on their way are not lost. */
static void own_requests_complete_late(void)
{
	struct fixture *f = open_fixture(shape);

	CHECK_EQUAL(post_send(f, 1, IBV_WR_RDMA_WRITE, 0), 0);
	close_gate();
	CHECK_EQUAL(sv_qp_post_marker(f->qp), 0);
	CHECK_EQUAL(sv_qp_post_landing(f->qp, 5), 0);
	sv_gate_open();
	mock_complete_sends(mock_qp(f->qp), 2, IBV_WC_SUCCESS);
	mock_receive(mock_qp(f->qp), "hello", 5);
	expect_none(f->cq);
	CHECK_EQUAL(bookmark(f->qp).marker, 2);
	CHECK_EQUAL(bookmark(f->qp).received, 1);
	CHECK_EQUAL(post_recv(f, 2), 0);
	expect(f->cq, 2, IBV_WC_SUCCESS);
	CHECK_EQUAL(memcmp(f->buffer, "hello", 5), 0);
	close_gate();
	CHECK_EQUAL(sv_qp_post_marker(f->qp), 0);
	detach_and_reattach(f);
	sv_gate_open();
	close_fixture(f);
}

static void retire(void)
{
	struct fixture *f = open_fixture(shape);
	struct sv_sent sent;
	struct ibv_wc wc;

	CHECK_EQUAL(post_send(f, 0, IBV_WR_RDMA_WRITE, 0), 0);
	CHECK_EQUAL(post_send(f, 1, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED), 0);
	CHECK_EQUAL(post_send(f, 2, IBV_WR_SEND, 0), 0);
	CHECK_EQUAL(post_send(f, 3, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED), 0);
	CHECK_EQUAL(post_send(f, 4, IBV_WR_SEND, 0), 0);
	close_gate();
	CHECK_EQUAL(sv_qp_sent(f->qp, 3, &sent), 0);
	CHECK_EQUAL(sent.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	CHECK_EQUAL(sent.ordinal, 2);
	CHECK_EQUAL(sent.signaled, 1);
	CHECK_EQUAL(sent.length, 64);
	CHECK_EQUAL(sv_qp_sent(f->qp, 0, &sent), 0);
	CHECK_EQUAL(sent.ordinal, 0);
	CHECK_EQUAL(sent.signaled, 0);
	CHECK_EQUAL(sv_qp_sent(f->qp, 5, &sent), EINVAL);
	CHECK_EQUAL(bookmark(f->qp).consumers, 3);
	CHECK_EQUAL(bookmark(f->qp).last_signaled, 4);
	CHECK_EQUAL(sv_qp_retire(f->qp, 6), EINVAL);
	CHECK_EQUAL(sv_qp_retire(f->qp, 4), 0);
	CHECK_EQUAL(sv_qp_retire(f->qp, 2), 0);
	CHECK_EQUAL(bookmark(f->qp).retired, 4);
	CHECK_EQUAL(sv_qp_sent(f->qp, 3, &sent), EINVAL);
	/* Their own completions come too late to count. */
	mock_complete_sends(mock_qp(f->qp), 4, IBV_WC_SUCCESS);
	CHECK_EQUAL(sv_cq_drain(f->cq), 0);
	detach_and_reattach(f);
	CHECK_EQUAL(replay(f->qp), 1);
	sv_gate_open();
	wc = expect(f->cq, 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.opcode, IBV_WC_RDMA_READ);
	CHECK_EQUAL(wc.byte_len, 64);
	wc = expect(f->cq, 3, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.opcode, IBV_WC_RDMA_WRITE);
	CHECK_EQUAL(wc.qp_num, f->qp->qp_num);
	expect_none(f->cq);
	close_fixture(f);
}

static void land(struct fixture *f, const char *text)
{
	size_t length = text ? strlen(text) : 0;

	CHECK_EQUAL(sv_qp_post_landing(f->qp, length), 0);
	CHECK_EQUAL(bookmark(f->qp).landings, 1);
	mock_receive(mock_qp(f->qp), text, length);
	CHECK_EQUAL(sv_cq_drain(f->cq), 1);
	CHECK_EQUAL(bookmark(f->qp).landings, 0);
}

/* Messages that our receives took fill the application's next ones, in order, before the device's. */
static void landing(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_sge sges[2][2] = {
		{ { (uintptr_t)f->buffer, 3, f->mr->lkey }, { (uintptr_t)f->buffer + 100, 90, f->mr->lkey } },
		{ { (uintptr_t)f->buffer + 200, 64, f->mr->lkey } },
	};
	struct ibv_recv_wr third = { .wr_id = 3, .sg_list = sges[1], .num_sge = 1 };
	struct ibv_recv_wr second = { .wr_id = 2, .next = &third };
	struct ibv_recv_wr first = { .wr_id = 1, .next = &second, .sg_list = sges[0], .num_sge = 2 }, *bad;
	struct ibv_wc wc;

	CHECK_EQUAL(ibv_req_notify_cq(f->cq, 0), 0);
	close_gate();
	land(f, "a message that landed");
	land(f, NULL);
	CHECK_EQUAL(sv_qp_post_landing(f->qp, 10), 0);
	CHECK_EQUAL(bookmark(f->qp).received, 2);
	CHECK_EQUAL(bookmark(f->qp).receives, 0);
	detach_and_reattach(f);
	CHECK_EQUAL(bookmark(f->qp).landings, 0);
	CHECK_EQUAL(replay(f->qp), 0);
	sv_gate_open();
	expect_none(f->cq);
	CHECK_EQUAL(ibv_post_recv(f->qp, &first, &bad), 0);
	CHECK_EQUAL(memcmp(f->buffer, "a m", 3), 0);
	CHECK_EQUAL(memcmp(f->buffer + 100, "essage that landed", 18), 0);
	CHECK_EQUAL(mock_qp(f->qp)->recv.posted, 1);
	{
		struct ibv_cq *cq;
		void *context;

		/* It was armed: it gets one event. */
		CHECK_EQUAL(ibv_get_cq_event(f->channel, &cq, &context), 0);
		CHECK(cq == f->cq && context == f);
		ibv_ack_cq_events(cq, 1);
	}
	mock_receive(mock_qp(f->qp), "live", 4);
	wc = expect(f->cq, 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.byte_len, 21);
	CHECK_EQUAL(wc.opcode, IBV_WC_RECV);
	CHECK_EQUAL(wc.qp_num, f->qp->qp_num);
	CHECK_EQUAL(wc.src_qp, 0x77);
	wc = expect(f->cq, 2, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.byte_len, 0);
	wc = expect(f->cq, 3, IBV_WC_SUCCESS);
	CHECK_EQUAL(memcmp(f->buffer + 200, "live", 4), 0);
	CHECK_EQUAL(bookmark(f->qp).received, 3);
	CHECK_EQUAL(bookmark(f->qp).receives, 0);
	expect_none(f->cq);
	close_fixture(f);
}

/* A landed message goes through a second checkpoint, and too small a receive breaks the connection. */
static void landing_too_long(void)
{
	struct fixture *f = open_fixture(shape);
	char text[65];

	memset(text, 'x', 64);
	text[64] = 0;
	close_gate();
	land(f, text);
	land(f, "a message longer than 64 bytes, which is what the application's next receive is prepared for");
	detach_and_reattach(f);
	detach_and_reattach(f);
	sv_gate_open();
	CHECK_EQUAL(post_recv(f, 1), 0);
	expect(f->cq, 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(memcmp(f->buffer, text, 64), 0);
	CHECK_EQUAL(post_recv(f, 2), 0);
	expect(f->cq, 2, IBV_WC_LOC_LEN_ERR);
	CHECK_EQUAL(mock_qp(f->qp)->v.state, IBV_QPS_ERR);
	close_fixture(f);
}

/* Never asked for: the memory comes back with the queue pair. */
static void landing_never_taken(void)
{
	struct fixture *f = open_fixture(shape);

	close_gate();
	land(f, "one");
	CHECK_EQUAL(sv_qp_post_landing(f->qp, 1), 0);
	sv_gate_open();
	close_fixture(f);
}

static void peer_gone(void)
{
	struct fixture *f = open_fixture(shape);

	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(post_send(f, i, IBV_WR_SEND, i ? 0 : IBV_SEND_SIGNALED), 0);
	CHECK_EQUAL(post_recv(f, 50), 0);
	CHECK_EQUAL(post_recv(f, 51), 0);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(f->cq), 1);
	detach_and_reattach(f);
	CHECK_EQUAL(sv_qp_fail(f->qp), 0);
	CHECK_EQUAL(sv_qp_fail(f->qp), 0);
	CHECK_EQUAL(replay(f->qp), 0);
	sv_gate_open();
	expect(f->cq, 0, IBV_WC_SUCCESS);
	expect(f->cq, 1, IBV_WC_RETRY_EXC_ERR);
	expect(f->cq, 2, IBV_WC_WR_FLUSH_ERR);
	expect(f->cq, 3, IBV_WC_WR_FLUSH_ERR);
	expect(f->cq, 50, IBV_WC_WR_FLUSH_ERR);
	expect(f->cq, 51, IBV_WC_WR_FLUSH_ERR);
	expect_none(f->cq);
	CHECK_EQUAL(bookmark(f->qp).received, 0);
	close_fixture(f);
}

/* The positions of a long life: over many checkpoints the ring wraps and nothing is lost or doubled. */
static void many_checkpoints(void)
{
	struct fixture *f = open_fixture(shape);
	uint64_t posted = 0, seen = 0;
	unsigned random = 1;

	for (int round = 0; round < 400; round++) {
		struct mock_qp *real = mock_qp(f->qp);
		unsigned pending;

		while (posted - seen < 16 && (random = random * 1103515245 + 12345) >> 16 & 7)
			CHECK_EQUAL(post_send(f, posted++, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
		pending = real->send.posted - real->send.completed;
		mock_complete_sends(real, pending ? (random >> 20) % (pending + 1) : 0, IBV_WC_SUCCESS);
		random = random * 1103515245 + 12345;
		if (random & 1 << 24)
			for (struct ibv_wc wc; ibv_poll_cq(f->cq, 1, &wc) == 1; seen++)
				CHECK_EQUAL(wc.wr_id, seen);
		close_gate();
		CHECK(sv_cq_drain(f->cq) >= 0);
		CHECK_EQUAL(bookmark(f->qp).posted, posted);
		detach_and_reattach(f);
		CHECK_EQUAL(replay(f->qp), posted - bookmark(f->qp).retired);
		sv_gate_open();
	}
	mock_complete_sends(mock_qp(f->qp), mock_qp(f->qp)->send.posted, IBV_WC_SUCCESS);
	while (seen < posted)
		expect(f->cq, seen++, IBV_WC_SUCCESS);
	expect_none(f->cq);
	CHECK(posted > 1000);
	close_fixture(f);
}

/* A region made after the restart means itself: its key is not in the exceptions. */
static void keys_after_restart(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	close_gate();
	detach_and_reattach(f);
	sv_gate_open();
	mr = ibv_reg_mr(f->pd, f->buffer, 64, IBV_ACCESS_LOCAL_WRITE);
	sge = (struct ibv_sge){ 0, 1, mr->lkey };
	CHECK_EQUAL(ibv_post_recv(f->qp, &wr, &bad), 0);
	CHECK_EQUAL(mock_qp(f->qp)->recv.requests[0].sges[0].lkey, ((struct ibv_mr *)sv_real(mr))->lkey);
	CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	close_fixture(f);
}

/* A thousand exceptions, key 0 among them in two of three; what is none means itself. In equal steps, in two, and at random. */
static uint32_t key_number(int kind, uint32_t i)
{
	switch (kind) {
	case 0:
		return i * 0x100;
	case 1:
		return i % 2 ? i * 0x100 : ~(i << 20);
	default:
		return i * 0x9e3779b1u ^ (i << 13);
	}
}

static void keys_of(int kind)
{
	enum { COUNT = 1000 };
	struct fixture *f = open_fixture(shape);
	static uint32_t virtuals[COUNT], reals[COUNT];
	uint32_t mask = strcmp(getenv("SHADOWVERBS_IDS"), "scrambled") ? 0 : 0x3c3c3c3c;
	struct sv_keymap *map;
	struct ibv_sge sge = { 0, 1, 0 };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	for (uint32_t i = 0; i < COUNT; i++) {
		virtuals[i] = key_number(kind, i);
		reals[i] = i * 7 + 1;
	}
	map = sv_keymap_new(virtuals, reals, COUNT);
	CHECK(map);
	close_gate();
	sv_context_set_lkeys(f->context, map);
	sv_gate_open();
	for (uint32_t i = 0; i < 2 * COUNT; i++) {
		struct mock_qp *real = mock_qp(f->qp);
		/* Of the others, the second in four is 0 and the third a key that the random ones may have taken. */
		uint32_t other = i % 4 == 1 ? 0 : i % 4 == 2 ? 0x9e3779b1u : i * 0x100 + 1;
		uint32_t expected = other ^ mask;

		sge.lkey = i < COUNT ? virtuals[i] : other;
		for (uint32_t k = 0; k < COUNT; k++)
			if (virtuals[k] == sge.lkey)
				expected = reals[k];
		CHECK_EQUAL(ibv_post_recv(f->qp, &wr, &bad), 0);
		CHECK_EQUAL(real->recv.requests[i % MOCK_RING].sges[0].lkey, expected);
		mock_complete_recvs(real, 1, IBV_WC_SUCCESS, 1);
		expect(f->cq, 0, IBV_WC_SUCCESS);
	}
	close_gate();
	sv_context_set_lkeys(f->context, NULL);
	sv_keymap_free(map);
	map = sv_keymap_new(NULL, NULL, 0);
	CHECK(map);
	sv_context_set_lkeys(f->context, map);
	sv_gate_open();
	sge.lkey = 5;
	CHECK_EQUAL(ibv_post_recv(f->qp, &wr, &bad), 0);
	CHECK_EQUAL(mock_qp(f->qp)->recv.requests[2 * COUNT % MOCK_RING].sges[0].lkey, 5 ^ mask);
	close_fixture(f);
	sv_keymap_free(map);
}

static void many_keys(void)
{
	for (int kind = 0; kind < 3; kind++)
		keys_of(kind);
}

int main(void)
{
	RUN(unread_completions);
	RUN(resized_below_the_unread);
	RUN(kept_before_real);
	RUN(replay_posts_the_rest);
	RUN(built_requests);
	RUN(replay_tells_how_far);
	RUN(stale_generation);
	RUN(errors_withdrawn);
	RUN(errors_delivered);
	RUN(announcement_taken_back);
	RUN(plain_errors);
	RUN(marker);
	RUN(own_requests_complete_late);
	RUN(retire);
	RUN(landing);
	RUN(landing_too_long);
	RUN(landing_never_taken);
	RUN(peer_gone);
	RUN(many_checkpoints);
	RUN(keys_after_restart);
	RUN(many_keys);
	return 0;
}
