/* SPDX-License-Identifier: Apache-2.0 */
/* Device contexts, and the queries on them. */
#include "base/say.h"
#include "control/control.h"
#include "interpose/real.h"
#include "objects/doorbell.h"
#include "objects/objects.h"
#include "objects/qp_numbers.h"
#include "objects/window.h"
#include "xrc/domain.h"

/* ---- The operations that inline functions reach through a context ---------------------------------------------- */

#define OP_REFUSE(place, type, name, parameters, fail)  \
	static type refuse_##name parameters            \
	{                                               \
		static int said;                        \
							\
		sv_refuse(#name, &said);                \
		return fail;                            \
	}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "base/verbs.def"
#pragma GCC diagnostic pop

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct ibv_port_attr full;
	int err;

	memset(&full, 0, sizeof(full));
	err = SV_CONTROL(SV_OP_QUERY_PORT, "ibv_query_port", NULL, SV_POINTER(context), SV_ARG(port),
			 SV_POINTER(&full), SV_ARG(sizeof(full)));
	if (!err) {
		if (size > sizeof(full))
			memset((char *)attr + sizeof(full), 0, size - sizeof(full));
		memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
	}
	return err;
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	return SV_CONTROL(SV_OP_QUERY_DEVICE_EX, "ibv_query_device_ex", NULL, SV_POINTER(context), SV_POINTER(input),
			  SV_POINTER(attr), SV_ARG(size));
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	return SV_CONTROL_POINTER(struct ibv_qp, SV_OP_CREATE_QP_EX, "ibv_create_qp_ex", SV_POINTER(context),
				  SV_POINTER(attr));
}

static int modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	return SV_CONTROL(SV_OP_MODIFY_QP_RATE_LIMIT, "ibv_modify_qp_rate_limit", NULL, SV_POINTER(qp), SV_POINTER(attr));
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	return SV_CONTROL_POINTER(struct ibv_srq, SV_OP_CREATE_SRQ_EX, "ibv_create_srq_ex", SV_POINTER(context),
				  SV_POINTER(attr));
}

/* What a verbs_context of ours looks like, but for the fields that its device fills in. */
#define PLACE_CONTEXT(name) .context.ops.name
#define PLACE_EXTENDED(name) .name
const struct verbs_context sv_verbs_template = {
#define OP_REFUSE(place, type, name, parameters, fail) PLACE_##place(name) = refuse_##name,
#include "base/verbs.def"
	.context.ops.poll_cq = sv_poll_cq,
	.context.ops.req_notify_cq = sv_req_notify_cq,
	.context.ops.post_send = sv_post_send,
	.context.ops.post_recv = sv_post_recv,
	.context.ops.post_srq_recv = sv_post_srq_recv,
	.context.ops.alloc_mw = sv_alloc_mw,
	.context.ops.bind_mw = sv_bind_mw,
	.context.ops.dealloc_mw = sv_dealloc_mw,
	.context.ops._compat_query_device = ibv_query_device,
	.context.ops._compat_query_port = ibv_query_port,
	.query_port = query_port,
	.query_device_ex = query_device_ex,
	.create_qp_ex = create_qp_ex,
	.create_cq_ex = sv_create_cq_ex,
	.modify_cq = sv_modify_cq,
	.advise_mr = sv_advise_mr,
	.alloc_td = sv_alloc_td,
	.dealloc_td = sv_dealloc_td,
	.alloc_parent_domain = sv_alloc_parent_domain,
	.query_rt_values = sv_query_rt_values,
	.alloc_null_mr = sv_alloc_null_mr,
	.alloc_dm = sv_alloc_dm,
	.free_dm = sv_free_dm,
	.reg_dm_mr = sv_reg_dm_mr,
	.create_srq_ex = create_srq_ex,
	.get_srq_num = sv_get_srq_num,
	.open_xrcd = sv_open_xrcd,
	.close_xrcd = sv_close_xrcd,
	.open_qp = sv_open_qp,
	.modify_qp_rate_limit = modify_qp_rate_limit,
	.ABI_placeholder1 = (void (*)(void))refuse_ibv_create_flow,
	.ABI_placeholder2 = (void (*)(void))refuse_ibv_destroy_flow,
	.sz = sizeof(struct verbs_context),
	.context.cmd_fd = -1,
	.context.abi_compat = __VERBS_ABI_IS_EXTENDED,
};

