#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "../common/die.h"
#include "../common/extended.h"
#include "lane.h"

#define CHAIN_AT_MOST 3
#define RELEASE_AT SLOTS / 2
#define NOTICE_EVERY 24		/* operations */

/* Requests built in one go and handed over in one call. */
struct chain {
	struct ibv_send_wr wr[CHAIN_AT_MOST + 1];
	struct ibv_sge sge[CHAIN_AT_MOST + 1][MAX_SGE];
	int used;
};

static size_t buffer_stride(const struct settings *settings)
{
	uint32_t control = sizeof(struct message_head) + sizeof(struct control);
	uint32_t longest = settings->max_size > control ? settings->max_size : control;

	return (longest + MAX_SGE * GUARD + 63) / 64 * 64;
}

size_t lane_buffers_size(const struct settings *settings)
{
	return settings->depth * buffer_stride(settings);
}

unsigned char *lane_buffer(struct lane *lane, uint64_t index)
{
	struct settings *settings = &lane->connection->job->settings;

	return lane->buffers + index % settings->depth * buffer_stride(settings);
}

static int lane_free(const struct lane *lane)
{
	return lane->connection->job->settings.depth - (int)(lane->head - lane->tail);
}

/* Mostly small, at times the extremes and the neighbours of powers of two. */
static uint32_t random_size(struct rng *rng, uint32_t least, uint32_t most)
{
	uint32_t size = 1U << rng_below(rng, 21);

	switch (rng_below(rng, 8)) {
	case 0:
		size = rng_one_in(rng, 4) ? most : least;
		break;
	case 1:
		size += rng_below(rng, 3) - 1;
		break;
	default:
		size = rng_below(rng, size);
	}
	return size < least ? least : size > most ? most : size;
}

static uint32_t pick_lkey(struct lane *lane, struct rng *rng)
{
	int which = rng_below(rng, 2);

	if (!(lane->mr_usable & 1U << which))
		which = !which;
	return lane->connection->local_mr[which]->lkey;
}

/* Cuts `length` bytes into pieces of multiples of 8 (but for the last), with a guard between them. */
static void cut(struct operation *op, struct rng *rng, uint32_t length)
{
	uint32_t at = 0;

	op->pieces_used = 0;
	op->length = length;
	while (length && op->pieces_used < MAX_SGE) {
		uint32_t size = length;

		if (op->pieces_used < MAX_SGE - 1 && length > 8 && !rng_one_in(rng, 3))
			size = (1 + rng_below(rng, length / 8)) * 8;
		op->pieces[op->pieces_used++] = (struct piece){ .at = at, .size = size };
		length -= size;
		/* The guard also keeps all pieces at the same place within a word. */
		at += (size + 7) / 8 * 8 + GUARD;
	}
}

static struct operation *op_at(struct lane *lane, uint64_t index)
{
	return &lane->ring[index % lane->connection->job->settings.depth];
}

static struct ibv_send_wr *chain_add(struct chain *chain, struct lane *lane, struct rng *rng, enum op_kind kind,
				     enum ibv_wr_opcode opcode)
{
	struct settings *settings = &lane->connection->job->settings;
	struct ibv_send_wr *wr = &chain->wr[chain->used];
	struct operation *op = op_at(lane, lane->head);
	int left = lane_free(lane) - 1;

	memset(wr, 0, sizeof(*wr));
	memset(op, 0, sizeof(*op));
	op->kind = kind;
	/* The last entries, and one in each half queue, are signaled: room is only made by completions. */
	op->signaled = (int)rng_below(rng, 100) >= settings->unsignaled_percent || left <= LAST_FREE ||
		       lane->head % (settings->depth / 2) == 0;
	wr->wr_id = send_id(lane, lane->head);
	wr->opcode = opcode;
	wr->sg_list = chain->sge[chain->used];
	wr->qp_type.xrc.remote_srqn = lane->connection->peer_srq;
	if (op->signaled)
		wr->send_flags |= IBV_SEND_SIGNALED;
	if (!settings->no_fence && rng_one_in(rng, 16))
		wr->send_flags |= IBV_SEND_FENCE;
	if (chain->used)
		chain->wr[chain->used - 1].next = wr;
	chain->used++;
	lane->head++;
	return wr;
}

/* Somebody waits for the chain's last request. */
static void make_signaled(struct chain *chain, struct lane *lane)
{
	if (!chain->used)
		return;
	op_at(lane, lane->head - 1)->signaled = true;
	chain->wr[chain->used - 1].send_flags |= IBV_SEND_SIGNALED;
}

