/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: provider-facts [DEVICE [GID-INDEX]]
 *
 * Asks a verbs provider how it behaves where the manual pages leave it open, on two reliable-connection queue pairs of
 * this process that are connected to each other, and prints one line per fact: name, tab, what was seen. Two
 * providers are compared by comparing their lists.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#define BUFFER_SIZE 65536
#define WAIT_SECONDS 20

enum { ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		    IBV_ACCESS_REMOTE_ATOMIC };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static char *buffer;
static union ibv_gid gid;
static uint16_t lid;
static int gid_index;
static struct ibv_device_attr device;

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

struct options {
	int access;			/* of the QP */
	int retry_cnt, rnr_retry, timeout, min_rnr_timer;
	uint32_t send_wr, recv_wr;
};

static const struct options usual = {
	.access = ALL_ACCESS, .retry_cnt = 7, .rnr_retry = 7, .timeout = 14, .min_rnr_timer = 12,
	.send_wr = 8, .recv_wr = 8,
};

__attribute__((format(printf, 2, 3)))
static void fact(const char *name, const char *format, ...)
{
	va_list args;

	printf("%s\t", name);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

static const char *error_name(int error)
{
	return error ? strerrorname_np(error) : "0";
}

__attribute__((noreturn))
static void die(const char *what)
{
	fprintf(stderr, "provider-facts: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *need(void *object, const char *what)
{
	if (!object)
		die(what);
	return object;
}

static void need_ok(int result, const char *what)
{
	if (result) {
		errno = result;
		die(what);
	}
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

static struct ibv_qp *create_qp(struct ibv_cq *cq, uint32_t send_wr, uint32_t recv_wr)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = send_wr, .max_recv_wr = recv_wr, .max_send_sge = 2, .max_recv_sge = 2,
			 .max_inline_data = 32 },
	};

	return ibv_create_qp(pd, &init);
}

static int to_init(struct ibv_qp *qp, int access)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

enum { RTR_MASK = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
       RTS_MASK = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		  IBV_QP_MAX_QP_RD_ATOMIC };

static struct ibv_qp_attr rtr_attr(uint32_t dest_qp_num, int min_rnr_timer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = dest_qp_num, .rq_psn = 0x123456,
		.max_dest_rd_atomic = 4, .min_rnr_timer = min_rnr_timer,
		.ah_attr = { .dlid = lid, .port_num = 1, .is_global = 1,
			     .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 1 } },
	};

	return attr;
}

static int to_rtr(struct ibv_qp *qp, uint32_t dest_qp_num, int min_rnr_timer)
{
	struct ibv_qp_attr attr = rtr_attr(dest_qp_num, min_rnr_timer);

	return ibv_modify_qp(qp, &attr, RTR_MASK);
}

static int to_rts(struct ibv_qp *qp, const struct options *options)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .timeout = options->timeout, .retry_cnt = options->retry_cnt,
		.rnr_retry = options->rnr_retry, .sq_psn = 0x123456, .max_rd_atomic = 4,
	};

	return ibv_modify_qp(qp, &attr, RTS_MASK);
}

static int to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static void new_end(struct end *end, const struct options *options)
{
	end->cq = need(ibv_create_cq(context, 64, NULL, NULL, 0), "ibv_create_cq");
	end->qp = need(create_qp(end->cq, options->send_wr, options->recv_wr), "ibv_create_qp");
	need_ok(to_init(end->qp, options->access), "RESET to INIT");
}

static void connect_ends(struct end *a, struct end *b, const struct options *options)
{
	new_end(a, options);
	new_end(b, options);
	need_ok(to_rtr(a->qp, b->qp->qp_num, options->min_rnr_timer), "INIT to RTR");
	need_ok(to_rtr(b->qp, a->qp->qp_num, options->min_rnr_timer), "INIT to RTR");
	need_ok(to_rts(a->qp, options), "RTR to RTS");
	need_ok(to_rts(b->qp, options), "RTR to RTS");
}

static void destroy_end(struct end *end)
{
	if (end->qp)
		need_ok(ibv_destroy_qp(end->qp), "ibv_destroy_qp");
	need_ok(ibv_destroy_cq(end->cq), "ibv_destroy_cq");
}

static void destroy_ends(struct end *a, struct end *b)
{
	destroy_end(a);
	destroy_end(b);
}

/* One completion, or wc->status -1 when none came in time. */
static struct ibv_wc wait_wc(struct ibv_cq *cq, double seconds)
{
	const double end = now() + seconds;
	struct ibv_wc wc;

	memset(&wc, 0xee, sizeof(wc));
	do {
		const int count = ibv_poll_cq(cq, 1, &wc);

		if (count == 1)
			return wc;
		if (count < 0)
			die("ibv_poll_cq");
		usleep(200);
	} while (now() < end);
	wc.status = (enum ibv_wc_status)-1;
	return wc;
}

static const char *status_name(const struct ibv_wc *wc)
{
	return (int)wc->status == -1 ? "no completion" : ibv_wc_status_str(wc->status);
}

