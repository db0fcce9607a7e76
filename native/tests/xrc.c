/* SPDX-License-Identifier: Apache-2.0 */
/* XRC: requests that name an SRQ, and messages that come to the SRQs of a domain. */
#include "test.h"

#define SCRAMBLED (!strcmp(getenv("SHADOWVERBS_IDS"), "scrambled"))
#define NUMBER_MASK (SCRAMBLED ? 0x5a5a5au : 0)

static const struct shape shape = { .send_wr = 8, .recv_wr = 8, .sge = 1, .payload = 0 };

/* One domain with two SRQs that complete to two CQs, and both ends of a connection. */
struct domain {
	struct fixture *f;
	struct ibv_cq *second;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srqs[2];
	struct ibv_qp *receiver, *sender;
};

static void ready(struct ibv_qp *qp)
{
	to_state(qp, IBV_QPS_INIT);
	to_state(qp, IBV_QPS_RTR);
	to_state(qp, IBV_QPS_RTS);
}

static struct domain *open_domain_of(int fd)
{
	struct domain *d = calloc(1, sizeof(*d));
	struct ibv_xrcd_init_attr attr = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, fd, 0100 };
	struct ibv_qp_init_attr_ex receive = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_qp_init_attr_ex send = {
		.qp_type = IBV_QPT_XRC_SEND,
		.cap = { 4, 0, 2, 0, 16 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	d->f = open_fixture(shape);
	d->second = ibv_create_cq(d->f->context, 100, NULL, NULL, 0);
	d->xrcd = ibv_open_xrcd(d->f->context, &attr);
	CHECK(d->xrcd && d->xrcd->context == d->f->context);
	for (int i = 0; i < 2; i++) {
		struct ibv_srq_init_attr_ex init = {
			.srq_context = d,
			.attr = { 4, 1, 0 },
			.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
				     IBV_SRQ_INIT_ATTR_CQ,
			.srq_type = IBV_SRQT_XRC,
			.pd = d->f->pd,
			.xrcd = d->xrcd,
			.cq = i ? d->second : d->f->cq,
		};

		d->srqs[i] = ibv_create_srq_ex(d->f->context, &init);
		CHECK(d->srqs[i]);
	}
	receive.xrcd = d->xrcd;
	d->receiver = ibv_create_qp_ex(d->f->context, &receive);
	CHECK(d->receiver && !d->receiver->pd && !d->receiver->recv_cq && d->receiver->context == d->f->context);
	ready(d->receiver);
	send.send_cq = d->f->cq;
	send.pd = d->f->pd;
	d->sender = ibv_create_qp_ex(d->f->context, &send);
	CHECK(d->sender);
	ready(d->sender);
	return d;
}

static struct domain *open_domain(void)
{
	return open_domain_of(-1);
}

static void close_domain(struct domain *d)
{
	CHECK_EQUAL(ibv_destroy_qp(d->sender), 0);
	if (d->receiver)
		CHECK_EQUAL(ibv_destroy_qp(d->receiver), 0);
	for (int i = 0; i < 2; i++)
		if (d->srqs[i])
			CHECK_EQUAL(ibv_destroy_srq(d->srqs[i]), 0);
	CHECK_EQUAL(ibv_close_xrcd(d->xrcd), 0);
	CHECK_EQUAL(ibv_destroy_cq(d->second), 0);
	close_fixture(d->f);
	free(d);
}

static uint32_t number_of(struct ibv_srq *srq)
{
	uint32_t number = 0;

	CHECK_EQUAL(ibv_get_srq_num(srq, &number), 0);
	return number;
}

static int request(struct domain *d, enum ibv_wr_opcode opcode, uint64_t wr_id, uint32_t number)
{
	struct ibv_sge sge = { (uintptr_t)d->f->buffer, 64, d->f->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.imm_data = 0x1234,
		.qp_type.xrc.remote_srqn = number,
	}, *bad = NULL;
	int err;

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.compare_add = 0x1111111111111111;
		wr.wr.atomic.swap = 0x2222222222222222;
		wr.wr.atomic.remote_addr = 0x9000;
		wr.wr.atomic.rkey = d->f->mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = 0x9000;
		wr.wr.rdma.rkey = d->f->mr->rkey;
	}
	err = ibv_post_send(d->sender, &wr, &bad);
	CHECK(!err == !bad);
	return err;
}

