/* Devices and contexts: the list, open and close, and the queries about device, port, GIDs and P_Keys. */
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "hca.h"

/* The devices of this process, made once; opened again and again. */
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hca_device *devices[64];

/* A locally administered EUI-64. */
static __be64 guid_draw(void)
{
	uint64_t guid = 0;

	if (getrandom(&guid, sizeof(guid), GRND_NONBLOCK) != sizeof(guid))
		guid = hca_now_ns();
	return htobe64((guid & 0x00ffffffffffffffULL) | 0x0200000000000000ULL);
}

/* A folder of the device as a program finds it; empty where the fabric directory has too long a name. */
static void path_set(char path[IBV_SYSFS_PATH_MAX], const char *name, unsigned int index)
{
	if (snprintf(path, IBV_SYSFS_PATH_MAX, "%s/class/%s%u", ibv_get_sysfs_path(), name, index) >= IBV_SYSFS_PATH_MAX)
		path[0] = 0;
}

static struct hca_device *device_get(unsigned int index)
{
	struct hca_device *dev;

	pthread_mutex_lock(&devices_lock);
	dev = devices[index];
	if (!dev) {
		dev = object_alloc(sizeof(*dev));
		if (dev) {
			dev->device.node_type = IBV_NODE_CA;
			dev->device.transport_type = IBV_TRANSPORT_IB;
			snprintf(dev->device.name, sizeof(dev->device.name), "shadow%u", index);
			snprintf(dev->device.dev_name, sizeof(dev->device.dev_name), "uverbs%u", index);
			path_set(dev->device.dev_path, "infiniband_verbs/uverbs", index);
			path_set(dev->device.ibdev_path, "infiniband/shadow", index);
			dev->index = index;
			dev->guid = guid_draw();
			dev->magic = OBJECT_MAGIC(MAGIC_DEVICE, dev);
			devices[index] = dev;
		}
	}
	pthread_mutex_unlock(&devices_lock);
	return dev;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	unsigned int n = hca_settings_devices(), i;
	struct ibv_device **list = calloc(n + 1, sizeof(*list));
	struct hca_settings settings;

	hca_settings_read(&settings);
	if (num_devices)
		*num_devices = 0;
	if (!list) {
		errno = ENOMEM;
		return NULL;
	}
	for (i = 0; i < n; i++) {
		struct hca_device *dev = device_get(i);

		if (!dev) {
			free(list);
			errno = ENOMEM;
			return NULL;
		}
		list[i] = &dev->device;
		if (!settings.null_mode)
			sysfs_create(i);
	}
	if (num_devices)
		*num_devices = n;
	return list;
}

/* The devices stay: programs may free the list before they open one of them. */
void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return to_device(device, "ibv_get_device_name")->device.name;
}

int ibv_get_device_index(struct ibv_device *device)
{
	return to_device(device, "ibv_get_device_index")->index;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	struct hca_device *dev = to_device(device, "ibv_get_device_guid");
	__be64 guid;

	pthread_mutex_lock(&devices_lock);
	guid = dev->guid;
	pthread_mutex_unlock(&devices_lock);
	return guid;
}

static void context_free(struct hca_context *ctx)
{
	uint32_t i;

	/* What others have open they go on with. */
	for (i = 0; ctx->orphans && i < SEG_MAX_QP; i++)
		if (ctx->qp[i] && ctx->qp[i]->closed && !ctx->qp[i]->handles)
			qp_free(ctx->qp[i]);
	if (ctx->async)
		event_list_destroy(ctx->async);
	free(ctx->qp);
	free(ctx->cq);
	object_free(ctx, sizeof(*ctx));
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct hca_device *dev = to_device(device, "ibv_open_device");
	struct hca_context *ctx = object_alloc(sizeof(*ctx));
	struct ibv_context *public;
	int saved;

	if (!ctx)
		return NULL;
	public = &ctx->vctx.context;
	hca_settings_read(&ctx->seg_settings);
	ctx->personality = ctx->seg_settings.personality;
	ctx->limits = personality_limits(ctx->personality);
	ctx->null_mode = ctx->seg_settings.null_mode;
	ids_seed(ctx);
	personality_settings(ctx);
	pthread_mutex_init(&ctx->lock, NULL);
	pthread_mutex_init(&ctx->key_lock, NULL);
	pthread_mutex_init(&ctx->handle_lock, NULL);
	pthread_mutex_init(&ctx->engine_lock, NULL);
	pthread_mutex_init(&ctx->stall_lock, NULL);
	pthread_rwlock_init(&ctx->peers_lock, NULL);
	pthread_mutex_init(&public->mutex, NULL);
	public->device = device;
	public->num_comp_vectors = ctx->limits->vectors;
	public->abi_compat = __VERBS_ABI_IS_EXTENDED;
	ctx->vctx.sz = sizeof(ctx->vctx);
	ctx->vctx.priv = (struct verbs_ex_private *)ctx;
	ops_set(ctx);

	ctx->qp = calloc(SEG_MAX_QP, sizeof(*ctx->qp));
	ctx->cq = calloc(SEG_MAX_CQ, sizeof(*ctx->cq));
	ctx->async = event_list_create();
	if (!ctx->qp || !ctx->cq || !ctx->async || fabric_open(ctx)) {
		saved = errno ? errno : ENOMEM;
		context_free(ctx);
		errno = saved;
		return NULL;
	}
	public->cmd_fd = ctx->seg_fd;
	public->async_fd = event_list_fd(ctx->async);
	ctx->magic = OBJECT_MAGIC(MAGIC_CONTEXT, ctx);
	pthread_mutex_lock(&devices_lock);
	ctx->guid = dev->guid = ctx->seg->guid;
	dev->opens++;
	pthread_mutex_unlock(&devices_lock);
	return public;
}

