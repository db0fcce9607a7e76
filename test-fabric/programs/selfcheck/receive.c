#include "receive.h"

#include <arpa/inet.h>
#include <string.h>

#include "agree.h"
#include "churn.h"
#include "connection.h"

#define LATE_NS 2000000ULL	/* --rnr: how long a receive queue stays empty */

static bool check_sequence(struct lane *lane, uint64_t sequence)
{
	struct connection *connection = lane->connection;
	uint64_t due = lane->seen.messages;

	if (sequence < due) {
		tally_found(&connection->job->tally, FOUND_DOUBLED, 1, "message %lu of rank %d, lane %d, when %lu was due",
			    sequence, connection->peer, lane->number, due);
		return false;
	}
	if (sequence > due)
		tally_found(&connection->job->tally, FOUND_LOST, sequence - due,
			    "messages %lu to %lu of rank %d, lane %d", due, sequence - 1, connection->peer, lane->number);
	lane->seen.messages = sequence + 1;
	return true;
}

static void check_slot(struct lane *lane, int slot)
{
	struct connection *connection = lane->connection;
	struct job *job = connection->job;
	unsigned char *memory = connection->window + slot_offset(&job->settings, lane->number, slot);
	uint64_t due = ++lane->got_slot_stamps[slot];
	uint32_t max_size = job->settings.max_size;
	struct slot_head head;

	memcpy(&head, memory, sizeof(head));
	lane->seen.slot_writes++;
	if (head.stamp != due || head.slot != (uint32_t)slot || head.length > max_size ||
	    head.length < sizeof(head)) {
		bool untouched = is_poison(memory, sizeof(head));

		tally_found(&job->tally, untouched ? FOUND_LOST : FOUND_DAMAGED, 1,
			    "slot %d of rank %d, lane %d: stamp %lu instead of %lu", slot, connection->peer,
			    lane->number, head.stamp, due);
	} else if (!pattern_matches(memory + sizeof(head), head.length - sizeof(head),
				    pattern_base(&job->settings, PATTERN_SLOT, connection->peer, job->rank,
						 lane->number, due << 8 | slot), 0) ||
		   !is_poison(memory + head.length, max_size + GUARD - head.length)) {
		tally_found(&job->tally, FOUND_DAMAGED, 1, "slot %d of rank %d, lane %d, stamp %lu, %u bytes", slot,
			    connection->peer, lane->number, due, head.length);
	} else {
		tally_verified(&job->tally, 1);
	}
	memset(memory, POISON, max_size + GUARD);
	pthread_mutex_lock(&lane->lock);
	lane->slots_held |= 1U << slot;
	pthread_mutex_unlock(&lane->lock);
}

static void check_hot(struct lane *lane, uint64_t announced)
{
	struct connection *connection = lane->connection;
	struct job *job = connection->job;
	uint64_t *record = (uint64_t *)(connection->window + hot_offset(&job->settings, lane->number));
	uint64_t stamp = __atomic_load_n(record, __ATOMIC_ACQUIRE);

	if (stamp < announced)
		tally_found(&job->tally, FOUND_LOST, 1, "hot record of rank %d, lane %d has stamp %lu, %lu was announced",
			    connection->peer, lane->number, stamp, announced);
	else if (announced > lane->seen.hot_stamp)
		tally_verified(&job->tally, announced - lane->seen.hot_stamp);
	lane->seen.hot_stamp = announced;
}

/* Empty messages say nothing; only their number can be compared with what the lanes say. */
static void check_empties(struct connection *connection, bool exactly)
{
	struct job *job = connection->job;
	uint64_t announced = 0;

	for (int lane = 0; lane < job->settings.lanes; lane++)
		announced += connection->lanes[lane].seen.empties;
	if (connection->empties_seen < announced)
		tally_found(&job->tally, FOUND_LOST, announced - connection->empties_seen, "empty messages of rank %d",
			    connection->peer);
	else if (exactly && connection->empties_seen > announced)
		tally_found(&job->tally, FOUND_DOUBLED, connection->empties_seen - announced,
			    "empty messages of rank %d", connection->peer);
	else
		return;
	connection->empties_seen = announced;
}

