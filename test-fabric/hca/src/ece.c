/* Enhanced connection establishment: what two ends of a connection may agree on. This device has nothing to offer. */
#include "hca.h"

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	to_qp(qp, "ibv_query_ece");
	memset(ece, 0, sizeof(*ece));
	ece->vendor_id = HCA_VENDOR_ID;
	return 0;
}

int ibv_set_ece(struct ibv_qp *ibqp, struct ibv_ece *ece)
{
	struct hca_qp *qp = qp_real(to_qp(ibqp, "ibv_set_ece"));

	if (ece->comp_mask || seg_load(&qp->shm->state) == IBV_QPS_ERR)
		return hca_errno(EINVAL);
	/* vendor_id 0 clears; options of another vendor mean nothing here. */
	if (ece->vendor_id && (ece->vendor_id != HCA_VENDOR_ID || ece->options))
		return hca_errno(EOPNOTSUPP);
	return 0;
}
