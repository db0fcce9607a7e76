/*
 * xrc-survivor: of two processes with one XRC domain one makes a receive queue pair and connects it; the other has it open
 * (ibv_open_qp), and sends through it to its own queue and memory. The maker ends before READY, and the queue pair stays,
 * which the survivor alone has then: a WRITE has taken effect, a message has arrived, both unsignaled, and the next one waits
 * for a receive.
 *
 * destroyed: the maker has destroyed what it has made, and ends. ended: it ends as it is. killed: it is killed. named: it ends,
 * and the survivor has sent to its queue before, too. replaced: likewise, but the maker is killed; the survivor has then destroyed
 * its queue pair, and its handle of the maker's, and made both anew.
 *
 * To be started as two jobs of one rank each where the end of the maker is not to end the survivor.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "xrc_domain.h"

#define ID_TOLD 1
#define RNR_TIMER 7

const char *const program_name = "xrc-survivor";
const char *const program_modes[] = { "destroyed", "ended", "killed", "named", "replaced", NULL };

/* What the two tell each other. */
struct card {
	struct qp_address qp;
	uint32_t srq;
	int32_t pid;
};

static bool is_mode(const struct pair *pair, const char *mode)
{
	return !strcmp(pair->mode, mode);
}

static bool replaced(const struct pair *pair)
{
	return is_mode(pair, "replaced");
}

static bool named(const struct pair *pair)
{
	return is_mode(pair, "named") || replaced(pair);
}

static struct ibv_qp *create_sender(struct pair *pair, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .cap = { .max_send_wr = 8, .max_send_sge = 1 }, .qp_type = IBV_QPT_XRC_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp(pair->endpoint.pd, &init);

	if (!qp)
		die(errno, "ibv_create_qp of XRC");
	return qp;
}

static struct ibv_qp *create_receiver(struct pair *pair, struct ibv_xrcd *xrcd, void *context)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_context = context, .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(pair->endpoint.context, &init);

	if (!qp)
		die(errno, "ibv_create_qp_ex of XRC");
	return qp;
}

static void make(struct pair *pair, struct area *area)
{
	struct ibv_cq *cq = endpoint_create_cq(&pair->endpoint, 4, NULL);
	struct ibv_xrcd *xrcd = xrc_open_shared_domain(pair);
	struct card mine = { .pid = getpid() }, theirs;
	struct ibv_srq *srq = xrc_create_srq(pair, xrcd, cq, &mine.srq);
	struct ibv_qp *qp = create_receiver(pair, xrcd, NULL);

	xrc_post_receive(srq, ID_TOLD, area, area->memory);
	qp_initialize(&pair->endpoint, qp, ACCESS_ALL, &mine.qp);
	pair_exchange(pair, "cards", &mine, &theirs, sizeof(mine));
	qp_connect(&pair->endpoint, qp, &mine.qp, &theirs.qp, &qp_patient);
	pair_sync(pair, "the connection");
	if (named(pair))
		xrc_expect_message(cq, ID_TOLD, mine.qp.qp_num, theirs.qp.qp_num, area->memory, 1);
	pair_sync(pair, "all that the maker has to do");
	if (is_mode(pair, "killed") || replaced(pair))
		raise(SIGKILL);
	if (is_mode(pair, "destroyed")) {
		qp_destroy(qp);
		srq_destroy(srq);
		cq_destroy(cq);
		xrcd_close(xrcd);
	}
	exit(0);
}

/* Both ends are the survivor's own now. */
static void connect_anew(struct pair *pair, struct ibv_qp **qp, struct ibv_qp **handle, struct xrc_side *side)
{
	struct qp_address sends, receives;
	struct ibv_cq *cq = (*qp)->send_cq;

	qp_destroy(*qp);
	qp_destroy(*handle);
	*qp = create_sender(pair, cq);
	*handle = create_receiver(pair, side->xrcd, handle);
	qp_initialize(&pair->endpoint, *qp, ACCESS_NOTHING_REMOTE, &sends);
	qp_initialize(&pair->endpoint, *handle, ACCESS_ALL, &receives);
	qp_connect(&pair->endpoint, *qp, &sends, &receives, &qp_patient);
	qp_connect(&pair->endpoint, *handle, &receives, &sends, &qp_patient);
}

