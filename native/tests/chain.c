/* SPDX-License-Identifier: Apache-2.0 */
/* Objects, posting and polling without any checkpoint. */
#include "test.h"

static const struct shape shape = { .send_wr = 8, .recv_wr = 8, .sge = 4, .payload = 64 };

static void objects_are_virtual(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	union ibv_gid gid;
	uint16_t pkey;

	CHECK(sv_real(f->context) && sv_real(f->context) != f->context);
	CHECK(sv_real(f->qp) != f->qp && sv_real(f->cq) != f->cq && sv_real(f->pd) != f->pd);
	CHECK(sv_real(f->mr) != f->mr && sv_real(f->channel) != f->channel);
	CHECK(sv_real(&device) == &device);
	CHECK_EQUAL(f->context->num_comp_vectors, 3);
	CHECK_EQUAL(strcmp(ibv_get_device_name(f->context->device), "mock0"), 0);
	CHECK_EQUAL(ibv_get_device_guid(f->context->device), 0x1122334455667788);
	CHECK_EQUAL(ibv_get_device_index(f->context->device), 7);
	CHECK_EQUAL(ibv_query_device(f->context, &device), 0);
	CHECK_EQUAL(device.max_qp, 42);
	CHECK_EQUAL(ibv_query_port(f->context, 1, &port), 0);
	CHECK_EQUAL(port.port_cap_flags2, 0x7777);
	CHECK_EQUAL(ibv_query_port(f->context, 2, &port), EINVAL);
	CHECK_EQUAL(ibv_query_gid(f->context, 1, 0, &gid), 0);
	CHECK_EQUAL(gid.raw[15], 0xab);
	errno = 0;
	CHECK_EQUAL(ibv_query_gid(f->context, 1, 9, &gid), -1);
	CHECK_EQUAL(errno, EINVAL);
	CHECK_EQUAL(ibv_query_pkey(f->context, 1, 0, &pkey), -1);
	CHECK_EQUAL(errno, EOPNOTSUPP);
	CHECK_EQUAL(ibv_resize_cq(f->cq, 2000), 0);
	CHECK_EQUAL(f->cq->cqe, 2000);
	CHECK_EQUAL(ibv_destroy_cq(f->cq), EBUSY);
	CHECK_EQUAL(f->channel->refcnt, 1);
	CHECK_EQUAL(ibv_destroy_comp_channel(f->channel), EBUSY);
	CHECK(!ibv_qp_to_qp_ex(f->qp));
	close_fixture(f);
}

/* An old program's struct ends earlier: what lies behind it must stay. */
static void old_port_attributes(void)
{
#undef ibv_query_port
	struct fixture *f = open_fixture(shape);
	struct ibv_port_attr port = { .port_cap_flags2 = 0x1234 };

	CHECK_EQUAL(ibv_query_port(f->context, 1, (struct _compat_ibv_port_attr *)&port), 0);
	CHECK_EQUAL(port.port_cap_flags2, 0x1234);
	CHECK_EQUAL(port.state, IBV_PORT_ACTIVE);
	close_fixture(f);
}

static void send_and_receive(void)
{
	struct fixture *f = open_fixture(shape);
	struct mock_qp *real = mock_qp(f->qp);
	struct ibv_wc wc;

	expect_none(f->cq);
	for (uint64_t round = 0; round < 100; round++) {
		CHECK_EQUAL(post_send(f, 1000 + round, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), 0);
		CHECK_EQUAL(post_recv(f, 2000 + round), 0);
		mock_complete_sends(real, 1, IBV_WC_SUCCESS);
		mock_complete_recvs(real, 1, IBV_WC_SUCCESS, 64);
		wc = expect(f->cq, 1000 + round, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.qp_num, f->qp->qp_num);
		CHECK_EQUAL(wc.src_qp, 0);
		wc = expect(f->cq, 2000 + round, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.qp_num, f->qp->qp_num);
		CHECK_EQUAL(wc.src_qp, 0x77);
		CHECK_EQUAL(wc.slid, 0x33);
		CHECK_EQUAL(wc.byte_len, 64);
	}
	expect_none(f->cq);
	close_fixture(f);
}

