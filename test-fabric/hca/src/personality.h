/*
 * The software HCA answers as itself, or as another driver does: limits, rounding of sizes, ids, what is refused. A
 * personality is chosen by SV_HCA_PERSONALITY; README.md says what each is like, personality.c from where that is known.
 */
#ifndef HCA_PERSONALITY_H
#define HCA_PERSONALITY_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

enum personality {
	PERSONALITY_STRICT,	/* our own: all that the verbs leave open is answered as narrowly as it can be */
	PERSONALITY_RXE,
	PERSONALITY_MLX5,
	PERSONALITY_HOSTILE,	/* all that the verbs leave open is drawn at random */
};

struct hca_context;

struct limits {
	uint32_t vendor_id, vendor_part_id;
	const char *fw_ver;
	unsigned int device_cap_flags;
	uint32_t max_qp_wr, max_sge, max_inline;
	uint32_t max_cqe;
	uint32_t max_rd_atomic;
	uint32_t max_srq_wr, max_srq_sge;
	uint32_t max_msg;
	uint32_t pkeys, gids;	/* lengths of the tables */
	uint32_t vectors;	/* of completion */
	uint8_t ack_delay;
	enum ibv_atomic_cap atomic_cap;
	bool xrc, ethernet, srq_resize, sqd, pacing, timestamps, rereg, domains, dm, null_mr, cq_moderation;
};

const struct limits *personality_limits(enum personality personality);

/*
 * What a queue gets that was asked for with these sizes, which are changed to it; 0, or EINVAL where it is too much. The
 * sizes of a QP's receives do not count where it has none of its own.
 */
int personality_qp(struct hca_context *ctx, enum ibv_qp_type type, bool has_rq, struct ibv_qp_cap *cap);
int personality_cq(struct hca_context *ctx, uint32_t *cqe);
int personality_srq(struct hca_context *ctx, uint32_t *max_wr, uint32_t *max_sge);
/* What a number of outstanding reads and atomics becomes that is within the limit. */
uint8_t personality_rd_atomic(const struct hca_context *ctx, uint8_t asked);

/* How the keys of a region are related. */
enum key_kind {
	KEYS_DIFFER,
	KEYS_SAME,		/* lkey and rkey are one number */
	KEYS_NO_REMOTE,		/* there is no rkey: 0 */
};
enum key_kind personality_keys(struct hca_context *ctx, uint32_t access);

/* What the settings of faults are where the hostile one has not been told otherwise. */
void personality_settings(struct hca_context *ctx);
/*
 * True one time in @times, of the hostile one, never of the others. *@dice is under the caller's lock; its first value is from
 * personality_dice.
 */
bool personality_whim(const struct hca_context *ctx, uint32_t *dice, uint32_t times);
uint32_t personality_dice(struct hca_context *ctx);

#endif
