/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boundary between the two halves of a rank: the preload library (C, the data plane: mechanism) and the shadow
 * driver (Java, the control plane: policy), both in the application's process. Everything that both sides see is
 * here and nowhere else; jextract turns this file into org.shadowverbs.bindings.abi.
 *
 * Terms. "Virtual" is what the application holds: structs from our address range, virtual ids. "Real" is what the
 * verbs library of this host made. A pointer parameter named v... is virtual, real... is real.
 *
 * Threads. Functions marked [gate closed] may be called only by the driver's checkpoint thread between sv_gate_close
 * and sv_gate_open. All others may be called by any driver thread; the driver serialises calls on one object.
 *
 * Errors. Functions that return int return 0 or an errno value (never -1), unless they say otherwise.
 */
#ifndef SHADOWVERBS_H
#define SHADOWVERBS_H

#include <stdint.h>
#include <infiniband/verbs.h>

#define SV_ABI_VERSION 1

/* ---- The mailbox: control verbs on their way from an application thread to a driver thread ------------------- */

#define SV_MAILBOX_SLOTS 64
#define SV_REQUEST_ARGS 10

/*
 * One control verb. `arg` holds the verb's parameters in the order of its manual page: pointers as the application
 * gave them (virtual objects, attribute structs in the application's memory, to be read and written in place) and
 * integers, sign-extended. `result` is the pointer the verb returns, or 0; `err` is 0 or the errno value. For verbs
 * that return int, the wrapper returns `err` (or -1 with errno set, where the manual page says so).
 */
enum sv_op {
	SV_OP_OPEN_DEVICE = 1,		/* vdevice -> context */
	SV_OP_CLOSE_DEVICE,		/* context */
	SV_OP_QUERY_DEVICE,		/* context, struct ibv_device_attr * */
	SV_OP_QUERY_DEVICE_EX,		/* context, const input *, struct ibv_device_attr_ex *, size_t attr_size */
	SV_OP_QUERY_PORT,		/* context, port, struct ibv_port_attr *, size_t attr_size */
	SV_OP_QUERY_GID,		/* context, port, index, union ibv_gid * */
	SV_OP_QUERY_GID_EX,		/* context, port, index, struct ibv_gid_entry *, flags, entry_size */
	SV_OP_QUERY_GID_TABLE,		/* context, entries *, max_entries, flags, entry_size; result = count, err */
	SV_OP_QUERY_PKEY,		/* context, port, index, uint16_t * */
	SV_OP_GET_PKEY_INDEX,		/* context, port, pkey; result = index, err */
	SV_OP_ALLOC_PD,			/* context -> pd */
	SV_OP_ALLOC_PARENT_DOMAIN,	/* pd -> pd */
	SV_OP_DEALLOC_PD,		/* pd */
	SV_OP_REG_MR,			/* pd, addr, length, iova, access -> mr */
	SV_OP_REREG_MR,			/* mr, flags, pd, addr, length, access; result = ibv_rereg_mr's return value */
	SV_OP_DEREG_MR,			/* mr */
	SV_OP_ALLOC_NULL_MR,		/* pd -> mr */
	SV_OP_REG_DMABUF_MR,		/* pd, offset, length, iova, fd, access -> mr */
	SV_OP_ALLOC_DM,			/* context, struct ibv_alloc_dm_attr * -> dm */
	SV_OP_FREE_DM,			/* dm */
	SV_OP_REG_DM_MR,		/* pd, dm, offset, length, access -> mr */
	SV_OP_ALLOC_MW,			/* pd, type -> mw */
	SV_OP_DEALLOC_MW,		/* mw */
	SV_OP_CREATE_COMP_CHANNEL,	/* context -> channel */
	SV_OP_DESTROY_COMP_CHANNEL,	/* channel */
	SV_OP_CREATE_CQ,		/* context, cqe, cq_context, channel, comp_vector -> cq */
	SV_OP_CREATE_CQ_EX,		/* context, struct ibv_cq_init_attr_ex * -> cq_ex */
	SV_OP_RESIZE_CQ,		/* cq, cqe */
	SV_OP_MODIFY_CQ,		/* cq, struct ibv_modify_cq_attr * */
	SV_OP_DESTROY_CQ,		/* cq */
	SV_OP_CREATE_QP,		/* pd, struct ibv_qp_init_attr * -> qp (attr->cap is updated) */
	SV_OP_CREATE_QP_EX,		/* context, struct ibv_qp_init_attr_ex * -> qp */
	SV_OP_QUERY_QP,			/* qp, attr *, attr_mask, init_attr * */
	SV_OP_MODIFY_QP,		/* qp, attr *, attr_mask */
	SV_OP_DESTROY_QP,		/* qp */
	SV_OP_CREATE_SRQ,		/* pd, struct ibv_srq_init_attr * -> srq */
	SV_OP_MODIFY_SRQ,		/* srq, attr *, mask */
	SV_OP_QUERY_SRQ,		/* srq, attr * */
	SV_OP_DESTROY_SRQ,		/* srq */
	SV_OP_CREATE_AH,		/* pd, attr * -> ah */
	SV_OP_DESTROY_AH,		/* ah */
	SV_OP_CREATE_SRQ_EX,		/* context, struct ibv_srq_init_attr_ex * -> srq */
	SV_OP_INIT_AH,			/* context, port, const struct ibv_grh *, struct ibv_ah_attr *: its route alone */
	SV_OP_ATTACH_MCAST,		/* qp, const union ibv_gid *, lid */
	SV_OP_DETACH_MCAST,		/* qp, const union ibv_gid *, lid */
	SV_OP_OPEN_XRCD,		/* context, struct ibv_xrcd_init_attr * -> xrcd */
	SV_OP_CLOSE_XRCD,		/* xrcd */
	SV_OP_OPEN_QP,			/* context, struct ibv_qp_open_attr * -> qp */
	SV_OP_MODIFY_QP_RATE_LIMIT,	/* qp, struct ibv_qp_rate_limit_attr * */
	SV_OP_CM_DISCONNECT,		/* a token as of sv_cm_lost: that connection ends, and its peer is to be told */
	SV_OP_FROM_KERNEL,		/* struct ibv_ah_attr *: as the kernel's connection manager made it, real to virtual */
	SV_OP_EXIT,			/* exit status: the process is about to end normally; say goodbye */
	SV_OP_CHECKPOINT,		/* number of the call, processes (0: this one): the program wants a checkpoint, see sv_program_answer */
	SV_OP_COUNT
};

