/*
 * The state of one rank.
 *
 * A rank has one connection, an RC queue pair or two of XRC, to each other rank. A connection has one lane for each
 * posting thread. A lane posts its operations in order from one thread, so all that RC promises about order holds within
 * a lane, and both ends check it there. What a lane does to its peer's memory it does in a part of the peer's window that
 * is this lane's alone, and in two cells of the peer that all ranks share.
 */
#ifndef SELFCHECK_JOB_H
#define SELFCHECK_JOB_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../common/endpoint.h"
#include "../common/rank_dir.h"
#include "../common/work_clock.h"
#include "settings.h"
#include "tally.h"
#include "wire.h"

#define MAX_SGE 4
#define SPARE_RECEIVES 4	/* buffers for a new queue pair while the old one still holds its receives */
#define CONTROL_QUEUE 8
#define LAST_FREE 2		/* send queue entries of a lane kept for notices and control messages */

struct rng {
	uint64_t state;
};

enum op_kind {
	OP_SEND,		/* head and pattern; the receiver verifies */
	OP_EMPTY_SEND,		/* no byte, no immediate: can only be counted */
	OP_SEND_IMM,		/* pattern of any length; the immediate says lane and sequence number */
	OP_WRITE,		/* into a slot; the target verifies when a notice announces it */
	OP_EMPTY_WRITE,
	OP_WRITE_IMM,		/* into a slot, announced by its own immediate */
	OP_EMPTY_WRITE_IMM,
	OP_HOT_WRITE,		/* over the hot record, again and again, without waiting */
	OP_MIRROR_WRITE,	/* followed by a READ of the same place */
	OP_MIRROR_READ,
	OP_READ_FIXED,
	OP_READ_VERSIONED,
	OP_READ_HOT,
	OP_ADD,			/* to the lane's own cell: the old value is known */
	OP_ADD_SHARED,		/* to a cell that all add to: the old values must grow */
	OP_SWAP,		/* a step of the lane's chain */
	OP_SWAP_MISS,		/* compares with a wrong value: nothing may change */
	OP_SWAP_SHARED,		/* all ranks try; the wins are counted */
	OP_BIND,		/* of a window that the peer is told of next */
	OP_INVALIDATE,		/* of the one before */
	OP_NOTICE,
	OP_CONTROL,
};

struct piece {
	uint32_t at;
	uint32_t size;
};

struct operation {
	enum op_kind kind;
	bool signaled;
	uint8_t pieces_used;
	uint32_t length;
	uint32_t offset;	/* READ: where in the region */
	uint64_t expected;	/* atomics: the old value; READ_HOT, READ_VERSIONED: the least stamp; mirror: the stamp */
	uint64_t operand;	/* atomics: what is added or swapped in */
	struct piece pieces[MAX_SGE];
};

struct connection;

struct lane {
	struct connection *connection;
	int number;
	pthread_mutex_t lock;			/* the poster against the thread that reads completions */
	struct operation *ring;			/* entries tail to head - 1 are posted and not known to be done */
	uint64_t head, tail;
	unsigned char *buffers;			/* one for each ring entry */
	unsigned char *scratch;
	unsigned int mr_usable;			/* bit i: local region i may be used */
	uint32_t window_rkey;

	/* what this lane has done */
	uint64_t sequence;
	uint64_t slot_stamps[SLOTS];
	uint32_t slots_busy, slots_unannounced;
	bool mirror_busy;
	uint64_t mirror_stamp;
	uint64_t hot_read_floor;
	uint64_t shared_add_last;
	uint64_t swap_value;
	uint64_t shared_swap_seen;
	uint64_t version_floor;
	uint32_t since_notice;
	struct lane_totals done;

	/* what the peer's lane of the same number was seen to do; only the thread that reads completions uses these */
	uint64_t got_slot_stamps[SLOTS];
	struct lane_totals seen;
	uint64_t version_announced;		/* of the peer's versioned region */

	uint32_t slots_held;			/* verified and poisoned; given back with the next notice */
};

enum churn_step {
	CHURN_NONE,
	CHURN_QUIESCE,		/* waiting for the own requests, before the new queue pair is offered or answered */
	CHURN_OFFERED,		/* lower rank: waiting for the peer's new queue pair */
	CHURN_ANSWERED,		/* higher rank: waiting for the first message on the new queue pair */
	CHURN_CONNECTED,	/* lower rank: waiting until the offer is known to have arrived */
	CHURN_SWITCHED,		/* lower rank: waiting for the first message on the new queue pair */
	CHURN_RESUMED,		/* lower rank: waiting until its first message there is known to have arrived */
};

