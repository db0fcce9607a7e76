/* The device as another driver: what that one gives for the sizes asked for, its limits, keys, numbers and refusals. */
#include "harness.h"

static struct endpoint ep;

static void open_as(const char *personality)
{
	harness_set("SV_HCA_PERSONALITY", personality);
	endpoint_open(&ep, NULL);
}

static void close_it(void)
{
	endpoint_close(&ep);
	harness_set("SV_HCA_PERSONALITY", NULL);
}

static int create(uint32_t send_wr, uint32_t send_sge, uint32_t recv_wr, uint32_t recv_sge, uint32_t max_inline,
		  struct ibv_qp_cap *got, struct ibv_qp_cap *queried)
{
	struct ibv_qp_init_attr init = {
		.send_cq = ep.send_cq, .recv_cq = ep.recv_cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = send_wr, .max_send_sge = send_sge, .max_recv_wr = recv_wr, .max_recv_sge = recv_sge,
			 .max_inline_data = max_inline },
	}, answer;
	struct ibv_qp_attr attr;
	struct ibv_qp *qp = ibv_create_qp(ep.pd, &init);

	if (!qp)
		return errno;
	*got = init.cap;
	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_CAP, &answer), 0);
	*queried = answer.cap;
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	return 0;
}

static void expect_cap(uint32_t send_wr, uint32_t send_sge, uint32_t recv_wr, uint32_t recv_sge, uint32_t max_inline,
		       struct ibv_qp_cap want)
{
	struct ibv_qp_cap got, queried;

	CHECK_EQ(create(send_wr, send_sge, recv_wr, recv_sge, max_inline, &got, &queried), 0);
	CHECK_EQ(got.max_send_wr, want.max_send_wr);
	CHECK_EQ(got.max_send_sge, want.max_send_sge);
	CHECK_EQ(got.max_recv_wr, want.max_recv_wr);
	CHECK_EQ(got.max_recv_sge, want.max_recv_sge);
	CHECK_EQ(got.max_inline_data, want.max_inline_data);
	CHECK(!memcmp(&got, &queried, sizeof(got)));
}

static int cq_size(int cqe)
{
	struct ibv_cq *cq = ibv_create_cq(ep.ctx, cqe, NULL, NULL, 0);
	int size = cq ? cq->cqe : -errno;

	if (cq)
		CHECK_EQ(ibv_destroy_cq(cq), 0);
	return size;
}

static void srq_size(uint32_t max_wr, uint32_t max_sge, uint32_t want_wr, uint32_t want_sge)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = max_wr, .max_sge = max_sge } };
	struct ibv_srq *srq = ibv_create_srq(ep.pd, &init);
	struct ibv_srq_attr attr;

	CHECK(srq);
	CHECK_EQ(init.attr.max_wr, want_wr);
	CHECK_EQ(init.attr.max_sge, want_sge);
	CHECK_EQ(ibv_query_srq(srq, &attr), 0);
	CHECK_EQ(attr.max_wr, want_wr);
	CHECK_EQ(attr.max_sge, want_sge);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

