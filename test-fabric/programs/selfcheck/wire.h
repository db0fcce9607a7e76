/*
 * What ranks say to each other and where things are in a window; both ends compute the same layout from the settings.
 *
 *   window:  lane 0 | lane 1 | ... | fixed region | versioned region
 *   lane:    hot record (64 bytes) | cells (64 bytes) | mirror | slot 0 | slot 1 | ...
 */
#ifndef SELFCHECK_WIRE_H
#define SELFCHECK_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "../common/endpoint.h"
#include "../common/pattern.h"
#include "settings.h"

#define SLOTS 8
#define GUARD 64			/* bytes behind each buffer that must stay POISON */
#define HOT_WORDS 8
#define CELL_ADD 0			/* indices of 8-byte cells */
#define CELL_SWAP 1
#define SHARED_ADD 0
#define SHARED_SWAP 8			/* on a cache line of its own */
#define SHARED_CELLS 16
#define VERSIONED_WORDS 512
#define MIN_MESSAGE ((uint32_t)sizeof(struct message_head))

enum message_kind { MESSAGE_DATA = 1, MESSAGE_NOTICE, MESSAGE_CONTROL };
enum imm_kind { IMM_SEND = 1, IMM_WRITE, IMM_EMPTY_WRITE };

struct message_head {
	uint16_t check;			/* of all that follows */
	uint8_t kind;
	uint8_t lane;
	uint32_t length;		/* with this head */
	uint64_t sequence;		/* of the lane, over all messages that take a receive and say who they are */
};

struct slot_head {
	uint32_t length;
	uint32_t slot;
	uint64_t stamp;
};

/* A lane tells what it did and what it verified. */
struct notice {
	uint32_t announced;		/* slots written since the last notice */
	uint32_t released;		/* slots of the peer's lane that may be written again */
	uint64_t hot_stamp;
	uint64_t empties;
	uint64_t version;		/* of this rank's versioned region */
};

struct lane_totals {
	uint64_t messages;
	uint64_t empties;
	uint64_t slot_writes;
	uint64_t hot_stamp;
	uint64_t add_sum;
	uint64_t swap_steps;
	uint64_t shared_add_sum;
	uint64_t shared_swap_wins;
};

struct totals {
	uint64_t verified, lost, doubled, damaged, unexpected;
	uint64_t sent, arrived;		/* of the messages that may be lost */
};

struct final {
	struct lane_totals lanes[MAX_LANES];
	uint64_t shared_page_count;	/* what this rank counted in the shared page */
};

enum control_type {
	CONTROL_STOP = 1,	/* stop soon */
	CONTROL_FINAL,		/* all that I did to you is done; this is what it was */
	CONTROL_REPORT,		/* this is what I saw of it */
	CONTROL_BYE,		/* my totals; I need nothing more from you */
	CONTROL_HEARD,		/* messages of yours that may be lost got through to the last */
	CONTROL_NEW_KEY,	/* the window has another rkey */
	CONTROL_KEY_UNUSED,	/* nothing of mine uses the old one */
	CONTROL_QP_OFFER,	/* a new queue pair, to be connected to one of yours */
	CONTROL_QP_ANSWER,
	CONTROL_QP_SWITCHED,	/* first message on the new queue pair */
	CONTROL_QP_RESUME,
};

/* The two ends of a queue pair that a peer connects to; of XRC they are two queue pairs, else the same. */
struct queue_address {
	struct qp_address sender, receiver;
};

struct control {
	uint32_t type;
	uint32_t rkey;			/* of KEY_UNUSED: which the message itself invalidates, or 0 */
	uint32_t replaces;		/* of NEW_KEY: the key before it, where that is a window's, or 0 */
	union {
		struct queue_address queue;
		struct final final;
		struct lane_totals report[MAX_LANES];
		struct totals totals;
	};
};

#define IMM_SEQUENCE_MASK 0xfffffU

static inline uint32_t imm_make(enum imm_kind kind, int lane, int slot, uint64_t sequence)
{
	return (uint32_t)kind << 28 | (uint32_t)lane << 24 | (uint32_t)slot << 20 | (sequence & IMM_SEQUENCE_MASK);
}

static inline uint16_t head_check(const struct message_head *head, int from, int to)
{
	uint64_t who = (uint64_t)from << 40 | (uint64_t)to << 32 | (uint64_t)head->kind << 8 | head->lane;

	return mix64_two(mix64_two(who, head->length), head->sequence);
}

enum pattern_use { PATTERN_MESSAGE, PATTERN_SLOT, PATTERN_MIRROR, PATTERN_FIXED, PATTERN_HOT, PATTERN_VERSIONED,
		   PATTERN_SWAP, PATTERN_UNRELIABLE };

static inline uint64_t pattern_base(const struct settings *settings, enum pattern_use use, int from, int to, int lane,
				    uint64_t number)
{
	uint64_t who = (uint64_t)use << 48 | (uint64_t)from << 32 | (uint64_t)to << 16 | (uint64_t)lane;

	return mix64_two(mix64_two(settings->seed, who), number);
}

static inline size_t slot_stride(const struct settings *settings)
{
	return (settings->max_size + GUARD + 63) / 64 * 64;
}

static inline size_t lane_window_size(const struct settings *settings)
{
	return 128 + (SLOTS + 1) * slot_stride(settings);
}

static inline size_t hot_offset(const struct settings *settings, int lane)
{
	return lane * lane_window_size(settings);
}

static inline size_t cell_offset(const struct settings *settings, int lane, int cell)
{
	return hot_offset(settings, lane) + 64 + cell * 8;
}

static inline size_t mirror_offset(const struct settings *settings, int lane)
{
	return hot_offset(settings, lane) + 128;
}

static inline size_t slot_offset(const struct settings *settings, int lane, int slot)
{
	return mirror_offset(settings, lane) + (slot + 1) * slot_stride(settings);
}

static inline size_t fixed_offset(const struct settings *settings)
{
	return settings->lanes * lane_window_size(settings);
}

static inline size_t versioned_offset(const struct settings *settings)
{
	return fixed_offset(settings) + slot_stride(settings);
}

static inline size_t window_size(const struct settings *settings)
{
	return versioned_offset(settings) + VERSIONED_WORDS * 8;
}

/* A word of the versioned region of `owner` that `reader` may read: version above, a check below. */
static inline uint64_t versioned_word(const struct settings *settings, int owner, int reader, uint64_t version,
				      uint32_t index)
{
	uint64_t check = mix64(pattern_base(settings, PATTERN_VERSIONED, owner, reader, 0, version) ^ index);

	return version << 32 | (uint32_t)check;
}

static inline uint64_t swap_next(const struct settings *settings, int from, int to, int lane, uint64_t value)
{
	return pattern_base(settings, PATTERN_SWAP, from, to, lane, value);
}

#endif
