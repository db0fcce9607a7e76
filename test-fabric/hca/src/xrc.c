/*
 * XRC domains, and further handles of XRC receive QPs. Domains of one file and device have one number in all open
 * contexts, so that messages to a QP of one reach the SRQs of another; whether there is one already is asked of the own
 * context alone. Of QPs that another context has made see xrc_opener.c.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "hca.h"

/* ctx->lock held */
static struct hca_xrcd *find(struct hca_context *ctx, const struct stat *st)
{
	struct hca_xrcd *xrcd;

	for (xrcd = ctx->xrcds; xrcd; xrcd = xrcd->next)
		if (xrcd->ino && xrcd->ino == st->st_ino && xrcd->dev == st->st_dev)
			return xrcd;
	return NULL;
}

/* Of the file's domain: a hash (the finalizer of SplitMix64), in place of a table that all processes would share. */
static uint64_t number_of_file(const struct hca_context *ctx, const struct stat *st)
{
	uint64_t x = st->st_ino * 0x9e3779b97f4a7c15ULL + st->st_dev * 64 + ((struct hca_device *)ctx->vctx.context.device)->index;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return XRCD_OF_FILE | (x ^ x >> 31);
}

struct ibv_xrcd *xrcd_open(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	struct hca_context *ctx = to_context(context, "ibv_open_xrcd");
	const uint32_t both = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct hca_xrcd *xrcd, *same;
	struct stat st = { 0 };
	int ret = 0;

	if (attr->comp_mask != both || (attr->oflags & ~(O_CREAT | O_EXCL)) ||
	    (attr->fd >= 0 && fstat(attr->fd, &st)) || (attr->fd < 0 && !(attr->oflags & O_CREAT))) {
		errno = EINVAL;
		return NULL;
	}
	xrcd = object_alloc(sizeof(*xrcd));
	if (!xrcd)
		return NULL;
	xrcd->xrcd.context = context;
	pthread_mutex_lock(&ctx->lock);
	same = attr->fd >= 0 ? find(ctx, &st) : NULL;
	if (same && (attr->oflags & O_EXCL))
		ret = EINVAL;
	else if (!same && !(attr->oflags & O_CREAT))
		ret = EAGAIN;
	if (!ret) {
		xrcd->number = attr->fd >= 0 ? number_of_file(ctx, &st) : ++ctx->xrcd_numbers;
		xrcd->ino = attr->fd >= 0 ? st.st_ino : 0;
		xrcd->dev = st.st_dev;
		xrcd->next = ctx->xrcds;
		ctx->xrcds = xrcd;
		xrcd->magic = OBJECT_MAGIC(MAGIC_XRCD, xrcd);
	}
	pthread_mutex_unlock(&ctx->lock);
	if (ret) {
		free(xrcd);
		errno = ret;
		return NULL;
	}
	return &xrcd->xrcd;
}

int xrcd_close(struct ibv_xrcd *ibxrcd)
{
	struct hca_xrcd *xrcd = to_xrcd(ibxrcd, "ibv_close_xrcd"), **link;
	struct hca_context *ctx = context_of(ibxrcd->context);

	pthread_mutex_lock(&ctx->lock);
	if (xrcd->users) {
		pthread_mutex_unlock(&ctx->lock);
		return hca_errno(EBUSY);
	}
	for (link = &ctx->xrcds; *link != xrcd; link = &(*link)->next)
		;
	*link = xrcd->next;
	pthread_mutex_unlock(&ctx->lock);
	object_free(xrcd, sizeof(*xrcd));
	return 0;
}

/* The QP that @handle stands for, and that its other handles share. */
struct ibv_qp *xrc_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	struct hca_context *ctx = to_context(context, "ibv_open_qp");
	const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct hca_qp *real = NULL, *handle;
	struct hca_xrcd *xrcd;
	uint32_t i;

	if ((attr->comp_mask & needed) != needed || (attr->comp_mask & ~(needed | IBV_QP_OPEN_ATTR_CONTEXT)) ||
	    attr->qp_type != IBV_QPT_XRC_RECV) {
		errno = EINVAL;
		return NULL;
	}
	xrcd = to_xrcd(attr->xrcd, "ibv_open_qp");
	handle = object_alloc(sizeof(*handle));
	if (!handle)
		return NULL;
	pthread_mutex_lock(&ctx->lock);
	for (i = 0; i < ctx->seg->max_qp && !real; i++) {
		struct hca_qp *qp = ctx->qp[i];

		if (qp && qp->qp.qp_num == attr->qp_num && qp->shm->xrcd == xrcd->number)
			real = qp;
	}
	if (real && real->closed && !real->handles && !xrc_take_back(ctx, real))
		real = NULL;
	if (real) {
		xrcd->users++;
		handle->real = real;
		handle->xrcd = xrcd;
		handle->qp.context = context;
		if (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT)
			handle->qp.qp_context = attr->qp_context;
		handle->qp.qp_num = real->qp.qp_num;
		handle->qp.qp_type = IBV_QPT_XRC_RECV;
		handle->qp.state = IBV_QPS_UNKNOWN;
		handle->qp.handle = ctx->handles++;
		handle->shm = real->shm;
		pthread_mutex_init(&handle->qp.mutex, NULL);
		pthread_cond_init(&handle->qp.cond, NULL);
		ctx->qps++;
		handle->magic = OBJECT_MAGIC(MAGIC_QP, handle);
		pthread_mutex_lock(&ctx->handle_lock);
		handle->next_handle = real->handles;
		real->handles = handle;
		pthread_mutex_unlock(&ctx->handle_lock);
	}
	pthread_mutex_unlock(&ctx->lock);
	if (!real) {
		free(handle);
		return xrc_open_foreign(ctx, xrcd, attr);
	}
	return &handle->qp;
}
