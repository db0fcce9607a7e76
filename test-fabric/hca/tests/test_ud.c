/* Datagrams: address handles, the forty bytes of the header, Q_Keys, what is dropped, multicast. */
#include <endian.h>

#include "harness.h"

#define GRH 40

static struct endpoint a, b, c;
static struct options ud = { .qp_type = IBV_QPT_UD };

static void open_ud(struct endpoint *ep)
{
	endpoint_open(ep, &ud);
	endpoint_connect(ep, &(struct address){ 0 });
}

static struct ibv_ah *ah_to(struct endpoint *from, struct endpoint *to, bool global)
{
	struct ibv_ah_attr attr = { .dlid = to->lid, .sl = 3, .port_num = 1 };
	struct ibv_ah *ah;

	if (global) {
		attr.is_global = 1;
		attr.grh.sgid_index = 1;
		attr.grh.hop_limit = 7;
		attr.grh.traffic_class = 0x5a;
		attr.grh.flow_label = 0x12345;
		CHECK_EQ(ibv_query_gid(to->ctx, 1, 0, &attr.grh.dgid), 0);
	}
	ah = ibv_create_ah(from->pd, &attr);
	CHECK(ah);
	return ah;
}

static int send_to(struct endpoint *from, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, uint64_t wr_id,
		   uint32_t length, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = sge_of(from, 0, length);
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
		.imm_data = 0x11223344, .wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = qkey },
	}, *bad;

	return ibv_post_send(from->qp, &wr, &bad);
}

static void message(bool global)
{
	struct ibv_grh *grh;
	struct ibv_ah *ah, *back;
	union ibv_gid sgid, dgid;
	struct ibv_wc wc;

	open_ud(&a);
	open_ud(&b);
	grh = (struct ibv_grh *)b.buf;
	ah = ah_to(&a, &b, global);
	memset(a.buf, 'u', 100);
	memset(b.buf, 0, 200);
	CHECK_EQ(post_recv(&b, 1, 0, GRH + 100), 0);
	CHECK_EQ(send_to(&a, ah, b.qp->qp_num, QKEY, 2, 100, IBV_WR_SEND_WITH_IMM), 0);
	wc = expect(a.send_cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_SEND);
	wc = expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, GRH + 100);
	CHECK_EQ(wc.imm_data, 0x11223344);
	CHECK_EQ(wc.wc_flags, IBV_WC_WITH_IMM | (global ? IBV_WC_GRH : 0));
	CHECK_EQ(wc.src_qp, a.qp->qp_num);
	CHECK_EQ(wc.qp_num, b.qp->qp_num);
	CHECK_EQ(wc.slid, a.lid);
	CHECK_EQ(wc.sl, 3);
	CHECK_EQ(b.buf[GRH], 'u');
	CHECK_EQ(b.buf[GRH + 99], 'u');
	CHECK_EQ(b.buf[GRH + 100], 0);
	if (global) {
		CHECK_EQ(ibv_query_gid(a.ctx, 1, 1, &sgid), 0);
		CHECK_EQ(ibv_query_gid(b.ctx, 1, 0, &dgid), 0);
		CHECK(!memcmp(&grh->sgid, &sgid, 16));
		CHECK(!memcmp(&grh->dgid, &dgid, 16));
		CHECK_EQ(be32toh(grh->version_tclass_flow), 0x65a12345);
		CHECK_EQ(grh->hop_limit, 7);
		CHECK_EQ(be16toh(grh->paylen), 128);
	}

	/* And back, to where the completion and the header say that it came from. */
	back = ibv_create_ah_from_wc(b.pd, &wc, grh, 1);
	CHECK(back);
	CHECK_EQ(post_recv(&a, 3, 1000, GRH + 10), 0);
	CHECK_EQ(send_to(&b, back, wc.src_qp, QKEY, 4, 10, IBV_WR_SEND), 0);
	wc = expect(a.recv_cq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(wc.wc_flags, global ? IBV_WC_GRH : 0);
	CHECK_EQ(wc.slid, b.lid);
	CHECK_EQ(ibv_destroy_ah(back), 0);
	CHECK_EQ(ibv_dealloc_pd(a.pd), EBUSY);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	pair_close(&a, &b);
}

static void message_and_answer(void)
{
	message(false);
	message(true);
}

/* A send completes whatever becomes of it. */
static void send_and_forget(struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, uint32_t length)
{
	CHECK_EQ(send_to(&a, ah, qpn, qkey, 9, length, IBV_WR_SEND), 0);
	expect(a.send_cq, 9, IBV_WC_SUCCESS);
}

