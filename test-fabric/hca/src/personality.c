/*
 * Where the answers of other drivers come from:
 * rxe     Linux 6.1 to 6.12, drivers/infiniband/sw/rxe: rxe_param.h (limits), rxe_queue.c (a queue holds 2^n - 1), rxe_qp.c,
 *         rxe_cq.c, rxe_srq.c (checks, what is returned), rxe_mr.c of 6.1 (no rkey without remote access); rdma-core,
 *         providers/rxe/rxe.c (which verbs there are)
 * mlx5    rdma-core, providers/mlx5/verbs.c and srq.c (sizes); Linux, drivers/infiniband/hw/mlx5: qp.c (transitions), srq.c,
 *         mr.c, and include/linux/mlx5/mlx5_ifc.h (last_notified_index); the limits are those that a ConnectX-5 on InfiniBand reports
 */
#include "hca.h"

#define MAX(a, b) ((a) > (b) ? (a) : (b))

static const struct limits limits[] = {
	[PERSONALITY_STRICT] = {
		.vendor_id = HCA_VENDOR_ID, .vendor_part_id = 1, .fw_ver = "1.0.0",
		.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
			IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW |
			IBV_DEVICE_MEM_WINDOW_TYPE_2B,
		.max_qp_wr = 16384, .max_sge = 30, .max_inline = 1024, .max_cqe = 4194303, .max_rd_atomic = 16,
		.max_srq_wr = 16384, .max_srq_sge = 30, .max_msg = HCA_MAX_MSG, .pkeys = 128, .gids = SEG_GIDS, .vectors = 4,
		.ack_delay = 16, .atomic_cap = IBV_ATOMIC_HCA,
		.xrc = true, .srq_resize = true, .sqd = true, .pacing = true, .timestamps = true, .rereg = true, .domains = true,
		.dm = true, .null_mr = true, .cq_moderation = true,
	},
	[PERSONALITY_RXE] = {
		.vendor_id = 0xffffff, .vendor_part_id = 0, .fw_ver = "0.0.0",
		.device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_AUTO_PATH_MIG |
			IBV_DEVICE_CHANGE_PHY_PORT | IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_PORT_ACTIVE_EVENT |
			IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
			IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B,
		.max_qp_wr = 1 << 20, .max_sge = 32, .max_inline = 512, .max_cqe = (1 << 15) - 1, .max_rd_atomic = 128,
		.max_srq_wr = 1 << 20, .max_srq_sge = 27, .max_msg = 8 << 20, .pkeys = 1, .gids = 1024, .vectors = 2,
		.ack_delay = 15, .atomic_cap = IBV_ATOMIC_HCA,
		.ethernet = true, .srq_resize = true, .sqd = true,
	},
	[PERSONALITY_MLX5] = {
		.vendor_id = 0x02c9, .vendor_part_id = 4119, .fw_ver = "16.35.4030",
		.device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_AUTO_PATH_MIG |
			IBV_DEVICE_CHANGE_PHY_PORT | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
			IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_XRC | IBV_DEVICE_MEM_MGT_EXTENSIONS |
			IBV_DEVICE_MEM_WINDOW_TYPE_2B,
		.max_qp_wr = 32768, .max_sge = 30, .max_inline = 1000, .max_cqe = 4194303, .max_rd_atomic = 16,
		.max_srq_wr = 32767, .max_srq_sge = 31, .max_msg = HCA_MAX_MSG, .pkeys = 128, .gids = 8, .vectors = 8,
		.ack_delay = 16, .atomic_cap = IBV_ATOMIC_HCA,
		.xrc = true, .timestamps = true, .rereg = true, .domains = true, .dm = true, .null_mr = true,
		.cq_moderation = true,
	},
	[PERSONALITY_HOSTILE] = {
		.vendor_id = HCA_VENDOR_ID, .vendor_part_id = 2, .fw_ver = "6.6.6",
		.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
			IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW |
			IBV_DEVICE_MEM_WINDOW_TYPE_2B,
		.max_qp_wr = 16384, .max_sge = 30, .max_inline = 1024, .max_cqe = 4194303, .max_rd_atomic = 16,
		.max_srq_wr = 16384, .max_srq_sge = 30, .max_msg = HCA_MAX_MSG, .pkeys = 128, .gids = SEG_GIDS, .vectors = 1,
		.ack_delay = 16, .atomic_cap = IBV_ATOMIC_HCA,
		.xrc = true, .srq_resize = true, .sqd = true, .pacing = true, .timestamps = true, .rereg = true, .domains = true,
		.dm = true, .null_mr = true, .cq_moderation = true,
	},
};