int ibv_close_device(struct ibv_context *context)
{
	struct hca_context *ctx = to_context(context, "ibv_close_device");
	struct hca_device *dev = (struct hca_device *)context->device;

	/* A driver leaves these to the kernel; whoever re-creates every object wants to know. */
	if (ctx->seg->settings.report_leaks &&
	    (ctx->qps || ctx->cqs || ctx->mrs || ctx->pds || ctx->channels || ctx->srqs ||
	     ctx->ahs || ctx->mws || ctx->dms))
		fprintf(stderr, "shadow-hca: %s closed with %u QP, %u CQ, %u MR, %u PD, %u channels, %u SRQ, %u AH, "
			"%u MW, %u DM alive\n",
			context->device->name, ctx->qps, ctx->cqs, ctx->mrs, ctx->pds, ctx->channels, ctx->srqs,
			ctx->ahs, ctx->mws, ctx->dms);
	fabric_close(ctx);
	pthread_mutex_lock(&devices_lock);
	if (!--dev->opens)
		dev->guid = guid_draw();
	pthread_mutex_unlock(&devices_lock);
	context_free(ctx);
	return 0;
}

void device_fatal(struct hca_context *ctx)
{
	if (!__atomic_exchange_n(&ctx->seg->fatal, 1, __ATOMIC_SEQ_CST))
		event_async(ctx, IBV_EVENT_DEVICE_FATAL, 0, 0);
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct hca_context *ctx = to_context(context, "ibv_query_device");
	const struct limits *limits = ctx->limits;

	if (seg_load(&ctx->seg->fatal))
		return hca_errno(EIO);
	memset(attr, 0, sizeof(*attr));
	snprintf(attr->fw_ver, sizeof(attr->fw_ver), "%s", limits->fw_ver);
	attr->node_guid = ctx->guid;
	attr->sys_image_guid = ctx->guid;
	attr->max_mr_size = UINT64_MAX;
	attr->page_size_cap = 0xfffffffffffff000ULL;
	attr->vendor_id = limits->vendor_id;
	attr->vendor_part_id = limits->vendor_part_id;
	attr->max_qp = SEG_MAX_QP;
	attr->max_qp_wr = limits->max_qp_wr;
	attr->device_cap_flags = limits->device_cap_flags;
	attr->max_sge = limits->max_sge;
	attr->max_sge_rd = limits->max_sge;
	attr->max_cq = SEG_MAX_CQ;
	attr->max_cqe = limits->max_cqe;
	attr->max_mr = SEG_MAX_MR - 1;
	attr->max_mw = SEG_MAX_MR - 1;
	attr->max_pd = 1 << 20;
	attr->max_qp_rd_atom = limits->max_rd_atomic;
	attr->max_res_rd_atom = limits->max_rd_atomic * SEG_MAX_QP;
	attr->max_qp_init_rd_atom = limits->max_rd_atomic;
	attr->atomic_cap = limits->atomic_cap;
	attr->max_ah = 1 << 20;
	attr->max_mcast_grp = SEG_MAX_MCAST;
	attr->max_mcast_qp_attach = SEG_MAX_MCAST;
	attr->max_total_mcast_qp_attach = SEG_MAX_MCAST;
	attr->max_srq = SEG_MAX_SRQ;
	attr->max_srq_wr = limits->max_srq_wr;
	attr->max_srq_sge = limits->max_srq_sge;
	attr->max_pkeys = limits->pkeys;
	attr->local_ca_ack_delay = limits->ack_delay;
	attr->phys_port_cnt = ctx->seg->ports;
	return 0;
}

static void port_fill(struct hca_context *ctx, uint8_t port_num, struct ibv_port_attr *attr)
{
	bool ethernet = ctx->seg->ethernet;

	attr->state = IBV_PORT_ACTIVE;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = ethernet ? IBV_MTU_1024 : IBV_MTU_4096;
	attr->gid_tbl_len = ctx->limits->gids;
	attr->port_cap_flags = IBV_PORT_AUTO_MIGR_SUP | IBV_PORT_SYS_IMAGE_GUID_SUP | IBV_PORT_CM_SUP;
	attr->max_msg_sz = ctx->limits->max_msg;
	attr->pkey_tbl_len = ctx->limits->pkeys;
	attr->max_vl_num = ethernet ? 1 : 4;
	attr->active_width = 2;
	attr->active_speed = 32;
	attr->phys_state = 5;
	attr->link_layer = ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
	if (ethernet) {
		attr->port_cap_flags = IBV_PORT_CM_SUP;
		attr->flags = IBV_QPF_GRH_REQUIRED;
		return;
	}
	attr->lid = seg_port(ctx->seg, port_num)->lid;
	attr->sm_lid = 1;
	attr->subnet_timeout = 18;
}

