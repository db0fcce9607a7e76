#include "xrc_domain.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define NO_SRQ 1			/* the number of none */

void xrc_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct area *area, void *local, uint32_t length, uint32_t srq)
{
	struct ibv_sge sge = { (uintptr_t)local, length, area->mr->lkey };
	struct ibv_send_wr *bad;
	int err;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->qp_type.xrc.remote_srqn = srq;
	err = ibv_post_send(qp, wr, &bad);
	if (err)
		die(err, "ibv_post_send of request %lu", wr->wr_id);
}

void xrc_post_send(struct ibv_qp *qp, uint64_t wr_id, int flags, struct area *area, void *local, uint32_t srq)
{
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = IBV_WR_SEND, .send_flags = flags };

	xrc_post(qp, &wr, area, local, XRC_SIZE, srq);
}

struct ibv_srq *xrc_create_srq(struct pair *pair, struct ibv_xrcd *xrcd, struct ibv_cq *cq, uint32_t *number)
{
	struct ibv_srq *srq = endpoint_create_xrc_srq(&pair->endpoint, xrcd, cq, 4, 1);

	if (ibv_get_srq_num(srq, number))
		die(errno, "ibv_get_srq_num");
	return srq;
}

void xrc_post_receive(struct ibv_srq *srq, uint64_t wr_id, struct area *area, void *local)
{
	struct ibv_sge sge = { (uintptr_t)local, XRC_SIZE, area->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;
	int err = ibv_post_srq_recv(srq, &wr, &bad);

	if (err)
		die(err, "ibv_post_srq_recv");
}

void xrc_expect_message(struct ibv_cq *cq, uint64_t wr_id, uint32_t qp_num, uint32_t sender, const void *local, uint64_t seed)
{
	struct ibv_wc wc;

	await_completion(cq, wr_id, &wc, "a message");
	if (wc.byte_len != XRC_SIZE || wc.qp_num != qp_num || wc.src_qp != sender)
		die(0, "message %lu: %u bytes of %#x for %#x instead of %d of %#x for %#x", wr_id, wc.byte_len, wc.src_qp,
		    wc.qp_num, XRC_SIZE, sender, qp_num);
	if (!pattern_matches(local, XRC_SIZE, seed, 0))
		die(0, "message %lu is damaged", wr_id);
}

struct ibv_xrcd *xrc_open_shared_domain(struct pair *pair)
{
	struct ibv_xrcd *xrcd;
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s%s", pair->domain ? pair->domain : pair->dir.path, pair->domain ? "" : "/domain");
	fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0)
		die(errno, "%s", path);
	xrcd = endpoint_open_xrcd(&pair->endpoint, fd);
	close(fd);
	return xrcd;
}

void xrc_side_open(struct pair *pair, struct xrc_side *side, struct area *area)
{
	side->xrcd = xrc_open_shared_domain(pair);
	side->cq = endpoint_create_cq(&pair->endpoint, 16, NULL);
	side->srq = xrc_create_srq(pair, side->xrcd, side->cq, &side->number);
	xrc_post_receive(side->srq, XRC_ID_CROSSING, area, area->memory + XRC_CROSSED);
}

void xrc_side_close(struct xrc_side *side)
{
	expect_no_completion(side->cq, "of what nobody has sent");
	srq_destroy(side->srq);
	cq_destroy(side->cq);
	xrcd_close(side->xrcd);
}

void xrc_take_crossed(struct area *area, struct xrc_side *side, uint32_t sender, uint32_t through, uint64_t seed)
{
	unsigned char *to = area->memory + XRC_CROSSED;

	xrc_expect_message(side->cq, XRC_ID_CROSSING, through, sender, to, seed);
	xrc_post_receive(side->srq, XRC_ID_CROSSING, area, to);
}