/* The real request carries everything that the application's did. */
static void requests_arrive_whole(void)
{
	struct fixture *f = open_fixture(shape);
	struct mock_qp *real = mock_qp(f->qp);
	struct ibv_mr *made = sv_real(f->mr);
	struct ibv_sge sges[] = { { 0x1000, 10, f->mr->lkey }, { 0x2000, 20, f->mr->lkey }, { 0x3000, 30, f->mr->lkey } };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = sges, .num_sge = 3, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .send_flags = IBV_SEND_FENCE | IBV_SEND_SOLICITED, .imm_data = 0xabcd,
				  .wr.rdma = { 0x5000, f->mr->rkey } }, *bad;
	struct ibv_recv_wr rwr = { .wr_id = 1, .sg_list = sges, .num_sge = 3 }, *rbad;
	struct ibv_send_wr *sent = &real->send.requests[0].send;
	struct ibv_sge *sent_sges = real->send.requests[0].sges;

	CHECK_EQUAL(ibv_post_send(f->qp, &wr, &bad), 0);
	CHECK_EQUAL(sent->opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	CHECK_EQUAL(sent->send_flags, IBV_SEND_FENCE | IBV_SEND_SOLICITED);
	CHECK_EQUAL(sent->imm_data, 0xabcd);
	CHECK_EQUAL(sent->wr.rdma.remote_addr, 0x5000);
	CHECK_EQUAL(sent->wr.rdma.rkey, made->rkey);
	CHECK_EQUAL(sent->num_sge, 3);
	for (int i = 0; i < 3; i++) {
		CHECK_EQUAL(sent_sges[i].addr, sges[i].addr);
		CHECK_EQUAL(sent_sges[i].length, sges[i].length);
		CHECK_EQUAL(sent_sges[i].lkey, made->lkey);
	}
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.num_sge = 1;
	wr.wr.atomic.remote_addr = 0x6000;
	wr.wr.atomic.compare_add = 7;
	wr.wr.atomic.swap = 8;
	wr.wr.atomic.rkey = f->mr->rkey;
	CHECK_EQUAL(ibv_post_send(f->qp, &wr, &bad), 0);
	sent = &real->send.requests[1].send;
	CHECK_EQUAL(sent->wr.atomic.remote_addr, 0x6000);
	CHECK_EQUAL(sent->wr.atomic.compare_add, 7);
	CHECK_EQUAL(sent->wr.atomic.swap, 8);
	CHECK_EQUAL(sent->wr.atomic.rkey, made->rkey);
	CHECK_EQUAL(ibv_post_recv(f->qp, &rwr, &rbad), 0);
	CHECK_EQUAL(real->recv.requests[0].recv.num_sge, 3);
	CHECK_EQUAL(real->recv.requests[0].sges[2].addr, 0x3000);
	CHECK_EQUAL(real->recv.requests[0].sges[2].lkey, made->lkey);
	close_fixture(f);
}

static void wrong_requests(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_sge sges[5] = { 0 };
	struct ibv_send_wr wr = { .sg_list = sges, .num_sge = 5, .opcode = IBV_WR_SEND }, *bad = NULL;
	struct ibv_recv_wr rwr = { .sg_list = sges, .num_sge = 5 }, *rbad = NULL;

	CHECK_EQUAL(ibv_post_send(f->qp, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	CHECK_EQUAL(ibv_post_recv(f->qp, &rwr, &rbad), EINVAL);
	CHECK(rbad == &rwr);
	wr.num_sge = 1;
	wr.opcode = IBV_WR_TSO;
	CHECK_EQUAL(ibv_post_send(f->qp, &wr, &bad), EOPNOTSUPP);
	wr.opcode = 77;
	CHECK_EQUAL(ibv_post_send(f->qp, &wr, &bad), EINVAL);
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_INLINE;
	sges[0].length = 65;
	CHECK_EQUAL(ibv_post_send(f->qp, &wr, &bad), EINVAL);
	wr.num_sge = -1;
	CHECK_EQUAL(ibv_post_send(f->qp, &wr, &bad), EINVAL);
	CHECK_EQUAL(bookmark(f->qp).posted, 0);
	CHECK_EQUAL(mock_qp(f->qp)->send.posted, 0);
	close_fixture(f);
}

/* A provider may keep a request that it refuses for the state, and execute it later: it must not see it. */
static void below_rts(void)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR };
	struct fixture *f = open_fixture(shape);

	for (unsigned i = 0; i < 3; i++) {
		to_state(f->qp, states[i]);
		mock_forbidden = 1;
		CHECK_EQUAL(post_send(f, 1, IBV_WR_SEND, 0), EINVAL);
		mock_forbidden = 0;
		CHECK_EQUAL(bookmark(f->qp).posted, 0);
	}
	to_state(f->qp, IBV_QPS_RTS);
	CHECK_EQUAL(post_send(f, 1, IBV_WR_SEND, 0), 0);
	close_fixture(f);
}

