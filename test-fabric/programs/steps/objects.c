/* The steps that make, change and end objects. */
#include "steps.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "../common/die.h"
#include "../common/extended.h"

static struct qp_address addresses[QPS];
static struct ibv_xrcd *domain_of[QPS];		/* of the receivers of XRC */

static const struct qp_timing for_ever = { .timeout = 0, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1 };

static void connect_pair(unsigned first)
{
	for (unsigned k = first; k < first + 2; k++)
		qp_initialize(&endpoint, qps[k], ACCESS_ALL, &addresses[k]);
	for (unsigned k = first; k < first + 2; k++)
		qp_connect(&endpoint, qps[k], &addresses[k], &addresses[k ^ 1], &for_ever);
}

static struct ibv_qp *make_receiver(struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd,
	};

	return ibv_create_qp_ex(endpoint.context, &init);
}

static struct ibv_qp *make_qp(const uint64_t *a, unsigned end, struct ibv_qp_cap *cap)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND };
	uint64_t srq = a[7 + end];
	struct ibv_qp_init_attr init = {
		.send_cq = CQ(a[3]), .recv_cq = CQ(a[4]), .sq_sig_all = a[5], .qp_type = types[slot(a[1], 4)],
		.srq = srq && a[1] != TYPE_XRC ? SRQ(srq - 1) : NULL,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1,
			 .max_recv_sge = a[1] == TYPE_UD ? 2 : 1, .max_inline_data = INLINE },
	};
	struct ibv_qp *qp = verbs_way(a[6])->create_qp(PD(a[2]), &init);

	/* A device may give more than was asked for. */
	if (qp && (init.cap.max_send_wr < DEPTH || init.cap.max_send_sge < 1 || init.cap.max_inline_data < INLINE))
		die(0, "%s:%llu: queues smaller than asked for", file, (unsigned long long)line_number);
	*cap = init.cap;
	return qp;
}

/* What a receiver, which has no sends, is created with is not said. */
static struct ibv_qp_cap cap_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err = ibv_query_qp(qp, &attr, IBV_QP_CAP, &init);

	if (err)
		die(err, "ibv_query_qp");
	return attr.cap;
}

static void make_pair(const uint64_t *a)
{
	unsigned first = 2 * slot(a[0], SLOTS);

	for (unsigned k = first; k < first + 2; k++) {
		if (k > first && a[1] == TYPE_XRC)
			qps[k] = make_receiver(domain_of[k] = XRCD(a[7]));
		else
			qps[k] = make_qp(a, k - first, &caps[k]);
		if (!qps[k])
			die(errno, "%s:%llu: cannot create a queue pair", file, (unsigned long long)line_number);
		if (k > first && a[1] == TYPE_XRC)
			caps[k] = cap_of(qps[k]);
	}
	connect_pair(first);
	result(0);
}

static void reset_pair(unsigned first)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	int err = 0;

	for (unsigned k = first; k < first + 2 && !err; k++)
		err = ibv_modify_qp(qps[k], &attr, IBV_QP_STATE);
	result(err);
	connect_pair(first);
}

static int destroy(unsigned k)
{
	int err = ibv_destroy_qp(qps[k]);

	qps[k] = NULL;
	return err;
}

static void open_again(unsigned handle, unsigned k)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
			     IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = qps[k]->qp_num, .xrcd = domain_of[k], .qp_context = &qps[handle], .qp_type = IBV_QPT_XRC_RECV,
	};

	made(qps[handle] = ibv_open_qp(endpoint.context, &attr));
}

/* The handle takes the place of that which the queue pair was made with. */
static void inherit(unsigned handle, unsigned k)
{
	result(destroy(k));
	qps[k] = qps[handle];
	qps[handle] = NULL;
}

static int change_state(uint64_t k, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(QP(k), &attr, IBV_QP_STATE);
}