enum sv_request_state {
	SV_REQUEST_FREE = 0,
	SV_REQUEST_CLAIMED,		/* an application thread is filling it */
	SV_REQUEST_SUBMITTED,		/* waiting for a driver thread */
	SV_REQUEST_TAKEN,		/* a driver thread works on it */
	SV_REQUEST_ANSWERED		/* result and err are valid; the application thread frees the slot */
};

struct sv_request {			/* 128 bytes, aligned to 128 */
	uint32_t state;			/* enum sv_request_state; a futex word, written atomically by C alone */
	uint32_t op;			/* enum sv_op */
	int32_t err;
	int32_t tid;			/* kernel thread id of the caller, for messages */
	uint64_t result;
	uint64_t arg[SV_REQUEST_ARGS];
	uint64_t reserved[3];
};

/* Base of the array of SV_MAILBOX_SLOTS requests. Constant for the life of the process. */
struct sv_request *sv_mailbox(void);
/* Blocks up to timeout_ms (-1: for ever) for a submitted request, takes it, returns its slot; -1: none came. */
int sv_mailbox_take(int timeout_ms);
/* Publishes result and err of a taken slot and wakes its caller. */
void sv_mailbox_answer(int slot);

int sv_abi_version(void);
/* Called once by the driver when it is ready to take requests (err 0) or has failed to start (errno value). */
void sv_driver_ready(int err);
/* One line on stderr, prefixed "shadowverbs: "; written with one write(2). */
void sv_say(const char *line);

/* ---- The gate ----------------------------------------------------------------------------------------------- */

/*
 * on != 0: from now on an error completion that an application thread polls is kept (see sv_qp_errors_withdraw) and
 * the thread waits at the gate. Completions before it are still delivered.
 */
void sv_gate_announce(int on);

struct sv_gate_report {			/* who still is inside a verb when the deadline passed */
	int32_t tid;
	int32_t inside;			/* number of threads inside */
	char verb[40];			/* name of the verb that thread tid is in */
};

/*
 * Closes the gate: every thread inside a verb finishes it, every later call waits at its beginning. Threads that sleep
 * in ibv_get_cq_event, ibv_get_async_event or wait for acknowledgements are outside the gate. Returns 0 or ETIMEDOUT
 * with *report filled (the gate is then open again).
 */
int sv_gate_close(int64_t timeout_ns, struct sv_gate_report *report);
/* Opens the gate, ends the announcement, and wakes every sleeper that may have missed an event. */
void sv_gate_open(void);

