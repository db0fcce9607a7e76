/* Device memory: a piece of our segment that the application reaches only by copying, and by registering it. */
#include "hca.h"

static int range_check(const struct hca_dm *dm, uint64_t offset, size_t length)
{
	return offset > dm->length || length > dm->length - offset ? EFAULT : 0;
}

static int to_device_memory(struct ibv_dm *ibdm, uint64_t offset, const void *host, size_t length)
{
	struct hca_dm *dm = to_dm(ibdm, "ibv_memcpy_to_dm");
	int ret = range_check(dm, offset, length);

	if (!ret)
		memcpy(seg_at(context_of(ibdm->context)->seg, dm->offset + offset), host, length);
	return ret ? hca_errno(ret) : 0;
}

static int from_device_memory(void *host, struct ibv_dm *ibdm, uint64_t offset, size_t length)
{
	struct hca_dm *dm = to_dm(ibdm, "ibv_memcpy_from_dm");
	int ret = range_check(dm, offset, length);

	if (!ret)
		memcpy(host, seg_at(context_of(ibdm->context)->seg, dm->offset + offset), length);
	return ret ? hca_errno(ret) : 0;
}

struct ibv_dm *dm_alloc(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct hca_context *ctx = to_context(context, "ibv_alloc_dm");
	struct hca_dm *dm;

	/* Blocks of the heap are aligned to pages. */
	if (attr->comp_mask || attr->log_align_req > 12 || !attr->length || attr->length > HCA_MAX_DM) {
		errno = EINVAL;
		return NULL;
	}
	dm = object_alloc(sizeof(*dm));
	if (!dm)
		return NULL;
	dm->dm.context = context;
	dm->dm.memcpy_to_dm = to_device_memory;
	dm->dm.memcpy_from_dm = from_device_memory;
	dm->length = attr->length;
	pthread_mutex_lock(&ctx->lock);
	dm->offset = heap_alloc(ctx, dm->length);
	if (dm->offset) {
		dm->dm.handle = ctx->handles++;
		ctx->dms++;
	}
	pthread_mutex_unlock(&ctx->lock);
	if (!dm->offset) {
		free(dm);
		errno = ENOMEM;
		return NULL;
	}
	dm->magic = OBJECT_MAGIC(MAGIC_DM, dm);
	return &dm->dm;
}

int dm_free(struct ibv_dm *ibdm)
{
	struct hca_dm *dm = to_dm(ibdm, "ibv_free_dm");
	struct hca_context *ctx = context_of(ibdm->context);

	pthread_mutex_lock(&ctx->lock);
	if (dm->users) {
		pthread_mutex_unlock(&ctx->lock);
		return hca_errno(EBUSY);
	}
	if (!context_is_lost(ctx))
		heap_free(ctx, dm->offset, dm->length);
	ctx->dms--;
	pthread_mutex_unlock(&ctx->lock);
	object_free(dm, sizeof(*dm));
	return 0;
}
