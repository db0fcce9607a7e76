/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for the driver. It keeps no model but the list of virtual objects and what they were made of. jvm.c starts
 * it.
 */
#define _GNU_SOURCE
#include "driver.h"
#include "shadowverbs.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_query_port

#define MAX_OBJECTS 4096
#define SERVICE_THREADS 3

enum kind { CHANNEL, PD, DM, MR, MW, CQ, XRCD, SRQ, QP };	/* in the order in which they are made anew */

struct object {
	enum kind kind;
	void *v;
	struct ibv_context *context;
	union {
		struct { int cqe; struct ibv_comp_channel *channel; uint64_t wc_flags; } cq;
		struct { struct ibv_qp_init_attr init; struct ibv_xrcd *xrcd; int state; struct ibv_qp *opened; bool closed; } qp;
		struct { struct ibv_srq_init_attr init; struct ibv_xrcd *xrcd; struct ibv_cq *cq; } srq;
		struct { int access; enum { MEMORY, NONE, DEVICE } of; struct ibv_dm *dm; uint64_t offset; } mr;
		uint64_t dm_length;
	};
};

unsigned driver_requests[SV_OP_COUNT];
int driver_exit_status = -1;
uint64_t driver_disconnected;
unsigned driver_checkpoints;
uint64_t driver_checkpoint_call;
int driver_checkpoint_processes;
int driver_fail_op, driver_fail_err;
unsigned driver_hold;
unsigned driver_taken;

static struct object objects[MAX_OBJECTS];
static unsigned object_count;
static pthread_mutex_t model = PTHREAD_MUTEX_INITIALIZER;
static struct sv_masks masks;
static struct sv_keymap *lkeys, *rkeys;

/* The real library, as the driver finds it: past this process's preload. */
static struct {
#define REAL(name) __typeof__(&ibv_##name) name;
#define REALS                                                                                           \
	REAL(open_device) REAL(close_device) REAL(query_device) REAL(query_gid) REAL(alloc_pd)          \
	REAL(dealloc_pd) REAL(dereg_mr) REAL(reg_dmabuf_mr) REAL(create_comp_channel) REAL(destroy_comp_channel)            \
	REAL(create_cq) REAL(destroy_cq) REAL(resize_cq) REAL(create_qp) REAL(modify_qp)                \
	REAL(query_qp) REAL(destroy_qp) REAL(create_srq) REAL(modify_srq) REAL(query_srq)               \
	REAL(destroy_srq) REAL(create_ah) REAL(destroy_ah)
	REALS
#undef REAL
} real;

static void die(const char *what)
{
	fprintf(stderr, "test driver: %s\n", what);
	abort();
}

static struct object *add(enum kind kind, void *v, struct ibv_context *context)
{
	struct object *object = &objects[object_count++];

	if (object_count == MAX_OBJECTS)
		die("too many objects");
	memset(object, 0, sizeof(*object));
	object->kind = kind;
	object->v = v;
	object->context = context;
	return object;
}

static struct object *find(const void *v)
{
	for (unsigned i = 0; i < object_count; i++)
		if (objects[i].v == v)
			return &objects[i];
	die("an object that it does not know");
	return NULL;
}

static void forget(const void *v)
{
	struct object *object = find(v);

	memmove(object, object + 1, (char *)&objects[--object_count] - (char *)object);
}

static void *pointer(uint64_t arg)
{
	return (void *)(uintptr_t)arg;
}

static int open_context(struct ibv_device *vdevice, uint64_t *result)
{
	struct ibv_context *made = real.open_device(sv_device_real(vdevice));
	struct ibv_context *v = made ? sv_context_alloc(vdevice) : NULL;

	if (!v)
		return errno;
	*result = (uintptr_t)v;
	return sv_context_open(v, made);
}

static struct ibv_dm *make_real_dm(struct ibv_context *vcontext, uint64_t length)
{
	struct ibv_alloc_dm_attr attr = { .length = (length + 3) & ~3ull };

	return sv_real_alloc_dm(sv_real(vcontext), &attr);
}

static struct ibv_mr *make_real_mr(struct ibv_mr *v, struct ibv_pd *vpd, const struct object *object)
{
	struct ibv_pd *pd = sv_real(vpd);