/* ---- What the program itself has to say of checkpoints (program/include/shadowverbs_program.h) -------------------- */

/*
 * Sections that are kept free of checkpoints. Closing them: who is in one finishes it, who begins one waits, until the gate is
 * opened or sv_sections_open. Returns 0 or ETIMEDOUT, with *report filled: they stay closed, and this may be called again.
 */
int sv_sections_close(int64_t timeout_ns, struct sv_gate_report *report);
/* Each thread that waits may go into the section that it begins: there may be one elsewhere that can't end without it. */
void sv_sections_pass(void);
void sv_sections_open(void);

/*
 * Calls the program's callbacks before a checkpoint, on a thread of their own. 0, ETIMEDOUT, or ECANCELED: one has returned *answer,
 * which is not 0.
 */
int sv_program_before(int64_t timeout_ns, int32_t *answer);
/* Has those called that are to be told how that went: 1 resumed, 2 restarted, 3 given up. Does not wait. [gate open] */
void sv_program_after(int outcome);
/* What has become of an SV_OP_CHECKPOINT: 1 or 2 as above and 0; or -1, an errno value, and why. Once for each. */
void sv_program_answer(uint64_t call, int result, int err, const char *why);

/* ---- Ids ---------------------------------------------------------------------------------------------------- */

/*
 * virtual = real XOR mask, unless an exception says otherwise. Masks are 0 (identity) or, with
 * SHADOWVERBS_IDS=scrambled, constants that are the same in every rank. Set once, before the first object is created.
 */
struct sv_masks {
	uint32_t qp_num;		/* 24 bits; of the numbers of XRC SRQs, too */
	uint32_t key;			/* lkey and rkey */
	uint16_t lid;
	uint16_t reserved;
	uint64_t gid;			/* of the interface id, as a number; GIDs of multicast groups mean themselves */
};
void sv_set_masks(const struct sv_masks *masks);

/*
 * An immutable hash table of exceptions virtual key -> real key. Built by the driver at REATTACH, handed to objects,
 * freed when no object refers to it.
 */
struct sv_keymap;
struct sv_keymap *sv_keymap_new(const uint32_t *virtual_keys, const uint32_t *real_keys, uint32_t count);
void sv_keymap_free(struct sv_keymap *map);

/*
 * Likewise of 64-bit ids, none of them 0. For address handles: virtual QP number -> index of a real handle << 32 | real QP
 * number. For senders: 1 << 40 | real lid << 24 | real QP number (0: any other of that port) -> virtual lid << 24 | virtual
 * QP number; and 1 << 56 | real port, as in struct sv_route, << 24 | real QP number (0: likewise) -> where the names of its
 * GIDs begin << 40 | virtual lid << 24 | virtual QP number. For XRC: virtual SRQ number -> real one.
 */
struct sv_idmap;
struct sv_idmap *sv_idmap_new(const uint64_t *keys, const uint64_t *values, uint32_t count);
void sv_idmap_free(struct sv_idmap *map);

/*
 * What the GIDs in the route headers of datagrams stand for. Several processes that were on different hosts may share a
 * real port now: then one real GID has another name for each sender.
 */
struct sv_route {			/* a real GID */
	uint64_t prefix;		/* as numbers, as is interface_id */
	uint64_t interface_id;
	uint64_t port;			/* the real port that has it, in 32 bits; they are counted as they come */
	uint64_t slot;			/* which of that port's GIDs: its name is at so much behind where a sender's names begin */
	uint64_t own;			/* 1 + where the name is that it has as a destination here; 0: it is no GID of this context */
};
struct sv_route_name {			/* a virtual GID */
	uint64_t prefix;
	uint64_t interface_id;
	uint64_t ipv4;			/* 1: a header with it is that of RoCE over IPv4 */
};
/* Immutable; NULL when out of memory. */
struct sv_routes;
struct sv_routes *sv_routes_new(const struct sv_route *routes, uint32_t count, const struct sv_route_name *names,
				uint32_t name_count);
void sv_routes_free(struct sv_routes *routes);

/* ---- Objects ------------------------------------------------------------------------------------------------ */

/*
 * Creation is in three steps, so that a real object can carry the pointer of its virtual one as its context
 * (qp_context, cq_context: how events find their way back): *_alloc reserves the virtual struct; the driver creates the
 * real object; *_open fills in what the application sees. *_bind(v, NULL) detaches, *_bind(v, real) re-attaches. *_free
 * ends the virtual object (poisons it). *_alloc returns NULL when out of memory.
 */

