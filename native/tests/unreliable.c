/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs that nobody acknowledges: what completed locally is done. */
#include "test.h"

static const struct shape shape = { .send_wr = 8, .recv_wr = 8, .sge = 1, .payload = 0 };

static struct ibv_qp *make_uc(struct fixture *f)
{
	struct ibv_qp_init_attr init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = IBV_QPT_UC,
	};
	struct ibv_qp *qp = ibv_create_qp(f->pd, &init);

	CHECK(qp && qp->qp_type == IBV_QPT_UC);
	to_state(qp, IBV_QPS_INIT);
	to_state(qp, IBV_QPS_RTR);
	to_state(qp, IBV_QPS_RTS);
	return qp;
}

/* A signaled one retires what is before it, a marker the rest, and nothing is posted again but the receives. */
static void local_completion_is_enough(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_qp *qp = make_uc(f);
	struct ibv_sge sge = { (uintptr_t)f->buffer, 64, f->mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 77, .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	uint64_t position;

	CHECK_EQUAL(ibv_post_recv(qp, &recv, &bad_recv), 0);
	for (int i = 0; i < 4; i++) {
		struct ibv_send_wr wr = {
			.wr_id = i,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = i % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
			.send_flags = i == 1 ? IBV_SEND_SIGNALED : 0,
		}, *bad;

		CHECK_EQUAL(ibv_post_send(qp, &wr, &bad), 0);
	}
	mock_complete_sends(mock_qp(qp), 4, IBV_WC_SUCCESS);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(f->cq), 1);
	CHECK_EQUAL(bookmark(qp).retired, 2);
	CHECK_EQUAL(sv_qp_post_marker(qp), 0);
	mock_complete_sends(mock_qp(qp), 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(sv_cq_drain(f->cq), 1);
	CHECK_EQUAL(bookmark(qp).retired, 4);
	driver_detach(f->context);
	driver_reattach(f->context);
	CHECK_EQUAL(((struct ibv_qp *)sv_real(qp))->qp_type, IBV_QPT_UC);
	CHECK_EQUAL(sv_qp_replay_receives(qp, &position), 0);
	CHECK_EQUAL(sv_qp_replay_sends(qp, &position), 0);
	CHECK_EQUAL(mock_qp(qp)->send.posted, 0);
	CHECK_EQUAL(mock_qp(qp)->recv.posted, 1);
	sv_gate_open();
	expect(f->cq, 1, IBV_WC_SUCCESS);
	expect_none(f->cq);
	mock_complete_recvs(mock_qp(qp), 1, IBV_WC_SUCCESS, 64);
	expect(f->cq, 77, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_destroy_qp(qp), 0);
	close_fixture(f);
}

int main(void)
{
	RUN(local_completion_is_enough);
	return 0;
}
