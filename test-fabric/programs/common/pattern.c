#include "pattern.h"

void pattern_fill(void *to, size_t size, uint64_t base, size_t skip)
{
	uint64_t at = base + skip / 8;
	unsigned char *out = to;
	uint64_t word;

	for (; size >= 8; size -= 8, out += 8) {
		word = mix64(at++);
		memcpy(out, &word, 8);
	}
	word = mix64(at);
	memcpy(out, &word, size);
}

int pattern_matches(const void *from, size_t size, uint64_t base, size_t skip)
{
	uint64_t at = base + skip / 8;
	const unsigned char *in = from;
	uint64_t word;

	for (; size >= 8; size -= 8, in += 8) {
		word = mix64(at++);
		if (memcmp(in, &word, 8))
			return 0;
	}
	word = mix64(at);
	return !memcmp(in, &word, size);
}

int is_poison(const void *from, size_t size)
{
	const unsigned char *in = from;

	return size == 0 || (in[0] == POISON && !memcmp(in, in + 1, size - 1));
}