/* Room comes back when the application has polled, not when the device is done. */
static void full_queue(void)
{
	struct fixture *f = open_fixture(shape);
	struct mock_qp *real = mock_qp(f->qp);

	for (int i = 0; i < 8; i++)
		CHECK_EQUAL(post_send(f, i, IBV_WR_SEND, i % 4 == 3 ? IBV_SEND_SIGNALED : 0), 0);
	CHECK_EQUAL(post_send(f, 99, IBV_WR_SEND, 0), ENOMEM);
	mock_complete_sends(real, 8, IBV_WC_SUCCESS);
	CHECK_EQUAL(post_send(f, 99, IBV_WR_SEND, 0), ENOMEM);
	expect(f->cq, 3, IBV_WC_SUCCESS);
	for (int i = 8; i < 12; i++)
		CHECK_EQUAL(post_send(f, i, IBV_WR_SEND, 0), 0);
	CHECK_EQUAL(post_send(f, 99, IBV_WR_SEND, 0), ENOMEM);
	expect(f->cq, 7, IBV_WC_SUCCESS);
	CHECK_EQUAL(post_send(f, 12, IBV_WR_SEND, 0), 0);
	CHECK_EQUAL(bookmark(f->qp).posted, 13);
	CHECK_EQUAL(bookmark(f->qp).retired, 8);
	CHECK_EQUAL(bookmark(f->qp).last_signaled, 8);
	for (int i = 0; i < 8; i++)
		CHECK_EQUAL(post_recv(f, i), 0);
	CHECK_EQUAL(post_recv(f, 8), ENOMEM);
	mock_complete_recvs(real, 1, IBV_WC_SUCCESS, 1);
	CHECK_EQUAL(post_recv(f, 8), ENOMEM);
	expect(f->cq, 0, IBV_WC_SUCCESS);
	CHECK_EQUAL(post_recv(f, 8), 0);
	CHECK_EQUAL(bookmark(f->qp).received, 1);
	CHECK_EQUAL(bookmark(f->qp).receives, 8);
	close_fixture(f);
}