/* ---- For the driver -------------------------------------------------------------------------------------------- */

static int detached_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	*bad = wr;
	return ENODEV;
}

static int detached_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp;
	*bad = wr;
	return ENODEV;
}

static int detached_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	*bad = wr;
	return ENODEV;
}

static void note_translation(struct sv_context *context)
{
	context->translate = context->lkeys || sv_masks.key;
}

struct ibv_context *sv_context_alloc(struct ibv_device *vdevice)
{
	struct sv_context *context = sv_slot_alloc(SV_KIND_CONTEXT, sizeof(*context));

	if (!context)
		return NULL;
	context->ex = sv_verbs_template;
	context->ex.context.device = vdevice;
	context->post_send = detached_post_send;
	context->post_recv = detached_post_recv;
	context->post_srq_recv = detached_post_srq_recv;
	pthread_mutex_init(&context->ex.context.mutex, NULL);
	if (sv_events_open(&context->events)) {
		sv_slot_free(SV_KIND_CONTEXT, sizeof(*context), context);
		return NULL;
	}
	context->ex.context.async_fd = context->events.fd;
	note_translation(context);
	return &context->ex.context;
}

int sv_context_open(struct ibv_context *vcontext, struct ibv_context *real)
{
	vcontext->num_comp_vectors = real->num_comp_vectors;
	return sv_context_bind(vcontext, real);
}

int sv_context_bind(struct ibv_context *vcontext, struct ibv_context *real)
{
	struct sv_context *context = sv_context_of(vcontext);

	context->real = real;
	context->post_send = real ? sv_ringing_post_send(real) : detached_post_send;
	context->post_recv = real ? real->ops.post_recv : detached_post_recv;
	context->post_srq_recv = real ? real->ops.post_srq_recv : detached_post_srq_recv;
	return sv_events_bind(&context->events, real ? real->async_fd : -1);
}

void sv_context_set_lkeys(struct ibv_context *vcontext, const struct sv_keymap *map)
{
	struct sv_context *context = sv_context_of(vcontext);

	context->lkeys = map;
	note_translation(context);
}

void sv_context_set_sources(struct ibv_context *vcontext, const struct sv_idmap *map, const struct sv_routes *routes)
{
	struct sv_context *context = sv_context_of(vcontext);

	sv_store(&context->routes, routes);
	sv_store_release(&context->sources, map);
}

void sv_context_free(struct ibv_context *vcontext)
{
	struct sv_context *context = sv_context_of(vcontext);

	sv_events_close(&context->events);
	sv_qp_numbers_free(context);
	sv_slot_free(SV_KIND_CONTEXT, sizeof(*context), context);
}

void *sv_real(void *virtual_object)
{
	if (!sv_ours(virtual_object))
		return virtual_object;
	switch (sv_kind_of(virtual_object)) {
	case SV_KIND_DEVICE:
		return sv_device_of(virtual_object)->real;
	case SV_KIND_CONTEXT:
		return sv_context_of(virtual_object)->real;
	case SV_KIND_PD:
		return sv_pd_of(virtual_object)->real;
	case SV_KIND_MR:
		return sv_mr_of(virtual_object)->real;
	case SV_KIND_MW:
		return sv_mw_of(virtual_object)->real;
	case SV_KIND_DM:
		return sv_dm_of(virtual_object)->real;
	case SV_KIND_CHANNEL:
		return sv_channel_of(virtual_object)->real;
	case SV_KIND_CQ:
		return sv_cq_of(virtual_object)->real;
	case SV_KIND_QP:
		return sv_qp_of(virtual_object)->sq.real;
	case SV_KIND_AH:
		return sv_ah_of(virtual_object)->real;
	case SV_KIND_SRQ:
		return sv_srq_of(virtual_object)->real;
	case SV_KIND_XRCD:
		return sv_xrcd_of(virtual_object)->real;
	case SV_KIND_TD:
	case SV_KIND_COUNT:
		break;
	}
	return NULL;
}