/* The virtual device that stands for a real one of the same name (made when missing; lives as long as the process). */
struct ibv_device *sv_device_for(struct ibv_device *real);
/* The real device bound to a virtual one, or NULL while detached. */
struct ibv_device *sv_device_real(struct ibv_device *vdevice);
void sv_device_bind(struct ibv_device *vdevice, struct ibv_device *real);
/*
 * The GUID that ibv_get_device_guid gives, in network order: of a virtual device that of the first real one, across
 * restarts; or that of a real device of the library in use.
 */
uint64_t sv_device_guid(struct ibv_device *device);

struct ibv_context *sv_context_alloc(struct ibv_device *vdevice);
int sv_context_open(struct ibv_context *vcontext, struct ibv_context *real);
/* Rebinding moves the real async_fd in and out of the application's async_fd, an epoll descriptor of ours. */
int sv_context_bind(struct ibv_context *vcontext, struct ibv_context *real);
/* Exceptions of this context's own lkeys, or NULL. [gate closed] */
void sv_context_set_lkeys(struct ibv_context *vcontext, const struct sv_keymap *map);
/*
 * Who is named by the completions of datagrams, and by the route headers in front of them: both, or both NULL.
 * [gate closed], or while there are none.
 */
void sv_context_set_sources(struct ibv_context *vcontext, const struct sv_idmap *map, const struct sv_routes *routes);
void sv_context_free(struct ibv_context *vcontext);

/* Whether an image can be made while the real device is open: it has a file by which CRIU's plugin knows it. */
int sv_context_attachable(struct ibv_context *vcontext);
/*
 * In a process that was restored from such an image. From now on destroying real objects of this context gives back what they
 * have in this process, and asks no device. 0, ENOSYS (this libibverbs cannot do that) or EMFILE. [gate closed]
 */
int sv_context_lost(struct ibv_context *vcontext);
/* All of them are destroyed: closes what CRIU has left. [gate closed] */
void sv_lost_over(void);

struct ibv_pd *sv_pd_alloc(struct ibv_context *vcontext);
void sv_pd_bind(struct ibv_pd *vpd, struct ibv_pd *real);
void sv_pd_free(struct ibv_pd *vpd);

/* addr and length as the application sees them; lkey and rkey virtual. */
struct ibv_mr *sv_mr_alloc(struct ibv_pd *vpd, void *addr, uint64_t length, uint32_t vlkey, uint32_t vrkey);
void sv_mr_bind(struct ibv_mr *vmr, struct ibv_mr *real);
void sv_mr_free(struct ibv_mr *vmr);

/* Device memory; real ones have `length` rounded up to a multiple of 4. */
struct ibv_dm *sv_dm_alloc(struct ibv_context *vcontext, uint64_t length);
/* NULL: its contents are saved first; a real one: they are put there. On an error of the latter nothing is bound. */
int sv_dm_bind(struct ibv_dm *vdm, struct ibv_dm *real);
/* While it stays bound: saves its contents for an image; or forgets what was saved. [gate closed] */
int sv_dm_save(struct ibv_dm *vdm);
void sv_dm_forget(struct ibv_dm *vdm);
void sv_dm_free(struct ibv_dm *vdm);

/*
 * Memory windows. The application chooses the lowest byte of an rkey, so 256 virtual rkeys belong to a window, and stand
 * for the 256 of the real one in an order that is fixed when it is bound. Unbinding settles which of the binds and
 * invalidations posted so far have taken effect; those that have not are replayed with their queue pair's sends.
 */
struct ibv_mw *sv_mw_alloc(struct ibv_pd *vpd, uint32_t type, uint32_t vrkey);
void sv_mw_bind(struct ibv_mw *vmw, struct ibv_mw *real);
void sv_mw_free(struct ibv_mw *vmw);
uint32_t sv_mw_real_rkey(struct ibv_mw *vmw, uint32_t vrkey);
/* Whether memory is behind it, and the (virtual) QP through which that was bound; NULL: none, or it was destroyed. */
int sv_mw_bound(struct ibv_mw *vmw);
struct ibv_qp *sv_mw_qp(struct ibv_mw *vmw);
/* Binds the real window to what the virtual one is bound to, through a QP in RTS, and waits for it. [gate closed] */
int sv_mw_rebind(struct ibv_mw *vmw, struct ibv_qp *vqp);
void sv_mw_unbind(struct ibv_mw *vmw);

