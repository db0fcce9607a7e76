/* SPDX-License-Identifier: Apache-2.0 */
#include "base/idmap.h"
#include "base/arena.h"

static size_t entries_size(const struct sv_idmap *map)
{
	return (map->mask + (size_t)1) * sizeof(*map->entries);
}

struct sv_idmap *sv_idmap_new(const uint64_t *keys, const uint64_t *values, uint32_t count)
{
	struct sv_idmap *map = sv_block_alloc(sizeof(*map));
	uint32_t log = 1;

	if (!map)
		return NULL;
	while (log < 31 && (uint32_t)1 << log < 2 * (uint64_t)count)
		log++;
	map->mask = (1u << log) - 1;
	map->shift = 64 - log;
	map->entries = sv_block_alloc(entries_size(map));
	if (!map->entries) {
		sv_block_free(map, sizeof(*map));
		return NULL;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = (keys[i] * 0x9e3779b97f4a7c15ull) >> map->shift;

		while (map->entries[at].key && map->entries[at].key != keys[i])
			at = (at + 1) & map->mask;
		map->entries[at] = (struct sv_idmap_entry){ keys[i], values[i] };
	}
	return map;
}

void sv_idmap_free(struct sv_idmap *map)
{
	if (!map)
		return;
	sv_block_free(map->entries, entries_size(map));
	sv_block_free(map, sizeof(*map));
}
