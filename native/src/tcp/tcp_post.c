/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ib2tcp's side of the application: requests into the rings, completions out of them. Two system calls, and only where
 * there is nothing else to do: a post wakes the engine when it sleeps, and a poll that has found nothing many times in a
 * row sleeps for a moment, for on a host with few processors the engine, or the peer, needs this one.
 */
#include "base/futex.h"
#include "control/thread.h"
#include "tcp/tcp.h"

#include <unistd.h>

#define OPCODES_ATOMIC (1u << IBV_WR_ATOMIC_CMP_AND_SWP | 1u << IBV_WR_ATOMIC_FETCH_AND_ADD)
#define OPCODES_READING (OPCODES_ATOMIC | 1u << IBV_WR_RDMA_READ)
#define OPCODES_LOCAL (1u << IBV_WR_BIND_MW | 1u << IBV_WR_LOCAL_INV)
#define WINDOW_ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
		       IBV_ACCESS_ZERO_BASED)
/* Polls in a row that find nothing before one sleeps, and for how long at most: completions end it. */
#define IDLE_POLLS 64
#define IDLE_NS 50000
/* How many requests posted while others are under way go out together, if threads that poll drive the engine. */
#define PROMPT_POSTS 16u

static struct sv_tcp_doorbell doorbell;

struct sv_tcp_doorbell *sv_tcp_doorbell(void)
{
	return &doorbell;
}

/* After the index is stored: the atomic OR is the fence between that store and the load of `sleeping`. */
static void ring_bell(uint32_t bell, bool prompt)
{
	uint64_t one = 1;

	__atomic_or_fetch(&doorbell.due[bell / 64], 1ull << bell % 64, __ATOMIC_SEQ_CST);
	__atomic_store_n(&doorbell.pending, 1, __ATOMIC_SEQ_CST);
	if (sv_load(&doorbell.polled)) {
		if (!prompt || sv_tcp_drive(SV_TCP_TURN_POST))
			return;
		if (!sv_tcp_may_drive())
			sv_tcp_call_engine();
	}
	/* The first of many posts wakes the engine. */
	if (unlikely(__atomic_load_n(&doorbell.sleeping, __ATOMIC_SEQ_CST)) &&
	    __atomic_exchange_n(&doorbell.sleeping, 0, __ATOMIC_SEQ_CST)) {
		int saved = errno;

		(void)!write(sv_load(&doorbell.wake_fd), &one, sizeof(one));
		errno = saved;
	}
}

/* A request that moves nothing. Returns 0 or an errno value. */
static SV_NOINLINE int put_local(struct sv_tcp_send *to, const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;

	to->wr_id = wr->wr_id;
	to->opcode = wr->opcode;
	to->flags = wr->send_flags & ~IBV_SEND_INLINE;
	to->num_sge = 0;
	to->length = 0;
	to->imm = wr->invalidate_rkey;
	if (wr->opcode == IBV_WR_LOCAL_INV)
		return 0;
	if ((info->length && !info->mr) || (info->mw_access_flags & ~WINDOW_ACCESS))
		return EINVAL;
	to->imm = info->mw_access_flags;
	to->remote_addr = info->addr;
	to->compare_add = info->length;
	to->swap = info->length ? info->mr->lkey : 0;
	to->rkey = wr->bind_mw.rkey;
	return 0;
}

static void put_destination(struct sv_tcp_send *to, const struct ibv_send_wr *wr)
{
	const struct sv_tcp_ah *ah = sv_container_of(wr->wr.ud.ah, struct sv_tcp_ah, v);

	to->remote_addr = ah->gid_prefix;
	to->compare_add = ah->gid_interface;
	to->swap = (uint64_t)ah->sl << 32 | wr->wr.ud.remote_qkey;
	to->rkey = wr->wr.ud.remote_qpn;
}

/* Of XRC: the shared receive queue at the peer, in a field that the opcode leaves free. */
static void put_srq(struct sv_tcp_send *to, uint32_t number)
{
	if (OPCODES_ATOMIC >> to->opcode & 1)
		to->imm = number;
	else
		to->compare_add = number;
}

