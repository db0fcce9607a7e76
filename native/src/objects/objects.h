/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The virtual objects. `v` (or `ex`) is the struct that the application holds a pointer to; what surrounds it is ours.
 * Every slot begins with the real object's pointer (sv_real depends on it). Behind a public struct there are zeros, for
 * vendors' libraries look there to find out whether an object is theirs.
 */
#ifndef SV_OBJECTS_H
#define SV_OBJECTS_H

#include "base/arena.h"
#include "control/events.h"
#include "control/thread.h"
#include "objects/keymap.h"
#include "objects/log.h"

#define SV_ZEROS 128

struct sv_device {
	struct ibv_device *real;
	__be64 guid;
	int index;
	uint32_t without_file;		/* in /dev/infiniband, by its name there */
	struct sv_device *next;		/* all that there ever were: none is freed */
	struct ibv_device v;
	char zeros[SV_ZEROS];
};

struct sv_context {
	struct ibv_context *real;
	/* The real context's own, or stand-ins that fail while there is none. */
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
	int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
	struct sv_qp_numbers *qp_numbers;	/* NULL: none is needed */
	const struct sv_keymap *lkeys;
	const struct sv_idmap *sources;
	const struct sv_routes *routes;	/* with sources, or NULL, too */
	uint32_t translate;		/* an lkey, or an rkey of one of its QPs, may differ from the real one */
	struct sv_events events;
	struct verbs_context ex;
	char zeros[SV_ZEROS];
};

struct sv_td {
	void *real;			/* none */
	uint32_t users;			/* parent domains */
	struct ibv_td v;
	char zeros[SV_ZEROS - sizeof(struct ibv_td) - 2 * sizeof(void *)];
};

struct sv_pd {
	struct ibv_pd *real;
	struct sv_td *td;		/* of a parent domain */
	struct ibv_pd v;
	char zeros[SV_ZEROS - sizeof(struct ibv_pd) - 2 * sizeof(void *)];
};

enum sv_mr_kind {
	SV_MR_MEMORY,
	SV_MR_NULL,
	SV_MR_DEVICE,
	SV_MR_DMABUF
};

struct sv_dm {
	struct ibv_dm *real;
	void *saved;			/* the contents, while there is no real one */
	uint64_t length;
	struct ibv_dm v;
	char zeros[SV_ZEROS - sizeof(struct ibv_dm) - 3 * sizeof(void *)];
};

struct sv_mr {
	struct ibv_mr *real;
	struct sv_dm *dm;		/* of a region of device memory, with where it begins there */
	uint64_t dm_offset;
	uint64_t kind;			/* enum sv_mr_kind */
	struct ibv_mr v;
	uint64_t iova;			/* the address that work requests use for v.addr */
	char zeros[SV_ZEROS - sizeof(struct ibv_mr) - 5 * sizeof(void *)];
};

struct sv_channel {
	struct ibv_comp_channel *real;
	struct ibv_comp_channel v;
	struct sv_events events;
	char zeros[SV_ZEROS];
};

/* What a completion of an extended queue may have besides the fields of an ibv_wc. */
struct sv_extras {
	uint64_t timestamp;
	uint64_t wallclock_ns;
	uint32_t flow_tag;
	uint16_t cvlan;
};

#define SV_NO_QP UINT32_MAX

/* A completion that the application has not seen yet and that is no longer in the real queue. */
struct sv_completion {
	struct ibv_wc wc;		/* as the application will see it */
	struct sv_extras extras;
	uint32_t qp;			/* its index, or SV_NO_QP: it is of another process */
	uint32_t srq;			/* likewise, of a receive of an SRQ */
	uint32_t position;		/* of its request in the log, modulo 2^32; of an SRQ's: its slot */
	uint16_t queue;			/* enum sv_queue */
	uint16_t held;			/* an error since ANNOUNCE: whose it is has not been decided */
};

enum sv_armed {
	SV_ARMED_NOT,
	SV_ARMED_SOLICITED,
	SV_ARMED_ANY,
	SV_ARMED_MASK
};