static void fact_wc(const char *name, const struct ibv_wc *wc, const struct ibv_qp *qp)
{
	if ((int)wc->status == -1) {
		fact(name, "no completion");
		return;
	}
	fact(name, "%s; wr_id %llu, vendor_err 0x%x, qp_num %s, opcode %d, byte_len %u, imm 0x%x, wc_flags 0x%x, "
	     "src_qp %s, slid %u, sl %u, pkey_index %u", status_name(wc), (unsigned long long)wc->wr_id,
	     wc->vendor_err, wc->qp_num == qp->qp_num ? "right" : "wrong", wc->opcode, wc->byte_len, ntohl(wc->imm_data),
	     wc->wc_flags, wc->src_qp == 0 ? "0" : "set", wc->slid, wc->sl, wc->pkey_index);
}

static int state_of(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	need_ok(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
	return attr.qp_state;
}

static struct ibv_sge sge_at(uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)buffer + offset, .length = length, .lkey = mr->lkey };

	return sge;
}

static int post_send(struct end *end, enum ibv_wr_opcode opcode, uint64_t wr_id, uint32_t length, uint32_t rkey,
		     unsigned int flags)
{
	struct ibv_sge sge = sge_at(0, length);
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = length ? 1 : 0, .opcode = opcode, .send_flags = flags,
		.imm_data = htonl(0x1234),
	};
	struct ibv_send_wr *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)buffer + 32768;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)buffer + 32768;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(end->qp, &wr, &bad);
}

static int post_recv(struct end *end, uint64_t wr_id, uint32_t length)
{
	struct ibv_sge sge = sge_at(16384, length);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	return ibv_post_recv(end->qp, &wr, &bad);
}

/* ---- One function per group of facts ------------------------------------------------------------------------- */

static void objects(void)
{
	static const int sizes[] = { 1, 2, 3, 100, 1000 };
	struct ibv_cq *cq;
	struct ibv_mr *region;
	struct ibv_pd *other;
	char name[64];
	int error;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		cq = need(ibv_create_cq(context, sizes[i], NULL, NULL, 0), "ibv_create_cq");
		snprintf(name, sizeof(name), "create_cq cqe %d gives", sizes[i]);
		fact(name, "%d", cq->cqe);
		need_ok(ibv_destroy_cq(cq), "ibv_destroy_cq");
	}
	errno = 0;
	cq = ibv_create_cq(context, 0, NULL, NULL, 0);
	fact("create_cq cqe 0", "%s %s", cq ? "made" : "refused", error_name(errno));
	if (cq)
		ibv_destroy_cq(cq);
	errno = 0;
	cq = ibv_create_cq(context, device.max_cqe + 1, NULL, NULL, 0);
	fact("create_cq max_cqe + 1", "%s %s", cq ? "made" : "refused", error_name(errno));
	if (cq)
		ibv_destroy_cq(cq);
	errno = 0;
	cq = ibv_create_cq(context, 4, NULL, NULL, context->num_comp_vectors);
	fact("create_cq comp_vector too large", "%s %s", cq ? "made" : "refused", error_name(errno));
	if (cq)
		ibv_destroy_cq(cq);
	cq = need(ibv_create_cq(context, 4, NULL, NULL, 0), "ibv_create_cq");
	error = ibv_resize_cq(cq, 8);
	fact("resize_cq 4 to 8", "%s, cqe %d", error_name(error), cq->cqe);
	fact("resize_cq to 0", "%s", error_name(ibv_resize_cq(cq, 0)));
	need_ok(ibv_destroy_cq(cq), "ibv_destroy_cq");

	fact("lkey and rkey of a region", "%s", mr->lkey == mr->rkey ? "equal" : "differ");
	errno = 0;
	region = ibv_reg_mr(pd, buffer, 0, IBV_ACCESS_LOCAL_WRITE);
	fact("reg_mr length 0", "%s %s", region ? "made" : "refused", error_name(errno));
	if (region)
		ibv_dereg_mr(region);
	errno = 0;
	region = ibv_reg_mr(pd, (void *)4096, 4096, IBV_ACCESS_LOCAL_WRITE);
	fact("reg_mr of memory that is not mapped", "%s %s", region ? "made" : "refused", error_name(errno));
	errno = 0;
	region = ibv_reg_mr(pd, buffer, 64, IBV_ACCESS_REMOTE_WRITE);
	fact("reg_mr REMOTE_WRITE without LOCAL_WRITE", "%s %s", region ? "made" : "refused", error_name(errno));
	errno = 0;
	region = ibv_reg_mr(pd, buffer, 64, 1 << 19);
	fact("reg_mr with an unknown access flag", "%s %s", region ? "made" : "refused", error_name(errno));
	other = need(ibv_alloc_pd(context), "ibv_alloc_pd");
	region = need(ibv_reg_mr(other, buffer, 64, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	fact("dealloc_pd in use", "%s", error_name(ibv_dealloc_pd(other)));
	need_ok(ibv_dereg_mr(region), "ibv_dereg_mr");
	need_ok(ibv_dealloc_pd(other), "ibv_dealloc_pd");
}

static void capabilities(void)
{
	static const uint32_t sizes[] = { 1, 2, 5, 8, 100, 1000 };
	struct ibv_cq *cq = need(ibv_create_cq(context, 64, NULL, NULL, 0), "ibv_create_cq");
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp;
	char name[64];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		init = (struct ibv_qp_init_attr){
			.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = sizes[i], .max_recv_wr = sizes[i], .max_send_sge = 1,
				 .max_recv_sge = 1, .max_inline_data = sizes[i] },
		};
		snprintf(name, sizeof(name), "create_qp all caps %u", sizes[i]);
		errno = 0;
		qp = ibv_create_qp(pd, &init);
		if (!qp) {
			fact(name, "refused %s", error_name(errno));
			continue;
		}
		fact(name, "send_wr %u, recv_wr %u, send_sge %u, recv_sge %u, inline %u", init.cap.max_send_wr,
		     init.cap.max_recv_wr, init.cap.max_send_sge, init.cap.max_recv_sge, init.cap.max_inline_data);
		need_ok(ibv_destroy_qp(qp), "ibv_destroy_qp");
	}
	struct {
		const char *name;
		struct ibv_qp_cap cap;
	} bad[] = {
		{ "create_qp max_send_wr 0", { .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } },
		{ "create_qp all caps 0", { 0 } },
		{ "create_qp max_qp_wr + 1", { device.max_qp_wr + 1, 1, 1, 1, 0 } },
		{ "create_qp max_send_sge max_sge + 1", { 1, 1, device.max_sge + 1, 1, 0 } },
		{ "create_qp inline 1 MiB", { 1, 1, 1, 1, 1 << 20 } },
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		init = (struct ibv_qp_init_attr){
			.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = bad[i].cap };
		errno = 0;
		qp = ibv_create_qp(pd, &init);
		fact(bad[i].name, "%s %s", qp ? "made" : "refused", error_name(errno));
		if (qp)
			ibv_destroy_qp(qp);
	}
	qp = need(create_qp(cq, 4, 4), "ibv_create_qp");
	fact("destroy_cq in use", "%s", error_name(ibv_destroy_cq(cq)));
	need_ok(ibv_destroy_qp(qp), "ibv_destroy_qp");
	need_ok(ibv_destroy_cq(cq), "ibv_destroy_cq");
}

