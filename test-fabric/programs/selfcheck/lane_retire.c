#include <stdio.h>
#include <string.h>

#include "../common/die.h"
#include "lane.h"

#define DESCRIBED_AT_MOST 8

static const char *const op_names[] = {
	[OP_SEND] = "SEND", [OP_EMPTY_SEND] = "empty SEND", [OP_SEND_IMM] = "SEND_WITH_IMM", [OP_WRITE] = "WRITE",
	[OP_EMPTY_WRITE] = "empty WRITE", [OP_WRITE_IMM] = "WRITE_WITH_IMM",
	[OP_EMPTY_WRITE_IMM] = "empty WRITE_WITH_IMM", [OP_HOT_WRITE] = "WRITE of the hot record",
	[OP_MIRROR_WRITE] = "WRITE of the mirror", [OP_MIRROR_READ] = "READ of the mirror",
	[OP_READ_FIXED] = "READ", [OP_READ_VERSIONED] = "READ of versions", [OP_READ_HOT] = "READ of the hot record",
	[OP_ADD] = "FETCH_ADD", [OP_ADD_SHARED] = "shared FETCH_ADD", [OP_SWAP] = "CMP_SWAP",
	[OP_SWAP_MISS] = "failing CMP_SWAP", [OP_SWAP_SHARED] = "shared CMP_SWAP", [OP_NOTICE] = "notice",
	[OP_CONTROL] = "control message", [OP_BIND] = "bind of a window", [OP_INVALIDATE] = "invalidation of a window",
};

static enum ibv_wc_opcode expected_opcode(enum op_kind kind)
{
	switch (kind) {
	case OP_WRITE: case OP_EMPTY_WRITE: case OP_WRITE_IMM: case OP_EMPTY_WRITE_IMM:
	case OP_HOT_WRITE: case OP_MIRROR_WRITE:
		return IBV_WC_RDMA_WRITE;
	case OP_MIRROR_READ: case OP_READ_FIXED: case OP_READ_VERSIONED: case OP_READ_HOT:
		return IBV_WC_RDMA_READ;
	case OP_ADD: case OP_ADD_SHARED:
		return IBV_WC_FETCH_ADD;
	case OP_SWAP: case OP_SWAP_MISS: case OP_SWAP_SHARED:
		return IBV_WC_COMP_SWAP;
	case OP_BIND:
		return IBV_WC_BIND_MW;
	case OP_INVALIDATE:
		return IBV_WC_LOCAL_INV;
	default:
		return IBV_WC_SEND;
	}
}

static struct tally *tally_of(struct lane *lane)
{
	return &lane->connection->job->tally;
}

/* Gathers the pieces of a READ into the scratch. False if bytes beside the pieces were touched. */
static bool gather(struct lane *lane, const struct operation *op, const unsigned char *buffer)
{
	unsigned char *to = lane->scratch;

	for (int i = 0; i < op->pieces_used; i++) {
		const struct piece *piece = &op->pieces[i];
		uint32_t end = piece->at + piece->size;
		uint32_t next = i + 1 < op->pieces_used ? op->pieces[i + 1].at : end + GUARD / 2;

		memcpy(to, buffer + piece->at, piece->size);
		to += piece->size;
		if (!is_poison(buffer + end, next - end))
			return false;
	}
	return true;
}

/*
 * Each word is one that was written, and none is older than what was known of when the READ was posted. How much newer another
 * is nobody can say: a READ may rest between two words, and their owner goes on.
 */
static bool check_versioned(struct lane *lane, const struct operation *op, char *said, size_t size)
{
	struct connection *connection = lane->connection;
	uint64_t oldest = UINT64_MAX, newest = 0;

	for (uint32_t i = 0; i < op->length / 8; i++) {
		uint64_t word, version;

		memcpy(&word, lane->scratch + i * 8, 8);
		version = word >> 32;
		if (word != versioned_word(&connection->job->settings, connection->peer, connection->job->rank,
					   version, op->offset + i)) {
			snprintf(said, size, ": word %u is %#lx", op->offset + i, word);
			return false;
		}
		oldest = version < oldest ? version : oldest;
		newest = version > newest ? version : newest;
	}
	if (oldest < op->expected) {
		snprintf(said, size, ": versions %lu to %lu", oldest, newest);
		return false;
	}
	/* The owner writes a version in whole before the next, so all words of the one before are there. */
	if (newest - 1 > lane->version_floor)
		lane->version_floor = newest - 1;
	return true;
}