struct sv_cq {
	struct ibv_cq *real;
	int (*poll)(struct ibv_cq *cq, int count, struct ibv_wc *wc);
	struct sv_lock lock;
	struct sv_completion *kept;	/* the virtual completion queue: kept[head .. tail) */
	uint32_t head, tail, capacity;
	uint32_t notify;		/* enum sv_armed, what makes an event, and how many events are due: see notify.h */
	uint32_t event_made;		/* the request is used up by a completion that no device has made */
	uint32_t ours_in;		/* the device's so manyth event from now on is of the checkpoint's doing, and none; 0: none is */
	bool disarmed;			/* which has used up the device's request: that of the application stands */
	uint32_t announced;		/* so many of the kept, from the first on, an event has been made for, or will be */
	bool announces_next;		/* it will be for the next of the real queue */
	uint32_t users;			/* queues of QPs that complete here */
	union {
		struct ibv_cq v;
		struct ibv_cq_ex ex;
	};
	char zeros[SV_ZEROS];
	uint32_t comp_reported;		/* events handed to the application, to be acknowledged */
	uint32_t async_reported;
	uint32_t ending;		/* ibv_destroy_cq waits: no event is handed out any more */
	/* For an extended queue. */
	struct sv_long_lock polling;	/* held from ibv_start_poll to ibv_end_poll */
	uint64_t extras_wanted;		/* wc_flags that an ibv_wc has no field for: the real queue is an extended one */
	uint64_t wc_flags;
	struct ibv_wc current;		/* what the wc_read functions read */
	struct sv_extras extras;
};

enum sv_queue {
	SV_QUEUE_SEND,
	SV_QUEUE_RECV,
	SV_QUEUE_SHARED
};

/*
 * A work queue, one cache line. Positions count from the last RESET. `credit` is the position up to which the
 * application has seen completions: like on a device, that is what makes room. A request's slot in the log is its
 * position less `base`, modulo the ring's size; whenever the queue is empty the next request is the base, so that a
 * program that keeps few requests in a deep queue uses the same few cache lines again.
 */
struct sv_send_queue {
	struct ibv_qp *real;
	struct sv_lock lock;
	struct sv_sent_entry *log;	/* slots from SV_NEAR_SLOTS on */
	uint64_t posted;
	uint64_t consumers;		/* posted requests that consume a receive at the peer */
	uint64_t id;			/* SV_ID of this queue; | slot gives the real wr_id */
	uint32_t credit;		/* modulo 2^32, as base */
	uint32_t max_wr;		/* 0 below RTS: a request that rxe refuses stays in its ring and runs later */
	uint32_t mask;
	uint32_t base;
};

struct sv_recv_queue {
	struct ibv_qp *real;
	struct sv_lock lock;
	struct sv_recv_entry *log;
	uint64_t posted;
	uint64_t id;
	uint32_t credit;
	uint32_t max_wr;
	uint32_t mask;
	uint32_t peer_qp_num;		/* virtual, as work completions show them */
	uint16_t peer_lid;
	uint16_t landed;		/* messages wait for the application's next receives */
	uint32_t base;
};

/* A message that one of our own receives took, until the application posts the receive that it belongs to. */
struct sv_landing {
	struct sv_landing *next;
	struct sv_qp *qp;		/* whose message it is */
	struct ibv_mr *real_mr;
	void *buffer;
	uint64_t size;
	struct ibv_wc wc;		/* of the receive, once it has come */
};

struct sv_landing_list {
	struct sv_landing *first, *last;
};

struct sv_landings {
	struct sv_landing_list awaited;	/* posted and not consumed */
	struct sv_landing_list landed;
	uint32_t count;			/* of the awaited */
};

/* A receive of an SRQ. Its completions come in any order, so it is known by its slot. */
struct sv_shared_entry {
	struct sv_recv_entry recv;
	uint64_t number;		/* the so manyth that was posted, from 1; 0: known to have been consumed, or free */
	uint32_t next;			/* on a stack of free slots: that slot + 1, or 0 */
	uint32_t reserved;
};

/* Of QP numbers, by their uppermost 8 bits. */
#define SV_NUMBER_RANGES 256

struct sv_ah {
	struct ibv_ah *real;		/* the first of them */
	struct ibv_ah **reals;
	const struct sv_idmap *map;
	uint32_t count;
	uint16_t *makers;		/* by the uppermost bits of a real QP number: the index of its handle, or NULL */
	struct ibv_ah v;
	char zeros[SV_ZEROS];
} __attribute__((aligned(64)));

