/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lost-device: has one object of every kind, says READY, and waits for a file. While it waits its device is taken away, as
 * happens when a process cannot be reattached. Then what was posted has been flushed, every verb fails with an errno value that
 * says so, and every object can be destroyed. Ends with status 0 and "DONE ok".
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/die.h"
#include "../common/work_clock.h"

#define DEADLINE_S 120
#define SIZE 4096

const char *const program_name = "lost-device";

static char memory[SIZE];

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_td *td;
static struct ibv_pd *parent;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_cq_ex *stamped;
static struct ibv_mr *mr, *nothing, *of_dm;
static struct ibv_dm *dm;
static struct ibv_mw *mw1, *mw2;
static struct ibv_srq *srq, *xsrq;
static struct ibv_xrcd *xrcd;
static struct ibv_ah *ah;
static struct ibv_qp *rc, *on_srq, *uc, *ud, *fresh, *xrc_send, *xrc_receive, *handle;
static struct ibv_qp_ex *extended;
static union ibv_gid group;

static void *made(void *object, const char *what)
{
	if (!object)
		die(errno, "%s", what);
	return object;
}
#define MADE(call) made((void *)(call), #call)

/* What returns 0 or an errno value, or -1 with errno. */
static void good(int err, const char *what)
{
	if (err)
		die(err > 0 ? err : errno, "%s", what);
}
#define GOOD(call) good(call, #call)

static int wrong;

/* The verb has failed with that: a positive errno value, or errno itself. */
static void expect(int err, int expected, const char *what)
{
	if (err < 0)
		err = errno;
	if (err != expected) {
		printf("%s: %d (%s), expected %d\n", what, err, strerror(err), expected);
		wrong = 1;
	}
}
#define FAILS(call) (errno = 0, expect(call, EIO, #call))
#define FAILS_POSTED(call) (errno = 0, expect(call, ENODEV, #call))
#define FAILS_NULL(call) (errno = 0, expect((call) ? 0 : -1, EIO, #call))

static void move(struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7 };
	bool datagrams = qp->qp_type == IBV_QPT_UD;
	bool reliable = !datagrams && qp->qp_type != IBV_QPT_UC;

	GOOD(ibv_query_port(context, 1, &port));
	GOOD(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					(datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, .ah_attr = { .dlid = port.lid, .port_num = 1 },
	};
	GOOD(ibv_modify_qp(qp, &attr, IBV_QP_STATE | (datagrams ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					IBV_QP_RQ_PSN | (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0))));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
	};
	GOOD(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0)));
}

static struct ibv_qp *create_qp(enum ibv_qp_type type, struct ibv_srq *shared)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq, .recv_cq = cq, .srq = shared, .cap = { 4, shared ? 0 : 4, 1, 1, 16 }, .qp_type = type, .sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd,
	};

	if (type == IBV_QPT_XRC_SEND) {
		init.recv_cq = NULL;
		init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
	} else if (type == IBV_QPT_XRC_RECV) {
		init = (struct ibv_qp_init_attr_ex){ .qp_type = type, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd };
	} else if (type == IBV_QPT_RC && !shared) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = IBV_QP_EX_WITH_SEND;
	}
	return MADE(ibv_create_qp_ex(context, &init));
}

static int post_receive(struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)memory, 64, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

static int post_send(struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)memory, 64, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	if (qp == ud) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = ud->qp_num;
		wr.wr.ud.remote_qkey = 7;
	} else if (qp == xrc_send) {
		ibv_get_srq_num(xsrq, &wr.qp_type.xrc.remote_srqn);
	}
	return ibv_post_send(qp, &wr, &bad);
}

