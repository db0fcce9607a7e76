/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thread domains and parent domains: hints, which come to nothing here, for the library's locks belong to threads anyway.
 * A parent domain stands for the real protection domain below it. Beside them what else a device may offer and what is
 * answered for good, whatever the device after a restart: no options for enhanced connections.
 */
#include "base/say.h"
#include "control/control.h"
#include "interpose/real.h"
#include "objects/objects.h"

struct ibv_td *sv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct sv_td *td;

	if (attr->comp_mask) {
		errno = EINVAL;
		return NULL;
	}
	td = sv_slot_alloc(SV_KIND_TD, sizeof(*td));
	if (!td) {
		errno = ENOMEM;
		return NULL;
	}
	td->v.context = context;
	return &td->v;
}

int sv_dealloc_td(struct ibv_td *vtd)
{
	struct sv_td *td = sv_td_of(vtd);

	if (sv_load_acquire(&td->users))
		return EBUSY;
	sv_slot_free(SV_KIND_TD, sizeof(*td), td);
	return 0;
}

struct ibv_pd *sv_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
	static int said;
	struct ibv_pd *pd;

	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		sv_refuse("ibv_alloc_parent_domain with allocators", &said);
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!attr->pd || attr->pd->context != context || (attr->td && attr->td->context != context) ||
	    (attr->comp_mask & ~IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)) {
		errno = EINVAL;
		return NULL;
	}
	pd = SV_CONTROL_POINTER(struct ibv_pd, SV_OP_ALLOC_PARENT_DOMAIN, "ibv_alloc_parent_domain",
				SV_POINTER(attr->pd));
	if (pd && attr->td) {
		sv_pd_of(pd)->td = sv_td_of(attr->td);
		sv_add(&sv_pd_of(pd)->td->users, 1);
	}
	return pd;
}

int sv_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	struct sv_thread *self = sv_gate_enter("ibv_query_rt_values_ex");
	struct ibv_context *real = sv_context_of(context)->real;
	int err = real ? ibv_query_rt_values_ex(real, values) : ENODEV;

	sv_gate_leave(self);
	return err;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (!sv_ours(qp))
		return SV_REAL(ibv_query_ece) ? SV_REAL(ibv_query_ece)(qp, ece) : EOPNOTSUPP;
	memset(ece, 0, sizeof(*ece));
	return 0;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (!sv_ours(qp))
		return SV_REAL(ibv_set_ece) ? SV_REAL(ibv_set_ece)(qp, ece) : EOPNOTSUPP;
	if (ece->comp_mask)
		return EINVAL;
	/* No vendor: nothing is asked for. */
	return ece->vendor_id ? EOPNOTSUPP : 0;
}
