/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory windows: what is behind a window's rkey, as far as it has been executed, and the changes that are in send
 * queues. A window owns the 256 rkeys that differ in the lowest byte, which the application chooses; they translate as a
 * block.
 */
#ifndef SV_WINDOW_H
#define SV_WINDOW_H

#include "objects/objects.h"

struct sv_binding {
	struct sv_qp *qp;		/* through which it was bound; a type 2 window is good there only */
	struct sv_mr *mr;
	uint64_t addr;
	uint64_t length;
	uint32_t access;
	uint32_t rkey;			/* virtual */
	uint32_t bound;
};

/* A bind or an invalidation in the send queue of to.qp. */
struct sv_window_change {
	struct sv_binding to;
	uint64_t position;
};

/* So many of one window's; who posts one more has a queue that is full. */
#define SV_WINDOW_CHANGES 64

struct sv_mw {
	struct ibv_mw *real;
	struct ibv_mw v;
	char zeros[SV_ZEROS - sizeof(struct ibv_mw) - sizeof(void *)];
	struct sv_binding binding;
	struct sv_window_change *changes;	/* SV_WINDOW_CHANGES, not known to have been executed, oldest first */
	uint32_t count;
	uint32_t block;				/* the virtual rkeys, less their lowest byte */
	uint32_t real_block;
	uint32_t tag_offset;			/* from the lowest byte of a virtual rkey, unmasked, to that of the real one */
	struct sv_mw *next_virtual, *next_real;	/* in the hash tables */
};

#define sv_mw_of(p) sv_container_of(p, struct sv_mw, v)

/* build.h and post: a BIND_MW or LOCAL_INV to the log; EOPNOTSUPP or EINVAL for what is neither. */
struct sv_request_fields;
int sv_log_window(struct sv_qp *qp, const struct ibv_send_wr *wr, struct sv_request_fields *fields);
void sv_unlog_window(struct sv_qp *qp, uint64_t position);
void sv_build_window(const struct sv_qp *qp, const struct sv_request_fields *fields, struct ibv_send_wr *real);
/* Whether the logged request is ibv_bind_mw's, and posts such a one anew. */
bool sv_is_bind_verb(const struct sv_qp *qp, const struct sv_request_fields *fields);
int sv_replay_bind_verb(struct sv_qp *qp, const struct sv_request_fields *fields);

/* A completion in error: the request at this position, if it was a change, was none. */
void sv_window_failed(struct sv_qp *qp, uint64_t position);
/* A peer has invalidated this real rkey. Returns the virtual one. */
uint32_t sv_window_invalidated(struct ibv_context *vcontext, uint32_t real_rkey);

/* In a receive's good completion. */
static inline void sv_translate_invalidation(const struct sv_qp *qp, struct ibv_wc *wc)
{
	if (unlikely(wc->wc_flags & IBV_WC_WITH_INV))
		wc->invalidated_rkey = sv_window_invalidated(qp->v.context, wc->invalidated_rkey);
}

/* The queue is being emptied (gone), or fails from what is not retired on. */
void sv_windows_forget_queue(struct sv_qp *qp, bool gone);
void sv_windows_forget_mr(struct sv_mr *mr);

/* mw.c */
struct ibv_mw *sv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int sv_dealloc_mw(struct ibv_mw *mw);
int sv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

/* window.c, for mw.c */
void sv_window_enter(struct sv_mw *mw);
void sv_window_leave(struct sv_mw *mw);
/* Commits what has been executed. */
void sv_window_settle(struct sv_mw *mw);
uint32_t sv_window_virtual(const struct sv_mw *mw, uint32_t real_rkey);
uint32_t sv_window_real(const struct sv_mw *mw, uint32_t rkey);
void sv_window_request(const struct sv_mw *mw, const struct sv_binding *binding, struct ibv_send_wr *real);

#endif