static void fact_query(const char *name, struct ibv_qp *qp, int mask)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	int error;

	memset(&attr, 0xee, sizeof(attr));
	memset(&init, 0xee, sizeof(init));
	error = ibv_query_qp(qp, &attr, mask, &init);
	fact(name, "%s; qp_state %d, cur %d, path_mtu %d, mig %d, qkey 0x%x, rq_psn 0x%x, sq_psn 0x%x, dest_qp_num %s, "
	     "access 0x%x, cap %u %u %u %u %u, init cap %u %u %u %u %u, dlid %u, is_global %u, sgid_index %u, "
	     "hop_limit %u, sl %u, ah.port %u, pkey_index %u, port %u, rd_atomic %u %u, rnr_timer %u, timeout %u, "
	     "retry %u, rnr_retry %u, draining %u, sq_sig_all %d, qp_type %d, alt_port %u, alt_timeout %u",
	     error_name(error), attr.qp_state, attr.cur_qp_state, attr.path_mtu, attr.path_mig_state, attr.qkey,
	     attr.rq_psn, attr.sq_psn, attr.dest_qp_num ? "set" : "0", attr.qp_access_flags, attr.cap.max_send_wr,
	     attr.cap.max_recv_wr, attr.cap.max_send_sge, attr.cap.max_recv_sge, attr.cap.max_inline_data,
	     init.cap.max_send_wr, init.cap.max_recv_wr, init.cap.max_send_sge, init.cap.max_recv_sge,
	     init.cap.max_inline_data, attr.ah_attr.dlid, attr.ah_attr.is_global, attr.ah_attr.grh.sgid_index,
	     attr.ah_attr.grh.hop_limit, attr.ah_attr.sl, attr.ah_attr.port_num, attr.pkey_index, attr.port_num,
	     attr.max_rd_atomic, attr.max_dest_rd_atomic, attr.min_rnr_timer, attr.timeout, attr.retry_cnt,
	     attr.rnr_retry, attr.sq_draining, init.sq_sig_all, init.qp_type, attr.alt_port_num, attr.alt_timeout);
}