static void set_sges(struct ibv_send_wr *wr, struct lane *lane, struct rng *rng, struct operation *op,
		     unsigned char *buffer)
{
	wr->num_sge = op->pieces_used;
	for (int i = 0; i < op->pieces_used; i++) {
		wr->sg_list[i].addr = (uintptr_t)buffer + op->pieces[i].at;
		wr->sg_list[i].length = op->pieces[i].size;
		/* An inline request needs no key: the bytes are taken by the processor. */
		wr->sg_list[i].lkey = wr->send_flags & IBV_SEND_INLINE ? 0 : pick_lkey(lane, rng);
	}
}

/* Scatters what is in the lane's scratch over the pieces of the newest operation. */
static void set_payload(struct ibv_send_wr *wr, struct lane *lane, struct rng *rng, uint32_t length)
{
	struct operation *op = op_at(lane, lane->head - 1);
	unsigned char *buffer = lane_buffer(lane, lane->head - 1), *from = lane->scratch;

	cut(op, rng, length);
	for (int i = 0; i < op->pieces_used; i++) {
		memcpy(buffer + op->pieces[i].at, from, op->pieces[i].size);
		from += op->pieces[i].size;
	}
	if (length <= lane->connection->job->max_inline && rng_one_in(rng, 2))
		wr->send_flags |= IBV_SEND_INLINE;
	set_sges(wr, lane, rng, op, buffer);
}

/* Where a READ or an atomic puts its result: poison, so that what was not written can be told. */
static void set_landing(struct ibv_send_wr *wr, struct lane *lane, struct rng *rng, uint32_t length)
{
	struct operation *op = op_at(lane, lane->head - 1);
	unsigned char *buffer = lane_buffer(lane, lane->head - 1);

	cut(op, rng, length);
	memset(buffer, POISON, length + MAX_SGE * GUARD);
	set_sges(wr, lane, rng, op, buffer);
}

static void set_remote(struct ibv_send_wr *wr, struct lane *lane, size_t offset)
{
	wr->wr.rdma.remote_addr = lane->connection->peer_window + offset;
	wr->wr.rdma.rkey = lane->window_rkey;
}

static void build_message(struct chain *chain, struct lane *lane, struct rng *rng, enum op_kind kind,
			  enum message_kind message, const void *body, uint32_t body_size)
{
	struct job *job = lane->connection->job;
	int peer = lane->connection->peer;
	struct message_head head = { .kind = message, .lane = lane->number, .sequence = lane->done.messages };
	struct ibv_send_wr *wr = chain_add(chain, lane, rng, kind, IBV_WR_SEND);

	head.length = body ? sizeof(head) + body_size : random_size(rng, MIN_MESSAGE, job->settings.max_size);
	head.check = head_check(&head, job->rank, peer);
	memcpy(lane->scratch, &head, sizeof(head));
	if (body)
		memcpy(lane->scratch + sizeof(head), body, body_size);
	else
		pattern_fill(lane->scratch + sizeof(head), head.length - sizeof(head),
			     pattern_base(&job->settings, PATTERN_MESSAGE, job->rank, peer, lane->number,
					  head.sequence), 0);
	lane->done.messages++;
	if (rng_one_in(rng, 4))
		wr->send_flags |= IBV_SEND_SOLICITED;
	set_payload(wr, lane, rng, head.length);
}

static bool build_send(struct chain *chain, struct lane *lane, struct rng *rng)
{
	if (rng_one_in(rng, 12)) {
		chain_add(chain, lane, rng, OP_EMPTY_SEND, IBV_WR_SEND);
		lane->done.empties++;
	} else {
		build_message(chain, lane, rng, OP_SEND, MESSAGE_DATA, NULL, 0);
	}
	return true;
}

static bool build_send_imm(struct chain *chain, struct lane *lane, struct rng *rng)
{
	struct job *job = lane->connection->job;
	struct ibv_send_wr *wr = chain_add(chain, lane, rng, OP_SEND_IMM, IBV_WR_SEND_WITH_IMM);
	uint32_t length = random_size(rng, 0, job->settings.max_size);
	uint64_t sequence = lane->done.messages++;

	pattern_fill(lane->scratch, length, pattern_base(&job->settings, PATTERN_MESSAGE, job->rank,
							 lane->connection->peer, lane->number, sequence), 0);
	wr->imm_data = htonl(imm_make(IMM_SEND, lane->number, 0, sequence));
	set_payload(wr, lane, rng, length);
	return true;
}