	if (object->mr.of == NONE)
		return sv_real_alloc_null_mr(pd);
	if (object->mr.of == DEVICE)
		return sv_real_reg_dm_mr(pd, sv_real(object->mr.dm), object->mr.offset, v->length, object->mr.access);
	return sv_real_reg_mr(pd, v->addr, v->length, (uintptr_t)v->addr, object->mr.access);
}

static struct ibv_cq *make_real_cq(struct ibv_cq *v, int cqe, struct ibv_comp_channel *channel, uint64_t wc_flags)
{
	struct ibv_comp_channel *made = channel ? sv_real(channel) : NULL;
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe,
		.cq_context = v,
		.channel = made,
		.wc_flags = wc_flags | IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_SRC_QP |
			    IBV_WC_EX_WITH_SLID,
	};

	if (wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS)
		return (struct ibv_cq *)sv_real_create_cq_ex(sv_real(v->context), &attr);
	return real.create_cq(sv_real(v->context), cqe, v, made, 0);
}

static int open_cq(struct ibv_context *vcontext, const struct sv_cq_spec *spec, uint64_t *result)
{
	struct ibv_cq *v = sv_cq_alloc(vcontext), *made = make_real_cq(v, spec->cqe, spec->channel, spec->wc_flags);
	struct object *object;
	int err = made ? sv_cq_open(v, spec) : errno;

	if (err) {
		sv_cq_free(v);
		return err;
	}
	object = add(CQ, v, vcontext);
	object->cq.cqe = spec->cqe;
	object->cq.channel = spec->channel;
	object->cq.wc_flags = spec->wc_flags;
	*result = (uintptr_t)v;
	return sv_cq_bind(v, made);
}

/* Of XRC with a domain in place of a protection domain. */
static struct ibv_qp *make_real_qp(struct ibv_qp *v, struct ibv_xrcd *xrcd, const struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr plain = *init;
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = v,
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = xrcd ? sv_real(xrcd) : NULL,
	};

	if (xrcd)
		return sv_real_create_qp_ex(sv_real(v->context), &attr);
	plain.qp_context = v;
	plain.send_cq = sv_real(init->send_cq);
	plain.recv_cq = init->recv_cq ? sv_real(init->recv_cq) : NULL;
	plain.srq = init->srq ? sv_real(init->srq) : NULL;
	plain.cap.max_send_wr++;
	return real.create_qp(sv_real(v->pd), &plain);
}

static int open_qp(struct ibv_pd *vpd, struct ibv_xrcd *xrcd, struct ibv_qp_init_attr *attr, bool extended,
		   uint64_t *result)
{
	struct ibv_context *context = vpd ? vpd->context : xrcd->context;
	struct ibv_qp *v = sv_qp_alloc(context, vpd), *made;
	struct sv_qp_spec spec = {
		.xrcd = xrcd,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.qp_context = attr->qp_context,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.extended = extended,
	};
	struct object *object;
	int err;

	if (attr->qp_type == IBV_QPT_RAW_PACKET) {
		sv_qp_free(v);
		return EOPNOTSUPP;
	}
	made = make_real_qp(v, xrcd, attr);
	spec.vqp_num = made->qp_num ^ masks.qp_num;
	err = sv_qp_open(v, &spec);
	if (err)
		return err;
	err = sv_qp_bind(v, made);
	if (err)
		return err;
	object = add(QP, v, context);
	object->qp.init = *attr;
	object->qp.xrcd = xrcd;
	*result = (uintptr_t)v;
	return 0;
}

static struct ibv_qp *open_real_handle(struct ibv_qp *v, const struct object *object)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
			     IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = object->qp.opened ? ((struct ibv_qp *)sv_real(object->qp.opened))->qp_num : v->qp_num ^ masks.qp_num,
		.xrcd = sv_real(object->qp.xrcd),
		.qp_context = v,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return sv_real_open_qp(sv_real(v->context), &attr);
}

/* The first handle of a QP that ibv_open_qp made; NULL: there is none. */
static struct object *handle_of(const struct ibv_qp *v)
{
	for (unsigned i = 0; i < object_count; i++)
		if (objects[i].kind == QP && objects[i].qp.opened == v)
			return &objects[i];
	return NULL;
}

