/* Memory windows of both types, re-registration, null regions, device memory, advice. */
#include "harness.h"

static struct endpoint a, b;
static struct options opt = { .mr_access = ACCESS_ALL | IBV_ACCESS_MW_BIND };

/* An RDMA WRITE of one byte from @a with @rkey at @addr. */
static void write_at(uint32_t rkey, uint64_t addr, enum ibv_wc_status status)
{
	struct address to = { .rkey = rkey, .buf = addr };

	CHECK_EQ(post_rdma(&a, &to, IBV_WR_RDMA_WRITE, 1, 0, 1, 0, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, status);
}

static struct ibv_mw_bind_info info_of(uint32_t offset, uint32_t length, unsigned int access)
{
	return (struct ibv_mw_bind_info){
		.mr = b.mr, .addr = (uintptr_t)b.buf + offset, .length = length, .mw_access_flags = access,
	};
}

static void bind_1(struct ibv_mw *mw, struct ibv_mw_bind_info info, enum ibv_wc_status status)
{
	struct ibv_mw_bind bind = { .wr_id = 50, .send_flags = IBV_SEND_SIGNALED, .bind_info = info };
	struct ibv_wc wc;

	CHECK_EQ(ibv_bind_mw(b.qp, mw, &bind), 0);
	wc = expect(b.send_cq, 50, status);
	if (status == IBV_WC_SUCCESS)
		CHECK_EQ(wc.opcode, IBV_WC_BIND_MW);
}

static void type_1(void)
{
	struct ibv_mw *mw;
	uint32_t first, second;

	pair_open(&a, &b, &opt);
	a.buf[0] = 'w';
	mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);
	CHECK(mw && mw->type == IBV_MW_TYPE_1 && mw->pd == b.pd);
	first = mw->rkey;
	bind_1(mw, info_of(100, 10, IBV_ACCESS_REMOTE_WRITE), IBV_WC_SUCCESS);
	second = mw->rkey;
	CHECK(first != second);
	write_at(second, (uintptr_t)b.buf + 100, IBV_WC_SUCCESS);
	write_at(second, (uintptr_t)b.buf + 109, IBV_WC_SUCCESS);
	CHECK_EQ(b.buf[109], 'w');
	CHECK_EQ(ibv_dereg_mr(b.mr), EBUSY);

	/* Bound again somewhere else, counted from its start: the key of before is no key any more. */
	bind_1(mw, info_of(200, 10, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED), IBV_WC_SUCCESS);
	write_at(mw->rkey, 9, IBV_WC_SUCCESS);
	CHECK_EQ(b.buf[209], 'w');
	write_at(second, (uintptr_t)b.buf + 100, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	pair_close(&a, &b);
}

static void type_1_unbound(void)
{
	struct ibv_mw_bind_info none = { 0 };
	struct ibv_mw *mw;

	pair_open(&a, &b, &opt);
	mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);
	bind_1(mw, info_of(0, 10, IBV_ACCESS_REMOTE_WRITE), IBV_WC_SUCCESS);
	bind_1(mw, none, IBV_WC_SUCCESS);
	write_at(mw->rkey, (uintptr_t)b.buf, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dealloc_pd(b.pd), EBUSY);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	pair_close(&a, &b);
}

/* Each way in which a bind may not fit ends the QP, so each has a pair of its own. */
static void bad_binds(void)
{
	struct options without = { .mr_access = ACCESS_ALL };
	struct ibv_mw_bind_info info;
	struct ibv_mw *mw;
	int i;

	for (i = 0; i < 3; i++) {
		pair_open(&a, &b, i == 0 ? &without : &opt);
		mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);
		info = info_of(i == 1 ? BUFFER - 5 : 0, 10, IBV_ACCESS_REMOTE_WRITE);
		if (i == 2) {
			CHECK_EQ(ibv_dereg_mr(b.mr), 0);
			b.mr = ibv_reg_mr(b.pd, b.buf, BUFFER, IBV_ACCESS_MW_BIND);
			info.mr = b.mr;
		}
		bind_1(mw, info, IBV_WC_MW_BIND_ERR);
		CHECK_EQ(qp_state(b.qp), IBV_QPS_ERR);
		CHECK_EQ(ibv_dealloc_mw(mw), 0);
		pair_close(&a, &b);
	}
}

