/* Extended queue pairs: each ibv_wr_* call, lists that are posted all or not at all, refusals. */
#include <pthread.h>

#include "harness.h"

#define ALL_OPS (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
		 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
		 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

static struct endpoint a, b;
static struct ibv_qp_ex *qpx;
static struct address to_b;

static struct ibv_qp *create(struct endpoint *ep, uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = ep->send_cq, .recv_cq = ep->recv_cq, .qp_type = ep->opt.qp_type,
		.cap = { .max_send_wr = ep->opt.max_send_wr, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4,
			 .max_inline_data = 64 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = ep->pd,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(ep->ctx, &init);
}

/* @a sends with an extended QP. */
static void open_pair(const struct options *opt, uint64_t ops)
{
	struct address to_a;

	endpoint_open(&a, opt);
	endpoint_open(&b, opt);
	CHECK_EQ(ibv_destroy_qp(a.qp), 0);
	a.qp = create(&a, ops);
	CHECK(a.qp);
	qpx = ibv_qp_to_qp_ex(a.qp);
	CHECK(qpx);
	CHECK(!ibv_qp_to_qp_ex(b.qp));
	to_a = endpoint_address(&a);
	to_b = endpoint_address(&b);
	endpoint_connect(&a, &to_b);
	endpoint_connect(&b, &to_a);
}

static void set(uint64_t wr_id)
{
	qpx->wr_id = wr_id;
	qpx->wr_flags = IBV_SEND_SIGNALED;
}

static void each_operation(void)
{
	struct ibv_data_buf bufs[2];
	struct ibv_sge sge[2];
	struct ibv_wc wc;
	uint64_t *word;

	open_pair(NULL, ALL_OPS);
	word = (uint64_t *)(b.buf + 1024);
	memset(a.buf, 'e', 256);
	CHECK_EQ(post_recv(&b, 101, 0, 64), 0);
	CHECK_EQ(post_recv(&b, 102, 64, 64), 0);
	CHECK_EQ(post_recv(&b, 103, 0, 0), 0);

	ibv_wr_start(qpx);
	set(1);
	ibv_wr_send(qpx);
	ibv_wr_set_sge(qpx, a.mr->lkey, (uintptr_t)a.buf, 10);
	set(2);
	ibv_wr_send_imm(qpx, 77);
	sge[0] = sge_of(&a, 0, 20);
	sge[1] = sge_of(&a, 100, 12);
	ibv_wr_set_sge_list(qpx, 2, sge);
	set(3);
	ibv_wr_rdma_write(qpx, to_b.rkey, to_b.buf + 512);
	ibv_wr_set_inline_data(qpx, a.buf, 8);
	set(4);
	ibv_wr_rdma_write_imm(qpx, to_b.rkey, to_b.buf + 600, 88);
	bufs[0] = (struct ibv_data_buf){ a.buf, 3 };
	bufs[1] = (struct ibv_data_buf){ a.buf + 100, 4 };
	ibv_wr_set_inline_data_list(qpx, 2, bufs);
	set(5);
	ibv_wr_atomic_fetch_add(qpx, to_b.rkey, to_b.buf + 1024, 5);
	ibv_wr_set_sge(qpx, a.mr->lkey, (uintptr_t)a.buf + 2048, 8);
	set(6);
	ibv_wr_atomic_cmp_swp(qpx, to_b.rkey, to_b.buf + 1024, 5, 9);
	ibv_wr_set_sge(qpx, a.mr->lkey, (uintptr_t)a.buf + 2056, 8);
	set(7);
	ibv_wr_rdma_read(qpx, to_b.rkey, to_b.buf + 600);
	ibv_wr_set_sge(qpx, a.mr->lkey, (uintptr_t)a.buf + 3000, 7);
	/* Nothing has happened before it is complete. */
	poll_none(a.send_cq, 2);
	CHECK_EQ(b.buf[0], 0);
	CHECK_EQ(ibv_wr_complete(qpx), 0);

	wc = expect(a.send_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_SEND);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	wc = expect(a.send_cq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
	expect(a.send_cq, 4, IBV_WC_SUCCESS);
	wc = expect(a.send_cq, 5, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_FETCH_ADD);
	wc = expect(a.send_cq, 6, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_COMP_SWAP);
	wc = expect(a.send_cq, 7, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RDMA_READ);

	wc = expect(b.recv_cq, 101, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, 10);
	wc = expect(b.recv_cq, 102, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, 32);
	CHECK_EQ(wc.imm_data, 77);
	wc = expect(b.recv_cq, 103, IBV_WC_SUCCESS);
	CHECK_EQ(wc.imm_data, 88);
	CHECK_EQ(wc.byte_len, 7);
	CHECK_EQ(b.buf[519], 'e');
	CHECK_EQ(b.buf[520], 0);
	CHECK_EQ(b.buf[606], 'e');
	CHECK_EQ(b.buf[607], 0);
	CHECK_EQ(*word, 9);
	CHECK_EQ(*(uint64_t *)(a.buf + 2048), 0);
	CHECK_EQ(*(uint64_t *)(a.buf + 2056), 5);
	CHECK_EQ(a.buf[3006], 'e');
	pair_close(&a, &b);
}

static void write_byte(uint64_t wr_id, uint32_t remote)
{
	set(wr_id);
	ibv_wr_rdma_write(qpx, to_b.rkey, to_b.buf + remote);
	ibv_wr_set_inline_data(qpx, a.buf, 1);
}

/* An abort, too many requests, too much inline data, too many elements: nothing of the list is posted. */
static void all_or_nothing(void)
{
	struct options opt = { .max_send_wr = 3 };
	struct ibv_sge sge[5];
	int i;

	open_pair(&opt, ALL_OPS);
	a.buf[0] = 'n';
	ibv_wr_start(qpx);
	write_byte(1, 0);
	ibv_wr_abort(qpx);

	ibv_wr_start(qpx);
	for (i = 0; i < 4; i++)
		write_byte(i, i);
	CHECK_EQ(ibv_wr_complete(qpx), ENOMEM);

	ibv_wr_start(qpx);
	write_byte(1, 0);
	set(2);
	ibv_wr_send(qpx);
	ibv_wr_set_inline_data(qpx, a.buf, 65);
	CHECK_EQ(ibv_wr_complete(qpx), EINVAL);

	memset(sge, 0, sizeof(sge));
	ibv_wr_start(qpx);
	write_byte(1, 0);
	set(2);
	ibv_wr_send(qpx);
	ibv_wr_set_sge_list(qpx, 5, sge);
	write_byte(3, 0);
	CHECK_EQ(ibv_wr_complete(qpx), EINVAL);

	poll_none(a.send_cq, 2);
	CHECK_EQ(b.buf[0], 0);

	/* The places are all there still. */
	ibv_wr_start(qpx);
	for (i = 0; i < 3; i++)
		write_byte(i, i);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	for (i = 0; i < 3; i++)
		expect(a.send_cq, i, IBV_WC_SUCCESS);
	CHECK_EQ(b.buf[2], 'n');
	pair_close(&a, &b);
}

static void mixed_with_post_send(void)
{
	open_pair(NULL, ALL_OPS);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 1, 0, 4, 0, IBV_SEND_SIGNALED), 0);
	ibv_wr_start(qpx);
	write_byte(2, 0);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 3, 0, 4, 0, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	expect(a.send_cq, 3, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

static void datagrams(void)
{
	struct options opt = { .qp_type = IBV_QPT_UD };
	struct ibv_ah_attr attr = { .port_num = 1 };
	struct ibv_ah *ah;
	struct ibv_wc wc;

	open_pair(&opt, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
	attr.dlid = b.lid;
	ah = ibv_create_ah(a.pd, &attr);
	CHECK(ah);
	CHECK_EQ(post_recv(&b, 1, 0, 100), 0);
	ibv_wr_start(qpx);
	set(2);
	ibv_wr_send_imm(qpx, 5);
	ibv_wr_set_ud_addr(qpx, ah, b.qp->qp_num, QKEY);
	ibv_wr_set_sge(qpx, a.mr->lkey, (uintptr_t)a.buf, 16);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	wc = expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, 56);
	CHECK_EQ(wc.imm_data, 5);
	/* Without a destination */
	ibv_wr_start(qpx);
	set(3);
	ibv_wr_send(qpx);
	CHECK_EQ(ibv_wr_complete(qpx), EINVAL);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	pair_close(&a, &b);
}

static void refused(void)
{
	struct options uc = { .qp_type = IBV_QPT_UC };
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS };
	struct ibv_qp *qp;

	endpoint_open(&a, &uc);
	CHECK(!create(&a, IBV_QP_EX_WITH_RDMA_READ));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK(!create(&a, IBV_QP_EX_WITH_TSO));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK(!ibv_create_qp_ex(a.ctx, &init));
	CHECK_EQ(errno, EINVAL);
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH;
	init.pd = a.pd;
	CHECK(!ibv_create_qp_ex(a.ctx, &init));
	CHECK_EQ(errno, EOPNOTSUPP);
	qp = create(&a, IBV_QP_EX_WITH_SEND);
	CHECK(qp);
	qpx = ibv_qp_to_qp_ex(qp);
	CHECK(qpx->wr_send && !qpx->wr_rdma_write);
	/* Not connected yet. */
	ibv_wr_start(qpx);
	ibv_wr_send(qpx);
	CHECK_EQ(ibv_wr_complete(qpx), EINVAL);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	endpoint_close(&a);
}

#define ADDITIONS 1000

static void *add_thread(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < ADDITIONS; i++) {
		int ret;

		do {
			struct ibv_wc wc;

			ibv_wr_start(qpx);
			set(i);
			ibv_wr_atomic_fetch_add(qpx, to_b.rkey, to_b.buf, 1);
			ibv_wr_set_sge(qpx, a.mr->lkey, (uintptr_t)a.buf, 8);
			set(i);
			ibv_wr_atomic_fetch_add(qpx, to_b.rkey, to_b.buf, 1);
			ibv_wr_set_sge(qpx, a.mr->lkey, (uintptr_t)a.buf, 8);
			ret = ibv_wr_complete(qpx);
			while (ibv_poll_cq(a.send_cq, 1, &wc))
				CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		} while (ret == ENOMEM);
		CHECK_EQ(ret, 0);
	}
	return NULL;
}

