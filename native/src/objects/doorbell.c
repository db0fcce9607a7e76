/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rxe puts requests into a ring and rings for the kernel by a write(2) to the device's descriptor. The kernel takes that
 * from a thread only that shares its credentials, not by value but by reference, with the one that opened the device
 * (ib_safe_file_access). The threads of a process do, until CRIU restores them: then each has its own, and EACCES is the
 * answer to all but one. The same command by ioctl(2) is free of this rule; it is what libibverbs uses for all others
 * (rdma-core, libibverbs/cmd_fallback.c). The other providers ring by a store, or by ioctl(2).
 */
#include "objects/doorbell.h"

#include <dlfcn.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>

/* Returns 0 or an errno value, like a post. */
static int ring(struct ibv_qp *qp)
{
	struct ib_uverbs_post_send_resp answer = { 0 };
	/* No requests in the command: they are in the ring. */
	struct ib_uverbs_post_send bell = {
		.response = (uintptr_t)&answer,
		.qp_handle = qp->handle,
		.wqe_size = sizeof(struct ib_uverbs_send_wr),
	};
	struct {
		struct ib_uverbs_ioctl_hdr header;
		struct ib_uverbs_attr attrs[3];
	} command = {
		.header = {
			.length = sizeof(command),
			.object_id = UVERBS_OBJECT_DEVICE,
			.method_id = UVERBS_METHOD_INVOKE_WRITE,
			.num_attrs = 3,
			.driver_id = RDMA_DRIVER_RXE,
		},
		.attrs = {
			{ .attr_id = UVERBS_ATTR_CORE_IN, .len = sizeof(bell), .flags = UVERBS_ATTR_F_MANDATORY,
			  .data = (uintptr_t)&bell },
			{ .attr_id = UVERBS_ATTR_CORE_OUT, .len = sizeof(answer), .flags = UVERBS_ATTR_F_MANDATORY,
			  .data = (uintptr_t)&answer },
			{ .attr_id = UVERBS_ATTR_WRITE_CMD, .len = sizeof(uint64_t), .flags = UVERBS_ATTR_F_MANDATORY,
			  .data = IB_USER_VERBS_CMD_POST_SEND },
		},
	};

	return ioctl(qp->context->cmd_fd, RDMA_VERBS_IOCTL, &command) ? errno : 0;
}

static int rxe_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int err = qp->context->ops.post_send(qp, wr, bad);

	if (unlikely(err == EACCES)) {
		int saved = errno;

		err = ring(qp);
		/* What did not fit into the ring: its own error has been lost in that of the doorbell. */
		if (!err && *bad)
			err = ENOMEM;
		errno = saved;
	}
	return err;
}

int (*sv_ringing_post_send(struct ibv_context *real))(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **)
{
	Dl_info provider;

	if (dladdr((void *)real->ops.post_send, &provider) && strstr(provider.dli_fname, "/librxe-"))
		return rxe_post_send;
	return real->ops.post_send;
}