static struct ibv_send_wr *sent(struct domain *d, unsigned number)
{
	return &mock_qp(d->sender)->send.requests[number].send;
}

static int receive(struct domain *d, int srq, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)d->f->buffer, 64, d->f->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;

	return ibv_post_srq_recv(d->srqs[srq], &wr, &bad);
}

static void complete(struct domain *d, int srq, unsigned number)
{
	mock_complete_shared(mock_srq(d->srqs[srq]), number, mock_qp(d->receiver), IBV_WC_SUCCESS, 5);
}

/* Every opcode carries the number, beside what else it has; and it is in the log. */
static void requests_name_their_queue(void)
{
	struct domain *d = open_domain();
	uint32_t number = number_of(d->srqs[1]);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(d->sender);
	struct ibv_send_wr bind = { .opcode = IBV_WR_LOCAL_INV }, *bad;
	struct sv_sent entry;

	CHECK_EQUAL(number, mock_srq(d->srqs[1])->number ^ NUMBER_MASK);
	CHECK_EQUAL(request(d, IBV_WR_RDMA_WRITE_WITH_IMM, 1, number), 0);
	CHECK_EQUAL(sent(d, 0)->qp_type.xrc.remote_srqn, mock_srq(d->srqs[1])->number);
	CHECK_EQUAL(sent(d, 0)->imm_data, 0x1234);
	CHECK_EQUAL(sent(d, 0)->wr.rdma.remote_addr, 0x9000);
	CHECK_EQUAL(request(d, IBV_WR_ATOMIC_CMP_AND_SWP, 2, number), 0);
	CHECK_EQUAL(sent(d, 1)->qp_type.xrc.remote_srqn, mock_srq(d->srqs[1])->number);
	CHECK_EQUAL(sent(d, 1)->wr.atomic.compare_add, 0x1111111111111111);
	CHECK_EQUAL(sent(d, 1)->wr.atomic.swap, 0x2222222222222222);
	CHECK_EQUAL(sent(d, 1)->wr.atomic.rkey, ((struct ibv_mr *)sv_real(d->f->mr))->rkey);
	ibv_wr_start(ex);
	ex->wr_id = 3;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, number_of(d->srqs[0]));
	ibv_wr_set_sge(ex, d->f->mr->lkey, (uintptr_t)d->f->buffer, 8);
	CHECK_EQUAL(ibv_wr_complete(ex), 0);
	CHECK_EQUAL(sent(d, 2)->qp_type.xrc.remote_srqn, mock_srq(d->srqs[0])->number);
	CHECK_EQUAL(ibv_post_send(d->sender, &bind, &bad), EINVAL);
	CHECK_EQUAL(request(d, IBV_WR_SEND, 4, number), 0);
	CHECK_EQUAL(request(d, IBV_WR_SEND, 5, number), ENOMEM);
	close_gate();
	CHECK_EQUAL(sv_qp_sent(d->sender, 1, &entry), 0);
	CHECK_EQUAL(entry.srq, number);
	CHECK_EQUAL(sv_qp_sent(d->sender, 2, &entry), 0);
	CHECK_EQUAL(entry.srq, number_of(d->srqs[0]));
	/* A marker names the SRQ of the last request: the peer looks for one also where none is used. */
	CHECK_EQUAL(sv_qp_post_marker(d->sender), 0);
	CHECK_EQUAL(sent(d, 4)->opcode, IBV_WR_RDMA_WRITE);
	CHECK_EQUAL(sent(d, 4)->qp_type.xrc.remote_srqn, mock_srq(d->srqs[1])->number);
	sv_gate_open();
	close_domain(d);
}

/* Messages are the receive QP's, come to the CQ of their SRQ, and are counted. */
static void messages_come_to_the_queue_named(void)
{
	struct domain *d = open_domain();
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_wc wc;

	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(receive(d, 0, 10 + i) | receive(d, 1, 20 + i), 0);
	CHECK_EQUAL(receive(d, 0, 9), ENOMEM);
	CHECK_EQUAL(ibv_post_recv(d->receiver, &wr, &bad), EINVAL);
	complete(d, 0, 0);
	complete(d, 1, 0);
	complete(d, 1, 1);
	wc = expect(d->f->cq, 10, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.qp_num, d->receiver->qp_num);
	CHECK_EQUAL(wc.src_qp, 0x77);
	expect(d->second, 20, IBV_WC_SUCCESS);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(d->second), 1);
	CHECK_EQUAL(bookmark(d->receiver).received, 3);
	CHECK(bookmark(d->receiver).shared && !bookmark(d->sender).shared);
	sv_gate_open();
	expect(d->second, 21, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_destroy_cq(d->second), EBUSY);
	close_domain(d);
}