void xrc_cross(struct ibv_qp *qp, struct area *area, struct xrc_side *side, uint32_t through, uint64_t seed)
{
	unsigned char *from = area->memory + XRC_MESSAGES + 2 * XRC_SIZE, *to = area->memory + XRC_CROSSED;
	struct ibv_send_wr write = {
		.wr_id = XRC_ID_CROSSING, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)to, .rkey = area->mr->rkey },
	};
	struct ibv_wc wc;

	pattern_fill(from, XRC_SIZE, seed, 0);
	xrc_post_send(qp, XRC_ID_CROSSING, IBV_SEND_SIGNALED, area, from, side->number);
	xrc_take_crossed(area, side, qp->qp_num, through, seed);
	await_completion(qp->send_cq, XRC_ID_CROSSING, &wc, "a SEND to the own queue");
	pattern_fill(from, XRC_SIZE, seed + XRC_ROUNDS, 0);
	xrc_post(qp, &write, area, from, XRC_SIZE, side->number);
	await_completion(qp->send_cq, XRC_ID_CROSSING, &wc, "a WRITE to the own memory");
	if (!pattern_matches(to, XRC_SIZE, seed + XRC_ROUNDS, 0))
		die(0, "what was written to the own memory is damaged");
}

void xrc_send_to_nobody(struct ibv_qp *qp, struct area *area)
{
	struct work_clock clock;
	struct ibv_wc wc;

	xrc_post_send(qp, 1, IBV_SEND_SIGNALED, area, area->memory, NO_SRQ);
	work_clock_start(&clock);
	while (ibv_poll_cq(qp->send_cq, 1, &wc) != 1)
		if (work_clock_read(&clock) > PAIR_DEADLINE_S * NS_PER_S)
			die(0, "a SEND to no queue has not completed within %d s", PAIR_DEADLINE_S);
	if (wc.wr_id != 1 || wc.status != IBV_WC_REM_INV_REQ_ERR)
		die(0, "a SEND to no queue: request %lu, %s", wc.wr_id, ibv_wc_status_str(wc.status));
}

void xrc_open_again(struct pair *pair, struct ibv_qp **handle, struct ibv_xrcd *xrcd, uint32_t qp_num)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
			     IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = qp_num, .xrcd = xrcd, .qp_context = handle, .qp_type = IBV_QPT_XRC_RECV,
	};

	*handle = ibv_open_qp(pair->endpoint.context, &attr);
	if (!*handle)
		die(errno, "ibv_open_qp of 0x%x", qp_num);
	if ((*handle)->qp_num != qp_num || (*handle)->qp_context != handle)
		die(0, "ibv_open_qp of 0x%x gave 0x%x, or not the context asked for", qp_num, (*handle)->qp_num);
}

void xrc_check_handle(struct ibv_qp **handle, uint32_t sender)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	int err = ibv_query_qp(*handle, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN, &init);

	if (err)
		die(err, "ibv_query_qp of another handle");
	if (attr.qp_state != IBV_QPS_RTS || attr.dest_qp_num != sender || init.qp_context != handle)
		die(0, "another handle is in state %d and of peer 0x%x, or does not have its own context", attr.qp_state,
		    attr.dest_qp_num);
}

int xrc_rnr_timer(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	int err = ibv_query_qp(qp, &attr, IBV_QP_MIN_RNR_TIMER, &init);

	if (err)
		die(err, "ibv_query_qp of a shared queue pair");
	return attr.min_rnr_timer;
}

void xrc_set_rnr_timer(struct ibv_qp *qp, int value)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .min_rnr_timer = value };
	int err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER);

	if (err)
		die(err, "ibv_modify_qp of a shared queue pair");
}

void xrc_reopen(struct pair *pair, struct ibv_qp **handles, struct ibv_xrcd *xrcd, uint32_t qp_num)
{
	xrc_open_again(pair, &handles[1], xrcd, qp_num);
	qp_destroy(handles[0]);
	xrc_open_again(pair, &handles[0], xrcd, qp_num);
	qp_destroy(handles[1]);
}

void xrc_await_request_error(struct pair *pair, const struct ibv_qp *handle)
{
	struct pollfd readable = { .fd = pair->endpoint.context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	do {
		if (poll(&readable, 1, PAIR_DEADLINE_S * 1000) != 1)
			die(0, "a handle had no event within %d s", PAIR_DEADLINE_S);
		if (ibv_get_async_event(pair->endpoint.context, &event))
			die(errno, "ibv_get_async_event");
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_QP_REQ_ERR || event.element.qp != handle);
}

