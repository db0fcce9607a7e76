/*
 * The shared segment of one open context: what other processes of the fabric read and write. It is a sparse file of
 * fixed size in the fabric directory, named after the context's number. The contexts of a device have its lids and GIDs in
 * common, and no two QPs of them one number. Send queues are not here: only their own process executes them.
 *
 * Locks are robust. Every change behind one is either published by a single store or can be completed or undone by
 * the next owner, so that a process killed at any instruction leaves the segment usable.
 */
#ifndef HCA_SEGMENT_H
#define HCA_SEGMENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "settings.h"

#define SEG_MAGIC	0x535648434130310fULL
#define SEG_SIZE	(4ULL << 30)

#define SEG_MAX_QP	16384u
#define SEG_MAX_CQ	16384u
#define SEG_MAX_SRQ	1024u
#define SEG_MAX_MR	65536u
#define SEG_KEY_SLOTS	262144u		/* power of two, four times the keys that can exist */
#define SEG_MAIL_SLOTS	16384u		/* power of two */
#define SEG_MAX_MCAST	1024u
#define SEG_MAX_OPENERS	16u
#define SEG_PORTS	4u		/* at most */
#define SEG_GIDS	4u
#define SEG_GIDS_USED	2u		/* the rest of the table is empty */

enum seg_state {
	SEG_STARTING,
	SEG_LIVE,
	SEG_CLOSED,
};

/* Work for the engine thread of the segment's owner, left there by other processes. */
enum mail_type {
	MAIL_RUN_QP = 1,	/* index of a QP whose send or receive queue wants to be run or flushed */
	MAIL_CQ_EVENT,		/* index of a CQ with completion events to deliver */
	MAIL_ASYNC,		/* index of the object, detail is the ibv_event_type */
	MAIL_FATAL,		/* the device disappears */
	MAIL_ASYNC_OPENED,	/* as MAIL_ASYNC, for the handle of another context's QP that has that number */
};

struct seg_mail {
	uint32_t type;
	uint32_t index;
	uint32_t gen;
	uint32_t detail;
};

struct seg_mailbox {
	pthread_mutex_t lock;
	uint32_t prod;
	uint32_t cons;
	uint32_t overflow;	/* mail was dropped: the engine looks at everything once */
	struct seg_mail slots[SEG_MAIL_SLOTS];
};

struct seg_cqe {
	uint64_t wr_id;
	uint64_t visible_ns;	/* CLOCK_MONOTONIC before which poll does not show it; 0 is at once */
	uint64_t completed_ns;	/* CLOCK_MONOTONIC, where the CQ wants to know */
	uint32_t status;
	uint32_t opcode;
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t imm;
	uint32_t wc_flags;
	uint32_t qp_num;
	uint32_t src_qp;
	uint32_t qp_index;
	uint32_t qp_gen;
	uint32_t wqe_index;	/* queue slots up to and with this one are free once the completion is polled */
	uint32_t srq;		/* index + 1 of the SRQ whose slot it frees instead, 0 none */
	uint16_t slid;
	uint8_t is_send;
	uint8_t sl;
};

struct seg_cq {
	pthread_mutex_t lock;	/* producers */
	uint32_t in_use;
	uint32_t gen;
	uint32_t prod;
	uint32_t cons;		/* written by the owner's poll */
	uint32_t cqe;		/* completions that fit */
	uint32_t slots;		/* power of two >= cqe */
	uint64_t ring;		/* offset of struct seg_cqe[slots] */
	uint32_t armed;		/* enum cq_armed */
	uint32_t announced;	/* prod at the last completion event */
	uint32_t events;	/* completion events not yet taken over by the owner's engine */
	uint32_t error;		/* overrun */
	uint32_t timestamps;	/* completions say when they happened */
};

enum cq_armed {
	CQ_NOT_ARMED,
	CQ_ARMED_SOLICITED,
	CQ_ARMED_NEXT,
};

struct seg_rq {
	uint64_t ring;		/* offset of the receive work requests */
	uint32_t stride;
	uint32_t slots;		/* power of two >= max_wr, 0 when there is no receive queue */
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t prod;		/* written by the poster */
	uint32_t head;		/* written under the consumer's lock */
};

struct seg_recv_wqe {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t reserved;
	struct ibv_sge sge[];
};