static bool check_hot(struct lane *lane, const struct operation *op)
{
	struct job *job = lane->connection->job;
	uint64_t stamp;

	memcpy(&stamp, lane->scratch, 8);
	if (stamp < op->expected || stamp < lane->hot_read_floor || stamp > lane->done.hot_stamp)
		return false;
	lane->hot_read_floor = stamp;
	/* With a later WRITE under way the rest may be a mixture. */
	if (stamp == 0 || lane->done.hot_stamp != op->expected)
		return true;
	return pattern_matches(lane->scratch + 8, op->length - 8, pattern_base(&job->settings, PATTERN_HOT, job->rank,
			       lane->connection->peer, lane->number, stamp), 0);
}

static void check_read(struct lane *lane, const struct operation *op, const unsigned char *buffer)
{
	struct job *job = lane->connection->job;
	int peer = lane->connection->peer;
	bool good = gather(lane, op, buffer);
	char said[100] = "";

	if (!good)
		snprintf(said, sizeof(said), ": it wrote beside its pieces");
	switch (op->kind) {
	case OP_MIRROR_READ:
		good = good && pattern_matches(lane->scratch, op->length,
					       pattern_base(&job->settings, PATTERN_MIRROR, job->rank, peer,
							    lane->number, op->expected), 0);
		lane->mirror_busy = false;
		break;
	case OP_READ_FIXED:
		good = good && pattern_matches(lane->scratch, op->length,
					       pattern_base(&job->settings, PATTERN_FIXED, peer, job->rank, 0, 0),
					       op->offset);
		break;
	case OP_READ_VERSIONED:
		good = good && check_versioned(lane, op, said, sizeof(said));
		break;
	default:
		good = good && check_hot(lane, op);
	}
	if (good)
		tally_verified(&job->tally, op->kind == OP_MIRROR_READ ? 2 : 1);
	else
		tally_found(&job->tally, FOUND_DAMAGED, 1,
			    "%s, %u bytes at %u, from rank %d, lane %d, stamp %lu%s", op_names[op->kind], op->length,
			    op->offset, peer, lane->number, op->expected, said);
}

static void check_add(struct lane *lane, const struct operation *op, uint64_t old)
{
	struct tally *tally = tally_of(lane);

	if (op->kind == OP_ADD_SHARED) {
		if (old < lane->shared_add_last)
			tally_found(tally, FOUND_DAMAGED, 1, "FETCH_ADD to the shared cell of rank %d gave %lu after %lu",
				    lane->connection->peer, old, lane->shared_add_last);
		else
			tally_verified(tally, 1);
		/* What this add left behind: each later one must see at least that. */
		lane->shared_add_last = old + op->operand;
		return;
	}
	if (old == op->expected)
		tally_verified(tally, 1);
	else
		tally_found(tally, old > op->expected ? FOUND_DOUBLED : FOUND_LOST, 1,
			    "FETCH_ADD to rank %d, lane %d gave %lu instead of %lu", lane->connection->peer,
			    lane->number, old, op->expected);
}

static void check_swap(struct lane *lane, const struct operation *op, uint64_t old)
{
	struct tally *tally = tally_of(lane);

	if (op->kind == OP_SWAP_SHARED) {
		/* Posted with a value that is old by now, it must not have seen that value any more. */
		if (old < lane->shared_swap_seen) {
			tally_found(tally, FOUND_DAMAGED, 1, "CMP_SWAP of the shared cell of rank %d gave %lu after %lu",
				    lane->connection->peer, old, lane->shared_swap_seen);
			return;
		}
		tally_verified(tally, 1);
		if (old == op->expected) {
			lane->done.shared_swap_wins++;
			old = op->operand;
		}
		if (old > lane->shared_swap_seen)
			lane->shared_swap_seen = old;
		return;
	}
	if (old == op->expected)
		tally_verified(tally, 1);
	else
		tally_found(tally, op->kind == OP_SWAP && old == op->operand ? FOUND_DOUBLED : FOUND_DAMAGED, 1,
			    "CMP_SWAP at rank %d, lane %d gave %#lx instead of %#lx", lane->connection->peer,
			    lane->number, old, op->expected);
}

static void check_atomic(struct lane *lane, const struct operation *op, const unsigned char *buffer)
{
	uint64_t old;

	memcpy(&old, buffer, 8);
	if (!is_poison(buffer + 8, GUARD / 2))
		tally_found(tally_of(lane), FOUND_DAMAGED, 1, "an atomic to rank %d wrote more than 8 bytes",
			    lane->connection->peer);
	if (op->kind == OP_ADD || op->kind == OP_ADD_SHARED)
		check_add(lane, op, old);
	else
		check_swap(lane, op, old);
}