static void make_cq(const uint64_t *a)
{
	made(CQ(a[0]) = verbs_way(a[2])->create_cq(endpoint.context, a[1], NULL, a[3] ? channel : NULL));
}

static void make_srq(const uint64_t *a)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };

	made(SRQ(a[0]) = ibv_create_srq(PD(a[1]), &init));
}

static void make_xrc_srq(const uint64_t *a)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = DEPTH, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC, .pd = PD(a[1]), .xrcd = XRCD(a[2]), .cq = CQ(a[3]),
	};

	made(SRQ(a[0]) = ibv_create_srq_ex(endpoint.context, &init));
}

static void open_domain(const uint64_t *a)
{
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT,
	};

	made(XRCD(a[0]) = ibv_open_xrcd(endpoint.context, &init));
}

/* To this port itself. */
static void make_ah(const uint64_t *a)
{
	struct ibv_ah_attr attr = {
		.dlid = endpoint.port.lid, .port_num = endpoint.port_num, .is_global = 1,
		.grh = { .dgid = endpoint.gid, .sgid_index = endpoint.gid_index, .hop_limit = 64 },
	};

	made(AH(a[0]) = ibv_create_ah(PD(a[1]), &attr));
}

bool object_step(const char *verb, const uint64_t *a)
{
	unsigned first = 2 * (a[0] % SLOTS);

	if (!strcmp(verb, "pd"))
		made(PD(a[0]) = ibv_alloc_pd(endpoint.context));
	else if (!strcmp(verb, "unpd"))
		result(ibv_dealloc_pd(PD(a[0])));
	else if (!strcmp(verb, "cq"))
		make_cq(a);
	else if (!strcmp(verb, "resize"))
		result(ibv_resize_cq(CQ(a[0]), a[1]));
	else if (!strcmp(verb, "uncq"))
		result(ibv_destroy_cq(CQ(a[0])));
	else if (!strcmp(verb, "mr"))
		made(MR(a[0]) = ibv_reg_mr(PD(a[1]), memory[slot(a[0], SLOTS)], HEADER(LINES), a[2]));
	else if (!strcmp(verb, "rereg"))
		result(ibv_rereg_mr(MR(a[0]), IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, a[1]));
	else if (!strcmp(verb, "unmr")) {
		result(ibv_dereg_mr(MR(a[0])));
		MR(a[0]) = NULL;
	} else if (!strcmp(verb, "ah"))
		make_ah(a);
	else if (!strcmp(verb, "unah"))
		result(ibv_destroy_ah(AH(a[0])));
	else if (!strcmp(verb, "xrcd"))
		open_domain(a);
	else if (!strcmp(verb, "unxrcd"))
		result(ibv_close_xrcd(XRCD(a[0])));
	else if (!strcmp(verb, "srq"))
		make_srq(a);
	else if (!strcmp(verb, "xsrq"))
		make_xrc_srq(a);
	else if (!strcmp(verb, "unsrq"))
		result(ibv_destroy_srq(SRQ(a[0])));
	else if (!strcmp(verb, "pair"))
		make_pair(a);
	else if (!strcmp(verb, "unpair")) {
		int err = destroy(first);

		result(err ? err : destroy(first + 1));
	} else if (!strcmp(verb, "reset"))
		reset_pair(first);
	else if (!strcmp(verb, "open"))
		open_again(slot(a[0], QPS + HANDLES), slot(a[1], QPS));
	else if (!strcmp(verb, "unopen"))
		result(destroy(slot(a[0], QPS + HANDLES)));
	else if (!strcmp(verb, "inherit"))
		inherit(slot(a[0], QPS + HANDLES), slot(a[1], QPS));
	else if (!strcmp(verb, "error"))
		result(change_state(a[0], IBV_QPS_ERR));
	else if (!strcmp(verb, "hold"))
		result(change_state(a[0], IBV_QPS_SQD));
	else if (!strcmp(verb, "release"))
		result(change_state(a[0], IBV_QPS_RTS));
	else
		return false;
	return true;
}
