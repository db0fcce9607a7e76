/* SPDX-License-Identifier: Apache-2.0 */
/* Address handles, and multicast groups. */
#include "control/control.h"
#include "interpose/real.h"
#include "objects/objects.h"

struct ibv_ah *sv_ah_alloc(struct ibv_pd *vpd)
{
	struct sv_ah *ah = sv_slot_alloc(SV_KIND_AH, sizeof(*ah));

	if (!ah)
		return NULL;
	ah->v.context = vpd->context;
	ah->v.pd = vpd;
	ah->v.handle = sv_slot_index(SV_KIND_AH, sizeof(*ah), ah);
	return &ah->v;
}

int sv_ah_bind(struct ibv_ah *vah, struct ibv_ah *const *reals, uint32_t count, const struct sv_idmap *map,
	       const uint16_t *makers)
{
	struct sv_ah *ah = sv_ah_of(vah);

	sv_block_free(ah->reals, ah->count * sizeof(*ah->reals));
	sv_block_free(ah->makers, SV_NUMBER_RANGES * sizeof(*makers));
	ah->reals = NULL;
	ah->makers = NULL;
	ah->real = NULL;
	ah->map = NULL;
	ah->count = 0;
	if (!count)
		return 0;
	ah->reals = sv_block_alloc(count * sizeof(*reals));
	if (!ah->reals)
		return ENOMEM;
	if (makers) {
		ah->makers = sv_block_alloc(SV_NUMBER_RANGES * sizeof(*makers));
		if (!ah->makers) {
			sv_block_free(ah->reals, count * sizeof(*ah->reals));
			ah->reals = NULL;
			return ENOMEM;
		}
		memcpy(ah->makers, makers, SV_NUMBER_RANGES * sizeof(*makers));
	}
	memcpy(ah->reals, reals, count * sizeof(*reals));
	ah->count = count;
	ah->real = reals[0];
	ah->map = map;
	return 0;
}

void sv_ah_free(struct ibv_ah *vah)
{
	sv_ah_bind(vah, NULL, 0, NULL, NULL);
	sv_slot_free(SV_KIND_AH, sizeof(struct sv_ah), sv_ah_of(vah));
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	if (!sv_ours(pd))
		return SV_REAL(ibv_create_ah)(pd, attr);
	return SV_CONTROL_POINTER(struct ibv_ah, SV_OP_CREATE_AH, "ibv_create_ah", SV_POINTER(pd), SV_POINTER(attr));
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	if (!sv_ours(ah))
		return SV_REAL(ibv_destroy_ah)(ah);
	return SV_CONTROL(SV_OP_DESTROY_AH, "ibv_destroy_ah", NULL, SV_POINTER(ah));
}

/*
 * Completions name senders by virtual ids, and so do the global route headers in the application's memory (grh.c), so the way
 * back needs nothing but what they say; which index a GID has, and what real ones in device memory stand for, the driver knows.
 */
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
			struct ibv_ah_attr *attr)
{
	int err = 0;

	if (!sv_ours(context))
		return SV_REAL(ibv_init_ah_from_wc)(context, port, wc, grh, attr);
	*attr = (struct ibv_ah_attr){
		.dlid = wc->slid,
		.sl = wc->sl,
		.src_path_bits = wc->dlid_path_bits,
		.port_num = port,
	};
	if (wc->wc_flags & IBV_WC_GRH)
		err = SV_CONTROL(SV_OP_INIT_AH, "ibv_init_ah_from_wc", NULL, SV_POINTER(context), SV_ARG(port),
				 SV_POINTER(grh), SV_POINTER(attr));
	if (!err)
		return 0;
	errno = err;
	return -1;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;

	if (!sv_ours(pd))
		return SV_REAL(ibv_create_ah_from_wc)(pd, wc, grh, port);
	return ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) ? NULL : ibv_create_ah(pd, &attr);
}

/*
 * Called by librdmacm with what the kernel's connection manager says. Queue pair numbers went through it as the programs
 * know them; the addresses in its answers are real ones.
 */
static __thread bool copying_qp_attr;	/* the real function for those may call the one for these, or not */

static void from_kernel(struct ibv_ah_attr *attr)
{
	if (sv_driver_running() && !copying_qp_attr)
		SV_CONTROL(SV_OP_FROM_KERNEL, "ibv_copy_ah_attr_from_kern", NULL, SV_POINTER(attr));
}

void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *attr, void *from)
{
	SV_REAL(ibv_copy_ah_attr_from_kern)(attr, from);
	from_kernel(attr);
}

void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *attr, void *from)
{
	copying_qp_attr = true;
	SV_REAL(ibv_copy_qp_attr_from_kern)(attr, from);
	copying_qp_attr = false;
	from_kernel(&attr->ah_attr);
	from_kernel(&attr->alt_ah_attr);
}

/* Multicast addresses mean themselves everywhere. */
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	if (!sv_ours(qp))
		return SV_REAL(ibv_attach_mcast)(qp, gid, lid);
	return SV_CONTROL(SV_OP_ATTACH_MCAST, "ibv_attach_mcast", NULL, SV_POINTER(qp), SV_POINTER(gid), SV_ARG(lid));
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	if (!sv_ours(qp))
		return SV_REAL(ibv_detach_mcast)(qp, gid, lid);
	return SV_CONTROL(SV_OP_DETACH_MCAST, "ibv_detach_mcast", NULL, SV_POINTER(qp), SV_POINTER(gid), SV_ARG(lid));
}
