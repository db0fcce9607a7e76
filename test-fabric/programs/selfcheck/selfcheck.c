/*
 * selfcheck: ranks that do every kind of operation of RC, or of XRC, to each other at random and verify
 * each of them: nothing lost, nothing done twice, no byte wrong. See README.md.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/die.h"
#include "../common/fork_ranks.h"
#include "agree.h"
#include "churn.h"
#include "connection.h"
#include "../common/extended.h"
#include "lane.h"
#include "receive.h"
#include "shared_page.h"
#include "unreliable.h"
#include "verify_ids.h"

#define POLL_BATCH 16
#define INLINE_WANTED 128
#define TICK_NS 5000000ULL		/* how often clocks, files and neglected queues are looked at */
#define VERSION_NS 20000000ULL
#define CHURN_NS 100000000ULL
#define WINDOWS_NS 20000000ULL
#define IDS_NS 100000000ULL
#define EVENT_WAIT_MS 50
#define SHARE_NS 20000000ULL		/* how often a rank looks what it has taken of a processor */
#define LONGEST_SHARE_REST_NS 100000000ULL

static volatile sig_atomic_t stop_asked;

static void ask_to_stop(int sig)
{
	(void)sig;
	stop_asked = 1;
}

static void rng_init(struct rng *rng, const struct job *job, int thread)
{
	rng->state = mix64_two(mix64_two(job->settings.seed, job->rank), thread) | 1;
}

/* One thread's share of posting: a lane of each connection in turn, with pauses if asked for. */
struct poster {
	struct job *job;
	int lane;
	struct rng rng;
	struct work_clock clock;
	uint64_t next_ns;
	int next_peer;
};

static void poster_init(struct poster *poster, struct job *job, int lane)
{
	poster->job = job;
	poster->lane = lane;
	poster->next_ns = 0;
	poster->next_peer = 0;
	rng_init(&poster->rng, job, 1 + lane);
	work_clock_start(&poster->clock);
}

static int poster_step(struct poster *poster)
{
	struct job *job = poster->job;
	int ranks = job->settings.ranks, posted = 0;

	for (int i = 0; i < ranks; i++)
		if (job->connections[i])
			posted += lane_post_notice(&job->connections[i]->lanes[poster->lane], &poster->rng, false);
	if (job->settings.pace_us && work_clock_read(&poster->clock) < poster->next_ns)
		return posted;
	for (int i = 0; i < ranks; i++) {
		struct connection *connection = job->connections[poster->next_peer];
		int now = 0;

		poster->next_peer = (poster->next_peer + 1) % ranks;
		if (connection)
			now = lane_post_random(&connection->lanes[poster->lane], &poster->rng);
		posted += now;
		if (now && job->settings.pace_us) {
			poster->next_ns = work_clock_read(&poster->clock) +
					  now * rng_below(&poster->rng, 2 * job->settings.pace_us + 1) * 1000ULL;
			break;
		}
	}
	return posted;
}

static void *poster_run(void *argument)
{
	struct poster poster;
	struct patience patience = { 0 };

	poster_init(&poster, ((struct lane *)argument)->connection->job, ((struct lane *)argument)->number);
	while (!atomic_load(&poster.job->stopping)) {
		if (poster_step(&poster))
			patience_renew(&patience);
		else
			patience_spend(&patience);
	}
	return NULL;
}

static struct connection *first_connection(struct job *job)
{
	return job->connections[job->rank == 0];
}

