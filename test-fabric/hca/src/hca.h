/* The software HCA inside one process: hidden structures behind the public ones, and what the files of src/ share. */
#ifndef HCA_H
#define HCA_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "personality.h"
#include "segment.h"

/* In the header these are macros over the functions that this library defines. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

#define HCA_MAX_SGE		32	/* of all personalities; rounded up, too */
#define HCA_MAX_MSG		(1u << 30)
#define HCA_MAX_DM		(1u << 20)
#define HCA_VENDOR_ID		0x564843u	/* no vendor has it */
#define HCA_MTU			4096u
#define LID_MULTICAST		0xc000
#define QPN_MULTICAST		0xffffffu

/*
 * Every public struct is followed by hidden fields of which the first is a magic number mixed with the address. A
 * struct that this library did not make, or that it has freed, ends the process with the name of the verb.
 */
enum id_kind {
	ID_QP,
	ID_KEY,
	ID_SRQ,
	HCA_ID_KINDS,
};

#define MAGIC_DEVICE	0x5356484441444556ULL
#define MAGIC_CONTEXT	0x5356484343545854ULL
#define MAGIC_PD	0x5356484350445044ULL
#define MAGIC_MR	0x535648434d524d52ULL
#define MAGIC_CHANNEL	0x5356484343484e4cULL
#define MAGIC_CQ	0x5356484343514351ULL
#define MAGIC_QP	0x5356484351505150ULL
#define MAGIC_SRQ	0x5356484353525153ULL
#define MAGIC_AH	0x5356484341484148ULL
#define MAGIC_MW	0x535648434d574d58ULL
#define MAGIC_TD	0x5356484354445445ULL
#define MAGIC_XRCD	0x5356484358524344ULL
#define MAGIC_DM	0x53564843444d444dULL

#define OBJECT_POISON	0xde

void object_die(const char *verb, const char *type, const void *object) __attribute__((noreturn, cold));
/* Zeroed memory; NULL with errno ENOMEM. */
void *object_alloc(size_t size);
/* Poisons and keeps the memory for a while, so that a use after free is caught by its magic. */
void object_free(void *object, size_t size);

#define OBJECT_MAGIC(magic, object) ((magic) ^ (uint64_t)(uintptr_t)(object))
#define OBJECT_CAST(type, magic_of, public, verb) ({					\
	struct type *__o = (struct type *)(public);					\
	if (__builtin_expect(!__o || __o->magic != OBJECT_MAGIC(magic_of, __o), 0))	\
		object_die(verb, #type, __o);						\
	__o; })

struct hca_device {
	struct ibv_device device;
	uint64_t magic;
	unsigned int index;
	unsigned int opens;
	__be64 guid;	/* another one after each last close, as on another host */
};

/* A segment of another process, or our own, mapped. Lives until the context is closed. */
struct hca_peer {
	struct hca_peer *next;
	struct seg *seg;
	uint32_t id;
};

struct hca_event_list;

struct hca_context {
	struct verbs_context vctx;	/* ends with the public struct ibv_context */
	uint64_t magic;
	struct seg *seg;
	int seg_fd;
	char fabric_dir[400];
	struct hca_settings seg_settings;	/* as read at open */
	bool null_mode;
	enum personality personality;
	const struct limits *limits;
	uint32_t ids_next[HCA_ID_KINDS];	/* where ids are given out one by one */
	__be64 guid;