const struct limits *personality_limits(enum personality personality)
{
	return &limits[personality];
}

static uint32_t power_of_two(uint32_t n)
{
	uint32_t power = 1;

	while (power < n)
		power *= 2;
	return power;
}

/* As much more than @n as a driver may give, up to @most; nothing remains nothing. */
static uint32_t some_more(struct hca_context *ctx, uint32_t n, uint32_t most)
{
	uint32_t more = n && n < most ? (ids_random(ctx) >> 11) % (n + 8) : 0;

	return more > most - n ? most : n + more;
}

/* rxe_qp.c: rxe_init_sq, rxe_init_rq. */
static void rxe_qp(bool has_rq, struct ibv_qp_cap *cap)
{
	uint32_t payload = MAX(cap->max_send_sge * (uint32_t)sizeof(struct ibv_sge), cap->max_inline_data);

	cap->max_send_wr = power_of_two(cap->max_send_wr + 1) - 1;
	cap->max_send_sge = payload / sizeof(struct ibv_sge);
	cap->max_inline_data = payload;
	if (has_rq)
		cap->max_recv_wr = power_of_two(cap->max_recv_wr + 1) - 1;
}

#define MLX5_BASIC_BLOCK	64u	/* MLX5_SEND_WQE_BB */
#define MLX5_MAX_SEND_WQE	1024u	/* max_sq_desc_sz */
#define MLX5_DATA_SEG		16u

/* verbs.c: _sq_overhead, with the operations that a QP has unless it is created for fewer. */
static uint32_t mlx5_overhead(enum ibv_qp_type type)
{
	const uint32_t control = 16, umr = 48, mkey = 64, klm = 64, datagram = 48, xrc = 16;

	if (type == IBV_QPT_UD)
		return control + datagram;
	return control + umr + mkey + klm + (type == IBV_QPT_XRC_SEND ? xrc : 0);
}

/* verbs.c: mlx5_calc_sq_size, mlx5_calc_rq_size. */
static int mlx5_qp(enum ibv_qp_type type, bool has_rq, struct ibv_qp_cap *cap)
{
	uint32_t overhead = mlx5_overhead(type), size, inline_size, slots;

	if (cap->max_send_wr) {
		size = overhead + cap->max_send_sge * MLX5_DATA_SEG;
		inline_size = cap->max_inline_data ? overhead + ((4 + cap->max_inline_data + 15) & ~15u) : 0;
		size = (MAX(size, inline_size) + MLX5_BASIC_BLOCK - 1) & ~(MLX5_BASIC_BLOCK - 1);
		if (size > MLX5_MAX_SEND_WQE)
			return EINVAL;
		slots = power_of_two(cap->max_send_wr * size) / MLX5_BASIC_BLOCK;
		if (slots > limits[PERSONALITY_MLX5].max_qp_wr)
			return EINVAL;
		cap->max_inline_data = size - overhead - 4;
		cap->max_send_wr = slots * MLX5_BASIC_BLOCK / size;
	}
	if (has_rq && cap->max_recv_wr) {
		cap->max_recv_sge = power_of_two(MAX(cap->max_recv_sge, 1));
		slots = MAX(power_of_two(cap->max_recv_wr), MLX5_BASIC_BLOCK / (cap->max_recv_sge * MLX5_DATA_SEG));
		cap->max_recv_wr = slots;
	}
	return 0;
}

int personality_qp(struct hca_context *ctx, enum ibv_qp_type type, bool has_rq, struct ibv_qp_cap *cap)
{
	const struct limits *max = ctx->limits;

	if (cap->max_send_wr > max->max_qp_wr || cap->max_send_sge > max->max_sge || cap->max_inline_data > max->max_inline)
		return EINVAL;
	if (has_rq && (cap->max_recv_wr > max->max_qp_wr || cap->max_recv_sge > max->max_sge))
		return EINVAL;
	switch (ctx->personality) {
	case PERSONALITY_RXE:
		rxe_qp(has_rq, cap);
		break;
	case PERSONALITY_MLX5:
		return mlx5_qp(type, has_rq, cap);
	case PERSONALITY_HOSTILE:
		cap->max_send_wr = some_more(ctx, cap->max_send_wr, max->max_qp_wr);
		cap->max_send_sge = some_more(ctx, cap->max_send_sge, max->max_sge);
		cap->max_inline_data = some_more(ctx, cap->max_inline_data, max->max_inline);
		if (has_rq) {
			cap->max_recv_wr = some_more(ctx, cap->max_recv_wr, max->max_qp_wr);
			cap->max_recv_sge = some_more(ctx, cap->max_recv_sge, max->max_sge);
		}
		break;
	case PERSONALITY_STRICT:
		break;
	}
	return 0;
}

