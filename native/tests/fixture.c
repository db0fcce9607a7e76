/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

struct ibv_qp *make_qp(struct fixture *f, struct shape shape)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = f,
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { shape.send_wr, shape.recv_wr, shape.sge, shape.sge, shape.payload },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = shape.signal_all,
	};
	struct ibv_qp *qp = ibv_create_qp(f->pd, &attr);

	CHECK(qp);
	return qp;
}

void to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state, .dest_qp_num = 0x77, .ah_attr.dlid = 0x33 };

	CHECK_EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	CHECK_EQUAL(qp->state, state);
}

struct fixture *open_fixture(struct shape shape)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0]);
	f->context = ibv_open_device(list[0]);
	CHECK(f->context);
	ibv_free_device_list(list);
	f->pd = ibv_alloc_pd(f->context);
	f->channel = ibv_create_comp_channel(f->context);
	f->cq = ibv_create_cq(f->context, 1000, f, f->channel, 0);
	f->mr = ibv_reg_mr(f->pd, f->buffer, sizeof(f->buffer), IBV_ACCESS_LOCAL_WRITE);
	CHECK(f->pd && f->channel && f->cq && f->mr);
	f->qp = make_qp(f, shape);
	f->other = make_qp(f, shape);
	to_state(f->qp, IBV_QPS_INIT);
	to_state(f->qp, IBV_QPS_RTR);
	to_state(f->qp, IBV_QPS_RTS);
	return f;
}

void close_fixture(struct fixture *f)
{
	CHECK_EQUAL(ibv_destroy_qp(f->qp), 0);
	CHECK_EQUAL(ibv_destroy_qp(f->other), 0);
	CHECK_EQUAL(ibv_dereg_mr(f->mr), 0);
	CHECK_EQUAL(ibv_destroy_cq(f->cq), 0);
	CHECK_EQUAL(ibv_destroy_comp_channel(f->channel), 0);
	CHECK_EQUAL(ibv_dealloc_pd(f->pd), 0);
	CHECK_EQUAL(ibv_close_device(f->context), 0);
	CHECK_EQUAL(mock_objects, 0);
	free(f);
}

int post_send(struct fixture *f, uint64_t wr_id, enum ibv_wr_opcode opcode, unsigned flags)
{
	struct ibv_sge sge = { (uintptr_t)f->buffer, 64, f->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = flags,
		.wr.rdma = { 0x9000, f->mr->rkey },
	}, *bad = NULL;
	int err = ibv_post_send(f->qp, &wr, &bad);

	CHECK(!err == !bad);
	return err;
}

int post_recv(struct fixture *f, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)f->buffer, 64, f->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;
	int err = ibv_post_recv(f->qp, &wr, &bad);

	CHECK(!err == !bad);
	return err;
}

void close_gate(void)
{
	struct sv_gate_report report;

	CHECK_EQUAL(sv_gate_close(10 * SECOND, &report), 0);
}

struct sv_bookmark bookmark(struct ibv_qp *qp)
{
	struct sv_bookmark mark;

	sv_qp_bookmark(qp, &mark);
	return mark;
}

struct ibv_wc expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = { 0 };

	CHECK_EQUAL(ibv_poll_cq(cq, 1, &wc), 1);
	CHECK_EQUAL(wc.wr_id, wr_id);
	CHECK_EQUAL(wc.status, status);
	return wc;
}

void expect_none(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	CHECK_EQUAL(ibv_poll_cq(cq, 1, &wc), 0);
}