static void posters_start(struct job *job)
{
	sigset_t all, before;

	/* The stop signals are for the main thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (int lane = 1; lane < job->settings.lanes; lane++) {
		int err = pthread_create(&job->posters[lane], NULL, poster_run, &first_connection(job)->lanes[lane]);

		if (err)
			die(err, "pthread_create");
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void posters_join(struct job *job)
{
	for (int lane = 1; lane < job->settings.lanes; lane++)
		pthread_join(job->posters[lane], NULL);
}

static bool send_completed(struct job *job, const struct ibv_wc *wc)
{
	uint32_t peer = wc->wr_id >> 56, number = wc->wr_id >> 48 & 0xff;
	struct connection *connection = peer < MAX_RANKS ? job->connections[peer] : NULL;

	if (!connection || number >= (uint32_t)job->settings.lanes) {
		tally_found(&job->tally, FOUND_UNEXPECTED, 1, "send completion %#lx that nobody waits for", wc->wr_id);
		return false;
	}
	if (wc->status != IBV_WC_SUCCESS && connection->bye_sent && connection->bye_seen) {
		/* The peer may end with its acknowledgement of the bye unsent. It has said that it lacks nothing. */
		connection->gone = true;
		return true;
	}
	connection->last_retire_ns = job->now_ns;
	return lane_retire(&connection->lanes[number], wc->wr_id & 0xffffffffffffULL, wc);
}

/* Returns the number of completions, or -1 if a queue pair is of no more use. */
static int poll_all(struct job *job)
{
	struct ibv_wc wc[POLL_BATCH];
	int receives, sends;

	receives = job->way->poll(job->receive_cq, POLL_BATCH, wc);
	if (receives < 0)
		die(0, "ibv_poll_cq of the receive queue fails");
	for (int i = 0; i < receives; i++)
		if (!receive_completed(job, &wc[i]))
			return -1;
	sends = job->way->poll(job->send_cq, POLL_BATCH, wc);
	if (sends < 0)
		die(0, "ibv_poll_cq of the send queue fails");
	for (int i = 0; i < sends; i++)
		if (!send_completed(job, &wc[i]))
			return -1;
	/* What is told in the final message must not change any more. */
	if (!atomic_load(&job->stopping))
		shared_page_count(job, receives + sends);
	return receives + sends;
}