static int post_2(struct ibv_mw *mw, uint32_t rkey, struct ibv_mw_bind_info info)
{
	struct ibv_send_wr wr = {
		.wr_id = 60, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = mw, .rkey = rkey, .bind_info = info },
	}, *bad;

	return ibv_post_send(b.qp, &wr, &bad);
}

static void bind_2(struct ibv_mw *mw, uint32_t rkey, struct ibv_mw_bind_info info, enum ibv_wc_status status)
{
	CHECK_EQ(post_2(mw, rkey, info), 0);
	expect(b.send_cq, 60, status);
	if (status == IBV_WC_SUCCESS)
		mw->rkey = rkey;
}

static void invalidate(uint32_t rkey, enum ibv_wc_status status)
{
	struct ibv_send_wr wr = {
		.wr_id = 70, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = rkey,
	}, *bad;
	struct ibv_wc wc;

	CHECK_EQ(ibv_post_send(b.qp, &wr, &bad), 0);
	wc = expect(b.send_cq, 70, status);
	if (status == IBV_WC_SUCCESS)
		CHECK_EQ(wc.opcode, IBV_WC_LOCAL_INV);
}

static void type_2(void)
{
	struct ibv_mw_bind_info info;
	struct ibv_mw *mw;

	pair_open(&a, &b, &opt);
	a.buf[0] = 'w';
	mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	CHECK(mw);
	info = info_of(100, 10, IBV_ACCESS_REMOTE_WRITE);
	bind_2(mw, mw->rkey ^ 0x7, info, IBV_WC_SUCCESS);
	write_at(mw->rkey, (uintptr_t)b.buf + 100, IBV_WC_SUCCESS);
	CHECK_EQ(b.buf[100], 'w');
	invalidate(mw->rkey, IBV_WC_SUCCESS);
	bind_2(mw, mw->rkey + 1, info, IBV_WC_SUCCESS);
	write_at(mw->rkey, (uintptr_t)b.buf + 105, IBV_WC_SUCCESS);
	/* Not while it is bound. */
	bind_2(mw, mw->rkey + 1, info, IBV_WC_MW_BIND_ERR);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	pair_close(&a, &b);
}