struct ibv_comp_channel *sv_channel_alloc(struct ibv_context *vcontext);
int sv_channel_bind(struct ibv_comp_channel *vchannel, struct ibv_comp_channel *real);
void sv_channel_free(struct ibv_comp_channel *vchannel);

struct sv_cq_spec {
	struct ibv_comp_channel *channel;	/* virtual, or NULL */
	void *cq_context;			/* the application's */
	int32_t cqe;				/* what the application sees */
	int32_t extended;			/* 1: the virtual struct is an ibv_cq_ex */
	/*
	 * For an extended CQ. Where a flag asks for what an ibv_wc has no field for, real CQs must be extended ones with
	 * these flags, IBV_WC_EX_WITH_BYTE_LEN, _IMM, _SRC_QP and _SLID; else they may be plain.
	 */
	uint64_t wc_flags;
	uint64_t single_threaded;		/* 1: no lock from ibv_start_poll to ibv_end_poll */
};
struct ibv_cq *sv_cq_alloc(struct ibv_context *vcontext);
int sv_cq_open(struct ibv_cq *vcq, const struct sv_cq_spec *spec);
/* Binding re-arms the notification that the application had asked for and that was not yet delivered. */
int sv_cq_bind(struct ibv_cq *vcq, struct ibv_cq *real);
/*
 * After a drain, in place of binding: the queue keeps its real one. Asks that for the application's notification again if the
 * checkpoint has used the request up. Returns 0 or an errno value. [gate closed]
 */
int sv_cq_go_on(struct ibv_cq *vcq);
/* Notes the size after ibv_resize_cq. */
void sv_cq_resized(struct ibv_cq *vcq, int cqe);
void sv_cq_free(struct ibv_cq *vcq);

struct ibv_ah *sv_ah_alloc(struct ibv_pd *vpd);
/*
 * The real handles that stand behind it. The map says which for single QP numbers. For all others it is the first, or, with
 * `makers`, the one of that index that the uppermost 8 of the 24 bits of the real number say. count 0: none. Returns 0 or ENOMEM.
 */
int sv_ah_bind(struct ibv_ah *vah, struct ibv_ah *const *reals, uint32_t count, const struct sv_idmap *map,
	       const uint16_t *makers);
void sv_ah_free(struct ibv_ah *vah);

/* XRC domains. The descriptor (-1: none) says whether two of a context are one: the domain's number is then the same. */
struct ibv_xrcd *sv_xrcd_alloc(struct ibv_context *vcontext, int fd);
uint32_t sv_xrcd_domain(struct ibv_xrcd *vxrcd);
void sv_xrcd_bind(struct ibv_xrcd *vxrcd, struct ibv_xrcd *real);
void sv_xrcd_free(struct ibv_xrcd *vxrcd);

struct sv_srq_spec {
	void *srq_context;			/* the application's */
	uint32_t max_wr;			/* what the application sees, as is max_sge */
	uint32_t max_sge;
	struct ibv_xrcd *xrcd;			/* virtual; NULL: not of XRC, as is cq */
	struct ibv_cq *cq;
	uint32_t vnumber;			/* of an SRQ of XRC */
	uint32_t room;				/* the most that ibv_modify_srq may make of max_wr; memory is used only then */
};
struct ibv_srq *sv_srq_alloc(struct ibv_pd *vpd);
int sv_srq_open(struct ibv_srq *vsrq, const struct sv_srq_spec *spec);
void sv_srq_bind(struct ibv_srq *vsrq, struct ibv_srq *real);
/* After a drain, in place of binding: the queue keeps its real one, with which no landing is under way. [gate closed] */
void sv_srq_go_on(struct ibv_srq *vsrq);
void sv_srq_free(struct ibv_srq *vsrq);