static void keys_of(int access, uint32_t *lkey, uint32_t *rkey)
{
	struct ibv_mr *mr = ibv_reg_mr(ep.pd, ep.buf, 4096, access);

	CHECK(mr);
	*lkey = mr->lkey;
	*rkey = mr->rkey;
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

static void strict_gives_what_is_asked_for(void)
{
	uint32_t lkey, rkey;

	open_as("strict");
	expect_cap(5, 3, 7, 2, 33, (struct ibv_qp_cap){ 5, 7, 3, 2, 33 });
	CHECK_EQ(cq_size(100), 100);
	srq_size(100, 3, 100, 3);
	keys_of(IBV_ACCESS_LOCAL_WRITE, &lkey, &rkey);
	CHECK(lkey && rkey && lkey != rkey);
	close_it();
}

static void rxe_sizes_are_one_less_than_powers_of_two(void)
{
	struct ibv_qp_cap got, queried;
	struct ibv_device_attr attr;

	open_as("rxe");
	expect_cap(5, 3, 8, 2, 0, (struct ibv_qp_cap){ 7, 15, 3, 2, 48 });
	expect_cap(127, 1, 128, 1, 100, (struct ibv_qp_cap){ 127, 255, 6, 1, 100 });
	CHECK_EQ(ibv_query_device(ep.ctx, &attr), 0);
	CHECK_EQ(attr.max_qp_rd_atom, 128);
	CHECK_EQ(attr.max_sge, 32);
	CHECK_EQ(attr.max_srq_sge, 27);
	CHECK_EQ(attr.max_cqe, 32767);
	CHECK_EQ(create(attr.max_qp_wr + 1u, 1, 1, 1, 0, &got, &queried), EINVAL);
	CHECK_EQ(create(1, 33, 1, 1, 0, &got, &queried), EINVAL);
	CHECK_EQ(create(1, 1, 1, 33, 0, &got, &queried), EINVAL);
	CHECK_EQ(create(1, 1, 1, 1, 513, &got, &queried), EINVAL);
	expect_cap(1, 32, 1, 32, 512, (struct ibv_qp_cap){ 1, 1, 32, 32, 512 });
	CHECK_EQ(cq_size(100), 127);
	CHECK_EQ(cq_size(128), 255);
	CHECK_EQ(cq_size(32767), 32767);
	CHECK_EQ(cq_size(32768), -EINVAL);
	CHECK_EQ(cq_size(0), -EINVAL);
	srq_size(100, 0, 127, 1);
	close_it();
}

static void rxe_keys(void)
{
	uint32_t lkey, rkey;

	open_as("rxe");
	keys_of(IBV_ACCESS_LOCAL_WRITE, &lkey, &rkey);
	CHECK(lkey && !rkey);
	keys_of(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &lkey, &rkey);
	CHECK(lkey && lkey == rkey);
	CHECK_EQ(ibv_rereg_mr(ep.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	CHECK_EQ(errno, EOPNOTSUPP);
	close_it();
}

static void rxe_lacks(void)
{
	struct ibv_xrcd_init_attr xrcd = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
					   .oflags = 0100 };
	struct ibv_td_init_attr td = { 0 };
	struct ibv_alloc_dm_attr dm = { .length = 64 };
	struct ibv_cq_init_attr_ex timestamps = { .cqe = 4, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };
	struct ibv_qp_init_attr init = { .send_cq = ep.send_cq, .qp_type = IBV_QPT_XRC_SEND };

	open_as("rxe");
	init.send_cq = ep.send_cq;
	errno = 0;
	CHECK(!ibv_open_xrcd(ep.ctx, &xrcd) && errno == EOPNOTSUPP);
	CHECK(!ibv_create_qp(ep.pd, &init) && errno == EOPNOTSUPP);
	CHECK(!ibv_alloc_td(ep.ctx, &td) && errno == EOPNOTSUPP);
	CHECK(!ibv_alloc_dm(ep.ctx, &dm) && errno == EOPNOTSUPP);
	CHECK(!ibv_alloc_null_mr(ep.pd) && errno == EOPNOTSUPP);
	errno = 0;
	CHECK(!ibv_create_cq_ex(ep.ctx, &timestamps) && errno == EOPNOTSUPP);
	close_it();
}

/* Ports have no lid; paths need a route, and what comes over IPv4 has its header in front. */
static void rxe_is_ethernet(void)
{
	struct options ud = { .qp_type = IBV_QPT_UD };
	struct ibv_send_wr wr = { .wr_id = 1, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_ah_attr path = { .port_num = 1, .dlid = 7 }, back;
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	struct ibv_wc wc;
	struct endpoint a, b;
	struct ibv_sge sge;
	struct ibv_ah *ah;
	union ibv_gid gid;
	__be16 pkey;
	int index;

	harness_set("SV_HCA_PERSONALITY", "rxe");
	pair_open(&a, &b, NULL);
	CHECK_EQ(ibv_query_port(a.ctx, 1, &port), 0);
	CHECK_EQ(port.lid, 0);
	CHECK_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	CHECK_EQ(port.gid_tbl_len, 1024);
	CHECK(port.flags & IBV_QPF_GRH_REQUIRED);
	CHECK_EQ(ibv_query_gid(a.ctx, 1, 1023, &gid), 0);
	CHECK_EQ(ibv_query_gid(a.ctx, 1, 1024, &gid), -1);
	CHECK_EQ(ibv_query_gid_ex(a.ctx, 1, 1, &entry, 0), 0);
	CHECK_EQ(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
	CHECK_EQ(ibv_query_pkey(a.ctx, 1, 1, &pkey), -1);
	CHECK(!ibv_create_ah(a.pd, &path) && errno == EINVAL);
	CHECK_EQ(post_recv(&b, 1, 0, 64), 0);
	CHECK_EQ(post_send(&a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(expect(b.recv_cq, 1, IBV_WC_SUCCESS).slid, 0);
	pair_close(&a, &b);

	endpoint_open(&a, &ud);
	endpoint_connect(&a, &(struct address){ 0 });
	endpoint_open(&b, &ud);
	endpoint_connect(&b, &(struct address){ 0 });
	for (index = 0; index < 2; index++) {
		path = (struct ibv_ah_attr){ .port_num = 1, .is_global = 1, .grh = { .sgid_index = index, .hop_limit = 3 } };
		CHECK_EQ(ibv_query_gid(b.ctx, 1, index, &path.grh.dgid), 0);
		ah = ibv_create_ah(a.pd, &path);
		CHECK(ah);
		CHECK_EQ(post_recv(&b, 5, 0, 64), 0);
		sge = sge_of(&a, 0, 8);
		wr.sg_list = &sge;
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = b.qp->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
		CHECK_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
		expect(a.send_cq, 1, IBV_WC_SUCCESS);
		wc = expect(b.recv_cq, 5, IBV_WC_SUCCESS);
		CHECK_EQ(wc.byte_len, 48);
		CHECK(wc.wc_flags & IBV_WC_GRH);
		CHECK_EQ(ibv_init_ah_from_wc(b.ctx, 1, &wc, (void *)b.buf, &back), 0);
		CHECK_EQ(back.grh.sgid_index, index);
		CHECK_EQ(ibv_query_gid(a.ctx, 1, index, &gid), 0);
		CHECK(!memcmp(&back.grh.dgid, &gid, sizeof(gid)));
		CHECK_EQ(ibv_destroy_ah(ah), 0);
	}
	pair_close(&a, &b);
	harness_set("SV_HCA_PERSONALITY", NULL);
}

/* Of the CQ's size what was asked for counts, not what it is rounded to. */
static void a_cq_is_not_made_smaller_than_what_is_in_it(void)
{
	static const char *const personalities[] = { "strict", "rxe", "mlx5", "hostile:3" };
	unsigned int i, n;

	for (i = 0; i < 4; i++) {
		struct endpoint a, b;

		harness_set("SV_HCA_PERSONALITY", personalities[i]);
		pair_open(&a, &b, NULL);
		for (n = 0; n < 6; n++) {
			struct address to_b = endpoint_address(&b);

			CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, n, 0, 8, 0, IBV_SEND_SIGNALED), 0);
		}
		while (ibv_poll_cq(a.send_cq, 0, NULL))
			;
		expect(a.send_cq, 0, IBV_WC_SUCCESS);
		poll_none(a.recv_cq, 20);
		CHECK_EQ(ibv_resize_cq(a.send_cq, 4), EINVAL);
		CHECK_EQ(ibv_resize_cq(a.send_cq, 5), 0);
		CHECK(a.send_cq->cqe >= 5);
		for (n = 1; n < 6; n++)
			expect(a.send_cq, n, IBV_WC_SUCCESS);
		pair_close(&a, &b);
	}
	harness_set("SV_HCA_PERSONALITY", NULL);
}

static void mlx5_sizes(void)
{
	struct ibv_qp_cap got, queried;
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 10, .max_sge = 1 } };
	struct ibv_srq_attr more = { .max_wr = 20 };
	struct ibv_srq *srq;
	uint32_t lkey, rkey;

	open_as("mlx5");
	/* 192 bytes for what an RC request can need, 16 for each element: 256 bytes are four blocks of 64. */
	expect_cap(5, 1, 5, 1, 0, (struct ibv_qp_cap){ 8, 8, 1, 1, 60 });
	expect_cap(5, 5, 5, 3, 0, (struct ibv_qp_cap){ 6, 8, 5, 4, 124 });
	expect_cap(5, 1, 5, 1, 100, (struct ibv_qp_cap){ 6, 8, 1, 1, 124 });
	CHECK_EQ(create(32768, 1, 1, 1, 0, &got, &queried), EINVAL);
	CHECK_EQ(create(8192, 1, 32768, 1, 0, &got, &queried), 0);
	CHECK_EQ(cq_size(100), 127);
	CHECK_EQ(cq_size(127), 127);
	srq_size(100, 1, 127, 1);
	srq_size(100, 2, 127, 3);
	srq = ibv_create_srq(ep.pd, &init);
	CHECK(srq);
	CHECK_EQ(ibv_modify_srq(srq, &more, IBV_SRQ_MAX_WR), EINVAL);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	keys_of(IBV_ACCESS_LOCAL_WRITE, &lkey, &rkey);
	CHECK(lkey && lkey == rkey);
	close_it();
}

static void mlx5_has_no_way_to_sqd(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD };
	struct endpoint a, b;

	harness_set("SV_HCA_PERSONALITY", "mlx5");
	pair_open(&a, &b, NULL);
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), EINVAL);
	pair_close(&a, &b);
	harness_set("SV_HCA_PERSONALITY", NULL);
}