/* After a restart: numbers of the peer's SRQs, what is left in the own ones, a message that landed. */
static void replay(void)
{
	struct domain *d = open_domain();
	uint32_t number = number_of(d->srqs[0]);
	uint64_t key = number, value = 0x4242, position;
	struct sv_idmap *map = sv_idmap_new(&key, &value, 1);
	struct mock_request *landing;
	struct ibv_wc wc;

	CHECK_EQUAL(receive(d, 0, 1) | receive(d, 0, 2), 0);
	CHECK_EQUAL(request(d, IBV_WR_SEND, 5, number), 0);
	CHECK_EQUAL(request(d, IBV_WR_ATOMIC_FETCH_AND_ADD, 6, 0x99), 0);
	complete(d, 0, 0);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(d->f->cq), 1);
	CHECK_EQUAL(sv_srq_post_landing(d->srqs[1], 5), 0);
	landing = &mock_srq(d->srqs[1])->recv.requests[0];
	memcpy((void *)(uintptr_t)landing->sges[0].addr, "hello", 5);
	complete(d, 1, 0);
	CHECK_EQUAL(sv_cq_drain(d->second), 1);
	CHECK_EQUAL(bookmark(d->receiver).received, 2);
	driver_detach(d->f->context);
	CHECK_EQUAL(mock_objects, 0);
	driver_reattach(d->f->context);
	sv_qp_set_srqs(d->sender, map);
	for (int i = 0; i < 2; i++) {
		CHECK_EQUAL(sv_srq_replay(d->srqs[i], &position), 0);
		CHECK_EQUAL(position, !i);
	}
	CHECK_EQUAL(sv_qp_replay_sends(d->sender, &position), 0);
	CHECK_EQUAL(mock_qp(d->sender)->send.posted, 2);
	CHECK_EQUAL(sent(d, 0)->qp_type.xrc.remote_srqn, 0x4242);
	CHECK_EQUAL(sent(d, 1)->qp_type.xrc.remote_srqn, 0x99 ^ NUMBER_MASK);
	sv_gate_open();
	CHECK_EQUAL(number_of(d->srqs[0]), number);
	expect(d->f->cq, 1, IBV_WC_SUCCESS);
	complete(d, 0, 0);
	expect(d->f->cq, 2, IBV_WC_SUCCESS);
	expect_none(d->second);
	CHECK_EQUAL(receive(d, 1, 3), 0);
	wc = expect(d->second, 3, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.qp_num, d->receiver->qp_num);
	CHECK(!memcmp(d->f->buffer, "hello", 5));
	sv_qp_set_srqs(d->sender, NULL);
	sv_idmap_free(map);
	close_domain(d);
}

/* What ends takes its messages with it, and what lives on is counted right: a receive QP, and an SRQ. */
static void ends(void)
{
	struct domain *d = open_domain();

	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(receive(d, 0, i) | receive(d, 1, i), 0);
	complete(d, 0, 0);
	complete(d, 1, 0);
	CHECK_EQUAL(ibv_destroy_srq(d->srqs[1]), 0);
	d->srqs[1] = NULL;
	expect_none(d->second);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(d->f->cq), 1);
	CHECK_EQUAL(bookmark(d->receiver).received, 2);
	sv_gate_open();
	CHECK_EQUAL(receive(d, 0, 9), ENOMEM);
	CHECK_EQUAL(ibv_destroy_qp(d->receiver), 0);
	d->receiver = NULL;
	expect_none(d->f->cq);
	CHECK_EQUAL(receive(d, 0, 9), 0);
	CHECK_EQUAL(receive(d, 0, 9), ENOMEM);
	close_domain(d);
}

static struct ibv_qp *open_again(struct domain *d, void *context)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
			     IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = d->receiver->qp_num,
		.xrcd = d->xrcd,
		.qp_context = context,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_qp *qp = ibv_open_qp(d->f->context, &attr);

	CHECK(qp && qp != d->receiver);
	CHECK_EQUAL(qp->qp_num, d->receiver->qp_num);
	CHECK_EQUAL(qp->state, IBV_QPS_UNKNOWN);
	CHECK(qp->qp_context == context && !qp->pd && !qp->send_cq && !qp->recv_cq && !qp->srq);
	return qp;
}

