/* SPDX-License-Identifier: Apache-2.0 */
/* Translation of lkeys and rkeys, from the virtual to the real. */
#ifndef SV_KEYMAP_H
#define SV_KEYMAP_H

#include "base.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define SV_KEYS_PER_LINE 8

/*
 * A hash table of cache lines, each of eight keys and what they stand for. A key lies in its own place of its line or,
 * when another has that, anywhere in the line; a line that is full goes on in the next. Where nearly all are in their own
 * places (few keys, or keys that count up), one comparison finds them; where not, all of a line are compared at once.
 * Key 0 marks a free place, so it has one of its own.
 */
struct sv_keymap_line {
	uint32_t virtual_keys[SV_KEYS_PER_LINE];
	uint32_t real_keys[SV_KEYS_PER_LINE];
} __attribute__((aligned(SV_CACHE_LINE)));

struct sv_keymap {
	struct sv_keymap_line *lines;
	uint32_t shift;			/* 32 - log2(number of places) */
	uint32_t mask;
	uint32_t at_home;		/* nearly all keys lie in their own places */
	uint32_t zero_present;
	uint32_t zero_real;
};

extern struct sv_masks sv_masks __attribute__((visibility("hidden")));

/*
 * Where a key belongs: the line's number times SV_KEYS_PER_LINE, plus the place in it. 2^32 divided by the golden ratio
 * spreads keys that count up in steps, as those of most devices do.
 */
static inline uint32_t sv_keymap_place(const struct sv_keymap *map, uint32_t key)
{
	return key * 0x9e3779b1u >> map->shift;
}

/* A bit for each place of the line that holds the key; of key 0, for each that is free. */
static inline unsigned sv_keymap_match(const struct sv_keymap_line *line, uint32_t key)
{
#if defined(__SSE2__)
	const __m128i wanted = _mm_set1_epi32(key), *keys = (const __m128i *)line->virtual_keys;
	const __m128i low = _mm_cmpeq_epi32(_mm_load_si128(keys), wanted);
	const __m128i high = _mm_cmpeq_epi32(_mm_load_si128(keys + 1), wanted);

	return _mm_movemask_ps(_mm_castsi128_ps(low)) | _mm_movemask_ps(_mm_castsi128_ps(high)) << 4;
#else
	unsigned match = 0;

	for (unsigned i = 0; i < SV_KEYS_PER_LINE; i++)
		match |= (unsigned)(line->virtual_keys[i] == key) << i;
	return match;
#endif
}

static inline uint32_t sv_key_real(const struct sv_keymap *map, uint32_t key)
{
	if (map && likely(key)) {
		uint32_t place = sv_keymap_place(map, key), at = place / SV_KEYS_PER_LINE;
		const struct sv_keymap_line *line = &map->lines[at];

		place %= SV_KEYS_PER_LINE;
		if (map->at_home && likely(line->virtual_keys[place] == key))
			return line->real_keys[place];
		for (;;) {
			unsigned match = sv_keymap_match(line, key);

			if (likely(match))
				return line->real_keys[__builtin_ctz(match)];
			if (likely(sv_keymap_match(line, 0)))
				break;
			at = (at + 1) & map->mask;
			line = &map->lines[at];
		}
	} else if (map && map->zero_present) {
		return map->zero_real;
	}
	return key ^ sv_masks.key;
}

#endif
