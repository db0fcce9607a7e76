#include "extended.h"

#include <errno.h>
#include <string.h>

#define MAX_SGE 16		/* of an inline request */

static uint64_t operations(enum ibv_qp_type type)
{
	const uint64_t of_datagrams = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	const uint64_t of_windows = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV;
	const uint64_t unreliable = of_datagrams | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;

	if (type == IBV_QPT_UD)
		return of_datagrams;
	if (type == IBV_QPT_UC)
		return unreliable;
	return unreliable | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
	       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | (type == IBV_QPT_RC ? of_windows : 0);
}

static struct ibv_qp *extended_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = init->qp_context, .send_cq = init->send_cq, .recv_cq = init->recv_cq, .srq = init->srq,
		.cap = init->cap, .qp_type = init->qp_type, .sq_sig_all = init->sq_sig_all, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = operations(init->qp_type),
	};
	struct ibv_qp *qp = ibv_create_qp_ex(pd->context, &attr);

	init->cap = attr.cap;
	return qp;
}

static struct ibv_cq *extended_create_cq(struct ibv_context *context, int entries, void *cq_context,
					 struct ibv_comp_channel *channel)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = entries, .cq_context = cq_context, .channel = channel,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static void build(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	struct ibv_data_buf buffers[MAX_SGE];

	qp->wr_id = wr->wr_id;
	qp->wr_flags = wr->send_flags & ~IBV_SEND_INLINE;
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(qp);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(qp, wr->imm_data);
		break;
	case IBV_WR_SEND_WITH_INV:
		ibv_wr_send_inv(qp, wr->invalidate_rkey);
		break;
	case IBV_WR_BIND_MW:
		ibv_wr_bind_mw(qp, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		return;
	case IBV_WR_LOCAL_INV:
		ibv_wr_local_inv(qp, wr->invalidate_rkey);
		return;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add,
				      wr->wr.atomic.swap);
		break;
	default:
		ibv_wr_atomic_fetch_add(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add);
		break;
	}
	if (qp->qp_base.qp_type == IBV_QPT_UD)
		ibv_wr_set_ud_addr(qp, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	if (qp->qp_base.qp_type == IBV_QPT_XRC_SEND)
		ibv_wr_set_xrc_srqn(qp, wr->qp_type.xrc.remote_srqn);
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		ibv_wr_set_sge_list(qp, wr->num_sge, wr->sg_list);
		return;
	}
	for (int i = 0; i < wr->num_sge; i++)
		buffers[i] = (struct ibv_data_buf){ (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length };
	ibv_wr_set_inline_data_list(qp, wr->num_sge, buffers);
}

static int extended_post(struct ibv_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **bad)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	*bad = list;
	ibv_wr_start(ex);
	for (const struct ibv_send_wr *wr = list; wr; wr = wr->next)
		build(ex, wr);
	return ibv_wr_complete(ex);
}

static void read_completion(struct ibv_cq_ex *cq, struct ibv_wc *wc)
{
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = cq->wr_id;
	wc->status = cq->status;
	wc->vendor_err = ibv_wc_read_vendor_err(cq);
	wc->qp_num = ibv_wc_read_qp_num(cq);
	if (wc->status != IBV_WC_SUCCESS)
		return;
	wc->opcode = ibv_wc_read_opcode(cq);
	wc->wc_flags = ibv_wc_read_wc_flags(cq);
	wc->byte_len = ibv_wc_read_byte_len(cq);
	wc->src_qp = ibv_wc_read_src_qp(cq);
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		wc->imm_data = ibv_wc_read_imm_data(cq);
	if (wc->wc_flags & IBV_WC_WITH_INV)
		wc->invalidated_rkey = ibv_wc_read_invalidated_rkey(cq);
}

static int extended_poll(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)cq;
	struct ibv_poll_cq_attr attr = { 0 };
	int got = 0, err = ibv_start_poll(ex, &attr);

	if (err)
		return err == ENOENT ? 0 : -err;
	do {
		read_completion(ex, &wc[got++]);
	} while (got < count && !(err = ibv_next_poll(ex)));
	ibv_end_poll(ex);
	return err && err != ENOENT ? -err : got;
}

static struct ibv_cq *classic_create_cq(struct ibv_context *context, int entries, void *cq_context,
					struct ibv_comp_channel *channel)
{
	return ibv_create_cq(context, entries, cq_context, channel, 0);
}

const struct verbs_way *verbs_way(bool extended)
{
	static const struct verbs_way classic_way = {
		.create_qp = ibv_create_qp, .create_cq = classic_create_cq, .post = ibv_post_send, .poll = ibv_poll_cq,
	}, extended_way = {
		.create_qp = extended_create_qp, .create_cq = extended_create_cq, .post = extended_post,
		.poll = extended_poll,
	};

	return extended ? &extended_way : &classic_way;
}