struct sv_qp_spec {
	struct ibv_cq *send_cq;			/* virtual; NULL of an XRC receive QP */
	struct ibv_cq *recv_cq;			/* virtual; NULL of XRC */
	struct ibv_xrcd *xrcd;			/* virtual; of an XRC receive QP */
	struct ibv_srq *srq;			/* virtual, or NULL */
	void *qp_context;			/* the application's */
	struct ibv_qp_cap cap;			/* what the application sees: the real max_send_wr less one (the marker's) */
	uint32_t qp_type;			/* enum ibv_qp_type */
	uint32_t sq_sig_all;
	uint32_t vqp_num;
	uint32_t extended;			/* 1: ibv_qp_to_qp_ex works on it */
	uint64_t send_ops_flags;		/* of an extended QP */
	/*
	 * Virtual; of ibv_open_qp: the receive QP that this is another handle of, or NULL. Each handle is bound to a real one
	 * of its own. ibv_destroy_qp of one is no end of the QP while there are others: its own handle is then not freed before
	 * the last is, for what is known of the QP is there.
	 */
	struct ibv_qp *opened;
	/*
	 * 1: an XRC receive QP of another process. Its messages to this one are counted by its number (sv_xrcd_foreign_qps),
	 * as before it was opened, and after.
	 */
	uint32_t foreign;
	uint32_t reserved;
};
/* vpd: NULL of an XRC receive QP */
struct ibv_qp *sv_qp_alloc(struct ibv_context *vcontext, struct ibv_pd *vpd);
int sv_qp_open(struct ibv_qp *vqp, const struct sv_qp_spec *spec);
int sv_qp_bind(struct ibv_qp *vqp, struct ibv_qp *real);
/* After a drain, in place of binding: the QP keeps its real one, with which nothing of the drain is under way. [gate closed] */
void sv_qp_go_on(struct ibv_qp *vqp);
/* Tells C the QP's new state after a successful modify. RESET empties logs, counters and its virtual completions. */
void sv_qp_state(struct ibv_qp *vqp, int state);
/* The peer as the application knows it (virtual), for work completions; called at the transition to RTR. */
void sv_qp_peer(struct ibv_qp *vqp, uint32_t dest_vqp_num, uint16_t dest_vlid);
/* Exceptions of the peer's rkeys, or NULL. [gate closed], or before the QP's RTR */
void sv_qp_set_rkeys(struct ibv_qp *vqp, const struct sv_keymap *map);
/* For an XRC send QP: exceptions of the peer's SRQ numbers, or NULL. [gate closed], or before the QP's RTR */
void sv_qp_set_srqs(struct ibv_qp *vqp, const struct sv_idmap *map);
/*
 * The XRC receive QP is about to be freed, but goes on to live in other processes that have it open: its completions stay, and
 * what it has brought is counted as that of another process'. During a destroy_qp.
 */
void sv_qp_leave(struct ibv_qp *vqp);
/* Also removes the QP's completions from its virtual completion queues. */
void sv_qp_free(struct ibv_qp *vqp);

/* The real object behind a virtual one, or NULL while detached; the pointer itself when it is not one of ours. */
void *sv_real(void *virtual_object);

/*
 * The function of that name of the installed libibverbs, or of who has been preloaded between that and this library; NULL:
 * it has none. dlsym gives the application's, whoever asks.
 */
void *sv_installed_function(const char *name);

/* ---- Verbs that exist only as inline functions or macros, on real objects ------------------------------------ */

int sv_real_query_port(struct ibv_context *real, uint8_t port, struct ibv_port_attr *attr);
int sv_real_query_device_ex(struct ibv_context *real, struct ibv_device_attr_ex *attr);
/* ibv_reg_mr or ibv_reg_mr_iova2, whichever the macro in verbs.h would take. */
struct ibv_mr *sv_real_reg_mr(struct ibv_pd *real, void *addr, uint64_t length, uint64_t iova, uint32_t access);
struct ibv_mr *sv_real_alloc_null_mr(struct ibv_pd *real);
struct ibv_dm *sv_real_alloc_dm(struct ibv_context *real, struct ibv_alloc_dm_attr *attr);
int sv_real_free_dm(struct ibv_dm *real);
struct ibv_mr *sv_real_reg_dm_mr(struct ibv_pd *real, struct ibv_dm *dm, uint64_t offset, uint64_t length,
				 uint32_t access);
struct ibv_mw *sv_real_alloc_mw(struct ibv_pd *real, uint32_t type);
int sv_real_dealloc_mw(struct ibv_mw *real);
struct ibv_cq_ex *sv_real_create_cq_ex(struct ibv_context *real, struct ibv_cq_init_attr_ex *attr);
int sv_real_modify_cq(struct ibv_cq *real, struct ibv_modify_cq_attr *attr);
struct ibv_xrcd *sv_real_open_xrcd(struct ibv_context *real, struct ibv_xrcd_init_attr *attr);
int sv_real_close_xrcd(struct ibv_xrcd *real);
struct ibv_srq *sv_real_create_srq_ex(struct ibv_context *real, struct ibv_srq_init_attr_ex *attr);
int sv_real_get_srq_num(struct ibv_srq *real, uint32_t *number);
struct ibv_qp *sv_real_create_qp_ex(struct ibv_context *real, struct ibv_qp_init_attr_ex *attr);
int sv_real_modify_qp_rate_limit(struct ibv_qp *real, struct ibv_qp_rate_limit_attr *attr);
struct ibv_qp *sv_real_open_qp(struct ibv_context *real, struct ibv_qp_open_attr *attr);

