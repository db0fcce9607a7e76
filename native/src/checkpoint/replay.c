/* SPDX-License-Identifier: Apache-2.0 */
/* Replay, for the driver, with the gate closed: what took no effect is posted to the real queue again. */
#include "datapath/keep.h"
#include "datapath/kept.h"
#include "datapath/target.h"
#include "objects/build.h"

int sv_qp_replay_receives(struct ibv_qp *vqp, uint64_t *position)
{
	struct sv_qp *qp = sv_qp_of(vqp);
	const struct sv_context *context = sv_context_of(vqp->context);
	struct ibv_recv_wr real, *bad;
	struct ibv_sge one;

	for (*position = sv_recv_retired(qp); *position < qp->rq.posted; ++*position) {
		int err;

		sv_build_recv(qp, *position, &real,
			      sv_recv_entry(qp, *position)->num_sge > 1 ? qp->recv_scratch : &one, false);
		err = context->post_recv(qp->rq.real, &real, &bad);
		if (err)
			return err;
	}
	return 0;
}

int sv_qp_replay_sends(struct ibv_qp *vqp, uint64_t *position)
{
	struct sv_qp *qp = sv_qp_of(vqp);
	const struct sv_context *context = sv_context_of(vqp->context);
	struct ibv_send_wr real, *bad;
	struct ibv_sge one;
	struct sv_request_fields fields;

	for (*position = sv_send_retired(qp); *position < qp->sq.posted; ++*position) {
		int err;

		fields = sv_logged_fields(qp, *position);
		if (unlikely(fields.opcode == IBV_WR_BIND_MW) && sv_is_bind_verb(qp, &fields)) {
			err = sv_replay_bind_verb(qp, &fields);
			if (err)
				return err;
			continue;
		}
		sv_build_send(qp, &fields, &real, fields.num_sge > 1 ? qp->send_scratch : &one, false);
		if (sv_names_target(qp))
			sv_aim(qp, fields.slot, &real);
		err = context->post_send(qp->sq.real, &real, &bad);
		if (err)
			return err;
	}
	return 0;
}

int sv_qp_fail(struct ibv_qp *vqp)
{
	struct sv_qp *qp = sv_qp_of(vqp);
	struct sv_cq *send_cq, *recv_cq;
	struct ibv_wc wc = { .status = IBV_WC_RETRY_EXC_ERR };
	uint64_t send = sv_send_retired(qp), recv = sv_recv_retired(qp);

	/* Of XRC: no send queue, or no receive queue. */
	if (!vqp->send_cq)
		return 0;
	send_cq = sv_cq_of(vqp->send_cq);
	if (sv_kept_reserve(send_cq, qp->sq.posted - send))
		return ENOMEM;
	sv_windows_forget_queue(qp, false);
	for (; send < qp->sq.posted; send++) {
		sv_keep_made(send_cq, qp, SV_QUEUE_SEND, send, &wc);
		wc.status = IBV_WC_WR_FLUSH_ERR;
	}
	qp->send_retired = send;
	sv_kept_remove(send_cq, 0);
	if (!vqp->recv_cq)
		return 0;
	recv_cq = sv_cq_of(vqp->recv_cq);
	if (sv_kept_reserve(recv_cq, qp->rq.posted - recv))
		return ENOMEM;
	wc.status = IBV_WC_WR_FLUSH_ERR;
	for (; recv < qp->rq.posted; recv++) {
		sv_keep_made(recv_cq, qp, SV_QUEUE_RECV, recv, &wc);
		qp->recv_flushed++;
	}
	qp->recv_retired = recv;
	sv_kept_remove(recv_cq, 0);
	return 0;
}
