/* Every operation of a reliable connection: what arrives, what the completions say. */
#include <sys/mman.h>

#include "harness.h"

static void fill(unsigned char *p, size_t n, int seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = seed + i * 7;
}

static void send_and_imm(void)
{
	struct endpoint a, b;
	struct ibv_wc wc;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED, .imm_data = 0xcafef00d }, *bad;

	pair_open(&a, &b, NULL);
	fill(a.buf, 5000, 1);
	CHECK_EQ(post_recv(&b, 1, 0, 8192), 0);
	CHECK_EQ(post_recv(&b, 2, 8192, 8192), 0);
	CHECK_EQ(post_send(&a, 7, 0, 5000, IBV_SEND_SIGNALED), 0);
	wc = expect(a.send_cq, 7, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_SEND);
	CHECK_EQ(wc.qp_num, a.qp->qp_num);
	wc = expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RECV);
	CHECK_EQ(wc.byte_len, 5000);
	CHECK_EQ(wc.wc_flags, 0);
	CHECK_EQ(wc.qp_num, b.qp->qp_num);
	CHECK_EQ(wc.src_qp, a.qp->qp_num);
	CHECK_EQ(wc.slid, a.lid);
	CHECK(!memcmp(a.buf, b.buf, 5000));
	CHECK_EQ(b.buf[5000], 0);

	sge = sge_of(&a, 100, 10);
	CHECK_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
	expect(a.send_cq, 3, IBV_WC_SUCCESS);
	wc = expect(b.recv_cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(wc.wc_flags, IBV_WC_WITH_IMM);
	CHECK_EQ(wc.imm_data, 0xcafef00d);
	CHECK_EQ(wc.byte_len, 10);
	CHECK(!memcmp(a.buf + 100, b.buf + 8192, 10));
	pair_close(&a, &b);
}

static void rdma(void)
{
	struct endpoint a, b;
	struct address to_b;
	struct ibv_wc wc;

	pair_open(&a, &b, NULL);
	to_b = endpoint_address(&b);
	fill(a.buf, 9000, 3);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 1, 0, 9000, 100, IBV_SEND_SIGNALED), 0);
	wc = expect(a.send_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
	CHECK(!memcmp(a.buf, b.buf + 100, 9000));
	poll_none(b.recv_cq, 5);

	CHECK_EQ(post_recv(&b, 5, 0, 0), 0);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 0, 50, 30000, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	wc = expect(b.recv_cq, 5, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(wc.imm_data, 0x11223344);
	CHECK_EQ(wc.byte_len, 50);
	CHECK(!memcmp(a.buf, b.buf + 30000, 50));

	fill(b.buf, 4000, 9);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_READ, 3, 20000, 4000, 0, IBV_SEND_SIGNALED | IBV_SEND_FENCE), 0);
	wc = expect(a.send_cq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RDMA_READ);
	CHECK_EQ(wc.byte_len, 4000);
	CHECK(!memcmp(a.buf + 20000, b.buf, 4000));
	pair_close(&a, &b);
}

static void atomics(void)
{
	struct endpoint a, b;
	struct address to_b;
	uint64_t *word, *result;
	struct ibv_wc wc;

	pair_open(&a, &b, NULL);
	to_b = endpoint_address(&b);
	word = (uint64_t *)(b.buf + 64);
	result = (uint64_t *)(a.buf + 8);
	*word = 100;
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8, 8, 64, IBV_SEND_SIGNALED), 0);
	wc = expect(a.send_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_FETCH_ADD);
	CHECK_EQ(wc.byte_len, 8);
	CHECK_EQ(*result, 100);
	CHECK_EQ(*word, 105);

	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_ATOMIC_CMP_AND_SWP, 2, 8, 8, 64, IBV_SEND_SIGNALED), 0);
	wc = expect(a.send_cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_COMP_SWAP);
	CHECK_EQ(*result, 105);
	CHECK_EQ(*word, 105);
	*word = 5;
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_ATOMIC_CMP_AND_SWP, 3, 8, 8, 64, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(*result, 5);
	CHECK_EQ(*word, 9);
	pair_close(&a, &b);
}