/* Lists of several threads do not mix. */
static void threads(void)
{
	pthread_t thread[4];
	int i;

	open_pair(NULL, ALL_OPS);
	for (i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, add_thread, NULL), 0);
	for (i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	CHECK_EQ(*(uint64_t *)b.buf, 2 * 4 * ADDITIONS);
	pair_close(&a, &b);
}

static void null_mode(void)
{
	struct options opt = { .max_send_wr = 2 };

	harness_set("SV_HCA_NULL", "1");
	open_pair(&opt, ALL_OPS);
	ibv_wr_start(qpx);
	write_byte(1, 0);
	write_byte(2, 0);
	write_byte(3, 0);
	CHECK_EQ(ibv_wr_complete(qpx), ENOMEM);
	poll_none(a.send_cq, 1);
	ibv_wr_start(qpx);
	write_byte(1, 0);
	ibv_wr_abort(qpx);
	poll_none(a.send_cq, 1);
	ibv_wr_start(qpx);
	write_byte(1, 0);
	write_byte(2, 0);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	pair_close(&a, &b);
	harness_set("SV_HCA_NULL", NULL);
}

int main(void)
{
	harness_start();
	RUN(each_operation);
	RUN(all_or_nothing);
	RUN(mixed_with_post_send);
	RUN(datagrams);
	RUN(refused);
	RUN(threads);
	RUN(null_mode);
	return 0;
}