static int free_slot(struct lane *lane, struct rng *rng)
{
	int first = rng_below(rng, SLOTS);

	for (int i = 0; i < SLOTS; i++)
		if (!(lane->slots_busy & 1U << (first + i) % SLOTS))
			return (first + i) % SLOTS;
	return -1;
}

static bool build_slot_write(struct chain *chain, struct lane *lane, struct rng *rng, bool with_imm)
{
	struct job *job = lane->connection->job;
	struct slot_head head = { 0 };
	int slot = free_slot(lane, rng);
	struct ibv_send_wr *wr;

	if (slot < 0)
		return false;
	wr = with_imm ? chain_add(chain, lane, rng, OP_WRITE_IMM, IBV_WR_RDMA_WRITE_WITH_IMM)
		      : chain_add(chain, lane, rng, OP_WRITE, IBV_WR_RDMA_WRITE);
	head.length = random_size(rng, sizeof(head), job->settings.max_size);
	head.slot = slot;
	head.stamp = ++lane->slot_stamps[slot];
	memcpy(lane->scratch, &head, sizeof(head));
	pattern_fill(lane->scratch + sizeof(head), head.length - sizeof(head),
		     pattern_base(&job->settings, PATTERN_SLOT, job->rank, lane->connection->peer, lane->number,
				  head.stamp << 8 | slot), 0);
	lane->slots_busy |= 1U << slot;
	lane->done.slot_writes++;
	if (with_imm)
		wr->imm_data = htonl(imm_make(IMM_WRITE, lane->number, slot, lane->done.messages++));
	else
		lane->slots_unannounced |= 1U << slot;
	set_remote(wr, lane, slot_offset(&job->settings, lane->number, slot));
	set_payload(wr, lane, rng, head.length);
	return true;
}

/* Of no bytes: any address and key that the window has will do, and nothing may change there. */
static void build_empty_write(struct chain *chain, struct lane *lane, struct rng *rng, bool with_imm)
{
	struct ibv_send_wr *wr = chain_add(chain, lane, rng, with_imm ? OP_EMPTY_WRITE_IMM : OP_EMPTY_WRITE,
					   with_imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE);

	set_remote(wr, lane, 0);
	if (with_imm)
		wr->imm_data = htonl(imm_make(IMM_EMPTY_WRITE, lane->number, 0, lane->done.messages++));
}

static bool build_write(struct chain *chain, struct lane *lane, struct rng *rng, bool with_imm)
{
	if (rng_one_in(rng, 12)) {
		build_empty_write(chain, lane, rng, with_imm);
		return true;
	}
	return build_slot_write(chain, lane, rng, with_imm);
}

static bool build_mirror(struct chain *chain, struct lane *lane, struct rng *rng)
{
	struct job *job = lane->connection->job;
	size_t offset = mirror_offset(&job->settings, lane->number);
	uint32_t length = random_size(rng, 1, job->settings.max_size);
	struct ibv_send_wr *wr;

	/* A WRITE posted after a READ may pass it, so the next pair waits until this one is done. */
	if (lane->mirror_busy || lane_free(lane) < LAST_FREE + 2 || chain->used + 2 > CHAIN_AT_MOST + 1)
		return false;
	lane->mirror_busy = true;
	lane->mirror_stamp++;
	pattern_fill(lane->scratch, length, pattern_base(&job->settings, PATTERN_MIRROR, job->rank,
							 lane->connection->peer, lane->number, lane->mirror_stamp), 0);
	wr = chain_add(chain, lane, rng, OP_MIRROR_WRITE, IBV_WR_RDMA_WRITE);
	set_remote(wr, lane, offset);
	set_payload(wr, lane, rng, length);
	wr = chain_add(chain, lane, rng, OP_MIRROR_READ, IBV_WR_RDMA_READ);
	set_remote(wr, lane, offset);
	set_landing(wr, lane, rng, length);
	op_at(lane, lane->head - 1)->expected = lane->mirror_stamp;
	make_signaled(chain, lane);
	return true;
}