static void scatter_gather(void)
{
	struct endpoint a, b;
	struct ibv_sge out[3], in[4];
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = out, .num_sge = 3, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_recv_wr rwr = { .wr_id = 2, .sg_list = in, .num_sge = 4 }, *rbad;
	struct ibv_wc wc;

	pair_open(&a, &b, NULL);
	fill(a.buf, 1000, 5);
	out[0] = sge_of(&a, 0, 100);
	out[1] = sge_of(&a, 500, 0);
	out[2] = sge_of(&a, 300, 250);
	in[0] = sge_of(&b, 0, 30);
	in[1] = sge_of(&b, 100, 0);
	in[2] = sge_of(&b, 1000, 200);
	in[3] = sge_of(&b, 2000, 500);
	CHECK_EQ(ibv_post_recv(b.qp, &rwr, &rbad), 0);
	CHECK_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	wc = expect(b.recv_cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, 350);
	CHECK(!memcmp(b.buf, a.buf, 30));
	CHECK(!memcmp(b.buf + 1000, a.buf + 30, 70));
	CHECK(!memcmp(b.buf + 1070, a.buf + 300, 130));
	CHECK(!memcmp(b.buf + 2000, a.buf + 430, 120));
	CHECK_EQ(b.buf[2120], 0);
	pair_close(&a, &b);
}

static void inline_is_captured(void)
{
	struct endpoint a, b;

	pair_open(&a, &b, NULL);
	/* No receive yet, so the request waits while the buffer changes. */
	fill(a.buf, 64, 1);
	CHECK_EQ(post_send(&a, 1, 0, 64, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
	fill(a.buf, 64, 200);
	CHECK_EQ(post_recv(&b, 2, 0, 64), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	expect(b.recv_cq, 2, IBV_WC_SUCCESS);
	fill(a.buf, 64, 1);
	CHECK(!memcmp(a.buf, b.buf, 64));
	CHECK_EQ(post_send(&a, 3, 0, 65, IBV_SEND_INLINE), EINVAL);
	pair_close(&a, &b);
}

static void unsignaled_and_slots(void)
{
	struct options opt = { .max_send_wr = 4 };
	struct endpoint a, b;
	struct address to_b;
	int i;

	pair_open(&a, &b, &opt);
	to_b = endpoint_address(&b);
	for (i = 0; i < 3; i++)
		CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, i, 0, 8, 0, 0), 0);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 3, 0, 8, 0, IBV_SEND_SIGNALED), 0);
	/* All four were executed, but only a polled completion gives slots back. */
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 4, 0, 8, 0, 0), ENOMEM);
	expect(a.send_cq, 3, IBV_WC_SUCCESS);
	poll_none(a.send_cq, 2);
	for (i = 0; i < 4; i++)
		CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, i, 0, 8, 0, 0), 0);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 4, 0, 8, 0, 0), ENOMEM);
	pair_close(&a, &b);
}

