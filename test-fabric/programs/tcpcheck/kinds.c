#include "kinds.h"

const struct behaviour behaviours[KINDS] = {
	[KIND_BUSY] = { "busy", { .messages = UNTIL_STOP, .slow = true }, { .messages = UNTIL_STOP, .slow = true }, 0 },
	[KIND_BLOCKING] = { "blocking", { .messages = UNTIL_STOP, .slow = true },
		{ .messages = UNTIL_STOP, .slow = true }, 0 },
	[KIND_IDLE] = { "idle", { .messages = UNTIL_STOP, .rests = true }, { .messages = UNTIL_STOP, .rests = true }, 0 },
	[KIND_HALF_OPENER] = { "half-opener", { .messages = 8, .slow = true },
		{ .messages = UNTIL_STOP, .slow = true }, 0 },
	[KIND_HALF_ACCEPTOR] = { "half-acceptor", { .messages = UNTIL_STOP, .slow = true },
		{ .messages = 8, .slow = true }, 0 },
	[KIND_SHORT] = { "short", { .messages = 4 }, { .messages = 4 }, 50 },
	[KIND_LATE] = { "late", { .messages = 4 }, { .messages = 4 }, 200 },
	[KIND_LEFT] = { "left", { .messages = 16, .leaves = true }, { .first_read_ms = 1000, .slow = true }, 500 },
	[KIND_CROSSED] = { "crossed", { .messages = 12, .first_read_ms = 500, .slow = true },
		{ .messages = 12, .first_read_ms = 800, .slow = true }, 500 },
};

enum kind kind_of_slot(int slot, uint32_t among)
{
	static const enum kind usual[] = {
		KIND_BUSY, KIND_SHORT, KIND_HALF_OPENER, KIND_CROSSED, KIND_BUSY, KIND_LEFT, KIND_IDLE, KIND_LATE,
		KIND_HALF_ACCEPTOR, KIND_BUSY, KIND_SHORT, KIND_LEFT, KIND_CROSSED, KIND_LATE, KIND_BLOCKING, KIND_IDLE,
	};
	enum kind chosen[sizeof(usual) / sizeof(usual[0])];
	size_t count = 0;

	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		if (among & 1U << usual[i])
			chosen[count++] = usual[i];
	return chosen[slot % count];
}
