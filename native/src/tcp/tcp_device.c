/* SPDX-License-Identifier: Apache-2.0 */
/* What stands for libibverbs when ib2tcp is behind the preload library: the device and its events. */
#include "base/real_functions.h"
#include "control/handlers.h"
#include "tcp/tcp.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static struct ibv_device device = {
	.node_type = IBV_NODE_CA,
	.transport_type = IBV_TRANSPORT_IB,
	.name = "tcp0",
	.dev_name = "tcp0",
	.dev_path = "",
	.ibdev_path = "",
};

struct ibv_device *sv_tcp_device(void)
{
	return &device;
}

static struct ibv_device **get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	if (list)
		list[0] = &device;
	if (count)
		*count = list ? 1 : 0;
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	free(list);
}

static const char *get_device_name(struct ibv_device *of)
{
	return of->name;
}

/* One device a host, so its guid is that of the host; locally administered. */
static __be64 get_device_guid(struct ibv_device *of)
{
	(void)of;
	return htobe64(0x0200000000000000ull | (uint32_t)gethostid());
}

static int get_device_index(struct ibv_device *of)
{
	(void)of;
	return -1;
}

/* All GIDs are link-local addresses made for the device, as those of RoCE version 1. */
static int query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, uint32_t *type)
{
	(void)context;
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*type = 0;	/* as the private function counts: IB or RoCE version 1 */
	return 0;
}

static int query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t flags)
{
	(void)qp;
	(void)opcode;
	(void)flags;
	return 0;
}

/* ---- Events: whole records in a pipe, which the preload library has made non-blocking -------------------------- */

static int read_event(int fd, struct sv_tcp_event *event)
{
	return read(fd, event, sizeof(*event)) == sizeof(*event) ? 0 : -1;
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct sv_tcp_event event;

	if (read_event(channel->fd, &event))
		return -1;
	*cq = (struct ibv_cq *)(uintptr_t)event.object;
	*cq_context = (*cq)->cq_context;
	return 0;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	(void)cq;
	(void)count;
}

static int get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct sv_tcp_event raw;

	if (read_event(context->async_fd, &raw))
		return -1;
	event->event_type = raw.type;
	event->element.qp = (struct ibv_qp *)(uintptr_t)raw.object;
	return 0;
}

static void ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}

void sv_tcp_forget_events(int read_fd, int write_fd, const void *object)
{
	struct sv_tcp_event event;
	int bytes = 0;

	/* Once around: the others' events go to the end. */
	if (ioctl(read_fd, FIONREAD, &bytes))
		return;
	for (int left = bytes / (int)sizeof(event); left > 0 && !read_event(read_fd, &event); left--)
		if (event.object != (uintptr_t)object)
			(void)!write(write_fd, &event, sizeof(event));
}

/* ---- What the preload library itself asks for, in C (landings) -------------------------------------------------- */

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	(void)access;
	if (mr)
		*mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = addr, .length = length,
				       .lkey = SV_TCP_LANDING_KEY };
	return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

/* Only ever to the error state; other transitions are the driver's. */
static int modify_qp(struct ibv_qp *v, struct ibv_qp_attr *attr, int mask)
{
	if (mask != IBV_QP_STATE || attr->qp_state != IBV_QPS_ERR)
		return EINVAL;
	sv_tcp_fail(v);
	return 0;
}

/* ---- Device memory ---------------------------------------------------------------------------------------------- */

static void *place(const struct ibv_dm *v, uint64_t offset, size_t length)
{
	const struct sv_tcp_dm *dm = sv_container_of(v, struct sv_tcp_dm, v);

	return offset > dm->length || length > dm->length - offset ? NULL : (void *)(uintptr_t)(dm->base + offset);
}

static int memcpy_to_dm(struct ibv_dm *dm, uint64_t offset, const void *host, size_t length)
{
	void *to = place(dm, offset, length);

	if (to)
		memcpy(to, host, length);
	return to ? 0 : EFAULT;
}

static int memcpy_from_dm(void *host, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	void *from = place(dm, offset, length);

	if (from)
		memcpy(host, from, length);
	return from ? 0 : EFAULT;
}

void sv_tcp_dm_init(struct sv_tcp_dm *dm)
{
	dm->v.memcpy_to_dm = memcpy_to_dm;
	dm->v.memcpy_from_dm = memcpy_from_dm;
}

/* ---- Contexts and selection ------------------------------------------------------------------------------------- */

void sv_tcp_context_init(struct ibv_context *context)
{
	sv_handlers_look();
	context->device = &device;
	context->ops.poll_cq = sv_tcp_poll_cq;
	context->ops.req_notify_cq = sv_tcp_req_notify_cq;
	context->ops.post_send = sv_tcp_post_send;
	context->ops.post_recv = sv_tcp_post_recv;
	context->ops.post_srq_recv = sv_tcp_post_srq_recv;
	context->ops.bind_mw = sv_tcp_bind_mw;
	context->cmd_fd = -1;
	pthread_mutex_init(&context->mutex, NULL);
}

void sv_tcp_functions(struct sv_real_functions *functions)
{
	functions->ibv_get_device_list = get_device_list;
	functions->ibv_free_device_list = free_device_list;
	functions->ibv_get_device_name = get_device_name;
	functions->ibv_get_device_guid = get_device_guid;
	functions->ibv_get_device_index = get_device_index;
	functions->ibv_query_gid_type = query_gid_type;
	functions->ibv_query_qp_data_in_order = query_qp_data_in_order;
	functions->ibv_reg_mr = reg_mr;
	functions->ibv_dereg_mr = dereg_mr;
	functions->ibv_modify_qp = modify_qp;
	functions->ibv_get_cq_event = get_cq_event;
	functions->ibv_ack_cq_events = ack_cq_events;
	functions->ibv_get_async_event = get_async_event;
	functions->ibv_ack_async_event = ack_async_event;
}
