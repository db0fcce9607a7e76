/* SPDX-License-Identifier: Apache-2.0 */
/* Translation of lkeys and rkeys, from the virtual to the real. */
#ifndef SV_KEYMAP_H
#define SV_KEYMAP_H

#include "base/base.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define SV_KEYS_PER_LINE 8

/*
 * A hash table of cache lines, each of eight keys and what they stand for. A key lies in its own place of its line or,
 * when another has that, anywhere in the line; a line that is full goes on in the next. Where nearly all are in their own
 * places (few keys, or keys that count up), one comparison finds them; where not, all of a line are compared at once. A
 * free place holds a key that is not in the map, and what becomes of it.
 */
struct sv_key_pair {
	uint32_t virtual_key;
	uint32_t real_key;
};

struct sv_keymap_line {
	struct sv_key_pair pairs[SV_KEYS_PER_LINE];
} __attribute__((aligned(SV_CACHE_LINE)));

struct sv_keymap {
	/* Where one comparison looks: the lines as one row of places, or a row in which no key is found. */
	const struct sv_key_pair *home;
	uint32_t home_shift;		/* 32 - log2(number of places) */
	uint32_t shift;			/* of the lines */
	struct sv_keymap_line *lines;
	uint32_t mask;
	uint32_t free;			/* the key in free places */
};

extern struct sv_masks sv_masks __attribute__((visibility("hidden")));

/*
 * Where a key belongs: the line's number times SV_KEYS_PER_LINE, plus the place in it. 2^32 divided by the golden ratio
 * spreads keys that count up in steps, as those of most devices do.
 */
static inline uint32_t sv_key_place(uint32_t key, uint32_t shift)
{
	return key * 0x9e3779b1u >> shift;
}

#if defined(__SSE2__)
/* The virtual keys of four pairs. */
static inline __m128i sv_keymap_keys(const struct sv_key_pair *pairs)
{
	const __m128 *two = (const __m128 *)pairs;

	return _mm_castps_si128(_mm_shuffle_ps(two[0], two[1], _MM_SHUFFLE(2, 0, 2, 0)));
}
#endif

/* A bit for each place of the line that holds the key. */
static inline unsigned sv_keymap_match(const struct sv_keymap_line *line, uint32_t key)
{
#if defined(__SSE2__)
	const __m128i wanted = _mm_set1_epi32(key);
	const __m128i low = _mm_cmpeq_epi32(sv_keymap_keys(&line->pairs[0]), wanted);
	const __m128i high = _mm_cmpeq_epi32(sv_keymap_keys(&line->pairs[4]), wanted);

	return _mm_movemask_ps(_mm_castsi128_ps(low)) | _mm_movemask_ps(_mm_castsi128_ps(high)) << 4;
#else
	unsigned match = 0;

	for (unsigned i = 0; i < SV_KEYS_PER_LINE; i++)
		match |= (unsigned)(line->pairs[i].virtual_key == key) << i;
	return match;
#endif
}

static inline uint32_t sv_key_real(const struct sv_keymap *map, uint32_t key)
{
	if (likely(map)) {
		const struct sv_key_pair *home = &map->home[sv_key_place(key, map->home_shift)];

		if (likely(home->virtual_key == key))
			return home->real_key;
		for (uint32_t at = sv_key_place(key, map->shift) / SV_KEYS_PER_LINE;; at = (at + 1) & map->mask) {
			const struct sv_keymap_line *line = &map->lines[at];
			unsigned match = sv_keymap_match(line, key);

			if (likely(match))
				return line->pairs[__builtin_ctz(match)].real_key;
			if (likely(sv_keymap_match(line, map->free)))
				break;
		}
	}
	return key ^ sv_masks.key;
}

#endif
