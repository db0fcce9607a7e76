/* Unreliable connections: what arrives, what is dropped without a word, and the state SQE. */
#include "harness.h"

static struct endpoint a, b;
static struct address to_b;
static struct options uc = { .qp_type = IBV_QPT_UC };

static void open_pair(void)
{
	pair_open(&a, &b, &uc);
	to_b = endpoint_address(&b);
}

static void data_arrives(void)
{
	struct ibv_wc wc;

	open_pair();
	memset(a.buf, 'x', 5000);
	CHECK_EQ(post_recv(&b, 1, 8192, 5000), 0);
	CHECK_EQ(post_send(&a, 2, 0, 5000, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	wc = expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, 5000);
	CHECK_EQ(wc.opcode, IBV_WC_RECV);
	CHECK_EQ(b.buf[8192 + 4999], 'x');

	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 3, 0, 100, 200, IBV_SEND_SIGNALED), 0);
	wc = expect(a.send_cq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
	CHECK_EQ(b.buf[299], 'x');
	CHECK_EQ(b.buf[300], 0);

	CHECK_EQ(post_recv(&b, 4, 0, 0), 0);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE_WITH_IMM, 5, 0, 100, 400, IBV_SEND_SIGNALED), 0);
	wc = expect(b.recv_cq, 4, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(wc.imm_data, 0x11223344);
	CHECK_EQ(b.buf[499], 'x');
	pair_close(&a, &b);
}

static void needs_an_answer_is_refused(void)
{
	open_pair();
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_READ, 1, 0, 4, 0, IBV_SEND_SIGNALED), EINVAL);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 8, 0, IBV_SEND_SIGNALED), EINVAL);
	pair_close(&a, &b);
}

/* The sender sees success and the responder nothing; what follows arrives. */
static void lost(void)
{
	struct address wrong;

	open_pair();
	wrong = to_b;
	wrong.rkey ^= 0x1000;
	/* no receive */
	CHECK_EQ(post_send(&a, 1, 0, 4, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	/* a key that is none */
	CHECK_EQ(post_rdma(&a, &wrong, IBV_WR_RDMA_WRITE, 2, 0, 4, 0, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	/* a receive that is too short stays */
	CHECK_EQ(post_recv(&b, 3, 0, 4), 0);
	CHECK_EQ(post_send(&a, 4, 0, 8, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 4, IBV_WC_SUCCESS);
	poll_none(b.recv_cq, 2);
	CHECK_EQ(post_send(&a, 5, 0, 4, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 5, IBV_WC_SUCCESS);
	expect(b.recv_cq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(qp_state(a.qp), IBV_QPS_RTS);
	CHECK_EQ(qp_state(b.qp), IBV_QPS_RTS);
	pair_close(&a, &b);
}

static void nobody_there(void)
{
	struct address nobody = { .lid = 0xbfff, .qpn = 77 };
	int i;

	endpoint_open(&a, &uc);
	endpoint_connect(&a, &nobody);
	for (i = 0; i < 3; i++) {
		CHECK_EQ(post_send(&a, i, 0, 4, IBV_SEND_SIGNALED), 0);
		expect(a.send_cq, i, IBV_WC_SUCCESS);
	}
	endpoint_close(&a);
}

/* The state after a failed send: sends are flushed, receives work, and RTS leads out of it. */
static void send_queue_error(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

	open_pair();
	sge = sge_of(&a, 0, 4);
	sge.lkey ^= 0x1000;
	CHECK_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
	expect(a.send_cq, 1, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(qp_state(a.qp), IBV_QPS_SQE);
	CHECK_EQ(post_send(&a, 2, 0, 4, 0), 0);
	expect(a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(qp_state(a.qp), IBV_QPS_SQE);
	CHECK_EQ(post_recv(&a, 3, 0, 4), 0);
	CHECK_EQ(post_send(&b, 4, 0, 4, IBV_SEND_SIGNALED), 0);
	expect(a.recv_cq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	CHECK_EQ(post_recv(&b, 5, 0, 4), 0);
	CHECK_EQ(post_send(&a, 6, 0, 4, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 6, IBV_WC_SUCCESS);
	expect(b.recv_cq, 5, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

/* A receive that names no region fails at the responder, which goes to ERR; the sender does not notice. */
static void bad_receive(void)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;

	open_pair();
	sge = sge_of(&b, 0, 4);
	sge.lkey ^= 0x1000;
	CHECK_EQ(ibv_post_recv(b.qp, &wr, &bad), 0);
	CHECK_EQ(post_send(&a, 2, 0, 4, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	expect(b.recv_cq, 1, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(qp_state(b.qp), IBV_QPS_ERR);
	CHECK_EQ(post_send(&a, 3, 0, 4, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 3, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

static void modify_masks(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
				    .ah_attr = { .dlid = 1, .port_num = 1 } };
	const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	endpoint_open(&a, &uc);
	CHECK_EQ(qp_init(&a, a.qp), 0);
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, mask | IBV_QP_MIN_RNR_TIMER), EINVAL);
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, mask & ~IBV_QP_RQ_PSN), EINVAL);
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, mask), 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT), EINVAL);
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	endpoint_close(&a);
}

/* RC and UC do not talk to each other. */
static void types_do_not_mix(void)
{
	struct options rc = { .retry_cnt = 1, .timeout = 12 };
	struct address to_a, address;

	endpoint_open(&a, &rc);
	endpoint_open(&b, &uc);
	to_a = endpoint_address(&a);
	address = endpoint_address(&b);
	endpoint_connect(&a, &address);
	endpoint_connect(&b, &to_a);
	CHECK_EQ(post_recv(&b, 1, 0, 4), 0);
	CHECK_EQ(post_send(&a, 1, 0, 4, 0), 0);
	expect(a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	poll_none(b.recv_cq, 1);
	pair_close(&a, &b);
}

int main(void)
{
	harness_start();
	RUN(data_arrives);
	RUN(needs_an_answer_is_refused);
	RUN(lost);
	RUN(nobody_there);
	RUN(send_queue_error);
	RUN(bad_receive);
	RUN(modify_masks);
	RUN(types_do_not_mix);
	return 0;
}
