/*
 * ibv_modify_qp: the state machine of the IBTA specification (volume 1, 10.3.1 and table 96 of 11.2.5.2) with the
 * attributes that each transition needs and allows, as the kernel's verbs core checks them (qp_state_table and
 * ib_modify_qp_is_ok in drivers/infiniband/core/verbs.c), and rate limits besides.
 */
#include "hca.h"

struct transition {
	enum ibv_qp_state from, to;
	int required, optional;
};

#define MIG (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)

static const struct transition rc_transitions[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
	  IBV_QP_MIN_RNR_TIMER, IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_RATE_LIMIT },
	{ IBV_QPS_RTR, IBV_QPS_RTS,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
	  IBV_QP_CUR_STATE | MIG | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_RATE_LIMIT },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0,
	  IBV_QP_CUR_STATE | MIG | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_RATE_LIMIT },
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | MIG | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_SQD, IBV_QPS_SQD, 0,
	  IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
	  IBV_QP_MAX_DEST_RD_ATOMIC | MIG | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER },
	{ 0 },
};

static const struct transition uc_transitions[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | MIG | IBV_QP_ACCESS_FLAGS | IBV_QP_RATE_LIMIT },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | MIG | IBV_QP_ACCESS_FLAGS | IBV_QP_RATE_LIMIT },
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | MIG | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_AV | MIG | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS },
	{ 0 },
};

static const struct transition ud_transitions[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY },
	{ IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY | IBV_QP_RATE_LIMIT },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY | IBV_QP_RATE_LIMIT },
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ 0 },
};

static const struct transition xrc_send_transitions[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_RTR, IBV_QPS_RTS,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
	  IBV_QP_CUR_STATE | MIG | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | MIG | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | MIG | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_SQD, IBV_QPS_SQD, 0,
	  IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
	  MIG | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ 0 },
};

static const struct transition xrc_recv_transitions[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
	  IBV_QP_MIN_RNR_TIMER, IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN,
	  IBV_QP_CUR_STATE | MIG | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | MIG | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | MIG | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_SQD, IBV_QPS_SQD, 0,
	  IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_MAX_DEST_RD_ATOMIC | MIG | IBV_QP_ACCESS_FLAGS |
	  IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER },
	{ 0 },
};

static const struct transition *const transitions[] = {
	[IBV_QPT_RC] = rc_transitions,
	[IBV_QPT_UC] = uc_transitions,
	[IBV_QPT_UD] = ud_transitions,
	[IBV_QPT_XRC_SEND] = xrc_send_transitions,
	[IBV_QPT_XRC_RECV] = xrc_recv_transitions,
};

static const struct transition *find(const struct hca_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to)
{
	static const struct transition any = { 0 };
	const struct limits *limits = context_of(qp->qp.context)->limits;
	enum ibv_qp_type type = qp->qp.qp_type;
	const struct transition *t;

	/* From RESET no one step leads to ERR: the kernel's table has none. */
	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
		return &any;
	/* mlx5's own table (optab in __mlx5_ib_modify_qp) leads to no SQD. */
	if (to == IBV_QPS_SQD && !limits->sqd)
		return NULL;
	for (t = transitions[type]; t->to; t++)
		if (t->from == from && t->to == to)
			return t;
	return NULL;
}

