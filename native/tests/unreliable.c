/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs that nobody acknowledges: what completed locally is done. Where datagrams go, and whom they come from. */
#include "test.h"

#include "base/tcp_abi.h"

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

#define SCRAMBLED (!strcmp(getenv("SHADOWVERBS_IDS"), "scrambled"))
#define NUMBER_MASK (SCRAMBLED ? 0x5a5a5au : 0)
#define LID_MASK (SCRAMBLED ? 0x0ff0u : 0)

static struct ibv_qp *make_ud(struct fixture *f)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 4, 4, 2, 1, 16 },
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = f->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(f->context, &init);

	CHECK(qp && qp->qp_type == IBV_QPT_UD);
	to_state(qp, IBV_QPS_INIT);
	to_state(qp, IBV_QPS_RTR);
	to_state(qp, IBV_QPS_RTS);
	return qp;
}

static int send_to(struct fixture *f, struct ibv_qp *qp, struct ibv_ah *ah, uint32_t number, uint64_t wr_id,
		   unsigned flags)
{
	struct ibv_sge sge = { (uintptr_t)f->buffer, 64, f->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = flags,
		.wr.ud = { ah, number, 0x1234567 },
	}, *bad = NULL;
	int err = ibv_post_send(qp, &wr, &bad);

	CHECK(!err == !bad);
	return err;
}

static struct ibv_ah *make_ah(struct fixture *f)
{
	struct ibv_ah_attr attr = { .dlid = 9, .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(f->pd, &attr);

