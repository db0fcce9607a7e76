/* Several ports and several devices of one process. */
#include <dirent.h>

#include "harness.h"

static struct endpoint a, b;

static void what_is_told(void)
{
	struct ibv_port_attr one, two;
	struct ibv_device_attr attr;
	struct ibv_gid_entry entries[16], entry;
	union ibv_gid gid1, gid2;

	endpoint_open(&a, NULL);
	CHECK_EQ(ibv_query_device(a.ctx, &attr), 0);
	CHECK_EQ(attr.phys_port_cnt, 2);
	CHECK_EQ(ibv_query_port(a.ctx, 1, &one), 0);
	CHECK_EQ(ibv_query_port(a.ctx, 2, &two), 0);
	CHECK(one.lid != two.lid);
	CHECK_EQ(ibv_query_port(a.ctx, 3, &two), EINVAL);
	CHECK_EQ(ibv_query_port(a.ctx, 0, &two), EINVAL);
	CHECK_EQ(ibv_query_gid(a.ctx, 1, 0, &gid1), 0);
	CHECK_EQ(ibv_query_gid(a.ctx, 2, 0, &gid2), 0);
	CHECK(memcmp(&gid1, &gid2, 16));
	CHECK_EQ(ibv_query_gid_ex(a.ctx, 2, 1, &entry, 0), 0);
	CHECK_EQ(entry.port_num, 2);
	CHECK_EQ(ibv_query_gid_table(a.ctx, entries, 16, 0), 4);
	CHECK_EQ(entries[3].port_num, 2);
	CHECK_EQ(ibv_query_gid_table(a.ctx, entries, 3, 0), 3);
	endpoint_close(&a);
}