static void expect_event(struct domain *d, struct ibv_qp *qp, enum ibv_event_type type)
{
	struct ibv_async_event event;

	mock_async_event(d->f->context, type, sv_real(qp));
	CHECK_EQUAL(ibv_get_async_event(d->f->context, &event), 0);
	CHECK_EQUAL(event.event_type, type);
	CHECK(event.element.qp == qp);
	ibv_ack_async_event(&event);
}

/* Another handle has events and a state of its own; what is known of the QP outlives the handle that it was made with. */
static void opened_again(void)
{
	struct domain *d = open_domain();
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_qp *handles[2] = { open_again(d, d), open_again(d, NULL) };
	struct ibv_wc wc;
	uint64_t position;
	uint32_t number;

	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(receive(d, 0, i) | receive(d, 1, 10 + i), 0);
	CHECK_EQUAL(ibv_post_recv(handles[0], &wr, &bad), EINVAL);
	expect_event(d, d->receiver, IBV_EVENT_COMM_EST);
	expect_event(d, handles[0], IBV_EVENT_COMM_EST);
	expect_event(d, handles[1], IBV_EVENT_QP_REQ_ERR);
	complete(d, 0, 0);
	complete(d, 1, 0);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(d->f->cq), 1);
	sv_gate_open();
	number = d->receiver->qp_num;
	CHECK_EQUAL(ibv_destroy_qp(d->receiver), 0);
	/* What it had taken before is there all the same, be it drained already or not. */
	wc = expect(d->f->cq, 0, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.qp_num, number);
	wc = expect(d->second, 10, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.qp_num, number);
	CHECK_EQUAL(wc.src_qp, 0x77);
	mock_complete_shared(mock_srq(d->srqs[0]), 1, mock_qp(handles[1]), IBV_WC_SUCCESS, 5);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(d->f->cq), 1);
	CHECK_EQUAL(bookmark(d->receiver).received, 3);
	driver_detach(d->f->context);
	CHECK_EQUAL(mock_objects, 0);
	driver_reattach(d->f->context);
	CHECK_EQUAL(sv_srq_replay(d->srqs[0], &position) | sv_srq_replay(d->srqs[1], &position), 0);
	sv_gate_open();
	wc = expect(d->f->cq, 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.qp_num, number);
	expect_event(d, handles[0], IBV_EVENT_COMM_EST);
	expect_event(d, handles[1], IBV_EVENT_COMM_EST);
	mock_complete_shared(mock_srq(d->srqs[0]), 0, mock_qp(handles[0]), IBV_WC_SUCCESS, 5);
	wc = expect(d->f->cq, 2, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.qp_num, number);
	CHECK_EQUAL(ibv_modify_qp(handles[0], &attr, IBV_QP_STATE), 0);
	CHECK_EQUAL(handles[0]->state, IBV_QPS_ERR);
	CHECK_EQUAL(handles[1]->state, IBV_QPS_UNKNOWN);
	CHECK_EQUAL(ibv_destroy_qp(handles[0]), 0);
	/* The last one takes the messages with it. */
	mock_complete_shared(mock_srq(d->srqs[0]), 1, mock_qp(handles[1]), IBV_WC_SUCCESS, 5);
	CHECK_EQUAL(ibv_destroy_qp(handles[1]), 0);
	expect_none(d->f->cq);
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(receive(d, 0, i), 0);
	CHECK_EQUAL(receive(d, 0, 9), ENOMEM);
	d->receiver = NULL;
	close_domain(d);
}

static void *destroy(void *qp)
{
	return (void *)(intptr_t)ibv_destroy_qp(qp);
}

/* Whoever of several threads is last ends the QP. */
static void handles_end_at_once(void)
{
	for (int round = 0; round < 50; round++) {
		struct domain *d = open_domain();
		struct ibv_qp *qps[3] = { d->receiver, open_again(d, d), open_again(d, d) };
		pthread_t threads[3];
		void *err;

		CHECK_EQUAL(receive(d, 0, 1), 0);
		complete(d, 0, 0);
		for (int i = 0; i < 3; i++)
			CHECK(!pthread_create(&threads[i], NULL, destroy, qps[i]));
		for (int i = 0; i < 3; i++)
			CHECK(!pthread_join(threads[i], &err) && !err);
		expect_none(d->f->cq);
		d->receiver = NULL;
		close_domain(d);
	}
}