/* At least what was asked for, the same from the same seed, and now and then more. */
static void hostile_gives_more(void)
{
	struct ibv_qp_cap got, queried;
	int i, more = 0, no_rkey = 0, same = 0;
	uint32_t lkey, rkey;

	open_as("hostile:5");
	for (i = 0; i < 40; i++) {
		CHECK_EQ(create(8, 2, 8, 2, 32, &got, &queried), 0);
		CHECK(!memcmp(&got, &queried, sizeof(got)));
		CHECK(got.max_send_wr >= 8 && got.max_recv_wr >= 8 && got.max_send_sge >= 2 && got.max_recv_sge >= 2);
		CHECK(got.max_inline_data >= 32);
		more += got.max_send_wr > 8;
		keys_of(IBV_ACCESS_LOCAL_WRITE, &lkey, &rkey);
		no_rkey += !rkey;
		same += lkey == rkey;
	}
	CHECK(more && no_rkey && no_rkey < 40 && same);
	CHECK_EQ(create(16384, 30, 16384, 30, 1024, &got, &queried), 0);
	CHECK_EQ(got.max_send_wr, 16384);
	CHECK_EQ(create(16385, 1, 1, 1, 0, &got, &queried), EINVAL);
	close_it();
}

/* None is lost or doubled, but some overtake others. */
static void hostile_datagrams_overtake(void)
{
	enum { DATAGRAMS = 32 };
	struct options ud = { .qp_type = IBV_QPT_UD };
	struct ibv_ah_attr path = { .port_num = 1 };
	struct ibv_send_wr wr[DATAGRAMS], *bad;
	struct ibv_sge sge[DATAGRAMS];
	int i, overtaken = 0, seen[DATAGRAMS] = { 0 };
	struct endpoint a, b;
	struct ibv_ah *ah;

	harness_set("SV_HCA_PERSONALITY", "hostile:9");
	endpoint_open(&a, &ud);
	endpoint_connect(&a, &(struct address){ 0 });
	endpoint_open(&b, &ud);
	endpoint_connect(&b, &(struct address){ 0 });
	path.dlid = b.lid;
	ah = ibv_create_ah(a.pd, &path);
	CHECK(ah);
	for (i = 0; i < DATAGRAMS; i++) {
		CHECK_EQ(post_recv(&b, i, 64 * i, 64), 0);
		a.buf[8 * i] = i;
		sge[i] = sge_of(&a, 8 * i, 8);
		wr[i] = (struct ibv_send_wr){ .wr_id = i, .next = i + 1 < DATAGRAMS ? &wr[i + 1] : NULL, .sg_list = &sge[i],
					      .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
		wr[i].wr.ud.ah = ah;
		wr[i].wr.ud.remote_qpn = b.qp->qp_num;
		wr[i].wr.ud.remote_qkey = QKEY;
	}
	CHECK_EQ(ibv_post_send(a.qp, wr, &bad), 0);
	for (i = 0; i < DATAGRAMS; i++)
		expect(a.send_cq, i, IBV_WC_SUCCESS);
	for (i = 0; i < DATAGRAMS; i++) {
		expect(b.recv_cq, i, IBV_WC_SUCCESS);
		seen[b.buf[64 * i + 40]]++;
		overtaken += b.buf[64 * i + 40] != i;
	}
	for (i = 0; i < DATAGRAMS; i++)
		CHECK_EQ(seen[i], 1);
	CHECK(overtaken);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	pair_close(&a, &b);
	harness_set("SV_HCA_PERSONALITY", NULL);
}

/* Who asks for an event after his last poll is told of what has come in between; and of the completion of an event but once. */
static void mlx5_events_of_what_was_there(void)
{
	struct options channel = { .channel = true };
	struct endpoint a, b;
	struct ibv_cq *cq;
	void *context;

	harness_set("SV_HCA_PERSONALITY", "mlx5");
	pair_open(&a, &b, &channel);
	for (int i = 1; i <= 2; i++) {
		CHECK_EQ(post_recv(&b, i, 0, 64), 0);
		CHECK_EQ(post_send(&a, i, 0, 4, IBV_SEND_SIGNALED), 0);
		expect(a.send_cq, i, IBV_WC_SUCCESS);
		CHECK_EQ(ibv_req_notify_cq(b.recv_cq, 0), 0);
		await_readable(b.channel->fd, "an event");
		CHECK_EQ(ibv_get_cq_event(b.channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		CHECK_EQ(ibv_req_notify_cq(b.recv_cq, 0), 0);
		expect_silent(b.channel->fd, 20);
		expect(b.recv_cq, i, IBV_WC_SUCCESS);
		CHECK_EQ(ibv_req_notify_cq(b.recv_cq, 0), 0);
		expect_silent(b.channel->fd, 20);
		CHECK_EQ(post_recv(&b, 10 + i, 0, 64), 0);
		CHECK_EQ(post_send(&a, 10 + i, 0, 4, IBV_SEND_SIGNALED), 0);
		expect(a.send_cq, 10 + i, IBV_WC_SUCCESS);
		await_readable(b.channel->fd, "an event");
		CHECK_EQ(ibv_get_cq_event(b.channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		expect(b.recv_cq, 10 + i, IBV_WC_SUCCESS);
	}
	pair_close(&a, &b);
	harness_set("SV_HCA_PERSONALITY", NULL);
}

/* Now and then an event comes of a CQ that is empty; it takes the arming, as every event does. */
static void hostile_events_come_of_nothing(void)
{
	struct options with_channel = { .channel = true };
	struct address to_b;
	struct endpoint a, b;
	int i, spurious = 0;
	struct ibv_wc wc;

	harness_set("SV_HCA_PERSONALITY", "hostile:4");
	pair_open(&a, &b, &with_channel);
	to_b = endpoint_address(&b);
	for (i = 0; i < 60; i++) {
		struct ibv_cq *cq;
		bool arrived = false;
		void *context;

		CHECK_EQ(ibv_req_notify_cq(a.send_cq, 0), 0);
		CHECK_EQ(post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, i, 0, 8, 0, IBV_SEND_SIGNALED), 0);
		while (!arrived) {
			await_readable(a.channel->fd, "an event");
			CHECK_EQ(ibv_get_cq_event(a.channel, &cq, &context), 0);
			CHECK(cq == a.send_cq);
			ibv_ack_cq_events(cq, 1);
			CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
			arrived = ibv_poll_cq(cq, 1, &wc) == 1;
			spurious += !arrived;
		}
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	}
	CHECK(spurious);
	pair_close(&a, &b);
	harness_set("SV_HCA_PERSONALITY", NULL);
}

static void hostile_refuses_on_request(void)
{
	struct endpoint a, b;
	int i, refused = 0;

	harness_set("SV_HCA_PERSONALITY", "hostile:4,refusals");
	pair_open(&a, &b, NULL);
	for (i = 0; i < 300; i++) {
		struct address to_b = endpoint_address(&b);
		int ret = post_rdma(&a, &to_b, IBV_WR_RDMA_WRITE, i, 0, 8, 0, IBV_SEND_SIGNALED);

		CHECK(!ret || ret == ENOMEM);
		refused += !!ret;
		if (!ret)
			expect(a.send_cq, i, IBV_WC_SUCCESS);
	}
	CHECK(refused);
	pair_close(&a, &b);
	harness_set("SV_HCA_PERSONALITY", NULL);
}

/* Whatever a device gives, a QP and a CQ hold so much. */
static void queues_hold_what_was_promised(void)
{
	static const char *const personalities[] = { "strict", "rxe", "mlx5", "hostile:1", "hostile:2", "hostile:3" };
	unsigned int i;

	for (i = 0; i < sizeof(personalities) / sizeof(personalities[0]); i++) {
		struct options opt = { .max_send_wr = 5, .max_recv_wr = 6, .max_sge = 3 };
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr;
		struct endpoint a, b;
		uint32_t n;

		harness_set("SV_HCA_PERSONALITY", personalities[i]);
		pair_open(&a, &b, &opt);
		CHECK_EQ(ibv_query_qp(b.qp, &attr, IBV_QP_CAP, &init), 0);
		for (n = 0; n < init.cap.max_recv_wr; n++)
			CHECK_EQ(post_recv(&b, n, 0, 8), 0);
		CHECK_EQ(post_recv(&b, n, 0, 8), ENOMEM);
		/* More than the receives: the last wait. */
		CHECK_EQ(ibv_query_qp(a.qp, &attr, IBV_QP_CAP, &init), 0);
		for (n = 0; n < init.cap.max_send_wr; n++)
			CHECK_EQ(post_send(&a, n, 0, 8, IBV_SEND_SIGNALED), 0);
		CHECK_EQ(post_send(&a, n, 0, 8, IBV_SEND_SIGNALED), ENOMEM);
		pair_close(&a, &b);
	}
	harness_set("SV_HCA_PERSONALITY", NULL);
}

int main(void)
{
	harness_start();
	RUN(strict_gives_what_is_asked_for);
	RUN(rxe_sizes_are_one_less_than_powers_of_two);
	RUN(rxe_keys);
	RUN(rxe_lacks);
	RUN(rxe_is_ethernet);
	RUN(a_cq_is_not_made_smaller_than_what_is_in_it);
	RUN(mlx5_sizes);
	RUN(mlx5_has_no_way_to_sqd);
	RUN(hostile_gives_more);
	RUN(hostile_datagrams_overtake);
	RUN(mlx5_events_of_what_was_there);
	RUN(hostile_events_come_of_nothing);
	RUN(hostile_refuses_on_request);
	RUN(queues_hold_what_was_promised);
	return 0;
}