static bool build_hot(struct chain *chain, struct lane *lane, struct rng *rng)
{
	struct job *job = lane->connection->job;
	uint64_t record[HOT_WORDS];
	struct ibv_send_wr *wr = chain_add(chain, lane, rng, OP_HOT_WRITE, IBV_WR_RDMA_WRITE);

	record[0] = ++lane->done.hot_stamp;
	pattern_fill(record + 1, sizeof(record) - 8, pattern_base(&job->settings, PATTERN_HOT, job->rank,
				lane->connection->peer, lane->number, record[0]), 0);
	memcpy(lane->scratch, record, sizeof(record));
	set_remote(wr, lane, hot_offset(&job->settings, lane->number));
	set_payload(wr, lane, rng, sizeof(record));
	return true;
}

static bool build_read(struct chain *chain, struct lane *lane, struct rng *rng)
{
	struct settings *settings = &lane->connection->job->settings;
	struct ibv_send_wr *wr;
	struct operation *op;
	uint32_t offset, length;

	switch (rng_below(rng, 3)) {
	case 0:
		wr = chain_add(chain, lane, rng, OP_READ_FIXED, IBV_WR_RDMA_READ);
		op = op_at(lane, lane->head - 1);
		offset = rng_below(rng, settings->max_size / 8) * 8;
		length = random_size(rng, 1, settings->max_size - offset);
		op->offset = offset;
		set_remote(wr, lane, fixed_offset(settings) + offset);
		break;
	case 1:
		wr = chain_add(chain, lane, rng, OP_READ_VERSIONED, IBV_WR_RDMA_READ);
		op = op_at(lane, lane->head - 1);
		offset = rng_below(rng, VERSIONED_WORDS);
		length = 1 + rng_below(rng, VERSIONED_WORDS - offset);
		if (length * 8 > settings->max_size)
			length = settings->max_size / 8;
		length *= 8;
		op->offset = offset;
		op->expected = lane->version_announced > lane->version_floor ? lane->version_announced
									     : lane->version_floor;
		set_remote(wr, lane, versioned_offset(settings) + offset * 8);
		break;
	default:
		wr = chain_add(chain, lane, rng, OP_READ_HOT, IBV_WR_RDMA_READ);
		op = op_at(lane, lane->head - 1);
		length = HOT_WORDS * 8;
		/* Behind the WRITEs before it, but later ones may pass it. */
		op->expected = lane->done.hot_stamp;
		set_remote(wr, lane, hot_offset(settings, lane->number));
	}
	set_landing(wr, lane, rng, length);
	return true;
}

static struct ibv_send_wr *add_atomic(struct chain *chain, struct lane *lane, struct rng *rng, enum op_kind kind,
				      enum ibv_wr_opcode opcode, int cell)
{
	struct connection *connection = lane->connection;
	struct ibv_send_wr *wr = chain_add(chain, lane, rng, kind, opcode);
	struct operation *op = op_at(lane, lane->head - 1);

	if (kind == OP_ADD_SHARED || kind == OP_SWAP_SHARED) {
		wr->wr.atomic.remote_addr = connection->peer_shared + cell * 8;
		wr->wr.atomic.rkey = connection->peer_shared_rkey;
	} else {
		wr->wr.atomic.remote_addr = connection->peer_window +
					    cell_offset(&connection->job->settings, lane->number, cell);
		wr->wr.atomic.rkey = lane->window_rkey;
	}
	set_landing(wr, lane, rng, 8);
	/* An atomic has one piece: 8 bytes are never cut. */
	op->length = 8;
	return wr;
}

static bool build_add(struct chain *chain, struct lane *lane, struct rng *rng)
{
	bool shared = rng_one_in(rng, 3);
	uint64_t operand = 1 + rng_below(rng, 1000);
	struct ibv_send_wr *wr = add_atomic(chain, lane, rng, shared ? OP_ADD_SHARED : OP_ADD,
					    IBV_WR_ATOMIC_FETCH_AND_ADD, shared ? SHARED_ADD : CELL_ADD);
	struct operation *op = op_at(lane, lane->head - 1);

	wr->wr.atomic.compare_add = operand;
	op->operand = operand;
	if (shared) {
		lane->done.shared_add_sum += operand;
	} else {
		op->expected = lane->done.add_sum;
		lane->done.add_sum += operand;
	}
	return true;
}