	pthread_mutex_t lock;		/* objects of the context: tables, heap, ids */
	uint64_t random[2];
	uint32_t handles, pd_numbers;
	uint32_t qps, cqs, mrs, pds, channels, srqs, ahs, mws, dms;
	struct hca_qp **qp;		/* by index into seg->qp */
	struct hca_cq **cq;
	struct hca_srq *srq[SEG_MAX_SRQ];
	uint32_t max_cq, max_mr;
	struct hca_mw *windows;
	struct hca_xrcd *xrcds;
	uint32_t xrcd_numbers;
	pthread_mutex_t key_lock;	/* changes of the key table; a leaf */
	pthread_mutex_t handle_lock;	/* further handles of QPs; of locks only those of event lists are taken under it */
	struct hca_qp *foreign;		/* handles of other contexts' QPs, chained by next_handle */
	uint32_t orphans;		/* QPs that only other contexts have open */
	struct {
		uint64_t next;
		uint64_t free[48];	/* by log2 of the size, chained through the first word */
	} heap;

	pthread_rwlock_t peers_lock;
	struct hca_peer *peers;

	/* engine.c */
	pthread_t engine;
	bool engine_runs;
	bool engine_stop;
	pthread_mutex_t engine_lock;	/* held while the engine works: taken to destroy what it may look at */
	pthread_mutex_t stall_lock;	/* the list of stalled QPs; a leaf */
	struct hca_qp *stalled;
	uint64_t engine_wakes_ns;	/* when the engine wakes by itself; UINT64_MAX is never */

	/* async events, event.c */
	struct hca_event_list *async;
	struct hca_context *next;
};

struct hca_td {
	struct ibv_td td;
	uint64_t magic;
	uint32_t users;
};

struct hca_pd {
	struct ibv_pd pd;
	uint64_t magic;
	uint32_t number;
	uint32_t users;
	struct hca_pd *below;	/* of a parent domain: the one that it stands for */
	struct hca_td *td;
};

struct hca_mr {
	struct ibv_mr mr;
	uint64_t magic;
	uint32_t index;
	struct hca_dm *dm;	/* of ibv_reg_dm_mr */
	void *zeros;		/* of ibv_alloc_null_mr: what its requests write to and read from */
};

struct hca_dm {
	struct ibv_dm dm;
	uint64_t magic;
	uint64_t offset;	/* in our segment: device memory does not outlive the device */
	uint64_t length;
	uint32_t users;
};

struct hca_mw {
	struct ibv_mw mw;
	uint64_t magic;
	struct hca_mw *next;
	uint32_t index;
};

struct hca_channel {
	struct ibv_comp_channel channel;
	uint64_t magic;
	struct hca_event_list *events;
};

struct hca_cq {
	struct ibv_cq_ex cq;		/* begins like struct ibv_cq */
	uint64_t magic;
	struct seg_cq *shm;
	uint32_t index;
	uint32_t users;
	pthread_mutex_t poll_lock;	/* consumers */
	uint32_t comp_events_reported;
	uint32_t async_events_reported;
	uint32_t withheld;
	uint32_t empty_polls;		/* in succession, for SV_HCA_REST_US */
	uint32_t dice;			/* for the order of completions, and whims; poll_lock held */
	bool extended, single_threaded;
	struct ibv_wc current;		/* of an extended CQ, between start_poll and end_poll */
	uint64_t current_ns;
	uint64_t delayed_until;		/* engine: next completion that becomes visible, 0 none */

	/* null.c: a private ring */
	struct null_cqe *null_ring;
	uint32_t null_mask, null_prod, null_cons;
};

#define XRCD_OF_FILE (1ULL << 63)

struct hca_xrcd {
	struct ibv_xrcd xrcd;
	uint64_t magic;
	struct hca_xrcd *next;
	uint64_t number;	/* handles of one domain have the same; XRCD_OF_FILE: in all contexts of the fabric */
	uint32_t users;
	uint64_t ino, dev;	/* of the file, 0 when there is none */
};

struct hca_ah {
	struct ibv_ah ah;
	uint64_t magic;
	struct ibv_ah_attr attr;
};

struct hca_srq {
	struct ibv_srq srq;
	uint64_t magic;
	struct seg_srq *shm;
	uint32_t index;
	uint32_t users;
	pthread_mutex_t lock;		/* posters */
	struct hca_xrcd *xrcd;		/* of an XRC SRQ, with the CQ of all that it receives */
	struct hca_cq *cq;
	uint32_t released;		/* receives completed and polled, in whatever order */
	uint32_t events_reported;