/* Each tries one modification on a QP of its own. */
static void modifications(void)
{
	const int all = (1 << 21) - 1;
	struct end end, peer;
	struct ibv_qp_attr attr;
	char name[80];

	new_end(&end, &usual);
	need_ok(to_state(end.qp, IBV_QPS_RESET), "to RESET");
	fact_query("query_qp in RESET", end.qp, all);
	fact("modify RESET to RTR", "%s", error_name(to_rtr(end.qp, end.qp->qp_num, 12)));
	fact("modify RESET to RTS", "%s", error_name(to_rts(end.qp, &usual)));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1 };
	fact("modify RESET to INIT without ACCESS_FLAGS", "%s", error_name(ibv_modify_qp(end.qp, &attr,
	     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT)));
	attr.port_num = 9;
	fact("modify RESET to INIT, port 9", "%s", error_name(ibv_modify_qp(end.qp, &attr,
	     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)));
	attr.port_num = 1;
	attr.pkey_index = 9999;
	fact("modify RESET to INIT, pkey_index 9999", "%s", error_name(ibv_modify_qp(end.qp, &attr,
	     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)));
	need_ok(to_state(end.qp, IBV_QPS_RESET), "to RESET");
	need_ok(to_init(end.qp, ALL_ACCESS), "to INIT");
	fact_query("query_qp in INIT", end.qp, all);
	fact_query("query_qp in INIT, mask 0", end.qp, 0);
	fact("modify INIT to INIT", "%s", error_name(to_init(end.qp, 0)));
	for (int bit = 0; bit <= 20; bit++) {
		if (!(RTR_MASK & 1 << bit) || 1 << bit == IBV_QP_STATE)
			continue;
		attr = rtr_attr(end.qp->qp_num, 12);
		snprintf(name, sizeof(name), "modify INIT to RTR without mask bit %d", bit);
		fact(name, "%s", error_name(ibv_modify_qp(end.qp, &attr, RTR_MASK & ~(1 << bit))));
	}
	attr = rtr_attr(end.qp->qp_num, 12);
	fact("modify INIT to RTR with TIMEOUT as well", "%s",
	     error_name(ibv_modify_qp(end.qp, &attr, RTR_MASK | IBV_QP_TIMEOUT)));
	attr.max_dest_rd_atomic = 255;
	fact("modify INIT to RTR, max_dest_rd_atomic 255", "%s", error_name(ibv_modify_qp(end.qp, &attr, RTR_MASK)));
	attr = rtr_attr(end.qp->qp_num, 12);
	attr.ah_attr.is_global = 0;
	fact("modify INIT to RTR without GRH", "%s", error_name(ibv_modify_qp(end.qp, &attr, RTR_MASK)));
	need_ok(to_state(end.qp, IBV_QPS_RESET), "to RESET");
	need_ok(to_init(end.qp, ALL_ACCESS), "to INIT");
	attr = rtr_attr(end.qp->qp_num, 12);
	attr.ah_attr.grh.sgid_index = 200;
	fact("modify INIT to RTR, sgid_index 200", "%s", error_name(ibv_modify_qp(end.qp, &attr, RTR_MASK)));
	attr = rtr_attr(end.qp->qp_num, 12);
	attr.path_mtu = IBV_MTU_4096 + 1;
	fact("modify INIT to RTR, path_mtu 6", "%s", error_name(ibv_modify_qp(end.qp, &attr, RTR_MASK)));
	need_ok(to_state(end.qp, IBV_QPS_RESET), "to RESET");
	need_ok(to_init(end.qp, ALL_ACCESS), "to INIT");
	need_ok(to_rtr(end.qp, end.qp->qp_num, 12), "to RTR");
	fact_query("query_qp in RTR", end.qp, all);
	fact("modify RTR to RTR", "%s", error_name(to_rtr(end.qp, end.qp->qp_num, 12)));
	for (int bit = 0; bit <= 20; bit++) {
		if (!(RTS_MASK & 1 << bit) || 1 << bit == IBV_QP_STATE)
			continue;
		attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7 };
		snprintf(name, sizeof(name), "modify RTR to RTS without mask bit %d", bit);
		fact(name, "%s", error_name(ibv_modify_qp(end.qp, &attr, RTS_MASK & ~(1 << bit))));
	}
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .max_rd_atomic = 255 };
	fact("modify RTR to RTS, max_rd_atomic 255", "%s", error_name(ibv_modify_qp(end.qp, &attr, RTS_MASK)));
	destroy_end(&end);

	connect_ends(&end, &peer, &usual);
	fact_query("query_qp in RTS", end.qp, all);
	struct {
		const char *name;
		int mask;
		struct ibv_qp_attr attr;
	} rts[] = {
		{ "modify RTS to RTS, STATE alone", IBV_QP_STATE, { .qp_state = IBV_QPS_RTS } },
		{ "modify RTS, mask 0", 0, { 0 } },
		{ "modify RTS, ACCESS_FLAGS without STATE", IBV_QP_ACCESS_FLAGS, { .qp_access_flags = 0 } },
		{ "modify RTS to RTS, ACCESS_FLAGS", IBV_QP_STATE | IBV_QP_ACCESS_FLAGS,
		  { .qp_state = IBV_QPS_RTS, .qp_access_flags = ALL_ACCESS } },
		{ "modify RTS to RTS, MIN_RNR_TIMER", IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER,
		  { .qp_state = IBV_QPS_RTS, .min_rnr_timer = 0 } },
		{ "modify RTS to RTS, MIN_RNR_TIMER 32", IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER,
		  { .qp_state = IBV_QPS_RTS, .min_rnr_timer = 32 } },
		{ "modify RTS to RTS, CUR_STATE RTS", IBV_QP_STATE | IBV_QP_CUR_STATE,
		  { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_RTS } },
		{ "modify RTS to RTS, CUR_STATE INIT", IBV_QP_STATE | IBV_QP_CUR_STATE,
		  { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_INIT } },
		{ "modify RTS to RTS, PATH_MTU", IBV_QP_STATE | IBV_QP_PATH_MTU,
		  { .qp_state = IBV_QPS_RTS, .path_mtu = IBV_MTU_512 } },
		{ "modify RTS to RTS, RNR_RETRY", IBV_QP_STATE | IBV_QP_RNR_RETRY,
		  { .qp_state = IBV_QPS_RTS, .rnr_retry = 7 } },
		{ "modify RTS to INIT", IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		  { .qp_state = IBV_QPS_INIT, .port_num = 1 } },
		{ "modify RTS to SQD", IBV_QP_STATE, { .qp_state = IBV_QPS_SQD } },
		{ "modify SQD to RTS", IBV_QP_STATE, { .qp_state = IBV_QPS_RTS } },
		{ "modify RTS to SQE", IBV_QP_STATE, { .qp_state = IBV_QPS_SQE } },
		{ "modify RTS to ERR", IBV_QP_STATE, { .qp_state = IBV_QPS_ERR } },
		{ "modify ERR to RTS", IBV_QP_STATE, { .qp_state = IBV_QPS_RTS } },
		{ "modify ERR to INIT", IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		  { .qp_state = IBV_QPS_INIT, .port_num = 1 } },
		{ "modify ERR to RESET", IBV_QP_STATE, { .qp_state = IBV_QPS_RESET } },
	};
	for (size_t i = 0; i < sizeof(rts) / sizeof(rts[0]); i++) {
		const int error = ibv_modify_qp(end.qp, &rts[i].attr, rts[i].mask);

		fact(rts[i].name, "%s, then in state %d, qp->state %d", error_name(error), state_of(end.qp),
		     end.qp->state);
	}
	fact_query("query_qp in RESET after RTS", end.qp, all);
	destroy_ends(&end, &peer);
}

