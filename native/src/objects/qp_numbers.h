/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a real QP number to our QP, for completions of receives that several QPs share. Such a wr_id names the receive,
 * and only the number says whose message it took. Those of datagrams are in it, too: they may send to each other. A table of
 * two levels: two loads, whatever the number of QPs.
 */
#ifndef SV_QP_NUMBERS_H
#define SV_QP_NUMBERS_H

#include "objects/objects.h"

#define SV_NUMBERS_PAGE_SHIFT 10
#define SV_NUMBERS_PAGE (1u << SV_NUMBERS_PAGE_SHIFT)
#define SV_NUMBERS_PAGES (1u << (24 - SV_NUMBERS_PAGE_SHIFT))

struct sv_qp_numbers {
	uint32_t *pages[SV_NUMBERS_PAGES];	/* of QP indices + 1; 0: none */
};

/* Enters a QP under the number of its real one. Returns 0 or ENOMEM. */
int sv_qp_numbers_add(struct sv_qp *qp, uint32_t real_num);
void sv_qp_numbers_remove(struct sv_qp *qp);
void sv_qp_numbers_free(struct sv_context *context);

/* NULL: none, or none any more. */
static inline struct sv_qp *sv_qp_by_number(struct ibv_context *vcontext, uint32_t real_num)
{
	struct sv_qp_numbers *numbers = sv_load_acquire(&sv_context_of(vcontext)->qp_numbers);
	uint32_t *page = numbers ? sv_load_acquire(&numbers->pages[real_num >> SV_NUMBERS_PAGE_SHIFT &
								   (SV_NUMBERS_PAGES - 1)]) : NULL;
	uint32_t index = page ? sv_load_acquire(&page[real_num & (SV_NUMBERS_PAGE - 1)]) : 0;

	return likely(index) ? sv_qp_at(index - 1) : NULL;
}

#endif
