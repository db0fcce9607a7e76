/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is not the application's own: device memory, whose contents wait in memory of ours while there is no
 * device; regions of it; null regions; and advice, which is passed on and not remembered.
 */
#include "control/control.h"
#include "interpose/real.h"
#include "objects/objects.h"
#include "objects/region.h"

/* ---- Device memory ---------------------------------------------------------------------------------------------- */

static int check_range(const struct sv_dm *dm, uint64_t offset, size_t length)
{
	return offset > dm->length || length > dm->length - offset ? EFAULT : 0;
}

static int memcpy_to_dm(struct ibv_dm *vdm, uint64_t offset, const void *host, size_t length)
{
	struct sv_thread *self = sv_gate_enter("ibv_memcpy_to_dm");
	struct sv_dm *dm = sv_dm_of(vdm);
	int err = check_range(dm, offset, length);

	if (!err)
		err = dm->real ? dm->real->memcpy_to_dm(dm->real, offset, host, length) : ENODEV;
	sv_gate_leave(self);
	return err;
}

static int memcpy_from_dm(void *host, struct ibv_dm *vdm, uint64_t offset, size_t length)
{
	struct sv_thread *self = sv_gate_enter("ibv_memcpy_from_dm");
	struct sv_dm *dm = sv_dm_of(vdm);
	int err = check_range(dm, offset, length);

	if (!err)
		err = dm->real ? dm->real->memcpy_from_dm(host, dm->real, offset, length) : ENODEV;
	sv_gate_leave(self);
	return err;
}

struct ibv_dm *sv_dm_alloc(struct ibv_context *vcontext, uint64_t length)
{
	struct sv_dm *dm = sv_slot_alloc(SV_KIND_DM, sizeof(*dm));

	if (!dm)
		return NULL;
	dm->v.context = vcontext;
	dm->v.memcpy_to_dm = memcpy_to_dm;
	dm->v.memcpy_from_dm = memcpy_from_dm;
	dm->v.handle = sv_slot_index(SV_KIND_DM, sizeof(*dm), dm);
	dm->length = length;
	return &dm->v;
}

/* Devices copy whole words only, and the driver allocates whole words. */
static uint64_t whole_words(uint64_t length)
{
	return (length + 3) & ~(uint64_t)3;
}

int sv_dm_save(struct ibv_dm *vdm)
{
	struct sv_dm *dm = sv_dm_of(vdm);
	uint64_t length = whole_words(dm->length);

	if (!dm->real)
		return 0;
	if (!dm->saved)
		dm->saved = sv_block_alloc(length);
	return dm->saved ? dm->real->memcpy_from_dm(dm->saved, dm->real, 0, length) : ENOMEM;
}

void sv_dm_forget(struct ibv_dm *vdm)
{
	struct sv_dm *dm = sv_dm_of(vdm);

	if (!dm->real)
		return;
	sv_block_free(dm->saved, whole_words(dm->length));
	dm->saved = NULL;
}

int sv_dm_bind(struct ibv_dm *vdm, struct ibv_dm *real)
{
	struct sv_dm *dm = sv_dm_of(vdm);
	uint64_t length = whole_words(dm->length);
	int err = 0;

	if (!real && dm->real && !dm->saved) {
		dm->saved = sv_block_alloc(length);
		if (!dm->saved)
			return ENOMEM;
		err = dm->real->memcpy_from_dm(dm->saved, dm->real, 0, length);
	} else if (real && dm->saved) {
		err = real->memcpy_to_dm(real, 0, dm->saved, length);
	}
	if (!err || !real)
		dm->real = real;
	if (dm->saved && dm->real) {
		sv_block_free(dm->saved, length);
		dm->saved = NULL;
	}
	return err;
}

void sv_dm_free(struct ibv_dm *vdm)
{
	struct sv_dm *dm = sv_dm_of(vdm);

	sv_block_free(dm->saved, whole_words(dm->length));
	sv_slot_free(SV_KIND_DM, sizeof(*dm), dm);
}

struct ibv_dm *sv_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	return SV_CONTROL_POINTER(struct ibv_dm, SV_OP_ALLOC_DM, "ibv_alloc_dm", SV_POINTER(context),
				  SV_POINTER(attr));
}

