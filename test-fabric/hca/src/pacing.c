/*
 * Packet pacing: a token bucket for each QP. A request that was executed has to be paid for, in time at the rate limit,
 * before the next one begins; max_burst_sz is what may be sent on credit. Requests are not divided.
 */
#include "hca.h"

#define NS_PER_MS 1000000ULL

struct ibv_packet_pacing_caps pacing_caps(const struct seg *seg)
{
	struct ibv_packet_pacing_caps caps = { 0 };

	if (seg->settings.rate_limit_max) {
		caps.qp_rate_limit_min = seg->settings.rate_limit_min;
		caps.qp_rate_limit_max = seg->settings.rate_limit_max;
		caps.supported_qpts = 1 << IBV_QPT_RC | 1 << IBV_QPT_UC | 1 << IBV_QPT_UD;
	}
	return caps;
}

int pacing_check(const struct seg *seg, uint32_t rate)
{
	struct ibv_packet_pacing_caps caps = pacing_caps(seg);

	if (!caps.supported_qpts)
		return EOPNOTSUPP;
	return rate && (rate < caps.qp_rate_limit_min || rate > caps.qp_rate_limit_max) ? EINVAL : 0;
}

/* kbit/s are bits in a millisecond. */
static uint64_t time_of(uint64_t bytes, uint32_t rate)
{
	return bytes * 8 * NS_PER_MS / rate;
}

void pacing_set(struct hca_qp *qp, uint32_t rate, uint32_t max_burst)
{
	qp->attr.rate_limit = rate;
	qp->sq.max_burst = max_burst;
	qp->sq.paced_until = 0;
	/* Who waits for the old rate begins anew. */
	if (qp->sq.stall == STALL_DELAY)
		qp->sq.stall = STALL_NONE;
}

uint64_t pacing_due(const struct hca_qp *qp)
{
	uint32_t rate = qp->attr.rate_limit;
	uint64_t credit = rate ? time_of(qp->sq.max_burst, rate) : 0;

	return qp->sq.paced_until > credit ? qp->sq.paced_until - credit : 0;
}

void pacing_charge(struct hca_qp *qp, uint64_t bytes)
{
	uint64_t now;

	if (!qp->attr.rate_limit)
		return;
	now = hca_now_ns();
	if (qp->sq.paced_until < now)
		qp->sq.paced_until = now;
	qp->sq.paced_until += time_of(bytes, qp->attr.rate_limit);
}

int pacing_modify(struct ibv_qp *ibqp, struct ibv_qp_rate_limit_attr *attr)
{
	struct hca_qp *qp = qp_real(to_qp(ibqp, "ibv_modify_qp_rate_limit"));
	struct ibv_qp_attr rate = { .rate_limit = attr->rate_limit };
	int ret;

	/* As mlx5 has it. */
	if (attr->comp_mask || (!attr->rate_limit && (attr->max_burst_sz || attr->typical_pkt_sz)))
		return hca_errno(EINVAL);
	ret = ibv_modify_qp(ibqp, &rate, IBV_QP_RATE_LIMIT);
	if (ret)
		return ret;
	pthread_mutex_lock(&qp->sq.lock);
	qp->sq.max_burst = attr->max_burst_sz;
	pthread_mutex_unlock(&qp->sq.lock);
	return 0;
}