static int values_check(const struct hca_context *ctx, const struct ibv_qp_attr *attr, int mask)
{
	const struct limits *limits = ctx->limits;
	const struct seg *seg = ctx->seg;

	if ((mask & IBV_QP_PORT) && !port_exists(seg, attr->port_num))
		return EINVAL;
	if ((mask & IBV_QP_PKEY_INDEX) && attr->pkey_index >= limits->pkeys)
		return EINVAL;
	if ((mask & IBV_QP_ACCESS_FLAGS) &&
	    (attr->qp_access_flags & ~(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)))
		return EINVAL;
	if ((mask & IBV_QP_PATH_MTU) && (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096))
		return EINVAL;
	if ((mask & IBV_QP_AV) && ah_attr_check(seg, &attr->ah_attr, false))
		return EINVAL;
	if ((mask & IBV_QP_DEST_QPN) && attr->dest_qp_num > 0xffffff)
		return EINVAL;
	if ((mask & IBV_QP_TIMEOUT) && attr->timeout > 31)
		return EINVAL;
	if (((mask & IBV_QP_RETRY_CNT) && attr->retry_cnt > 7) || ((mask & IBV_QP_RNR_RETRY) && attr->rnr_retry > 7))
		return EINVAL;
	if ((mask & IBV_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > 31)
		return EINVAL;
	if (((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > limits->max_rd_atomic) ||
	    ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && attr->max_dest_rd_atomic > limits->max_rd_atomic))
		return EINVAL;
	return mask & IBV_QP_RATE_LIMIT ? pacing_check(seg, attr->rate_limit) : 0;
}

/* sq.lock and the responder's lock held */
static void apply(struct hca_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct hca_context *ctx = context_of(qp->qp.context);
	struct seg_qp *shm = qp->shm;
	struct ibv_qp_attr *own = &qp->attr;

	if (mask & IBV_QP_PKEY_INDEX)
		own->pkey_index = attr->pkey_index;
	if (mask & IBV_QP_PORT)
		own->port_num = shm->port = attr->port_num;
	if (mask & IBV_QP_ACCESS_FLAGS)
		own->qp_access_flags = shm->access = attr->qp_access_flags;
	if (mask & IBV_QP_AV) {
		own->ah_attr = attr->ah_attr;
		shm->dlid = av_lid(ctx->seg, &attr->ah_attr);
		qp->remote = NULL;
	}
	if (mask & IBV_QP_PATH_MTU)
		own->path_mtu = shm->path_mtu = attr->path_mtu;
	if (mask & IBV_QP_DEST_QPN) {
		own->dest_qp_num = shm->dest_qpn = attr->dest_qp_num;
		qp->remote = NULL;
	}
	if (mask & IBV_QP_QKEY)
		own->qkey = shm->qkey = attr->qkey;
	if (mask & IBV_QP_RQ_PSN)
		own->rq_psn = shm->rq_psn = attr->rq_psn & 0xffffff;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		own->max_dest_rd_atomic = shm->max_dest_rd_atomic = personality_rd_atomic(ctx, attr->max_dest_rd_atomic);
	if (mask & IBV_QP_MIN_RNR_TIMER)
		own->min_rnr_timer = shm->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IBV_QP_TIMEOUT)
		own->timeout = attr->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		own->retry_cnt = attr->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY) {
		own->rnr_retry = attr->rnr_retry;
		qp->sq.rnr_left = attr->rnr_retry;
	}
	if (mask & IBV_QP_SQ_PSN)
		own->sq_psn = qp->sq.psn = attr->sq_psn & 0xffffff;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		own->max_rd_atomic = personality_rd_atomic(ctx, attr->max_rd_atomic);
	if (mask & IBV_QP_ALT_PATH) {
		own->alt_ah_attr = attr->alt_ah_attr;
		own->alt_pkey_index = attr->alt_pkey_index;
		own->alt_port_num = attr->alt_port_num;
		own->alt_timeout = attr->alt_timeout;
	}
	if (mask & IBV_QP_PATH_MIG_STATE)
		own->path_mig_state = attr->path_mig_state;
	if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
		own->en_sqd_async_notify = attr->en_sqd_async_notify;
	if (mask & IBV_QP_RATE_LIMIT)
		pacing_set(qp, attr->rate_limit, 0);
}

/* To RESET: what was posted is gone without a completion. */
static void reset(struct hca_qp *qp)
{
	struct seg_qp *shm = qp->shm;
	struct ibv_qp_cap cap = qp->attr.cap;

	qp->sq.head = qp->sq.prod;
	seg_store(&qp->sq.released, qp->sq.prod);
	qp->sq.stall = STALL_NONE;
	qp->sq.no_response = 0;
	pthread_mutex_lock(&qp->rq.lock);
	shm->rq.head = qp->rq.prod;
	seg_store(&qp->rq.released, qp->rq.prod);
	pthread_mutex_unlock(&qp->rq.lock);
	qp->remote = NULL;
	shm->established = 0;
	shm->last_wqe = 0;
	shm->access = 0;
	shm->dest_qpn = 0;
	shm->dlid = 0;
	shm->rnr_forced = 0;
	shm->rnr_waiter = 0;
	memset(&qp->attr, 0, sizeof(qp->attr));
	pacing_set(qp, 0, 0);
	qp->attr.cap = cap;
	qp->attr.port_num = shm->port = 1;
}