/* Sleeps until a completion event, but not for long: stop files and pauses bring no event. */
static void wait_for_event(struct job *job)
{
	struct pollfd pollfd = { .fd = job->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;
	int err;

	if (poll(&pollfd, 1, job->settings.pace_us && job->settings.pace_us < 50000 ? 1 : EVENT_WAIT_MS) <= 0)
		return;
	if (ibv_get_cq_event(job->channel, &cq, &context))
		die(errno, "ibv_get_cq_event");
	if ((cq != job->send_cq && cq != job->receive_cq) || context != (cq == job->send_cq ? (void *)job : NULL))
		tally_found(&job->tally, FOUND_UNEXPECTED, 1, "event for the completion queue %p with context %p",
			    (void *)cq, context);
	ibv_ack_cq_events(cq, 1);
	err = ibv_req_notify_cq(cq, 0);
	if (err)
		die(err, "ibv_req_notify_cq");
}

static void arm(struct job *job)
{
	int err = ibv_req_notify_cq(job->send_cq, 0);

	if (!err)
		err = ibv_req_notify_cq(job->receive_cq, 0);
	if (err)
		die(err, "ibv_req_notify_cq");
}

static bool must_stop(struct job *job)
{
	struct settings *settings = &job->settings;

	return stop_asked || (settings->seconds && job->now_ns >= settings->seconds * NS_PER_S) ||
	       (settings->ops && atomic_load(&job->tally.posted) >= settings->ops) ||
	       (settings->stop_file && access(settings->stop_file, F_OK) == 0);
}

static void print_counts(struct job *job, const char *what)
{
	struct totals totals;

	totals_of(job, &totals);
	fprintf(job->settings.json ? stderr : stdout,
		"rank %d: %s: posted %lu, verified %lu, lost %lu, doubled %lu, damaged %lu, unexpected %lu, %.1f s\n",
		job->rank, what, atomic_load(&job->tally.posted), totals.verified, totals.lost, totals.doubled,
		totals.damaged, totals.unexpected, (double)job->now_ns / NS_PER_S);
	fflush(NULL);
}

/* When the connection last made progress with what it waits for; `awaited` is NULL if it waits for nothing. */
static uint64_t last_progress(struct connection *connection, bool ending, const char **awaited)
{
	uint64_t receive = connection->last_receive_ns, retire = connection->last_retire_ns;

	*awaited = ending ? agree_waits_for(connection) : NULL;
	if (*awaited)
		return receive > retire ? receive : retire;
	if (connection->churn != CHURN_NONE) {
		*awaited = "its part in replacing the queue pair";
		return receive > retire ? receive : retire;
	}
	if (connection_awaits_completion(connection))
		*awaited = "completions of posted requests";
	return retire;
}

/* False, with a line that names what was waited for, if a connection has made no progress for too long. */
static bool progress_is_made(struct job *job, bool ending)
{
	for (int peer = 0; peer < job->settings.ranks; peer++) {
		struct connection *connection = job->connections[peer];
		const char *awaited;
		uint64_t last;

		if (!connection)
			continue;
		last = last_progress(connection, ending, &awaited);
		if (!awaited) {
			/* The time that counts begins with the next request. */
			connection->last_retire_ns = job->now_ns;
		} else if (job->now_ns > last + job->settings.deadline_s * NS_PER_S) {
			fprintf(stderr, "%s: waited %lu s for rank %d: %s (%lu outstanding)\n", die_prefix(),
				job->settings.deadline_s, peer, awaited, connection_outstanding(connection));
			for (int i = 0; i < job->settings.lanes; i++)
				lane_describe(&connection->lanes[i]);
			return false;
		}
	}
	return true;
}

struct timers {
	uint64_t tick, progress, version, churn, ids;
};

static bool due(struct job *job, uint64_t *next, uint64_t every)
{
	if (job->now_ns < *next)
		return false;
	*next = job->now_ns + every;
	return true;
}

static bool tick(struct job *job, struct timers *timers, bool ending)
{
	struct settings *settings = &job->settings;
	bool version = !ending && due(job, &timers->version, VERSION_NS);
	bool churn = !ending && settings->churn && due(job, &timers->churn,
							       settings->windows ? WINDOWS_NS : CHURN_NS);
	bool ids = settings->verify_ids && due(job, &timers->ids, IDS_NS);
	int chosen = rng_below(&job->rng, settings->ranks);

	if (settings->progress_s && due(job, &timers->progress, settings->progress_s * NS_PER_S))
		print_counts(job, ending ? "ending" : "running");
	for (int peer = 0; peer < settings->ranks; peer++) {
		struct connection *connection = job->connections[peer];

		if (!connection || connection->gone)
			continue;
		receive_feed(connection);
		if (version)
			versioned_advance(connection);
		if (ids && connection->churn == CHURN_NONE)
			verify_ids(connection);
		if (churn && peer == chosen)
			churn_begin(connection);
	}
	if (churn && chosen == job->rank)
		unreliable_churn(job);
	return progress_is_made(job, ending);
}

static uint64_t processor_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* What a rank may take of a processor, with all its threads. What a checkpoint takes in it is soon forgotten. */
struct share {
	uint64_t looked_ns, processor_ns, next_ns;
};

/* Rests as long as it takes until what was taken since the last look is no more than the share. */
static void keep_share(struct job *job, struct share *share)
{
	uint64_t now, used, rest;

	if (!job->settings.share_percent || !due(job, &share->next_ns, SHARE_NS))
		return;
	now = processor_ns();
	used = now > share->processor_ns ? now - share->processor_ns : 0;	/* a restored process begins at 0 */
	used = used * 100 / job->settings.share_percent;
	rest = used > job->now_ns - share->looked_ns ? used - (job->now_ns - share->looked_ns) : 0;
	if (rest)
		work_clock_rest((rest < LONGEST_SHARE_REST_NS ? rest : LONGEST_SHARE_REST_NS) / 1000);
	share->looked_ns = job->now_ns;
	share->processor_ns = now;
}

/* Returns true if all went through the agreed end. */
static bool run(struct job *job)
{
	struct timers timers = { .churn = CHURN_NS, .progress = job->settings.progress_s * NS_PER_S };
	struct share share = { .looked_ns = job->now_ns, .processor_ns = processor_ns() };
	struct poster poster;
	bool ending = false;
	struct patience patience = { 0 };

	poster_init(&poster, job, 0);
	if (job->channel)
		arm(job);
	posters_start(job);
	for (;;) {
		int moved = poll_all(job);

		job->now_ns = work_clock_read(&job->clock);
		if (moved < 0)
			return false;
		keep_share(job, &share);
		if (due(job, &timers.tick, TICK_NS)) {
			if (!tick(job, &timers, ending))
				return false;
			if (must_stop(job))
				atomic_store(&job->stopping, true);
		}
		if (atomic_load(&job->stopping) && !ending) {
			ending = true;
			posters_join(job);
			agree_stop(job);
		}
		moved += unreliable_step(job, ending);
		for (int peer = 0; peer < job->settings.ranks; peer++) {
			if (!job->connections[peer])
				continue;
			if (job->settings.churn)
				churn_step(job->connections[peer]);
			moved += outbox_post(job->connections[peer]);
		}
		if (!ending)
			moved += poster_step(&poster);
		else if (agree_step(job))
			return true;
		if (moved)
			patience_renew(&patience);
		else if (job->channel)
			wait_for_event(job);
		else
			patience_spend(&patience);
	}
}

static struct ibv_cq *create_cq(struct job *job, int entries, void *context)
{
	struct ibv_cq *cq = job->way->create_cq(job->endpoint.context, entries, context, job->channel);

	if (!cq)
		die(errno, "a completion queue of %d entries", entries);
	return cq;
}

static void create_srq(struct job *job, int receives)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = receives, .max_sge = 2 } };

	job->srq = ibv_create_srq(job->endpoint.pd, &attr);
	if (!job->srq)
		die(errno, "ibv_create_srq of %d receives", receives);
}