static int open_handle(struct ibv_context *context, const struct ibv_qp_open_attr *attr, uint64_t *result)
{
	struct object shape = { .qp = { .xrcd = attr->xrcd } };
	struct sv_qp_spec spec = {
		.xrcd = attr->xrcd,
		.qp_context = attr->qp_context,
		.qp_type = attr->qp_type,
		.vqp_num = attr->qp_num,
	};
	struct ibv_qp *v;
	int err;

	for (unsigned i = 0; i < object_count; i++)
		if (objects[i].kind == QP && objects[i].qp.xrcd == attr->xrcd && !objects[i].qp.opened &&
		    ((struct ibv_qp *)objects[i].v)->qp_num == attr->qp_num)
			shape.qp.opened = objects[i].v;
	/* Any other number is that of another process' QP. */
	spec.foreign = !shape.qp.opened;
	spec.opened = shape.qp.opened;
	v = sv_qp_alloc(context, NULL);
	err = sv_qp_open(v, &spec);
	if (err) {
		sv_qp_free(v);
		return err;
	}
	*result = (uintptr_t)v;
	err = sv_qp_bind(v, open_real_handle(v, &shape));
	add(QP, v, context)->qp = shape.qp;
	return err;
}

bool driver_others_have_open;

static int destroy_qp(struct ibv_qp *v)
{
	struct ibv_qp *behind = find(v)->qp.opened;
	int err = real.destroy_qp(sv_real(v));

	if (behind) {
		forget(v);
		sv_qp_free(v);
	} else {
		behind = v;
		find(v)->qp.closed = true;
	}
	if (find(behind)->qp.closed && !handle_of(behind)) {
		forget(behind);
		if (driver_others_have_open)
			sv_qp_leave(behind);
		sv_qp_free(behind);
	}
	return err;
}

static struct ibv_srq *make_real_srq(struct ibv_srq *v, const struct object *object)
{
	struct ibv_srq_init_attr_ex attr = {
		.srq_context = v,
		.attr = object->srq.init.attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = sv_real(v->pd),
	};

	if (!object->srq.xrcd)
		return real.create_srq(sv_real(v->pd), (struct ibv_srq_init_attr *)&attr);
	attr.xrcd = sv_real(object->srq.xrcd);
	attr.cq = sv_real(object->srq.cq);
	return sv_real_create_srq_ex(sv_real(v->context), &attr);
}

static int open_srq(struct ibv_pd *vpd, struct ibv_srq_init_attr *attr, struct ibv_xrcd *xrcd, struct ibv_cq *cq,
		    uint64_t *result)
{
	struct ibv_srq *v = sv_srq_alloc(vpd), *made;
	const struct object shape = { .srq = { *attr, xrcd, cq } };
	struct sv_srq_spec spec = { attr->srq_context, attr->attr.max_wr, attr->attr.max_sge, xrcd, cq, 0, 64 };
	int err;

	made = make_real_srq(v, &shape);
	if (xrcd)
		sv_real_get_srq_num(made, &spec.vnumber);
	spec.vnumber ^= masks.qp_num;
	err = sv_srq_open(v, &spec);
	if (err)
		return err;
	sv_srq_bind(v, made);
	add(SRQ, v, vpd->context)->srq = shape.srq;
	*result = (uintptr_t)v;
	return 0;
}