/* Errors since ANNOUNCE are found in the CQs of the domain. */
static void held_errors(void)
{
	struct domain *d = open_domain();

	CHECK_EQUAL(receive(d, 1, 1), 0);
	sv_gate_announce(1);
	close_gate();
	mock_complete_shared(mock_srq(d->srqs[1]), 0, mock_qp(d->receiver), IBV_WC_LOC_LEN_ERR, 0);
	CHECK_EQUAL(sv_cq_drain(d->second), 1);
	CHECK_EQUAL(bookmark(d->receiver).recv_error, IBV_WC_LOC_LEN_ERR);
	CHECK_EQUAL(sv_qp_errors_deliver(d->receiver), 0);
	CHECK_EQUAL(sv_qp_fail(d->receiver), 0);
	CHECK_EQUAL(sv_qp_fail(d->sender), 0);
	sv_gate_open();
	expect(d->second, 1, IBV_WC_LOC_LEN_ERR);
	close_domain(d);
}

/* How many messages the foreign queue pair of that virtual number has brought. */
static uint64_t brought(struct domain *d, uint32_t number)
{
	static struct sv_foreign_qp foreign_qps[SV_MAX_FOREIGN_QPS];
	int count = sv_xrcd_foreign_qps(sv_xrcd_domain(d->xrcd), foreign_qps);

	CHECK(count >= 0);
	while (count-- > 0)
		if (foreign_qps[count].qp_num == number)
			return foreign_qps[count].received;
	return 0;
}

/* A message by way of a QP that this process does not know, to the receive of that place in the real queue. */
static void bring(struct domain *d, unsigned place, enum ibv_wc_status status, uint32_t length)
{
	mock_complete_shared(mock_srq(d->srqs[0]), place, mock_qp(d->sender), status, length);
}

static uint64_t receives(struct domain *d)
{
	struct sv_srq_mark mark;

	sv_srq_bookmark(d->srqs[0], &mark);
	CHECK_EQUAL(mark.landings, 0);
	return mark.receives;
}

/* What a QP of another process has brought is the application's, and is counted, whoever takes it from the real queue. */
static void messages_of_foreign_qps(void)
{
	struct domain *d = open_domain();
	uint32_t foreign = mock_qp(d->sender)->v.qp_num ^ NUMBER_MASK;
	struct ibv_wc wc;

	CHECK_EQUAL(receive(d, 0, 1) | receive(d, 0, 2) | receive(d, 0, 3) | receive(d, 0, 4), 0);
	complete(d, 0, 0);
	expect(d->f->cq, 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(brought(d, foreign), 0);
	bring(d, 1, IBV_WC_SUCCESS, 5);
	wc = expect(d->f->cq, 2, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.qp_num, foreign);
	CHECK_EQUAL(wc.byte_len, 5);
	CHECK_EQUAL(brought(d, foreign), 1);
	bring(d, 2, IBV_WC_SUCCESS, 6);
	bring(d, 3, IBV_WC_LOC_LEN_ERR, 0);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(d->f->cq), 2);
	CHECK_EQUAL(brought(d, foreign), 2);
	CHECK_EQUAL(receives(d), 0);
	CHECK_EQUAL(bookmark(d->receiver).received, 1);
	sv_gate_open();
	wc = expect(d->f->cq, 3, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.qp_num, foreign);
	CHECK_EQUAL(wc.byte_len, 6);
	expect(d->f->cq, 4, IBV_WC_LOC_LEN_ERR);
	expect_none(d->f->cq);
	/* All slots are back. */
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(receive(d, 0, 10 + i), 0);
	CHECK_EQUAL(receive(d, 0, 9), ENOMEM);
	close_domain(d);
}