/* ---- Drain [gate closed] ------------------------------------------------------------------------------------ */

/*
 * Where one reliable connection stands, as its own end knows it. Counts run from the QP's last RESET and go on over any
 * number of checkpoints, so the two ends' counts belong together.
 */
struct sv_bookmark {
	uint64_t posted;		/* send requests posted */
	uint64_t retired;		/* of these, known to have taken effect: always a prefix */
	uint64_t consumers;		/* posted send requests that consume a receive at the peer (SEND*, WRITE_WITH_IMM) */
	uint64_t received;		/* receives consumed here by the peer's messages, landed ones included */
	uint64_t receives;		/* own receives posted and not yet consumed; 0 with an SRQ */
	uint64_t last_signaled;		/* position after the last posted request that will complete by itself; 0: none */
	int32_t send_error;		/* enum ibv_wc_status of the first kept error completion of the send queue, or 0 */
	int32_t recv_error;		/* likewise of the receive queue */
	uint64_t send_error_at;		/* its position in the send queue */
	uint32_t marker;		/* 0: none posted, 1: posted, 2: completed, 3: completed in error */
	uint32_t landings;		/* landing receives posted and not yet consumed; 0 with an SRQ */
	uint32_t shared;		/* 1: receives come from an SRQ, see struct sv_srq_mark */
	uint32_t last_receive;		/* of a QP with an SRQ, in error: all its receive completions have been seen */
	uint64_t flushed;		/* of the receives, those whose error completion is kept and not settled */
	uint32_t sq_drained;		/* in SQD: IBV_EVENT_SQ_DRAINED has come from the device */
	uint32_t reserved;
};
void sv_qp_bookmark(struct ibv_qp *vqp, struct sv_bookmark *bookmark);
/*
 * A number that changes whenever the application posts a request or sees a completion of one; of what its queues count anyway. The gate
 * may be open: it is of some moment.
 */
uint64_t sv_qp_work(struct ibv_qp *vqp);

/* Where a shared receive queue stands. */
struct sv_srq_mark {
	uint64_t receives;		/* posted and not yet consumed */
	uint32_t landings;		/* likewise of ours */
	uint32_t reserved;
};
void sv_srq_bookmark(struct ibv_srq *vsrq, struct sv_srq_mark *bookmark);

/*
 * Moves all completions of the real CQ into the virtual one, and retires the log entries they prove. Returns the number
 * moved (markers and landings included), or a negative errno value.
 */
int sv_cq_drain(struct ibv_cq *vcq);

/* One request in the send log. Positions count from 0 at the last RESET. */
struct sv_sent {
	uint64_t position;
	uint64_t length;		/* bytes of payload */
	uint64_t ordinal;		/* among the posted consumers, from 1; 0: not a consumer */
	uint32_t opcode;		/* enum ibv_wr_opcode */
	uint32_t signaled;
	uint32_t srq;			/* of XRC: the number of the SRQ that it is for */
};
/* EINVAL: position is not in [retired, posted). */
int sv_qp_sent(struct ibv_qp *vqp, uint64_t position, struct sv_sent *sent);

/*
 * The numbers of SRQs that requests of an XRC send QP have named since its last RESET, at most SV_MAX_TARGETS, in no
 * order. Returns how many, or -1: more, and which is not known any more.
 */
#define SV_MAX_TARGETS 192
int sv_qp_targets(struct ibv_qp *vqp, uint32_t *numbers);

/* What an XRC receive QP of another process has brought to SRQs of this one. */
struct sv_foreign_qp {
	uint64_t received;		/* messages, since the domain was opened */
	uint32_t qp_num;		/* virtual */
	uint32_t reserved;
};
#define SV_MAX_FOREIGN_QPS 3072
/*
 * Messages for QPs of other processes, by QP, in all SRQs that a domain of that number (sv_xrcd_domain) has had here. Returns
 * how many QPs, with room for SV_MAX_FOREIGN_QPS, or -1: in all domains there were more, and their counts are not known.
 */