struct sv_srq {
	struct ibv_srq *real;
	struct sv_lock lock;		/* as a receive queue's */
	struct sv_shared_entry *log;
	uint64_t posted;
	uint64_t id;
	uint32_t free;			/* the stack of who posts, behind the lock */
	uint32_t landed;		/* messages wait for the application's next receives */
	struct ibv_srq v;
	char zeros[SV_ZEROS];
	uint32_t returned;		/* the stack of who polls; whoever posts takes all of it */
	uint32_t last_taker;		/* index of the QP of the last completion that was polled; may be no more */
	/* Of XRC. */
	const struct sv_xrcd *xrcd;
	struct sv_cq *cq;
	uint32_t number;		/* virtual */
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t room;			/* slots that the log has memory for */
	uint32_t slots;			/* of these, in use so far: max_wr, and those on the spare stack */
	uint32_t spare;			/* a stack of slots that are in use no more, behind the lock */
	uint32_t stride;
	char *side;			/* SGE lists, one place for each slot */
	struct ibv_sge *scratch;
	struct sv_landings landings;
	uint32_t events_reported;
	uint32_t ending;
	uint32_t in_verb;		/* as a QP's */
	uint32_t free_asked;
} __attribute__((aligned(64)));

/* The peer of a UD QP: each completion names its sender. */
#define SV_PEER_ANY UINT32_MAX

#define SV_NEAR_SLOTS 4

struct sv_qp {
	struct sv_send_queue sq;	/* one line; with the next, that begins the public struct, one pair */
	union {
		struct ibv_qp v;
		struct ibv_qp_ex ex;
	};
	char zeros[SV_ZEROS - 96];
	struct sv_recv_queue rq;
	/* The first slots of the send log: a program that keeps few requests per QP in many QPs needs no other page. */
	struct sv_sent_entry near[SV_NEAR_SLOTS];
	/* From here on the cold part. */
	struct ibv_qp_cap cap;
	uint32_t signal_all;
	const struct sv_keymap *rkeys;
	char *send_side;		/* SGE lists or inline payloads, one place for each slot of the log */
	char *recv_side;
	uint32_t send_stride, recv_stride;
	struct ibv_sge *send_scratch;	/* translated SGE lists of one batch, max_send_sge each */
	struct ibv_sge *recv_scratch;
	struct sv_stage *stage;		/* of ibv_wr_*; NULL: not an extended QP */
	uint64_t send_retired;		/* positions before are known to have taken effect; never behind credit */
	uint64_t recv_retired;
	uint64_t recv_flushed;		/* receives that ended in error: no message consumed them */
	uint64_t recv_filled;		/* receives filled with a landed message */
	uint64_t landed_total;
	uint64_t send_error_at, recv_error_at;
	int32_t send_error, recv_error;	/* enum ibv_wc_status of the first held error, or 0 */
	uint32_t marker;		/* as in struct sv_bookmark */
	uint32_t rebind;		/* of a window: 1 posted, 2 done, 3 failed */
	uint64_t marker_at;
	struct sv_landings landings;
	struct sv_srq *srq;		/* NULL: its own receive queue */
	uint64_t shared_received;	/* messages for which the SRQ had a receive */
	uint32_t real_num;		/* of the real QP, in the table of numbers; 0: not there */
	uint32_t last_receive;		/* as in struct sv_bookmark */
	uint32_t sq_drained;		/* likewise */
	uint32_t targeted;		/* of UD and XRC: what sq.max_wr is of the others */
	uint64_t recv_held;		/* held errors of the receive queue */
	uint16_t opened;
	uint32_t events_reported;
	uint32_t ending;
	/* What the driver asks for during a verb is done by the verb's own thread, which may take the queues' locks. */
	uint32_t in_verb;
	uint32_t reset_asked;
	uint32_t free_asked;
	struct sv_xrc *xrc;		/* NULL: not of XRC */
	char spread[8];			/* makes the size an odd number of pairs */
} __attribute__((aligned(128)));

_Static_assert(sizeof(struct sv_send_queue) == 64, "one cache line");
_Static_assert(sizeof(struct sv_recv_queue) == 64, "one cache line");
_Static_assert(offsetof(struct sv_qp, v) == 64, "the pair of lines that a post touches");
_Static_assert(offsetof(struct sv_qp, rq) % 64 == 0, "one cache line");
_Static_assert(sizeof(struct sv_qp) / 128 % 2 == 1, "an odd number of pairs, so that QPs spread over the cache sets");

#define SV_QP_INDEX_LIMIT (1u << 22)