static void posting(void)
{
	struct end a, b;
	struct ibv_wc wc;
	struct ibv_sge sges[8];
	struct ibv_send_wr wrs[3], *bad_send;
	struct ibv_recv_wr recvs[3], *bad_recv;
	int count, error;

	new_end(&a, &usual);
	need_ok(to_state(a.qp, IBV_QPS_RESET), "to RESET");
	fact("post_recv in RESET", "%s", error_name(post_recv(&a, 1, 64)));
	fact("post_send in RESET", "%s", error_name(post_send(&a, IBV_WR_SEND, 1, 8, 0, IBV_SEND_SIGNALED)));
	need_ok(to_init(a.qp, ALL_ACCESS), "to INIT");
	fact("post_send in INIT", "%s", error_name(post_send(&a, IBV_WR_SEND, 1, 8, 0, IBV_SEND_SIGNALED)));
	for (count = 0, error = 0; count < 10000 && !(error = post_recv(&a, count, 64)); count++)
		;
	fact("receives that fit where 8 were asked for", "%d, then %s", count, error_name(error));
	need_ok(to_rtr(a.qp, a.qp->qp_num, 12), "to RTR");
	fact("post_send in RTR", "%s", error_name(post_send(&a, IBV_WR_SEND, 1, 8, 0, IBV_SEND_SIGNALED)));
	need_ok(to_state(a.qp, IBV_QPS_ERR), "to ERR");
	wc = wait_wc(a.cq, 2);
	fact_wc("receive flushed by ERR", &wc, a.qp);
	for (count = (int)wc.status == -1 ? 0 : 1; (wc = wait_wc(a.cq, 0.2), (int)wc.status != -1); count++)
		;
	fact("receives flushed by ERR", "%d", count);
	fact("post_send in ERR", "%s", error_name(post_send(&a, IBV_WR_SEND, 7, 8, 0, IBV_SEND_SIGNALED)));
	wc = wait_wc(a.cq, 2);
	fact_wc("send posted in ERR", &wc, a.qp);
	fact("unsignaled post_send in ERR", "%s", error_name(post_send(&a, IBV_WR_SEND, 8, 8, 0, 0)));
	wc = wait_wc(a.cq, 2);
	fact_wc("unsignaled send posted in ERR", &wc, a.qp);
	fact("post_recv in ERR", "%s", error_name(post_recv(&a, 9, 64)));
	wc = wait_wc(a.cq, 2);
	fact_wc("receive posted in ERR", &wc, a.qp);
	destroy_end(&a);

	connect_ends(&a, &b, &usual);
	for (count = 0, error = 0; count < 10000 && !(error = post_send(&a, IBV_WR_SEND, count, 8, 0, 0)); count++)
		;
	fact("sends that fit where 8 were asked for, receiver not ready", "%d, then %s", count, error_name(error));
	for (int i = 0; i < count; i++) {
		need_ok(post_recv(&b, i, 64), "post_recv");
		wc = wait_wc(b.cq, WAIT_SECONDS);
	}
	fact_wc("last receive of these", &wc, b.qp);
	error = post_send(&a, IBV_WR_SEND, 1, 8, 0, 0);
	fact("then a send, all done but unsignaled and unpolled", "%s", error_name(error));
	destroy_ends(&a, &b);

	connect_ends(&a, &b, &usual);
	for (int i = 0; i < 8; i++)
		sges[i] = sge_at(i * 8, 8);
	for (int i = 0; i < 3; i++) {
		wrs[i] = (struct ibv_send_wr){ .wr_id = i, .next = i < 2 ? &wrs[i + 1] : NULL, .sg_list = sges,
					       .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					       .wr.rdma = { (uintptr_t)buffer + 32768, mr->rkey } };
		recvs[i] = (struct ibv_recv_wr){ .wr_id = i, .next = i < 2 ? &recvs[i + 1] : NULL, .sg_list = sges,
						 .num_sge = 1 };
	}
	wrs[1].num_sge = 8;
	recvs[1].num_sge = 8;
	wrs[0].send_flags = IBV_SEND_SIGNALED;
	error = ibv_post_send(a.qp, wrs, &bad_send);
	wc = wait_wc(a.cq, 2);
	fact("post_send of a chain, the second with too many SGEs", "%s, bad_wr %s, the first: %s", error_name(error),
	     bad_send == &wrs[1] ? "the second" : "another", status_name(&wc));
	error = ibv_post_recv(b.qp, recvs, &bad_recv);
	fact("post_recv of a chain, the second with too many SGEs", "%s, bad_wr %s", error_name(error),
	     bad_recv == &recvs[1] ? "the second" : "another");
	wrs[2].num_sge = 1;
	wrs[2].opcode = 99;
	fact("post_send with an unknown opcode", "%s", error_name(ibv_post_send(a.qp, &wrs[2], &bad_send)));
	error = post_send(&a, IBV_WR_RDMA_WRITE, 1, 4096, mr->rkey, IBV_SEND_INLINE);
	fact("post_send inline of 4096 where 32 were asked for", "%s", error_name(error));
	destroy_ends(&a, &b);
}

