/* SPDX-License-Identifier: Apache-2.0 */
/* Posting: a request goes to the log first, for its completion may be polled before the real post returns. */
#include "datapath/post.h"
#include "datapath/landing.h"
#include "datapath/target.h"
#include "objects/build.h"

/* Lists of requests, or of SGEs. */
static SV_NOINLINE int send_chain(struct sv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	const struct sv_context *context = sv_context_of(qp->v.context);
	struct ibv_send_wr real[SV_BATCH], *from[SV_BATCH], *real_bad;
	struct ibv_sge one[SV_BATCH];
	struct sv_request_fields fields;
	int err = 0;

	if (sv_names_target(qp))
		return sv_post_to_target(qp, wr, bad);
	while (wr && !err) {
		uint32_t count = 0, done;

		while (wr && count < SV_BATCH && !(err = sv_log_send(qp, wr, &fields, false))) {
			sv_build_send(qp, &fields, &real[count],
				      wr->num_sge > 1 ? qp->send_scratch + count * qp->cap.max_send_sge : &one[count], false);
			if (count)
				real[count - 1].next = &real[count];
			from[count++] = wr;
			wr = wr->next;
		}
		if (err)
			*bad = wr;
		if (count) {
			int real_err;

			/* Some providers name no request when they refuse the first, or all. */
			real_bad = real;
			real_err = context->post_send(qp->sq.real, real, &real_bad);
			if (real_err) {
				done = real_bad ? real_bad - real : 0;
				sv_unlog_send(qp, count - done);
				*bad = from[done];
				err = real_err;
			}
		}
	}
	return err;
}

/* One request with at most one SGE. */
static SV_ALWAYS_INLINE int send_one(struct sv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad, const bool simple)
{
	struct sv_request_fields fields;
	struct ibv_send_wr real;
	struct ibv_sge one;
	int err;

	err = sv_log_send(qp, wr, &fields, simple);
	if (likely(!err)) {
		sv_build_send(qp, &fields, &real, &one, simple);
		err = sv_post_built(qp, &real);
	}
	if (unlikely(err)) {
		if (likely(sv_is_datagram(qp)))
			err = sv_post_datagram(qp, wr, &real, &one, simple);
		else if (sv_names_target(qp))
			return sv_post_to_target(qp, wr, bad);
		if (unlikely(err))
			*bad = wr;
	}
	return err;
}

/* An atomic, or a change of a window. */
static __attribute__((noinline)) int send_other(struct sv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return send_one(qp, wr, bad, false);
}

static SV_ALWAYS_INLINE int post_send_locked(struct sv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (unlikely(!wr || wr->next || wr->num_sge > 1))
		return send_chain(qp, wr, bad);
	return likely(sv_is_simple(wr)) ? send_one(qp, wr, bad, true) : send_other(qp, wr, bad);
}

int sv_post_send_locked(struct sv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return post_send_locked(qp, wr, bad);
}

int sv_post_send(struct ibv_qp *vqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct sv_qp *qp = sv_qp_of(vqp);
	struct sv_thread *self = sv_gate_enter("ibv_post_send");
	int err;

	sv_lock_take(&qp->sq.lock, self, SV_HELD_SEND);
	err = post_send_locked(qp, wr, bad);
	sv_lock_drop(&qp->sq.lock);
	sv_gate_leave(self);
	return err;
}

/* Lists of requests or of SGEs, and queues for which messages have landed. */
static SV_NOINLINE int recv_chain(struct sv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad,
				  struct sv_thread *self)
{
	const struct sv_context *context = sv_context_of(qp->v.context);
	struct ibv_recv_wr real[SV_BATCH], *from[SV_BATCH], *real_bad;
	struct ibv_sge one[SV_BATCH];
	int err = 0;

	while (wr && qp->rq.landed) {
		err = sv_log_recv(qp, wr);
		if (!err && (err = sv_landing_fill(qp, qp->rq.posted - 1, self)))
			qp->rq.posted--;
		if (err) {
			*bad = wr;
			return err;
		}
		wr = wr->next;
	}
	while (wr && !err) {
		uint32_t count = 0, done;

		while (wr && count < SV_BATCH && !(err = sv_log_recv(qp, wr))) {
			sv_build_recv(qp, qp->rq.posted - 1, &real[count],
				      wr->num_sge > 1 ? qp->recv_scratch + count * qp->cap.max_recv_sge : &one[count], false);
			if (count)
				real[count - 1].next = &real[count];
			from[count++] = wr;
			wr = wr->next;
		}
		if (err)
			*bad = wr;
		if (count) {
			int real_err;

			real_bad = real;
			real_err = context->post_recv(qp->rq.real, real, &real_bad);
			if (real_err) {
				done = real_bad ? real_bad - real : 0;
				qp->rq.posted -= count - done;
				*bad = from[done];
				err = real_err;
			}
		}
	}
	return err;
}

int sv_post_recv(struct ibv_qp *vqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sv_qp *qp = sv_qp_of(vqp);
	struct sv_thread *self = sv_gate_enter("ibv_post_recv");
	struct ibv_recv_wr real, *real_bad;
	struct ibv_sge one;
	int err;

	sv_lock_take(&qp->rq.lock, self, SV_HELD_RECV);
	if (unlikely(!wr || wr->next || wr->num_sge > 1 || qp->rq.landed)) {
		err = recv_chain(qp, wr, bad, self);
	} else {
		err = sv_log_recv(qp, wr);
		if (likely(!err)) {
			sv_build_recv(qp, qp->rq.posted - 1, &real, &one, true);
			err = sv_context_of(qp->v.context)->post_recv(qp->rq.real, &real, &real_bad);
			if (unlikely(err))
				qp->rq.posted--;
		}
		if (unlikely(err))
			*bad = wr;
	}
	sv_lock_drop(&qp->rq.lock);
	sv_gate_leave(self);
	return err;
}
