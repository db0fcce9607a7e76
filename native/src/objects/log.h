/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of work requests: everything posted whose completion the application has not seen, enough to post it again.
 *
 *   send entry, 64 bytes                                 receive entry, 32 bytes
 *    0  wr_id         the application's                   0  wr_id
 *    8  sge           the only SGE; or                    8  sge      likewise
 *                     addr = the list (or the inline     24  num_sge
 *                     payload) in the side area,
 *                     length = bytes in all
 *   24  remote_addr
 *   32  compare_add, swap
 *   48  rkey, imm
 *   56  opcode, flags, num_sge
 *   60  consumers     how many of the requests up to this one consume a receive at the peer, modulo 2^32
 *
 * Keys are virtual. An inline payload is one SGE that points into the side area.
 */
#ifndef SV_LOG_H
#define SV_LOG_H

#include "base/base.h"

struct sv_sent_entry {
	uint64_t wr_id;
	struct ibv_sge sge;
	uint64_t remote_addr;
	uint64_t compare_add;
	uint64_t swap;
	uint32_t rkey;
	uint32_t imm;
	uint8_t opcode;
	uint8_t flags;
	uint16_t num_sge;
	uint32_t consumers;
};

struct sv_recv_entry {
	uint64_t wr_id;
	struct ibv_sge sge;
	uint32_t num_sge;
	uint32_t reserved;
};

_Static_assert(sizeof(struct sv_sent_entry) == 64, "one cache line");
_Static_assert(sizeof(struct sv_recv_entry) == 32, "half a cache line");

/* The real wr_id: generation:16 | kind:2 | QP index:22 | slot:24. A completion whose generation is stale is dropped. */
#define SV_ID(generation, kind, index) ((uint64_t)(generation) << 48 | (uint64_t)(kind) << 46 | (uint64_t)(index) << 24)
#define SV_ID_KIND(id) ((unsigned)((id) >> 46) & 3)
#define SV_ID_INDEX(id) ((uint32_t)((id) >> 24) & 0x3fffff)
#define SV_ID_SLOT(id) ((uint32_t)(id) & 0xffffff)
#define SV_ID_SAME_QUEUE(id, other) (((id) ^ (other)) >> 24 == 0)

enum sv_id_kind {
	SV_ID_SEND,
	SV_ID_RECV,
	SV_ID_SRQ_RECV,
	SV_ID_INTERNAL
};

/* Slots of the internal kind. */
#define SV_INTERNAL_MARKER 1
#define SV_INTERNAL_LANDING 2
#define SV_INTERNAL_SHARED_LANDING 3	/* the index is an SRQ's */
#define SV_INTERNAL_BIND 4

#define SV_MAX_WR (1u << 24)

#define SV_OPCODE(name) (1u << IBV_WR_##name)
#define SV_OPCODES_ATOMIC (SV_OPCODE(ATOMIC_CMP_AND_SWP) | SV_OPCODE(ATOMIC_FETCH_AND_ADD))
#define SV_OPCODES_CONSUMER                                                                \
	(SV_OPCODE(SEND) | SV_OPCODE(SEND_WITH_IMM) | SV_OPCODE(SEND_WITH_INV) |             \
	 SV_OPCODE(RDMA_WRITE_WITH_IMM))
#define SV_OPCODES_RKEY                                                                             \
	(SV_OPCODE(RDMA_WRITE) | SV_OPCODE(RDMA_WRITE_WITH_IMM) | SV_OPCODE(RDMA_READ) |             \
	 SV_OPCODE(ATOMIC_WRITE) | SV_OPCODES_ATOMIC)
/* Requests that are neither atomics nor changes of a window. */
#define SV_OPCODES_SIMPLE (SV_OPCODES & ~SV_OPCODES_ATOMIC)
#define SV_OPCODES (SV_OPCODES_CONSUMER | SV_OPCODES_RKEY)
/* Changes of memory windows; logged otherwise (window.c). */
#define SV_OPCODES_WINDOW (SV_OPCODE(BIND_MW) | SV_OPCODE(LOCAL_INV))

static inline bool sv_opcode_in(unsigned opcode, uint32_t set)
{
	return set >> opcode & 1;
}

#endif