	/* null.c: the QP whose CQ receives complete to with the setting null_recv */
	struct hca_qp *null_qp;
};

/* A send work request, captured at post time. */
struct hca_send_wqe {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint64_t compare_add;
	uint64_t swap;
	uint64_t not_before;		/* exec_delay_us, 0 when there is none */
	uint32_t opcode;
	uint32_t flags;
	uint32_t imm;
	uint32_t rkey;
	uint32_t num_sge;
	uint32_t inline_len;
	uint32_t slowed;		/* slow_peer_us was paid */
	uint32_t srqn;			/* XRC: the SRQ at the peer */
	struct {
		uint64_t addr, length;
		uint32_t window, region;	/* indexes into seg->mr; region 0 unbinds */
		uint32_t lkey;			/* of the region, to find out that it is another by now */
		uint32_t rkey;
		uint32_t access;
	} bind;
	struct {
		struct ibv_ah_attr av;	/* the handle may be destroyed before the request is executed */
		uint32_t qpn, qkey;
	} ud;
	struct ibv_sge sge[];		/* or inline_len bytes */
};

enum stall_reason {
	STALL_NONE,
	STALL_DELAY,		/* a fault setting, or the rate limit */
	STALL_RNR,
	STALL_NO_RESPONSE,
};

struct hca_sq {
	pthread_mutex_t lock;		/* posting, executing, state changes */
	char *ring;
	uint32_t stride;
	uint32_t slots;			/* power of two >= max_wr */
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t max_inline;
	uint32_t prod;
	uint32_t head;
	uint32_t released;		/* by poll_cq */
	uint32_t psn;
	uint32_t dice;			/* for whims */
	struct hca_send_wqe *held;	/* a datagram that the next one overtakes; datagram.c */
	bool holds;
	bool draining;			/* SQD was asked for while the request at the head was under way */

	enum stall_reason stall;
	uint64_t stall_until;
	uint32_t no_response;		/* attempts in vain since the last progress */
	uint64_t paced_until;		/* what has been sent is paid for then, at the rate limit; ns */
	uint32_t max_burst;		/* bytes that may be sent before they are paid for */
	uint32_t rnr_left;
	/* Under the context's stall_lock: */
	bool stall_listed;
	uint64_t stall_due;
	struct hca_qp *stall_next, *due_next;
};

struct hca_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex qpx;
	};
	uint64_t magic;
	struct seg_qp *shm;
	uint32_t index;
	uint32_t gen;
	bool sq_sig_all;
	bool extended;
	struct hca_sq sq;

	struct {
		pthread_mutex_t lock;	/* posters */
		uint32_t prod;
		uint32_t released;	/* by poll_cq */
	} rq;

	/* What modify_qp set and query_qp returns; what the responder half needs is in shm too. */
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init_attr;

	struct hca_xrcd *xrcd;		/* of an XRC receive QP */
	struct hca_qp *real;		/* a handle that ibv_open_qp made of this QP */
	struct hca_qp *handles;		/* such handles, chained by next_handle; the QP lives as long as one of them */
	struct hca_qp *next_handle;
	bool closed;			/* its own handle is gone */
	struct seg *home;		/* a handle of another context's QP: where that is */
	uint32_t groups;		/* multicast groups that it listens to */

	/* The responder, once found; of a datagram the last one. */
	struct hca_peer *peer;
	struct seg_qp *remote;
	uint32_t remote_index;
	uint32_t remote_gen;

	uint32_t events_reported;

	/* The list of work requests between wr_start and wr_complete; qp_ex.c. */
	struct hca_send_wqe *building;
	uint32_t build_start;
	int build_error;

	/* null.c; where the list began that wr_abort takes back */
	uint32_t null_build_posted, null_build_prod;
	struct hca_cq *null_send_cq, *null_recv_cq;
	uint32_t null_posted, null_released;
	uint32_t null_recv_posted, null_recv_released;
};

