/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libibverbs.so.1 for the tests whose devices do nothing by themselves: the test looks at what was posted and makes
 * the completions. It aborts when it is given a struct that it did not make.
 */
#ifndef MOCK_H
#define MOCK_H

#include <stdbool.h>
#include <infiniband/verbs.h>

#define MOCK_RING 256
#define MOCK_SGES 16

struct mock_request {
	union {
		struct ibv_send_wr send;
		struct ibv_recv_wr recv;
	};
	struct ibv_sge sges[MOCK_SGES];
	char payload[256];		/* of an inline request, as it was at the post */
	unsigned payload_length;
};

struct mock_queue {
	struct mock_request requests[MOCK_RING];
	unsigned posted;		/* in all */
	unsigned completed;
};

struct mock_cq {
	unsigned magic;
	union {
		struct ibv_cq v;
		struct ibv_cq_ex ex;
	};
	bool extended;
	bool polled;			/* between ibv_start_poll and ibv_end_poll */
	struct ibv_wc current;
	uint64_t timestamp;		/* of the current completion: that of the first is 1000, of each next one more */
	uint16_t moderation[2];
	struct ibv_wc ring[MOCK_RING];
	unsigned head, tail;
	int armed;			/* 1 solicited only, 2 any */
	unsigned arms;
	unsigned late;			/* events that mock_events_late holds back */
};

struct mock_dm {
	unsigned magic;
	struct ibv_dm v;
	size_t length;
	char bytes[256];
};

/* The lkeys of the last advice. */
extern uint32_t mock_advised[4];
extern unsigned mock_advices;

struct mock_qp {
	unsigned magic;
	struct ibv_qp v;
	struct mock_queue send, recv;
	bool signal_all;
	bool flushes;			/* what is unfinished completes in ERR, as on a device; here it is the test's business else */
	unsigned users;			/* threads that post sends: the library must let in one only */
	struct ibv_qp_attr attr;
	struct ibv_qp_rate_limit_attr limit;
};

struct mock_srq {
	unsigned magic;
	struct ibv_srq v;
	struct mock_queue recv;
	uint32_t limit;
	unsigned users;			/* QPs */
	unsigned inside;		/* threads that post: the library must let in one only */
	unsigned posts;
	struct ibv_cq *cq;		/* of XRC */
	uint32_t number;
};

/* The real objects behind virtual ones, by what sv_real says. */
struct mock_qp *mock_qp(struct ibv_qp *vqp);
struct mock_cq *mock_cq(struct ibv_cq *vcq);
/* Completions are there before their events, which come with mock_late_events or, when the queue ends before, never. */
extern bool mock_events_late;
void mock_late_events(struct mock_cq *cq);
struct mock_srq *mock_srq(struct ibv_srq *vsrq);

/* The next `count` posted requests complete in order: those that are signaled, or all of them when in error. */
void mock_complete_sends(struct mock_qp *qp, unsigned count, enum ibv_wc_status status);
void mock_complete_recvs(struct mock_qp *qp, unsigned count, enum ibv_wc_status status, uint32_t byte_len);
/* The receive of an SRQ that was posted as the so manyth (from 0) completes with a message of that QP. */
void mock_complete_shared(struct mock_srq *srq, unsigned number, struct mock_qp *qp, enum ibv_wc_status status,
			  uint32_t byte_len);
/* The oldest receive of an SRQ whose receives complete in order; threads may do so at once. */
void mock_complete_shared_oldest(struct mock_srq *srq, struct mock_qp *qp);
/* The last request posted to the receive queue takes a message of these bytes. */
void mock_receive(struct mock_qp *qp, const void *bytes, uint32_t length);
/* Completions taken from the real queue in all. */
unsigned mock_polled(struct mock_cq *cq);
void mock_push(struct mock_cq *cq, const struct ibv_wc *wc);
void mock_async_event(struct ibv_context *vcontext, enum ibv_event_type type, void *real_element);

/* The post after so many more good requests fails with ENOSPC (not an error that our own checks give); -1: never. */
extern int mock_fail_after;
/* Set: every request completes when it is posted. */
extern bool mock_completes_at_once;
/* Set: a thread that posts sends stays in the device until it is cleared. */
extern unsigned mock_hold;
/* Posting to an SRQ lets other threads run. */
extern bool mock_yields;
/* Set: the device must not be used, for the gate is closed. */
extern unsigned mock_forbidden;
/* Of the next QP; those after it count up. */
extern uint32_t mock_next_qp_num;
/* Objects not yet destroyed. */
extern int mock_objects;

#endif