static bool build_swap(struct chain *chain, struct lane *lane, struct rng *rng)
{
	struct job *job = lane->connection->job;
	struct ibv_send_wr *wr;
	struct operation *op;

	switch (rng_below(rng, 4)) {
	case 0:
		wr = add_atomic(chain, lane, rng, OP_SWAP_SHARED, IBV_WR_ATOMIC_CMP_AND_SWP, SHARED_SWAP);
		op = op_at(lane, lane->head - 1);
		op->expected = lane->shared_swap_seen;
		op->operand = lane->shared_swap_seen + 1;
		wr->wr.atomic.compare_add = op->expected;
		break;
	case 1:
		wr = add_atomic(chain, lane, rng, OP_SWAP_MISS, IBV_WR_ATOMIC_CMP_AND_SWP, CELL_SWAP);
		op = op_at(lane, lane->head - 1);
		op->expected = lane->swap_value;
		op->operand = ~lane->swap_value - 1;
		wr->wr.atomic.compare_add = ~lane->swap_value;
		break;
	default:
		wr = add_atomic(chain, lane, rng, OP_SWAP, IBV_WR_ATOMIC_CMP_AND_SWP, CELL_SWAP);
		op = op_at(lane, lane->head - 1);
		op->expected = lane->swap_value;
		op->operand = swap_next(&job->settings, job->rank, lane->connection->peer, lane->number,
					lane->swap_value);
		wr->wr.atomic.compare_add = op->expected;
		lane->swap_value = op->operand;
		lane->done.swap_steps++;
	}
	wr->wr.atomic.swap = op->operand;
	return true;
}

static bool build_random(struct chain *chain, struct lane *lane, struct rng *rng)
{
	struct settings *settings = &lane->connection->job->settings;
	int total = 0, mix, point;

	for (mix = 0; mix < MIX_COUNT; mix++)
		total += settings->weights[mix];
	point = rng_below(rng, total);
	for (mix = 0; point >= settings->weights[mix]; mix++)
		point -= settings->weights[mix];
	switch (mix) {
	case MIX_SEND: return build_send(chain, lane, rng);
	case MIX_SEND_IMM: return build_send_imm(chain, lane, rng);
	case MIX_WRITE: return build_write(chain, lane, rng, false);
	case MIX_WRITE_IMM: return build_write(chain, lane, rng, true);
	case MIX_READ: return build_read(chain, lane, rng);
	case MIX_MIRROR: return build_mirror(chain, lane, rng);
	case MIX_HOT: return build_hot(chain, lane, rng);
	case MIX_ADD: return build_add(chain, lane, rng);
	default: return build_swap(chain, lane, rng);
	}
}

/*
 * Slots that were verified were poisoned then. Whatever is in them now came from a WRITE that took effect again.
 */
static uint32_t take_released(struct lane *lane)
{
	struct job *job = lane->connection->job;
	uint32_t released = lane->slots_held;

	for (int slot = 0; slot < SLOTS; slot++) {
		unsigned char *memory = lane->connection->window + slot_offset(&job->settings, lane->number, slot);

		if ((released & 1U << slot) && !is_poison(memory, job->settings.max_size)) {
			tally_found(&job->tally, FOUND_DOUBLED, 1,
				    "slot %d of rank %d, lane %d was written again after stamp %lu was verified", slot,
				    lane->connection->peer, lane->number, lane->got_slot_stamps[slot]);
			memset(memory, POISON, job->settings.max_size);
		}
	}
	lane->slots_held = 0;
	return released;
}

static void build_notice(struct chain *chain, struct lane *lane, struct rng *rng)
{
	struct notice notice = {
		.announced = lane->slots_unannounced,
		.released = take_released(lane),
		.hot_stamp = lane->done.hot_stamp,
		.empties = lane->done.empties,
		.version = __atomic_load_n(&lane->connection->version, __ATOMIC_ACQUIRE),
	};

	lane->slots_unannounced = 0;
	lane->since_notice = 0;
	build_message(chain, lane, rng, OP_NOTICE, MESSAGE_NOTICE, &notice, sizeof(notice));
}

static int chain_post(struct chain *chain, struct lane *lane)
{
	struct job *job = lane->connection->job;
	struct ibv_send_wr *bad = NULL;
	int err;

	if (!chain->used)
		return 0;
	err = job->way->post(lane->connection->queue.qp, chain->wr, &bad);
	if (err)
		die(err, "ibv_post_send to rank %d, lane %d: request %ld of %d refused", lane->connection->peer,
		    lane->number, bad ? (long)(bad - chain->wr) : -1L, chain->used);
	atomic_fetch_add_explicit(&job->tally.posted, chain->used, memory_order_relaxed);
	/* Inline bytes were taken when the request was posted: what the buffer holds afterwards is nobody's. */
	for (int i = 0; i < chain->used; i++) {
		struct operation *op = op_at(lane, lane->head - chain->used + i);

		if (chain->wr[i].send_flags & IBV_SEND_INLINE)
			memset(lane_buffer(lane, lane->head - chain->used + i), POISON,
			       op->length + MAX_SGE * GUARD);
	}
	return chain->used;
}