/* ---- Verbs ------------------------------------------------------------------------------------------------------ */

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	if (!sv_ours(device))
		return SV_REAL(ibv_open_device)(device);
	return SV_CONTROL_POINTER(struct ibv_context, SV_OP_OPEN_DEVICE, "ibv_open_device", SV_POINTER(device));
}

int ibv_close_device(struct ibv_context *context)
{
	int err;

	if (!sv_ours(context))
		return SV_REAL(ibv_close_device)(context);
	err = SV_CONTROL(SV_OP_CLOSE_DEVICE, "ibv_close_device", NULL, SV_POINTER(context));
	if (!err)
		return 0;
	errno = err;
	return -1;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	if (!sv_ours(context))
		return SV_REAL(ibv_query_device)(context, attr);
	return SV_CONTROL(SV_OP_QUERY_DEVICE, "ibv_query_device", NULL, SV_POINTER(context), SV_POINTER(attr));
}

/* The symbol, for programs older than the query_port operation: their struct ends before port_cap_flags2. */
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	if (!sv_ours(context))
		return SV_REAL(ibv_query_port)(context, port, attr);
	return query_port(context, port, (struct ibv_port_attr *)attr, offsetof(struct ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	int err;

	if (!sv_ours(context))
		return SV_REAL(ibv_query_gid)(context, port, index, gid);
	err = SV_CONTROL(SV_OP_QUERY_GID, "ibv_query_gid", NULL, SV_POINTER(context), SV_ARG(port),
			 SV_ARG((int64_t)index), SV_POINTER(gid));
	if (!err)
		return 0;
	errno = err;
	return -1;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
		      uint32_t flags, size_t size)
{
	if (!sv_ours(context))
		return SV_REAL(_ibv_query_gid_ex)(context, port, index, entry, flags, size);
	return SV_CONTROL(SV_OP_QUERY_GID_EX, "ibv_query_gid_ex", NULL, SV_POINTER(context), SV_ARG(port),
			  SV_ARG(index), SV_POINTER(entry), SV_ARG(flags), SV_ARG(size));
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max, uint32_t flags,
			     size_t size)
{
	uint64_t count = 0;
	int err;

	if (!sv_ours(context))
		return SV_REAL(_ibv_query_gid_table)(context, entries, max, flags, size);
	err = SV_CONTROL(SV_OP_QUERY_GID_TABLE, "ibv_query_gid_table", &count, SV_POINTER(context),
			 SV_POINTER(entries), SV_ARG(max), SV_ARG(flags), SV_ARG(size));
	return err ? -err : (ssize_t)count;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	int err;

	if (!sv_ours(context))
		return SV_REAL(ibv_query_pkey)(context, port, index, pkey);
	err = SV_CONTROL(SV_OP_QUERY_PKEY, "ibv_query_pkey", NULL, SV_POINTER(context), SV_ARG(port),
			 SV_ARG((int64_t)index), SV_POINTER(pkey));
	if (!err)
		return 0;
	errno = err;
	return -1;
}

/* Private to rdma-core, and called by ibv_devinfo: the kind of a GID does not depend on what stands for what. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, uint32_t *type)
{
	int err;

	if (!SV_REAL(ibv_query_gid_type))
		sv_real_missing("ibv_query_gid_type");
	if (!sv_ours(context))
		return SV_REAL(ibv_query_gid_type)(context, port, index, type);
	err = sv_driver_start("ibv_query_gid_type");
	if (!err) {
		struct sv_thread *self = sv_gate_enter("ibv_query_gid_type");
		struct ibv_context *real = sv_context_of(context)->real;
		int result = real ? SV_REAL(ibv_query_gid_type)(real, port, index, type) : -1;

		sv_gate_leave(self);
		if (real)
			return result;
		err = EIO;
	}
	errno = err;
	return -1;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	uint64_t index = 0;
	int err;

	if (!sv_ours(context))
		return SV_REAL(ibv_get_pkey_index)(context, port, pkey);
	err = SV_CONTROL(SV_OP_GET_PKEY_INDEX, "ibv_get_pkey_index", &index, SV_POINTER(context), SV_ARG(port),
			 SV_ARG(pkey));
	if (!err)
		return index;
	errno = err;
	return -1;
}