static inline struct hca_context *to_context(struct ibv_context *context, const char *verb)
{
	return OBJECT_CAST(hca_context, MAGIC_CONTEXT, verbs_get_ctx(context), verb);
}

#define to_device(p, verb)	OBJECT_CAST(hca_device, MAGIC_DEVICE, p, verb)
#define to_pd(p, verb)		OBJECT_CAST(hca_pd, MAGIC_PD, p, verb)
#define to_mr(p, verb)		OBJECT_CAST(hca_mr, MAGIC_MR, p, verb)
#define to_channel(p, verb)	OBJECT_CAST(hca_channel, MAGIC_CHANNEL, p, verb)
#define to_cq(p, verb)		OBJECT_CAST(hca_cq, MAGIC_CQ, p, verb)
#define to_qp(p, verb)		OBJECT_CAST(hca_qp, MAGIC_QP, p, verb)
#define to_td(p, verb)		OBJECT_CAST(hca_td, MAGIC_TD, p, verb)
#define to_xrcd(p, verb)	OBJECT_CAST(hca_xrcd, MAGIC_XRCD, p, verb)
#define to_mw(p, verb)		OBJECT_CAST(hca_mw, MAGIC_MW, p, verb)
#define to_dm(p, verb)		OBJECT_CAST(hca_dm, MAGIC_DM, p, verb)
#define to_ah(p, verb)		OBJECT_CAST(hca_ah, MAGIC_AH, p, verb)
#define to_srq(p, verb)		OBJECT_CAST(hca_srq, MAGIC_SRQ, p, verb)

/* The context of one of our own objects, which was checked already. */
static inline struct hca_context *context_of(struct ibv_context *context)
{
	return (struct hca_context *)verbs_get_ctx(context);
}

/*
 * Whether the context came out of an image without its device, as a kernel's would after a restore: its mappings are there
 * and empty. Then nothing but destroying works, which gives back what is in this process (ibv_open_device(3),
 * RDMAV_ALLOW_DISASSOC_DESTROY).
 */
static inline bool context_is_lost(struct hca_context *ctx)
{
	return seg_is_lost(ctx->seg);
}

/* The QP behind a handle. */
static inline struct hca_qp *qp_real(struct hca_qp *qp)
{
	return qp->real ? qp->real : qp;
}

static inline struct hca_send_wqe *send_slot(const struct hca_sq *sq, uint32_t index)
{
	return (void *)(sq->ring + (size_t)sq->stride * (index & (sq->slots - 1)));
}

static inline bool qp_is_reliable(const struct hca_qp *qp)
{
	return qp->qp.qp_type != IBV_QPT_UC && qp->qp.qp_type != IBV_QPT_UD;
}

/* The objects by index; NULL where there is none. */
static inline struct hca_cq *cq_at(struct hca_context *ctx, uint32_t index)
{
	return __atomic_load_n(&ctx->cq[index], __ATOMIC_ACQUIRE);
}

static inline struct hca_qp *qp_at(struct hca_context *ctx, uint32_t index)
{
	return __atomic_load_n(&ctx->qp[index], __ATOMIC_ACQUIRE);
}

static inline struct hca_srq *srq_at(struct hca_context *ctx, uint32_t index)
{
	return __atomic_load_n(&ctx->srq[index], __ATOMIC_ACQUIRE);
}

static inline bool port_exists(const struct seg *seg, uint32_t number)
{
	return number >= 1 && number <= seg->ports;
}

static inline int hca_errno(int error)
{
	errno = error;
	return error;
}

uint64_t hca_now_ns(void);

