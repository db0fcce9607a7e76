#include "content.h"

#define LAST_MARK 0xa5
/* More than the buffers of a connection hold: so much may be lost or doubled at once. */
#define SEARCHED (1 << 20)

static uint64_t mix(uint64_t value)
{
	value ^= value >> 31;
	value *= 0x7fb5d329728ea185ULL;
	value ^= value >> 27;
	value *= 0x81dadef4bc2dd44dULL;
	return value ^ value >> 33;
}

uint64_t content_seed(uint32_t opener, uint32_t target, uint32_t number, bool to_target)
{
	return mix(mix((uint64_t)opener << 32 | target) + ((uint64_t)number << 1 | to_target));
}

size_t content_message_length(uint64_t seed, uint32_t message)
{
	return 1 + mix(~seed + message) % MESSAGE_BYTES;
}

static uint8_t byte_at(uint64_t seed, uint64_t position)
{
	return (uint8_t)(mix(seed + position / 8) >> position % 8 * 8);
}

void content_fill(uint64_t seed, uint64_t position, uint8_t *bytes, size_t count)
{
	uint64_t word = mix(seed + position / 8);

	for (size_t i = 0; i < count; i++, position++) {
		if (position % 8 == 0)
			word = mix(seed + position / 8);
		bytes[i] = (uint8_t)(word >> position % 8 * 8);
	}
}

void content_mark_last(uint8_t *first)
{
	*first ^= LAST_MARK;
}

size_t content_differ(uint64_t seed, uint64_t position, const uint8_t *bytes, size_t count, size_t *first)
{
	uint64_t word = mix(seed + position / 8);
	size_t different = 0;

	for (size_t i = 0; i < count; i++, position++) {
		if (position % 8 == 0)
			word = mix(seed + position / 8);
		if (bytes[i] == (uint8_t)(word >> position % 8 * 8))
			continue;
		if (!different)
			*first = i;
		different = i - *first + 1;
	}
	return different;
}

/* But for one byte, which may have the mark of a last message. */
static bool belongs(uint64_t seed, uint64_t position, const uint8_t *bytes)
{
	int other = 0;

	for (int i = 0; i < CONTENT_KNOWN && other < 2; i++)
		other += byte_at(seed, position + i) != bytes[i];
	return other < 2;
}

bool content_find(uint64_t seed, uint64_t position, const uint8_t *bytes, int64_t *ahead)
{
	for (int64_t distance = 1; distance < SEARCHED; distance++) {
		if (belongs(seed, position + distance, bytes)) {
			*ahead = distance;
			return true;
		}
		if ((uint64_t)distance <= position && belongs(seed, position - distance, bytes)) {
			*ahead = -distance;
			return true;
		}
	}
	return false;
}
