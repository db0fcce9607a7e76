/* SPDX-License-Identifier: Apache-2.0 */
#include "datapath/foreign_qps.h"
#include "base/idmap.h"
#include "datapath/target.h"

/*
 * A hash table that is only added to while anybody is inside the gate, so that its readers need no lock: a domain and a QP's
 * virtual number make a key.
 */
#define SLOT_SHIFT 12
#define SLOTS (1u << SLOT_SHIFT)

static struct {
	uint64_t key;
	uint64_t received;
} slots[SLOTS];
static uint32_t used, lost;

_Static_assert(SV_MAX_FOREIGN_QPS <= SLOTS / 4 * 3, "a free slot is found soon");

static uint64_t key_of(uint32_t domain, uint32_t qp_num)
{
	return (uint64_t)domain << 24 | (qp_num & 0xffffff);
}

static uint32_t first_slot(uint64_t key)
{
	return (key * 0x9e3779b97f4a7c15ull) >> (64 - SLOT_SHIFT);
}

static void count(uint32_t domain, uint32_t qp_num, uint64_t messages)
{
	uint64_t key = key_of(domain, qp_num);
	uint32_t slot = first_slot(key);

	for (;; slot = (slot + 1) % SLOTS) {
		uint64_t found = sv_load(&slots[slot].key);

		if (!found) {
			if (sv_load(&used) >= SV_MAX_FOREIGN_QPS) {
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

void sv_foreign_qp_brought(const struct sv_srq *srq, struct ibv_wc *wc)
{
	uint64_t found;

	if (sv_idmap_find(sv_context_of(srq->v.context)->sources, sv_foreign_qp_key(wc->qp_num), &found))
		wc->qp_num = found;
	else
		wc->qp_num ^= sv_masks.qp_num;
	sv_translate_source(srq->v.context, wc, NULL);
	if (wc->status == IBV_WC_SUCCESS)
		count(srq->xrcd->domain, wc->qp_num, 1);
}

void sv_foreign_qp_had_brought(uint32_t domain, uint32_t qp_num, uint64_t messages)
{
	if (messages)
		count(domain, qp_num, messages);
}

int sv_xrcd_foreign_qps(uint32_t domain, struct sv_foreign_qp *foreign_qps)
{
	int n = 0;

	for (uint32_t slot = 0; slot < SLOTS && n < SV_MAX_FOREIGN_QPS; slot++) {
		uint64_t key = sv_load(&slots[slot].key);

		if (key && key >> 24 == domain)
			foreign_qps[n++] = (struct sv_foreign_qp){
				.received = sv_load(&slots[slot].received), .qp_num = key & 0xffffff,
			};
	}
	return sv_load(&lost) ? -1 : n;
}

void sv_xrcd_forget(uint32_t domain, uint64_t qp_num)
{
	uint64_t key = key_of(domain, qp_num), other;
	uint32_t hole = first_slot(key), next;

	while ((other = sv_load(&slots[hole].key)) != key) {
		if (!other)
			return;
		hole = (hole + 1) % SLOTS;
	}
	/* Entries that stand behind because this place was taken move up, or they would not be found any more. */
	for (next = (hole + 1) % SLOTS; (other = sv_load(&slots[next].key)); next = (next + 1) % SLOTS)
		if ((next - first_slot(other)) % SLOTS >= (next - hole) % SLOTS) {
			sv_store(&slots[hole].key, other);
			sv_store(&slots[hole].received, sv_load(&slots[next].received));
			hole = next;
		}
	sv_store(&slots[hole].key, 0);
	sv_store(&slots[hole].received, 0);
	sv_add(&used, -1);
}