	CHECK(ah && ah->context == f->context && ah->pd == f->pd);
	return ah;
}

static void datagrams(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_qp *qp = make_ud(f);
	struct ibv_ah *ah = make_ah(f);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct mock_qp *real = mock_qp(qp);
	struct ibv_sge sge = { (uintptr_t)f->buffer, 64, f->mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 7, .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr write = { .opcode = IBV_WR_RDMA_WRITE, .wr.ud.ah = ah }, *bad;
	struct ibv_ah_attr back;
	struct ibv_wc wc;

	CHECK_EQUAL(send_to(f, qp, ah, 0x42, 1, IBV_SEND_SIGNALED), 0);
	CHECK(real->send.requests[0].send.wr.ud.ah == sv_real(ah));
	CHECK_EQUAL(real->send.requests[0].send.wr.ud.remote_qpn, 0x42 ^ NUMBER_MASK);
	CHECK_EQUAL(real->send.requests[0].send.wr.ud.remote_qkey, 0x1234567);
	CHECK_EQUAL(real->send.requests[0].sges[0].lkey, ((struct ibv_mr *)sv_real(f->mr))->lkey);
	CHECK_EQUAL(send_to(f, qp, ah, 0xffffff, 2, IBV_SEND_SIGNALED), 0);
	CHECK_EQUAL(real->send.requests[1].send.wr.ud.remote_qpn, 0xffffff);
	CHECK_EQUAL(ibv_post_send(qp, &write, &bad), EINVAL);
	CHECK(bad == &write);
	ibv_wr_start(ex);
	ex->wr_id = 3;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, 0x43, 5);
	ibv_wr_set_sge(ex, f->mr->lkey, (uintptr_t)f->buffer, 8);
	CHECK_EQUAL(ibv_wr_complete(ex), 0);
	CHECK_EQUAL(real->send.requests[2].send.wr.ud.remote_qpn, 0x43 ^ NUMBER_MASK);
	CHECK_EQUAL(real->send.requests[2].send.wr.ud.remote_qkey, 5);
	CHECK_EQUAL(send_to(f, qp, ah, 1, 4, 0), 0);
	CHECK_EQUAL(send_to(f, qp, ah, 1, 5, 0), ENOMEM);
	mock_complete_sends(real, 4, IBV_WC_SUCCESS);
	for (int i = 1; i < 4; i++)
		expect(f->cq, i, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_post_recv(qp, &recv, &bad_recv), 0);
	mock_complete_recvs(real, 1, IBV_WC_SUCCESS, 64);
	wc = expect(f->cq, 7, IBV_WC_SUCCESS);
	/* The mock says 0xbad of both. */
	CHECK_EQUAL(wc.src_qp, 0xbad ^ NUMBER_MASK);
	CHECK_EQUAL(wc.slid, 0xbad ^ LID_MASK);
	for (int tcp = SV_TCP_WITHOUT_LIDS; tcp <= SV_TCP_WITH_LIDS; tcp++) {
		CHECK_EQUAL(ibv_post_recv(qp, &recv, &bad_recv), 0);
		mock_complete_recvs(real, 1, IBV_WC_SUCCESS, 64);
		sv_tcp_select(tcp);
		CHECK_EQUAL(expect(f->cq, 7, IBV_WC_SUCCESS).slid, tcp == SV_TCP_WITH_LIDS ? 0xbad ^ LID_MASK : 0);
		sv_tcp_select(0);
	}
	CHECK_EQUAL(ibv_init_ah_from_wc(f->context, 1, &wc, NULL, &back), 0);
	CHECK_EQUAL(back.dlid, wc.slid);
	CHECK_EQUAL(back.port_num, 1);
	CHECK_EQUAL(ibv_destroy_ah(ah), 0);
	CHECK_EQUAL(ibv_destroy_qp(qp), 0);
	close_fixture(f);
}

/* What was flushed goes out again, to where its addressee is now; what had been sent does not. */
static void flushed_datagrams_are_sent_once(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_qp *qp = make_ud(f);
	struct ibv_ah *ah = make_ah(f), *reals[3];
	struct ibv_ah_attr attr = { .dlid = 9 };
	uint16_t makers[256] = { 0 };
	const uint64_t numbers[] = { 0x42 }, places[] = { (uint64_t)1 << 32 | 0x99 };
	const uint64_t keys[] = { (uint64_t)1 << 40 | (uint64_t)0xbad << 24 | 0xbad };
	const uint64_t senders[] = { (uint64_t)0x77 << 24 | 0x4242 };
	struct sv_idmap *map = sv_idmap_new(numbers, places, 1), *sources = sv_idmap_new(keys, senders, 1);
	struct ibv_sge sge = { (uintptr_t)f->buffer, 64, f->mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 7, .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct mock_qp *real = mock_qp(qp);
	uint64_t position;
	struct ibv_wc wc;

	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(send_to(f, qp, ah, 0x42 + i % 2, i, 0), 0);
	CHECK_EQUAL(ibv_post_recv(qp, &recv, &bad_recv), 0);
	sv_gate_announce(1);
	close_gate();
	CHECK_EQUAL(sv_qp_post_marker(qp), 0);
	CHECK_EQUAL(real->send.requests[4].send.opcode, IBV_WR_SEND);
	mock_complete_sends(real, 1, IBV_WC_SUCCESS);
	mock_complete_sends(real, 4, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQUAL(bookmark(qp).receives, 1);
	mock_complete_recvs(real, 1, IBV_WC_WR_FLUSH_ERR, 0);
	CHECK_EQUAL(sv_cq_drain(f->cq), 5);
	CHECK_EQUAL(bookmark(qp).send_error_at, 1);
	CHECK_EQUAL(bookmark(qp).marker, 3);
	CHECK_EQUAL(bookmark(qp).flushed, 1);
	CHECK_EQUAL(sv_qp_errors_withdraw(qp), 0);
	CHECK_EQUAL(bookmark(qp).retired, 1);
	CHECK_EQUAL(bookmark(qp).flushed, 0);
	reals[0] = sv_real(ah);
	CHECK_EQUAL(sv_ah_bind(ah, NULL, 0, NULL, NULL), 0);
	ibv_destroy_ah(reals[0]);
	driver_detach(f->context);
	CHECK_EQUAL(mock_objects, 0);
	driver_reattach(f->context);
	for (int i = 0; i < 3; i++)
		reals[i] = ibv_create_ah(sv_real(f->pd), &attr);
	/* No number that is known: it is of a queue pair whose maker has numbers of that range. */
	makers[(0x43 ^ NUMBER_MASK) >> 16 & 0xff] = 2;
	CHECK_EQUAL(sv_ah_bind(ah, reals, 3, map, makers), 0);
	sv_context_set_sources(f->context, sources, NULL);
	CHECK_EQUAL(sv_qp_replay_receives(qp, &position), 0);
	CHECK_EQUAL(sv_qp_replay_sends(qp, &position), 0);
	real = mock_qp(qp);
	CHECK_EQUAL(real->send.posted, 3);
	CHECK(real->send.requests[0].send.wr.ud.ah == reals[2]);
	CHECK_EQUAL(real->send.requests[0].send.wr.ud.remote_qpn, 0x43 ^ NUMBER_MASK);
	CHECK(real->send.requests[1].send.wr.ud.ah == reals[1]);
	CHECK_EQUAL(real->send.requests[1].send.wr.ud.remote_qpn, 0x99);
	CHECK_EQUAL(real->send.requests[1].send.wr.ud.remote_qkey, 0x1234567);
	sv_gate_open();
	mock_complete_recvs(real, 1, IBV_WC_SUCCESS, 64);
	wc = expect(f->cq, 7, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.src_qp, 0x4242);
	CHECK_EQUAL(wc.slid, 0x77);
	expect_none(f->cq);
	sv_context_set_sources(f->context, NULL, NULL);
	for (int i = 1; i < 3; i++)
		ibv_destroy_ah(reals[i]);
	CHECK_EQUAL(ibv_destroy_ah(ah), 0);
	sv_idmap_free(map);
	sv_idmap_free(sources);
	CHECK_EQUAL(ibv_destroy_qp(qp), 0);
	close_fixture(f);
}

/* With an SRQ: who sent is told as ever; the flush concerns the sends alone, and its event nobody. */
static void datagrams_to_a_shared_queue(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_srq_init_attr shared = { .attr = { 4, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(f->pd, &shared);
	struct ibv_qp_init_attr init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.srq = srq,
		.cap = { 4, 0, 1, 0, 0 },
		.qp_type = IBV_QPT_UD,
	};
	struct ibv_qp *qp = ibv_create_qp(f->pd, &init);
	struct ibv_sge sge = { (uintptr_t)f->buffer, 64, f->mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 7, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_ah *ah = make_ah(f), *real_ah;
	struct ibv_async_event event;
	uint64_t position;
	struct ibv_wc wc;

	CHECK(qp && qp->srq == srq);
	to_state(qp, IBV_QPS_INIT);
	to_state(qp, IBV_QPS_RTR);
	to_state(qp, IBV_QPS_RTS);
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(ibv_post_srq_recv(srq, &recv, &bad), 0);
	mock_complete_shared(mock_srq(srq), 0, mock_qp(qp), IBV_WC_SUCCESS, 64);
	wc = expect(f->cq, 7, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.qp_num, qp->qp_num);
	CHECK_EQUAL(wc.src_qp, 0xbad ^ NUMBER_MASK);
	CHECK_EQUAL(wc.slid, 0xbad ^ LID_MASK);
	CHECK_EQUAL(send_to(f, qp, ah, 0x42, 1, 0), 0);
	mock_complete_shared(mock_srq(srq), 1, mock_qp(qp), IBV_WC_SUCCESS, 64);
	sv_gate_announce(1);
	close_gate();
	CHECK_EQUAL(sv_qp_post_marker(qp), 0);
	mock_complete_sends(mock_qp(qp), 2, IBV_WC_WR_FLUSH_ERR);
	mock_async_event(f->context, IBV_EVENT_QP_LAST_WQE_REACHED, sv_real(qp));
	CHECK_EQUAL(sv_cq_drain(f->cq), 3);
	CHECK_EQUAL(bookmark(qp).receives, 0);
	CHECK_EQUAL(sv_qp_errors_withdraw(qp), 0);
	CHECK_EQUAL(sv_context_drain(f->context), 0);
	real_ah = sv_real(ah);
	CHECK_EQUAL(sv_ah_bind(ah, NULL, 0, NULL, NULL), 0);
	ibv_destroy_ah(real_ah);
	driver_detach(f->context);
	CHECK_EQUAL(mock_objects, 0);
	driver_reattach(f->context);
	real_ah = ibv_create_ah(sv_real(f->pd), &(struct ibv_ah_attr){ .dlid = 9 });
	CHECK_EQUAL(sv_ah_bind(ah, &real_ah, 1, NULL, NULL), 0);
	CHECK_EQUAL(sv_srq_replay(srq, &position), 0);
	CHECK_EQUAL(position, 1);
	CHECK_EQUAL(sv_qp_replay_sends(qp, &position), 0);
	CHECK_EQUAL(mock_qp(qp)->send.posted, 1);
	mock_async_event(f->context, IBV_EVENT_PORT_ACTIVE, (void *)1);
	sv_gate_open();
	wc = expect(f->cq, 7, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.src_qp, 0xbad ^ NUMBER_MASK);
	expect_none(f->cq);
	CHECK_EQUAL(ibv_get_async_event(f->context, &event), 0);
	CHECK_EQUAL(event.event_type, IBV_EVENT_PORT_ACTIVE);
	CHECK_EQUAL(ibv_destroy_ah(ah), 0);
	CHECK_EQUAL(ibv_destroy_qp(qp), 0);
	CHECK_EQUAL(ibv_destroy_srq(srq), 0);
	close_fixture(f);
}

int main(void)
{
	RUN(local_completion_is_enough);
	RUN(datagrams);
	RUN(flushed_datagrams_are_sent_once);
	RUN(datagrams_to_a_shared_queue);
	return 0;
}
