#include "churn.h"

#include "../common/die.h"
#include "agree.h"
#include "connection.h"
#include "lane.h"

static void set_paused(struct connection *connection, bool paused)
{
	/* A poster looks at it with its lane's lock held. */
	for (int i = 0; i < connection->job->settings.lanes; i++)
		pthread_mutex_lock(&connection->lanes[i].lock);
	connection->paused = paused;
	for (int i = 0; i < connection->job->settings.lanes; i++)
		pthread_mutex_unlock(&connection->lanes[i].lock);
}

static bool lanes_are_past(struct connection *connection, const uint64_t *marks)
{
	bool past = true;

	for (int i = 0; i < connection->job->settings.lanes; i++) {
		struct lane *lane = &connection->lanes[i];

		pthread_mutex_lock(&lane->lock);
		past = past && lane->tail >= marks[i];
		pthread_mutex_unlock(&lane->lock);
	}
	return past;
}

/* The churn's own messages bypass the outbox: it is held up until the new queue pair is in use. */
static void post_control(struct connection *connection, const struct control *control)
{
	if (!lane_post_control(&connection->lanes[0], &connection->job->rng, control))
		die(0, "no room in the idle send queue to rank %d", connection->peer);
}

static void begin_local(struct connection *connection)
{
	int which = rng_below(&connection->job->rng, 2);

	for (int i = 0; i < connection->job->settings.lanes; i++) {
		struct lane *lane = &connection->lanes[i];

		pthread_mutex_lock(&lane->lock);
		lane->mr_usable &= ~(1U << which);
		connection->churn_marks[i] = lane->head;
		pthread_mutex_unlock(&lane->lock);
	}
	connection->churn_local = which;
}

static void step_local(struct connection *connection)
{
	int which = connection->churn_local;

	if (which < 0 || !lanes_are_past(connection, connection->churn_marks))
		return;
	mr_deregister(connection->local_mr[which]);
	connection->local_mr[which] = register_local(connection);
	for (int i = 0; i < connection->job->settings.lanes; i++) {
		pthread_mutex_lock(&connection->lanes[i].lock);
		connection->lanes[i].mr_usable |= 1U << which;
		pthread_mutex_unlock(&connection->lanes[i].lock);
	}
	connection->churn_local = -1;
}

static void begin_window(struct connection *connection)
{
	struct control control = { .type = CONTROL_NEW_KEY };

	connection->churn_window = connection->window_mr;
	connection->window_mr = register_window(connection);
	connection->sender_ids.known = connection->receiver_ids.known = false;
	control.rkey = connection->window_mr->rkey;
	outbox_put(connection, &control);
}

/* The window that the peer does not use is bound, with a new key. The requests behind that on the lane tell of it. */
static void begin_bind(struct connection *connection)
{
	int which = !connection->mw_told, before = connection->mw_told;
	struct ibv_mw *mw = connection->mws[which];
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct control control = { .type = CONTROL_NEW_KEY, .rkey = rkey };

	if (!lane_post_bind(&connection->lanes[0], &connection->job->rng, mw, rkey))
		return;
	mw->rkey = rkey;
	if (connection->mws_bound & 1 << before)
		control.replaces = connection->mws[before]->rkey;
	connection->mws_bound |= 1 << which;
	connection->mw_told = which;
	connection->mw_pending = true;
	outbox_put(connection, &control);
}

/* Unless the message itself has invalidated it, the one before is to be. */
static void step_invalidate(struct connection *connection)
{
	if (connection->mw_stale &&
	    lane_post_invalidate(&connection->lanes[0], &connection->job->rng, connection->mw_stale))
		connection->mw_stale = 0;
}

static void control_new_key(struct connection *connection, const struct control *control)
{
	for (int i = 0; i < connection->job->settings.lanes; i++) {
		struct lane *lane = &connection->lanes[i];

		pthread_mutex_lock(&lane->lock);
		lane->window_rkey = control->rkey;
		connection->key_marks[i] = lane->head;
		pthread_mutex_unlock(&lane->lock);
	}
	connection->key_pending = true;
	connection->key_before = rng_one_in(&connection->job->rng, 2) ? control->replaces : 0;
}

static void step_key(struct connection *connection)
{
	const struct control unused = { .type = CONTROL_KEY_UNUSED, .rkey = connection->key_before };

	if (!connection->key_pending || !lanes_are_past(connection, connection->key_marks))
		return;
	outbox_put(connection, &unused);
	connection->key_pending = false;
}

static void control_key_unused(struct connection *connection, uint32_t invalidated)
{
	int before = !connection->mw_told;

	if (connection->job->settings.windows) {
		if (!invalidated && connection->mws_bound & 1 << before)
			connection->mw_stale = connection->mws[before]->rkey;
		connection->mws_bound &= ~(1 << before);
		connection->mw_pending = false;
		return;
	}
	mr_deregister(connection->churn_window);
	connection->churn_window = NULL;
}