/* rxe_cq.c: rxe_cq_from_init; mlx5's verbs.c: align_queue_size(cqe + 1) - 1, of which the one is for resizing. */
int personality_cq(struct hca_context *ctx, uint32_t *cqe)
{
	if (!*cqe || *cqe > ctx->limits->max_cqe)
		return EINVAL;
	if (ctx->personality == PERSONALITY_RXE || ctx->personality == PERSONALITY_MLX5)
		*cqe = power_of_two(*cqe + 1) - 1;
	else if (ctx->personality == PERSONALITY_HOSTILE)
		*cqe = some_more(ctx, *cqe, ctx->limits->max_cqe);
	return 0;
}

/* rxe_srq.c: rxe_srq_chk_init, rxe_srq_from_init; mlx5's srq.c: mlx5_alloc_srq_buf. */
int personality_srq(struct hca_context *ctx, uint32_t *max_wr, uint32_t *max_sge)
{
	const struct limits *max = ctx->limits;

	if (!*max_wr || *max_wr > max->max_srq_wr || *max_sge > max->max_srq_sge)
		return EINVAL;
	switch (ctx->personality) {
	case PERSONALITY_RXE:
		*max_wr = power_of_two(*max_wr + 1) - 1;
		*max_sge = MAX(*max_sge, 1);
		break;
	case PERSONALITY_MLX5:
		*max_wr = power_of_two(*max_wr + 1) - 1;
		*max_sge = power_of_two(MAX(*max_sge, 1) + 1) - 1;
		break;
	case PERSONALITY_HOSTILE:
		*max_wr = some_more(ctx, *max_wr, max->max_srq_wr);
		*max_sge = some_more(ctx, *max_sge, max->max_srq_sge);
		break;
	case PERSONALITY_STRICT:
		break;
	}
	return 0;
}

/* rxe_qp.c: rxe_qp_from_attr. */
uint8_t personality_rd_atomic(const struct hca_context *ctx, uint8_t asked)
{
	return ctx->personality == PERSONALITY_RXE && asked ? power_of_two(asked) : asked;
}

enum key_kind personality_keys(struct hca_context *ctx, uint32_t access)
{
	switch (ctx->personality) {
	case PERSONALITY_RXE:
		return access & ACCESS_REMOTE ? KEYS_SAME : KEYS_NO_REMOTE;
	case PERSONALITY_MLX5:
		return KEYS_SAME;
	case PERSONALITY_HOSTILE:
		if (!(access & ACCESS_REMOTE) && (ids_random(ctx) >> 11) % 2)
			return KEYS_NO_REMOTE;
		return (ids_random(ctx) >> 11) % 2 ? KEYS_SAME : KEYS_DIFFER;
	case PERSONALITY_STRICT:
		break;
	}
	return KEYS_DIFFER;
}

static void set_if_unset(uint32_t *setting, uint32_t value)
{
	if (!*setting)
		*setting = value;
}

void personality_settings(struct hca_context *ctx)
{
	struct hca_settings *settings = &ctx->seg_settings;

	if (!ctx->limits->pacing)
		settings->rate_limit_max = 0;
	if (ctx->personality != PERSONALITY_HOSTILE || ctx->null_mode)
		return;
	/* Completions of different QPs come in any order, late, and not at the first look. */
	set_if_unset(&settings->reorder, 1);
	set_if_unset(&settings->exec_delay_us, (ids_random(ctx) >> 11) % 3 ? 0 : (ids_random(ctx) >> 11) % 300);
	set_if_unset(&settings->completion_delay_us, (ids_random(ctx) >> 11) % 3 ? 0 : (ids_random(ctx) >> 11) % 1000);
	set_if_unset(&settings->withhold_polls, (ids_random(ctx) >> 11) % 4);
	if (settings->refusals)
		set_if_unset(&settings->enomem_every, 50 + (ids_random(ctx) >> 11) % 200);
}

/* A linear congruential generator: the lock that the caller has is all that is held. */
bool personality_whim(const struct hca_context *ctx, uint32_t *dice, uint32_t times)
{
	if (ctx->personality != PERSONALITY_HOSTILE)
		return false;
	*dice = *dice * 1664525u + 1013904223u;
	return (*dice >> 16) % times == 0;
}

uint32_t personality_dice(struct hca_context *ctx)
{
	return ids_random(ctx) >> 11;
}
