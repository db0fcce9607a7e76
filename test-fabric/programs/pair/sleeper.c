/*
 * sleeper: rank 1 sleeps until a completion event comes, with several completion queues on its channels. Rank 0 sends
 * after the go file has appeared.
 *
 * event: a thread in ibv_get_cq_event. epoll: a thread in epoll_wait on the descriptors of two channels, which it made
 * ready beforehand. pending: the events are there before the go file, but nobody has taken them yet.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "pair.h"

#define QUEUES 3
#define ROUNDS 4
#define SIZE 64

const char *const program_name = "sleeper";
const char *const program_modes[] = { "event", "epoll", "pending", NULL };

struct sleeper {
	struct ibv_comp_channel *channels[2];
	struct ibv_cq *cqs[QUEUES];
	struct link links[QUEUES];
	struct area area;
	int contexts[QUEUES];		/* their addresses are the queues' contexts */
	int epoll_fd;
	int woken;
};

static void send_round(struct sleeper *sleeper, int round)
{
	struct ibv_wc wc;

	for (int queue = 0; queue < QUEUES; queue++) {
		unsigned char *memory = sleeper->area.memory + queue * SIZE;

		pattern_fill(memory, SIZE, round * QUEUES + queue, 0);
		link_post(&sleeper->links[queue], IBV_WR_SEND, round, IBV_SEND_SIGNALED, memory, SIZE, 0);
		await_completion(sleeper->cqs[queue], round, &wc, "a SEND that wakes the sleeper");
	}
}

static void arm(struct sleeper *sleeper, int queue)
{
	int err = ibv_req_notify_cq(sleeper->cqs[queue], 0);

	if (err)
		die(err, "ibv_req_notify_cq");
}

static struct ibv_comp_channel *channel_of(struct sleeper *sleeper, int queue)
{
	return sleeper->channels[queue % 2];
}

static void epoll_add(struct sleeper *sleeper, int channel)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = channel };

	if (epoll_ctl(sleeper->epoll_fd, EPOLL_CTL_ADD, sleeper->channels[channel]->fd, &event))
		die(errno, "epoll_ctl of a channel's descriptor");
}

static struct ibv_comp_channel *next_channel(struct sleeper *sleeper, bool with_epoll)
{
	struct epoll_event event;
	int got;

	if (!with_epoll)
		return sleeper->channels[0];
	/* A signal or a freeze may end the wait early: only real time out counts. */
	while ((got = epoll_wait(sleeper->epoll_fd, &event, 1, PAIR_FILE_DEADLINE_S * 1000)) < 0 && errno == EINTR)
		;
	if (got < 0)
		die(errno, "epoll_wait");
	if (got == 0)
		die(0, "waited %d s in epoll for a completion event", PAIR_FILE_DEADLINE_S);
	return sleeper->channels[event.data.u32];
}

/* Takes one event and the message that it tells of. Returns the queue. */
static int take_event(struct sleeper *sleeper, bool with_epoll, const int *expected_rounds)
{
	struct ibv_comp_channel *channel = next_channel(sleeper, with_epoll);
	unsigned char *memory;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;
	int queue;

	if (ibv_get_cq_event(channel, &cq, &context))
		die(errno, "ibv_get_cq_event");
	for (queue = 0; queue < QUEUES && sleeper->cqs[queue] != cq; queue++)
		;
	if (queue == QUEUES || context != &sleeper->contexts[queue] || channel_of(sleeper, queue) != channel)
		die(0, "an event for a completion queue that is not of this channel");
	ibv_ack_cq_events(cq, 1);
	arm(sleeper, queue);
	await_completion(cq, expected_rounds[queue], &wc, "the message that the event told of");
	memory = sleeper->area.memory + (expected_rounds[queue] * QUEUES + queue) * SIZE;
	if (wc.byte_len != SIZE || !pattern_matches(memory, SIZE, expected_rounds[queue] * QUEUES + queue, 0))
		die(0, "message %d of queue %d is damaged", expected_rounds[queue], queue);
	expect_no_completion(cq, "behind the message of the event");
	__atomic_add_fetch(&sleeper->woken, 1, __ATOMIC_RELEASE);
	return queue;
}

static void *sleep_for_events(void *argument)
{
	struct pair *pair = ((void **)argument)[0];
	struct sleeper *sleeper = ((void **)argument)[1];
	bool with_epoll = !strcmp(pair->mode, "epoll");
	int rounds[QUEUES] = { 0 };

	for (int events = 0; events < ROUNDS * QUEUES; events++)
		rounds[take_event(sleeper, with_epoll, rounds)]++;
	for (int queue = 0; queue < QUEUES; queue++)
		if (rounds[queue] != ROUNDS)
			die(0, "queue %d had %d events instead of %d", queue, rounds[queue], ROUNDS);
	return NULL;
}