/* What others have brought is found however many are forgotten. */
static void forgotten_foreign_qps(void)
{
	enum { COUNT = 2000 };
	struct domain *d = open_domain();
	uint32_t domain = sv_xrcd_domain(d->xrcd), before = mock_qp(d->sender)->v.qp_num;

	for (uint32_t n = 1; n <= COUNT; n++) {
		mock_qp(d->sender)->v.qp_num = n * 7919 & 0xffffff;
		CHECK_EQUAL(receive(d, 0, n), 0);
		bring(d, 0, IBV_WC_SUCCESS, 5);
		expect(d->f->cq, n, IBV_WC_SUCCESS);
	}
	mock_qp(d->sender)->v.qp_num = before;
	sv_gate_announce(1);
	close_gate();
	for (uint32_t n = 1; n <= COUNT; n++)
		if (n % 3)
			sv_xrcd_forget(domain, (n * 7919 & 0xffffff) ^ NUMBER_MASK);
	sv_xrcd_forget(domain, 1);
	for (uint32_t n = 1; n <= COUNT; n++)
		CHECK_EQUAL(brought(d, (n * 7919 & 0xffffff) ^ NUMBER_MASK), !(n % 3));
	for (uint32_t n = 1; n <= COUNT; n++)
		sv_xrcd_forget(domain, (n * 7919 & 0xffffff) ^ NUMBER_MASK);
	sv_gate_open();
	close_domain(d);
}

/* Its number goes on to be the one that the application knows, and what it has brought to be counted with that. */
static void foreign_qps_keep_their_numbers(void)
{
	struct domain *d = open_domain();
	uint64_t key = (uint64_t)2 << 40 | mock_qp(d->sender)->v.qp_num, number = 0x4711;
	struct sv_idmap *map = sv_idmap_new(&key, &number, 1);
	struct ibv_wc wc;

	sv_context_set_sources(d->f->context, map, NULL);
	CHECK_EQUAL(receive(d, 0, 1), 0);
	bring(d, 0, IBV_WC_SUCCESS, 5);
	wc = expect(d->f->cq, 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.qp_num, number);
	CHECK_EQUAL(brought(d, number), 1);
	close_domain(d);
	sv_idmap_free(map);
}

/* A landing is kept, too, and given to the next receive. */
static void landings_of_foreign_qps(void)
{
	struct domain *d = open_domain();
	uint32_t foreign = mock_qp(d->sender)->v.qp_num ^ NUMBER_MASK;
	uint64_t before = brought(d, foreign);
	struct ibv_wc wc;

	close_gate();
	CHECK_EQUAL(sv_srq_post_landing(d->srqs[0], 5), 0);
	bring(d, 0, IBV_WC_SUCCESS, 5);
	CHECK_EQUAL(sv_cq_drain(d->f->cq), 1);
	CHECK_EQUAL(brought(d, foreign), before + 1);
	CHECK_EQUAL(receives(d), 0);
	sv_gate_open();
	expect_none(d->f->cq);
	CHECK_EQUAL(receive(d, 0, 7), 0);
	wc = expect(d->f->cq, 7, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.qp_num, foreign);
	CHECK_EQUAL(wc.byte_len, 5);
	CHECK_EQUAL(brought(d, foreign), before + 1);
	expect_none(d->f->cq);
	close_domain(d);
}

/* What another process has made is open here, too, and is counted as it was before. */
static void opened_of_another_process(void)
{
	struct domain *d = open_domain();
	uint32_t foreign = mock_qp(d->sender)->v.qp_num ^ NUMBER_MASK;
	uint64_t before = brought(d, foreign);
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = foreign, .xrcd = d->xrcd, .qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_qp *handle;
	struct ibv_wc wc;

	CHECK_EQUAL(receive(d, 0, 1) | receive(d, 0, 2) | receive(d, 0, 3), 0);
	bring(d, 0, IBV_WC_SUCCESS, 5);
	expect(d->f->cq, 1, IBV_WC_SUCCESS);
	handle = ibv_open_qp(d->f->context, &attr);
	CHECK(handle && handle->qp_num == foreign && handle->state == IBV_QPS_UNKNOWN && !handle->pd);
	expect_event(d, handle, IBV_EVENT_QP_REQ_ERR);
	bring(d, 1, IBV_WC_SUCCESS, 5);
	wc = expect(d->f->cq, 2, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.qp_num, foreign);
	close_gate();
	CHECK_EQUAL(bookmark(handle).received, 0);
	CHECK_EQUAL(brought(d, foreign), before + 2);
	sv_gate_open();
	driver_others_have_open = true;
	CHECK_EQUAL(ibv_destroy_qp(handle), 0);
	driver_others_have_open = false;
	bring(d, 2, IBV_WC_SUCCESS, 5);
	expect(d->f->cq, 3, IBV_WC_SUCCESS);
	CHECK_EQUAL(brought(d, foreign), before + 3);
	close_domain(d);
}