static int carry_out(struct sv_request *r)
{
	void *first = pointer(r->arg[0]);
	void *made, *v;
	struct object *object;
	int err;

	if ((int)r->op == driver_fail_op)
		return driver_fail_err;
	switch (r->op) {
	case SV_OP_OPEN_DEVICE:
		return open_context(first, &r->result);
	case SV_OP_CLOSE_DEVICE:
		made = sv_real(first);
		sv_context_bind(first, NULL);
		err = real.close_device(made);
		sv_context_free(first);
		return err;
	case SV_OP_QUERY_DEVICE:
		return real.query_device(sv_real(first), pointer(r->arg[1]));
	case SV_OP_QUERY_PORT:
		return sv_real_query_port(sv_real(first), r->arg[1], pointer(r->arg[2]));
	case SV_OP_QUERY_GID:
		return real.query_gid(sv_real(first), r->arg[1], r->arg[2], pointer(r->arg[3])) ? errno : 0;
	case SV_OP_ALLOC_PD:
		v = sv_pd_alloc(first);
		sv_pd_bind(v, real.alloc_pd(sv_real(first)));
		add(PD, v, first);
		r->result = (uintptr_t)v;
		return 0;
	case SV_OP_ALLOC_PARENT_DOMAIN:
		v = sv_pd_alloc(((struct ibv_pd *)first)->context);
		sv_pd_bind(v, real.alloc_pd(sv_real(((struct ibv_pd *)first)->context)));
		add(PD, v, ((struct ibv_pd *)first)->context);
		r->result = (uintptr_t)v;
		return 0;
	case SV_OP_DEALLOC_PD:
		err = real.dealloc_pd(sv_real(first));
		forget(first);
		sv_pd_free(first);
		return err;
	case SV_OP_REG_MR:
		made = sv_real_reg_mr(sv_real(first), pointer(r->arg[1]), r->arg[2], r->arg[3], r->arg[4]);
		if (!made)
			return errno;
		v = sv_mr_alloc(first, pointer(r->arg[1]), r->arg[2], ((struct ibv_mr *)made)->lkey ^ masks.key,
				((struct ibv_mr *)made)->rkey ^ masks.key);
		sv_mr_bind(v, made);
		object = add(MR, v, ((struct ibv_pd *)first)->context);
		object->mr.access = r->arg[4];
		r->result = (uintptr_t)v;
		return 0;
	case SV_OP_ALLOC_NULL_MR:
	case SV_OP_REG_DM_MR: {
		struct object shape = { .mr = { .of = r->op == SV_OP_REG_DM_MR ? DEVICE : NONE } };

		if (shape.mr.of == DEVICE) {
			shape.mr.dm = pointer(r->arg[1]);
			shape.mr.offset = r->arg[2];
		}
		v = sv_mr_alloc(first, NULL, shape.mr.of == DEVICE ? r->arg[3] : 0, 0, 0);
		made = make_real_mr(v, first, &shape);
		((struct ibv_mr *)v)->lkey = ((struct ibv_mr *)made)->lkey ^ masks.key;
		((struct ibv_mr *)v)->rkey = ((struct ibv_mr *)made)->rkey ^ masks.key;
		sv_mr_bind(v, made);
		add(MR, v, ((struct ibv_pd *)first)->context)->mr = shape.mr;
		r->result = (uintptr_t)v;
		return 0;
	}
	case SV_OP_REG_DMABUF_MR:
		made = real.reg_dmabuf_mr(sv_real(first), r->arg[1], r->arg[2], r->arg[3], r->arg[4], r->arg[5]);
		if (!made)
			return errno;
		v = sv_mr_alloc(first, pointer(r->arg[1]), r->arg[2], ((struct ibv_mr *)made)->lkey ^ masks.key, 0);
		sv_mr_bind(v, made);
		add(MR, v, ((struct ibv_pd *)first)->context);
		r->result = (uintptr_t)v;
		return 0;
	case SV_OP_ALLOC_MW:
		made = sv_real_alloc_mw(sv_real(first), r->arg[1]);
		v = sv_mw_alloc(first, r->arg[1], ((struct ibv_mw *)made)->rkey ^ masks.key);
		sv_mw_bind(v, made);
		add(MW, v, ((struct ibv_pd *)first)->context);
		r->result = (uintptr_t)v;
		return 0;
	case SV_OP_DEALLOC_MW:
		err = sv_real_dealloc_mw(sv_real(first));
		forget(first);
		sv_mw_free(first);
		return err;
	case SV_OP_ALLOC_DM: {
		uint64_t length = ((struct ibv_alloc_dm_attr *)pointer(r->arg[1]))->length;

		made = make_real_dm(first, length);
		if (!made)
			return errno;
		v = sv_dm_alloc(first, length);
		add(DM, v, first)->dm_length = length;
		r->result = (uintptr_t)v;
		return sv_dm_bind(v, made);
	}
	case SV_OP_FREE_DM:
		err = sv_real_free_dm(sv_real(first));
		forget(first);
		sv_dm_free(first);
		return err;
	case SV_OP_DEREG_MR:
		err = real.dereg_mr(sv_real(first));
		forget(first);
		sv_mr_free(first);
		return err;
	case SV_OP_CREATE_COMP_CHANNEL:
		v = sv_channel_alloc(first);
		err = sv_channel_bind(v, real.create_comp_channel(sv_real(first)));
		add(CHANNEL, v, first);
		r->result = (uintptr_t)v;
		return err;
	case SV_OP_DESTROY_COMP_CHANNEL:
		err = real.destroy_comp_channel(sv_real(first));
		if (err)
			return err;
		forget(first);
		sv_channel_free(first);
		return 0;
	case SV_OP_CREATE_CQ: {
		const struct sv_cq_spec spec = {
			.channel = pointer(r->arg[3]),
			.cq_context = pointer(r->arg[2]),
			.cqe = r->arg[1],
		};

		return open_cq(first, &spec, &r->result);
	}
	case SV_OP_CREATE_CQ_EX: {
		const struct ibv_cq_init_attr_ex *attr = pointer(r->arg[1]);
		const struct sv_cq_spec spec = {
			.channel = attr->channel,
			.cq_context = attr->cq_context,
			.cqe = attr->cqe,
			.extended = 1,
			.wc_flags = attr->wc_flags,
			.single_threaded = attr->comp_mask ? attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED : 0,
		};

		return open_cq(first, &spec, &r->result);
	}
	case SV_OP_MODIFY_CQ:
		return sv_real_modify_cq(sv_real(first), pointer(r->arg[1]));
	case SV_OP_RESIZE_CQ:
		err = real.resize_cq(sv_real(first), r->arg[1]);
		if (!err)
			sv_cq_resized(first, r->arg[1]);
		return err;
	case SV_OP_DESTROY_CQ:
		err = real.destroy_cq(sv_real(first));
		forget(first);
		sv_cq_free(first);
		return err;
	case SV_OP_CREATE_QP:
		return open_qp(first, NULL, pointer(r->arg[1]), false, &r->result);
	case SV_OP_CREATE_QP_EX: {
		struct ibv_qp_init_attr_ex *attr = pointer(r->arg[1]);

		return open_qp(attr->pd, attr->comp_mask & IBV_QP_INIT_ATTR_XRCD ? attr->xrcd : NULL,
			       (struct ibv_qp_init_attr *)attr, attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			       &r->result);
	}
	case SV_OP_CREATE_SRQ:
		return open_srq(first, pointer(r->arg[1]), NULL, NULL, &r->result);
	case SV_OP_CREATE_SRQ_EX: {
		struct ibv_srq_init_attr_ex *attr = pointer(r->arg[1]);

		return open_srq(attr->pd, (struct ibv_srq_init_attr *)attr, attr->xrcd, attr->cq, &r->result);
	}
	case SV_OP_OPEN_XRCD:
		v = sv_xrcd_alloc(first, ((struct ibv_xrcd_init_attr *)pointer(r->arg[1]))->fd);
		sv_xrcd_bind(v, sv_real_open_xrcd(sv_real(first), pointer(r->arg[1])));
		add(XRCD, v, first);
		r->result = (uintptr_t)v;
		return 0;
	case SV_OP_CLOSE_XRCD:
		err = sv_real_close_xrcd(sv_real(first));
		forget(first);
		sv_xrcd_free(first);
		return err;
	case SV_OP_CREATE_AH: {
		struct ibv_ah *handle = real.create_ah(sv_real(first), pointer(r->arg[1]));

		v = sv_ah_alloc(first);
		err = sv_ah_bind(v, &handle, 1, NULL, NULL);
		r->result = (uintptr_t)v;
		return err;
	}
	case SV_OP_DESTROY_AH:
		err = real.destroy_ah(sv_real(first));
		sv_ah_free(first);
		return err;
	case SV_OP_MODIFY_SRQ:
		return real.modify_srq(sv_real(first), pointer(r->arg[1]), r->arg[2]);
	case SV_OP_QUERY_SRQ:
		return real.query_srq(sv_real(first), pointer(r->arg[1]));
	case SV_OP_DESTROY_SRQ:
		err = real.destroy_srq(sv_real(first));
		if (err)
			return err;
		forget(first);
		sv_srq_free(first);
		return 0;
	case SV_OP_MODIFY_QP: {
		struct ibv_qp_attr *attr = pointer(r->arg[1]);

		err = real.modify_qp(sv_real(first), attr, r->arg[2]);
		if (!err && (r->arg[2] & IBV_QP_STATE)) {
			if (attr->qp_state == IBV_QPS_RTR && ((struct ibv_qp *)first)->qp_type != IBV_QPT_UD)
				sv_qp_peer(first, attr->dest_qp_num, attr->ah_attr.dlid);
			v = find(first)->qp.opened ? find(first)->qp.opened : first;
			sv_qp_state(v, attr->qp_state);
			find(v)->qp.state = attr->qp_state;
		}
		return err;
	}
	case SV_OP_MODIFY_QP_RATE_LIMIT:
		return sv_real_modify_qp_rate_limit(sv_real(first), pointer(r->arg[1]));
	case SV_OP_QUERY_QP:
		return real.query_qp(sv_real(first), pointer(r->arg[1]), r->arg[2], pointer(r->arg[3]));
	case SV_OP_OPEN_QP:
		return open_handle(first, pointer(r->arg[1]), &r->result);
	case SV_OP_DESTROY_QP:
		return destroy_qp(first);
	case SV_OP_CM_DISCONNECT:
		driver_disconnected = r->arg[0];
		return 0;
	case SV_OP_CHECKPOINT:
		__atomic_store_n(&driver_checkpoint_call, r->arg[0], __ATOMIC_SEQ_CST);
		__atomic_store_n(&driver_checkpoint_processes, (int)r->arg[1], __ATOMIC_SEQ_CST);
		__atomic_add_fetch(&driver_checkpoints, 1, __ATOMIC_SEQ_CST);
		return 0;
	case SV_OP_EXIT:
		driver_exit_status = (int)r->arg[0];
		if (getenv("DRIVER_SAYS_EXIT"))
			printf("exit %d\n", driver_exit_status), fflush(stdout);
		return 0;
	default:
		return EOPNOTSUPP;
	}
}