static void check_done(struct lane *lane, uint64_t index)
{
	const struct operation *op = &lane->ring[index % lane->connection->job->settings.depth];

	switch (op->kind) {
	case OP_MIRROR_READ: case OP_READ_FIXED: case OP_READ_VERSIONED: case OP_READ_HOT:
		check_read(lane, op, lane_buffer(lane, index));
		break;
	case OP_ADD: case OP_ADD_SHARED: case OP_SWAP: case OP_SWAP_MISS: case OP_SWAP_SHARED:
		check_atomic(lane, op, lane_buffer(lane, index));
		break;
	default:
		/* The other end verifies it. */
		break;
	}
}

static void check_completion(struct lane *lane, const struct operation *op, const struct ibv_wc *wc)
{
	struct connection *connection = lane->connection;
	uint32_t qp_num = connection->queue.own.sender.qp_num;

	/* While a queue pair is replaced, the last completions of the old one and the first of the new may mix. */
	if (wc->qp_num != qp_num && !(connection->old_queue.qp && wc->qp_num == connection->old_queue.own.sender.qp_num))
		tally_found(tally_of(lane), FOUND_UNEXPECTED, 1, "completion with qp_num %#x on the queue pair %#x",
			    wc->qp_num, qp_num);
	if (wc->opcode != expected_opcode(op->kind))
		tally_found(tally_of(lane), FOUND_UNEXPECTED, 1, "completion with opcode %d for a %s",
			    wc->opcode, op_names[op->kind]);
	if (wc->opcode == IBV_WC_RDMA_READ && wc->byte_len != op->length)
		tally_found(tally_of(lane), FOUND_UNEXPECTED, 1, "READ completion with byte_len %u instead of %u",
			    wc->byte_len, op->length);
}

bool lane_retire(struct lane *lane, uint64_t index, const struct ibv_wc *wc)
{
	int depth = lane->connection->job->settings.depth, peer = lane->connection->peer;
	bool usable = true;

	pthread_mutex_lock(&lane->lock);
	/* Only 48 bits of the index travel. */
	index |= lane->tail & ~0xffffffffffffULL;
	if (wc->status != IBV_WC_SUCCESS) {
		tally_found(tally_of(lane), FOUND_UNEXPECTED, 1,
			    "completion with status '%s', vendor error %#x, operation %lu to rank %d, lane %d",
			    ibv_wc_status_str(wc->status), wc->vendor_err, index, peer, lane->number);
		usable = false;
	} else if (index < lane->tail) {
		tally_found(tally_of(lane), FOUND_DOUBLED, 1, "second completion of operation %lu to rank %d, lane %d",
			    index, peer, lane->number);
	} else if (index >= lane->head) {
		tally_found(tally_of(lane), FOUND_UNEXPECTED, 1,
			    "completion of operation %lu to rank %d, lane %d, which was not posted", index, peer,
			    lane->number);
		usable = false;
	} else {
		const struct operation *op = &lane->ring[index % depth];

		if (!op->signaled)
			tally_found(tally_of(lane), FOUND_UNEXPECTED, 1,
				    "completion of the unsignaled operation %lu to rank %d, lane %d", index, peer,
				    lane->number);
		check_completion(lane, op, wc);
		for (; lane->tail <= index; lane->tail++) {
			if (lane->tail < index && lane->ring[lane->tail % depth].signaled)
				tally_found(tally_of(lane), FOUND_LOST, 1,
					    "completion of operation %lu to rank %d, lane %d", lane->tail, peer,
					    lane->number);
			check_done(lane, lane->tail);
		}
	}
	pthread_mutex_unlock(&lane->lock);
	return usable;
}

void lane_describe(struct lane *lane)
{
	int depth = lane->connection->job->settings.depth;

	pthread_mutex_lock(&lane->lock);
	for (uint64_t i = lane->tail; i < lane->head && i < lane->tail + DESCRIBED_AT_MOST; i++) {
		const struct operation *op = &lane->ring[i % depth];

		fprintf(stderr, "%s: outstanding to rank %d, lane %d: operation %lu, %s of %u bytes in %d pieces%s\n",
			die_prefix(), lane->connection->peer, lane->number, i, op_names[op->kind], op->length,
			op->pieces_used, op->signaled ? ", signaled" : "");
	}
	pthread_mutex_unlock(&lane->lock);
}
