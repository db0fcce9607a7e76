/* Memory regions and their keys. */
#include <sys/mman.h>
#include <unistd.h>

#include "hca.h"

#define ACCESS_KNOWN  (IBV_ACCESS_LOCAL_WRITE | ACCESS_REMOTE | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | \
		       IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB)

static uint32_t key_hash(uint32_t key)
{
	return (key * 2654435761u) >> 8;
}

/* The slot of @key, or the one where it would go; NULL when the table is full. */
static struct seg_key *key_slot(struct seg *seg, uint32_t key, bool insert)
{
	uint32_t i = key_hash(key), n;
	struct seg_key *deleted = NULL;

	for (n = 0; n < SEG_KEY_SLOTS; n++, i++) {
		struct seg_key *slot = &seg->key[i & (SEG_KEY_SLOTS - 1)];
		uint32_t index = seg_load(&slot->index);

		if (index == SEG_KEY_FREE)
			return insert ? (deleted ? deleted : slot) : NULL;
		if (index == SEG_KEY_DELETED) {
			if (!deleted)
				deleted = slot;
		} else if (slot->key == key) {
			return slot;
		}
	}
	return insert ? deleted : NULL;
}

struct seg_mr *mr_find(struct seg *seg, uint32_t key, bool remote)
{
	struct seg_key *slot = key_slot(seg, key, false);
	uint32_t index;

	if (!slot)
		return NULL;
	index = seg_load(&slot->index);
	if (!(index & SEG_KEY_BOTH) && !!(index & SEG_KEY_REMOTE) != remote)
		return NULL;
	return &seg->mr[index & ~(SEG_KEY_REMOTE | SEG_KEY_BOTH)];
}

int mr_translate(struct seg *seg, uint32_t key, const struct seg_qp *qp, uint32_t pd, uint64_t addr, uint64_t length,
		 uint32_t access, uint64_t *va)
{
	struct seg_mr *mr = mr_find(seg, key, qp);

	if (!mr || !seg_load(&mr->valid) || mr->pd != pd || (mr->access & access) != access)
		return -1;
	if (mr->kind == SEG_MR_NULL) {
		*va = access & IBV_ACCESS_LOCAL_WRITE ? mr->va : mr->zeros;
		return length > HCA_MAX_MSG ? -1 : 0;
	}
	if (mr->kind == SEG_MR_WINDOW_2 && (&seg->qp[mr->qp_index] != qp || mr->qp_gen != qp->gen))
		return -1;
	if (addr < mr->iova || addr - mr->iova > mr->length || length > mr->length - (addr - mr->iova))
		return -1;
	*va = mr->va + (addr - mr->iova);
	return 0;
}

void mr_quiesce(struct hca_context *ctx)
{
	uint32_t i, max = seg_load(&ctx->seg->max_qp), srqs = seg_load(&ctx->seg->max_srq);

	if (ctx->null_mode)
		return;
	/* Regions are looked up and used only under these locks, so having held each once is enough. */
	for (i = 0; i < srqs; i++) {
		srq_lock(ctx->seg, &ctx->seg->srq[i]);
		seg_unlock(&ctx->seg->srq[i].lock);
	}
	for (i = 0; i < max; i++) {
		struct hca_qp *qp = qp_at(ctx, i);

		if (!qp)
			continue;
		pthread_mutex_lock(&qp->sq.lock);
		pthread_mutex_unlock(&qp->sq.lock);
		qp_lock_responder(ctx->seg, qp->shm, i);
		seg_unlock(&qp->shm->lock);
	}
}

