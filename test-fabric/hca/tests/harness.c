#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

static char fabric[64];
static pid_t owner;

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void remove_fabric(void)
{
	if (getpid() == owner)
		nftw(fabric, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

void harness_start(void)
{
	snprintf(fabric, sizeof(fabric), "/dev/shm/sv-hca-test-XXXXXX");
	CHECK(mkdtemp(fabric));
	owner = getpid();
	atexit(remove_fabric);
	setenv("SV_HCA_FABRIC", fabric, 1);
	unsetenv("SV_HCA_CONF");
	setenv("SV_HCA_REPORT_LEAKS", "1", 1);
}

void harness_set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ULL + ts.tv_nsec / 1000000;
}

static void defaults(struct options *opt)
{
	if (!opt->qp_type)
		opt->qp_type = IBV_QPT_RC;
	if (!opt->port)
		opt->port = 1;
	if (!opt->max_send_wr)
		opt->max_send_wr = 64;
	if (!opt->max_recv_wr)
		opt->max_recv_wr = 64;
	if (!opt->max_sge)
		opt->max_sge = 4;
	if (!opt->max_inline)
		opt->max_inline = 64;
	if (!opt->cqe)
		opt->cqe = 256;
	if (!opt->qp_access)
		opt->qp_access = ACCESS_ALL;
	if (!opt->mr_access)
		opt->mr_access = ACCESS_ALL;
	if (!opt->rnr_retry)
		opt->rnr_retry = 7;
	if (!opt->retry_cnt)
		opt->retry_cnt = 7;
	if (!opt->timeout)
		opt->timeout = 14;
	if (!opt->min_rnr_timer)
		opt->min_rnr_timer = 12;
	if (!opt->max_rd_atomic)
		opt->max_rd_atomic = 4;
}

struct ibv_qp *endpoint_qp(struct endpoint *ep)
{
	struct ibv_qp_init_attr init = {
		.send_cq = ep->send_cq,
		.recv_cq = ep->recv_cq,
		.srq = ep->srq,
		.cap = {
			.max_send_wr = ep->opt.max_send_wr,
			.max_recv_wr = ep->opt.max_recv_wr,
			.max_send_sge = ep->opt.max_sge,
			.max_recv_sge = ep->opt.max_sge,
			.max_inline_data = ep->opt.max_inline,
		},
		.qp_type = ep->opt.qp_type,
		.sq_sig_all = ep->opt.sq_sig_all,
	};
	struct ibv_qp *qp = ibv_create_qp(ep->pd, &init);

	CHECK(qp);
	return qp;
}

void endpoint_open(struct endpoint *ep, const struct options *opt)
{
	static uint32_t endpoints;
	struct ibv_port_attr port;
	struct ibv_device **list;

	memset(ep, 0, sizeof(*ep));
	if (opt)
		ep->opt = *opt;
	defaults(&ep->opt);
	list = ibv_get_device_list(NULL);
	CHECK(list && list[0] && list[ep->opt.device]);
	ep->ctx = ibv_open_device(list[ep->opt.device]);
	CHECK(ep->ctx);
	ibv_free_device_list(list);
	CHECK_EQ(ibv_query_port(ep->ctx, ep->opt.port, &port), 0);
	ep->lid = port.lid;
	ep->ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
	ep->psn = 0x1000 + 77 * __atomic_add_fetch(&endpoints, 1, __ATOMIC_RELAXED);
	ep->pd = ibv_alloc_pd(ep->ctx);
	CHECK(ep->pd);
	if (ep->opt.channel) {
		ep->channel = ibv_create_comp_channel(ep->ctx);
		CHECK(ep->channel);
	}
	ep->send_cq = ibv_create_cq(ep->ctx, ep->opt.cqe, ep, ep->channel, 0);
	ep->recv_cq = ibv_create_cq(ep->ctx, ep->opt.cqe, ep, ep->channel, 0);
	CHECK(ep->send_cq && ep->recv_cq);
	CHECK(!posix_memalign((void **)&ep->buf, 4096, BUFFER));
	memset(ep->buf, 0, BUFFER);
	ep->mr = ibv_reg_mr(ep->pd, ep->buf, BUFFER, ep->opt.mr_access);
	CHECK(ep->mr);
	if (ep->opt.srq_wr) {
		struct ibv_srq_init_attr init = {
			.srq_context = ep,
			.attr = { .max_wr = ep->opt.srq_wr, .max_sge = ep->opt.max_sge },
		};

		ep->srq = ibv_create_srq(ep->pd, &init);
		CHECK(ep->srq);
	}
	ep->qp = endpoint_qp(ep);
}

void endpoint_close(struct endpoint *ep)
{
	CHECK_EQ(ibv_destroy_qp(ep->qp), 0);
	if (ep->srq)
		CHECK_EQ(ibv_destroy_srq(ep->srq), 0);
	CHECK_EQ(ibv_dereg_mr(ep->mr), 0);
	CHECK_EQ(ibv_destroy_cq(ep->send_cq), 0);
	CHECK_EQ(ibv_destroy_cq(ep->recv_cq), 0);
	if (ep->channel)
		CHECK_EQ(ibv_destroy_comp_channel(ep->channel), 0);
	CHECK_EQ(ibv_dealloc_pd(ep->pd), 0);
	CHECK_EQ(ibv_close_device(ep->ctx), 0);
	free(ep->buf);
}

struct address endpoint_address(const struct endpoint *ep)
{
	struct address address = {
		.lid = ep->lid,
		.qpn = ep->qp->qp_num,
		.psn = ep->psn,
		.rkey = ep->mr->rkey,
		.buf = (uintptr_t)ep->buf,
	};

	CHECK_EQ(ibv_query_gid(ep->ctx, ep->opt.port, 0, &address.gid), 0);
	return address;
}

int qp_init(struct endpoint *ep, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = ep->opt.port,
		.qp_access_flags = ep->opt.qp_access,
		.qkey = QKEY,
	};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

struct ibv_ah_attr path_to(const struct endpoint *ep, const struct address *peer)
{
	return (struct ibv_ah_attr){ .dlid = peer->lid, .port_num = ep->opt.port, .is_global = ep->ethernet,
				     .grh = { .dgid = peer->gid, .hop_limit = 1 } };
}

int qp_rtr(struct endpoint *ep, struct ibv_qp *qp, const struct address *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = ep->opt.max_rd_atomic,
		.min_rnr_timer = ep->opt.min_rnr_timer,
		.ah_attr = path_to(ep, peer),
	};

	if (qp->qp_type == IBV_QPT_UD)
		return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     (qp->qp_type == IBV_QPT_UC ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

int qp_rts(struct endpoint *ep, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = ep->opt.timeout,
		.retry_cnt = ep->opt.retry_cnt,
		.rnr_retry = ep->opt.rnr_retry,
		.sq_psn = ep->psn,
		.max_rd_atomic = ep->opt.max_rd_atomic,
	};

	if (qp->qp_type == IBV_QPT_UC || qp->qp_type == IBV_QPT_UD)
		return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

void endpoint_connect(struct endpoint *ep, const struct address *peer)
{
	if (ep->qp->state != IBV_QPS_INIT)
		CHECK_EQ(qp_init(ep, ep->qp), 0);
	CHECK_EQ(qp_rtr(ep, ep->qp, peer), 0);
	CHECK_EQ(qp_rts(ep, ep->qp), 0);
}

void pair_open(struct endpoint *a, struct endpoint *b, const struct options *opt)
{
	struct address to_a, to_b;

	endpoint_open(a, opt);
	endpoint_open(b, opt);
	to_a = endpoint_address(a);
	to_b = endpoint_address(b);
	endpoint_connect(a, &to_b);
	endpoint_connect(b, &to_a);
}

void pair_close(struct endpoint *a, struct endpoint *b)
{
	endpoint_close(a);
	endpoint_close(b);
}

enum ibv_qp_state qp_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

struct ibv_sge sge_of(const struct endpoint *ep, uint32_t offset, uint32_t length)
{
	return (struct ibv_sge){ .addr = (uintptr_t)ep->buf + offset, .length = length, .lkey = ep->mr->lkey };
}

int post_recv(struct endpoint *ep, uint64_t wr_id, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = sge_of(ep, offset, length);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(ep->qp, &wr, &bad);
}

int post_srq_recv(struct endpoint *ep, uint64_t wr_id, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = sge_of(ep, offset, length);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_srq_recv(ep->srq, &wr, &bad);
}

int post_send(struct endpoint *ep, uint64_t wr_id, uint32_t offset, uint32_t length, unsigned int flags)
{
	struct ibv_sge sge = sge_of(ep, offset, length);
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags,
	}, *bad;

	return ibv_post_send(ep->qp, &wr, &bad);
}

int post_rdma(struct endpoint *ep, const struct address *peer, enum ibv_wr_opcode opcode, uint64_t wr_id,
	      uint32_t offset, uint32_t length, uint32_t remote, unsigned int flags)
{
	struct ibv_sge sge = sge_of(ep, offset, length);
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags,
		.imm_data = 0x11223344,
	}, *bad;

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = peer->buf + remote;
		wr.wr.atomic.rkey = peer->rkey;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 9;
	} else {
		wr.wr.rdma.remote_addr = peer->buf + remote;
		wr.wr.rdma.rkey = peer->rkey;
	}
	return ibv_post_send(ep->qp, &wr, &bad);
}

