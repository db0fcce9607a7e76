/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XRC: requests name the shared receive queue at the peer that they are for, by its number. A receive QP has no queues and
 * no completion queues of its own; its messages come to the SRQs of its domain, each of which has a completion queue.
 */
#ifndef SV_XRC_H
#define SV_XRC_H

#include "base/idmap.h"
#include "objects/objects.h"

/* Several may stand for one domain: those that were opened with the same file. */
struct sv_xrcd {
	struct ibv_xrcd *real;
	uint64_t device, inode;		/* of that file; 0: none */
	uint32_t domain;
	struct ibv_xrcd v;
	char zeros[SV_ZEROS];
};

#define sv_xrcd_of(p) sv_container_of(p, struct sv_xrcd, v)

#define SV_TARGET_SLOTS 256

/* The SRQs that a send QP has named since its last RESET: a hash table of numbers + 1, which never gets full. */
struct sv_targets {
	uint32_t last;			/* likewise + 1 */
	int32_t count;			/* -1: more than SV_MAX_TARGETS */
	uint32_t slots[SV_TARGET_SLOTS];
};

/* What a QP of XRC has beside. */
struct sv_xrc {
	const struct sv_idmap *srqs;	/* of a send QP: the peer's SRQ numbers that do not mean themselves */
	struct sv_qp *opened;		/* of a handle that ibv_open_qp made: the QP behind it */
	uint32_t domain;		/* of a receive QP */
	uint32_t handles;		/* likewise: those that the application has not destroyed */
	bool of_file;			/* likewise: other processes may have its domain, and the QP, open */
	bool foreign;			/* likewise: another process has made it */
	bool leaving;			/* likewise: it lives on in other processes */
	uint16_t peer_lid;		/* likewise: the peer that this process has connected it to */
	uint32_t peer_qp_num;
	struct sv_targets targets;	/* of a send QP */
};

static inline bool sv_is_xrc_receiver(const struct sv_qp *qp)
{
	return qp->v.qp_type == IBV_QPT_XRC_RECV;
}

/* The QP itself, of any of its handles. */
static inline struct sv_qp *sv_qp_behind(struct sv_qp *qp)
{
	return qp->xrc && qp->xrc->opened ? qp->xrc->opened : qp;
}

static inline uint32_t sv_logged_srq(const struct sv_sent_entry *entry)
{
	return sv_opcode_in(entry->opcode, SV_OPCODES_ATOMIC) ? entry->imm : entry->compare_add;
}

static inline void sv_log_srq(struct sv_sent_entry *entry, uint32_t number)
{
	if (sv_opcode_in(entry->opcode, SV_OPCODES_ATOMIC))
		entry->imm = number;
	else
		entry->compare_add = number;
}

static inline uint32_t sv_srq_number_real(const struct sv_qp *qp, uint32_t number)
{
	uint64_t found;

	return sv_idmap_find(qp->xrc->srqs, number, &found) ? found : number ^ sv_masks.qp_num;
}

/* Enters a number that is not the last one. */
void sv_xrc_new_target(struct sv_targets *targets, uint32_t number);

/* A request names an SRQ; the send queue's lock is held. */
static inline void sv_xrc_note_target(struct sv_qp *qp, uint32_t number)
{
	if (unlikely(qp->xrc->targets.last != number + 1))
		sv_xrc_new_target(&qp->xrc->targets, number);
}

/* Where the completions of an SRQ's receive go, when it holds a message for that QP. */
static inline struct sv_cq *sv_shared_cq(const struct sv_srq *srq, const struct sv_qp *qp)
{
	return srq->xrcd ? srq->cq : sv_cq_of(qp->v.recv_cq);
}

#endif