/* Writes one request; returns 0 or an errno value, then nothing has changed. */
static int put_send(struct sv_tcp_qp *qp, uint32_t tail, const struct ibv_send_wr *wr)
{
	struct sv_tcp_send *to = (void *)(qp->send.entries + (uint64_t)(tail & qp->send.mask) * qp->send.stride);
	struct ibv_sge *sges = (struct ibv_sge *)(to + 1);
	uint32_t flags = wr->send_flags;
	uint64_t length = 0;

	if (unlikely(tail - sv_load_acquire(&qp->send_head) >= qp->send.max))
		return ENOMEM;
	if (unlikely((uint32_t)wr->opcode > 31 || !(qp->opcodes >> wr->opcode & 1)))
		return EINVAL;
	if (unlikely(OPCODES_LOCAL >> wr->opcode & 1))
		return put_local(to, wr);
	if (unlikely((uint32_t)wr->num_sge > qp->send.max_sge && !(flags & IBV_SEND_INLINE)))
		return EINVAL;
	if (flags & IBV_SEND_INLINE) {
		char *payload = (char *)sges;

		if (OPCODES_READING >> wr->opcode & 1)
			return EINVAL;
		for (int i = 0; i < wr->num_sge; i++) {
			if (length + wr->sg_list[i].length > qp->send.max_inline)
				return EINVAL;
			memcpy(payload + length, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
			length += wr->sg_list[i].length;
		}
		to->num_sge = 0;
	} else {
		for (int i = 0; i < wr->num_sge; i++) {
			sges[i] = wr->sg_list[i];
			length += sges[i].length;
		}
		to->num_sge = wr->num_sge;
	}
	to->wr_id = wr->wr_id;
	to->opcode = wr->opcode;
	to->flags = flags;
	to->imm = wr->imm_data;
	to->length = length;
	if (OPCODES_ATOMIC >> wr->opcode & 1) {
		to->remote_addr = wr->wr.atomic.remote_addr;
		to->compare_add = wr->wr.atomic.compare_add;
		to->swap = wr->wr.atomic.swap;
		to->rkey = wr->wr.atomic.rkey;
	} else if (qp->v.qp_type == IBV_QPT_UD) {
		put_destination(to, wr);
	} else {
		to->remote_addr = wr->wr.rdma.remote_addr;
		to->rkey = wr->wr.rdma.rkey;
	}
	if (unlikely(qp->v.qp_type == IBV_QPT_XRC_SEND))
		put_srq(to, wr->qp_type.xrc.remote_srqn);
	return 0;
}

int sv_tcp_post_send(struct ibv_qp *v, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct sv_tcp_qp *qp = sv_container_of(v, struct sv_tcp_qp, v);
	uint32_t tail = qp->send_tail;
	int err = 0;

	for (; wr && !(err = put_send(qp, tail, wr)); wr = wr->next)
		tail++;
	if (err)
		*bad = wr;
	if (tail != qp->send_tail) {
		bool prompt = qp->send_tail == sv_load(&qp->send_head) || ((tail ^ qp->send_tail) & ~(PROMPT_POSTS - 1));

		sv_store_release(&qp->send_tail, tail);
		ring_bell(qp->bell, prompt);
	}
	return err;
}

int sv_tcp_bind_mw(struct ibv_qp *v, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = { .mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = bind->bind_info },
	}, *bad;
	int err = sv_tcp_post_send(v, &wr, &bad);

	if (!err)
		mw->rkey = wr.bind_mw.rkey;
	return err;
}

/* Writes a list of receives; returns 0 or an errno value, *bad being the first that was not taken. */
static int put_recvs(const struct sv_tcp_ring *ring, uint32_t *tail, const uint32_t *head, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad)
{
	for (; wr; wr = wr->next, ++*tail) {
		struct sv_tcp_recv *to = (void *)(ring->entries + (uint64_t)(*tail & ring->mask) * ring->stride);
		struct ibv_sge *sges = (struct ibv_sge *)(to + 1);

		*bad = wr;
		if (unlikely(*tail - sv_load_acquire(head) >= ring->max))
			return ENOMEM;
		if (unlikely((uint32_t)wr->num_sge > ring->max_sge))
			return EINVAL;
		to->wr_id = wr->wr_id;
		to->num_sge = wr->num_sge;
		for (int i = 0; i < wr->num_sge; i++)
			sges[i] = wr->sg_list[i];
	}
	return 0;
}

int sv_tcp_post_recv(struct ibv_qp *v, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sv_tcp_qp *qp = sv_container_of(v, struct sv_tcp_qp, v);
	uint32_t tail = qp->recv_tail;
	int err;

	if (unlikely(sv_load(&v->state) == IBV_QPS_RESET)) {
		*bad = wr;
		return EINVAL;
	}
	err = put_recvs(&qp->recv, &tail, &qp->recv_head, wr, bad);
	if (tail != qp->recv_tail) {
		__atomic_store_n(&qp->recv_tail, tail, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&qp->recv_wanted, __ATOMIC_SEQ_CST))
			ring_bell(qp->bell, true);
	}
	return err;
}

int sv_tcp_post_srq_recv(struct ibv_srq *v, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sv_tcp_srq *srq = sv_container_of(v, struct sv_tcp_srq, v);
	uint32_t tail;
	bool wanted = false;
	int err;

	sv_tcp_take(&srq->lock);
	tail = srq->tail;
	err = put_recvs(&srq->recv, &tail, &srq->head, wr, bad);
	if (tail != srq->tail) {
		__atomic_store_n(&srq->tail, tail, __ATOMIC_SEQ_CST);
		wanted = __atomic_load_n(&srq->wanted, __ATOMIC_SEQ_CST);
	}
	sv_store_release(&srq->lock, 0);
	if (wanted)
		ring_bell(srq->bell, true);
	return err;
}