static void over_the_second_port(void)
{
	struct options second = { .port = 2 };
	struct ibv_wc wc;

	pair_open(&a, &b, &second);
	CHECK_EQ(post_recv(&b, 1, 0, 64), 0);
	CHECK_EQ(post_send(&a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	wc = expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(wc.slid, a.lid);
	pair_close(&a, &b);
}

/* The QP of one port does not hear what is sent to the other. */
static void to_the_wrong_port(void)
{
	struct options first = { .retry_cnt = 1, .timeout = 12 }, second = { .port = 2 };
	struct address to_a, to_b;
	struct ibv_port_attr port;

	endpoint_open(&a, &first);
	endpoint_open(&b, &second);
	to_a = endpoint_address(&a);
	to_b = endpoint_address(&b);
	CHECK_EQ(ibv_query_port(b.ctx, 1, &port), 0);
	to_b.lid = port.lid;
	endpoint_connect(&a, &to_b);
	endpoint_connect(&b, &to_a);
	CHECK_EQ(post_recv(&b, 1, 0, 64), 0);
	CHECK_EQ(post_send(&a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 2, IBV_WC_RETRY_EXC_ERR);
	poll_none(b.recv_cq, 1);
	pair_close(&a, &b);
}

static void datagrams(void)
{
	struct options ud = { .qp_type = IBV_QPT_UD, .port = 2 };
	union ibv_gid group = { .raw = { 0xff, 0x12, [15] = 9 } };
	struct ibv_ah_attr attr = { .port_num = 2, .is_global = 1 };
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_ah *one, *all;
	struct ibv_wc wc;

	endpoint_open(&a, &ud);
	endpoint_connect(&a, &(struct address){ 0 });
	endpoint_open(&b, &ud);
	endpoint_connect(&b, &(struct address){ 0 });
	sge = sge_of(&a, 0, 8);
	attr.dlid = b.lid;
	CHECK_EQ(ibv_query_gid(b.ctx, 2, 0, &attr.grh.dgid), 0);
	one = ibv_create_ah(a.pd, &attr);
	attr.dlid = 0xc009;
	attr.grh.dgid = group;
	all = ibv_create_ah(a.pd, &attr);
	CHECK(one && all);
	CHECK_EQ(ibv_attach_mcast(b.qp, &group, 0xc009), 0);
	CHECK_EQ(post_recv(&b, 10, 0, 64), 0);
	CHECK_EQ(post_recv(&b, 11, 0, 64), 0);
	CHECK_EQ(post_recv(&b, 12, 0, 64), 0);
	wr.wr.ud.ah = one;
	wr.wr.ud.remote_qpn = b.qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	CHECK_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	wc = expect(b.recv_cq, 10, IBV_WC_SUCCESS);
	CHECK_EQ(wc.slid, a.lid);
	/* Once, though the device has two lids. */
	wr.wr.ud.ah = all;
	wr.wr.ud.remote_qpn = 0xffffff;
	CHECK_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	expect(b.recv_cq, 11, IBV_WC_SUCCESS);
	poll_none(b.recv_cq, 2);
	CHECK_EQ(ibv_detach_mcast(b.qp, &group, 0xc009), 0);
	CHECK_EQ(ibv_destroy_ah(one), 0);
	CHECK_EQ(ibv_destroy_ah(all), 0);
	pair_close(&a, &b);
}

static void port_of(struct ibv_context *ctx, uint16_t *lid, union ibv_gid *gid, __be64 *guid)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;

	CHECK_EQ(ibv_query_port(ctx, 1, &port), 0);
	CHECK_EQ(ibv_query_gid(ctx, 1, 1, gid), 0);
	CHECK_EQ(ibv_query_device(ctx, &device), 0);
	*lid = port.lid;
	*guid = device.node_guid;
}

/* All who have it open see one device; QPs and regions have numbers of their own. */
static void what_opens_share(void)
{
	struct options elsewhere = { .device = 1 };
	union ibv_gid gid, gid2;
	uint16_t lid, lid2;
	__be64 guid, guid2;
	struct ibv_qp *qps[32];
	struct ibv_mr *mrs[12];
	int i, j;

	harness_set("SV_HCA_DEVICES", "2");
	harness_set("SV_HCA_ID_SPACE", "40");
	endpoint_open(&a, NULL);
	endpoint_open(&b, NULL);
	port_of(a.ctx, &lid, &gid, &guid);
	port_of(b.ctx, &lid2, &gid2, &guid2);
	CHECK(lid == lid2 && guid == guid2 && !memcmp(&gid, &gid2, sizeof(gid)));
	CHECK_EQ(ibv_get_device_guid(a.ctx->device), guid);
	for (i = 0; i < 32; i++) {
		qps[i] = endpoint_qp(i % 2 ? &a : &b);
		for (j = 0; j < i; j++)
			CHECK(qps[i]->qp_num != qps[j]->qp_num);
	}
	for (i = 0; i < 32; i++)
		CHECK_EQ(ibv_destroy_qp(qps[i]), 0);
	for (i = 0; i < 12; i++) {
		mrs[i] = ibv_reg_mr(i % 2 ? a.pd : b.pd, a.buf, 64, ACCESS_ALL);
		CHECK(mrs[i]);
		for (j = 0; j < i; j++)
			CHECK(mrs[i]->rkey != mrs[j]->rkey && mrs[i]->lkey != mrs[j]->lkey);
	}
	for (i = 0; i < 12; i++)
		CHECK_EQ(ibv_dereg_mr(mrs[i]), 0);
	endpoint_close(&b);
	endpoint_open(&b, &elsewhere);
	port_of(b.ctx, &lid2, &gid2, &guid2);
	CHECK(lid != lid2 && guid != guid2 && memcmp(&gid, &gid2, sizeof(gid)));
	endpoint_close(&a);
	endpoint_close(&b);
	/* Nobody has it open: it may be another one. */
	harness_set("SV_HCA_ID_SPACE", NULL);
	endpoint_open(&a, NULL);
	port_of(a.ctx, &lid2, &gid2, &guid2);
	CHECK(guid != guid2 && memcmp(&gid, &gid2, sizeof(gid)));
	endpoint_close(&a);
	harness_set("SV_HCA_DEVICES", NULL);
}

static void opens_on_hosts_of_their_own(void)
{
	harness_set("SV_HCA_OWN_LID", "1");
	pair_open(&a, &b, NULL);
	CHECK(a.lid != b.lid);
	CHECK_EQ(post_recv(&b, 1, 0, 64), 0);
	CHECK_EQ(post_send(&a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	pair_close(&a, &b);
	harness_set("SV_HCA_OWN_LID", NULL);
}

static int segment_files(void)
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

static void nothing_remains(void)
{
	CHECK_EQ(segment_files(), 0);
	endpoint_open(&a, NULL);
	CHECK_EQ(segment_files(), 1);
	endpoint_close(&a);
	CHECK_EQ(segment_files(), 0);
}

static void several_devices(void)
{
	struct ibv_device **list;
	struct ibv_context *one, *two;
	int n;

	harness_set("SV_HCA_DEVICES", "3");
	list = ibv_get_device_list(&n);
	CHECK_EQ(n, 3);
	CHECK(ibv_get_device_guid(list[0]) != ibv_get_device_guid(list[1]));
	one = ibv_open_device(list[1]);
	two = ibv_open_device(list[2]);
	CHECK(one && two);
	CHECK(!strcmp(one->device->name, "shadow1"));
	CHECK_EQ(ibv_get_device_index(two->device), 2);
	CHECK_EQ(segment_files(), 2);
	CHECK_EQ(ibv_close_device(one), 0);
	CHECK_EQ(ibv_close_device(two), 0);
	ibv_free_device_list(list);
	harness_set("SV_HCA_DEVICES", NULL);
}

int main(void)
{
	harness_start();
	harness_set("SV_HCA_PORTS", "2");
	RUN(what_is_told);
	RUN(over_the_second_port);
	RUN(to_the_wrong_port);
	RUN(datagrams);
	RUN(what_opens_share);
	RUN(opens_on_hosts_of_their_own);
	RUN(nothing_remains);
	RUN(several_devices);
	return 0;
}