static void *serve(void *unused)
{
	(void)unused;
	for (;;) {
		int slot = sv_mailbox_take(-1);
		struct sv_request *request;

		if (slot < 0)
			continue;
		__atomic_fetch_add(&driver_taken, 1, __ATOMIC_RELEASE);
		while (__atomic_load_n(&driver_hold, __ATOMIC_ACQUIRE))
			usleep(1000);
		request = &sv_mailbox()[slot];
		pthread_mutex_lock(&model);
		driver_requests[request->op]++;
		request->err = carry_out(request);
		pthread_mutex_unlock(&model);
		sv_mailbox_answer(slot);
	}
	return NULL;
}

/* ---- DETACH and REATTACH ---------------------------------------------------------------------------------------- */

static struct ibv_context *detached_context;

void driver_detach(struct ibv_context *vcontext)
{
	struct ibv_context *context = sv_real(vcontext);

	for (int kind = QP; kind >= 0; kind--)
		for (unsigned i = object_count; i-- > 0;) {
			struct object *object = &objects[i];
			void *made = sv_real(object->v);

			if ((int)object->kind != kind || object->context != vcontext)
				continue;
			switch (object->kind) {
			case QP:
				if (!object->qp.closed) {
					object->qp.state = ((struct ibv_qp *)made)->state;
					real.destroy_qp(made);
				}
				sv_qp_bind(object->v, NULL);
				break;
			case XRCD:
				sv_xrcd_bind(object->v, NULL);
				sv_real_close_xrcd(made);
				break;
			case SRQ:
				sv_srq_bind(object->v, NULL);
				real.destroy_srq(made);
				break;
			case CQ:
				sv_cq_bind(object->v, NULL);
				real.destroy_cq(made);
				break;
			case MR:
				sv_mr_bind(object->v, NULL);
				real.dereg_mr(made);
				break;
			case MW:
				sv_mw_bind(object->v, NULL);
				sv_real_dealloc_mw(made);
				break;
			case DM:
				if (sv_dm_bind(object->v, NULL))
					die("saving device memory");
				sv_real_free_dm(made);
				break;
			case PD:
				sv_pd_bind(object->v, NULL);
				real.dealloc_pd(made);
				break;
			case CHANNEL:
				sv_channel_bind(object->v, NULL);
				real.destroy_comp_channel(made);
				break;
			}
		}
	sv_context_bind(vcontext, NULL);
	real.close_device(context);
	detached_context = vcontext;
}