/* A shared receive queue; the lock is that of its consumers and comes after the one of the QP. */
struct seg_srq {
	pthread_mutex_t lock;
	uint32_t gen;
	uint32_t in_use;
	uint64_t xrcd;		/* XRC: its domain, as in struct hca_xrcd; 0 is a basic SRQ */
	uint32_t srq_num;	/* XRC: how requests name it */
	uint32_t pd;
	uint32_t cq;		/* XRC: index of the CQ of its receives */
	uint32_t limit;		/* below so many requests IBV_EVENT_SRQ_LIMIT_REACHED is reported; 0 is unarmed */
	struct seg_rq rq;
	/* As in struct seg_qp, and where the CQE of the receive would be. */
	uint32_t delivering;
	uint32_t delivering_cq;
	uint32_t delivering_qp;
	uint32_t delivering_gen;
};

/* A handle of an XRC receive QP in another context: whose, and its number there. */
struct seg_opener {
	uint32_t context;	/* 0: free */
	uint32_t handle;
};

/* The responder half of a queue pair and the state that both halves obey. */
struct seg_qp {
	pthread_mutex_t lock;
	uint32_t in_use;
	uint32_t gen;
	uint32_t qp_num;
	uint32_t qp_type;
	uint32_t state;
	uint32_t pd;
	uint32_t access;
	uint32_t dest_qpn;
	uint32_t port;
	uint32_t qkey;
	uint32_t rq_psn;
	uint16_t dlid;
	uint8_t path_mtu;
	uint8_t min_rnr_timer;
	uint8_t max_dest_rd_atomic;
	uint8_t established;	/* IBV_EVENT_COMM_EST was reported */
	uint16_t reserved;
	uint32_t recv_cq;
	uint32_t srq;		/* index + 1 of the SRQ that receives are taken from, 0 none */
	uint64_t xrcd;		/* of an XRC receive QP, whose requests name an SRQ of that domain */
	uint32_t last_wqe;	/* IBV_EVENT_QP_LAST_WQE_REACHED was reported */
	uint32_t rnr_forced;	/* RNR NAKs sent on request of the setting rnr_force */
	struct seg_rq rq;
	/* A receive being completed: when its owner died, the next one looks whether the CQE got out. */
	uint32_t delivering;
	/* The requester that was sent an RNR NAK, for the setting rnr_kick. */
	uint32_t rnr_waiter;	/* index + 1 */
	uint32_t rnr_waiter_gen;
	/* Of an XRC receive QP, which other contexts may have open: they modify and query it without its owner. */
	struct ibv_qp_attr attr;
	uint32_t openers;
	uint32_t orphaned;	/* the owner has no handle any more: it ends with the last opener */
	struct seg_opener opener[SEG_MAX_OPENERS];
};

/* A QP that listens to a multicast group. */
struct seg_mcast {
	uint32_t valid;
	uint32_t qp_index;
	uint32_t qp_gen;
	uint16_t lid;
	union ibv_gid gid;
};

/* What an entry of the table of regions stands for. */
enum seg_mr_kind {
	SEG_MR_FREE,
	SEG_MR_REGION,
	SEG_MR_NULL,		/* ibv_alloc_null_mr */
	SEG_MR_WINDOW_1,
	SEG_MR_WINDOW_2,
};

struct seg_mr {
	uint32_t valid;
	uint32_t kind;
	uint32_t pd;
	uint32_t access;
	uint32_t lkey;
	uint32_t rkey;
	uint32_t region;	/* of a window that is bound: index of the region */
	uint32_t qp_index;	/* of a type 2 window that is bound: who may use it */
	uint32_t qp_gen;
	uint32_t reserved;
	uint64_t zeros;		/* SEG_MR_NULL: what is read from it */
	uint64_t va;		/* address in the owner */
	uint64_t iova;		/* address that work requests name */
	uint64_t length;
};

/* One lkey or rkey. A deleted slot keeps index SEG_KEY_DELETED so that probes go on. */
struct seg_key {
	uint32_t key;
	uint32_t index;		/* of the MR, | SEG_KEY_REMOTE for an rkey, | SEG_KEY_BOTH where that is the lkey, too */
};
#define SEG_KEY_REMOTE	0x80000000u
#define SEG_KEY_BOTH	0x40000000u
#define SEG_KEY_DELETED	0x7fffffffu
#define SEG_KEY_FREE	0u	/* index 0 of seg_mr is never used */

struct seg_port {
	uint32_t lid;		/* on Ethernet, too, where it is in the GIDs; see gid_lid */
	union ibv_gid gid[SEG_GIDS];
};

