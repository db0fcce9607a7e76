/* SPDX-License-Identifier: Apache-2.0 */
#include "objects/keymap.h"
#include "base/arena.h"

/* On average, so that few lines are full. */
#define KEYS_IN_A_LINE 4
#define LOG_KEYS_PER_LINE 3
/* One in so many: a branch that goes wrong costs more than the comparison of a whole line. */
#define STRANGERS_ALLOWED 64

_Static_assert(1 << LOG_KEYS_PER_LINE == SV_KEYS_PER_LINE, "");

struct sv_masks sv_masks;

/* Two places, each with a key that belongs in the other. */
static const struct sv_key_pair nowhere[] = { { 1, 0 }, { 0, 0 } };

void sv_set_masks(const struct sv_masks *masks)
{
	sv_masks = *masks;
}

static size_t lines_size(const struct sv_keymap *map)
{
	return (map->mask + (size_t)1) * sizeof(*map->lines);
}

/* Returns whether the key lies in its own place. */
static bool add(struct sv_keymap *map, uint32_t virtual_key, uint32_t real_key)
{
	uint32_t home = sv_key_place(virtual_key, map->shift);

	for (uint32_t at = home / SV_KEYS_PER_LINE;; at = (at + 1) & map->mask) {
		struct sv_keymap_line *line = &map->lines[at];
		unsigned free = sv_keymap_match(line, map->free), known = sv_keymap_match(line, virtual_key);
		unsigned place = home % SV_KEYS_PER_LINE;

		if (!free && !known)
			continue;
		if (known)
			place = __builtin_ctz(known);
		else if (!(free >> place & 1))
			place = __builtin_ctz(free);
		line->pairs[place] = (struct sv_key_pair){ virtual_key, real_key };
		return place == home % SV_KEYS_PER_LINE;
	}
}

static bool contains(const uint32_t *keys, uint32_t count, uint32_t key)
{
	for (uint32_t i = 0; i < count; i++)
		if (keys[i] == key)
			return true;
	return false;
}

static void clear(struct sv_keymap *map)
{
	const struct sv_key_pair none = { map->free, map->free ^ sv_masks.key };

	for (size_t line = 0; line <= map->mask; line++)
		for (unsigned i = 0; i < SV_KEYS_PER_LINE; i++)
			map->lines[line].pairs[i] = none;
}

struct sv_keymap *sv_keymap_new(const uint32_t *virtual_keys, const uint32_t *real_keys, uint32_t count)
{
	struct sv_keymap *map = sv_block_alloc(sizeof(*map));
	uint32_t log_lines = 0, strangers = 0;

	if (!map)
		return NULL;
	while (log_lines < 29 && ((uint64_t)KEYS_IN_A_LINE << log_lines) < count)
		log_lines++;
	map->shift = 32 - LOG_KEYS_PER_LINE - log_lines;
	map->mask = (1u << log_lines) - 1;
	map->lines = sv_block_alloc(lines_size(map));
	if (!map->lines) {
		sv_block_free(map, sizeof(*map));
		return NULL;
	}
	/* In steps, so that keys that count up or down are not all tried. */
	while (contains(virtual_keys, count, map->free))
		map->free += 0x9e3779b1u;
	clear(map);
	for (uint32_t i = 0; i < count; i++)
		strangers += !add(map, virtual_keys[i], real_keys[i]);
	if (strangers <= count / STRANGERS_ALLOWED) {
		map->home = map->lines[0].pairs;
		map->home_shift = map->shift;
	} else {
		map->home = nowhere;
		map->home_shift = 31;
	}
	return map;
}

void sv_keymap_free(struct sv_keymap *map)
{
	if (!map)
		return;
	sv_block_free(map->lines, lines_size(map));
	sv_block_free(map, sizeof(*map));
}