static void reattach_xrcd(struct object *object)
{
	struct ibv_xrcd_init_attr attr = { .fd = -1 };

	sv_xrcd_bind(object->v, sv_real_open_xrcd(sv_real(object->context), &attr));
}

static void reattach_qp(struct object *object)
{
	struct ibv_qp *v = object->v, *made;
	struct object *heir = object->qp.closed ? handle_of(v) : NULL;
	struct ibv_qp_attr attr = { 0 };

	if (object->qp.opened) {
		if (!sv_real(v) && sv_qp_bind(v, open_real_handle(v, object)))
			die("a handle of a queue pair cannot be bound");
		return;
	}
	made = make_real_qp(heir ? heir->v : v, heir ? heir->qp.xrcd : object->qp.xrcd, &object->qp.init);
	attr.qp_state = object->qp.state;
	real.modify_qp(made, &attr, IBV_QP_STATE);
	if (sv_qp_bind(v, made) || (heir && sv_qp_bind(heir->v, made)))
		die("a queue pair cannot be bound");
}

void driver_reattach(struct ibv_context *vcontext)
{
	int err = sv_context_bind(vcontext, real.open_device(sv_device_real(vcontext->device)));

	for (int kind = 0; kind <= QP && !err; kind++)
		for (unsigned i = 0; i < object_count && !err; i++) {
			struct object *object = &objects[i];
			struct ibv_mr *mr = object->v;

			if ((int)object->kind != kind || object->context != vcontext)
				continue;
			switch (object->kind) {
			case CHANNEL:
				err = sv_channel_bind(object->v, real.create_comp_channel(sv_real(vcontext)));
				break;
			case PD:
				sv_pd_bind(object->v, real.alloc_pd(sv_real(vcontext)));
				break;
			case MR:
				sv_mr_bind(mr, make_real_mr(mr, mr->pd, object));
				break;
			case MW:
				sv_mw_bind(object->v, sv_real_alloc_mw(sv_real(((struct ibv_mw *)object->v)->pd),
								       ((struct ibv_mw *)object->v)->type));
				break;
			case DM:
				err = sv_dm_bind(object->v, make_real_dm(vcontext, object->dm_length));
				break;
			case CQ:
				err = sv_cq_bind(object->v, make_real_cq(object->v, object->cq.cqe, object->cq.channel,
									 object->cq.wc_flags));
				break;
			case SRQ:
				sv_srq_bind(object->v, make_real_srq(object->v, object));
				break;
			case XRCD:
				reattach_xrcd(object);
				break;
			case QP:
				reattach_qp(object);
				break;
			}
		}
	if (err)
		die(strerror(err));
	driver_push_keys(vcontext);
}