int sv_free_dm(struct ibv_dm *dm)
{
	return SV_CONTROL(SV_OP_FREE_DM, "ibv_free_dm", NULL, SV_POINTER(dm));
}

/* ---- Regions ---------------------------------------------------------------------------------------------------- */

struct ibv_mr *sv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *vdm, uint64_t offset, size_t length, unsigned int access)
{
	struct ibv_mr *mr = SV_CONTROL_POINTER(struct ibv_mr, SV_OP_REG_DM_MR, "ibv_reg_dm_mr", SV_POINTER(pd),
					       SV_POINTER(vdm), SV_ARG(offset), SV_ARG(length), SV_ARG(access));

	if (mr) {
		sv_mr_of(mr)->kind = SV_MR_DEVICE;
		sv_mr_of(mr)->dm = sv_dm_of(vdm);
		sv_mr_of(mr)->dm_offset = offset;
		sv_mr_of(mr)->iova = 0;
		sv_region_note(sv_mr_of(mr));
	}
	return mr;
}

struct ibv_mr *sv_alloc_null_mr(struct ibv_pd *pd)
{
	struct ibv_mr *mr = SV_CONTROL_POINTER(struct ibv_mr, SV_OP_ALLOC_NULL_MR, "ibv_alloc_null_mr",
					       SV_POINTER(pd));

	if (mr) {
		sv_mr_of(mr)->kind = SV_MR_NULL;
		sv_region_note(sv_mr_of(mr));
	}
	return mr;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	struct ibv_mr *mr;

	if (!sv_ours(pd))
		return SV_REAL(ibv_reg_dmabuf_mr)(pd, offset, length, iova, fd, access);
	mr = SV_CONTROL_POINTER(struct ibv_mr, SV_OP_REG_DMABUF_MR, "ibv_reg_dmabuf_mr", SV_POINTER(pd),
				SV_ARG(offset), SV_ARG(length), SV_ARG(iova), SV_ARG((int64_t)fd),
				SV_ARG((int64_t)access));
	if (mr) {
		sv_mr_of(mr)->kind = SV_MR_DMABUF;
		sv_region_note(sv_mr_of(mr));
	}
	return mr;
}

#define ADVICE_AT_ONCE 16

int sv_advise_mr(struct ibv_pd *vpd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list,
		 uint32_t count)
{
	const struct sv_context *context = sv_context_of(vpd->context);
	struct ibv_sge real[ADVICE_AT_ONCE];
	struct sv_thread *self = sv_gate_enter("ibv_advise_mr");
	struct ibv_pd *pd = sv_pd_of(vpd)->real;
	int err = pd ? 0 : ENODEV;

	do {
		uint32_t some = count < ADVICE_AT_ONCE ? count : ADVICE_AT_ONCE;

		for (uint32_t i = 0; i < some; i++) {
			real[i] = list[i];
			real[i].lkey = sv_key_real(context->lkeys, list[i].lkey);
		}
		if (!err)
			err = ibv_advise_mr(pd, advice, flags, real, some);
		list += some;
		count -= some;
	} while (count && !err);
	sv_gate_leave(self);
	return err;
}

/* ---- What a message that landed during a checkpoint is written to ------------------------------------------------ */

bool sv_memory_write(struct ibv_context *vcontext, uint32_t vlkey, uint64_t address, const void *from, uint64_t length)
{
	struct sv_mr *mr;
	uint32_t index = 0;

	/* A search through all regions: nothing else is copied by the processor. */
	while ((mr = sv_slot_next(SV_KIND_MR, sizeof(*mr), &index))) {
		if (mr->v.context != vcontext || mr->v.lkey != vlkey)
			continue;
		if (mr->kind == SV_MR_NULL)
			return true;
		if (mr->kind == SV_MR_DMABUF || address < mr->iova || length > mr->v.length ||
		    address - mr->iova > mr->v.length - length)
			return false;
		address -= mr->iova;
		if (mr->kind == SV_MR_DEVICE)
			return mr->dm->real && !mr->dm->real->memcpy_to_dm(mr->dm->real, mr->dm_offset + address, from,
									   length);
		memcpy((char *)mr->v.addr + address, from, length);
		return true;
	}
	return false;
}