static int post_shared(struct ibv_srq *queue)
{
	struct ibv_sge sge = { (uintptr_t)memory, 64, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_srq_recv(queue, &wr, &bad);
}

static void make_all(void)
{
	struct ibv_device **list = MADE(ibv_get_device_list(NULL));
	struct ibv_td_init_attr thread = { 0 };
	struct ibv_parent_domain_init_attr parents = { 0 };
	struct ibv_cq_init_attr_ex stamps = { .cqe = 8, .channel = NULL, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };
	struct ibv_alloc_dm_attr length = { .length = 256 };
	struct ibv_srq_init_attr shared = { .attr = { 4, 1, 0 } };
	struct ibv_xrcd_init_attr domain = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
					     .oflags = O_CREAT };
	struct ibv_port_attr port;
	struct ibv_ah_attr to = { .port_num = 1 };

	context = MADE(ibv_open_device(list[0]));
	ibv_free_device_list(list);
	GOOD(ibv_query_port(context, 1, &port));
	pd = MADE(ibv_alloc_pd(context));
	td = MADE(ibv_alloc_td(context, &thread));
	parents.pd = pd;
	parents.td = td;
	parent = MADE(ibv_alloc_parent_domain(context, &parents));
	channel = MADE(ibv_create_comp_channel(context));
	cq = MADE(ibv_create_cq(context, 64, NULL, channel, 0));
	stamped = MADE(ibv_create_cq_ex(context, &stamps));
	mr = MADE(ibv_reg_mr(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND));
	nothing = MADE(ibv_alloc_null_mr(pd));
	dm = MADE(ibv_alloc_dm(context, &length));
	of_dm = MADE(ibv_reg_dm_mr(pd, dm, 0, 256, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED));
	mw1 = MADE(ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	mw2 = MADE(ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	srq = MADE(ibv_create_srq(pd, &shared));
	xrcd = MADE(ibv_open_xrcd(context, &domain));
	{
		struct ibv_srq_init_attr_ex of_xrc = {
			.attr = { 4, 1, 0 }, .srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = xrcd, .cq = cq,
			.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		};

		xsrq = MADE(ibv_create_srq_ex(context, &of_xrc));
	}
	to.dlid = port.lid;
	ah = MADE(ibv_create_ah(pd, &to));
	rc = create_qp(IBV_QPT_RC, NULL);
	on_srq = create_qp(IBV_QPT_RC, srq);
	uc = create_qp(IBV_QPT_UC, NULL);
	ud = create_qp(IBV_QPT_UD, NULL);
	fresh = create_qp(IBV_QPT_UC, NULL);
	xrc_send = create_qp(IBV_QPT_XRC_SEND, NULL);
	xrc_receive = create_qp(IBV_QPT_XRC_RECV, NULL);
	{
		struct ibv_qp_open_attr open = {
			.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
			.qp_num = xrc_receive->qp_num, .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV,
		};

		handle = MADE(ibv_open_qp(context, &open));
	}
	extended = MADE(ibv_qp_to_qp_ex(rc));
	group.raw[0] = 0xff;
	group.raw[15] = 9;
	move(rc, on_srq);
	move(on_srq, rc);
	move(uc, uc);
	move(ud, ud);
	move(xrc_send, xrc_receive);
	move(xrc_receive, xrc_send);
	GOOD(ibv_attach_mcast(ud, &group, 0xc001));
	GOOD(post_receive(rc));
	GOOD(post_receive(uc));
	GOOD(post_receive(ud));
	GOOD(post_shared(srq));
	GOOD(post_shared(xsrq));
	GOOD(ibv_req_notify_cq(cq, 0));
}

static void expect_flushed(void)
{
	struct ibv_qp *const had[] = { rc, uc, ud };
	struct ibv_wc wc;
	int seen = 0;

	for (int i = 0; i < 3; i++) {
		if (ibv_poll_cq(cq, 1, &wc) != 1 || wc.status != IBV_WC_WR_FLUSH_ERR || wc.wr_id != 1)
			die(0, "no receive of the three was flushed as number %d", i);
		for (int k = 0; k < 3; k++)
			seen |= wc.qp_num == had[k]->qp_num ? 1 << k : 0;
	}
	if (seen != 7 || ibv_poll_cq(cq, 1, &wc) != 0)
		die(0, "the flushed receives are not those of the three queue pairs");
}

static void use_all(void)
{
	struct ibv_device_attr attr;
	struct ibv_device_attr_ex attr_ex;
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct ibv_gid_entry entry;
	__be16 pkey;
	struct ibv_qp_attr qp_attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr shared = { .attr = { 4, 1, 0 } };
	struct ibv_srq_attr limit = { .srq_limit = 1 };
	struct ibv_ah_attr to = { .dlid = 1, .port_num = 1 };
	struct ibv_modify_cq_attr moderate = { .attr_mask = IBV_CQ_ATTR_MODERATE };
	struct ibv_poll_cq_attr poll = { 0 };
	struct ibv_mw_bind bind = { .bind_info = { .mr = mr, .addr = (uintptr_t)memory, .length = 64 } };
	struct ibv_qp_rate_limit_attr rate = { .rate_limit = 1000 };
	char bytes[8] = { 0 };

	FAILS(ibv_query_device(context, &attr));
	FAILS(ibv_query_device_ex(context, NULL, &attr_ex));
	FAILS(ibv_query_port(context, 1, &port));
	FAILS(ibv_query_gid(context, 1, 0, &gid));
	FAILS(ibv_query_gid_ex(context, 1, 0, &entry, 0));
	FAILS(ibv_query_pkey(context, 1, 0, &pkey));
	FAILS(ibv_get_pkey_index(context, 1, 0xffff));
	FAILS_NULL(ibv_alloc_pd(context));
	FAILS_NULL(ibv_reg_mr(pd, memory, 64, 0));
	FAILS_NULL(ibv_alloc_null_mr(pd));
	FAILS(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0));
	FAILS_NULL(ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	FAILS_NULL(ibv_create_comp_channel(context));
	FAILS_NULL(ibv_create_cq(context, 4, NULL, NULL, 0));
	FAILS(ibv_resize_cq(cq, 128));
	FAILS(ibv_modify_cq(cq, &moderate));
	FAILS_NULL(ibv_create_srq(pd, &shared));
	FAILS(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	FAILS(ibv_query_srq(srq, &limit));
	FAILS_NULL(ibv_create_ah(pd, &to));
	FAILS_NULL(ibv_create_qp(pd, &init));
	FAILS(ibv_query_qp(rc, &qp_attr, IBV_QP_STATE, &init));
	FAILS(ibv_modify_qp(rc, &qp_attr, IBV_QP_STATE));
	FAILS(ibv_modify_qp(handle, &qp_attr, IBV_QP_STATE));
	FAILS(ibv_modify_qp_rate_limit(rc, &rate));
	FAILS(ibv_attach_mcast(ud, &group, 0xc001));
	FAILS_POSTED(post_send(rc));
	FAILS_POSTED(post_send(on_srq));
	FAILS_POSTED(post_send(uc));
	FAILS_POSTED(post_send(ud));
	FAILS_POSTED(post_send(xrc_send));
	FAILS_POSTED(post_receive(rc));
	FAILS_POSTED(post_receive(ud));
	FAILS_POSTED(post_shared(srq));
	FAILS_POSTED(post_shared(xsrq));
	FAILS_POSTED(ibv_bind_mw(rc, mw1, &bind));
	FAILS_POSTED(ibv_req_notify_cq(cq, 0));
	FAILS_POSTED(ibv_memcpy_to_dm(dm, 0, bytes, sizeof(bytes)));
	FAILS_POSTED(ibv_memcpy_from_dm(bytes, dm, 0, sizeof(bytes)));
	ibv_wr_start(extended);
	ibv_wr_send(extended);
	ibv_wr_set_sge(extended, mr->lkey, (uintptr_t)memory, 64);
	FAILS_POSTED(ibv_wr_complete(extended));
	expect(ibv_start_poll(stamped, &poll), ENOENT, "ibv_start_poll");
}

static void destroy_all(void)
{
	struct ibv_cq *event_cq;
	void *cq_context;

	/* The flushed receives are completions like others: the queue was armed. */
	GOOD(ibv_get_cq_event(channel, &event_cq, &cq_context));
	ibv_ack_cq_events(event_cq, 1);
	GOOD(ibv_detach_mcast(ud, &group, 0xc001));
	GOOD(ibv_destroy_qp(handle));
	GOOD(ibv_destroy_qp(xrc_receive));
	GOOD(ibv_destroy_qp(xrc_send));
	GOOD(ibv_destroy_qp(fresh));
	GOOD(ibv_destroy_qp(ud));
	GOOD(ibv_destroy_qp(uc));
	GOOD(ibv_destroy_qp(on_srq));
	GOOD(ibv_destroy_qp(rc));
	GOOD(ibv_destroy_ah(ah));
	GOOD(ibv_destroy_srq(xsrq));
	GOOD(ibv_destroy_srq(srq));
	GOOD(ibv_close_xrcd(xrcd));
	GOOD(ibv_dealloc_mw(mw1));
	GOOD(ibv_dealloc_mw(mw2));
	GOOD(ibv_dereg_mr(of_dm));
	GOOD(ibv_free_dm(dm));
	GOOD(ibv_dereg_mr(nothing));
	GOOD(ibv_dereg_mr(mr));
	GOOD(ibv_destroy_cq(ibv_cq_ex_to_cq(stamped)));
	GOOD(ibv_destroy_cq(cq));
	GOOD(ibv_destroy_comp_channel(channel));
	GOOD(ibv_dealloc_pd(parent));
	GOOD(ibv_dealloc_td(td));
	GOOD(ibv_dealloc_pd(pd));
	GOOD(ibv_close_device(context));
}

int main(int argc, char **argv)
{
	struct work_clock clock;

	if (argc != 2)
		die(0, "usage: lost-device GO, a file that says when to go on");
	setvbuf(stdout, NULL, _IOLBF, 0);
	make_all();
	puts("READY");
	work_clock_start(&clock);
	while (access(argv[1], F_OK)) {
		if (work_clock_read(&clock) > DEADLINE_S * NS_PER_S)
			die(0, "waited %d s for %s", DEADLINE_S, argv[1]);
		work_clock_rest(2000);
	}
	expect_flushed();
	use_all();
	destroy_all();
	if (wrong)
		die(0, "some verbs did not fail as they are to");
	puts("DONE ok");
	return 0;
}