int device_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr, size_t size)
{
	struct hca_context *ctx = to_context(context, "ibv_query_port");
	struct ibv_port_attr full = { 0 };

	if (seg_load(&ctx->seg->fatal))
		return hca_errno(EIO);
	if (!port_exists(ctx->seg, port_num))
		return hca_errno(EINVAL);
	port_fill(ctx, port_num, &full);
	memset(attr, 0, size);
	memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
	return 0;
}

/* Programs that were built against an older header know the struct only up to flags. */
int ibv_query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *attr)
{
	return device_query_port(context, port_num, (struct ibv_port_attr *)attr,
				 offsetof(struct ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	struct hca_context *ctx = to_context(context, "ibv_query_gid");

	if (!port_exists(ctx->seg, port_num) || index < 0 || index >= (int)ctx->limits->gids) {
		errno = EINVAL;
		return -1;
	}
	memset(gid, 0, sizeof(*gid));
	if (index < (int)SEG_GIDS)
		*gid = seg_port(ctx->seg, port_num)->gid[index];
	return 0;
}

static bool gid_is_empty(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

static void gid_entry(struct hca_context *ctx, uint32_t port_num, uint32_t index, struct ibv_gid_entry *entry, size_t size)
{
	struct ibv_gid_entry full = {
		.gid = seg_port(ctx->seg, port_num)->gid[index],
		.gid_index = index,
		.port_num = port_num,
		.gid_type = ctx->seg->ethernet ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB,
	};

	memcpy(entry, &full, size < sizeof(full) ? size : sizeof(full));
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	struct hca_context *ctx = to_context(context, "ibv_query_gid_ex");

	if (flags)
		return hca_errno(EOPNOTSUPP);
	if (!port_exists(ctx->seg, port_num) || gid_index >= ctx->limits->gids)
		return hca_errno(EINVAL);
	if (gid_index >= SEG_GIDS || gid_is_empty(&seg_port(ctx->seg, port_num)->gid[gid_index]))
		return hca_errno(ENODATA);
	gid_entry(ctx, port_num, gid_index, entry, entry_size);
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries,
			     uint32_t flags, size_t entry_size)
{
	struct hca_context *ctx = to_context(context, "ibv_query_gid_table");
	size_t n = 0;
	uint32_t i, port;

	if (flags)
		return -EOPNOTSUPP;
	for (port = 1; port <= ctx->seg->ports; port++) {
		for (i = 0; i < SEG_GIDS && n < max_entries; i++) {
			if (gid_is_empty(&seg_port(ctx->seg, port)->gid[i]))
				continue;
			gid_entry(ctx, port, i, (struct ibv_gid_entry *)((char *)entries + n * entry_size), entry_size);
			n++;
		}
	}
	return n;
}

/* Private to rdma-core's own libraries: 0 is IB or RoCE v1, 1 is RoCE v2. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, uint32_t *type);
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, uint32_t *type)
{
	struct hca_context *ctx = to_context(context, "ibv_query_gid_type");

	if (!port_exists(ctx->seg, port_num) || index >= ctx->limits->gids) {
		errno = EINVAL;
		return -1;
	}
	*type = ctx->seg->ethernet;
	return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	struct hca_context *ctx = to_context(context, "ibv_query_pkey");

	if (!port_exists(ctx->seg, port_num) || index < 0 || index >= (int)ctx->limits->pkeys) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(index ? 0 : 0xffff);
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	struct hca_context *ctx = to_context(context, "ibv_get_pkey_index");

	if (port_exists(ctx->seg, port_num) && (be16toh(pkey) & 0x7fff) == 0x7fff)
		return 0;
	errno = EINVAL;
	return -1;
}

static int fork_state;

int ibv_fork_init(void)
{
	fork_state = 1;
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return fork_state ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}

/* The mappings of this library are kept out of children, and payload is copied by address: nothing to protect. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dontfork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}

int ibv_dofork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[512];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, buf, size);
	close(fd);
	if (n > 0 && buf[n - 1] == '\n')
		buf[--n] = 0;
	else if (n >= 0 && (size_t)n < size)
		buf[n] = 0;
	return n;
}

int ibv_read_ibdev_sysfs_file(char *buf, size_t size, void *sysfs_dev, const char *format, ...);
int ibv_read_ibdev_sysfs_file(char *buf, size_t size, void *sysfs_dev, const char *format, ...)
{
	(void)buf;
	(void)size;
	(void)sysfs_dev;
	(void)format;
	errno = ENOENT;
	return -1;
}
