/* The memory, regions, queue pairs and posted receives of one connection. */
#ifndef SELFCHECK_CONNECTION_H
#define SELFCHECK_CONNECTION_H

#include "job.h"
#include "unreliable.h"

/* What a rank publishes for one peer. */
struct connection_card {
	struct queue_address queue;
	uint64_t settings_check;	/* ranks must agree on layout and pattern */
	uint64_t window;
	uint64_t shared;
	uint32_t window_rkey;
	uint32_t shared_rkey;
	uint32_t srq;			/* --xrc: its number */
	struct unreliable_card unreliable;
};

struct connection *connection_create(struct job *job, int peer);
void connection_card_fill(struct connection *connection, struct connection_card *card);
void connection_connect(struct connection *connection, const struct connection_card *card);
void connection_destroy(struct connection *connection);

/* A queue pair, or the two of XRC, in INIT with the next generation number. */
void queue_create(struct connection *connection, struct queue *queue, uint32_t generation);
void queue_connect(struct connection *connection, struct queue *queue, const struct queue_address *peer);

/* Destroys it; its receive buffers become free. */
void queue_destroy(struct connection *connection, struct queue *queue);

/* Of a buffer in the shared receive queue. */
#define SHARED_GENERATION UINT32_MAX

/* Receives posted to the queue; with a shared one, the connection's share of those. */
static inline int *posted_receives(struct connection *connection, struct queue *queue)
{
	return connection->job->srq ? &connection->posted_shared : &queue->posted_receives;
}

/* Posts free buffers until the queue has `limit` receives. */
void receives_post(struct connection *connection, struct queue *queue, int limit);

struct ibv_mr *register_window(struct connection *connection);
struct ibv_mr *register_local(struct connection *connection);

unsigned char *receive_buffer(struct connection *connection, uint32_t buffer);
uint32_t receive_capacity(const struct settings *settings);

static inline uint64_t receive_id(uint32_t generation, int peer, uint32_t buffer)
{
	return (uint64_t)generation << 32 | (uint64_t)peer << 16 | buffer;
}

/* Operations posted and not known to be done. */
uint64_t connection_outstanding(struct connection *connection);

/* Some of them are signaled: a completion must come. */
bool connection_awaits_completion(struct connection *connection);

/* Writes the next version into the region that the peer reads. */
void versioned_advance(struct connection *connection);

#endif
