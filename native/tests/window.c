/* SPDX-License-Identifier: Apache-2.0 */
/* Memory windows: rkeys, binds and invalidations, executed and not, before and after a checkpoint. */
#include "test.h"

static const struct shape shape = { .send_wr = 16, .recv_wr = 16, .sge = 1 };
static const enum ibv_wc_status bad_bind = IBV_WC_MW_BIND_ERR;

static uint32_t rkey_of(struct ibv_mr *vmr)
{
	return ((struct ibv_mr *)sv_real(vmr))->rkey;
}

static struct ibv_mw *real_mw(struct ibv_mw *vmw)
{
	return sv_real(vmw);
}

static struct ibv_send_wr bind_request(struct fixture *f, struct ibv_mw *mw, uint64_t wr_id, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ f->mr, (uintptr_t)f->buffer + wr_id, 100 + wr_id,
							  IBV_ACCESS_REMOTE_READ };
	return wr;
}

/* Binds a type 2 window to its next rkey. */
static void bind_next(struct fixture *f, struct ibv_mw *mw, uint64_t wr_id)
{
	struct ibv_send_wr wr = bind_request(f, mw, wr_id, ibv_inc_rkey(mw->rkey)), *bad;

	CHECK_EQUAL(ibv_post_send(f->qp, &wr, &bad), 0);
	mw->rkey = wr.bind_mw.rkey;
}

static void invalidate(struct fixture *f, uint64_t wr_id, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED,
				  .invalidate_rkey = rkey }, *bad;

	CHECK_EQUAL(ibv_post_send(f->qp, &wr, &bad), 0);
}

static struct ibv_send_wr *sent(struct fixture *f, unsigned number)
{
	return &mock_qp(f->qp)->send.requests[number].send;
}

static void check_bind(struct fixture *f, unsigned number, struct ibv_mw *mw, uint64_t wr_id)
{
	struct ibv_send_wr *wr = sent(f, number);

	CHECK_EQUAL(wr->opcode, IBV_WR_BIND_MW);
	CHECK(wr->bind_mw.mw == real_mw(mw));
	CHECK(wr->bind_mw.bind_info.mr == sv_real(f->mr));
	CHECK_EQUAL(wr->bind_mw.bind_info.addr, (uintptr_t)f->buffer + wr_id);
	CHECK_EQUAL(wr->bind_mw.bind_info.length, 100 + wr_id);
	CHECK_EQUAL(wr->bind_mw.bind_info.mw_access_flags, IBV_ACCESS_REMOTE_READ);
	CHECK_EQUAL(wr->bind_mw.rkey & ~0xffu, real_mw(mw)->rkey & ~0xffu);
}

static void detach_and_reattach(struct fixture *f)
{
	close_gate();
	CHECK(sv_cq_drain(f->cq) >= 0);
	driver_detach(f->context);
	CHECK_EQUAL(mock_objects, 0);
	driver_reattach(f->context);
}

static void rebind(struct fixture *f, struct ibv_mw *mw)
{
	CHECK_EQUAL(sv_mw_bound(mw), 1);
	mock_completes_at_once = true;
	CHECK_EQUAL(sv_mw_rebind(mw, f->qp), 0);
	mock_completes_at_once = false;
}

static void replay(struct fixture *f)
{
	uint64_t position;

	CHECK_EQUAL(sv_qp_replay_sends(f->qp, &position), 0);
}