static void completions(void)
{
	struct end a, b;
	struct ibv_wc wc;

	connect_ends(&a, &b, &usual);
	struct {
		const char *name;
		enum ibv_wr_opcode opcode;
		uint32_t length, rkey;
		int consumes;
	} good[] = {
		{ "SEND", IBV_WR_SEND, 100, 0, 1 },
		{ "SEND of 0 bytes", IBV_WR_SEND, 0, 0, 1 },
		{ "SEND_WITH_IMM", IBV_WR_SEND_WITH_IMM, 100, 0, 1 },
		{ "RDMA_WRITE", IBV_WR_RDMA_WRITE, 100, mr->rkey, 0 },
		{ "RDMA_WRITE of 0 bytes, rkey 0", IBV_WR_RDMA_WRITE, 0, 0, 0 },
		{ "RDMA_WRITE_WITH_IMM", IBV_WR_RDMA_WRITE_WITH_IMM, 100, mr->rkey, 1 },
		{ "RDMA_WRITE_WITH_IMM of 0 bytes, rkey 0", IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 1 },
		{ "RDMA_READ", IBV_WR_RDMA_READ, 100, mr->rkey, 0 },
		{ "RDMA_READ of 0 bytes, rkey 0", IBV_WR_RDMA_READ, 0, 0, 0 },
		{ "FETCH_AND_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, mr->rkey, 0 },
	};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		char name[80];

		if (good[i].consumes)
			need_ok(post_recv(&b, 50 + i, 4096), "post_recv");
		need_ok(post_send(&a, good[i].opcode, i, good[i].length, good[i].rkey, IBV_SEND_SIGNALED), good[i].name);
		wc = wait_wc(a.cq, WAIT_SECONDS);
		snprintf(name, sizeof(name), "completion of %s", good[i].name);
		fact_wc(name, &wc, a.qp);
		if (!good[i].consumes)
			continue;
		wc = wait_wc(b.cq, WAIT_SECONDS);
		snprintf(name, sizeof(name), "receive by %s", good[i].name);
		fact_wc(name, &wc, b.qp);
	}
	destroy_ends(&a, &b);
}

/* Posts one request that must fail, and one behind it, and reports both and the states of both ends. */
static void failure(const char *what, struct options options, enum ibv_wr_opcode opcode, uint32_t length, uint32_t rkey,
		    int receive_length)
{
	struct end a, b;
	struct ibv_wc wc;
	char name[96];
	double start;

	connect_ends(&a, &b, &options);
	if (receive_length >= 0) {
		need_ok(post_recv(&b, 60, receive_length), "post_recv");
		need_ok(post_recv(&b, 61, 4096), "post_recv");
	}
	start = now();
	need_ok(post_send(&a, opcode, 1, length, rkey, IBV_SEND_SIGNALED), "post_send");
	need_ok(post_send(&a, IBV_WR_SEND, 2, 8, 0, 0), "post_send");
	wc = wait_wc(a.cq, WAIT_SECONDS);
	snprintf(name, sizeof(name), "%s: requester", what);
	fact_wc(name, &wc, a.qp);
	if (receive_length < 0) {
		snprintf(name, sizeof(name), "%s: seconds", what);
		fact(name, "%.1f", now() - start);
	}
	wc = wait_wc(a.cq, 2);
	snprintf(name, sizeof(name), "%s: unsignaled request behind it", what);
	fact_wc(name, &wc, a.qp);
	snprintf(name, sizeof(name), "%s: first receive", what);
	wc = wait_wc(b.cq, 0.5);
	fact_wc(name, &wc, b.qp);
	snprintf(name, sizeof(name), "%s: states", what);
	fact(name, "requester %d, responder %d", state_of(a.qp), state_of(b.qp));
	destroy_ends(&a, &b);
}