/* In a chain longer than one batch, whichever request fails: all before it are posted, it and the rest are not. */
static void chains(void)
{
	enum { COUNT = 30 };
	const struct shape large = { .send_wr = 64, .recv_wr = 64, .sge = 2, .payload = 64 };

	for (int fail = 0; fail <= COUNT; fail++) {
		struct fixture *f = open_fixture(large);
		struct mock_qp *real = mock_qp(f->qp);
		struct ibv_sge sge[2] = { { (uintptr_t)f->buffer, 8, f->mr->lkey }, { 1, 2, f->mr->lkey } };
		struct ibv_send_wr wr[COUNT] = { 0 }, *bad = NULL;
		struct ibv_recv_wr rwr[COUNT] = { 0 }, *rbad = NULL;

		for (int i = 0; i < COUNT; i++) {
			wr[i] = (struct ibv_send_wr){ .wr_id = i, .sg_list = sge, .num_sge = i % 3,
						      .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
			rwr[i] = (struct ibv_recv_wr){ .wr_id = i, .sg_list = sge, .num_sge = i % 3 };
			if (i) {
				wr[i - 1].next = &wr[i];
				rwr[i - 1].next = &rwr[i];
			}
		}
		mock_fail_after = fail == COUNT ? -1 : fail;
		CHECK_EQUAL(ibv_post_send(f->qp, wr, &bad), fail == COUNT ? 0 : ENOSPC);
		CHECK(bad == (fail == COUNT ? NULL : &wr[fail]));
		mock_fail_after = fail == COUNT ? -1 : fail;
		CHECK_EQUAL(ibv_post_recv(f->qp, rwr, &rbad), fail == COUNT ? 0 : ENOSPC);
		CHECK(rbad == (fail == COUNT ? NULL : &rwr[fail]));
		CHECK_EQUAL(real->send.posted, fail);
		CHECK_EQUAL(real->recv.posted, fail);
		CHECK_EQUAL(bookmark(f->qp).posted, fail);
		CHECK_EQUAL(bookmark(f->qp).consumers, fail);
		CHECK_EQUAL(bookmark(f->qp).receives, fail);
		mock_complete_sends(real, fail, IBV_WC_SUCCESS);
		for (int i = 0; i < fail; i++) {
			CHECK_EQUAL(real->send.requests[i].send.num_sge, i % 3);
			if (i % 3)
				CHECK_EQUAL(real->send.requests[i].sges[i % 3 - 1].lkey, ((struct ibv_mr *)sv_real(f->mr))->lkey);
			expect(f->cq, i, IBV_WC_SUCCESS);
		}
		expect_none(f->cq);
		close_fixture(f);
	}
}

/* The queue fills up in the middle of a chain. */
static void chain_too_long(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_sge sge = { (uintptr_t)f->buffer, 8, f->mr->lkey };
	struct ibv_send_wr wr[12], *bad = NULL;

	for (int i = 0; i < 12; i++)
		wr[i] = (struct ibv_send_wr){ .wr_id = i, .next = i < 11 ? &wr[i + 1] : NULL, .sg_list = &sge,
					      .num_sge = 1, .opcode = IBV_WR_RDMA_READ };
	CHECK_EQUAL(ibv_post_send(f->qp, wr, &bad), ENOMEM);
	CHECK(bad == &wr[8]);
	CHECK_EQUAL(mock_qp(f->qp)->send.posted, 8);
	CHECK_EQUAL(bookmark(f->qp).consumers, 0);
	close_fixture(f);
}

static void inline_payload_is_captured(void)
{
	struct fixture *f = open_fixture(shape);
	struct mock_qp *real = mock_qp(f->qp);
	char first[] = "inline ", second[] = "payload";
	struct ibv_sge sge[] = { { (uintptr_t)first, 7, 0 }, { (uintptr_t)second, 7, 0 } };
	struct ibv_send_wr wr = { .wr_id = 5, .sg_list = sge, .num_sge = 2, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED }, *bad;
	uint64_t position;

	CHECK_EQUAL(ibv_post_send(f->qp, &wr, &bad), 0);
	CHECK_EQUAL(real->send.requests[0].payload_length, 14);
	CHECK_EQUAL(memcmp(real->send.requests[0].payload, "inline payload", 14), 0);
	wr.num_sge = 0;
	CHECK_EQUAL(ibv_post_send(f->qp, &wr, &bad), 0);
	CHECK_EQUAL(real->send.requests[1].payload_length, 0);
	/* The application uses its buffer for something else; a replay sends what was posted. */
	memset(first, 'x', sizeof(first));
	close_gate();
	CHECK_EQUAL(sv_qp_replay_sends(f->qp, &position), 0);
	CHECK_EQUAL(position, 2);
	sv_gate_open();
	CHECK_EQUAL(real->send.requests[2].payload_length, 14);
	CHECK_EQUAL(memcmp(real->send.requests[2].payload, "inline payload", 14), 0);
	close_fixture(f);
}

static void reset_forgets(void)
{
	struct fixture *f = open_fixture(shape);
	struct mock_qp *real = mock_qp(f->qp);

	CHECK_EQUAL(post_send(f, 1, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	CHECK_EQUAL(post_recv(f, 2), 0);
	mock_complete_sends(real, 1, IBV_WC_SUCCESS);
	/* Moved, as in a checkpoint, so that the virtual completion queue has to forget it too. */
	close_gate();
	CHECK_EQUAL(sv_cq_drain(f->cq), 1);
	sv_gate_open();
	mock_complete_recvs(real, 1, IBV_WC_SUCCESS, 1);
	to_state(f->qp, IBV_QPS_RESET);
	expect_none(f->cq);
	CHECK_EQUAL(bookmark(f->qp).posted, 0);
	CHECK_EQUAL(bookmark(f->qp).receives, 0);
	to_state(f->qp, IBV_QPS_RTS);
	CHECK_EQUAL(post_send(f, 3, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	mock_complete_sends(real, 1, IBV_WC_SUCCESS);
	expect(f->cq, 3, IBV_WC_SUCCESS);
	close_fixture(f);
}

/* A queue pair whose queues complete in two completion queues is forgotten in both. */
static void two_completion_queues(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_cq *second = ibv_create_cq(f->context, 10, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = { .send_cq = second, .recv_cq = f->cq, .cap = { 4, 4, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp *shared = f->qp;

	for (int round = 0; round < 2; round++) {
		f->qp = ibv_create_qp(f->pd, &attr);
		to_state(f->qp, IBV_QPS_RTS);
		CHECK_EQUAL(post_send(f, 1, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
		CHECK_EQUAL(post_recv(f, 2), 0);
		mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
		mock_complete_recvs(mock_qp(f->qp), 1, IBV_WC_SUCCESS, 1);
		close_gate();
		CHECK_EQUAL(sv_cq_drain(f->cq), 1);
		CHECK_EQUAL(sv_cq_drain(second), 1);
		sv_gate_open();
		CHECK_EQUAL(ibv_destroy_cq(second), EBUSY);
		if (round)
			to_state(f->qp, IBV_QPS_RESET);
		CHECK_EQUAL(ibv_destroy_qp(f->qp), 0);
		expect_none(f->cq);
		expect_none(second);
		attr.send_cq = f->cq;
		attr.recv_cq = second;
	}
	CHECK_EQUAL(ibv_destroy_cq(second), 0);
	f->qp = shared;
	close_fixture(f);
}

/* A device may still return completions of a queue pair that is gone. */
static void destroyed_qp_leaves_no_completion(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_wc wc[4];

	CHECK_EQUAL(post_send(f, 1, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_destroy_qp(f->qp), 0);
	f->qp = make_qp(f, shape);
	to_state(f->qp, IBV_QPS_RTS);
	CHECK_EQUAL(post_send(f, 2, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_poll_cq(f->cq, 4, wc), 1);
	CHECK_EQUAL(wc[0].wr_id, 2);
	close_fixture(f);
}

/* ibv_wr_*: the same log, the same real requests. */
static void extended_requests(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = f->cq, .recv_cq = f->cq, .cap = { 8, 8, 4, 4, 64 }, .qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = f->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(f->context, &attr);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_sge sges[] = { { 1, 2, f->mr->lkey }, { 3, 4, f->mr->lkey } };
	struct ibv_data_buf buffers[] = { { "ab", 2 }, { "cd", 2 } };
	struct mock_qp *real = mock_qp(qp);
	struct mock_request *sent = real->send.requests;

	CHECK(ex);
	for (size_t at = offsetof(struct ibv_qp_ex, wr_atomic_cmp_swp); at < sizeof(*ex); at += sizeof(void *))
		CHECK(*(void **)((char *)ex + at));
	to_state(qp, IBV_QPS_RTS);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, f->mr->rkey, 0x9000);
	ibv_wr_set_sge_list(ex, 2, sges);
	ex->wr_id = 2;
	ibv_wr_send_imm(ex, 0x55);
	ibv_wr_set_inline_data_list(ex, 2, buffers);
	ex->wr_id = 3;
	ibv_wr_atomic_fetch_add(ex, f->mr->rkey, 0x8000, 11);
	ibv_wr_set_sge(ex, f->mr->lkey, 0x7000, 8);
	CHECK_EQUAL(real->send.posted, 0);
	CHECK_EQUAL(ibv_wr_complete(ex), 0);
	CHECK_EQUAL(real->send.posted, 3);
	CHECK_EQUAL(sent[0].send.num_sge, 2);
	CHECK_EQUAL(sent[0].sges[1].addr, 3);
	CHECK_EQUAL(sent[0].send.wr.rdma.remote_addr, 0x9000);
	CHECK_EQUAL(sent[1].send.imm_data, 0x55);
	CHECK_EQUAL(sent[1].payload_length, 4);
	CHECK_EQUAL(memcmp(sent[1].payload, "abcd", 4), 0);
	CHECK_EQUAL(sent[2].send.opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
	CHECK_EQUAL(sent[2].send.wr.atomic.compare_add, 11);
	CHECK_EQUAL(sent[2].sges[0].addr, 0x7000);
	mock_complete_sends(real, 3, IBV_WC_SUCCESS);
	for (int i = 1; i <= 3; i++)
		expect(f->cq, i, IBV_WC_SUCCESS);
	/* Aborted: nothing is posted. Too many: none is. */
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_abort(ex);
	ibv_wr_start(ex);
	for (int i = 0; i < 9; i++) {
		ibv_wr_send(ex);
		ibv_wr_set_sge(ex, f->mr->lkey, 0, 0);
	}
	CHECK_EQUAL(ibv_wr_complete(ex), ENOMEM);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_send_tso(ex, NULL, 0, 0);
	CHECK_EQUAL(ibv_wr_complete(ex), EOPNOTSUPP);
	CHECK_EQUAL(real->send.posted, 3);
	/* Each alone: what is not plain, and then what is. */
	for (int i = 3; i < 7; i++) {
		ibv_wr_start(ex);
		ex->wr_id = i;
		if (i == 3) {
			ibv_wr_atomic_cmp_swp(ex, f->mr->rkey, 0x8000, 11, 12);
			ibv_wr_set_sge(ex, f->mr->lkey, 0x7000, 8);
		} else {
			ibv_wr_rdma_write(ex, f->mr->rkey, 0x9000 + i);
			if (i == 4)
				ibv_wr_set_sge_list(ex, 2, sges);
			else if (i == 5)
				ibv_wr_set_inline_data(ex, NULL, 0);
			else
				ibv_wr_set_sge(ex, f->mr->lkey, 0x6000, 16);
			CHECK_EQUAL(ex->wr_flags, IBV_SEND_SIGNALED);
		}
		CHECK_EQUAL(ibv_wr_complete(ex), 0);
		CHECK_EQUAL(real->send.posted, i + 1);
		mock_complete_sends(real, 1, IBV_WC_SUCCESS);
		expect(f->cq, i, IBV_WC_SUCCESS);
	}
	CHECK_EQUAL(sent[3].send.wr.atomic.swap, 12);
	CHECK_EQUAL(sent[4].send.num_sge, 2);
	CHECK_EQUAL(sent[4].send.wr.rdma.remote_addr, 0x9004);
	CHECK_EQUAL(sent[4].sges[1].length, 4);
	CHECK_EQUAL(sent[4].sges[1].lkey, ((struct ibv_mr *)sv_real(f->mr))->lkey);
	CHECK_EQUAL(sent[5].payload_length, 0);
	CHECK_EQUAL(sent[6].send.num_sge, 1);
	CHECK_EQUAL(sent[6].sges[0].addr, 0x6000);
	CHECK_EQUAL(ibv_destroy_qp(qp), 0);
	close_fixture(f);
}

struct builder {
	struct ibv_qp_ex *ex;
	unsigned long *built;
};

#define BUILDERS 3
#define BUILT_EACH 20000

static void *build_requests(void *argument)
{
	struct builder *b = argument;

	for (int i = 0; i < BUILT_EACH; i++) {
		ibv_wr_start(b->ex);
		ibv_wr_send(b->ex);
		++*b->built;
		ibv_wr_abort(b->ex);
	}
	return NULL;
}

/* From start to complete or abort the queue pair belongs to one thread; also when another was there first. */
static void builders_exclude_each_other(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = f->cq, .recv_cq = f->cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = f->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(f->context, &attr);
	unsigned long built = 0;
	struct builder b = { ibv_qp_to_qp_ex(qp), &built };
	pthread_t threads[BUILDERS];

	build_requests(&b);
	for (int i = 0; i < BUILDERS; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, build_requests, &b), 0);
	for (int i = 0; i < BUILDERS; i++)
		pthread_join(threads[i], NULL);
	build_requests(&b);
	CHECK_EQUAL(built, (BUILDERS + 2) * BUILT_EACH);
	CHECK_EQUAL(ibv_destroy_qp(qp), 0);
	close_fixture(f);
}

static void domains(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_td *td = ibv_alloc_td(f->context, &td_attr);
	struct ibv_parent_domain_init_attr attr = { .pd = f->pd, .td = td,
						    .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS };
	struct ibv_ece ece = { .vendor_id = 1 };
	struct ibv_pd *pd;

	CHECK(td && td->context == f->context);
	td_attr.comp_mask = 1;
	CHECK(!ibv_alloc_td(f->context, &td_attr));
	errno = 0;
	CHECK(!ibv_alloc_parent_domain(f->context, &attr));
	CHECK_EQUAL(errno, EOPNOTSUPP);
	attr.comp_mask = 0;
	pd = ibv_alloc_parent_domain(f->context, &attr);
	CHECK(pd && pd->context == f->context);
	CHECK_EQUAL(ibv_dealloc_td(td), EBUSY);
	CHECK_EQUAL(ibv_dealloc_pd(pd), 0);
	CHECK_EQUAL(ibv_dealloc_td(td), 0);
	attr.pd = NULL;
	CHECK(!ibv_alloc_parent_domain(f->context, &attr));
	CHECK_EQUAL(errno, EINVAL);
	CHECK_EQUAL(ibv_set_ece(f->qp, &ece), EOPNOTSUPP);
	CHECK_EQUAL(ibv_query_ece(f->qp, &ece), 0);
	CHECK_EQUAL(ece.vendor_id, 0);
	CHECK_EQUAL(ibv_set_ece(f->qp, &ece), 0);
	close_fixture(f);
}

static void refused_by_name(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_qp_init_attr raw = { .send_cq = f->cq, .recv_cq = f->cq, .qp_type = IBV_QPT_RAW_PACKET };

#define REFUSED(expression)                             \
	do {                                            \
		errno = 0;                              \
		CHECK(!(expression));                   \
		CHECK_EQUAL(errno, EOPNOTSUPP);         \
	} while (0)
	REFUSED(ibv_create_qp(f->pd, &raw));
	REFUSED(ibv_import_device(0));
	CHECK_EQUAL(ibv_resolve_eth_l2_from_gid(f->context, NULL, NULL, NULL), EOPNOTSUPP);
	CHECK_EQUAL(ibv_query_qp_data_in_order(f->qp, IBV_WR_SEND, 0), 0);
	CHECK_EQUAL(strcmp(ibv_wc_status_str(IBV_WC_SUCCESS), "success"), 0);
	close_fixture(f);
}

/* A word of a struct of operations that may be zero. */
static bool is_free(size_t offset)
{
	const size_t ops = offsetof(struct verbs_context, context.ops);

	if (offset == offsetof(struct verbs_context, priv) || offset == offsetof(struct verbs_context, _ABI_placeholder3))
		return true;
#define UNUSED(name) if (offset == ops + offsetof(struct ibv_context_ops, _compat_##name)) return true
	UNUSED(alloc_pd);
	UNUSED(dealloc_pd);
	UNUSED(reg_mr);
	UNUSED(rereg_mr);
	UNUSED(dereg_mr);
	UNUSED(create_cq);
	UNUSED(cq_event);
	UNUSED(resize_cq);
	UNUSED(destroy_cq);
	UNUSED(create_srq);
	UNUSED(modify_srq);
	UNUSED(query_srq);
	UNUSED(destroy_srq);
	UNUSED(create_qp);
	UNUSED(query_qp);
	UNUSED(modify_qp);
	UNUSED(destroy_qp);
	UNUSED(create_ah);
	UNUSED(destroy_ah);
	UNUSED(attach_mcast);
	UNUSED(detach_mcast);
	UNUSED(async_event);
	return false;
}

/* Whatever operation the header knows, the virtual context has it. */
static void no_operation_is_forgotten(void)
{
	struct fixture *f = open_fixture(shape);
	const char *context = (const char *)verbs_get_ctx(f->context);

	CHECK(context);
	for (size_t at = 0; at < offsetof(struct verbs_context, context.cmd_fd); at += sizeof(void *)) {
		const void *word = *(void *const *)(context + at);

		if (!is_free(at) && !word)
			fprintf(stderr, "offset %zu of struct verbs_context\n", at);
		CHECK(is_free(at) || word);
	}
	CHECK_EQUAL(verbs_get_ctx(f->context)->sz, sizeof(struct verbs_context));
	close_fixture(f);
}

/* The device gets what the program gave, the program what the device says. */
static void rate_limit(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_qp_rate_limit_attr limit = { 5000, 4096, 1024, 0 };

	CHECK_EQUAL(ibv_modify_qp_rate_limit(f->qp, &limit), 0);
	CHECK(!memcmp(&mock_qp(f->qp)->limit, &limit, sizeof(limit)));
	limit.rate_limit = 0;
	CHECK_EQUAL(ibv_modify_qp_rate_limit(f->qp, &limit), ERANGE);
	close_fixture(f);
}

static void failures_of_the_driver(void)
{
	struct fixture *f = open_fixture(shape);

	driver_fail_op = SV_OP_REG_MR;
	driver_fail_err = E2BIG;
	errno = 0;
	CHECK(!ibv_reg_mr(f->pd, f->buffer, 1, 0));
	CHECK_EQUAL(errno, E2BIG);
	driver_fail_op = SV_OP_DESTROY_QP;
	CHECK_EQUAL(ibv_destroy_qp(f->qp), E2BIG);
	driver_fail_op = 0;
	CHECK_EQUAL(post_send(f, 1, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	expect(f->cq, 1, IBV_WC_SUCCESS);
	close_fixture(f);
}

/*
 * What a verb touches together must not throw each other out of the cache: the sets of the usual one are told by the
 * address bits 6 to 11, and AMD tells the ways of one apart by bits 12 to 27.
 */
static void first_objects_share_no_cache_set(void)
{
	struct fixture *f = open_fixture(shape);
	const void *objects[] = { f->context, f->cq, f->qp, f->mr, f->pd };
	const int count = sizeof(objects) / sizeof(*objects);

	for (int i = 0; i < count; i++) {
		for (int j = 0; j < i; j++) {
			uintptr_t difference = (uintptr_t)objects[i] ^ (uintptr_t)objects[j];

			CHECK(difference >> 6 & 0x3f);
			CHECK(difference >> 12 & 0xffff);
		}
	}
	close_fixture(f);
}

int main(void)
{
	RUN(objects_are_virtual);
	RUN(first_objects_share_no_cache_set);
	RUN(old_port_attributes);
	RUN(send_and_receive);
	RUN(requests_arrive_whole);
	RUN(wrong_requests);
	RUN(below_rts);
	RUN(full_queue);
	RUN(chains);
	RUN(chain_too_long);
	RUN(inline_payload_is_captured);
	RUN(reset_forgets);
	RUN(two_completion_queues);
	RUN(destroyed_qp_leaves_no_completion);
	RUN(extended_requests);
	RUN(builders_exclude_each_other);
	RUN(domains);
	RUN(refused_by_name);
	RUN(no_operation_is_forgotten);
	RUN(rate_limit);
	RUN(failures_of_the_driver);
	return 0;
}