static void type_2(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_mw *mw = ibv_alloc_mw(f->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr, *bad;
	uint32_t first = mw->rkey, second, third;

	CHECK(mw && real_mw(mw) != mw && mw->pd == f->pd && mw->type == IBV_MW_TYPE_2);
	bind_next(f, mw, 1);
	second = mw->rkey;
	check_bind(f, 0, mw, 1);
	CHECK_EQUAL(sent(f, 0)->bind_mw.rkey, sv_mw_real_rkey(mw, second));
	CHECK(sv_mw_real_rkey(mw, first) == real_mw(mw)->rkey && second != first);
	/* Not another window's keys. */
	wr = bind_request(f, mw, 9, mw->rkey + 0x100);
	CHECK_EQUAL(ibv_post_send(f->qp, &wr, &bad), EINVAL);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	expect(f->cq, 1, IBV_WC_SUCCESS);
	invalidate(f, 2, second);
	CHECK_EQUAL(sent(f, 1)->opcode, IBV_WR_LOCAL_INV);
	CHECK_EQUAL(sent(f, 1)->invalidate_rkey, sv_mw_real_rkey(mw, second));
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	expect(f->cq, 2, IBV_WC_SUCCESS);
	/* Executed, and bound; then an invalidation and a bind that are not. */
	bind_next(f, mw, 3);
	third = mw->rkey;
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	invalidate(f, 4, third);
	bind_next(f, mw, 5);
	detach_and_reattach(f);
	rebind(f, mw);
	check_bind(f, 0, mw, 3);
	CHECK(sv_mw_qp(mw) == f->qp);
	CHECK_EQUAL(sent(f, 0)->bind_mw.rkey, sv_mw_real_rkey(mw, third));
	CHECK(sent(f, 0)->bind_mw.rkey != real_mw(mw)->rkey);
	replay(f);
	CHECK_EQUAL(mock_qp(f->qp)->send.posted, 3);
	CHECK_EQUAL(sent(f, 1)->invalidate_rkey, sent(f, 0)->bind_mw.rkey);
	check_bind(f, 2, mw, 5);
	sv_gate_open();
	mock_complete_sends(mock_qp(f->qp), 2, IBV_WC_SUCCESS);
	for (uint64_t i = 3; i <= 5; i++)
		expect(f->cq, i, IBV_WC_SUCCESS);
	expect_none(f->cq);
	CHECK_EQUAL(ibv_dealloc_mw(mw), 0);
	close_fixture(f);
}

static void type_1(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_mw *mw = ibv_alloc_mw(f->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { .wr_id = 1, .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { f->mr, (uintptr_t)f->buffer + 1, 101, IBV_ACCESS_REMOTE_READ } };
	uint32_t first = mw->rkey, second, third;
	struct ibv_send_wr wr = bind_request(f, mw, 1, mw->rkey), *bad;

	CHECK_EQUAL(ibv_post_send(f->qp, &wr, &bad), EINVAL);
	CHECK_EQUAL(ibv_bind_mw(f->qp, mw, &bind), 0);
	second = mw->rkey;
	CHECK(second != first);
	CHECK_EQUAL(sv_mw_real_rkey(mw, second), real_mw(mw)->rkey);
	check_bind(f, 0, mw, 1);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	bind.wr_id = 2;
	bind.bind_info.addr++;
	bind.bind_info.length++;
	CHECK_EQUAL(ibv_bind_mw(f->qp, mw, &bind), 0);
	third = mw->rkey;
	detach_and_reattach(f);
	rebind(f, mw);
	CHECK_EQUAL(real_mw(mw)->rkey, sv_mw_real_rkey(mw, second));
	replay(f);
	CHECK_EQUAL(mw->rkey, third);
	CHECK_EQUAL(real_mw(mw)->rkey, sv_mw_real_rkey(mw, third));
	check_bind(f, 1, mw, 2);
	sv_gate_open();
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	expect(f->cq, 1, IBV_WC_SUCCESS);
	expect(f->cq, 2, IBV_WC_SUCCESS);
	/* Unbound, it has another rkey and nothing behind it. A post that fails changes nothing. */
	memset(&bind.bind_info, 0, sizeof(bind.bind_info));
	mock_fail_after = 0;
	CHECK_EQUAL(ibv_bind_mw(f->qp, mw, &bind), ENOSPC);
	CHECK_EQUAL(mw->rkey, third);
	CHECK_EQUAL(ibv_bind_mw(f->qp, mw, &bind), 0);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	expect(f->cq, 2, IBV_WC_SUCCESS);
	detach_and_reattach(f);
	CHECK_EQUAL(sv_mw_bound(mw), 0);
	CHECK_EQUAL(real_mw(mw)->rkey, sv_mw_real_rkey(mw, mw->rkey));
	sv_gate_open();
	CHECK_EQUAL(ibv_dealloc_mw(mw), 0);
	close_fixture(f);
}

static void received(struct fixture *f, uint64_t wr_id, uint32_t real_rkey)
{
	struct mock_qp *real = mock_qp(f->qp);
	struct ibv_wc wc = {
		.wr_id = real->recv.requests[real->recv.completed++ % MOCK_RING].recv.wr_id,
		.opcode = IBV_WC_RECV,
		.wc_flags = IBV_WC_WITH_INV,
		.invalidated_rkey = real_rkey,
	};

	(void)wr_id;
	mock_push(mock_cq(f->cq), &wc);
}

/* A peer invalidates: seen by poll, by the drain, and by a landing. */
static void invalidated_by_the_peer(void)
{
	for (int how = 0; how < 3; how++) {
		struct fixture *f = open_fixture(shape);
		struct ibv_mw *mw = ibv_alloc_mw(f->pd, IBV_MW_TYPE_2);
		struct ibv_wc wc;
		uint32_t rkey;

		bind_next(f, mw, 1);
		rkey = mw->rkey;
		mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
		expect(f->cq, 1, IBV_WC_SUCCESS);
		/* After this, virtual and real differ. */
		detach_and_reattach(f);
		rebind(f, mw);
		if (how < 2) {
			sv_gate_open();
			CHECK_EQUAL(post_recv(f, 7), 0);
			received(f, 7, sv_mw_real_rkey(mw, rkey));
			if (how == 1) {
				close_gate();
				CHECK_EQUAL(sv_cq_drain(f->cq), 1);
				sv_gate_open();
			}
		} else {
			CHECK_EQUAL(sv_qp_post_landing(f->qp, 0), 0);
			received(f, 7, sv_mw_real_rkey(mw, rkey));
			CHECK_EQUAL(sv_cq_drain(f->cq), 1);
			CHECK_EQUAL(sv_mw_bound(mw), 0);
			driver_detach(f->context);
			driver_reattach(f->context);
			sv_gate_open();
			CHECK_EQUAL(post_recv(f, 7), 0);
		}
		wc = expect(f->cq, 7, IBV_WC_SUCCESS);
		CHECK(wc.wc_flags & IBV_WC_WITH_INV);
		CHECK_EQUAL(wc.invalidated_rkey, rkey);
		CHECK_EQUAL(sv_mw_bound(mw), 0);
		CHECK_EQUAL(ibv_dealloc_mw(mw), 0);
		close_fixture(f);
	}
}

/* A bind that fails, or is flushed, has changed nothing. */
static void failed_binds(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_mw *mw = ibv_alloc_mw(f->pd, IBV_MW_TYPE_2);

	bind_next(f, mw, 1);
	bind_next(f, mw, 2);
	mock_complete_sends(mock_qp(f->qp), 1, bad_bind);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_WR_FLUSH_ERR);
	expect(f->cq, 1, bad_bind);
	expect(f->cq, 2, IBV_WC_WR_FLUSH_ERR);
	close_gate();
	driver_detach(f->context);
	CHECK_EQUAL(sv_mw_bound(mw), 0);
	driver_reattach(f->context);
	sv_gate_open();
	/* So with a queue pair that is reset, or destroyed: of type 2 nothing is left. */
	to_state(f->qp, IBV_QPS_RESET);
	to_state(f->qp, IBV_QPS_INIT);
	to_state(f->qp, IBV_QPS_RTR);
	to_state(f->qp, IBV_QPS_RTS);
	bind_next(f, mw, 3);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	expect(f->cq, 3, IBV_WC_SUCCESS);
	bind_next(f, mw, 4);
	to_state(f->qp, IBV_QPS_RESET);
	close_gate();
	driver_detach(f->context);
	CHECK_EQUAL(sv_mw_bound(mw), 0);
	CHECK(!sv_mw_qp(mw));
	driver_reattach(f->context);
	sv_gate_open();
	CHECK_EQUAL(ibv_dealloc_mw(mw), 0);
	close_fixture(f);
}

/* SEND_WITH_INV and the extended posts; the rkey that is invalidated is the peer's. */
static void with_the_extended_verbs(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_mw *mw = ibv_alloc_mw(f->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = f->mr->rkey }, *bad;
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 16, 16, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = f->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(f->context, &attr);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	const struct ibv_mw_bind_info info = { f->mr, (uintptr_t)f->buffer, 8, IBV_ACCESS_REMOTE_WRITE };
	struct mock_request *requests;

	CHECK_EQUAL(ibv_post_send(f->qp, &wr, &bad), 0);
	CHECK_EQUAL(bookmark(f->qp).consumers, 1);
	CHECK_EQUAL(sent(f, 0)->invalidate_rkey, rkey_of(f->mr));
	close_gate();
	driver_detach(f->context);
	driver_reattach(f->context);
	replay(f);
	CHECK_EQUAL(sent(f, 0)->opcode, IBV_WR_SEND_WITH_INV);
	CHECK_EQUAL(sent(f, 0)->invalidate_rkey, rkey_of(f->mr));
	sv_gate_open();
	to_state(qp, IBV_QPS_INIT);
	to_state(qp, IBV_QPS_RTR);
	to_state(qp, IBV_QPS_RTS);
	requests = mock_qp(qp)->send.requests;
	ibv_wr_start(ex);
	ex->wr_id = 10;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(ex, mw, ibv_inc_rkey(mw->rkey), &info);
	ibv_wr_local_inv(ex, ibv_inc_rkey(mw->rkey));
	ibv_wr_send_inv(ex, f->mr->rkey);
	CHECK_EQUAL(ibv_wr_complete(ex), 0);
	CHECK_EQUAL(mock_qp(qp)->send.posted, 3);
	CHECK_EQUAL(requests[0].send.bind_mw.rkey, sv_mw_real_rkey(mw, ibv_inc_rkey(mw->rkey)));
	CHECK_EQUAL(requests[1].send.invalidate_rkey, requests[0].send.bind_mw.rkey);
	CHECK_EQUAL(requests[2].send.invalidate_rkey, rkey_of(f->mr));
	CHECK_EQUAL(ibv_destroy_qp(qp), 0);
	CHECK_EQUAL(ibv_dealloc_mw(mw), 0);
	close_fixture(f);
}

/* As many changes as there is room for, of several windows, in one queue. */
static void many_changes(void)
{
	struct fixture *f = open_fixture((struct shape){ .send_wr = 200, .recv_wr = 1, .sge = 1 });
	struct ibv_mw *mws[3];
	struct ibv_send_wr wr, *bad;

	for (int i = 0; i < 3; i++)
		mws[i] = ibv_alloc_mw(f->pd, IBV_MW_TYPE_2);
	for (int i = 0; i < 192; i++)
		bind_next(f, mws[i % 3], i);
	wr = bind_request(f, mws[0], 192, ibv_inc_rkey(mws[0]->rkey));
	CHECK_EQUAL(ibv_post_send(f->qp, &wr, &bad), ENOMEM);
	CHECK(bad == &wr);
	mock_complete_sends(mock_qp(f->qp), 100, IBV_WC_SUCCESS);
	detach_and_reattach(f);
	for (int i = 0; i < 3; i++) {
		rebind(f, mws[i]);
		check_bind(f, i, mws[i], 97 + (i + 2) % 3);
	}
	replay(f);
	CHECK_EQUAL(mock_qp(f->qp)->send.posted, 95);
	for (int i = 100; i < 192; i++)
		check_bind(f, 3 + i - 100, mws[i % 3], i);
	sv_gate_open();
	mock_complete_sends(mock_qp(f->qp), 92, IBV_WC_SUCCESS);
	for (int i = 0; i < 192; i++)
		expect(f->cq, i, IBV_WC_SUCCESS);
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(ibv_dealloc_mw(mws[i]), 0);
	close_fixture(f);
}

int main(void)
{
	RUN(type_2);
	RUN(type_1);
	RUN(invalidated_by_the_peer);
	RUN(failed_binds);
	RUN(with_the_extended_verbs);
	RUN(many_changes);
	return 0;
}
