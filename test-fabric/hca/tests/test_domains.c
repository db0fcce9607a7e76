/* Parent and thread domains, CQ moderation, ECE, what the device says of itself, the tree that stands for sysfs. */
#include <unistd.h>

#include "harness.h"

static struct endpoint a, b;

static void parent_domain(void)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_parent_domain_init_attr attr = { 0 };
	struct address to_a, to_b;
	struct ibv_pd *parent, *own;
	struct ibv_td *td;

	endpoint_open(&a, NULL);
	endpoint_open(&b, NULL);
	td = ibv_alloc_td(b.ctx, &td_attr);
	CHECK(td);
	attr.pd = b.pd;
	attr.td = td;
	parent = ibv_alloc_parent_domain(b.ctx, &attr);
	CHECK(parent && parent != b.pd);
	CHECK_EQ(ibv_dealloc_td(td), EBUSY);
	CHECK_EQ(ibv_dealloc_pd(b.pd), EBUSY);
	/* A QP of the parent domain uses regions of the domain below. */
	CHECK_EQ(ibv_destroy_qp(b.qp), 0);
	own = b.pd;
	b.pd = parent;
	b.qp = endpoint_qp(&b);
	b.pd = own;
	CHECK_EQ(ibv_dealloc_pd(parent), EBUSY);
	to_a = endpoint_address(&a);
	to_b = endpoint_address(&b);
	endpoint_connect(&a, &to_b);
	endpoint_connect(&b, &to_a);
	CHECK_EQ(post_recv(&b, 1, 0, 64), 0);
	CHECK_EQ(post_send(&a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 2, IBV_WC_SUCCESS);
	expect(b.recv_cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_destroy_qp(b.qp), 0);
	CHECK_EQ(ibv_dealloc_pd(parent), 0);
	CHECK_EQ(ibv_dealloc_td(td), 0);
	td_attr.comp_mask = 1;
	CHECK(!ibv_alloc_td(b.ctx, &td_attr));
	b.qp = endpoint_qp(&b);
	endpoint_close(&a);
	endpoint_close(&b);
}

static void moderation(void)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { 16, 100 } };

	endpoint_open(&a, NULL);
	CHECK_EQ(ibv_modify_cq(a.send_cq, &attr), 0);
	attr.attr_mask = 2;
	CHECK_EQ(ibv_modify_cq(a.send_cq, &attr), EOPNOTSUPP);
	endpoint_close(&a);
}

static void ece(void)
{
	struct ibv_ece ece;

	endpoint_open(&a, NULL);
	CHECK_EQ(ibv_query_ece(a.qp, &ece), 0);
	CHECK(ece.vendor_id);
	CHECK_EQ(ece.options, 0);
	CHECK_EQ(ibv_set_ece(a.qp, &ece), 0);
	ece.options = 1;
	CHECK_EQ(ibv_set_ece(a.qp, &ece), EOPNOTSUPP);
	ece = (struct ibv_ece){ 0 };
	CHECK_EQ(ibv_set_ece(a.qp, &ece), 0);
	ece.comp_mask = 1;
	CHECK_EQ(ibv_set_ece(a.qp, &ece), EINVAL);
	endpoint_close(&a);
}

static void device_attributes(void)
{
	struct ibv_device_attr_ex attr;
	struct ibv_device_attr plain;
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };

	endpoint_open(&a, NULL);
	CHECK_EQ(ibv_query_device_ex(a.ctx, &input, &attr), EINVAL);
	CHECK_EQ(ibv_query_device_ex(a.ctx, NULL, &attr), 0);
	CHECK_EQ(ibv_query_device(a.ctx, &plain), 0);
	CHECK(!memcmp(&attr.orig_attr, &plain, sizeof(plain)));
	CHECK_EQ(attr.phys_port_cnt_ex, plain.phys_port_cnt);
	CHECK_EQ(attr.device_cap_flags_ex, plain.device_cap_flags);
	CHECK(plain.max_srq && plain.max_ah && plain.max_mw && plain.max_mcast_grp);
	CHECK(plain.device_cap_flags & IBV_DEVICE_XRC);
	CHECK(attr.cq_mod_caps.max_cq_count && attr.max_dm_size);
	CHECK_EQ(attr.odp_caps.general_caps, 0);
	endpoint_close(&a);
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
const char *ibv_get_sysfs_path(void);

static void sysfs(void)
{
	struct ibv_device **list;
	char dir[400], text[64];
	int n;

	harness_set("SV_HCA_DEVICES", "2");
	list = ibv_get_device_list(&n);
	CHECK_EQ(n, 2);
	CHECK(!strncmp(ibv_get_sysfs_path(), getenv("SV_HCA_FABRIC"), strlen(getenv("SV_HCA_FABRIC"))));
	snprintf(dir, sizeof(dir), "%s/class/infiniband_verbs/uverbs1", ibv_get_sysfs_path());
	CHECK(!strcmp(list[1]->dev_path, dir));
	CHECK(ibv_read_sysfs_file(dir, "ibdev", text, sizeof(text)) > 0);
	CHECK(!strcmp(text, "shadow1"));
	CHECK(ibv_read_sysfs_file(list[0]->ibdev_path, "ports/1/link_layer", text, sizeof(text)) > 0);
	CHECK(!strcmp(text, "InfiniBand"));
	CHECK(ibv_read_sysfs_file(list[0]->ibdev_path, "nothing", text, sizeof(text)) < 0);
	ibv_free_device_list(list);
	harness_set("SYSFS_PATH", "/elsewhere");
	CHECK(!strcmp(ibv_get_sysfs_path(), "/elsewhere"));
	harness_set("SYSFS_PATH", NULL);
	harness_set("SV_HCA_DEVICES", NULL);
}

int main(void)
{
	harness_start();
	RUN(parent_domain);
	RUN(moderation);
	RUN(ece);
	RUN(device_attributes);
	RUN(sysfs);
	return 0;
}