static void end_of_receiver(bool others)
{
	struct domain *d = open_domain_of(0);
	uint32_t number = d->receiver->qp_num;
	struct ibv_wc wc;

	CHECK_EQUAL(receive(d, 0, 1) | receive(d, 0, 2) | receive(d, 0, 3), 0);
	complete(d, 0, 0);
	expect(d->f->cq, 1, IBV_WC_SUCCESS);
	close_gate();
	complete(d, 0, 1);
	CHECK_EQUAL(sv_cq_drain(d->f->cq), 1);
	CHECK_EQUAL(sv_srq_post_landing(d->srqs[1], 5), 0);
	complete(d, 1, 0);
	CHECK_EQUAL(sv_cq_drain(d->second), 1);
	CHECK_EQUAL(bookmark(d->receiver).received, 3);
	sv_gate_open();
	CHECK_EQUAL(brought(d, number), 0);
	complete(d, 0, 2);
	driver_others_have_open = others;
	CHECK_EQUAL(ibv_destroy_qp(d->receiver), 0);
	driver_others_have_open = false;
	d->receiver = NULL;
	if (others) {
		CHECK_EQUAL(brought(d, number), 3);
		wc = expect(d->f->cq, 2, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.qp_num, number);
		wc = expect(d->f->cq, 3, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.qp_num, number);
		CHECK_EQUAL(brought(d, number), 4);
		CHECK_EQUAL(receive(d, 1, 7), 0);
		wc = expect(d->second, 7, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.qp_num, number);
	}
	expect_none(d->f->cq);
	/* All slots are back. */
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(receive(d, 0, 10 + i), 0);
	CHECK_EQUAL(receive(d, 0, 9), ENOMEM);
	close_domain(d);
}

/* What it has brought stays the application's, and counted, as long as others have it open. */
static void lives_on_in_other_processes(void)
{
	end_of_receiver(true);
	end_of_receiver(false);
}

static bool is_among(uint32_t number, const uint32_t *numbers, int count)
{
	for (int i = 0; i < count; i++)
		if (numbers[i] == number)
			return true;
	return false;
}

static void send_signaled(struct domain *d, uint32_t number)
{
	struct ibv_sge sge = { (uintptr_t)d->f->buffer, 64, d->f->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = number,
	}, *bad;

	CHECK_EQUAL(ibv_post_send(d->sender, &wr, &bad), 0);
	mock_complete_sends(mock_qp(d->sender), 1, IBV_WC_SUCCESS);
	expect(d->f->cq, 0, IBV_WC_SUCCESS);
}

/* Which SRQs were named since RESET is known, each once, or that there were too many. */
static void targets_are_known(void)
{
	struct domain *d = open_domain();
	uint32_t numbers[SV_MAX_TARGETS];

	CHECK_EQUAL(sv_qp_targets(d->sender, numbers), 0);
	for (uint32_t i = 0; i < SV_MAX_TARGETS; i++) {
		send_signaled(d, i << 8);
		send_signaled(d, 0);
		CHECK_EQUAL(sv_qp_targets(d->sender, numbers), i + 1);
		for (uint32_t k = 0; k <= i; k++)
			CHECK(is_among(k << 8, numbers, i + 1));
	}
	send_signaled(d, 1);
	CHECK_EQUAL(sv_qp_targets(d->sender, numbers), -1);
	to_state(d->sender, IBV_QPS_RESET);
	CHECK_EQUAL(sv_qp_targets(d->sender, numbers), 0);
	ready(d->sender);
	send_signaled(d, 1);
	CHECK_EQUAL(sv_qp_targets(d->sender, numbers), 1);
	CHECK_EQUAL(numbers[0], 1);
	close_domain(d);
}

int main(void)
{
	RUN(requests_name_their_queue);
	RUN(messages_come_to_the_queue_named);
	RUN(messages_of_foreign_qps);
	RUN(forgotten_foreign_qps);
	RUN(foreign_qps_keep_their_numbers);
	RUN(landings_of_foreign_qps);
	RUN(opened_of_another_process);
	RUN(lives_on_in_other_processes);
	RUN(targets_are_known);
	RUN(replay);
	RUN(ends);
	RUN(opened_again);
	RUN(handles_end_at_once);
	RUN(held_errors);
	return 0;
}
