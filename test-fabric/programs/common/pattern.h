/* Bytes that can be told from a seed alone, so that a reader knows what must be there without being sent a copy. */
#ifndef PROGRAMS_PATTERN_H
#define PROGRAMS_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define POISON 0xa5	/* what memory holds that nobody may have written */

static inline uint64_t mix64(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

static inline uint64_t mix64_two(uint64_t a, uint64_t b)
{
	return mix64(mix64(a) ^ b);
}

/* Writes bytes `skip` to `skip + size` of the pattern of `base`; `skip` is a multiple of 8. */
void pattern_fill(void *to, size_t size, uint64_t base, size_t skip);

/* Non-zero if the bytes are those that pattern_fill() writes. */
int pattern_matches(const void *from, size_t size, uint64_t base, size_t skip);

/* Non-zero if all bytes are POISON. */
int is_poison(const void *from, size_t size);

#endif