static void begin_queue(struct connection *connection)
{
	set_paused(connection, true);
	connection->churn = CHURN_QUIESCE;
}

/* The new pair becomes the one that is posted to; the old one stays until the peer has done the same. */
static void switch_queue(struct connection *connection)
{
	connection->old_queue = connection->queue;
	connection->queue = connection->next_queue;
	connection->next_queue = (struct queue){ 0 };
	connection->sender_ids.known = connection->receiver_ids.known = false;
}

static void step_quiesce(struct connection *connection)
{
	struct control control = { 0 };
	bool leads = connection->job->rank < connection->peer;

	for (int i = 0; i < connection->job->settings.lanes; i++)
		lane_flush(&connection->lanes[i], &connection->job->rng);
	if (connection_outstanding(connection))
		return;
	if (leads) {
		queue_create(connection, &connection->next_queue, connection->queue.generation + 1);
		control.type = CONTROL_QP_OFFER;
		connection->churn = CHURN_OFFERED;
	} else {
		control.type = CONTROL_QP_ANSWER;
		queue_connect(connection, &connection->next_queue, &connection->next_queue.peer);
		connection->churn = CHURN_ANSWERED;
	}
	receives_post(connection, &connection->next_queue, SPARE_RECEIVES);
	control.queue = connection->next_queue.own;
	post_control(connection, &control);
}

static void control_offer(struct connection *connection, const struct queue_address *peer)
{
	set_paused(connection, true);
	queue_create(connection, &connection->next_queue, connection->queue.generation + 1);
	connection->next_queue.peer = *peer;
	connection->churn = CHURN_QUIESCE;
}

static void control_answer(struct connection *connection, const struct queue_address *peer)
{
	queue_connect(connection, &connection->next_queue, peer);
	connection->churn = CHURN_CONNECTED;
}

static void step_connected(struct connection *connection)
{
	static const struct control switched = { .type = CONTROL_QP_SWITCHED };

	/* Completions of one lane must come in order: the offer's before those of the new pair. */
	if (connection_outstanding(connection))
		return;
	switch_queue(connection);
	connection->churn = CHURN_SWITCHED;
	post_control(connection, &switched);
}

static void resume(struct connection *connection)
{
	connection->churn = CHURN_NONE;
	queue_destroy(connection, &connection->old_queue);
	receives_post(connection, &connection->queue, connection->job->settings.receive_depth);
	set_paused(connection, false);
}

static void step_answered(struct connection *connection)
{
	static const struct control resumed = { .type = CONTROL_QP_RESUME };

	/* The answer must be known to have arrived, or its acknowledgement would die with the old pair. */
	if (!connection->old_queue.qp || connection_outstanding(connection))
		return;
	post_control(connection, &resumed);
	resume(connection);
}

void churn_control(struct connection *connection, const struct control *control)
{
	switch (control->type) {
	case CONTROL_NEW_KEY:
		control_new_key(connection, control);
		break;
	case CONTROL_KEY_UNUSED:
		control_key_unused(connection, control->rkey);
		break;
	case CONTROL_QP_OFFER:
		control_offer(connection, &control->queue);
		break;
	case CONTROL_QP_ANSWER:
		control_answer(connection, &control->queue);
		break;
	case CONTROL_QP_SWITCHED:
		switch_queue(connection);
		break;
	case CONTROL_QP_RESUME:
		connection->churn = CHURN_RESUMED;
		break;
	default:
		tally_found(&connection->job->tally, FOUND_DAMAGED, 1, "control message %u of rank %d", control->type,
			    connection->peer);
	}
}

void churn_step(struct connection *connection)
{
	step_local(connection);
	step_key(connection);
	step_invalidate(connection);
	switch (connection->churn) {
	case CHURN_QUIESCE:
		step_quiesce(connection);
		break;
	case CHURN_CONNECTED:
		step_connected(connection);
		break;
	case CHURN_ANSWERED:
		step_answered(connection);
		break;
	case CHURN_RESUMED:
		if (!connection_outstanding(connection))
			resume(connection);
		break;
	default:
		break;
	}
}

void churn_begin(struct connection *connection)
{
	switch (rng_below(&connection->job->rng, 3)) {
	case 0:
		if (connection->churn_local < 0)
			begin_local(connection);
		break;
	case 1:
		if (connection->job->settings.windows && !connection->mw_pending && !connection->mw_stale)
			begin_bind(connection);
		else if (!connection->job->settings.windows && !connection->churn_window)
			begin_window(connection);
		break;
	default:
		/* A window belongs to a queue pair. */
		if (connection->job->settings.windows)
			break;
		if (connection->churn == CHURN_NONE && connection->job->rank < connection->peer)
			begin_queue(connection);
	}
}