/* ids.c: numbers drawn at random, from a narrow space when the setting id_space asks for it. */
void ids_seed(struct hca_context *ctx);
uint64_t ids_random(struct hca_context *ctx);
/* A number for a context, from what the kernel has of chance. */
uint32_t ids_context(void);
/* The next try for an id that must be free; @attempt counts from 0. */
uint32_t ids_draw(struct hca_context *ctx, enum id_kind kind, uint32_t first, uint32_t last, uint32_t attempt);

/* fabric.c: segments in the fabric directory. */
int fabric_open(struct hca_context *ctx);
void fabric_close(struct hca_context *ctx);
/* The context with that number. */
struct hca_peer *fabric_peer(struct hca_context *ctx, uint32_t id);
/* The same, also of a process that is gone, which may have left XRC receive QPs that others have open. */
struct hca_peer *fabric_peer_or_remains(struct hca_context *ctx, uint32_t id);

struct destination {
	struct hca_peer *peer;
	struct seg_qp *qp;
	uint32_t index, gen;
};
/* The QP @qpn behind the port with @lid, in whichever context of its device; false when there is none. */
bool fabric_find(struct hca_context *ctx, uint32_t lid, uint32_t qpn, bool remains, struct destination *found);
/*
 * Between these no other context of the device takes a number of a QP or an XRC SRQ, or a key; ctx->lock held. The first returns a descriptor for the
 * second, or -1 with errno.
 */
int fabric_numbers_lock(struct hca_context *ctx);
void fabric_numbers_unlock(int lock);
/* A QP of any context of our device has that number; the numbers are locked. */
bool fabric_number_is_taken(struct hca_context *ctx, uint32_t qpn);
/* The same of the number of an XRC SRQ. */
bool fabric_srq_number_is_taken(struct hca_context *ctx, uint32_t number);
/* The same of any of @count keys, in the other contexts; where they are drawn from so many that it cannot be, nobody is asked. */
bool fabric_keys_are_taken(struct hca_context *ctx, uint32_t first, uint32_t count);
/* The lock for keys: as fabric_numbers_lock, but 0 where nobody is asked. */
int fabric_keys_lock(struct hca_context *ctx);

/* Calls @visit for every live segment of the fabric, our own one too. */
void fabric_each(struct hca_context *ctx, void (*visit)(struct hca_context *ctx, struct seg *seg, void *arg), void *arg);
/* The same, also for what processes that are gone have left. */
void fabric_each_or_remains(struct hca_context *ctx, void (*visit)(struct hca_context *ctx, struct seg *seg, void *arg),
			    void *arg);
/* Removes what nobody needs any more. */
void fabric_sweep(struct hca_context *ctx);

/* heap.c: memory inside our own segment; offset 0 with errno ENOMEM. ctx->lock held. */
uint64_t heap_alloc(struct hca_context *ctx, uint64_t size);
void heap_free(struct hca_context *ctx, uint64_t offset, uint64_t size);
/* Slots of a ring for so many entries: a power of two. */
uint32_t ring_slots(uint32_t entries);

/* mr.c */
#define ACCESS_REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct seg_mr *mr_find(struct seg *seg, uint32_t key, bool remote);
/*
 * The bytes [addr, addr+length) of the region or window with @key as an address in the owner of @seg; @qp is the
 * responder where a peer asks, NULL for our own use of an lkey. 0, or -1 when the key, the protection domain, the
 * bounds or the access do not fit.
 */
int mr_translate(struct seg *seg, uint32_t key, const struct seg_qp *qp, uint32_t pd, uint64_t addr, uint64_t length,
		 uint32_t access, uint64_t *va);
struct ibv_mr *mr_reg_dm(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned int access);
struct ibv_mr *mr_alloc_null(struct ibv_pd *pd);
int mr_advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list, uint32_t n);
/* A free entry of the table of regions, 0 when there is none; ctx->lock held. */
uint32_t mr_entry(struct hca_context *ctx);
/* Gives a key to entry @index (| SEG_KEY_REMOTE); false when another entry has it or the table is full. */
bool key_take(struct hca_context *ctx, uint32_t key, uint32_t index);
void key_delete(struct hca_context *ctx, uint32_t key);