/* The kernel's user interface ignores what belongs to the other half of an XRC connection. */
static int mask_of(enum ibv_qp_type type, int mask)
{
	if (type == IBV_QPT_XRC_SEND)
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (type == IBV_QPT_XRC_RECV)
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	return mask;
}

int ibv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct hca_qp *qp = qp_real(to_qp(ibqp, "ibv_modify_qp"));
	struct hca_context *ctx = context_of(ibqp->context);
	const struct transition *transition;
	enum ibv_qp_state from, to;
	int ret = 0, rest;

	if (seg_load(&ctx->seg->fatal))
		return hca_errno(EIO);
	mask = mask_of(ibqp->qp_type, mask);
	pthread_mutex_lock(&qp->sq.lock);
	qp_lock_responder(ctx->seg, qp->shm, qp->index);
	if (ibqp->qp_type == IBV_QPT_XRC_RECV)
		qp->attr = qp->shm->attr;
	from = qp->shm->state;
	to = mask & IBV_QP_STATE ? attr->qp_state : from;
	if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != from)
		ret = EINVAL;
	/* rxe_qp.c, __qp_chk_state: what drains goes nowhere but to ERR. */
	if (ctx->personality == PERSONALITY_RXE && (mask & IBV_QP_STATE) && qp->sq.draining && to != IBV_QPS_ERR)
		ret = EINVAL;
	transition = find(qp, from, to);
	rest = mask & ~IBV_QP_STATE;
	if (!transition)
		ret = EINVAL;
	else if ((rest & transition->required) != transition->required ||
		 (rest & ~(transition->required | transition->optional)))
		ret = EINVAL;
	if (!ret)
		ret = values_check(ctx, attr, mask);
	if (ret) {
		seg_unlock(&qp->shm->lock);
		pthread_mutex_unlock(&qp->sq.lock);
		return hca_errno(ret);
	}

	if (to == IBV_QPS_SQD && from != IBV_QPS_SQD)
		qp->attr.en_sqd_async_notify = 0;	/* asked for with each transition */
	apply(qp, attr, rest);
	if (to == IBV_QPS_RESET)
		reset(qp);
	if (ibqp->qp_type == IBV_QPT_XRC_RECV)
		qp->shm->attr = qp->attr;
	seg_store_seq(&qp->shm->state, to);
	if (to == IBV_QPS_ERR)
		qp_flush_recv_locked(ctx, qp);
	seg_unlock(&qp->shm->lock);

	if (to == IBV_QPS_RESET && from != IBV_QPS_RESET) {
		if (qp->qp.send_cq)
			cq_purge((struct hca_cq *)qp->qp.send_cq, qp->index, qp->gen);
		if (qp->qp.recv_cq)
			cq_purge((struct hca_cq *)qp->qp.recv_cq, qp->index, qp->gen);
	}
	if (to == IBV_QPS_SQD && from != IBV_QPS_SQD) {
		/* Only a request that waits for its peer is under way; all others are done or have not begun. */
		qp->sq.draining = qp->sq.stall == STALL_RNR || qp->sq.stall == STALL_NO_RESPONSE;
		if (!qp->home)
			requester_drained(qp);
	} else if (to != IBV_QPS_SQD) {
		qp->sq.draining = false;
	}
	if ((to == IBV_QPS_RTS || to == IBV_QPS_ERR) && !ctx->null_mode)
		requester_run(qp);
	pthread_mutex_unlock(&qp->sq.lock);

	if (mask & IBV_QP_STATE)
		ibqp->state = attr->qp_state;
	return 0;
}
