/* What the inline verbs call through: ibv_context.ops and the extended operations in front of it. */
#include "hca.h"

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	const struct limits *limits = context_of(context)->limits;
	struct ibv_device_attr_ex full = { 0 };
	int ret;

	if (input && input->comp_mask)
		return EINVAL;
	if (size < sizeof(full.orig_attr))
		return EINVAL;
	ret = ibv_query_device(context, &full.orig_attr);
	if (ret)
		return ret;
	full.phys_port_cnt_ex = full.orig_attr.phys_port_cnt;
	if (limits->cq_moderation) {
		full.cq_mod_caps.max_cq_count = UINT16_MAX;
		full.cq_mod_caps.max_cq_period = UINT16_MAX;
	}
	if (limits->dm)
		full.max_dm_size = HCA_MAX_DM;
	if (limits->timestamps) {
		full.completion_timestamp_mask = UINT64_MAX;
		full.hca_core_clock = 1000000;	/* kHz: completions are stamped in nanoseconds */
	}
	full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
	full.packet_pacing_caps = pacing_caps(context_of(context)->seg);
	memset(attr, 0, size);
	memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
	return 0;
}

static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	uint32_t wanted = values->comp_mask;
	uint64_t now = hca_now_ns();

	to_context(context, "ibv_query_rt_values_ex");
	if (wanted & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return EINVAL;
	values->comp_mask = wanted;
	if (wanted & IBV_VALUES_MASK_RAW_CLOCK) {
		/* The unit of completion timestamps, in one number, as mlx5 has it. */
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = now;
	}
	return 0;
}

void ops_set(struct hca_context *ctx)
{
	struct ibv_context_ops *ops = &ctx->vctx.context.ops;
	const struct limits *limits = ctx->limits;

	ops->_compat_query_device = ibv_query_device;
	ops->_compat_query_port = ibv_query_port;
	ops->alloc_mw = mw_alloc;
	ops->bind_mw = mw_bind_type_1;
	ops->dealloc_mw = mw_dealloc;
	ops->post_srq_recv = srq_post;
	ops->poll_cq = cq_poll;
	ops->req_notify_cq = cq_req_notify;
	ops->post_send = send_post;
	ops->post_recv = recv_post;

	/* The rest stays NULL, which the inline verbs answer with EOPNOTSUPP. */
	ctx->vctx.query_port = device_query_port;
	ctx->vctx.create_qp_ex = qp_create_ex;
	ctx->vctx.create_cq_ex = cq_create_ex;
	ctx->vctx.create_srq_ex = srq_create_ex;
	ctx->vctx.query_device_ex = query_device_ex;
	ctx->vctx.get_srq_num = srq_get_num;
	if (limits->null_mr) {
		ctx->vctx.alloc_null_mr = mr_alloc_null;
		ctx->vctx.advise_mr = mr_advise;
	}
	if (limits->dm) {
		ctx->vctx.reg_dm_mr = mr_reg_dm;
		ctx->vctx.alloc_dm = dm_alloc;
		ctx->vctx.free_dm = dm_free;
	}
	if (limits->timestamps)
		ctx->vctx.query_rt_values = query_rt_values;
	if (limits->domains) {
		ctx->vctx.alloc_td = td_alloc;
		ctx->vctx.dealloc_td = td_dealloc;
		ctx->vctx.alloc_parent_domain = pd_alloc_parent;
	}
	if (limits->cq_moderation)
		ctx->vctx.modify_cq = cq_modify;
	if (limits->pacing)
		ctx->vctx.modify_qp_rate_limit = pacing_modify;
	if (limits->xrc) {
		ctx->vctx.open_xrcd = xrcd_open;
		ctx->vctx.close_xrcd = xrcd_close;
		ctx->vctx.open_qp = xrc_open_qp;
	}
	if (ctx->null_mode)
		null_set_ops(ctx);
}
