/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the memory is that a receive names: for most regions at the address that the request says. Those of which it is
 * elsewhere, or that the processor cannot write to, are in a hash table, so that nobody walks through all regions.
 */
#ifndef SV_REGION_H
#define SV_REGION_H

#include "objects/objects.h"

/* A region has come, or changed; it goes, or is about to change. From any thread. */
void sv_region_note(const struct sv_mr *mr);
void sv_region_forget(const struct sv_mr *mr);
/* NULL: the processor cannot write there. Takes no lock. */
void *sv_region_at(const struct ibv_context *vcontext, uint32_t vlkey, uint64_t address);

#endif