static void failures(void)
{
	struct options options = usual;
	struct end a, b;
	struct ibv_wc wc;
	struct ibv_sge sge = sge_at(0, 8);
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;
	double start;

	failure("WRITE, wrong rkey", options, IBV_WR_RDMA_WRITE, 8, mr->rkey ^ 0x5a00, 64);
	failure("READ, wrong rkey", options, IBV_WR_RDMA_READ, 8, mr->rkey ^ 0x5a00, 64);
	failure("WRITE beyond the region", options, IBV_WR_RDMA_WRITE, BUFFER_SIZE, mr->rkey, 64);
	failure("SEND, receive too short", options, IBV_WR_SEND, 100, 0, 10);
	options.access = IBV_ACCESS_LOCAL_WRITE;
	failure("WRITE, QP without REMOTE_WRITE", options, IBV_WR_RDMA_WRITE, 8, mr->rkey, 64);
	failure("WRITE of 0 bytes, QP without REMOTE_WRITE", options, IBV_WR_RDMA_WRITE, 0, 0, 64);
	failure("READ, QP without REMOTE_READ", options, IBV_WR_RDMA_READ, 8, mr->rkey, 64);
	failure("FETCH_AND_ADD, QP without REMOTE_ATOMIC", options, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, mr->rkey, 64);
	options = usual;
	options.rnr_retry = 1;
	failure("RNR, rnr_retry 1, timer 12 (0.64 ms)", options, IBV_WR_SEND, 8, 0, -1);
	options.min_rnr_timer = 0;
	failure("RNR, rnr_retry 1, timer 0 (655 ms)", options, IBV_WR_SEND, 8, 0, -1);
	options.rnr_retry = 0;
	failure("RNR, rnr_retry 0", options, IBV_WR_SEND, 8, 0, -1);

	connect_ends(&a, &b, &usual);
	sge.lkey = mr->lkey ^ 0x5a00;
	need_ok(ibv_post_send(a.qp, &wr, &bad), "post_send");
	wc = wait_wc(a.cq, WAIT_SECONDS);
	fact_wc("SEND, wrong lkey", &wc, a.qp);
	fact("SEND, wrong lkey: states", "requester %d, responder %d", state_of(a.qp), state_of(b.qp));
	destroy_ends(&a, &b);

	connect_ends(&a, &b, &usual);
	need_ok(post_recv(&b, 1, 64), "post_recv");
	sge.lkey = mr->lkey;
	wr.wr_id = 2;
	need_ok(ibv_destroy_qp(b.qp), "ibv_destroy_qp");
	b.qp = NULL;
	options = usual;
	start = now();
	need_ok(ibv_post_send(a.qp, &wr, &bad), "post_send");
	wc = wait_wc(a.cq, WAIT_SECONDS);
	fact_wc("SEND to a QP that is gone, timeout 14, retry_cnt 7", &wc, a.qp);
	fact("SEND to a QP that is gone: seconds", "%.1f", now() - start);
	wc = wait_wc(b.cq, 0.2);
	fact("receive posted to a QP that was destroyed then", "%s", status_name(&wc));
	destroy_ends(&a, &b);

	connect_ends(&a, &b, &usual);
	need_ok(post_recv(&b, 77, 64), "post_recv");
	wr.wr_id = 3;
	need_ok(ibv_post_send(a.qp, &wr, &bad), "post_send");
	start = now();
	struct pollfd none = { .fd = -1 };
	poll(&none, 1, 200);
	need_ok(ibv_destroy_qp(b.qp), "ibv_destroy_qp");
	b.qp = NULL;
	wc = wait_wc(b.cq, 0.5);
	fact("completion unread when its QP is destroyed", "%s", status_name(&wc));
	destroy_ends(&a, &b);
}

static int event_within(struct ibv_comp_channel *channel, int milliseconds, struct ibv_cq *cq)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	struct ibv_cq *event_cq;
	void *event_context;

	if (poll(&fd, 1, milliseconds) != 1)
		return 0;
	if (ibv_get_cq_event(channel, &event_cq, &event_context) || event_cq != cq)
		die("ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	return 1;
}

