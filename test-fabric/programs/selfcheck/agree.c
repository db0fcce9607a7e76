#include "agree.h"

#include <string.h>

#include "../common/die.h"
#include "connection.h"
#include "lane.h"
#include "receive.h"
#include "shared_page.h"
#include "unreliable.h"

static void control_final(struct connection *connection, const struct control *control)
{
	connection->peer_final = control->final;
	connection->final_seen = true;
	receive_check_final(connection);
}

static void control_report(struct connection *connection, const struct control *control)
{
	struct job *job = connection->job;

	for (int i = 0; i < job->settings.lanes; i++) {
		const struct lane_totals *done = &connection->lanes[i].done, *seen = &control->report[i];

		if (seen->empties != done->empties || seen->slot_writes != done->slot_writes ||
		    seen->hot_stamp != done->hot_stamp || seen->add_sum != done->add_sum ||
		    seen->swap_steps != done->swap_steps || seen->messages > done->messages)
			tally_found(&job->tally, FOUND_UNEXPECTED, 1,
				    "rank %d has other counts than this rank, lane %d: messages %lu/%lu, empty %lu/%lu, "
				    "slots %lu/%lu, hot %lu/%lu", connection->peer, i, seen->messages, done->messages,
				    seen->empties, done->empties, seen->slot_writes, done->slot_writes, seen->hot_stamp,
				    done->hot_stamp);
	}
	connection->report_seen = true;
}

void agree_control(struct connection *connection, const struct control *control)
{
	switch (control->type) {
	case CONTROL_STOP:
		atomic_store(&connection->job->stopping, true);
		break;
	case CONTROL_HEARD:
		unreliable_heard(connection);
		break;
	case CONTROL_FINAL:
		control_final(connection, control);
		break;
	case CONTROL_REPORT:
		control_report(connection, control);
		break;
	case CONTROL_BYE:
		connection->peer_totals = control->totals;
		connection->bye_seen = true;
		break;
	default:
		tally_found(&connection->job->tally, FOUND_DAMAGED, 1, "control message %u of rank %d", control->type,
			    connection->peer);
	}
}

void outbox_put(struct connection *connection, const struct control *control)
{
	if (connection->outbox_used == CONTROL_QUEUE)
		die(0, "more than %d control messages wait for rank %d", CONTROL_QUEUE, connection->peer);
	connection->outbox[connection->outbox_used++] = *control;
}

int outbox_post(struct connection *connection)
{
	int posted = 0;

	/* While the queue pair is being replaced only the replacement's own messages go out. */
	while (connection->outbox_used && connection->churn == CHURN_NONE &&
	       lane_post_control(&connection->lanes[0], &connection->job->rng, &connection->outbox[0])) {
		connection->outbox_used--;
		memmove(connection->outbox, connection->outbox + 1,
			connection->outbox_used * sizeof(connection->outbox[0]));
		posted++;
	}
	return posted;
}

void agree_stop(struct job *job)
{
	static const struct control stop = { .type = CONTROL_STOP };

	for (int peer = 0; peer < job->settings.ranks; peer++)
		if (job->connections[peer])
			outbox_put(job->connections[peer], &stop);
	job->stop_told = true;
}

void totals_of(struct job *job, struct totals *totals)
{
	totals->verified = atomic_load(&job->tally.verified);
	totals->lost = atomic_load(&job->tally.found[FOUND_LOST]);
	totals->doubled = atomic_load(&job->tally.found[FOUND_DOUBLED]);
	totals->damaged = atomic_load(&job->tally.found[FOUND_DAMAGED]);
	totals->unexpected = atomic_load(&job->tally.found[FOUND_UNEXPECTED]);
	unreliable_totals(job, totals);
}

