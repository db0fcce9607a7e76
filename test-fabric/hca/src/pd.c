/* Protection domains. */
#include "hca.h"

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct hca_context *ctx = to_context(context, "ibv_alloc_pd");
	struct hca_pd *pd;

	if (seg_load(&ctx->seg->fatal)) {
		errno = EIO;
		return NULL;
	}
	pd = object_alloc(sizeof(*pd));
	if (!pd)
		return NULL;
	pd->pd.context = context;
	pthread_mutex_lock(&ctx->lock);
	pd->pd.handle = ctx->handles++;
	pd->number = ++ctx->pd_numbers;
	ctx->pds++;
	pthread_mutex_unlock(&ctx->lock);
	pd->magic = OBJECT_MAGIC(MAGIC_PD, pd);
	return &pd->pd;
}

int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
	struct hca_pd *pd = to_pd(ibpd, "ibv_dealloc_pd");
	struct hca_context *ctx = context_of(ibpd->context);

	pthread_mutex_lock(&ctx->lock);
	if (pd->users) {
		pthread_mutex_unlock(&ctx->lock);
		return hca_errno(EBUSY);
	}
	if (pd->below)
		pd->below->users--;
	if (pd->td)
		pd->td->users--;
	ctx->pds--;
	pthread_mutex_unlock(&ctx->lock);
	object_free(pd, sizeof(*pd));
	return 0;
}