struct queue {
	struct ibv_qp *qp;		/* that requests are posted to */
	struct ibv_qp *receiver;	/* that the peer's come to: of XRC another, else the same */
	struct queue_address own, peer;
	uint32_t generation;
	int posted_receives;
};

struct ids {			/* what must never change while an object lives */
	bool known;
	struct ibv_qp_attr attr;
	uint32_t qp_num, window_rkey, receive_lkey;
};

struct connection {
	struct job *job;
	int peer;
	struct lane lanes[MAX_LANES];
	struct queue queue;
	unsigned char *memory;
	size_t memory_size;
	unsigned char *window;			/* what the peer reads and writes */
	uint64_t peer_window;
	uint64_t peer_shared;
	uint32_t peer_shared_rkey;
	uint32_t peer_srq;			/* --xrc: the number of the peer's shared receive queue */
	struct ibv_mr *window_mr;
	struct ibv_mr *receive_mr;
	struct ibv_mr *local_mr[2];		/* the same memory twice: two keys */
	unsigned char *receive_buffers;
	uint32_t *receive_owner;		/* generation of the queue pair that holds it, 0 when free */
	int receive_count;
	int posted_shared;			/* of its buffers, in the shared receive queue */
	uint64_t starved_since_ns;		/* --rnr: when the receive queue ran empty */
	uint64_t version;			/* of the own versioned region */

	uint64_t last_retire_ns, last_receive_ns;
	bool paused;				/* no new operations: the queue pair is about to be replaced */
	struct control outbox[CONTROL_QUEUE];
	int outbox_used;

	bool final_sent, final_seen, report_sent, report_seen, bye_sent, bye_seen;
	bool gone;				/* the peer has ended, as it may after the byes */
	uint64_t empties_seen;
	struct final peer_final;
	struct totals peer_totals;

	enum churn_step churn;
	struct queue old_queue;
	struct queue next_queue;
	uint64_t churn_marks[MAX_LANES];	/* local region: lanes beyond these no longer use it */
	int churn_local;			/* index of the local region being replaced, or -1 */
	struct ibv_mw *mws[2];			/* --windows: the peer uses one or the other, at first none */
	int mw_told;				/* which it was told of last, once mws_bound has it */
	int mws_bound;				/* bit for each */
	bool mw_pending;			/* it has not yet said that it no longer uses the key before */
	uint32_t mw_stale;			/* the key of one to be invalidated, or 0 */
	struct ibv_mr *churn_window;		/* the window's old registration while the peer may still use it */
	bool key_pending;			/* the peer gave a new key; its old one is in use up to key_marks */
	uint64_t key_marks[MAX_LANES];
	uint32_t key_before;			/* to be invalidated by the message that it is unused, or 0 */
	struct ids sender_ids, receiver_ids;
};

struct job {
	struct settings settings;
	struct rank_dir dir;
	int rank;
	struct endpoint endpoint;
	const struct verbs_way *way;			/* --extended or not */
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *receive_cq;
	struct ibv_srq *srq;				/* --srq, --xrc: takes the messages of all connections */
	struct ibv_xrcd *xrcd;				/* --xrc: what ties the peers' queue pairs to it */
	struct connection *connections[MAX_RANKS];	/* NULL at the own rank */
	uint64_t *shared_cells;				/* SHARED_ADD and SHARED_SWAP */
	struct ibv_mr *shared_mr;
	struct shared_page *shared_page;
	struct unreliable *unreliable;			/* --unreliable */
	uint32_t max_inline;
	struct tally tally;
	struct work_clock clock;			/* of the thread that reads completions */
	struct rng rng;					/* likewise */
	uint64_t now_ns;
	atomic_bool stopping;				/* no new operations */
	bool stop_told;
	pthread_t posters[MAX_LANES];
	bool checked_shared;
};

static inline uint64_t rng_next(struct rng *rng)
{
	rng->state ^= rng->state << 13;
	rng->state ^= rng->state >> 7;
	rng->state ^= rng->state << 17;
	return rng->state * 0x2545f4914f6cdd1dULL >> 11;
}

static inline uint32_t rng_below(struct rng *rng, uint32_t limit)
{
	return rng_next(rng) % limit;
}

static inline bool rng_one_in(struct rng *rng, uint32_t chances)
{
	return rng_below(rng, chances) == 0;
}

#endif
