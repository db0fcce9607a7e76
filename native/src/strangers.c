/* SPDX-License-Identifier: Apache-2.0 */
#include "strangers.h"
#include "idmap.h"
#include "target.h"

/* A hash table that is only added to, so that its readers need no lock: a domain and a QP's virtual number make a key. */
#define SLOT_SHIFT 12
#define SLOTS (1u << SLOT_SHIFT)

static struct {
	uint64_t key;
	uint64_t received;
} slots[SLOTS];
static uint32_t used, lost;

_Static_assert(SV_MAX_STRANGERS <= SLOTS / 4 * 3, "a free slot is found soon");

static void count(uint32_t domain, uint32_t qp_num, uint64_t messages)
{
	uint64_t key = (uint64_t)domain << 24 | (qp_num & 0xffffff);
	uint32_t slot = (key * 0x9e3779b97f4a7c15ull) >> (64 - SLOT_SHIFT);

	for (;; slot = (slot + 1) % SLOTS) {
		uint64_t found = sv_load(&slots[slot].key);

		if (!found) {
			if (sv_load(&used) >= SV_MAX_STRANGERS) {
				sv_store(&lost, 1);
				return;
			}
			/* What another thread has made of it is in `found` then. */
			if (__atomic_compare_exchange_n(&slots[slot].key, &found, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
				__atomic_fetch_add(&used, 1, __ATOMIC_RELAXED);
				found = key;
			}
		}
		if (found == key) {
			__atomic_fetch_add(&slots[slot].received, messages, __ATOMIC_RELAXED);
			return;
		}
	}
}

void sv_stranger_brought(const struct sv_srq *srq, struct ibv_wc *wc)
{
	uint64_t found;

	if (sv_idmap_find(sv_context_of(srq->v.context)->sources, sv_stranger_key(wc->qp_num), &found))
		wc->qp_num = found;
	else
		wc->qp_num ^= sv_masks.qp_num;
	sv_translate_source(srq->v.context, wc);
	if (wc->status == IBV_WC_SUCCESS)
		count(srq->xrcd->domain, wc->qp_num, 1);
}

void sv_stranger_had_brought(uint32_t domain, uint32_t qp_num, uint64_t messages)
{
	if (messages)
		count(domain, qp_num, messages);
}

int sv_xrcd_strangers(uint32_t domain, struct sv_stranger *strangers)
{
	int n = 0;

	for (uint32_t slot = 0; slot < SLOTS && n < SV_MAX_STRANGERS; slot++) {
		uint64_t key = sv_load(&slots[slot].key);

		if (key && key >> 24 == domain)
			strangers[n++] = (struct sv_stranger){
				.received = sv_load(&slots[slot].received), .qp_num = key & 0xffffff,
			};
	}
	return sv_load(&lost) ? -1 : n;
}
