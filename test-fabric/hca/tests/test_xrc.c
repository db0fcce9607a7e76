/* XRC: requests that name the SRQ they are for, domains, QPs with several handles. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* @a has send QPs, @b a domain with receive QPs and SRQs. */
static struct endpoint a, b;
static struct ibv_xrcd *xrcd;

static struct ibv_xrcd *open_domain_in(struct ibv_context *ctx, int fd, int oflags)
{
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = oflags,
	};

	return ibv_open_xrcd(ctx, &init);
}

static struct ibv_xrcd *open_domain(int fd, int oflags)
{
	return open_domain_in(b.ctx, fd, oflags);
}

/* For a domain; it is gone when it is closed. */
static int open_file(void)
{
	char path[] = "/tmp/sv-hca-xrcd-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	CHECK_EQ(unlink(path), 0);
	return fd;
}

static struct ibv_srq *create_srq_of(struct endpoint *owner, struct ibv_xrcd *domain, struct ibv_cq *cq, uint32_t *number)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 8, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC, .pd = owner->pd, .xrcd = domain, .cq = cq,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(owner->ctx, &init);

	CHECK(srq);
	CHECK_EQ(ibv_get_srq_num(srq, number), 0);
	return srq;
}

static struct ibv_srq *create_srq(struct ibv_xrcd *domain, struct ibv_cq *cq, uint32_t *number)
{
	return create_srq_of(&b, domain, cq, number);
}

static struct ibv_qp *create_recv_qp(struct ibv_xrcd *domain)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = domain,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(b.ctx, &init);

	CHECK(qp);
	return qp;
}

static int recv_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .timeout = 12, .sq_psn = 1 };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN);
}

/* An XRC send QP at @a for the receive QP @qp of @b. */
static struct ibv_qp *connect_to(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = a.send_cq, .qp_type = IBV_QPT_XRC_SEND, .pd = a.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.cap = { .max_send_wr = 16, .max_send_sge = 2, .max_inline_data = 16 },
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *send = ibv_create_qp_ex(a.ctx, &init);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .rq_psn = b.psn,
		.ah_attr = { .dlid = b.lid, .port_num = 1 },
	};
	struct address to_a;

	CHECK(send);
	to_a = endpoint_address(&a);
	to_a.qpn = send->qp_num;
	CHECK_EQ(qp_init(&a, send), 0);
	CHECK_EQ(ibv_modify_qp(send, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			       IBV_QP_RQ_PSN), 0);
	CHECK_EQ(qp_rts(&a, send), 0);
	CHECK_EQ(qp_init(&b, qp), 0);
	CHECK_EQ(qp_rtr(&b, qp, &to_a), 0);
	CHECK_EQ(recv_rts(qp), 0);
	return send;
}

static int request_at(struct endpoint *target, struct ibv_qp *send, uint32_t srqn, enum ibv_wr_opcode opcode, uint64_t wr_id,
		      uint32_t length)
{
	struct ibv_sge sge = sge_of(&a, 0, length);
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)target->buf, .rkey = target->mr->rkey }, .qp_type.xrc.remote_srqn = srqn,
	}, *bad;

	return ibv_post_send(send, &wr, &bad);
}

static int request(struct ibv_qp *send, uint32_t srqn, enum ibv_wr_opcode opcode, uint64_t wr_id, uint32_t length)
{
	return request_at(&b, send, srqn, opcode, wr_id, length);
}

