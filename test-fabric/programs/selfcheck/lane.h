/* Posting random operations in a lane, and checking what they brought back. */
#ifndef SELFCHECK_LANE_H
#define SELFCHECK_LANE_H

#include "job.h"

size_t lane_buffers_size(const struct settings *settings);
unsigned char *lane_buffer(struct lane *lane, uint64_t index);

/* Posts a chain of random operations if the lane has room for them. Returns how many were posted. */
int lane_post_random(struct lane *lane, struct rng *rng);

/* Posts a notice when there is something to announce or release in a hurry, or when `always`. Returns 1 if posted. */
int lane_post_notice(struct lane *lane, struct rng *rng, bool always);

/* Posts a control message on lane 0 if there is room. Returns 1 if posted. */
int lane_post_control(struct lane *lane, struct rng *rng, const struct control *control);

/* Each posts one request on the lane if there is room, and returns 1 then. */
int lane_post_bind(struct lane *lane, struct rng *rng, struct ibv_mw *mw, uint32_t rkey);
int lane_post_invalidate(struct lane *lane, struct rng *rng, uint32_t rkey);

/* With the last request unsignaled nobody learns that all are done: posts a signaled notice then. */
void lane_flush(struct lane *lane, struct rng *rng);

/* A completion of the send queue. Returns false if the queue pair is of no more use. */
bool lane_retire(struct lane *lane, uint64_t index, const struct ibv_wc *wc);

/* What the lane waits for: its oldest outstanding operations, on stderr. */
void lane_describe(struct lane *lane);

static inline uint64_t send_id(const struct lane *lane, uint64_t index)
{
	return (uint64_t)lane->connection->peer << 56 | (uint64_t)lane->number << 48 |
	       (index & 0xffffffffffffULL);
}

#endif