static void dropped(void)
{
	struct ibv_ah_attr attr = { .port_num = 1, .dlid = 1, .is_global = 1 };
	struct ibv_ah *ah, *wrong_gid, *nobody;
	uint32_t qpn;

	open_ud(&a);
	open_ud(&b);
	qpn = b.qp->qp_num;
	ah = ah_to(&a, &b, false);
	attr.dlid = b.lid;
	wrong_gid = ibv_create_ah(a.pd, &attr);
	attr.is_global = 0;
	attr.dlid = 0xbfff;
	nobody = ibv_create_ah(a.pd, &attr);
	CHECK(wrong_gid && nobody);

	send_and_forget(ah, qpn, QKEY, 4);			/* no receive */
	CHECK_EQ(post_recv(&b, 1, 0, GRH + 4), 0);
	send_and_forget(ah, qpn, QKEY + 1, 4);
	send_and_forget(ah, qpn ^ 1, QKEY, 4);
	send_and_forget(wrong_gid, qpn, QKEY, 4);
	send_and_forget(nobody, qpn, QKEY, 4);
	send_and_forget(ah, qpn, QKEY, 5);			/* the receive is too short */
	poll_none(b.recv_cq, 5);
	send_and_forget(ah, qpn, 0x80000000 | 7, 4);		/* the Q_Key of our own QP */
	expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(qp_state(a.qp), IBV_QPS_RTS);
	CHECK_EQ(qp_state(b.qp), IBV_QPS_RTS);
	CHECK_EQ(ibv_destroy_ah(nobody), 0);
	CHECK_EQ(ibv_destroy_ah(wrong_gid), 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	pair_close(&a, &b);
}

static void one_packet_at_most(void)
{
	struct ibv_ah *ah;

	open_ud(&a);
	open_ud(&b);
	ah = ah_to(&a, &b, false);
	CHECK_EQ(post_recv(&b, 1, 0, GRH + 4096), 0);
	CHECK_EQ(post_recv(&b, 2, 0, GRH + 5000), 0);
	send_and_forget(ah, b.qp->qp_num, QKEY, 4096);
	expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(send_to(&a, ah, b.qp->qp_num, QKEY, 3, 4097, IBV_WR_SEND), 0);
	expect(a.send_cq, 3, IBV_WC_LOC_LEN_ERR);
	CHECK_EQ(qp_state(a.qp), IBV_QPS_SQE);
	poll_none(b.recv_cq, 2);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	pair_close(&a, &b);
}

static void refused(void)
{
	struct ibv_ah_attr attr = { .port_num = 2, .dlid = 1 };
	struct ibv_ah *ah;

	open_ud(&a);
	CHECK(!ibv_create_ah(a.pd, &attr));
	CHECK_EQ(errno, EINVAL);
	attr.port_num = 1;
	attr.dlid = 0xc001;	/* multicast without a GID */
	CHECK(!ibv_create_ah(a.pd, &attr));
	attr.dlid = 1;
	attr.is_global = 1;
	attr.grh.sgid_index = 77;
	CHECK(!ibv_create_ah(a.pd, &attr));
	ah = ah_to(&a, &a, false);
	CHECK_EQ(send_to(&a, ah, 1, QKEY, 1, 4, IBV_WR_RDMA_WRITE), EINVAL);
	CHECK_EQ(send_to(&a, ah, 0x1000000, QKEY, 1, 4, IBV_WR_SEND), EINVAL);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	endpoint_close(&a);
}

/* The handle is not needed any more once the send is posted. */
static void handle_destroyed_early(void)
{
	struct ibv_ah *ah;

	harness_set("SV_HCA_EXEC_DELAY_US", "20000");
	open_ud(&a);
	open_ud(&b);
	ah = ah_to(&a, &b, false);
	CHECK_EQ(post_recv(&b, 1, 0, 100), 0);
	CHECK_EQ(send_to(&a, ah, b.qp->qp_num, QKEY, 2, 4, IBV_WR_SEND), 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	pair_close(&a, &b);
	harness_set("SV_HCA_EXEC_DELAY_US", NULL);
}

/* One QP sends to several, in turn, and receives over an SRQ. */
static void many_destinations(void)
{
	struct options srq = { .qp_type = IBV_QPT_UD, .srq_wr = 8 };
	struct ibv_ah *to_b, *to_c;
	int i;

	open_ud(&a);
	endpoint_open(&b, &srq);
	endpoint_connect(&b, &(struct address){ 0 });
	open_ud(&c);
	to_b = ah_to(&a, &b, true);
	to_c = ah_to(&a, &c, false);
	for (i = 0; i < 20; i++) {
		CHECK_EQ(post_srq_recv(&b, i, 0, 100), 0);
		CHECK_EQ(post_recv(&c, 100 + i, 0, 100), 0);
		send_and_forget(to_b, b.qp->qp_num, QKEY, 8);
		send_and_forget(to_c, c.qp->qp_num, QKEY, 8);
		expect(b.recv_cq, i, IBV_WC_SUCCESS);
		expect(c.recv_cq, 100 + i, IBV_WC_SUCCESS);
	}
	CHECK_EQ(ibv_destroy_ah(to_b), 0);
	CHECK_EQ(ibv_destroy_ah(to_c), 0);
	endpoint_close(&c);
	pair_close(&a, &b);
}

static void multicast(void)
{
	union ibv_gid group = { .raw = { 0xff, 0x12, 0x40, 0x1b, [15] = 7 } }, unicast = { .raw = { 0xfe, 0x80 } };
	struct ibv_ah_attr attr = { .port_num = 1, .dlid = 0xc007, .is_global = 1, .grh.dgid = group };
	struct ibv_ah *ah;
	struct ibv_wc wc;

	open_ud(&a);
	open_ud(&b);
	open_ud(&c);
	ah = ibv_create_ah(a.pd, &attr);
	CHECK(ah);
	CHECK_EQ(ibv_attach_mcast(b.qp, &unicast, 0xc007), EINVAL);
	CHECK_EQ(ibv_detach_mcast(b.qp, &group, 0xc007), EINVAL);
	CHECK_EQ(ibv_attach_mcast(b.qp, &group, 0xc007), 0);
	CHECK_EQ(ibv_attach_mcast(b.qp, &group, 0xc007), 0);
	CHECK_EQ(ibv_attach_mcast(c.qp, &group, 0xc007), 0);
	CHECK_EQ(ibv_attach_mcast(a.qp, &group, 0xc008), 0);
	CHECK_EQ(post_recv(&a, 1, 0, 100), 0);
	CHECK_EQ(post_recv(&b, 2, 0, 100), 0);
	CHECK_EQ(post_recv(&b, 3, 0, 100), 0);
	CHECK_EQ(post_recv(&c, 4, 0, 100), 0);
	send_and_forget(ah, 0xffffff, QKEY, 16);
	wc = expect(b.recv_cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(wc.wc_flags, IBV_WC_GRH);
	CHECK_EQ(wc.byte_len, GRH + 16);
	CHECK(!memcmp(b.buf + 24, &group, 16));
	expect(c.recv_cq, 4, IBV_WC_SUCCESS);
	poll_none(a.recv_cq, 2);
	poll_none(b.recv_cq, 2);

	CHECK_EQ(ibv_destroy_qp(b.qp), EBUSY);
	CHECK_EQ(ibv_detach_mcast(b.qp, &group, 0xc007), 0);
	CHECK_EQ(post_recv(&c, 5, 0, 100), 0);
	send_and_forget(ah, 0xffffff, QKEY, 16);
	expect(c.recv_cq, 5, IBV_WC_SUCCESS);
	poll_none(b.recv_cq, 2);
	CHECK_EQ(ibv_detach_mcast(c.qp, &group, 0xc007), 0);
	CHECK_EQ(ibv_detach_mcast(a.qp, &group, 0xc008), 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	endpoint_close(&c);
	pair_close(&a, &b);
}

static void modify_masks(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct ibv_qp_init_attr init;

	endpoint_open(&a, &ud);
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		 EINVAL);
	CHECK_EQ(qp_init(&a, a.qp), 0);
	CHECK_EQ(qp_rtr(&a, a.qp, &(struct address){ 0 }), 0);
	CHECK_EQ(qp_rts(&a, a.qp), 0);
	attr.qkey = 5;
	CHECK_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_QKEY), 0);
	CHECK_EQ(ibv_query_qp(a.qp, &attr, IBV_QP_QKEY, &init), 0);
	CHECK_EQ(attr.qkey, 5);
	CHECK_EQ(init.qp_type, IBV_QPT_UD);
	endpoint_close(&a);
}

static void null_mode(void)
{
	struct ibv_ah *ah;

	harness_set("SV_HCA_NULL", "1");
	open_ud(&a);
	ah = ah_to(&a, &a, false);
	send_and_forget(ah, 5, QKEY, 4);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	endpoint_close(&a);
	harness_set("SV_HCA_NULL", NULL);
}

int main(void)
{
	harness_start();
	RUN(message_and_answer);
	RUN(dropped);
	RUN(one_packet_at_most);
	RUN(refused);
	RUN(handle_destroyed_early);
	RUN(many_destinations);
	RUN(multicast);
	RUN(modify_masks);
	RUN(null_mode);
	return 0;
}