static void type_2_belongs_to_its_qp(void)
{
	struct address to_a, to_b;
	struct endpoint a2, b2;
	struct ibv_mw *mw;

	pair_open(&a, &b, &opt);
	mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	bind_2(mw, mw->rkey, info_of(0, 10, IBV_ACCESS_REMOTE_WRITE), IBV_WC_SUCCESS);
	a2 = a;
	b2 = b;
	a2.qp = endpoint_qp(&a);
	b2.qp = endpoint_qp(&b);
	to_a = endpoint_address(&a2);
	to_b = endpoint_address(&b2);
	endpoint_connect(&a2, &to_b);
	endpoint_connect(&b2, &to_a);
	write_at(mw->rkey, (uintptr_t)b.buf, IBV_WC_SUCCESS);
	to_b.rkey = mw->rkey;
	CHECK_EQ(post_rdma(&a2, &to_b, IBV_WR_RDMA_WRITE, 1, 0, 1, 0, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	/* It goes with its QP. */
	CHECK_EQ(ibv_dereg_mr(b.mr), EBUSY);
	CHECK_EQ(ibv_destroy_qp(b.qp), 0);
	CHECK_EQ(ibv_dereg_mr(b.mr), 0);
	b.mr = ibv_reg_mr(b.pd, b.buf, BUFFER, ACCESS_ALL);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_destroy_qp(a2.qp), 0);
	b.qp = b2.qp;
	pair_close(&a, &b);
}

static void send_with_invalidate(void)
{
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_mw *mw;
	struct ibv_wc wc;

	pair_open(&a, &b, &opt);
	mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	bind_2(mw, mw->rkey, info_of(0, 10, IBV_ACCESS_REMOTE_WRITE), IBV_WC_SUCCESS);
	write_at(mw->rkey, (uintptr_t)b.buf, IBV_WC_SUCCESS);
	CHECK_EQ(post_recv(&b, 2, 0, 4), 0);
	wr.invalidate_rkey = mw->rkey;
	CHECK_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	wc = expect(b.recv_cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(wc.wc_flags, IBV_WC_WITH_INV);
	CHECK_EQ(wc.invalidated_rkey, mw->rkey);
	/* A second time there is nothing to invalidate: the receive is not used up, both ends fail. */
	CHECK_EQ(post_recv(&b, 3, 0, 4), 0);
	CHECK_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
	expect(a.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	expect(b.recv_cq, 3, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	pair_close(&a, &b);
}

static void refused_windows(void)
{
	struct ibv_mw_bind bind = { 0 };
	struct ibv_mw *one, *two;

	pair_open(&a, &b, &opt);
	CHECK(!ibv_alloc_mw(b.pd, 7));
	one = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);
	two = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	CHECK_EQ(ibv_bind_mw(b.qp, two, &bind), EINVAL);
	CHECK_EQ(post_2(one, one->rkey, info_of(0, 4, 0)), EINVAL);
	CHECK_EQ(post_2(two, two->rkey, info_of(0, 0, 0)), EINVAL);
	CHECK_EQ(post_2(two, two->rkey, info_of(0, 4, IBV_ACCESS_LOCAL_WRITE)), EINVAL);
	/* A key of somebody else's block */
	bind_2(two, two->rkey ^ 0x100, info_of(0, 4, 0), IBV_WC_MW_BIND_ERR);
	CHECK_EQ(ibv_dealloc_mw(one), 0);
	CHECK_EQ(ibv_dealloc_mw(two), 0);
	pair_close(&a, &b);
}

static void reregistration(void)
{
	unsigned char *other;
	struct ibv_pd *pd;
	uint32_t rkey;

	pair_open(&a, &b, &opt);
	CHECK(!posix_memalign((void **)&other, 4096, 4096));
	rkey = b.mr->rkey;
	CHECK_EQ(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, 4096, 0), 0);
	CHECK(b.mr->addr == other);
	a.buf[0] = 'r';
	write_at(rkey, (uintptr_t)other + 7, IBV_WC_SUCCESS);
	CHECK_EQ(other[7], 'r');
	CHECK_EQ(ibv_rereg_mr(b.mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	CHECK_EQ(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE),
		 IBV_REREG_MR_ERR_INPUT);
	CHECK_EQ(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), 0);
	pd = ibv_alloc_pd(b.ctx);
	CHECK_EQ(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	write_at(rkey, (uintptr_t)other, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dereg_mr(b.mr), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	b.mr = ibv_reg_mr(b.pd, b.buf, BUFFER, ACCESS_ALL);
	pair_close(&a, &b);
	free(other);
}

/* A message is scattered over the null region and a real one; what comes from it is zero, also afterwards. */
static void null_region(void)
{
	struct ibv_sge sge[2];
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = sge, .num_sge = 2 }, *bad_recv;
	struct ibv_send_wr send = { .wr_id = 2, .sg_list = sge, .num_sge = 2, .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_mr *null;

	pair_open(&a, &b, NULL);
	null = ibv_alloc_null_mr(b.pd);
	CHECK(null);
	sge[0] = (struct ibv_sge){ .addr = 0xdead000, .length = 10, .lkey = null->lkey };
	sge[1] = sge_of(&b, 0, 10);
	CHECK_EQ(ibv_post_recv(b.qp, &recv, &bad_recv), 0);
	memcpy(a.buf, "0123456789abcdefghij", 20);
	CHECK_EQ(post_send(&a, 3, 0, 20, IBV_SEND_SIGNALED), 0);
	expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	CHECK(!memcmp(b.buf, "abcdefghij", 10));

	CHECK_EQ(post_recv(&a, 4, 100, 20), 0);
	memset(a.buf + 100, 'x', 20);
	CHECK_EQ(ibv_post_send(b.qp, &send, &bad), 0);
	expect(b.send_cq, 2, IBV_WC_SUCCESS);
	expect(a.recv_cq, 4, IBV_WC_SUCCESS);
	CHECK(!memcmp(a.buf + 100, "\0\0\0\0\0\0\0\0\0\0abcdefghij", 20));
	CHECK_EQ(ibv_dereg_mr(null), 0);
	pair_close(&a, &b);
}

static void device_memory(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 1000 };
	struct ibv_device_attr_ex device;
	struct address to_dm;
	char text[16] = "";
	struct ibv_dm *dm;
	struct ibv_mr *mr;

	pair_open(&a, &b, NULL);
	CHECK_EQ(ibv_query_device_ex(b.ctx, NULL, &device), 0);
	CHECK(device.max_dm_size >= 1000);
	dm = ibv_alloc_dm(b.ctx, &attr);
	CHECK(dm);
	CHECK_EQ(ibv_memcpy_to_dm(dm, 990, "0123456789", 10), 0);
	CHECK_EQ(ibv_memcpy_to_dm(dm, 991, "0123456789", 10), EFAULT);
	CHECK(!ibv_reg_dm_mr(b.pd, dm, 0, 1000, ACCESS_ALL));
	CHECK_EQ(errno, EINVAL);
	CHECK(!ibv_reg_dm_mr(b.pd, dm, 1, 1000, ACCESS_ALL | IBV_ACCESS_ZERO_BASED));
	mr = ibv_reg_dm_mr(b.pd, dm, 500, 500, ACCESS_ALL | IBV_ACCESS_ZERO_BASED);
	CHECK(mr);
	CHECK_EQ(ibv_free_dm(dm), EBUSY);
	to_dm = (struct address){ .rkey = mr->rkey };
	CHECK_EQ(post_rdma(&a, &to_dm, IBV_WR_RDMA_READ, 1, 0, 10, 490, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	CHECK(!memcmp(a.buf, "0123456789", 10));
	memcpy(a.buf, "written", 8);
	CHECK_EQ(post_rdma(&a, &to_dm, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_memcpy_from_dm(text, dm, 500, 8), 0);
	CHECK(!strcmp(text, "written"));
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_free_dm(dm), 0);
	attr.length = 1ULL << 40;
	CHECK(!ibv_alloc_dm(b.ctx, &attr));
	pair_close(&a, &b);
}

static void advice(void)
{
	struct ibv_sge sge;

	pair_open(&a, &b, NULL);
	sge = sge_of(&a, 0, 4096);
	CHECK_EQ(ibv_advise_mr(a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), 0);
	CHECK_EQ(ibv_advise_mr(a.pd, 77, 0, &sge, 1), EINVAL);
	sge.length = BUFFER + 1;
	CHECK_EQ(ibv_advise_mr(a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), ENOENT);
	pair_close(&a, &b);
}

/* Keys of regions and windows stay apart where there are few numbers to draw from. */
static void few_keys(void)
{
	struct ibv_mw *mw[20];
	struct ibv_mr *mr[20];
	int i;

	harness_set("SV_HCA_ID_SPACE", "64");
	endpoint_open(&a, &opt);
	for (i = 0; i < 20; i++) {
		mw[i] = ibv_alloc_mw(a.pd, IBV_MW_TYPE_2);
		mr[i] = ibv_reg_mr(a.pd, a.buf, 64, 0);
		CHECK(mw[i] && mr[i]);
		CHECK(mr[i]->rkey >> 8 != mw[i]->rkey >> 8);
	}
	for (i = 0; i < 20; i++) {
		CHECK_EQ(ibv_dealloc_mw(mw[i]), 0);
		CHECK_EQ(ibv_dereg_mr(mr[i]), 0);
	}
	endpoint_close(&a);
	harness_set("SV_HCA_ID_SPACE", NULL);
}

int main(void)
{
	harness_start();
	RUN(type_1);
	RUN(type_1_unbound);
	RUN(bad_binds);
	RUN(type_2);
	RUN(type_2_belongs_to_its_qp);
	RUN(send_with_invalidate);
	RUN(refused_windows);
	RUN(reregistration);
	RUN(null_region);
	RUN(device_memory);
	RUN(advice);
	RUN(few_keys);
	return 0;
}
