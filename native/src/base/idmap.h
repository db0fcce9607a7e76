/* SPDX-License-Identifier: Apache-2.0 */
/* An immutable hash table of 64-bit ids, for requests that say where they go, and for whom a datagram came from. */
#ifndef SV_IDMAP_H
#define SV_IDMAP_H

#include "base/base.h"

struct sv_idmap_entry {
	uint64_t key;			/* 0: a free place */
	uint64_t value;
};

struct sv_idmap {
	struct sv_idmap_entry *entries;
	uint32_t mask;
	uint32_t shift;
};

/* False: it is not in the table, or there is none. */
static inline bool sv_idmap_find(const struct sv_idmap *map, uint64_t key, uint64_t *value)
{
	if (!map)
		return false;
	for (uint32_t at = (key * 0x9e3779b97f4a7c15ull) >> map->shift;; at = (at + 1) & map->mask) {
		const struct sv_idmap_entry *entry = &map->entries[at];

		if (entry->key == key) {
			*value = entry->value;
			return true;
		}
		if (!entry->key)
			return false;
	}
}

/* The key of a sender as a completion names it; number 0: of its port. */
static inline uint64_t sv_source_key(uint16_t lid, uint32_t qp_num)
{
	return (uint64_t)1 << 40 | (uint64_t)lid << 24 | (qp_num & 0xffffff);
}

/* In the same table: the same by its real port, as its route header names it. */
static inline uint64_t sv_route_key(uint32_t port, uint32_t qp_num)
{
	return (uint64_t)1 << 56 | (uint64_t)port << 24 | (qp_num & 0xffffff);
}

/* In the same table: what this process is known by there, for a QP that it has made since. */
static inline uint64_t sv_own_source_key(uint16_t lid)
{
	return (uint64_t)2 << 56 | (uint64_t)lid << 24;
}

static inline uint64_t sv_own_route_key(uint32_t port)
{
	return (uint64_t)3 << 56 | (uint64_t)port << 24;
}

/* In the same table: the key of a QP of another process by whose way a message came. */
static inline uint64_t sv_foreign_qp_key(uint32_t qp_num)
{
	return (uint64_t)2 << 40 | (qp_num & 0xffffff);
}

#endif