static void bad_wr_of_a_chain(void)
{
	struct options opt = { .max_send_wr = 2, .max_recv_wr = 2 };
	struct ibv_send_wr wr[3], *bad = NULL;
	struct ibv_recv_wr rwr[3], *rbad = NULL;
	struct endpoint a, b;
	struct ibv_sge sge;
	int i;

	pair_open(&a, &b, &opt);
	sge = sge_of(&a, 0, 4);
	memset(wr, 0, sizeof(wr));
	memset(rwr, 0, sizeof(rwr));
	for (i = 0; i < 3; i++) {
		wr[i] = (struct ibv_send_wr){ .wr_id = i, .next = i < 2 ? &wr[i + 1] : NULL, .sg_list = &sge,
					      .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
		rwr[i] = (struct ibv_recv_wr){ .wr_id = i, .next = i < 2 ? &rwr[i + 1] : NULL };
	}
	CHECK_EQ(ibv_post_recv(a.qp, rwr, &rbad), ENOMEM);
	CHECK(rbad == &rwr[2]);
	CHECK_EQ(post_recv(&b, 10, 0, 64), 0);
	CHECK_EQ(post_recv(&b, 11, 0, 64), 0);
	CHECK_EQ(ibv_post_send(a.qp, wr, &bad), ENOMEM);
	CHECK(bad == &wr[2]);
	expect(a.send_cq, 0, IBV_WC_SUCCESS);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	expect(b.recv_cq, 10, IBV_WC_SUCCESS);
	/* A receive slot comes back when its completion is polled, too. */
	CHECK_EQ(post_recv(&b, 12, 0, 64), 0);
	CHECK_EQ(post_recv(&b, 13, 0, 64), ENOMEM);

	wr[0].opcode = IBV_WR_TSO;
	wr[0].next = NULL;
	CHECK_EQ(ibv_post_send(a.qp, wr, &bad), EINVAL);
	CHECK(bad == &wr[0]);
	wr[0].opcode = IBV_WR_SEND;
	wr[0].num_sge = 5;
	CHECK_EQ(ibv_post_send(a.qp, wr, &bad), EINVAL);
	pair_close(&a, &b);
}

static void sig_all(void)
{
	struct options opt = { .sq_sig_all = true };
	struct endpoint a, b;
	struct address to_b;

	pair_open(&a, &b, &opt);
	to_b = endpoint_address(&b);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, 0), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

static void zero_length(void)
{
	struct endpoint a, b;
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc;

	pair_open(&a, &b, NULL);
	/* The rkey of nothing is not looked at. */
	CHECK_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	wr.opcode = IBV_WR_SEND;
	CHECK_EQ(post_recv(&b, 2, 0, 0), 0);
	CHECK_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	wc = expect(b.recv_cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, 0);
	pair_close(&a, &b);
}

static void to_itself(void)
{
	struct endpoint a;
	struct address self;

	endpoint_open(&a, NULL);
	self = endpoint_address(&a);
	endpoint_connect(&a, &self);
	fill(a.buf, 100, 1);
	CHECK_EQ(post_recv(&a, 2, 1000, 100), 0);
	CHECK_EQ(post_send(&a, 1, 0, 100, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	expect(a.recv_cq, 2, IBV_WC_SUCCESS);
	CHECK(!memcmp(a.buf, a.buf + 1000, 100));
	endpoint_close(&a);
}

static void iova(void)
{
	struct endpoint a, b;
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;

	pair_open(&a, &b, NULL);
	mr = ibv_reg_mr_iova(b.pd, b.buf + 4096, 4096, 0x1000, ACCESS_ALL);
	CHECK(mr);
	CHECK(mr->lkey != mr->rkey);
	fill(a.buf, 100, 4);
	sge = sge_of(&a, 0, 100);
	wr.wr.rdma.remote_addr = 0x1000 + 3996;
	wr.wr.rdma.rkey = mr->rkey;
	CHECK_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	CHECK(!memcmp(a.buf, b.buf + 4096 + 3996, 100));
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	pair_close(&a, &b);
}

static void registration(void)
{
	struct endpoint a;
	void *page;

	endpoint_open(&a, NULL);
	page = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	errno = 0;
	CHECK(!ibv_reg_mr(a.pd, page, 8192, IBV_ACCESS_LOCAL_WRITE));
	CHECK_EQ(errno, EFAULT);
	munmap(page, 8192);
	CHECK(!ibv_reg_mr(a.pd, page, 8192, 0));
	CHECK_EQ(errno, EFAULT);
	CHECK(!ibv_reg_mr(a.pd, a.buf, 4096, IBV_ACCESS_REMOTE_WRITE));
	CHECK_EQ(errno, EINVAL);
	CHECK(!ibv_reg_mr(a.pd, a.buf, 0, 0));
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(ibv_dealloc_pd(a.pd), EBUSY);
	CHECK_EQ(ibv_destroy_cq(a.send_cq), EBUSY);
	endpoint_close(&a);
}

static void psn_and_query(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct endpoint a, b;

	pair_open(&a, &b, NULL);
	CHECK_EQ(post_recv(&b, 1, 0, 8192), 0);
	CHECK_EQ(post_send(&a, 1, 0, 2500, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), 0);
	/* 2500 bytes at an MTU of 1024 are three packets. */
	CHECK_EQ(attr.sq_psn, a.psn + 3);
	CHECK_EQ(attr.dest_qp_num, b.qp->qp_num);
	CHECK_EQ(attr.ah_attr.dlid, b.lid);
	CHECK_EQ(init.cap.max_send_wr, 64);
	CHECK_EQ(ibv_query_qp(b.qp, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.rq_psn, a.psn + 3);
	pair_close(&a, &b);
}

int main(void)
{
	harness_start();
	RUN(send_and_imm);
	RUN(rdma);
	RUN(atomics);
	RUN(scatter_gather);
	RUN(inline_is_captured);
	RUN(unsignaled_and_slots);
	RUN(bad_wr_of_a_chain);
	RUN(sig_all);
	RUN(zero_length);
	RUN(to_itself);
	RUN(iova);
	RUN(registration);
	RUN(psn_and_query);
	return 0;
}
