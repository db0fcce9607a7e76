#include "connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../common/die.h"
#include "../common/extended.h"
#include "lane.h"

uint32_t receive_capacity(const struct settings *settings)
{
	uint32_t control = sizeof(struct message_head) + sizeof(struct control);

	return settings->max_size > control ? settings->max_size : control;
}

static size_t receive_stride(const struct settings *settings)
{
	return (receive_capacity(settings) + GUARD + 63) / 64 * 64;
}

unsigned char *receive_buffer(struct connection *connection, uint32_t buffer)
{
	return connection->receive_buffers + buffer * receive_stride(&connection->job->settings);
}

static uint64_t settings_check(const struct settings *settings)
{
	uint64_t check = mix64_two(settings->ranks, settings->lanes);

	check = mix64_two(check, settings->max_size);
	check = mix64_two(check, settings->shared_memory);
	check = mix64_two(check, settings->xrc << 8 | settings->unreliable);
	return mix64_two(check, settings->seed);
}

struct ibv_mr *register_window(struct connection *connection)
{
	return endpoint_register(&connection->job->endpoint, connection->window,
				 window_size(&connection->job->settings),
				 ACCESS_ALL | (connection->job->settings.windows ? IBV_ACCESS_MW_BIND : 0));
}

/* All lanes' buffers lie in a row from the first one's. */
struct ibv_mr *register_local(struct connection *connection)
{
	struct job *job = connection->job;

	return endpoint_register(&job->endpoint, connection->lanes[0].buffers,
				 job->settings.lanes * lane_buffers_size(&job->settings), ACCESS_NOTHING_REMOTE);
}

static void lane_init(struct lane *lane, struct connection *connection, int number)
{
	struct settings *settings = &connection->job->settings;

	lane->connection = connection;
	lane->number = number;
	pthread_mutex_init(&lane->lock, NULL);
	lane->ring = calloc(settings->depth, sizeof(*lane->ring));
	lane->scratch = calloc(1, receive_capacity(settings) + 8);
	if (!lane->ring || !lane->scratch)
		die(ENOMEM, "lane of rank %d", connection->peer);
	lane->mr_usable = 3;
	lane->swap_value = swap_next(settings, connection->job->rank, connection->peer, number, 0);
}

static void window_init(struct connection *connection)
{
	struct job *job = connection->job;
	struct settings *settings = &job->settings;
	uint64_t start;

	memset(connection->window, POISON, window_size(settings));
	for (int lane = 0; lane < settings->lanes; lane++) {
		memset(connection->window + hot_offset(settings, lane), 0, 128);
		/* The chain is the peer's: it starts with a value that the peer can compute. */
		start = swap_next(settings, connection->peer, job->rank, lane, 0);
		memcpy(connection->window + cell_offset(settings, lane, CELL_SWAP), &start, 8);
	}
	pattern_fill(connection->window + fixed_offset(settings), settings->max_size,
		     pattern_base(settings, PATTERN_FIXED, job->rank, connection->peer, 0, 0), 0);
	versioned_advance(connection);
}

struct connection *connection_create(struct job *job, int peer)
{
	struct settings *settings = &job->settings;
	struct connection *connection = calloc(1, sizeof(*connection));
	size_t window = (window_size(settings) + 4095) / 4096 * 4096, receives, locals;
	unsigned char *at;

	if (!connection)
		die(ENOMEM, "connection to rank %d", peer);
	connection->job = job;
	connection->peer = peer;
	connection->churn_local = -1;
	connection->receive_count = settings->receive_depth + SPARE_RECEIVES;
	connection->receive_owner = calloc(connection->receive_count, sizeof(*connection->receive_owner));
	if (!connection->receive_owner)
		die(ENOMEM, "receives of rank %d", peer);
	receives = connection->receive_count * receive_stride(settings);
	locals = settings->lanes * lane_buffers_size(settings);
	connection->memory_size = window + receives + locals;
	at = mmap(NULL, connection->memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		die(errno, "mmap of %zu bytes for rank %d", connection->memory_size, peer);
	connection->memory = at;
	connection->window = at;
	connection->receive_buffers = at + window;
	for (int lane = 0; lane < settings->lanes; lane++) {
		lane_init(&connection->lanes[lane], connection, lane);
		connection->lanes[lane].buffers = at + window + receives + lane * lane_buffers_size(settings);
	}
	memset(connection->receive_buffers, POISON, receives);
	window_init(connection);
	connection->window_mr = register_window(connection);
	for (int i = 0; settings->windows && i < 2; i++) {
		connection->mws[i] = ibv_alloc_mw(job->endpoint.pd, IBV_MW_TYPE_2);
		if (!connection->mws[i])
			die(errno, "ibv_alloc_mw");
	}
	connection->local_mr[0] = register_local(connection);
	connection->local_mr[1] = register_local(connection);
	connection->receive_mr = endpoint_register(&job->endpoint, connection->receive_buffers, receives,
						   ACCESS_NOTHING_REMOTE);
	queue_create(connection, &connection->queue, 1);
	return connection;
}

/* The end of XRC that the peer's requests come to; each of them names a shared receive queue. */
static struct ibv_qp *create_receiver(struct connection *connection)
{
	struct job *job = connection->job;
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = job->xrcd,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(job->endpoint.context, &init);