/* As pinning does: brings the pages in, and fails for what is not mapped or may not be written. */
static int pin(void *addr, size_t length, uint32_t access)
{
	uintptr_t page = sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)addr & ~(page - 1);
	uintptr_t end = ((uintptr_t)addr + length + page - 1) & ~(page - 1);
	bool write = access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	if (!madvise((void *)first, end - first, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	/* EINVAL says that the mapping forbids it, but also that the kernel, before 5.14, does not know the request. */
	if (errno == EINVAL && madvise((void *)((uintptr_t)&first & ~(page - 1)), page, MADV_POPULATE_READ))
		return 0;
	return EFAULT;
}

bool key_take(struct hca_context *ctx, uint32_t key, uint32_t index)
{
	struct seg_key *slot;
	bool taken = false;

	pthread_mutex_lock(&ctx->key_lock);
	slot = key_slot(ctx->seg, key, true);
	if (slot && (slot->index == SEG_KEY_FREE || slot->index == SEG_KEY_DELETED)) {
		slot->key = key;
		seg_store(&slot->index, index);
		taken = true;
	}
	pthread_mutex_unlock(&ctx->key_lock);
	return taken;
}

/* A key that nothing on the device has; ctx->lock held, and the keys. */
static uint32_t key_new(struct hca_context *ctx, uint32_t index)
{
	uint32_t attempt;

	for (attempt = 0; attempt < 1000000; attempt++) {
		uint32_t key = ids_draw(ctx, ID_KEY, 0x100, 0xfffffeff, attempt);

		if (!mw_owns_key(ctx, key) && !fabric_keys_are_taken(ctx, key, 1) && key_take(ctx, key, index))
			return key;
	}
	return 0;
}

void key_delete(struct hca_context *ctx, uint32_t key)
{
	struct seg_key *slot;
	uint32_t i, n;

	pthread_mutex_lock(&ctx->key_lock);
	slot = key_slot(ctx->seg, key, false);
	if (!slot)
		goto out;
	seg_store(&slot->index, SEG_KEY_DELETED);
	/* A deleted slot in front of a free one ends no probe, so that the table does not silt up. */
	i = slot - ctx->seg->key;
	if (ctx->seg->key[(i + 1) & (SEG_KEY_SLOTS - 1)].index != SEG_KEY_FREE)
		goto out;
	for (n = 0; n < SEG_KEY_SLOTS && ctx->seg->key[i & (SEG_KEY_SLOTS - 1)].index == SEG_KEY_DELETED; n++, i--)
		seg_store(&ctx->seg->key[i & (SEG_KEY_SLOTS - 1)].index, SEG_KEY_FREE);
out:
	pthread_mutex_unlock(&ctx->key_lock);
}

uint32_t mr_entry(struct hca_context *ctx)
{
	uint32_t i;

	for (i = 1; i < SEG_MAX_MR; i++) {
		uint32_t index = 1 + (ctx->max_mr + i - 1) % (SEG_MAX_MR - 1);

		if (ctx->seg->mr[index].kind == SEG_MR_FREE) {
			ctx->max_mr = index;
			return index;
		}
	}
	return 0;
}

/* What the table says about a new region; the keys come from mr_publish. */
struct region {
	enum seg_mr_kind kind;
	uint64_t va, iova, length, zeros;
	uint32_t access;
};

/* A remote key of its own; ctx->lock held, and the keys. */
static int mr_give_rkey(struct hca_context *ctx, struct hca_mr *mr)
{
	struct seg_mr *shm = &ctx->seg->mr[mr->index];

	shm->rkey = key_new(ctx, mr->index | SEG_KEY_REMOTE);
	mr->mr.rkey = shm->rkey;
	return shm->rkey ? 0 : ENOMEM;
}

/* ctx->lock held, and the keys */
static int mr_publish_locked(struct hca_context *ctx, struct hca_mr *mr, struct hca_pd *pd, const struct region *region)
{
	struct seg_mr *shm;
	enum key_kind kind;

	mr->index = mr_entry(ctx);
	if (!mr->index)
		return ENOMEM;
	shm = &ctx->seg->mr[mr->index];
	shm->pd = pd->number;
	shm->access = region->access;
	shm->va = region->va;
	shm->iova = region->iova;
	shm->length = region->length;
	shm->zeros = region->zeros;
	kind = personality_keys(ctx, region->access);
	shm->lkey = key_new(ctx, mr->index | (kind == KEYS_SAME ? SEG_KEY_BOTH : 0));
	if (!shm->lkey)
		return ENOMEM;
	shm->rkey = kind == KEYS_SAME ? shm->lkey : 0;
	if (kind == KEYS_DIFFER && mr_give_rkey(ctx, mr)) {
		key_delete(ctx, shm->lkey);
		return ENOMEM;
	}
	shm->kind = region->kind;
	seg_store(&shm->valid, 1);
	mr->mr.lkey = shm->lkey;
	mr->mr.rkey = shm->rkey;
	return 0;
}

/* ctx->lock held */
static int mr_publish(struct hca_context *ctx, struct hca_mr *mr, struct hca_pd *pd, const struct region *region)
{
	int lock = fabric_keys_lock(ctx), ret;

	if (lock < 0)
		return errno;
	ret = mr_publish_locked(ctx, mr, pd, region);
	fabric_numbers_unlock(lock);
	return ret;
}

/* The struct of a region that is in the table. */
static struct ibv_mr *mr_new(struct hca_pd *pd, void *addr, size_t length, const struct region *region,
			     struct hca_dm *dm)
{
	struct hca_context *ctx = context_of(pd->pd.context);
	struct hca_mr *mr = object_alloc(sizeof(*mr));
	int ret;

	if (!mr)
		return NULL;
	mr->mr.context = pd->pd.context;
	mr->mr.pd = &pd->pd;
	mr->mr.addr = addr;
	mr->mr.length = length;
	mr->dm = dm;
	pthread_mutex_lock(&ctx->lock);
	ret = mr_publish(ctx, mr, pd, region);
	if (!ret) {
		mr->mr.handle = ctx->handles++;
		pd->users++;
		ctx->mrs++;
		if (dm)
			dm->users++;
	}
	pthread_mutex_unlock(&ctx->lock);
	if (ret) {
		free(mr);
		errno = ret;
		return NULL;
	}
	mr->magic = OBJECT_MAGIC(MAGIC_MR, mr);
	return &mr->mr;
}

/* Bits that no region of this device can have, or that do not go together. */
static int access_check(unsigned int access)
{
	if (access & ~ACCESS_KNOWN)
		return EINVAL;
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	return access & IBV_ACCESS_ON_DEMAND ? EOPNOTSUPP : 0;
}

static struct ibv_mr *mr_register(struct hca_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct hca_context *ctx = context_of(pd->pd.context);
	struct region region;
	int ret;

	/* Bits of the optional range are hints that a device may ignore. */
	access &= ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE;
	ret = !length || (uintptr_t)addr + length < (uintptr_t)addr ? EINVAL : access_check(access);
	if (!ret && seg_load(&ctx->seg->fatal))
		ret = EIO;
	if (!ret)
		ret = pin(addr, length, access);
	if (ret) {
		errno = ret;
		return NULL;
	}
	region = (struct region){
		.kind = SEG_MR_REGION, .va = (uintptr_t)addr, .length = length, .access = access,
		.iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova,
	};
	return mr_new(pd, addr, length, &region, NULL);
}

struct ibv_mr *mr_reg_dm(struct ibv_pd *ibpd, struct ibv_dm *ibdm, uint64_t offset, size_t length, unsigned int access)
{
	struct hca_pd *pd = to_pd(ibpd, "ibv_reg_dm_mr");
	struct hca_dm *dm = to_dm(ibdm, "ibv_reg_dm_mr");
	struct hca_context *ctx = context_of(ibpd->context);
	struct region region;
	int ret;

	access &= ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE;
	ret = access_check(access);
	/* Device memory has no address of its own: requests count from the start of the region. */
	if (!(access & IBV_ACCESS_ZERO_BASED) || !length || offset > dm->length || length > dm->length - offset ||
	    ibdm->context != ibpd->context)
		ret = EINVAL;
	if (ret) {
		errno = ret;
		return NULL;
	}
	region = (struct region){
		.kind = SEG_MR_REGION, .va = (uintptr_t)seg_at(ctx->seg, dm->offset + offset), .length = length,
		.access = access,
	};
	return mr_new(pd, NULL, length, &region, dm);
}

/* Memory of no use to anybody: what is written to it is lost, what is read from it is zero. */
struct ibv_mr *mr_alloc_null(struct ibv_pd *ibpd)
{
	struct hca_pd *pd = to_pd(ibpd, "ibv_alloc_null_mr");
	struct region region = { .kind = SEG_MR_NULL, .access = IBV_ACCESS_LOCAL_WRITE };
	struct ibv_mr *mr;
	char *map = mmap(NULL, 2 * (size_t)HCA_MAX_MSG, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (map == MAP_FAILED)
		return NULL;
	region.va = (uintptr_t)map;
	region.zeros = (uintptr_t)map + HCA_MAX_MSG;
	mr = mr_new(pd, NULL, SIZE_MAX, &region, NULL);
	if (mr)
		((struct hca_mr *)mr)->zeros = map;
	else
		munmap(map, 2 * (size_t)HCA_MAX_MSG);
	return mr;
}

/* All memory is here already, so the advice is heard and nothing has to be done. */
int mr_advise(struct ibv_pd *ibpd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list, uint32_t n)
{
	struct hca_pd *pd = to_pd(ibpd, "ibv_advise_mr");
	struct seg *seg = context_of(ibpd->context)->seg;
	uint64_t va;
	uint32_t i;

	if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) || !n)
		return EINVAL;
	for (i = 0; i < n; i++)
		if (mr_translate(seg, list[i].lkey, NULL, pd->number, list[i].addr, list[i].length, 0, &va))
			return ENOENT;
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return mr_register(to_pd(pd, "ibv_reg_mr"), addr, length, (uintptr_t)addr, access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return mr_register(to_pd(pd, "ibv_reg_mr_iova"), addr, length, iova, access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	return mr_register(to_pd(pd, "ibv_reg_mr_iova2"), addr, length, iova, access);
}

int ibv_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct hca_mr *mr = to_mr(ibmr, "ibv_rereg_mr");
	struct hca_context *ctx = context_of(ibmr->context);
	struct seg_mr *shm = &ctx->seg->mr[mr->index];
	struct hca_pd *new_pd = NULL;
	int ret = 0, lock;

	if (!ctx->limits->rereg) {
		errno = EOPNOTSUPP;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (!flags || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) ||
	    ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && !length)) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		new_pd = to_pd(pd, "ibv_rereg_mr");
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
		access = shm->access;
	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
		addr = ibmr->addr;
		length = ibmr->length;
	}
	if (shm->kind != SEG_MR_REGION || mr->dm || access_check(access)) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (pin(addr, length, access)) {
		errno = EFAULT;
		return IBV_REREG_MR_ERR_CMD;
	}
	pthread_mutex_lock(&ctx->lock);
	seg_store(&shm->valid, 0);
	mr_quiesce(ctx);
	if (mw_uses_region(ctx, mr->index)) {
		seg_store(&shm->valid, 1);
		pthread_mutex_unlock(&ctx->lock);
		errno = EBUSY;
		return IBV_REREG_MR_ERR_CMD;
	}
	if (new_pd) {
		((struct hca_pd *)ibmr->pd)->users--;
		new_pd->users++;
		ibmr->pd = pd;
		shm->pd = new_pd->number;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		shm->va = (uintptr_t)addr;
		shm->iova = (uintptr_t)addr;
		shm->length = length;
		ibmr->addr = addr;
		ibmr->length = length;
	}
	shm->access = access;
	/* The kernel's answer has keys: where there was none for peers there is one now (ib_uverbs_rereg_mr_resp). */
	if ((access & ACCESS_REMOTE) && !shm->rkey) {
		lock = fabric_keys_lock(ctx);
		ret = lock < 0 ? errno : mr_give_rkey(ctx, mr);
		if (lock > 0)
			fabric_numbers_unlock(lock);
	}
	seg_store(&shm->valid, 1);
	pthread_mutex_unlock(&ctx->lock);
	if (ret)
		errno = ret;
	return ret ? IBV_REREG_MR_ERR_CMD : 0;
}