void driver_push_keys(struct ibv_context *vcontext)
{
	uint32_t vl[MAX_OBJECTS], rl[MAX_OBJECTS], vr[MAX_OBJECTS], rr[MAX_OBJECTS], count = 0;
	struct sv_keymap *old_lkeys = lkeys, *old_rkeys = rkeys;

	for (unsigned i = 0; i < object_count; i++)
		if (objects[i].kind == MR && objects[i].context == vcontext) {
			struct ibv_mr *v = objects[i].v, *made = sv_real(v);

			vl[count] = v->lkey;
			rl[count] = made->lkey;
			vr[count] = v->rkey;
			rr[count++] = made->rkey;
		}
	lkeys = sv_keymap_new(vl, rl, count);
	rkeys = sv_keymap_new(vr, rr, count);
	sv_context_set_lkeys(vcontext, lkeys);
	for (unsigned i = 0; i < object_count; i++)
		if (objects[i].kind == QP && objects[i].context == vcontext)
			sv_qp_set_rkeys(objects[i].v, rkeys);
	sv_keymap_free(old_lkeys);
	sv_keymap_free(old_rkeys);
}

void driver_start(void)
{
	const char *ids = getenv("SHADOWVERBS_IDS");
	pthread_t thread;

#define REAL(name) *(void **)&real.name = sv_installed_function("ibv_" #name);
	REALS
	if (ids && !strcmp(ids, "scrambled"))
		masks = (struct sv_masks){ .qp_num = 0x5a5a5a, .key = 0x3c3c3c3c, .lid = 0x0ff0,
					    .gid = 0x0012345600780000 };
	sv_set_masks(&masks);
	for (int i = 0; i < SERVICE_THREADS; i++)
		if (pthread_create(&thread, NULL, serve, NULL))
			die("pthread_create");
	sv_driver_ready(0);
}
