/* SPDX-License-Identifier: Apache-2.0 */
#include "control/control.h"
#include "datapath/kept.h"
#include "datapath/landing.h"
#include "datapath/foreign_qps.h"
#include "xrc/domain.h"

#include <sys/stat.h>

/*
 * Guards the domains, and which SRQs belong to them. Taken inside the gate, with no lock of a queue held: those are taken
 * under it.
 */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t domains;

struct ibv_xrcd *sv_xrcd_alloc(struct ibv_context *vcontext, int fd)
{
	struct sv_xrcd *xrcd = sv_slot_alloc(SV_KIND_XRCD, sizeof(*xrcd)), *other;
	struct stat file;
	uint32_t index = 0;

	if (!xrcd)
		return NULL;
	xrcd->v.context = vcontext;
	pthread_mutex_lock(&mutex);
	if (fd >= 0 && !fstat(fd, &file)) {
		xrcd->device = file.st_dev;
		xrcd->inode = file.st_ino;
		while (!xrcd->domain && (other = sv_slot_next(SV_KIND_XRCD, sizeof(*other), &index)))
			if (other->v.context == vcontext && other->device == xrcd->device && other->inode == xrcd->inode)
				xrcd->domain = other->domain;
	}
	if (!xrcd->domain)
		xrcd->domain = ++domains;
	pthread_mutex_unlock(&mutex);
	return &xrcd->v;
}

uint32_t sv_xrcd_domain(struct ibv_xrcd *vxrcd)
{
	return sv_xrcd_of(vxrcd)->domain;
}

void sv_xrcd_bind(struct ibv_xrcd *vxrcd, struct ibv_xrcd *real)
{
	sv_xrcd_of(vxrcd)->real = real;
}

void sv_xrcd_free(struct ibv_xrcd *vxrcd)
{
	pthread_mutex_lock(&mutex);
	sv_slot_free(SV_KIND_XRCD, sizeof(struct sv_xrcd), sv_xrcd_of(vxrcd));
	pthread_mutex_unlock(&mutex);
}

void sv_qp_set_srqs(struct ibv_qp *vqp, const struct sv_idmap *map)
{
	sv_qp_of(vqp)->xrc->srqs = map;
}

int sv_qp_targets(struct ibv_qp *vqp, uint32_t *numbers)
{
	const struct sv_targets *targets = &sv_qp_of(vqp)->xrc->targets;
	int count = 0;

	for (uint32_t slot = 0; slot < SV_TARGET_SLOTS && targets->count >= 0; slot++)
		if (targets->slots[slot])
			numbers[count++] = targets->slots[slot] - 1;
	return targets->count < 0 ? -1 : count;
}

/* The mutex is held. */
static struct sv_srq *next_srq(const struct sv_qp *qp, uint32_t *index)
{
	struct sv_srq *srq;

	while ((srq = sv_slot_next(SV_KIND_SRQ, sizeof(*srq), index)))
		if (srq->xrcd && srq->xrcd->domain == qp->xrc->domain)
			return srq;
	return NULL;
}

void sv_xrc_each_cq(const struct sv_qp *qp, void (*visit)(struct sv_cq *cq, const struct sv_qp *qp))
{
	struct sv_srq *srq;
	uint32_t index = 0;

	pthread_mutex_lock(&mutex);
	while ((srq = next_srq(qp, &index)))
		visit(srq->cq, qp);
	pthread_mutex_unlock(&mutex);
}

void sv_xrc_collect(const struct sv_qp *qp, struct sv_thread *self)
{
	struct sv_srq *srq;
	uint32_t index = 0;

	sv_thread_holds_nothing(self);
	pthread_mutex_lock(&mutex);
	while ((srq = next_srq(qp, &index))) {
		sv_lock_take(&srq->cq->lock, self, SV_HELD_CQ);
		sv_cq_collect(&srq->cq->v, qp);
		sv_lock_drop(&srq->cq->lock);
	}
	pthread_mutex_unlock(&mutex);
}

void sv_xrc_forget_receiver(struct sv_qp *qp, struct sv_thread *self)
{
	struct sv_srq *srq;
	uint32_t index = 0;

	if (self)
		sv_thread_holds_nothing(self);
	pthread_mutex_lock(&mutex);
	while ((srq = next_srq(qp, &index))) {
		if (self)
			sv_lock_take(&srq->lock, self, SV_HELD_RECV);
		sv_landings_forget(&srq->landings, qp);
		srq->landed = srq->landings.landed.first != NULL;
		if (self) {
			sv_lock_drop(&srq->lock);
			sv_lock_take(&srq->cq->lock, self, SV_HELD_CQ);
		}
		sv_kept_purge(srq->cq, qp);
		if (self)
			sv_lock_drop(&srq->cq->lock);
	}
	pthread_mutex_unlock(&mutex);
}

void sv_xrc_make_foreign(struct sv_qp *qp, struct sv_thread *self)
{
	struct sv_srq *srq;
	uint32_t index = 0;

	sv_thread_holds_nothing(self);
	pthread_mutex_lock(&mutex);
	while ((srq = next_srq(qp, &index))) {
		/* Who has found the QP by its number has counted by it when this lock is free. */
		sv_lock_take(&srq->cq->lock, self, SV_HELD_CQ);
		sv_kept_disown(srq->cq, qp);
		sv_lock_drop(&srq->cq->lock);
	}
	pthread_mutex_unlock(&mutex);
	sv_foreign_qp_had_brought(qp->xrc->domain, qp->v.qp_num, qp->shared_received + qp->landed_total);
}

void sv_xrc_leave(struct sv_srq *srq)
{
	pthread_mutex_lock(&mutex);
	srq->xrcd = NULL;
	pthread_mutex_unlock(&mutex);
	sv_add(&srq->cq->users, -1);
}

bool sv_xrc_hold(struct sv_qp *qp)
{
	bool held;

	pthread_mutex_lock(&mutex);
	held = qp->xrc->handles > 0;
	qp->xrc->handles += held;
	pthread_mutex_unlock(&mutex);
	return held;
}

bool sv_xrc_let_go(struct sv_qp *qp)
{
	bool last;

	pthread_mutex_lock(&mutex);
	last = !--qp->xrc->handles;
	pthread_mutex_unlock(&mutex);
	return last;
}

void sv_xrc_take_back(struct sv_qp *qp)
{
	pthread_mutex_lock(&mutex);
	qp->xrc->handles++;
	pthread_mutex_unlock(&mutex);
}

/* ---- Verbs ------------------------------------------------------------------------------------------------------ */

struct ibv_xrcd *sv_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	return SV_CONTROL_POINTER(struct ibv_xrcd, SV_OP_OPEN_XRCD, "ibv_open_xrcd", SV_POINTER(context),
				  SV_POINTER(attr));
}

int sv_close_xrcd(struct ibv_xrcd *xrcd)
{
	return SV_CONTROL(SV_OP_CLOSE_XRCD, "ibv_close_xrcd", NULL, SV_POINTER(xrcd));
}

struct ibv_qp *sv_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	return SV_CONTROL_POINTER(struct ibv_qp, SV_OP_OPEN_QP, "ibv_open_qp", SV_POINTER(context), SV_POINTER(attr));
}

int sv_get_srq_num(struct ibv_srq *vsrq, uint32_t *number)
{
	struct sv_srq *srq = sv_srq_of(vsrq);

	if (!srq->xrcd)
		return EOPNOTSUPP;
	*number = srq->number;
	return 0;
}