static void handle_notice(struct lane *lane, const struct notice *notice)
{
	struct connection *connection = lane->connection;
	uint64_t new_empties = notice->empties - lane->seen.empties;

	for (int slot = 0; slot < SLOTS; slot++)
		if (notice->announced & 1U << slot)
			check_slot(lane, slot);
	check_hot(lane, notice->hot_stamp);
	lane->seen.empties = notice->empties;
	tally_verified(&connection->job->tally, new_empties);
	/* With one lane all empty messages before this notice are known, and none behind it has been counted. */
	check_empties(connection, connection->job->settings.lanes == 1);
	pthread_mutex_lock(&lane->lock);
	lane->slots_busy &= ~notice->released;
	lane->version_announced = notice->version;
	pthread_mutex_unlock(&lane->lock);
}

static void handle_headed(struct connection *connection, const unsigned char *memory, uint32_t length,
			  uint32_t invalidated)
{
	struct job *job = connection->job;
	struct control control = { 0 };
	struct message_head head;
	struct lane *lane;

	memcpy(&head, memory, sizeof(head));
	if (length < sizeof(head) || head.lane >= job->settings.lanes || head.length != length ||
	    head.check != head_check(&head, connection->peer, job->rank)) {
		tally_found(&job->tally, FOUND_DAMAGED, 1, "message of rank %d with %u bytes: head not valid",
			    connection->peer, length);
		return;
	}
	lane = &connection->lanes[head.lane];
	if (!check_sequence(lane, head.sequence))
		return;
	memory += sizeof(head);
	length -= sizeof(head);
	if (head.kind == MESSAGE_DATA &&
	    !pattern_matches(memory, length, pattern_base(&job->settings, PATTERN_MESSAGE, connection->peer, job->rank,
							  head.lane, head.sequence), 0)) {
		tally_found(&job->tally, FOUND_DAMAGED, 1, "message %lu of rank %d, lane %d, %u bytes", head.sequence,
			    connection->peer, head.lane, length);
		return;
	}
	tally_verified(&job->tally, 1);
	if (head.kind == MESSAGE_CONTROL)
		memcpy(&control, memory, sizeof(control));
	if (invalidated != (control.type == CONTROL_KEY_UNUSED ? control.rkey : 0))
		tally_found(&job->tally, FOUND_UNEXPECTED, 1, "message of rank %d has invalidated key %#x",
			    connection->peer, invalidated);
	if (head.kind == MESSAGE_NOTICE) {
		struct notice notice;

		memcpy(&notice, memory, sizeof(notice));
		handle_notice(lane, &notice);
	} else if (head.kind == MESSAGE_CONTROL) {
		if (control.type >= CONTROL_NEW_KEY)
			churn_control(connection, &control);
		else
			agree_control(connection, &control);
	}
}

static void handle_imm(struct connection *connection, const unsigned char *memory, const struct ibv_wc *wc)
{
	struct job *job = connection->job;
	uint32_t imm = ntohl(wc->imm_data), number = imm >> 24 & 15, slot = imm >> 20 & 15;
	enum imm_kind kind = imm >> 28;
	struct lane *lane = &connection->lanes[number];
	uint64_t sequence;

	if (number >= (uint32_t)job->settings.lanes || slot >= SLOTS || kind < IMM_SEND || kind > IMM_EMPTY_WRITE ||
	    (kind == IMM_SEND) != (wc->opcode == IBV_WC_RECV)) {
		tally_found(&job->tally, FOUND_DAMAGED, 1, "immediate %#x of rank %d", imm, connection->peer);
		return;
	}
	/* The immediate has the low bits: the rest comes from the number that is due, give or take half the range. */
	sequence = lane->seen.messages + IMM_SEQUENCE_MASK / 2;
	sequence -= (sequence - imm) & IMM_SEQUENCE_MASK;
	if (!check_sequence(lane, sequence))
		return;
	if (kind == IMM_WRITE) {
		check_slot(lane, slot);
		tally_verified(&job->tally, 1);
	} else if (kind == IMM_SEND &&
		   !pattern_matches(memory, wc->byte_len,
				    pattern_base(&job->settings, PATTERN_MESSAGE, connection->peer, job->rank, number,
						 sequence), 0)) {
		tally_found(&job->tally, FOUND_DAMAGED, 1, "message %lu of rank %d, lane %u, %u bytes", sequence,
			    connection->peer, number, wc->byte_len);
	} else {
		tally_verified(&job->tally, 1);
	}
}