int sv_xrcd_foreign_qps(uint32_t domain, struct sv_foreign_qp *foreign_qps);

/* Forgets what a QP has brought, if anything. While the gate is closed. */
void sv_xrcd_forget(uint32_t domain, uint64_t qp_num);

/*
 * Retires all send requests before position, proven to have taken effect by other means than their own completion (a
 * counted receive at the peer). Signaled ones among them get a successful completion in the virtual CQ.
 */
int sv_qp_retire(struct ibv_qp *vqp, uint64_t position);

/* Posts the signaled zero-length RDMA WRITE that completes after all before it. EBUSY: one is outstanding. */
int sv_qp_post_marker(struct ibv_qp *vqp);

/*
 * Posts a receive of ours of up to length bytes at a QP whose own receives are used up. The message that consumes it
 * is kept, counted as received, and given to the application's next receive request.
 */
int sv_qp_post_landing(struct ibv_qp *vqp, uint64_t length);
/* Likewise at an SRQ: any of its QPs may get the message. */
int sv_srq_post_landing(struct ibv_srq *vsrq, uint64_t length);

/*
 * What becomes of kept error completions. Withdraw: they were caused by the checkpoint and their requests took no
 * effect: completions vanish, requests stay in the log from the first one on (all before it are retired). Deliver: they
 * are the application's own and stay in the virtual CQ; the requests are retired.
 */
int sv_qp_errors_withdraw(struct ibv_qp *vqp);
int sv_qp_errors_deliver(struct ibv_qp *vqp);

/* Takes and acknowledges all real events of a channel or context, keeping them for the application. */
int sv_channel_drain(struct ibv_comp_channel *vchannel);
int sv_context_drain(struct ibv_context *vcontext);

/* ---- Replay [gate closed] ----------------------------------------------------------------------------------- */

/* Posts the receives (sends) in the log to the real QP, in order. On error *position tells how far it came. */
int sv_qp_replay_receives(struct ibv_qp *vqp, uint64_t *position);
int sv_srq_replay(struct ibv_srq *vsrq, uint64_t *position);
int sv_qp_replay_sends(struct ibv_qp *vqp, uint64_t *position);
/*
 * For a QP whose peer is gone: every request in the send log completes in error (the first with RETRY_EXC_ERR, the rest
 * flushed), every receive is flushed.
 */
int sv_qp_fail(struct ibv_qp *vqp);

/* ---- Memory --------------------------------------------------------------------------------------------------- */

/* Gives back to the kernel what has been freed: an image would hold it. The compiler of the virtual machine alone leaves 30 MB. */
void sv_memory_trim(void);

/* ---- Timers [gate closed] ------------------------------------------------------------------------------------ */

/* setitimer(2)'s real-time timer and those of timer_create(2) but for CPU time: as long as they had left, they run on. */
void sv_timers_stop(void);
void sv_timers_start(void);

/* ---- The connection manager [gate closed] -------------------------------------------------------------------- */

/*
 * The files behind librdmacm's event channels are held by somebody else while the process's image is made. sv_cm_send
 * returns a socket in which they are: whoever holds that holds them. -ENOENT: there are none, and nothing else is to be
 * done; another negative errno value: they cannot be sent. sv_cm_detach closes the socket and puts stand-ins in their places.
 */
int sv_cm_send(void);
int sv_cm_detach(int socket);
/*
 * Returns a socket into which the holder is to send that one (SCM_RIGHTS), or a negative errno value. sv_cm_reattach closes
 * it and puts the files back. With -1, and when it fails, their ids are lost for good.
 */
int sv_cm_receiver(void);
int sv_cm_reattach(int socket);
/* How many of them somebody listened on, connected or joined multicast groups by: a program that only looked misses nothing. */
int sv_cm_lost_in_use(void);

/*
 * Connections of ids that were lost so, and that nobody has ended: the QPs that they were made with, virtual. They are tokens,
 * for a QP may have been destroyed. Returns how many there are; as many as fit are filled in. Threads: any.
 */
uint32_t sv_cm_lost(uint64_t *tokens, uint32_t room);
/* The connection has ended: the program gets RDMA_CM_EVENT_DISCONNECTED with that status, once. Threads: any. */
void sv_cm_ended(uint64_t token, int status);

/* ---- Descriptors -------------------------------------------------------------------------------------------- */

/* Blocks in read(2) on the verdict pipe until a line or end of file; returns its length, 0 at EOF, or -errno. */
int sv_read_line(int fd, char *line, int size);

#endif
