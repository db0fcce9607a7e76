/* SPDX-License-Identifier: Apache-2.0 */
#include "objects/qp_numbers.h"

/* Adding and removing; who polls takes no lock. Pages live as long as their context. */
static pthread_mutex_t change = PTHREAD_MUTEX_INITIALIZER;

static uint32_t *place_of(struct sv_context *context, uint32_t number)
{
	struct sv_qp_numbers *numbers = context->qp_numbers;
	uint32_t **page;

	if (!numbers) {
		numbers = sv_block_alloc(sizeof(*numbers));
		if (!numbers)
			return NULL;
		sv_store_release(&context->qp_numbers, numbers);
	}
	page = &numbers->pages[number >> SV_NUMBERS_PAGE_SHIFT & (SV_NUMBERS_PAGES - 1)];
	if (!*page) {
		uint32_t *fresh = sv_block_alloc(SV_NUMBERS_PAGE * sizeof(*fresh));

		if (!fresh)
			return NULL;
		sv_store_release(page, fresh);
	}
	return *page + (number & (SV_NUMBERS_PAGE - 1));
}

int sv_qp_numbers_add(struct sv_qp *qp, uint32_t real_num)
{
	uint32_t *place;

	pthread_mutex_lock(&change);
	place = place_of(sv_context_of(qp->v.context), real_num);
	if (place) {
		/* One whose real QP is gone, and which is about to be removed. */
		if (*place)
			sv_store(&sv_qp_at(*place - 1)->real_num, 0);
		sv_store_release(place, sv_qp_index(qp) + 1);
		sv_store(&qp->real_num, real_num);
	}
	pthread_mutex_unlock(&change);
	return place ? 0 : ENOMEM;
}

void sv_qp_numbers_remove(struct sv_qp *qp)
{
	uint32_t *place;

	if (!qp->real_num)
		return;
	pthread_mutex_lock(&change);
	place = place_of(sv_context_of(qp->v.context), qp->real_num);
	/* The device may have given the number to another QP already. */
	if (place && *place == sv_qp_index(qp) + 1)
		sv_store_release(place, 0);
	sv_store(&qp->real_num, 0);
	pthread_mutex_unlock(&change);
}

void sv_qp_numbers_free(struct sv_context *context)
{
	struct sv_qp_numbers *numbers = context->qp_numbers;

	if (!numbers)
		return;
	for (uint32_t i = 0; i < SV_NUMBERS_PAGES; i++)
		sv_block_free(numbers->pages[i], SV_NUMBERS_PAGE * sizeof(uint32_t));
	sv_block_free(numbers, sizeof(*numbers));
	context->qp_numbers = NULL;
}
