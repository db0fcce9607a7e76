/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains and memory regions. */
#include "control/control.h"
#include "interpose/real.h"
#include "objects/objects.h"
#include "objects/region.h"
#include "objects/window.h"

struct ibv_pd *sv_pd_alloc(struct ibv_context *vcontext)
{
	struct sv_pd *pd = sv_slot_alloc(SV_KIND_PD, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->v.context = vcontext;
	pd->v.handle = sv_slot_index(SV_KIND_PD, sizeof(*pd), pd);
	return &pd->v;
}

void sv_pd_bind(struct ibv_pd *vpd, struct ibv_pd *real)
{
	sv_pd_of(vpd)->real = real;
}

void sv_pd_free(struct ibv_pd *vpd)
{
	sv_slot_free(SV_KIND_PD, sizeof(struct sv_pd), sv_pd_of(vpd));
}

struct ibv_mr *sv_mr_alloc(struct ibv_pd *vpd, void *addr, uint64_t length, uint32_t vlkey, uint32_t vrkey)
{
	struct sv_mr *mr = sv_slot_alloc(SV_KIND_MR, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->v.context = vpd->context;
	mr->v.pd = vpd;
	mr->v.addr = addr;
	mr->v.length = length;
	mr->v.handle = sv_slot_index(SV_KIND_MR, sizeof(*mr), mr);
	mr->v.lkey = vlkey;
	mr->v.rkey = vrkey;
	mr->iova = (uintptr_t)addr;
	return &mr->v;
}

void sv_mr_bind(struct ibv_mr *vmr, struct ibv_mr *real)
{
	sv_mr_of(vmr)->real = real;
}

void sv_mr_free(struct ibv_mr *vmr)
{
	sv_windows_forget_mr(sv_mr_of(vmr));
	sv_region_forget(sv_mr_of(vmr));
	sv_slot_free(SV_KIND_MR, sizeof(struct sv_mr), sv_mr_of(vmr));
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	if (!sv_ours(context))
		return SV_REAL(ibv_alloc_pd)(context);
	return SV_CONTROL_POINTER(struct ibv_pd, SV_OP_ALLOC_PD, "ibv_alloc_pd", SV_POINTER(context));
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	struct sv_td *td;
	int err;

	if (!sv_ours(pd))
		return SV_REAL(ibv_dealloc_pd)(pd);
	td = sv_pd_of(pd)->td;
	err = SV_CONTROL(SV_OP_DEALLOC_PD, "ibv_dealloc_pd", NULL, SV_POINTER(pd));
	if (!err && td)
		sv_add(&td->users, -1);
	return err;
}

static struct ibv_mr *reg_mr(const char *verb, struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			     unsigned int access)
{
	struct ibv_mr *mr = SV_CONTROL_POINTER(struct ibv_mr, SV_OP_REG_MR, verb, SV_POINTER(pd), SV_POINTER(addr),
					       SV_ARG(length), SV_ARG(iova), SV_ARG(access));

	if (mr) {
		sv_mr_of(mr)->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
		sv_region_note(sv_mr_of(mr));
	}
	return mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	if (!sv_ours(pd))
		return SV_REAL(ibv_reg_mr)(pd, addr, length, access);
	return reg_mr("ibv_reg_mr", pd, addr, length, (uintptr_t)addr, access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	if (!sv_ours(pd))
		return SV_REAL(ibv_reg_mr_iova)(pd, addr, length, iova, access);
	return reg_mr("ibv_reg_mr_iova", pd, addr, length, iova, access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	if (!sv_ours(pd))
		return SV_REAL(ibv_reg_mr_iova2)(pd, addr, length, iova, access);
	return reg_mr("ibv_reg_mr_iova2", pd, addr, length, iova, access);
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	uint64_t result = 0;
	int err;

	if (!sv_ours(mr))
		return SV_REAL(ibv_rereg_mr)(mr, flags, pd, addr, length, access);
	sv_region_forget(sv_mr_of(mr));
	err = SV_CONTROL(SV_OP_REREG_MR, "ibv_rereg_mr", &result, SV_POINTER(mr), SV_ARG((int64_t)flags),
			 SV_POINTER(pd), SV_POINTER(addr), SV_ARG(length), SV_ARG((int64_t)access));
	/* The second of the two has changed the region all the same. */
	if ((err ? (int)result == IBV_REREG_MR_ERR_DO_FORK_OLD : !(int)result) &&
	    (flags & IBV_REREG_MR_CHANGE_TRANSLATION))
		sv_mr_of(mr)->iova = (uintptr_t)addr;
	sv_region_note(sv_mr_of(mr));
	if (err)
		errno = err;
	return err && !(int)result ? IBV_REREG_MR_ERR_CMD : (int)result;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	if (!sv_ours(mr))
		return SV_REAL(ibv_dereg_mr)(mr);
	return SV_CONTROL(SV_OP_DEREG_MR, "ibv_dereg_mr", NULL, SV_POINTER(mr));
}