#define sv_device_of(p) sv_container_of(p, struct sv_device, v)
#define sv_context_of(p) sv_container_of(p, struct sv_context, ex.context)
#define sv_td_of(p) sv_container_of(p, struct sv_td, v)
#define sv_pd_of(p) sv_container_of(p, struct sv_pd, v)
#define sv_dm_of(p) sv_container_of(p, struct sv_dm, v)
#define sv_mr_of(p) sv_container_of(p, struct sv_mr, v)
#define sv_channel_of(p) sv_container_of(p, struct sv_channel, v)
#define sv_cq_of(p) sv_container_of(p, struct sv_cq, v)
#define sv_qp_of(p) sv_container_of(p, struct sv_qp, v)
#define sv_ah_of(p) sv_container_of(p, struct sv_ah, v)
#define sv_srq_of(p) sv_container_of(p, struct sv_srq, v)

static inline struct sv_qp *sv_qp_at(uint32_t index)
{
	return (struct sv_qp *)sv_region_base(SV_KIND_QP) + index;
}

static inline uint32_t sv_qp_index(const struct sv_qp *qp)
{
	return SV_ID_INDEX(qp->sq.id);
}

static inline struct sv_srq *sv_srq_at(uint32_t index)
{
	return (struct sv_srq *)sv_region_base(SV_KIND_SRQ) + index;
}

/* device.c: has a virtual device this name in /dev/infiniband, where there is no file for what is behind it? Takes no lock. */
bool sv_device_without_file(const char *dev_name);

/* context.c */
extern const struct verbs_context sv_verbs_template __attribute__((visibility("hidden")));

/* post.c, poll.c, wr_ex.c */
int sv_post_send(struct ibv_qp *vqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int sv_post_recv(struct ibv_qp *vqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int sv_post_srq_recv(struct ibv_srq *vsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int sv_poll_cq(struct ibv_cq *vcq, int count, struct ibv_wc *wc);
int sv_req_notify_cq(struct ibv_cq *vcq, int solicited_only);
/* One completion into cq->current; 1, 0 or negative. The queue's lock is held. */
int sv_poll_one(struct sv_cq *cq, struct sv_thread *self);
int sv_stage_open(struct sv_qp *qp);
void sv_stage_free(struct sv_qp *qp);

/* channel.c: the application gets an event. */
void sv_cq_event_now(struct sv_cq *cq);

/*
 * cq.c: what the real queue has had until now goes to the virtual one, with the queue's lock held and the gate open; `ending`
 * is a QP whose errors are of our doing, or NULL. The application's notification stays asked for. Returns 0 or an errno value.
 */
int sv_cq_collect(struct ibv_cq *vcq, const struct sv_qp *ending);

/* cq_ex.c */
void sv_cq_ex_open(struct sv_cq *cq, const struct sv_cq_spec *spec);
/* As poll, of one completion of a real extended queue: what an ibv_wc has no field for goes to cq->extras. */
int sv_take_with_extras(struct sv_cq *cq, struct ibv_wc *wc);
struct ibv_cq_ex *sv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int sv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);

/* async.c */
void sv_async_forget(struct sv_context *context, const void *object);
void sv_async_forget_last_receive(struct sv_qp *qp);
/* Waits until *completed, guarded by mutex and cond, has reached reported. Outside the gate. */
void sv_await_acks(const char *verb, pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
		   const uint32_t *reported);

/*
 * qp.c: forgets all requests and their completions; the caller holds the locks, or the gate is closed. For an XRC receive
 * QP it takes them itself, for the thread `self` if that is not NULL.
 */
void sv_qp_empty(struct sv_qp *qp, struct sv_thread *self);
/* Visits all completion queues that completions of a QP may be in. */
void sv_qp_each_cq(const struct sv_qp *qp, void (*visit)(struct sv_cq *cq, const struct sv_qp *qp));

/* domain.c */
struct ibv_td *sv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int sv_dealloc_td(struct ibv_td *td);
struct ibv_pd *sv_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr);
int sv_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);

/* dm.c */
struct ibv_dm *sv_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int sv_free_dm(struct ibv_dm *dm);
struct ibv_mr *sv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned int access);
struct ibv_mr *sv_alloc_null_mr(struct ibv_pd *pd);
int sv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list,
		 uint32_t count);
/* Writes to what [address, address + length) of a key stands for, as the device would. False: to nothing. */
bool sv_memory_write(struct ibv_context *vcontext, uint32_t vlkey, uint64_t address, const void *from, uint64_t length);

#endif