static void wake(struct pair *pair, struct sleeper *sleeper)
{
	int first = 0;

	if (!strcmp(pair->mode, "pending"))
		send_round(sleeper, first++);
	pair_ready(pair);
	if (first)
		pair_sync(pair, "the sleeper's first round");
	for (int round = first; round < ROUNDS; round++) {
		send_round(sleeper, round);
		/* One event may stand for two messages: the sleeper takes this round's first. */
		pair_sync(pair, "the sleeper's round");
	}
}

static void be_woken(struct pair *pair, struct sleeper *sleeper)
{
	bool pending = !strcmp(pair->mode, "pending");
	void *arguments[] = { pair, sleeper };
	int rounds[QUEUES] = { 0 };
	pthread_t thread;
	int err;

	if (pending) {
		/* Messages of which the events are kept: rank 0 syncs for READY when all have arrived. */
		pair_ready(pair);
		for (int round = 0; round < ROUNDS; round++) {
			for (int queue = 0; queue < QUEUES; queue++)
				rounds[take_event(sleeper, false, rounds)]++;
			pair_sync(pair, "the peer's round");
		}
		return;
	}
	err = pthread_create(&thread, NULL, sleep_for_events, arguments);
	if (err)
		die(err, "pthread_create");
	pair_ready(pair);
	for (int round = 0; round < ROUNDS; round++) {
		struct work_clock clock;

		work_clock_start(&clock);
		while (__atomic_load_n(&sleeper->woken, __ATOMIC_ACQUIRE) < (round + 1) * QUEUES) {
			if (work_clock_read(&clock) > PAIR_DEADLINE_S * NS_PER_S)
				die(0, "waited %d s for the sleeper to wake for round %d: %d events of %d",
				    PAIR_DEADLINE_S, round, sleeper->woken, (round + 1) * QUEUES);
			work_clock_rest(100);
		}
		pair_sync(pair, "the peer's round");
	}
	err = pthread_join(thread, NULL);
	if (err)
		die(err, "pthread_join");
}

void program_run(struct pair *pair)
{
	bool two_channels = !strcmp(pair->mode, "epoll");
	struct sleeper sleeper = { .epoll_fd = -1 };

	area_create(pair, &sleeper.area, ROUNDS * QUEUES * SIZE, ACCESS_NOTHING_REMOTE);
	for (int i = 0; i < 2; i++) {
		sleeper.channels[i] = i && !two_channels ? sleeper.channels[0]
							 : ibv_create_comp_channel(pair->endpoint.context);
		if (!sleeper.channels[i])
			die(errno, "ibv_create_comp_channel");
	}
	if (two_channels) {
		sleeper.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		if (sleeper.epoll_fd < 0)
			die(errno, "epoll_create1");
		epoll_add(&sleeper, 0);
		epoll_add(&sleeper, 1);
	}
	for (int queue = 0; queue < QUEUES; queue++) {
		struct link_wishes wishes = { .max_send = ROUNDS, .max_receive = ROUNDS };

		sleeper.cqs[queue] = ibv_create_cq(pair->endpoint.context, 2 * ROUNDS, &sleeper.contexts[queue],
						   channel_of(&sleeper, queue), 0);
		if (!sleeper.cqs[queue])
			die(errno, "ibv_create_cq");
		wishes.send_cq = wishes.receive_cq = sleeper.cqs[queue];
		link_create(pair, &sleeper.links[queue], &wishes, &sleeper.area);
		if (pair->rank == 0)
			continue;
		for (int round = 0; round < ROUNDS; round++)
			link_receive(&sleeper.links[queue], round,
				     sleeper.area.memory + (round * QUEUES + queue) * SIZE, SIZE);
		arm(&sleeper, queue);
	}
	pair_sync(pair, "the peer's receives");
	if (pair->rank == 0)
		wake(pair, &sleeper);
	else
		be_woken(pair, &sleeper);
	pair_sync(pair, "the peer's checks");
	for (int queue = 0; queue < QUEUES; queue++) {
		link_destroy(&sleeper.links[queue]);
		cq_destroy(sleeper.cqs[queue]);
	}
	for (int i = 0; i <= two_channels; i++)
		if (ibv_destroy_comp_channel(sleeper.channels[i]))
			die(errno, "ibv_destroy_comp_channel");
	area_destroy(&sleeper.area);
	if (sleeper.epoll_fd >= 0)
		close(sleeper.epoll_fd);
}