void sv_tcp_fail(struct ibv_qp *v)
{
	struct sv_tcp_qp *qp = sv_container_of(v, struct sv_tcp_qp, v);

	sv_store_release(&qp->fail_asked, 1);
	ring_bell(qp->bell, true);
}

void sv_tcp_cq_lock(struct sv_tcp_cq *cq)
{
	sv_tcp_take(&cq->lock);
}

void sv_tcp_cq_unlock(struct sv_tcp_cq *cq)
{
	sv_store_release(&cq->lock, 0);
}

/*
 * Sleeps until something completes, in whichever queue: a program may poll several in turn. The count of sleepers is
 * fenced before the last look, and the engine looks at it after it has put a completion in.
 */
static void rest(const struct sv_tcp_cq *cq)
{
	uint32_t seen = __atomic_load_n(&doorbell.completions, __ATOMIC_SEQ_CST);

	__atomic_fetch_add(&doorbell.waiting, 1, __ATOMIC_SEQ_CST);
	if (sv_load_acquire(&cq->tail) == cq->head)
		sv_futex_wait(&doorbell.completions, seen, IDLE_NS);
	__atomic_fetch_sub(&doorbell.waiting, 1, __ATOMIC_SEQ_CST);
}

static bool has_none(struct sv_tcp_cq *cq)
{
	if (cq->head == sv_load_acquire(&cq->tail))
		return true;
	cq->idle = 0;
	return false;
}

bool sv_tcp_cq_empty(struct sv_tcp_cq *cq)
{
	bool idle;

	if (!has_none(cq))
		return false;
	idle = ++cq->idle >= IDLE_POLLS;
	if (sv_load(&doorbell.polled) && sv_tcp_drive(idle ? SV_TCP_TURN_REST : SV_TCP_TURN_POLL))
		return has_none(cq);
	if (!idle)
		return true;
	if (!sv_load(&doorbell.offered) && sv_tcp_may_drive())
		sv_store(&doorbell.offered, 1);
	rest(cq);
	return cq->head == sv_load_acquire(&cq->tail);
}

int sv_tcp_poll_cq(struct ibv_cq *v, int count, struct ibv_wc *wc)
{
	struct sv_tcp_cq *cq = sv_container_of(v, struct sv_tcp_cq, v);
	uint32_t head, tail;
	int given = 0;

	if (sv_tcp_cq_empty(cq))
		return 0;
	head = cq->head;
	tail = sv_load_acquire(&cq->tail);
	sv_tcp_cq_lock(cq);
	while (given < count && head != tail)
		wc[given++] = ((const struct ibv_wc *)cq->entries)[head++ & cq->mask];
	sv_store_release(&cq->head, head);
	sv_tcp_cq_unlock(cq);
	return given;
}

int sv_tcp_req_notify_cq(struct ibv_cq *v, int solicited_only)
{
	struct sv_tcp_cq *cq = sv_container_of(v, struct sv_tcp_cq, v);
	uint32_t armed = SV_TCP_ARMED_NOT;
	bool missed;

	if (!solicited_only)
		__atomic_store_n(&cq->armed, SV_TCP_ARMED_ANY, __ATOMIC_SEQ_CST);
	else	/* a request for any completion stays what it is */
		sv_cas(&cq->armed, &armed, SV_TCP_ARMED_SOLICITED);
	/*
	 * What has come since the queue was looked at last may have come before the request, which is still there then. As
	 * Mellanox's HCAs do: programs that do not poll again after their request sleep well on those.
	 */
	armed = __atomic_load_n(&cq->armed, __ATOMIC_SEQ_CST);
	missed = armed != SV_TCP_ARMED_NOT && cq->head != __atomic_load_n(&cq->tail, __ATOMIC_SEQ_CST) &&
		sv_cas(&cq->armed, &armed, SV_TCP_ARMED_NOT);
	/* Who arms is about to sleep: it will not drive. */
	if (sv_load(&doorbell.polled)) {
		sv_store(&doorbell.offered, 0);
		sv_tcp_call_engine();
	}
	return missed ? SV_TCP_MISSED : 0;
}

void sv_tcp_cq_move(struct sv_tcp_cq *cq, struct ibv_wc *entries, struct sv_tcp_stamp *stamps, uint32_t mask)
{
	sv_tcp_cq_lock(cq);
	for (uint32_t i = sv_load(&cq->head); i != cq->tail; i++) {
		entries[i & mask] = ((const struct ibv_wc *)cq->entries)[i & cq->mask];
		if (stamps)
			stamps[i & mask] = ((const struct sv_tcp_stamp *)cq->stamps)[i & cq->mask];
	}
	cq->entries = (uintptr_t)entries;
	cq->stamps = (uintptr_t)stamps;
	cq->mask = mask;
	sv_tcp_cq_unlock(cq);
}