static void create_queues(struct job *job)
{
	struct settings *settings = &job->settings;
	int peers = settings->ranks - 1;
	/* A connection has two queue pairs while one replaces the other. */
	int sends = peers * 2 * settings->depth * settings->lanes;
	int receives = peers * (settings->receive_depth + SPARE_RECEIVES);

	if (settings->events) {
		job->channel = ibv_create_comp_channel(job->endpoint.context);
		if (!job->channel)
			die(errno, "ibv_create_comp_channel");
	}
	job->send_cq = create_cq(job, sends, job);
	job->receive_cq = create_cq(job, receives, NULL);
	if (settings->xrc) {
		job->xrcd = endpoint_open_xrcd(&job->endpoint, -1);
		job->srq = endpoint_create_xrc_srq(&job->endpoint, job->xrcd, job->receive_cq, receives, 2);
	} else if (settings->srq) {
		create_srq(job, receives);
	}
}

static void set_up(struct job *job)
{
	struct settings *settings = &job->settings;
	char name[32];

	work_clock_start(&job->clock);
	rng_init(&job->rng, job, 0);
	job->max_inline = INLINE_WANTED;
	endpoint_open(&job->endpoint, settings->device, settings->port, settings->gid_index);
	job->way = verbs_way(settings->extended);
	create_queues(job);
	unreliable_create(job);
	job->shared_cells = aligned_alloc(64, SHARED_CELLS * 8);
	if (!job->shared_cells)
		die(ENOMEM, "shared cells");
	memset(job->shared_cells, 0, SHARED_CELLS * 8);
	job->shared_mr = endpoint_register(&job->endpoint, job->shared_cells, SHARED_CELLS * 8, ACCESS_ALL);
	for (int peer = 0; peer < settings->ranks; peer++) {
		struct connection_card card;

		if (peer == job->rank)
			continue;
		job->connections[peer] = connection_create(job, peer);
		connection_card_fill(job->connections[peer], &card);
		snprintf(name, sizeof(name), "for-%d", peer);
		rank_dir_publish(&job->dir, name, &card, sizeof(card));
	}
	snprintf(name, sizeof(name), "for-%d", job->rank);
	for (int peer = 0; peer < settings->ranks; peer++) {
		struct connection_card card;

		if (peer == job->rank)
			continue;
		rank_dir_await(&job->dir, name, peer, &card, sizeof(card));
		connection_connect(job->connections[peer], &card);
	}
	if (settings->shared_memory)
		shared_page_map(job);
	/* Nobody sends before all have posted receives. */
	rank_dir_barrier(&job->dir, "connected");
	job->now_ns = work_clock_read(&job->clock);
	for (int peer = 0; peer < settings->ranks; peer++)
		if (job->connections[peer])
			job->connections[peer]->last_retire_ns = job->connections[peer]->last_receive_ns = job->now_ns;
}