struct ibv_wc poll_one(struct ibv_cq *cq, const char *what)
{
	uint64_t deadline = now_ms() + 10000;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc))) {
		if (now_ms() > deadline) {
			fprintf(stderr, "waited 10 s for %s\n", what);
			exit(1);
		}
		sched_yield();
	}
	CHECK_EQ(n, 1);
	return wc;
}

void poll_none(struct ibv_cq *cq, int ms)
{
	uint64_t deadline = now_ms() + ms;
	struct ibv_wc wc;

	do {
		CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
	} while (now_ms() < deadline);
}

struct ibv_wc expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	char what[64];
	struct ibv_wc wc;

	snprintf(what, sizeof(what), "the completion of request %llu", (unsigned long long)wr_id);
	wc = poll_one(cq, what);
	if (wc.wr_id != wr_id || wc.status != status) {
		fprintf(stderr, "completion %llu with %s, expected %llu with %s\n", (unsigned long long)wc.wr_id,
			ibv_wc_status_str(wc.status), (unsigned long long)wr_id, ibv_wc_status_str(status));
		abort();
	}
	return wc;
}

struct ibv_async_event await_async(struct endpoint *ep, enum ibv_event_type type)
{
	struct ibv_async_event event;

	await_readable(ep->ctx->async_fd, ibv_event_type_str(type));
	CHECK_EQ(ibv_get_async_event(ep->ctx, &event), 0);
	CHECK_EQ(event.event_type, type);
	ibv_ack_async_event(&event);
	return event;
}

void await_readable(int fd, const char *what)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, 10000) != 1) {
		fprintf(stderr, "waited 10 s for %s\n", what);
		exit(1);
	}
}

void expect_silent(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	CHECK_EQ(poll(&p, 1, ms), 0);
}

void run_test(const char *name, void (*test)(void))
{
	uint64_t start = now_ms();

	test();
	printf("  %-36s ok  %4llu ms\n", name, (unsigned long long)(now_ms() - start));
	fflush(stdout);
}