int ibv_dereg_mr(struct ibv_mr *ibmr)
{
	struct hca_mr *mr = to_mr(ibmr, "ibv_dereg_mr");
	struct hca_context *ctx = context_of(ibmr->context);
	struct seg_mr *shm = &ctx->seg->mr[mr->index];
	bool lost = context_is_lost(ctx);

	pthread_mutex_lock(&ctx->lock);
	seg_store(&shm->valid, 0);
	if (!lost)
		mr_quiesce(ctx);
	/* Looked at last: a bind may have been in execution. */
	if (!lost && mw_uses_region(ctx, mr->index)) {
		seg_store(&shm->valid, 1);
		pthread_mutex_unlock(&ctx->lock);
		return hca_errno(EBUSY);
	}
	if (!lost) {
		key_delete(ctx, shm->lkey);
		if (shm->rkey && shm->rkey != shm->lkey)
			key_delete(ctx, shm->rkey);
	}
	if (mr->zeros)
		munmap(mr->zeros, 2 * (size_t)HCA_MAX_MSG);
	shm->kind = SEG_MR_FREE;
	if (mr->dm)
		mr->dm->users--;
	((struct hca_pd *)ibmr->pd)->users--;
	ctx->mrs--;
	pthread_mutex_unlock(&ctx->lock);
	object_free(mr, sizeof(*mr));
	return 0;
}