/* Everything of the run is done: nothing outstanding, nothing to tell. */
static bool quiet(struct connection *connection)
{
	struct job *job = connection->job;

	if (connection->outbox_used || connection->churn != CHURN_NONE || !unreliable_is_over(connection))
		return false;
	for (int i = 0; i < job->settings.lanes; i++) {
		struct lane *lane = &connection->lanes[i];

		/* A last notice announces what no notice has said yet. */
		if (!lane->done.messages || lane->since_notice || lane->slots_unannounced)
			lane_post_notice(lane, &job->rng, true);
		lane_flush(lane, &job->rng);
	}
	return connection_outstanding(connection) == 0;
}

static void send_final(struct connection *connection)
{
	struct job *job = connection->job;
	struct control control = { .type = CONTROL_FINAL };

	for (int i = 0; i < job->settings.lanes; i++)
		control.final.lanes[i] = connection->lanes[i].done;
	control.final.shared_page_count = shared_page_own_count(job);
	outbox_put(connection, &control);
	connection->final_sent = true;
}

static void check_shared(struct job *job)
{
	uint64_t added = 0, wins = 0, counted = shared_page_own_count(job);

	for (int peer = 0; peer < job->settings.ranks; peer++) {
		struct connection *connection = job->connections[peer];

		for (int i = 0; connection && i < job->settings.lanes; i++) {
			added += connection->peer_final.lanes[i].shared_add_sum;
			wins += connection->peer_final.lanes[i].shared_swap_wins;
		}
		if (connection)
			counted += connection->peer_final.shared_page_count;
	}
	if (job->shared_cells[SHARED_ADD] != added)
		tally_found(&job->tally, job->shared_cells[SHARED_ADD] < added ? FOUND_LOST : FOUND_DOUBLED, 1,
			    "all ranks added %lu in all, the cell has %lu", added, job->shared_cells[SHARED_ADD]);
	if (job->shared_cells[SHARED_SWAP] != wins)
		tally_found(&job->tally, job->shared_cells[SHARED_SWAP] < wins ? FOUND_LOST : FOUND_DOUBLED, 1,
			    "all ranks won %lu swaps, the cell has %lu", wins, job->shared_cells[SHARED_SWAP]);
	shared_page_check(job, counted);
	job->checked_shared = true;
}

static void send_report(struct connection *connection)
{
	struct control control = { .type = CONTROL_REPORT };

	for (int i = 0; i < connection->job->settings.lanes; i++)
		control.report[i] = connection->lanes[i].seen;
	outbox_put(connection, &control);
	connection->report_sent = true;
}

static void send_bye(struct connection *connection)
{
	struct control control = { .type = CONTROL_BYE };

	totals_of(connection->job, &control.totals);
	outbox_put(connection, &control);
	connection->bye_sent = true;
}

bool agree_step(struct job *job)
{
	bool finals = true, reports = true, byes = true, done = true;
	int ranks = job->settings.ranks;

	for (int peer = 0; peer < ranks; peer++) {
		struct connection *connection = job->connections[peer];

		if (!connection)
			continue;
		if (!connection->final_sent && quiet(connection))
			send_final(connection);
		finals = finals && connection->final_sent && connection->final_seen;
		reports = reports && connection->report_seen;
		byes = byes && connection->bye_seen;
	}
	if (finals && !job->checked_shared)
		check_shared(job);
	for (int peer = 0; peer < ranks; peer++) {
		struct connection *connection = job->connections[peer];

		if (!connection)
			continue;
		if (finals && !connection->report_sent)
			send_report(connection);
		if (reports && connection->report_sent && !connection->bye_sent)
			send_bye(connection);
		done = done && connection->bye_sent && !connection->outbox_used &&
		       (connection->gone || connection_outstanding(connection) == 0);
	}
	return byes && done;
}

const char *agree_waits_for(struct connection *connection)
{
	if (!connection->final_sent && !unreliable_is_over(connection))
		return "a message that may be lost, or word that one has arrived there";
	if (!connection->final_sent)
		return "completions of the last requests";
	if (!connection->final_seen)
		return "the final counts";
	if (!connection->report_seen)
		return "the report";
	if (!connection->bye_seen)
		return "the bye";
	if (!connection->gone && connection_outstanding(connection))
		return "completion of the bye";
	return NULL;
}