static void survive(struct pair *pair, struct area *area)
{
	unsigned char *first = area->memory + XRC_MESSAGES, *second = first + XRC_SIZE;
	uint64_t *value = (uint64_t *)area->memory, *written = value + 1;
	struct ibv_cq *cq = endpoint_create_cq(&pair->endpoint, 16, NULL);
	struct ibv_qp *qp = create_sender(pair, cq), *handles[2];
	struct card mine = { 0 }, theirs;
	struct xrc_side side;
	struct ibv_wc wc;
	uint32_t through;

	xrc_side_open(pair, &side, area);
	qp_initialize(&pair->endpoint, qp, ACCESS_NOTHING_REMOTE, &mine.qp);
	pair_exchange(pair, "cards", &mine, &theirs, sizeof(mine));
	through = theirs.qp.qp_num;
	qp_connect(&pair->endpoint, qp, &mine.qp, &theirs.qp, &qp_patient);
	xrc_open_again(pair, &handles[0], side.xrcd, through);
	pair_sync(pair, "the connection");
	if (named(pair)) {
		pattern_fill(first, XRC_SIZE, 1, 0);
		xrc_post_send(qp, ID_TOLD, IBV_SEND_SIGNALED, area, first, theirs.srq);
		await_completion(cq, ID_TOLD, &wc, "a SEND to the maker's queue");
	}
	xrc_cross(qp, area, &side, through, 1000);
	pair_sync(pair, "all that the maker has to do");
	pair_await_end(pair, theirs.pid);
	if (replaced(pair)) {
		connect_anew(pair, &qp, &handles[0], &side);
		through = handles[0]->qp_num;
	}
	xrc_cross(qp, area, &side, through, 2000);
	*value = 7;
	*written = 0;
	pattern_fill(first, XRC_SIZE, 2, 0);
	pattern_fill(second, XRC_SIZE, 3, 0);
	{
		struct ibv_send_wr write = {
			.wr_id = 0, .opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = { .remote_addr = (uintptr_t)written, .rkey = area->mr->rkey },
		};

		xrc_post(qp, &write, area, value, 8, side.number);
	}
	xrc_post_send(qp, 0, 0, area, first, side.number);
	xrc_post_send(qp, 1, IBV_SEND_SIGNALED, area, second, side.number);
	await_word(written, 7, "the WRITE to take effect");
	store_word(written, 8);
	pair_ready(pair);
	xrc_check_handle(&handles[0], qp->qp_num);
	xrc_take_crossed(area, &side, qp->qp_num, through, 2);
	await_completion(cq, 1, &wc, "the SEND that waited for a receive");
	xrc_take_crossed(area, &side, qp->qp_num, through, 3);
	for (int i = 0; i < XRC_ROUNDS; i++) {
		xrc_cross(qp, area, &side, through, 3000 + i);
		if (i % 10 == 5)
			xrc_reopen(pair, handles, side.xrcd, through);
	}
	if (load_word(written) != 8)
		die(0, "the WRITE has taken effect twice");
	xrc_set_rnr_timer(handles[0], RNR_TIMER);
	if (xrc_rnr_timer(handles[0]) != RNR_TIMER)
		die(0, "the RNR timer is not as it was set");
	expect_no_completion(cq, "after all");
	xrc_send_to_nobody(qp, area);
	xrc_await_request_error(pair, handles[0]);
	qp_destroy(handles[0]);
	xrc_side_close(&side);
	qp_destroy(qp);
	cq_destroy(cq);
}

void program_run(struct pair *pair)
{
	struct area area;

	area_create(pair, &area, XRC_AREA, ACCESS_ALL);
	if (pair->rank == 0)
		survive(pair, &area);
	else
		make(pair, &area);
	area_destroy(&area);
}