static void handle_message(struct connection *connection, unsigned char *memory, const struct ibv_wc *wc)
{
	struct job *job = connection->job;
	/* A WRITE_WITH_IMM takes a receive, but leaves its memory alone. */
	uint32_t length = wc->opcode == IBV_WC_RECV ? wc->byte_len : 0;

	if (length > receive_capacity(&job->settings) || !is_poison(memory + length, GUARD)) {
		tally_found(&job->tally, FOUND_DAMAGED, 1, "receive of %u bytes from rank %d: bytes behind it changed",
			    length, connection->peer);
		length = receive_capacity(&job->settings);
	}
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		handle_imm(connection, memory, wc);
	else if (length == 0)
		connection->empties_seen++;
	else
		handle_headed(connection, memory, length, wc->wc_flags & IBV_WC_WITH_INV ? wc->invalidated_rkey : 0);
	memset(memory, POISON, length);
}

static struct queue *queue_of(struct connection *connection, uint32_t generation)
{
	struct queue *queues[] = { &connection->queue, &connection->next_queue, &connection->old_queue };

	for (int i = 0; i < 3; i++)
		if (queues[i]->qp && queues[i]->generation == generation)
			return queues[i];
	return NULL;
}

/* Whose message took a receive of the shared queue. */
static struct queue *queue_by_number(struct job *job, uint32_t qp_num, struct connection **of)
{
	for (int peer = 0; peer < job->settings.ranks; peer++) {
		struct connection *connection = job->connections[peer];

		if (!connection)
			continue;
		*of = connection;
		if (connection->queue.qp && connection->queue.own.receiver.qp_num == qp_num)
			return &connection->queue;
		if (connection->next_queue.qp && connection->next_queue.own.receiver.qp_num == qp_num)
			return &connection->next_queue;
		if (connection->old_queue.qp && connection->old_queue.own.receiver.qp_num == qp_num)
			return &connection->old_queue;
	}
	return NULL;
}

bool receive_completed(struct job *job, const struct ibv_wc *wc)
{
	uint32_t generation = wc->wr_id >> 32, peer = wc->wr_id >> 16 & 0xffff, buffer = wc->wr_id & 0xffff;
	struct connection *holder = peer < MAX_RANKS ? job->connections[peer] : NULL, *connection = holder;
	struct queue *queue = !holder ? NULL : job->srq ? queue_by_number(job, wc->qp_num, &connection) :
			      queue_of(holder, generation);

	if (!queue || buffer >= (uint32_t)holder->receive_count || holder->receive_owner[buffer] != generation) {
		/* Some devices still report the flushed receives of a queue pair that is gone. */
		if (holder && !queue && wc->status == IBV_WC_WR_FLUSH_ERR)
			return true;
		tally_found(&job->tally, FOUND_UNEXPECTED, 1, "receive completion %#lx, status '%s', that nobody waits for",
			    wc->wr_id, ibv_wc_status_str(wc->status));
		return false;
	}
	if (wc->status != IBV_WC_SUCCESS) {
		tally_found(&job->tally, FOUND_UNEXPECTED, 1, "receive from rank %d with status '%s', vendor error %#x",
			    connection->peer, ibv_wc_status_str(wc->status), wc->vendor_err);
		return false;
	}
	if (wc->qp_num != queue->own.receiver.qp_num || (wc->opcode != IBV_WC_RECV && wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM))
		tally_found(&job->tally, FOUND_UNEXPECTED, 1, "receive from rank %d with qp_num %#x, opcode %d, on %#x",
			    connection->peer, wc->qp_num, wc->opcode, queue->own.receiver.qp_num);
	holder->receive_owner[buffer] = 0;
	--*posted_receives(holder, queue);
	connection->last_receive_ns = job->now_ns;
	handle_message(connection, receive_buffer(holder, buffer), wc);
	receive_feed(holder);
	return true;
}