static bool notice_is_due(const struct lane *lane)
{
	return __builtin_popcount(lane->slots_held) >= RELEASE_AT || lane->since_notice >= NOTICE_EVERY ||
	       (lane->slots_busy == (1U << SLOTS) - 1 && lane->slots_unannounced);
}

int lane_post_notice(struct lane *lane, struct rng *rng, bool always)
{
	struct chain chain = { .used = 0 };
	int posted;

	pthread_mutex_lock(&lane->lock);
	if ((always || (notice_is_due(lane) && !lane->connection->paused)) && lane_free(lane) > 0)
		build_notice(&chain, lane, rng);
	posted = chain_post(&chain, lane);
	pthread_mutex_unlock(&lane->lock);
	return posted;
}

int lane_post_control(struct lane *lane, struct rng *rng, const struct control *control)
{
	struct chain chain = { .used = 0 };
	int posted;

	pthread_mutex_lock(&lane->lock);
	if (lane_free(lane) > 0)
		build_message(&chain, lane, rng, OP_CONTROL, MESSAGE_CONTROL, control, sizeof(*control));
	if (chain.used && control->type == CONTROL_KEY_UNUSED && control->rkey) {
		chain.wr[0].opcode = IBV_WR_SEND_WITH_INV;
		chain.wr[0].invalidate_rkey = control->rkey;
	}
	make_signaled(&chain, lane);
	posted = chain_post(&chain, lane);
	pthread_mutex_unlock(&lane->lock);
	return posted;
}

int lane_post_bind(struct lane *lane, struct rng *rng, struct ibv_mw *mw, uint32_t rkey)
{
	struct connection *connection = lane->connection;
	struct chain chain = { .used = 0 };
	struct ibv_send_wr *wr;
	int posted;

	pthread_mutex_lock(&lane->lock);
	if (lane_free(lane) > LAST_FREE) {
		wr = chain_add(&chain, lane, rng, OP_BIND, IBV_WR_BIND_MW);
		wr->bind_mw.mw = mw;
		wr->bind_mw.rkey = rkey;
		wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
			.mr = connection->window_mr,
			.addr = (uintptr_t)connection->window,
			.length = window_size(&connection->job->settings),
			.mw_access_flags = ACCESS_ALL & ~IBV_ACCESS_LOCAL_WRITE,
		};
	}
	posted = chain_post(&chain, lane);
	pthread_mutex_unlock(&lane->lock);
	return posted;
}

int lane_post_invalidate(struct lane *lane, struct rng *rng, uint32_t rkey)
{
	struct chain chain = { .used = 0 };
	int posted;

	pthread_mutex_lock(&lane->lock);
	if (lane_free(lane) > LAST_FREE)
		chain_add(&chain, lane, rng, OP_INVALIDATE, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey;
	posted = chain_post(&chain, lane);
	pthread_mutex_unlock(&lane->lock);
	return posted;
}

void lane_flush(struct lane *lane, struct rng *rng)
{
	struct chain chain = { .used = 0 };

	pthread_mutex_lock(&lane->lock);
	if (lane->head != lane->tail && !op_at(lane, lane->head - 1)->signaled) {
		build_notice(&chain, lane, rng);
		make_signaled(&chain, lane);
		chain_post(&chain, lane);
	}
	pthread_mutex_unlock(&lane->lock);
}

int lane_post_random(struct lane *lane, struct rng *rng)
{
	struct chain chain = { .used = 0 };
	int wanted = 1 + rng_below(rng, CHAIN_AT_MOST), posted;

	pthread_mutex_lock(&lane->lock);
	for (int try = 0; try < 8 && chain.used < wanted; try++) {
		if (lane->connection->paused || lane_free(lane) <= LAST_FREE)
			break;
		build_random(&chain, lane, rng);
	}
	posted = chain_post(&chain, lane);
	lane->since_notice += posted;
	pthread_mutex_unlock(&lane->lock);
	return posted;
}