static int post_to_of(struct endpoint *owner, struct ibv_srq *srq, uint64_t wr_id)
{
	struct ibv_sge sge = sge_of(owner, 4096, 64);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static int post_to(struct ibv_srq *srq, uint64_t wr_id)
{
	return post_to_of(&b, srq, wr_id);
}

static void open_both(void)
{
	endpoint_open(&a, NULL);
	endpoint_open(&b, NULL);
	xrcd = open_domain(-1, O_CREAT);
	CHECK(xrcd);
}

static void close_both(void)
{
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
	pair_close(&a, &b);
}

/* One connection serves two SRQs that complete to two CQs. */
static void srq_by_number(void)
{
	struct ibv_qp *recv, *send;
	struct ibv_srq *one, *two;
	uint32_t n1, n2;
	struct ibv_wc wc;

	open_both();
	one = create_srq(xrcd, b.recv_cq, &n1);
	two = create_srq(xrcd, b.send_cq, &n2);
	CHECK(n1 != n2);
	recv = create_recv_qp(xrcd);
	send = connect_to(recv);
	memset(a.buf, 'x', 16);
	CHECK_EQ(post_to(one, 1), 0);
	CHECK_EQ(post_to(two, 2), 0);
	CHECK_EQ(request(send, n2, IBV_WR_SEND, 10, 16), 0);
	expect(a.send_cq, 10, IBV_WC_SUCCESS);
	wc = expect(b.send_cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(wc.qp_num, recv->qp_num);
	CHECK_EQ(wc.src_qp, send->qp_num);
	CHECK_EQ(wc.byte_len, 16);
	CHECK_EQ(b.buf[4096 + 15], 'x');
	poll_none(b.recv_cq, 1);
	CHECK_EQ(request(send, n1, IBV_WR_SEND_WITH_IMM, 11, 16), 0);
	expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	expect(a.send_cq, 11, IBV_WC_SUCCESS);
	/* RDMA goes to the regions of the SRQ's protection domain. */
	CHECK_EQ(request(send, n1, IBV_WR_RDMA_WRITE, 12, 8), 0);
	expect(a.send_cq, 12, IBV_WC_SUCCESS);
	CHECK_EQ(b.buf[7], 'x');

	/* The same by the extended calls; an SRQ that is empty is RNR. */
	{
		struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(send);

		ibv_wr_start(qpx);
		qpx->wr_id = 13;
		qpx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send(qpx);
		ibv_wr_set_xrc_srqn(qpx, n2);
		ibv_wr_set_inline_data(qpx, a.buf, 4);
		CHECK_EQ(ibv_wr_complete(qpx), 0);
	}
	poll_none(a.send_cq, 5);
	CHECK_EQ(post_to(two, 3), 0);
	expect(a.send_cq, 13, IBV_WC_SUCCESS);

	CHECK_EQ(ibv_destroy_cq(b.send_cq), EBUSY);
	CHECK_EQ(ibv_close_xrcd(xrcd), EBUSY);
	/* Unread completions of an SRQ go with it. */
	CHECK_EQ(ibv_destroy_srq(two), 0);
	poll_none(b.send_cq, 1);
	CHECK_EQ(request(send, n2, IBV_WR_SEND, 14, 4), 0);
	expect(a.send_cq, 14, IBV_WC_REM_INV_REQ_ERR);
	CHECK_EQ(qp_state(recv), IBV_QPS_ERR);
	CHECK_EQ(ibv_destroy_qp(send), 0);
	CHECK_EQ(ibv_destroy_qp(recv), 0);
	CHECK_EQ(ibv_destroy_srq(one), 0);
	close_both();
}

static void another_domain(void)
{
	struct ibv_qp *recv, *send;
	struct ibv_xrcd *other;
	struct ibv_srq *srq;
	uint32_t number;

	open_both();
	other = open_domain(-1, O_CREAT);
	CHECK(other);
	srq = create_srq(other, b.recv_cq, &number);
	recv = create_recv_qp(xrcd);
	send = connect_to(recv);
	CHECK_EQ(post_to(srq, 1), 0);
	CHECK_EQ(request(send, number, IBV_WR_SEND, 2, 4), 0);
	expect(a.send_cq, 2, IBV_WC_REM_INV_REQ_ERR);
	poll_none(b.recv_cq, 1);
	CHECK_EQ(ibv_destroy_qp(send), 0);
	CHECK_EQ(ibv_destroy_qp(recv), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_close_xrcd(other), 0);
	close_both();
}

static void domains_of_files(void)
{
	struct ibv_xrcd *first, *second;
	struct ibv_qp *recv, *send;
	struct ibv_srq *srq;
	uint32_t number;
	int fd = open_file();

	open_both();
	CHECK(!open_domain(-1, 0));
	CHECK_EQ(errno, EINVAL);
	CHECK(!open_domain(fd, 0));
	CHECK_EQ(errno, EAGAIN);
	first = open_domain(fd, O_CREAT);
	second = open_domain(fd, O_CREAT);
	CHECK(first && second);
	CHECK(!open_domain(fd, O_CREAT | O_EXCL));
	CHECK_EQ(errno, EINVAL);
	/* The SRQ is of one, the QP of the other handle of the same domain. */
	srq = create_srq(first, b.recv_cq, &number);
	recv = create_recv_qp(second);
	send = connect_to(recv);
	CHECK_EQ(post_to(srq, 1), 0);
	CHECK_EQ(request(send, number, IBV_WR_SEND, 2, 4), 0);
	expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_destroy_qp(send), 0);
	CHECK_EQ(ibv_destroy_qp(recv), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_close_xrcd(first), 0);
	CHECK_EQ(ibv_close_xrcd(second), 0);
	close_both();
	close(fd);
}

/* A message to the QP of one context is for the SRQ of another that has opened the domain by the same file, or has not. */
static void another_context(void)
{
	struct ibv_xrcd *theirs, *unnamed, *of_file;
	struct ibv_qp *recv, *send, *same_place;
	struct ibv_srq *srq, *unreachable;
	struct endpoint c;
	uint32_t number, no_number;
	struct ibv_wc wc;
	int fd = open_file();

	open_both();
	endpoint_open(&c, NULL);
	of_file = open_domain(fd, O_CREAT);
	theirs = open_domain_in(c.ctx, fd, O_CREAT);
	unnamed = open_domain_in(c.ctx, -1, O_CREAT);
	CHECK(of_file && theirs && unnamed);
	srq = create_srq_of(&c, theirs, c.recv_cq, &number);
	unreachable = create_srq_of(&c, unnamed, c.recv_cq, &no_number);
	/* A QP of the same place as theirs that ends takes nothing of what came to others. */
	recv = create_recv_qp(of_file);
	same_place = endpoint_qp(&c);
	send = connect_to(recv);
	memset(a.buf, 'y', 16);
	CHECK_EQ(request(send, number, IBV_WR_SEND, 3, 16), 0);
	poll_none(a.send_cq, 5);
	CHECK_EQ(post_to_of(&c, srq, 1), 0);
	expect(a.send_cq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_destroy_qp(same_place), 0);
	wc = expect(c.recv_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(wc.qp_num, recv->qp_num);
	CHECK_EQ(wc.src_qp, send->qp_num);
	CHECK_EQ(wc.byte_len, 16);
	CHECK_EQ(c.buf[4096 + 15], 'y');
	poll_none(b.recv_cq, 1);
	CHECK_EQ(request_at(&c, send, number, IBV_WR_RDMA_WRITE, 6, 16), 0);
	expect(a.send_cq, 6, IBV_WC_SUCCESS);
	CHECK_EQ(c.buf[15], 'y');
	CHECK_EQ(request(send, no_number, IBV_WR_SEND, 7, 4), 0);
	expect(a.send_cq, 7, IBV_WC_REM_INV_REQ_ERR);
	CHECK_EQ(ibv_destroy_qp(send), 0);
	CHECK_EQ(ibv_destroy_qp(recv), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_destroy_srq(unreachable), 0);
	CHECK_EQ(ibv_close_xrcd(theirs), 0);
	CHECK_EQ(ibv_close_xrcd(unnamed), 0);
	CHECK_EQ(ibv_close_xrcd(of_file), 0);
	endpoint_close(&c);
	close_both();
	close(fd);
}

static const struct ibv_qp_open_attr opening = {
	.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT,
	.qp_type = IBV_QPT_XRC_RECV,
};

/* The QP lives as long as one of its handles. */
static void opened_again(void)
{
	struct ibv_qp_open_attr attr = opening;
	struct ibv_qp *recv, *again, *send;
	struct ibv_srq *srq;
	uint32_t number;

	open_both();
	srq = create_srq(xrcd, b.recv_cq, &number);
	recv = create_recv_qp(xrcd);
	attr.qp_num = recv->qp_num ^ 1;
	attr.qp_context = &attr;
	attr.xrcd = xrcd;
	CHECK(!ibv_open_qp(b.ctx, &attr));
	CHECK_EQ(errno, EINVAL);
	attr.qp_num = recv->qp_num;
	again = ibv_open_qp(b.ctx, &attr);
	CHECK(again && again != recv);
	CHECK_EQ(again->qp_num, recv->qp_num);
	CHECK(again->qp_context == &attr);
	CHECK_EQ(again->state, IBV_QPS_UNKNOWN);
	send = connect_to(again);
	CHECK_EQ(qp_state(recv), IBV_QPS_RTS);
	CHECK_EQ(ibv_destroy_qp(recv), 0);
	CHECK_EQ(post_to(srq, 1), 0);
	CHECK_EQ(request(send, number, IBV_WR_SEND, 2, 4), 0);
	expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_close_xrcd(xrcd), EBUSY);
	CHECK_EQ(ibv_destroy_qp(again), 0);
	CHECK_EQ(ibv_destroy_qp(send), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	close_both();
}

/* Each handle gets the events of the QP; a domain's handle is free when those of QPs that came through it are gone. */
static void events_of_handles(void)
{
	struct ibv_qp_open_attr attr = opening;
	struct ibv_async_event event;
	struct ibv_xrcd *first, *second;
	struct ibv_qp *recv, *handles[2], *send;
	int fd = open_file(), seen = 0;

	open_both();
	first = open_domain(fd, O_CREAT);
	second = open_domain(fd, O_CREAT);
	recv = create_recv_qp(first);
	attr.qp_num = recv->qp_num;
	attr.xrcd = second;
	for (int i = 0; i < 2; i++) {
		handles[i] = ibv_open_qp(b.ctx, &attr);
		CHECK(handles[i]);
	}
	send = connect_to(recv);
	CHECK_EQ(ibv_destroy_qp(recv), 0);
	CHECK_EQ(ibv_close_xrcd(first), 0);
	/* There is no such SRQ. */
	CHECK_EQ(request(send, 1, IBV_WR_SEND, 1, 4), 0);
	expect(a.send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	for (int i = 0; i < 2; i++) {
		event = await_async(&b, IBV_EVENT_QP_REQ_ERR);
		CHECK(event.element.qp == handles[0] || event.element.qp == handles[1]);
		seen |= event.element.qp == handles[0] ? 1 : 2;
	}
	CHECK_EQ(seen, 3);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(ibv_close_xrcd(second), EBUSY);
		CHECK_EQ(qp_state(handles[i]), IBV_QPS_ERR);
		CHECK_EQ(ibv_destroy_qp(handles[i]), 0);
	}
	CHECK_EQ(ibv_destroy_qp(send), 0);
	CHECK_EQ(ibv_close_xrcd(second), 0);
	close_both();
	close(fd);
}

/* Another context opens the QP, connects it, hears of its events, and keeps it when its own has let go of it. */
static void opened_elsewhere(void)
{
	struct ibv_qp_open_attr attr = opening;
	struct ibv_async_event event;
	struct ibv_xrcd *own, *theirs;
	struct ibv_qp *recv, *opened, *send;
	struct ibv_srq *srq;
	struct endpoint c;
	uint32_t number;
	int fd = open_file();

	open_both();
	endpoint_open(&c, NULL);
	own = open_domain(fd, O_CREAT);
	theirs = open_domain_in(c.ctx, fd, O_CREAT);
	srq = create_srq_of(&c, theirs, c.recv_cq, &number);
	recv = create_recv_qp(own);
	attr.qp_num = recv->qp_num ^ 1;
	attr.xrcd = theirs;
	attr.qp_context = &attr;
	CHECK(!ibv_open_qp(c.ctx, &attr));
	CHECK_EQ(errno, EINVAL);
	attr.qp_num = recv->qp_num;
	opened = ibv_open_qp(c.ctx, &attr);
	CHECK(opened && opened->context == c.ctx && opened->qp_context == &attr && opened->qp_num == recv->qp_num);
	send = connect_to(opened);
	CHECK_EQ(qp_state(recv), IBV_QPS_RTS);
	CHECK_EQ(ibv_destroy_qp(recv), 0);
	CHECK_EQ(ibv_close_xrcd(own), 0);
	CHECK_EQ(qp_state(opened), IBV_QPS_RTS);
	CHECK_EQ(post_to_of(&c, srq, 1), 0);
	CHECK_EQ(request(send, number, IBV_WR_SEND, 2, 4), 0);
	expect(c.recv_cq, 1, IBV_WC_SUCCESS);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(request(send, 1, IBV_WR_SEND, 3, 4), 0);
	expect(a.send_cq, 3, IBV_WC_REM_INV_REQ_ERR);
	event = await_async(&c, IBV_EVENT_QP_REQ_ERR);
	CHECK(event.element.qp == opened);
	CHECK_EQ(ibv_close_xrcd(theirs), EBUSY);
	CHECK_EQ(ibv_destroy_qp(opened), 0);
	attr.xrcd = theirs;
	CHECK(!ibv_open_qp(c.ctx, &attr));
	CHECK_EQ(ibv_destroy_qp(send), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_close_xrcd(theirs), 0);
	endpoint_close(&c);
	close_both();
	close(fd);
}

/* How many contexts have a file. */
static int files(void)
{
	DIR *d = opendir(getenv("SV_HCA_FABRIC"));
	struct dirent *e;
	int n = 0;

	CHECK(d);
	while ((e = readdir(d)))
		n += !strncmp(e->d_name, "uverbs-", 7);
	closedir(d);
	return n;
}

/*
 * @c has the QP open that @b has made, which is gone, and its number. It goes on as before, may be opened again, reports its
 * events, and ends with its last handle.
 */
static void use_what_is_left(struct endpoint *c, struct ibv_xrcd *theirs, struct ibv_qp *opened)
{
	struct ibv_qp_open_attr attr = opening;
	struct ibv_qp *send = connect_to(opened), *again;
	struct ibv_qp_attr change = { .min_rnr_timer = 3 };
	struct ibv_async_event event;
	struct ibv_srq *srq;
	uint32_t number;

	/* Opening a device removes the files of the dead. */
	endpoint_open(&b, NULL);
	endpoint_close(&b);
	srq = create_srq_of(c, theirs, c->recv_cq, &number);
	CHECK_EQ(qp_state(opened), IBV_QPS_RTS);
	CHECK_EQ(ibv_modify_qp(opened, &change, IBV_QP_MIN_RNR_TIMER), 0);
	CHECK_EQ(request_at(c, send, number, IBV_WR_SEND, 2, 4), 0);
	poll_none(a.send_cq, 5);
	CHECK_EQ(post_to_of(c, srq, 1), 0);
	expect(c->recv_cq, 1, IBV_WC_SUCCESS);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	attr.xrcd = theirs;
	attr.qp_num = opened->qp_num;
	again = ibv_open_qp(c->ctx, &attr);
	CHECK(again);
	CHECK_EQ(ibv_destroy_qp(opened), 0);
	CHECK_EQ(request_at(c, send, number, IBV_WR_RDMA_WRITE, 3, 4), 0);
	expect(a.send_cq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(request_at(c, send, 1, IBV_WR_SEND, 4, 4), 0);
	expect(a.send_cq, 4, IBV_WC_REM_INV_REQ_ERR);
	event = await_async(c, IBV_EVENT_QP_REQ_ERR);
	CHECK(event.element.qp == again);
	CHECK_EQ(qp_state(again), IBV_QPS_ERR);
	CHECK_EQ(ibv_destroy_qp(again), 0);
	CHECK(!ibv_open_qp(c->ctx, &attr));
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(ibv_destroy_qp(send), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

/* The maker destroys its handle, or does not, and closes its device. */
static void maker_closes(bool destroys)
{
	struct ibv_qp_open_attr attr = opening;
	struct ibv_xrcd *own, *theirs;
	struct ibv_qp *recv, *opened;
	struct endpoint c, maker;
	int fd = open_file();

	endpoint_open(&a, NULL);
	endpoint_open(&b, NULL);
	endpoint_open(&c, NULL);
	own = open_domain(fd, O_CREAT);
	theirs = open_domain_in(c.ctx, fd, O_CREAT);
	recv = create_recv_qp(own);
	attr.qp_num = recv->qp_num;
	attr.xrcd = theirs;
	opened = ibv_open_qp(c.ctx, &attr);
	CHECK(opened);
	if (destroys) {
		CHECK_EQ(ibv_destroy_qp(recv), 0);
		CHECK_EQ(ibv_close_xrcd(own), 0);
	}
	maker = b;
	endpoint_close(&b);
	CHECK_EQ(files(), 3);
	b = maker;
	use_what_is_left(&c, theirs, opened);
	CHECK_EQ(files(), 2);
	CHECK_EQ(ibv_close_xrcd(theirs), 0);
	endpoint_close(&c);
	endpoint_close(&a);
	close(fd);
}

static void maker_destroys_and_closes(void)
{
	maker_closes(true);
}

/* What the process that makes the QP tells of it. */
struct made {
	struct options opt;
	uint16_t lid;
	uint32_t psn, qpn, srqn;
};

/* @domain is for the file of @fd. */
static void make_and_pause(int fd, int out)
{
	struct ibv_xrcd *domain;
	struct made made;

	endpoint_open(&b, NULL);
	domain = open_domain(fd, O_CREAT);
	create_srq(domain, b.recv_cq, &made.srqn);
	made = (struct made){ b.opt, b.lid, b.psn, create_recv_qp(domain)->qp_num, made.srqn };
	CHECK_EQ(write(out, &made, sizeof(made)), sizeof(made));
	pause();
}

/* With it its SRQs end, but not the QP. */
static void maker_is_killed(void)
{
	struct ibv_qp_open_attr attr = opening;
	struct ibv_qp *opened, *send;
	struct ibv_xrcd *theirs;
	struct endpoint c;
	struct made made;
	int fd = open_file(), ends[2];
	pid_t pid;

	CHECK_EQ(pipe(ends), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		make_and_pause(fd, ends[1]);
		_exit(1);
	}
	await_readable(ends[0], "the maker");
	CHECK_EQ(read(ends[0], &made, sizeof(made)), sizeof(made));
	b = (struct endpoint){ .opt = made.opt, .lid = made.lid, .psn = made.psn };
	endpoint_open(&a, NULL);
	endpoint_open(&c, NULL);
	theirs = open_domain_in(c.ctx, fd, O_CREAT);
	attr.qp_num = made.qpn;
	attr.xrcd = theirs;
	opened = ibv_open_qp(c.ctx, &attr);
	CHECK(opened);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	send = connect_to(opened);
	CHECK_EQ(request_at(&c, send, made.srqn, IBV_WR_SEND, 1, 4), 0);
	expect(a.send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	CHECK_EQ(ibv_destroy_qp(send), 0);
	{
		struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

		await_async(&c, IBV_EVENT_QP_REQ_ERR);
		CHECK_EQ(ibv_modify_qp(opened, &reset, IBV_QP_STATE), 0);
	}
	use_what_is_left(&c, theirs, opened);
	CHECK_EQ(files(), 2);
	CHECK_EQ(ibv_close_xrcd(theirs), 0);
	endpoint_close(&c);
	endpoint_close(&a);
	close(ends[0]);
	close(ends[1]);
	close(fd);
}

/* Nobody has a handle any more, though nobody has destroyed one. */
static void all_close_their_devices(void)
{
	struct options impatient = { .timeout = 8, .retry_cnt = 1 };
	struct ibv_qp_open_attr attr = opening;
	struct ibv_xrcd *theirs;
	struct ibv_qp *send;
	struct endpoint c;
	int fd = open_file();

	endpoint_open(&a, &impatient);
	endpoint_open(&b, NULL);
	endpoint_open(&c, NULL);
	attr.qp_num = create_recv_qp(open_domain(fd, O_CREAT))->qp_num;
	theirs = open_domain_in(c.ctx, fd, O_CREAT);
	attr.xrcd = theirs;
	send = connect_to(ibv_open_qp(c.ctx, &attr));
	endpoint_close(&b);
	endpoint_close(&c);
	CHECK_EQ(request_at(&a, send, 1, IBV_WR_SEND, 1, 4), 0);
	expect(a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	CHECK_EQ(ibv_destroy_qp(send), 0);
	endpoint_close(&a);
	close(fd);
}

/* What devices that are closed so leave in memory is not to be found by the address sanitizer. */
static void undestroyed(void)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (!pid) {
		harness_set("SV_HCA_REPORT_LEAKS", "0");
		maker_closes(false);
		all_close_their_devices();
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

/* A QP that only others have open is opened by its maker again, and then let go of by the others. */
static void maker_opens_again(void)
{
	struct ibv_qp_open_attr attr = opening;
	struct ibv_xrcd *own, *theirs;
	struct ibv_qp *recv, *opened, *again;
	struct endpoint c;
	int fd = open_file();

	open_both();
	endpoint_open(&c, NULL);
	own = open_domain(fd, O_CREAT);
	theirs = open_domain_in(c.ctx, fd, O_CREAT);
	recv = create_recv_qp(own);
	attr.qp_num = recv->qp_num;
	attr.xrcd = theirs;
	opened = ibv_open_qp(c.ctx, &attr);
	CHECK(opened);
	CHECK_EQ(ibv_destroy_qp(recv), 0);
	attr.xrcd = own;
	again = ibv_open_qp(b.ctx, &attr);
	CHECK(again);
	CHECK_EQ(ibv_destroy_qp(opened), 0);
	attr.xrcd = theirs;
	opened = ibv_open_qp(c.ctx, &attr);
	CHECK(opened);
	CHECK_EQ(ibv_destroy_qp(opened), 0);
	CHECK_EQ(qp_state(again), IBV_QPS_RESET);
	CHECK_EQ(ibv_destroy_qp(again), 0);
	CHECK(!ibv_open_qp(c.ctx, &attr));
	CHECK_EQ(ibv_close_xrcd(theirs), 0);
	CHECK_EQ(ibv_close_xrcd(own), 0);
	endpoint_close(&c);
	close_both();
	close(fd);
}

static void refused(void)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_PD };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_srq_init_attr basic = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq;
	struct ibv_qp *recv;
	uint32_t number;

	open_both();
	init.pd = b.pd;
	CHECK(!ibv_create_qp_ex(b.ctx, &init));
	CHECK_EQ(errno, EINVAL);
	srq = ibv_create_srq(b.pd, &basic);
	CHECK_EQ(ibv_get_srq_num(srq, &number), EOPNOTSUPP);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	recv = create_recv_qp(xrcd);
	CHECK_EQ(qp_init(&b, recv), 0);
	CHECK_EQ(ibv_modify_qp(recv, &attr, IBV_QP_STATE), EINVAL);
	CHECK_EQ(ibv_destroy_qp(recv), 0);
	close_both();
}

int main(void)
{
	harness_start();
	RUN(srq_by_number);
	RUN(another_domain);
	RUN(domains_of_files);
	RUN(another_context);
	RUN(opened_again);
	RUN(events_of_handles);
	RUN(opened_elsewhere);
	RUN(maker_destroys_and_closes);
	RUN(maker_opens_again);
	/* The thread sanitizer does not follow a process that forks while it has threads. */
	if (!getenv("HARNESS_NO_FORK")) {
		RUN(maker_is_killed);
		RUN(undestroyed);
	}
	RUN(refused);
	return 0;
}