void receive_feed(struct connection *connection)
{
	struct job *job = connection->job;
	struct queue *queue = &connection->queue;

	if (job->settings.rnr) {
		/* All at once, and only when senders have been refused for a while. */
		int posted = *posted_receives(connection, queue);

		if (posted)
			connection->starved_since_ns = 0;
		else if (!connection->starved_since_ns)
			connection->starved_since_ns = job->now_ns;
		if (posted || job->now_ns - connection->starved_since_ns < LATE_NS)
			return;
	}
	receives_post(connection, queue, job->settings.receive_depth);
}

void receive_check_final(struct connection *connection)
{
	struct job *job = connection->job;
	struct settings *settings = &job->settings;

	for (int i = 0; i < settings->lanes; i++) {
		struct lane *lane = &connection->lanes[i];
		const struct lane_totals *said = &connection->peer_final.lanes[i];
		struct lane_totals *seen = &lane->seen;
		unsigned char *hot = connection->window + hot_offset(settings, i);
		uint64_t cell, chain = swap_next(settings, connection->peer, job->rank, i, 0), stamp;

		/* Lane 0 has sent the final message itself, and perhaps more control messages, since. */
		if (seen->messages < said->messages)
			tally_found(&job->tally, FOUND_LOST, said->messages - seen->messages,
				    "last messages of rank %d, lane %d", connection->peer, i);
		if (seen->slot_writes != said->slot_writes)
			tally_found(&job->tally, seen->slot_writes < said->slot_writes ? FOUND_LOST : FOUND_DOUBLED, 1,
				    "%lu slot writes of rank %d, lane %d, of %lu", seen->slot_writes, connection->peer, i,
				    said->slot_writes);
		if (seen->empties != said->empties)
			tally_found(&job->tally, FOUND_LOST, 1, "%lu empty messages of rank %d, lane %d, of %lu",
				    seen->empties, connection->peer, i, said->empties);
		memcpy(&stamp, hot, 8);
		if (stamp != said->hot_stamp || seen->hot_stamp != stamp ||
		    (stamp && !pattern_matches(hot + 8, (HOT_WORDS - 1) * 8,
					       pattern_base(settings, PATTERN_HOT, connection->peer, job->rank, i,
							    stamp), 0)))
			tally_found(&job->tally, FOUND_DAMAGED, 1, "hot record of rank %d, lane %d: stamp %lu of %lu",
				    connection->peer, i, stamp, said->hot_stamp);
		memcpy(&cell, connection->window + cell_offset(settings, i, CELL_ADD), 8);
		if (cell != said->add_sum)
			tally_found(&job->tally, cell < said->add_sum ? FOUND_LOST : FOUND_DOUBLED, 1,
				    "rank %d, lane %d added %lu in all, the cell has %lu", connection->peer, i,
				    said->add_sum, cell);
		for (uint64_t step = 0; step < said->swap_steps; step++)
			chain = swap_next(settings, connection->peer, job->rank, i, chain);
		memcpy(&cell, connection->window + cell_offset(settings, i, CELL_SWAP), 8);
		if (cell != chain)
			tally_found(&job->tally, FOUND_DAMAGED, 1,
				    "after %lu swaps of rank %d, lane %d the cell has %#lx instead of %#lx",
				    said->swap_steps, connection->peer, i, cell, chain);
		seen->add_sum = said->add_sum;
		seen->swap_steps = said->swap_steps;
	}
	check_empties(connection, true);
}
