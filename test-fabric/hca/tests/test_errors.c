/* Requests that must fail: the status on both sides, which QP breaks, and that what was refused had no effect. */
#include <sys/mman.h>

#include "harness.h"

static struct endpoint a, b;
static struct address to_b;

static void open_pair(const struct options *opt)
{
	pair_open(&a, &b, opt);
	to_b = endpoint_address(&b);
}

static void await_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	uint64_t deadline = now_ms() + 10000;

	while (qp_state(qp) != state)
		CHECK(now_ms() < deadline);
}

static void expect_async(struct ibv_context *ctx, enum ibv_event_type type, struct ibv_qp *qp)
{
	struct ibv_async_event event;

	await_readable(ctx->async_fd, ibv_event_type_str(type));
	CHECK_EQ(ibv_get_async_event(ctx, &event), 0);
	CHECK_EQ(event.event_type, type);
	CHECK(event.element.qp == qp);
	ibv_ack_async_event(&event);
}

/* A failed request takes both QPs to ERR, flushes what is posted, and leaves the buffer alone. */
static void both_are_broken(void)
{
	await_state(a.qp, IBV_QPS_ERR);
	await_state(b.qp, IBV_QPS_ERR);
	CHECK_EQ(post_send(&a, 77, 0, 4, 0), 0);
	expect(a.send_cq, 77, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(post_recv(&b, 78, 0, 4), 0);
	expect(b.recv_cq, 78, IBV_WC_WR_FLUSH_ERR);
	pair_close(&a, &b);
}

static void rdma_error(enum ibv_wr_opcode opcode, uint32_t length, uint32_t remote, enum ibv_wc_status status,
		       enum ibv_event_type event)
{
	memset(a.buf, 0xee, 64);
	memset(b.buf, 0x11, 64);
	CHECK_EQ(post_recv(&b, 5, 0, 64), 0);
	CHECK_EQ(post_rdma(&a, &to_b, opcode, 1, 0, length, remote, 0), 0);
	/* Unsignaled, but an error is always told; what follows is flushed. */
	expect(a.send_cq, 1, status);
	expect(b.recv_cq, 5, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(b.buf[0], 0x11);
	CHECK_EQ(a.buf[0], 0xee);
	expect_async(b.ctx, event, b.qp);
	both_are_broken();
}

static void wrong_rkey(void)
{
	open_pair(NULL);
	to_b.rkey++;
	rdma_error(IBV_WR_RDMA_WRITE, 8, 0, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	open_pair(NULL);
	to_b.rkey = b.mr->lkey;
	rdma_error(IBV_WR_RDMA_READ, 8, 0, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	open_pair(NULL);
	to_b.rkey = 0;
	rdma_error(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

static void out_of_bounds(void)
{
	open_pair(NULL);
	rdma_error(IBV_WR_RDMA_WRITE, 9, BUFFER - 8, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	open_pair(NULL);
	rdma_error(IBV_WR_RDMA_READ, 9, (uint32_t)-4, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

static void region_without_access(void)
{
	struct options opt = { .mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ };

	open_pair(&opt);
	rdma_error(IBV_WR_RDMA_WRITE, 8, 0, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	open_pair(&opt);
	rdma_error(IBV_WR_ATOMIC_CMP_AND_SWP, 8, 0, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

static void qp_without_access(void)
{
	struct options opt = { .qp_access = IBV_ACCESS_LOCAL_WRITE };

	open_pair(&opt);
	rdma_error(IBV_WR_RDMA_WRITE, 8, 0, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	open_pair(&opt);
	rdma_error(IBV_WR_RDMA_READ, 8, 0, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	/* Without REMOTE_WRITE even nothing may not be written. */
	open_pair(&opt);
	rdma_error(IBV_WR_RDMA_WRITE, 0, 0, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

static void access_by_modify(void)
{
	struct options opt = { .qp_access = IBV_ACCESS_LOCAL_WRITE };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	open_pair(&opt);
	CHECK_EQ(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS), 0);
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

static void misaligned_atomic(void)
{
	open_pair(NULL);
	rdma_error(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 4, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

static void local_error(struct ibv_send_wr *wr, struct ibv_sge *sge, enum ibv_wc_status status)
{
	struct ibv_send_wr *bad;

	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->wr_id = 9;
	wr->wr.rdma.remote_addr = to_b.buf;
	wr->wr.rdma.rkey = to_b.rkey;
	CHECK_EQ(ibv_post_send(a.qp, wr, &bad), 0);
	expect(a.send_cq, 9, status);
	await_state(a.qp, IBV_QPS_ERR);
	/* The peer never heard of it. */
	CHECK_EQ(qp_state(b.qp), IBV_QPS_RTS);
	pair_close(&a, &b);
}

static void local_errors(void)
{
	struct options readonly = { .mr_access = IBV_ACCESS_REMOTE_READ };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_sge sge;

	open_pair(NULL);
	sge = sge_of(&a, 0, 8);
	sge.lkey = a.mr->rkey;
	local_error(&wr, &sge, IBV_WC_LOC_PROT_ERR);

	open_pair(NULL);
	sge = sge_of(&a, BUFFER - 4, 8);
	local_error(&wr, &sge, IBV_WC_LOC_PROT_ERR);

	open_pair(&readonly);
	sge = sge_of(&a, 0, 8);
	wr.opcode = IBV_WR_RDMA_READ;
	local_error(&wr, &sge, IBV_WC_LOC_PROT_ERR);

	open_pair(NULL);
	sge = sge_of(&a, 0, 4);
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	local_error(&wr, &sge, IBV_WC_LOC_LEN_ERR);

	/* A region of another protection domain. */
	open_pair(NULL);
	pd = ibv_alloc_pd(a.ctx);
	mr = ibv_reg_mr(pd, a.buf, 64, ACCESS_ALL);
	sge = sge_of(&a, 0, 8);
	sge.lkey = mr->lkey;
	wr.opcode = IBV_WR_RDMA_WRITE;
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	mr = ibv_reg_mr(pd, a.buf, 64, ACCESS_ALL);
	sge.lkey = mr->lkey;
	{
		struct ibv_send_wr *bad;

		wr.sg_list = &sge;
		CHECK_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
		expect(a.send_cq, 9, IBV_WC_LOC_PROT_ERR);
	}
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	pair_close(&a, &b);
}

static void receive_too_short(void)
{
	open_pair(NULL);
	CHECK_EQ(post_recv(&b, 5, 0, 10), 0);
	CHECK_EQ(post_recv(&b, 6, 0, 10), 0);
	CHECK_EQ(post_send(&a, 1, 0, 11, 0), 0);
	CHECK_EQ(post_send(&a, 2, 0, 1, 0), 0);
	expect(a.send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	expect(a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	expect(b.recv_cq, 5, IBV_WC_LOC_LEN_ERR);
	expect(b.recv_cq, 6, IBV_WC_WR_FLUSH_ERR);
	both_are_broken();
}

static void receive_with_bad_key(void)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 }, *bad;

	open_pair(NULL);
	sge = sge_of(&b, 0, 10);
	sge.lkey = b.mr->rkey;
	CHECK_EQ(ibv_post_recv(b.qp, &wr, &bad), 0);
	CHECK_EQ(post_send(&a, 1, 0, 4, 0), 0);
	expect(a.send_cq, 1, IBV_WC_REM_OP_ERR);
	expect(b.recv_cq, 5, IBV_WC_LOC_PROT_ERR);
	both_are_broken();
}

static void deregistered_region(void)
{
	struct ibv_mr *mr;

	open_pair(NULL);
	mr = ibv_reg_mr(b.pd, b.buf, 4096, ACCESS_ALL);
	to_b.rkey = mr->rkey;
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	rdma_error(IBV_WR_RDMA_WRITE, 8, 0, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

/* The application has unmapped what it registered: an error at the one who asks, never a fault here. */
static void unmapped_memory(void)
{
	unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	open_pair(NULL);
	mr = ibv_reg_mr(b.pd, page, 4096, ACCESS_ALL);
	CHECK(mr);
	munmap(page, 4096);
	to_b.rkey = mr->rkey;
	to_b.buf = (uintptr_t)page;
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, 0), 0);
	expect(a.send_cq, 1, IBV_WC_REM_OP_ERR);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	both_are_broken();

	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	open_pair(NULL);
	mr = ibv_reg_mr(a.pd, page, 4096, ACCESS_ALL);
	CHECK(mr);
	munmap(page, 4096);
	{
		struct ibv_sge sge = { (uintptr_t)page, 8, mr->lkey };
		struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					  .wr.rdma = { to_b.buf, to_b.rkey } }, *bad;

		CHECK_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
		expect(a.send_cq, 1, IBV_WC_LOC_PROT_ERR);
	}
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	pair_close(&a, &b);
}

/* The garbage of an error completion must not look like an opcode or a length. */
static void error_completion_fields(void)
{
	struct ibv_wc wc;

	open_pair(NULL);
	to_b.rkey++;
	CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, 0), 0);
	wc = expect(a.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(wc.qp_num, a.qp->qp_num);
	CHECK(wc.vendor_err);
	CHECK(wc.opcode != IBV_WC_RDMA_WRITE);
	both_are_broken();
}

int main(void)
{
	harness_start();
	RUN(wrong_rkey);
	RUN(out_of_bounds);
	RUN(region_without_access);
	RUN(qp_without_access);
	RUN(access_by_modify);
	RUN(misaligned_atomic);
	RUN(local_errors);
	RUN(receive_too_short);
	RUN(receive_with_bad_key);
	RUN(deregistered_region);
	RUN(unmapped_memory);
	RUN(error_completion_fields);
	return 0;
}
