/* Thread domains and parent domains. Neither changes what this device does: they are kept apart and counted. */
#include "hca.h"

struct ibv_td *td_alloc(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct hca_td *td;

	to_context(context, "ibv_alloc_td");
	if (attr->comp_mask) {
		errno = EINVAL;
		return NULL;
	}
	td = object_alloc(sizeof(*td));
	if (!td)
		return NULL;
	td->td.context = context;
	td->magic = OBJECT_MAGIC(MAGIC_TD, td);
	return &td->td;
}

int td_dealloc(struct ibv_td *ibtd)
{
	struct hca_td *td = to_td(ibtd, "ibv_dealloc_td");
	struct hca_context *ctx = context_of(ibtd->context);
	uint32_t users;

	pthread_mutex_lock(&ctx->lock);
	users = td->users;
	pthread_mutex_unlock(&ctx->lock);
	if (users)
		return hca_errno(EBUSY);
	object_free(td, sizeof(*td));
	return 0;
}

/* It has the number of its protection domain, so that the keys of one are good in the other. */
struct ibv_pd *pd_alloc_parent(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
	struct hca_context *ctx = to_context(context, "ibv_alloc_parent_domain");
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	struct hca_pd *below = to_pd(attr->pd, "ibv_alloc_parent_domain"), *pd;
	struct hca_td *td = attr->td ? to_td(attr->td, "ibv_alloc_parent_domain") : NULL;

	/* Allocators are for queues in memory of the application; queues of this device are in none. */
	if ((attr->comp_mask & ~known) || below->pd.context != context || (td && td->td.context != context)) {
		errno = EINVAL;
		return NULL;
	}
	pd = object_alloc(sizeof(*pd));
	if (!pd)
		return NULL;
	pd->pd.context = context;
	pd->number = below->number;
	pd->below = below;
	pd->td = td;
	pthread_mutex_lock(&ctx->lock);
	pd->pd.handle = ctx->handles++;
	below->users++;
	if (td)
		td->users++;
	ctx->pds++;
	pthread_mutex_unlock(&ctx->lock);
	pd->magic = OBJECT_MAGIC(MAGIC_PD, pd);
	return &pd->pd;
}
