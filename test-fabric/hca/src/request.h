/* One send work request in execution: what its two halves, requester.c and responder.c, share. */
#ifndef HCA_REQUEST_H
#define HCA_REQUEST_H

#include <sys/uio.h>

#include "hca.h"

/* What came back for a request, besides the statuses of enum ibv_wc_status. */
enum response {
	RESPONSE_NONE = -1,	/* the peer is absent or drops the request */
	RESPONSE_RNR = -2,
	RESPONSE_SLOW = -3,	/* slow_peer_us */
};

#define NO_QP UINT32_MAX	/* the index of none */

struct request {
	struct hca_context *ctx;
	struct hca_qp *qp;
	struct hca_send_wqe *wqe;
	struct iovec local[HCA_MAX_SGE + 1];	/* one more for the header of a datagram */
	int nlocal;
	uint64_t length;
	bool reliable;			/* the responder answers; without, what it cannot take is dropped */
	struct seg *seg;		/* the responder's */
	struct seg_qp *remote;
	uint32_t remote_index;
	uint32_t remote_gen;
	/* Where its receives come from: the QP's own queue or, locked from receive_acquire on, an SRQ. */
	struct seg_rq *rq;
	struct seg_srq *srq;
	struct seg *home;		/* where these, their CQ and the regions are: @seg, or that of an XRC SRQ */
	uint32_t pd;			/* whose regions the responder may use */
};

static inline bool needs_receive(uint32_t opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_SEND_WITH_INV ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static inline bool is_atomic(uint32_t opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* responder.c: what the device of the peer does with a request; a status or a response. The responder is locked. */
int responder_execute(struct request *req);

/* datagram.c: a send of a UD QP; a status. What it holds back for a later one to overtake goes out with datagram_flush. */
int datagram_execute(struct request *req);
void datagram_flush(struct request *req);

#endif