/* td.c */
struct ibv_td *td_alloc(struct ibv_context *context, struct ibv_td_init_attr *attr);
int td_dealloc(struct ibv_td *td);
struct ibv_pd *pd_alloc_parent(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr);

/* sysfs.c: the files of device @index, where they are not there yet. */
void sysfs_create(unsigned int index);
/* The folder that stands for /sys. */
const char *ibv_get_sysfs_path(void);

/* dm.c */
struct ibv_dm *dm_alloc(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int dm_free(struct ibv_dm *dm);

/* mw.c */
struct ibv_mw *mw_alloc(struct ibv_pd *pd, enum ibv_mw_type type);
int mw_dealloc(struct ibv_mw *mw);
int mw_bind_type_1(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
/* Captures a bind of a type 2 window in @wqe; 0 or an errno. */
int mw_capture(struct hca_send_wqe *wqe, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info);
/* BIND_MW and LOCAL_INV, in execution; a status. */
int mw_execute(struct hca_qp *qp, struct hca_send_wqe *wqe);
/* The type 2 window with @rkey that is bound to @qp, which is locked; NULL when there is none. */
struct seg_mr *mw_bound(struct seg *seg, struct seg_qp *qp, uint32_t rkey);
/* True when the 256 keys around @key are those of a window; ctx->lock held. */
bool mw_owns_key(struct hca_context *ctx, uint32_t key);
/* A window is bound to the region at @index; ctx->lock held. */
bool mw_uses_region(struct hca_context *ctx, uint32_t index);
/* Type 2 windows of a QP that is destroyed are unbound; ctx->lock held. */
void mw_forget_qp(struct hca_context *ctx, struct hca_qp *qp);

/* Waits until no work request in execution can still use what was looked up before the call. */
void mr_quiesce(struct hca_context *ctx);

/* cq.c */
/* Adds a completion to CQ @index of @seg; -1 when the CQ has overrun. @ctx is who does it. */
int cq_push(struct hca_context *ctx, struct seg *seg, uint32_t index, const struct seg_cqe *cqe, bool solicited);
/* True when the receive completion of work request @wqe_index of a QP is or was in the ring. */
bool cq_contains(struct seg *seg, uint32_t cq_index, uint32_t qp_index, uint32_t qp_gen, uint32_t wqe_index);
/* Removes the completions of a QP. */
void cq_purge(struct hca_cq *cq, uint32_t qp_index, uint32_t qp_gen);
/* Removes the completions of an XRC SRQ. */
void cq_purge_srq(struct hca_cq *cq, uint32_t srq_index);
/* Takes the next completion that poll may show, and when it happened; poll_lock held. */
bool cq_take(struct hca_cq *cq, struct ibv_wc *wc, uint64_t *completed_ns);
/* A poll that has shown something ends before the CQ is empty; poll_lock held. */
bool cq_stops_short(struct hca_cq *cq);
/* The setting withhold_polls keeps this poll from seeing anything; poll_lock held. */
bool cq_withheld(struct hca_cq *cq);
/* Before a poll looks. */
void cq_delay(struct hca_cq *cq);
/* After a poll that has found nothing. */
void cq_rest(struct hca_cq *cq);
struct ibv_cq *cq_create(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
			 int comp_vector, const char *verb);
struct ibv_cq_ex *cq_create_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int cq_modify(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);

/* pacing.c. The rate is in kbit/s, 0: no limit; sq.lock held, but by pacing_modify, which is ibv_modify_qp_rate_limit. */
struct ibv_packet_pacing_caps pacing_caps(const struct seg *seg);
int pacing_check(const struct seg *seg, uint32_t rate);
void pacing_set(struct hca_qp *qp, uint32_t rate, uint32_t max_burst);
/* When the next request may begin, in ns. */
uint64_t pacing_due(const struct hca_qp *qp);
void pacing_charge(struct hca_qp *qp, uint64_t bytes);
int pacing_modify(struct ibv_qp *ibqp, struct ibv_qp_rate_limit_attr *attr);

int cq_poll(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int cq_req_notify(struct ibv_cq *cq, int solicited_only);

/* qp.c, qp_state.c */
/* Moves the QP to ERR from inside: flushes the receive queue; the send queue is flushed by the caller's sq_run. */
void qp_error_locked(struct hca_qp *qp);
/* A send request failed: ERR, or SQE for the types without acknowledgements, whose receive queue works on. */
void qp_send_error_locked(struct hca_qp *qp);
/* Locks the responder half, completing what a dead owner of the lock began. */
void qp_lock_responder(struct seg *seg, struct seg_qp *shm, uint32_t index);
void qp_flush_recv_locked(struct hca_context *ctx, struct hca_qp *qp);
uint32_t qp_packets(uint64_t length, uint32_t path_mtu);

/* ah.c */
int ah_attr_check(const struct seg *seg, const struct ibv_ah_attr *attr, bool multicast);
/* The lid of the port that a path of ours leads to; of Ethernet it is in the GID. */
uint32_t av_lid(const struct seg *own, const struct ibv_ah_attr *av);
bool av_is_multicast(const struct seg *own, const struct ibv_ah_attr *av);
bool gid_is_ipv4(const union ibv_gid *gid);
uint16_t ipv4_checksum(const void *header);

/* srq.c */
/* Locks for consuming, completing what a dead owner of the lock began. */
void srq_lock(struct seg *seg, struct seg_srq *srq);
struct ibv_srq *srq_create_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *init);
int srq_get_num(struct ibv_srq *srq, uint32_t *number);
int srq_post(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* xrc.c */
struct ibv_xrcd *xrcd_open(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int xrcd_close(struct ibv_xrcd *xrcd);
struct ibv_qp *xrc_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

/* xrc_opener.c: handles of QPs that another context has made */
struct ibv_qp *xrc_open_foreign(struct hca_context *ctx, struct hca_xrcd *xrcd, struct ibv_qp_open_attr *attr);
void xrc_close_foreign(struct hca_context *ctx, struct hca_qp *handle);
/* Of a QP whose last handle in its own context is gone: from here on it ends with the last opener. ctx->lock held. */
bool xrc_is_open_elsewhere(struct hca_context *ctx, struct hca_qp *qp);
/* Whether a QP is there: that of a process that is gone is, as long as another has it open. */
bool xrc_is_there(struct hca_context *ctx, struct seg *seg, struct seg_qp *shm);
/* Makes a QP that only others have open that of its own context again; false: it has ended. ctx->lock held. */
bool xrc_take_back(struct hca_context *ctx, struct hca_qp *qp);
void xrc_tell_openers(struct hca_context *ctx, struct seg_qp *shm, enum ibv_event_type type);

/* With a protection domain or, for an XRC receive QP, with an XRC domain. */
struct ibv_qp *qp_create(struct ibv_context *context, struct hca_pd *pd, struct hca_xrcd *xrcd,
			 struct ibv_qp_init_attr *init, const char *verb);
/* Its memory, when nobody can reach it any more. */
void qp_free(struct hca_qp *qp);
/* qp_ex.c */
struct ibv_qp *qp_create_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

/* send.c, recv.c */
/* What a post of one more request would return now; sq.lock held. */
int send_may_post(struct hca_qp *qp);
bool send_opcode_fits(enum ibv_qp_type type, uint32_t opcode);
bool send_may_inline(uint32_t opcode);
/* The destination of a datagram; 0 or EINVAL. */
int send_set_ud(const struct hca_qp *qp, struct hca_send_wqe *wqe, const struct hca_ah *ah, uint32_t qpn, uint32_t qkey);
int send_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
void recv_capture(struct seg_recv_wqe *wqe, const struct ibv_recv_wr *wr);
/* A sender that waits out its RNR timer for the QP of @shm is told at once: for the setting rnr_kick. */
void recv_kick(struct hca_context *ctx, struct seg_qp *shm);
int recv_post(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* requester.c: executes the head of the send queue as far as it goes; sq.lock held. */
void requester_run(struct hca_qp *qp);
/* Reports a drained send queue, if it is and the application wants to know. */
void requester_drained(struct hca_qp *qp);

/* copy.c: between our memory and that of the process of @seg; 0 or -1 (a page is gone, or the process). */
struct iovec;
int copy_to_peer(struct seg *seg, const struct iovec *local, int nlocal, const struct iovec *remote, int nremote,
		 uint64_t length);
int copy_from_peer(struct seg *seg, const struct iovec *local, int nlocal, const struct iovec *remote, int nremote,
		   uint64_t length);
/*
 * The whole of @remote, a READ's or a WRITE's, so that no aligned word of eight bytes there is met in the midst of a change, as
 * none is by an HCA. The kernel cuts words that lie otherwise here, or in two pieces.
 */
int copy_words(struct seg *seg, bool read, const struct iovec *local, int nlocal, const struct iovec *remote);
/* The same inside our own process, for memory that may be gone. */
int copy_from_own(void *to, const struct iovec *from, int n, uint64_t length);
int copy_to_own(const struct iovec *to, int n, const void *from, uint64_t length);

/* engine.c */
int engine_start(struct hca_context *ctx);
void engine_stop(struct hca_context *ctx);
/* Puts the QP on the list of those the engine runs at sq.stall_until; sq.lock held. */
void engine_stall(struct hca_qp *qp);
void engine_forget(struct hca_qp *qp);
void engine_delayed_cq(struct hca_context *ctx, uint32_t index);

/* event.c */
struct hca_event_list *event_list_create(void);
void event_list_destroy(struct hca_event_list *list);
int event_list_fd(struct hca_event_list *list);
void event_completion(struct hca_cq *cq);
/* Reports an asynchronous event of the object with @index at our own context. */
void event_async(struct hca_context *ctx, enum ibv_event_type type, uint32_t index, uint32_t gen);
/* To that handle of another context's QP. */
void event_async_opened(struct hca_context *ctx, enum ibv_event_type type, uint32_t handle);
/* Like event_async, at the owner of @seg, which may be another process. */
void event_async_at(struct hca_context *ctx, struct seg *seg, enum ibv_event_type type, uint32_t index, uint32_t gen);
void event_forget_cq(struct hca_cq *cq);
void event_forget_qp(struct hca_qp *qp);
void event_forget_srq(struct hca_srq *srq);

/*
 * The setting die_at: this process kills itself in the middle of completing a peer's receive work request, at the place
 * where the peer's structures are half changed.
 */
enum die_point {
	DIE_BEFORE_CQE = 1,	/* the receive is marked, the CQE not written */
	DIE_IN_CQ,		/* the CQE is written, not published, the CQ locked */
	DIE_AFTER_CQE,		/* the CQE is published, the receive queue has not moved on */
};

static inline void die_at(struct hca_context *ctx, enum die_point point)
{
	if (__builtin_expect(seg_load(&ctx->seg->settings.die_at) == (uint32_t)point, 0))
		raise(SIGKILL);
}

/* null.c */
void null_set_ops(struct hca_context *ctx);
void null_set_cq_ops(struct ibv_cq_ex *cq);
void null_set_qp_ops(struct ibv_qp_ex *qpx);
int null_create_cq(struct hca_cq *cq, int cqe);
void null_purge(struct hca_cq *cq, struct hca_qp *qp);

/* ops.c */
void ops_set(struct hca_context *ctx);

/* device.c */
void device_fatal(struct hca_context *ctx);
int device_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr, size_t size);

#endif