static void tear_down(struct job *job)
{
	char name[32];

	for (int peer = 0; peer < job->settings.ranks; peer++) {
		if (!job->connections[peer])
			continue;
		connection_destroy(job->connections[peer]);
		snprintf(name, sizeof(name), "for-%d", peer);
		rank_dir_remove(&job->dir, name);
	}
	unreliable_destroy(job);
	rank_dir_remove(&job->dir, "connected");
	rank_dir_remove(&job->dir, "mapped");
	mr_deregister(job->shared_mr);
	free(job->shared_cells);
	if (job->srq)
		srq_destroy(job->srq);
	if (job->xrcd)
		xrcd_close(job->xrcd);
	cq_destroy(job->send_cq);
	cq_destroy(job->receive_cq);
	if (job->channel && ibv_destroy_comp_channel(job->channel))
		die(errno, "ibv_destroy_comp_channel");
	endpoint_close(&job->endpoint);
}

/* Rank 0 speaks for the job. It knows all totals from the byes, if it came that far. */
static bool print_result(struct job *job, bool agreed)
{
	struct totals totals;
	bool passed;

	totals_of(job, &totals);
	for (int peer = 0; peer < job->settings.ranks; peer++) {
		const struct connection *connection = job->connections[peer];

		if (!connection)
			continue;
		totals.verified += connection->peer_totals.verified;
		totals.lost += connection->peer_totals.lost;
		totals.doubled += connection->peer_totals.doubled;
		totals.damaged += connection->peer_totals.damaged;
		totals.unexpected += connection->peer_totals.unexpected;
		totals.sent += connection->peer_totals.sent;
		totals.arrived += connection->peer_totals.arrived;
	}
	passed = agreed && !totals.lost && !totals.doubled && !totals.damaged && !totals.unexpected;
	if (job->rank != 0)
		return passed;
	if (job->settings.json)
		printf("{\"ranks\":%d,\"verified\":%lu,\"lost\":%lu,\"doubled\":%lu,\"damaged\":%lu,"
		       "\"unexpected\":%lu,\"unreliable_sent\":%lu,\"unreliable_arrived\":%lu,\"passed\":%s}\n",
		       job->settings.ranks, totals.verified, totals.lost, totals.doubled, totals.damaged,
		       totals.unexpected, totals.sent, totals.arrived, passed ? "true" : "false");
	else
		printf("selfcheck: %d ranks: unreliable %lu of %lu, verified %lu, lost %lu, doubled %lu, damaged %lu, "
		       "unexpected %lu: %s\n", job->settings.ranks, totals.arrived, totals.sent, totals.verified,
		       totals.lost, totals.doubled, totals.damaged, totals.unexpected, passed ? "passed" : "FAILED");
	fflush(stdout);
	return passed;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = ask_to_stop };
	static struct job the_job;
	struct job *job = &the_job;
	bool agreed, passed;

	die_name("selfcheck");
	settings_parse(&job->settings, argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	job->dir.path = job->settings.dir;
	job->rank = job->settings.rank >= 0 ? job->settings.rank : fork_ranks(job->settings.ranks, &job->dir.path);
	job->dir.rank = job->rank;
	job->dir.ranks = job->settings.ranks;
	die_name("selfcheck: rank %d", job->rank);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	set_up(job);
	print_counts(job, "connected");
	agreed = run(job);
	print_counts(job, agreed ? "ended" : "broken off");
	passed = print_result(job, agreed);
	/* After a failure posters may still be at work, and there is nothing more to learn. */
	if (agreed)
		tear_down(job);
	return passed ? 0 : 1;
}