struct seg {
	uint64_t magic;
	uint64_t size;
	uint32_t state;
	int32_t pid;		/* in the pid namespace pidns */
	uint64_t pidns;
	uint32_t id;		/* of the context; names the file */
	uint32_t device;	/* index, on the host */
	uint64_t host;		/* network and pid namespace: processes of others see another device */
	__be64 guid;		/* of the device */
	uint32_t ethernet;	/* RoCE: ports have no lid to show, and are named by GIDs alone */
	uint32_t fatal;
	uint32_t ports;
	struct seg_port port[SEG_PORTS];
	pthread_mutex_t alive;	/* held by the engine thread as long as it lives */
	pthread_mutex_t atomics;/* makes fetch-add and compare-swap on this context's memory atomic */
	uint32_t doorbell;	/* futex the engine thread sleeps on */
	uint32_t posts;		/* for fatal_after and enomem_every */
	struct hca_settings settings;
	uint32_t max_qp;	/* indexes below were used once */
	uint32_t max_mcast;	/* the same */
	uint32_t max_srq;	/* the same */
	struct seg_mailbox mailbox;
	struct seg_qp qp[SEG_MAX_QP];
	struct seg_cq cq[SEG_MAX_CQ];
	struct seg_srq srq[SEG_MAX_SRQ];
	struct seg_mcast mcast[SEG_MAX_MCAST];
	struct seg_mr mr[SEG_MAX_MR];
	struct seg_key key[SEG_KEY_SLOTS];
	char heap[] __attribute__((aligned(64)));
};

/* Port @number, which counts from 1 and was checked. */
static inline const struct seg_port *seg_port(const struct seg *seg, uint32_t number)
{
	return &seg->port[number - 1];
}

static inline bool seg_has_lid(const struct seg *seg, uint32_t lid)
{
	uint32_t i;

	for (i = 0; i < seg->ports; i++)
		if (seg->port[i].lid == lid)
			return true;
	return false;
}

static inline void *seg_at(struct seg *seg, uint64_t offset)
{
	return (char *)seg + offset;
}

static inline struct seg_recv_wqe *seg_recv_wqe(struct seg *seg, const struct seg_rq *rq, uint32_t index)
{
	return seg_at(seg, rq->ring + (uint64_t)rq->stride * (index & (rq->slots - 1)));
}

static inline struct seg_cqe *seg_cqe(struct seg *seg, const struct seg_cq *cq, uint32_t index)
{
	return (struct seg_cqe *)seg_at(seg, cq->ring) + (index & (cq->slots - 1));
}

#define seg_load(p)		__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define seg_store(p, v)		__atomic_store_n(p, v, __ATOMIC_RELEASE)
#define seg_load_seq(p)		__atomic_load_n(p, __ATOMIC_SEQ_CST)
#define seg_store_seq(p, v)	__atomic_store_n(p, v, __ATOMIC_SEQ_CST)

/* Maps a segment file of SEG_SIZE; NULL with errno. */
struct seg *seg_map(int fd);
/* The file of context @id in the fabric directory @dir. */
void seg_path(const char *dir, uint32_t id, char path[448]);
/* The context whose file has that name; 0 when it is not one. */
uint32_t seg_id_of(const char *name);
/* Maps the segment of context @id in the fabric directory @dir; NULL when there is none or its process is gone. */
struct seg *seg_attach(const char *dir, uint32_t id);
/* The same, also when its process is gone. */
struct seg *seg_attach_remains(const char *dir, uint32_t id);

void seg_lock_init(pthread_mutex_t *lock);
/*
 * Takes a robust lock; true when its last owner died holding it, so that the caller completes what was begun. @what
 * names the lock in the message when it is not free within ten seconds.
 */
int seg_lock(pthread_mutex_t *lock, const char *what);
void seg_unlock(pthread_mutex_t *lock);

/* True while the process that made the segment lives and has it open. */
int seg_alive(struct seg *seg);
/* True in a process that was restored with its mappings but without what was in them: the device is another one's now. */
static inline bool seg_is_lost(struct seg *seg)
{
	return __builtin_expect(seg_load(&seg->magic) != SEG_MAGIC, 0);
}
/* True when another process, which lives, has an XRC receive QP of it open. */
int seg_is_kept(struct seg *seg, const char *dir);
void seg_ring_doorbell(struct seg *seg);
/* Leaves mail for the engine of @seg and wakes it. */
void seg_mail(struct seg *seg, uint32_t type, uint32_t index, uint32_t gen, uint32_t detail);
/* Takes the oldest mail; 0 when there is none, 1 with *mail filled, -1 when mail was lost. */
int seg_take_mail(struct seg *seg, struct seg_mail *mail);

#endif