static void events(void)
{
	struct ibv_comp_channel *channel = need(ibv_create_comp_channel(context), "ibv_create_comp_channel");
	struct end a, b;
	struct ibv_wc wc;

	connect_ends(&a, &b, &usual);
	destroy_end(&b);
	b.cq = need(ibv_create_cq(context, 16, NULL, channel, 0), "ibv_create_cq");
	b.qp = need(create_qp(b.cq, 8, 8), "ibv_create_qp");
	need_ok(to_init(b.qp, ALL_ACCESS), "INIT");
	need_ok(to_state(a.qp, IBV_QPS_RESET), "RESET");
	need_ok(to_init(a.qp, ALL_ACCESS), "INIT");
	need_ok(to_rtr(b.qp, a.qp->qp_num, 12), "RTR");
	need_ok(to_rtr(a.qp, b.qp->qp_num, 12), "RTR");
	need_ok(to_rts(a.qp, &usual), "RTS");
	for (int i = 0; i < 8; i++)
		need_ok(post_recv(&b, i, 64), "post_recv");
	fact("destroy_comp_channel in use", "%s", error_name(ibv_destroy_comp_channel(channel)));

	need_ok(post_send(&a, IBV_WR_SEND, 0, 8, 0, IBV_SEND_SIGNALED), "post_send");
	wc = wait_wc(a.cq, WAIT_SECONDS);
	need_ok(ibv_req_notify_cq(b.cq, 0), "ibv_req_notify_cq");
	fact("event for a completion that was there when it was armed", "%s",
	     event_within(channel, 300, b.cq) ? "yes" : "no");
	need_ok(post_send(&a, IBV_WR_SEND, 0, 8, 0, IBV_SEND_SIGNALED), "post_send");
	fact("event for the next completion, the first unread", "%s", event_within(channel, 1000, b.cq) ? "yes" : "no");
	need_ok(post_send(&a, IBV_WR_SEND, 0, 8, 0, IBV_SEND_SIGNALED), "post_send");
	fact("event for a completion when not armed anew", "%s", event_within(channel, 300, b.cq) ? "yes" : "no");
	while (ibv_poll_cq(b.cq, 1, &wc) == 1)
		;
	need_ok(ibv_req_notify_cq(b.cq, 1), "ibv_req_notify_cq");
	need_ok(post_send(&a, IBV_WR_SEND, 0, 8, 0, IBV_SEND_SIGNALED), "post_send");
	fact("armed for solicited only: event for a plain SEND", "%s", event_within(channel, 300, b.cq) ? "yes" : "no");
	need_ok(post_send(&a, IBV_WR_SEND, 0, 8, 0, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), "post_send");
	fact("armed for solicited only: event for a solicited SEND", "%s",
	     event_within(channel, 1000, b.cq) ? "yes" : "no");
	need_ok(ibv_req_notify_cq(b.cq, 1), "ibv_req_notify_cq");
	need_ok(to_state(b.qp, IBV_QPS_ERR), "to ERR");
	fact("armed for solicited only: event for a flushed receive", "%s",
	     event_within(channel, 1000, b.cq) ? "yes" : "no");
	destroy_ends(&a, &b);
	need_ok(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
}

static void ports(void)
{
	struct ibv_port_attr port;
	union ibv_gid other;
	__be16 pkey;
	int result;

	need_ok(ibv_query_port(context, 1, &port), "ibv_query_port");
	fact("port", "state %d, max_mtu %d, active_mtu %d, gid_tbl_len %d, port_cap_flags 0x%x, max_msg_sz %u, "
	     "pkey_tbl_len %u, lid %u, sm_lid %u, lmc %u, link_layer %u, active_width %u, active_speed %u, phys_state %u, "
	     "flags 0x%x", port.state, port.max_mtu, port.active_mtu, port.gid_tbl_len, port.port_cap_flags,
	     port.max_msg_sz, port.pkey_tbl_len, port.lid, port.sm_lid, port.lmc, port.link_layer, port.active_width,
	     port.active_speed, port.phys_state, port.flags);
	fact("query_port of port 0", "%s", error_name(ibv_query_port(context, 0, &port)));
	fact("query_port of port 9", "%s", error_name(ibv_query_port(context, 9, &port)));
	errno = 0;
	result = ibv_query_gid(context, 1, port.gid_tbl_len + 5, &other);
	fact("query_gid beyond the table", "%d %s", result, error_name(errno));
	errno = 0;
	result = ibv_query_pkey(context, 1, 0, &pkey);
	fact("query_pkey 0", "%d 0x%x", result, ntohs(pkey));
	errno = 0;
	result = ibv_query_pkey(context, 1, 30000, &pkey);
	fact("query_pkey beyond the table", "%d %s", result, error_name(errno));
	fact("context", "num_comp_vectors %d, async_fd %s", context->num_comp_vectors,
	     context->async_fd >= 0 ? "there" : "missing");
	fact("device", "max_qp_wr %d, max_sge %d, max_cqe %d, max_qp_rd_atom %d, max_qp_init_rd_atom %d, atomic_cap %d, "
	     "max_pkeys %d, local_ca_ack_delay %d, device_cap_flags 0x%x", device.max_qp_wr, device.max_sge,
	     device.max_cqe, device.max_qp_rd_atom, device.max_qp_init_rd_atom, device.atomic_cap, device.max_pkeys,
	     device.local_ca_ack_delay, device.device_cap_flags);
}

static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = need(ibv_get_device_list(NULL), "ibv_get_device_list");
	struct ibv_context *opened = NULL;

	for (int i = 0; list[i] && !opened; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			opened = need(ibv_open_device(list[i]), "ibv_open_device");
	ibv_free_device_list(list);
	if (!opened) {
		fprintf(stderr, "provider-facts: no device%s%s\n", name ? " " : "", name ? name : "");
		exit(1);
	}
	return opened;
}

int main(int argc, char **argv)
{
	struct ibv_port_attr port;

	if (argc > 3) {
		fprintf(stderr, "usage: provider-facts [DEVICE [GID-INDEX]]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	gid_index = argc > 2 ? atoi(argv[2]) : 0;
	context = open_named(argc > 1 ? argv[1] : NULL);
	need_ok(ibv_query_device(context, &device), "ibv_query_device");
	need_ok(ibv_query_port(context, 1, &port), "ibv_query_port");
	lid = port.lid;
	need_ok(ibv_query_gid(context, 1, gid_index, &gid), "ibv_query_gid");
	pd = need(ibv_alloc_pd(context), "ibv_alloc_pd");
	buffer = need(aligned_alloc(4096, BUFFER_SIZE), "aligned_alloc");
	memset(buffer, 0, BUFFER_SIZE);
	mr = need(ibv_reg_mr(pd, buffer, BUFFER_SIZE, ALL_ACCESS), "ibv_reg_mr");

	ports();
	objects();
	capabilities();
	modifications();
	posting();
	completions();
	failures();
	events();

	fact("close_device with a PD and an MR left", "%s", error_name(ibv_close_device(context)));
	return 0;
}
