/* What the programs of XRC have in common: a domain by its file, queues and handles in it, and what goes through them. */
#ifndef PAIR_XRC_DOMAIN_H
#define PAIR_XRC_DOMAIN_H

#include "pair.h"

#define XRC_SIZE 1000			/* of each message */
#define XRC_MESSAGES 128		/* offset in an area: places for messages, XRC_SIZE each */
#define XRC_CROSSED (XRC_MESSAGES + 3 * XRC_SIZE)	/* what a sender has sent to itself */
#define XRC_AREA (XRC_MESSAGES + 4 * XRC_SIZE)
#define XRC_ROUNDS 50
#define XRC_ID_CROSSING 5		/* of requests and receives, of this file */

/* The domain of a file which both processes know. */
struct ibv_xrcd *xrc_open_shared_domain(struct pair *pair);
struct ibv_srq *xrc_create_srq(struct pair *pair, struct ibv_xrcd *xrcd, struct ibv_cq *cq, uint32_t *number);
void xrc_post_receive(struct ibv_srq *srq, uint64_t wr_id, struct area *area, void *local);
/* Any request of one element; it names `srq`. */
void xrc_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct area *area, void *local, uint32_t length, uint32_t srq);
void xrc_post_send(struct ibv_qp *qp, uint64_t wr_id, int flags, struct area *area, void *local, uint32_t srq);
/* The next message in an SRQ: which of `sender` has come for `qp_num`. */
void xrc_expect_message(struct ibv_cq *cq, uint64_t wr_id, uint32_t qp_num, uint32_t sender, const void *local, uint64_t seed);

/* What a sender has in the receiver's domain. */
struct xrc_side {
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	uint32_t number;
};

void xrc_side_open(struct pair *pair, struct xrc_side *side, struct area *area);
void xrc_side_close(struct xrc_side *side);
/* A message of the queue pair `sender` that has come to its own process, for `through`; the queue gets another receive. */
void xrc_take_crossed(struct area *area, struct xrc_side *side, uint32_t sender, uint32_t through, uint64_t seed);
/* A SEND and a WRITE by way of the receiver's queue pair `through` to the sender's own queue, and memory. */
void xrc_cross(struct ibv_qp *qp, struct area *area, struct xrc_side *side, uint32_t through, uint64_t seed);
/* A request that the peer cannot take, so that its queue pair has an event to report. */
void xrc_send_to_nobody(struct ibv_qp *qp, struct area *area);

/* Another handle of a receive queue pair; the place of the handle is its context. */
void xrc_open_again(struct pair *pair, struct ibv_qp **handle, struct ibv_xrcd *xrcd, uint32_t qp_num);
/* It is ready, and of that peer. */
void xrc_check_handle(struct ibv_qp **handle, uint32_t sender);
/* Of two handles the second is free, before and after; another handle is there before the last one is gone. */
void xrc_reopen(struct pair *pair, struct ibv_qp **handles, struct ibv_xrcd *xrcd, uint32_t qp_num);
/* A setting that all processes which have a queue pair open may change. */
int xrc_rnr_timer(struct ibv_qp *qp);
void xrc_set_rnr_timer(struct ibv_qp *qp, int value);
void xrc_await_request_error(struct pair *pair, const struct ibv_qp *handle);

#endif