	if (!qp)
		die(errno, "ibv_create_qp_ex of XRC for rank %d", connection->peer);
	return qp;
}

void queue_create(struct connection *connection, struct queue *queue, uint32_t generation)
{
	struct job *job = connection->job;
	struct ibv_qp_init_attr init = {
		.send_cq = job->send_cq,
		.recv_cq = job->receive_cq,
		.srq = job->xrcd ? NULL : job->srq,
		.cap = {
			.max_send_wr = job->settings.depth * job->settings.lanes,
			.max_recv_wr = job->xrcd ? 0 : job->settings.receive_depth,
			.max_send_sge = MAX_SGE,
			.max_recv_sge = job->xrcd ? 0 : 2,
			.max_inline_data = job->max_inline,
		},
		.qp_type = job->xrcd ? IBV_QPT_XRC_SEND : IBV_QPT_RC,
	};

	memset(queue, 0, sizeof(*queue));
	queue->qp = job->way->create_qp(job->endpoint.pd, &init);
	if (!queue->qp)
		die(errno, "ibv_create_qp for rank %d", connection->peer);
	if (init.cap.max_inline_data < job->max_inline)
		job->max_inline = init.cap.max_inline_data;
	queue->generation = generation;
	queue->receiver = job->xrcd ? create_receiver(connection) : queue->qp;
	qp_initialize(&job->endpoint, queue->qp, ACCESS_ALL, &queue->own.sender);
	queue->own.receiver = queue->own.sender;
	if (queue->receiver != queue->qp)
		qp_initialize(&job->endpoint, queue->receiver, ACCESS_ALL, &queue->own.receiver);
}

void queue_connect(struct connection *connection, struct queue *queue, const struct queue_address *peer)
{
	struct endpoint *endpoint = &connection->job->endpoint;

	queue->peer = *peer;
	qp_connect(endpoint, queue->qp, &queue->own.sender, &peer->receiver, &qp_patient);
	if (queue->receiver != queue->qp)
		qp_connect(endpoint, queue->receiver, &queue->own.receiver, &peer->sender, &qp_patient);
}

void queue_destroy(struct connection *connection, struct queue *queue)
{
	if (queue->receiver != queue->qp)
		qp_destroy(queue->receiver);
	qp_destroy(queue->qp);
	for (int buffer = 0; buffer < connection->receive_count; buffer++)
		if (connection->receive_owner[buffer] == queue->generation)
			connection->receive_owner[buffer] = 0;
	memset(queue, 0, sizeof(*queue));
}

static void receive_post(struct connection *connection, struct queue *queue, uint32_t buffer)
{
	struct job *job = connection->job;
	unsigned char *memory = receive_buffer(connection, buffer);
	uint32_t generation = job->srq ? SHARED_GENERATION : queue->generation;
	uint32_t capacity = receive_capacity(&job->settings), first = rng_below(&job->rng, capacity);
	struct ibv_sge sge[2] = {
		{ .addr = (uintptr_t)memory, .length = first, .lkey = connection->receive_mr->lkey },
		{ .addr = (uintptr_t)memory + first, .length = capacity - first,
		  .lkey = connection->receive_mr->lkey },
	};
	struct ibv_recv_wr *bad = NULL, wr = {
		.wr_id = receive_id(generation, connection->peer, buffer),
		/* A first piece of no bytes would mean 2^31 bytes on some devices. */
		.sg_list = first ? sge : sge + 1,
		.num_sge = first ? 2 : 1,
	};
	int err = job->srq ? ibv_post_srq_recv(job->srq, &wr, &bad) : ibv_post_recv(queue->qp, &wr, &bad);

	if (err)
		die(err, "posting a receive for rank %d", connection->peer);
	connection->receive_owner[buffer] = generation;
	++*posted_receives(connection, queue);
}

void receives_post(struct connection *connection, struct queue *queue, int limit)
{
	for (int buffer = 0; buffer < connection->receive_count && *posted_receives(connection, queue) < limit; buffer++)
		if (!connection->receive_owner[buffer])
			receive_post(connection, queue, buffer);
}

void connection_card_fill(struct connection *connection, struct connection_card *card)
{
	struct job *job = connection->job;

	memset(card, 0, sizeof(*card));
	card->queue = connection->queue.own;
	card->settings_check = settings_check(&job->settings);
	card->window = (uintptr_t)connection->window;
	card->window_rkey = connection->window_mr->rkey;
	card->shared = (uintptr_t)job->shared_cells;
	card->shared_rkey = job->shared_mr->rkey;
	if (job->xrcd && ibv_get_srq_num(job->srq, &card->srq))
		die(errno, "ibv_get_srq_num");
	unreliable_card_fill(job, connection->peer, &card->unreliable);
}

void connection_connect(struct connection *connection, const struct connection_card *card)
{
	struct settings *settings = &connection->job->settings;

	if (card->settings_check != settings_check(settings))
		die(0, "rank %d was started with other -n, --threads, --max-size, --shared-memory, --xrc, --unreliable or "
		    "--seed",
		    connection->peer);
	connection->peer_window = card->window;
	connection->peer_shared = card->shared;
	connection->peer_shared_rkey = card->shared_rkey;
	connection->peer_srq = card->srq;
	for (int lane = 0; lane < settings->lanes; lane++)
		connection->lanes[lane].window_rkey = card->window_rkey;
	queue_connect(connection, &connection->queue, &card->queue);
	receives_post(connection, &connection->queue, settings->receive_depth);
	unreliable_connect(connection->job, connection->peer, &card->unreliable);
}

void connection_destroy(struct connection *connection)
{
	queue_destroy(connection, &connection->queue);
	if (connection->next_queue.qp)
		queue_destroy(connection, &connection->next_queue);
	if (connection->churn_window)
		mr_deregister(connection->churn_window);
	for (int i = 0; i < 2; i++)
		if (connection->mws[i] && (errno = ibv_dealloc_mw(connection->mws[i])))
			die(errno, "ibv_dealloc_mw");
	mr_deregister(connection->window_mr);
	mr_deregister(connection->receive_mr);
	for (int i = 0; i < 2; i++)
		if (connection->local_mr[i])
			mr_deregister(connection->local_mr[i]);
	for (int lane = 0; lane < connection->job->settings.lanes; lane++) {
		free(connection->lanes[lane].ring);
		free(connection->lanes[lane].scratch);
		pthread_mutex_destroy(&connection->lanes[lane].lock);
	}
	munmap(connection->memory, connection->memory_size);
	free(connection->receive_owner);
	free(connection);
}

uint64_t connection_outstanding(struct connection *connection)
{
	uint64_t outstanding = 0;

	for (int i = 0; i < connection->job->settings.lanes; i++) {
		struct lane *lane = &connection->lanes[i];

		pthread_mutex_lock(&lane->lock);
		outstanding += lane->head - lane->tail;
		pthread_mutex_unlock(&lane->lock);
	}
	return outstanding;
}

bool connection_awaits_completion(struct connection *connection)
{
	int depth = connection->job->settings.depth;
	bool awaits = false;

	for (int i = 0; i < connection->job->settings.lanes; i++) {
		struct lane *lane = &connection->lanes[i];

		pthread_mutex_lock(&lane->lock);
		for (uint64_t index = lane->tail; index < lane->head; index++)
			awaits = awaits || lane->ring[index % depth].signaled;
		pthread_mutex_unlock(&lane->lock);
	}
	return awaits;
}

void versioned_advance(struct connection *connection)
{
	struct settings *settings = &connection->job->settings;
	uint64_t *words = (uint64_t *)(connection->window + versioned_offset(settings));

	/* In order and each word at once: who meets a word of the next version knows that all have this one. */
	for (uint32_t i = 0; i < VERSIONED_WORDS; i++)
		__atomic_store_n(&words[i], versioned_word(settings, connection->job->rank, connection->peer,
							   connection->version + 1, i), __ATOMIC_RELEASE);
	__atomic_store_n(&connection->version, connection->version + 1, __ATOMIC_RELEASE);
}
