/* SPDX-License-Identifier: Apache-2.0 */
/* Completion channels, asynchronous events, sleepers. */
#include "test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

static const struct shape shape = { .send_wr = 16, .recv_wr = 16, .sge = 1 };

struct sleeper {
	struct fixture *f;
	struct ibv_cq *cq;
	void *context;
	int result, err;
	unsigned asleep, done;
	pthread_t thread;
};

static void *sleep_for_event(void *argument)
{
	struct sleeper *s = argument;

	__atomic_store_n(&s->asleep, 1, __ATOMIC_RELEASE);
	s->result = ibv_get_cq_event(s->f->channel, &s->cq, &s->context);
	s->err = errno;
	__atomic_store_n(&s->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void start(struct sleeper *s)
{
	CHECK_EQUAL(pthread_create(&s->thread, NULL, sleep_for_event, s), 0);
	while (!__atomic_load_n(&s->asleep, __ATOMIC_ACQUIRE))
		sched_yield();
	/* Most likely it is in poll(2) by now; right is right in any case. */
	usleep(20000);
	CHECK_EQUAL(__atomic_load_n(&s->done, __ATOMIC_ACQUIRE), 0);
}

static void join(struct sleeper *s)
{
	CHECK_EQUAL(pthread_join(s->thread, NULL), 0);
	CHECK_EQUAL(s->result, 0);
	CHECK(s->cq == s->f->cq && s->context == s->f);
	ibv_ack_cq_events(s->cq, 1);
}

static void arm_and_complete(struct fixture *f, uint64_t wr_id)
{
	CHECK_EQUAL(ibv_req_notify_cq(f->cq, 0), 0);
	CHECK_EQUAL(post_send(f, wr_id, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
}

static bool readable(int fd, int milliseconds)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, milliseconds) == 1;
}

static void detach_and_reattach(struct fixture *f)
{
	driver_detach(f->context);
	driver_reattach(f->context);
}

static void no_event(struct fixture *f)
{
	struct ibv_cq *cq;
	void *context;
	int flags = fcntl(f->channel->fd, F_GETFL);

	CHECK(!readable(f->channel->fd, 0));
	CHECK_EQUAL(fcntl(f->channel->fd, F_SETFL, flags | O_NONBLOCK), 0);
	errno = 0;
	CHECK_EQUAL(ibv_get_cq_event(f->channel, &cq, &context), -1);
	CHECK_EQUAL(errno, EAGAIN);
	CHECK_EQUAL(fcntl(f->channel->fd, F_SETFL, flags), 0);
}

static void one_event(struct fixture *f)
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;

	CHECK(readable(f->channel->fd, 0));
	CHECK_EQUAL(ibv_get_cq_event(f->channel, &cq, &context), 0);
	CHECK(cq == f->cq && context == f);
	ibv_ack_cq_events(cq, 1);
}

static void events_arrive(void)
{
	struct fixture *f = open_fixture(shape);

	for (int round = 0; round < 5; round++) {
		no_event(f);
		arm_and_complete(f, round);
		one_event(f);
		no_event(f);
		expect(f->cq, round, IBV_WC_SUCCESS);
	}
	close_fixture(f);
}

static void sleeper_wakes(void)
{
	struct fixture *f = open_fixture(shape);
	struct sleeper s = { .f = f };

	start(&s);
	arm_and_complete(f, 1);
	join(&s);
	close_fixture(f);
}

/* Asleep in ibv_get_cq_event all through a checkpoint: woken by what happens afterwards. */
static void sleeper_through_a_checkpoint(void)
{
	struct fixture *f = open_fixture(shape);
	struct sleeper s = { .f = f };

	CHECK_EQUAL(post_send(f, 1, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	CHECK_EQUAL(ibv_req_notify_cq(f->cq, 0), 0);
	start(&s);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(f->cq), 0);
	CHECK_EQUAL(sv_channel_drain(f->channel), 0);
	detach_and_reattach(f);
	/* The notification was asked for before: it is asked for again. */
	CHECK_EQUAL(mock_cq(f->cq)->arms, 1);
	{
		uint64_t position;

		CHECK_EQUAL(sv_qp_replay_sends(f->qp, &position), 0);
	}
	sv_gate_open();
	CHECK_EQUAL(__atomic_load_n(&s.done, __ATOMIC_ACQUIRE), 0);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	join(&s);
	expect(f->cq, 1, IBV_WC_SUCCESS);
	no_event(f);
	close_fixture(f);
}

/* The completion was drained, its event was not: the sleeper gets one when the gate opens. */
static void drained_without_its_event(void)
{
	struct fixture *f = open_fixture(shape);
	struct sleeper s = { .f = f };

	CHECK_EQUAL(ibv_req_notify_cq(f->cq, 0), 0);
	CHECK_EQUAL(post_send(f, 1, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	mock_cq(f->cq)->armed = 0;	/* the device is slow with its events */
	start(&s);
	close_gate();
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(sv_cq_drain(f->cq), 1);
	CHECK_EQUAL(sv_channel_drain(f->channel), 0);
	detach_and_reattach(f);
	sv_gate_open();
	join(&s);
	expect(f->cq, 1, IBV_WC_SUCCESS);
	no_event(f);
	/* It was used up: the next completion makes none. */
	CHECK_EQUAL(post_send(f, 2, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(f->cq), 1);
	sv_gate_open();
	no_event(f);
	close_fixture(f);
}

/* Events that were not read come through, one each, and an epoll set of the application sees them. */
static void unread_events(void)
{
	struct fixture *f = open_fixture(shape);
	struct epoll_event watched = { .events = EPOLLIN, .data.u64 = 5 }, got;
	int set = epoll_create1(0);

	CHECK_EQUAL(epoll_ctl(set, EPOLL_CTL_ADD, f->channel->fd, &watched), 0);
	CHECK_EQUAL(epoll_wait(set, &got, 1, 0), 0);
	arm_and_complete(f, 1);
	arm_and_complete(f, 2);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(f->cq), 1);	/* the other was there at the second request */
	CHECK_EQUAL(sv_channel_drain(f->channel), 0);
	detach_and_reattach(f);
	sv_gate_open();
	CHECK_EQUAL(epoll_wait(set, &got, 1, 1000), 1);
	CHECK_EQUAL(got.data.u64, 5);
	one_event(f);
	one_event(f);
	no_event(f);
	CHECK_EQUAL(epoll_wait(set, &got, 1, 0), 0);
	arm_and_complete(f, 3);
	CHECK_EQUAL(epoll_wait(set, &got, 1, 1000), 1);
	one_event(f);
	for (int i = 1; i <= 3; i++)
		expect(f->cq, i, IBV_WC_SUCCESS);
	close(set);
	close_fixture(f);
}

/* The eventfd behind a descriptor, made anew as CRIU does it: with its count, without EFD_SEMAPHORE. */
static void restore_eventfd(int set)
{
	char path[64], line[80];
	int found = -1;
	FILE *info;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", set);
	info = fopen(path, "r");
	CHECK(info);
	while (found < 0 && fgets(line, sizeof(line), info)) {
		char fd_path[64], target[64] = "";
		int fd;

		if (sscanf(line, "tfd: %d", &fd) != 1)
			continue;
		snprintf(fd_path, sizeof(fd_path), "/proc/self/fd/%d", fd);
		CHECK(readlink(fd_path, target, sizeof(target) - 1) > 0);
		if (strstr(target, "eventfd"))
			found = fd;
	}
	fclose(info);
	CHECK(found >= 0);
	{
		struct epoll_event watched = { .events = EPOLLIN };
		unsigned count = 0;
		int anew;

		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", found);
		info = fopen(path, "r");
		CHECK(info);
		while (fgets(line, sizeof(line), info))
			sscanf(line, "eventfd-count: %x", &count);
		fclose(info);
		anew = eventfd(count, EFD_NONBLOCK);
		CHECK(anew >= 0);
		CHECK_EQUAL(dup2(anew, found), found);
		CHECK_EQUAL(epoll_ctl(set, EPOLL_CTL_ADD, found, &watched), 0);
		close(anew);
	}
}

/* Events of several queues that a restored process has in its image are all seen, and not only the first. */
static void events_of_a_restored_process(void)
{
	struct fixture *f = open_fixture(shape);

	arm_and_complete(f, 1);
	arm_and_complete(f, 2);
	arm_and_complete(f, 3);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(f->cq), 1);
	CHECK_EQUAL(sv_channel_drain(f->channel), 0);
	restore_eventfd(f->channel->fd);
	detach_and_reattach(f);
	sv_gate_open();
	one_event(f);
	one_event(f);
	one_event(f);
	no_event(f);
	for (int i = 1; i <= 3; i++)
		expect(f->cq, i, IBV_WC_SUCCESS);
	close_fixture(f);
}

/* Armed twice, one event read: the second request may still stand, so it is renewed. */
static void armed_again_before_the_event_was_read(void)
{
	struct fixture *f = open_fixture(shape);

	arm_and_complete(f, 1);
	expect(f->cq, 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_req_notify_cq(f->cq, 0), 0);
	one_event(f);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(f->cq), 0);
	detach_and_reattach(f);
	CHECK_EQUAL(mock_cq(f->cq)->arms, 1);
	CHECK_EQUAL(mock_cq(f->cq)->armed, 2);
	sv_gate_open();
	close_fixture(f);
}

static void solicited_only_stays_so(void)
{
	struct fixture *f = open_fixture(shape);

	CHECK_EQUAL(ibv_req_notify_cq(f->cq, 1), 0);
	close_gate();
	detach_and_reattach(f);
	CHECK_EQUAL(mock_cq(f->cq)->armed, 1);
	sv_gate_open();
	close_fixture(f);
}

/* UCX polls, asks for an event and sleeps; it does not poll again in between. */
static void completions_before_the_request_wake(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_wc wc;

	expect_none(f->cq);
	CHECK_EQUAL(post_send(f, 1, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_req_notify_cq(f->cq, 0), 0);
	one_event(f);
	/* That was of this completion, so there is not another of it. */
	CHECK_EQUAL(ibv_req_notify_cq(f->cq, 0), 0);
	no_event(f);
	CHECK_EQUAL(ibv_poll_cq(f->cq, 1, &wc), 1);
	no_event(f);
	/* In a checkpoint, after the application's last look. */
	arm_and_complete(f, 2);
	one_event(f);
	CHECK_EQUAL(ibv_poll_cq(f->cq, 1, &wc), 1);
	CHECK_EQUAL(post_send(f, 3, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
	mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(f->cq), 1);
	detach_and_reattach(f);
	sv_gate_open();
	no_event(f);
	CHECK_EQUAL(ibv_req_notify_cq(f->cq, 0), 0);
	one_event(f);
	expect(f->cq, 3, IBV_WC_SUCCESS);
	close_fixture(f);
}

/* Its requests are flushed before its end by our doing: nobody hears of that, and who sleeps is still woken. */
static void a_qp_of_a_shared_queue_ends_beside_a_request(int solicited_only)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_srq_init_attr attr = { .attr = { 4, 1, 0 } };
	struct ibv_qp_init_attr init = { .send_cq = f->cq, .recv_cq = f->cq, .cap = { 4, 0, 1, 0, 0 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp *own = f->qp;

	init.srq = ibv_create_srq(f->pd, &attr);
	for (int round = 0; round < 3; round++) {
		f->qp = ibv_create_qp(f->pd, &init);
		CHECK(init.srq && f->qp);
		for (enum ibv_qp_state state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++)
			to_state(f->qp, state);
		mock_qp(f->qp)->flushes = true;
		CHECK_EQUAL(post_send(f, 1, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
		CHECK_EQUAL(ibv_req_notify_cq(f->cq, solicited_only), 0);
		CHECK_EQUAL(ibv_destroy_qp(f->qp), 0);
		f->qp = own;
		/* Of solicited ones there may be one too many. */
		if (solicited_only && readable(f->channel->fd, 0)) {
			one_event(f);
			CHECK_EQUAL(ibv_req_notify_cq(f->cq, solicited_only), 0);
		}
		no_event(f);
		expect_none(f->cq);
		CHECK_EQUAL(post_recv(f, 2), 0);
		mock_complete_recvs(mock_qp(f->qp), 1, solicited_only ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS, 8);
		one_event(f);
		expect(f->cq, 2, solicited_only ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS);
		no_event(f);
	}
	CHECK_EQUAL(ibv_destroy_srq(init.srq), 0);
	close_fixture(f);
}

/* The device's event was of the one of our doing; the other's is made here. At a checkpoint the same. */
static void completes_behind_one_of_our_doing(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_qp *own = f->qp;

	f->qp = f->other;
	for (enum ibv_qp_state state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++)
		to_state(f->qp, state);
	for (int round = 0; round < 3; round++) {
		CHECK_EQUAL(ibv_req_notify_cq(f->cq, 0), 0);
		CHECK_EQUAL(post_send(f, 1, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
		close_gate();
		CHECK_EQUAL(sv_qp_post_marker(own), 0);
		mock_complete_sends(mock_qp(own), 1, IBV_WC_SUCCESS);
		mock_complete_sends(mock_qp(f->qp), 1, IBV_WC_SUCCESS);
		CHECK_EQUAL(sv_cq_drain(f->cq), 2);
		CHECK_EQUAL(sv_channel_drain(f->channel), 0);
		CHECK_EQUAL(sv_cq_go_on(f->cq), 0);
		sv_gate_open();
		one_event(f);
		no_event(f);
		expect(f->cq, 1, IBV_WC_SUCCESS);
	}
	f->qp = own;
	close_fixture(f);
}

static void a_qp_of_a_shared_queue_ends_beside_a_sleeper(void)
{
	a_qp_of_a_shared_queue_ends_beside_a_request(0);
	a_qp_of_a_shared_queue_ends_beside_a_request(1);
}

/*
 * Any sequence of requests for notification, completions, polls, events taken and checkpoints of both kinds, on three queues of a
 * channel, with a device whose events come with their completions, or late, or that is let go of before they come: each queue brings
 * just the events that one of Mellanox's HCAs brings without checkpoints, which makes one at the request for what is unread
 * and came after the completion of the last event; and the descriptor is readable while one is to be had.
 */
#define QUEUES 3

struct queue {
	struct fixture part;		/* a queue and its QP */
	unsigned posted, completed, polled;
	unsigned announced;		/* completions, up to that of the last event */
	int armed;
	unsigned due, got;		/* events */
	bool loose;			/* of solicited ones there may be more */
};

static uint32_t random_below(uint64_t *state, uint32_t bound)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (*state >> 33) % bound;
}

static void completes(struct queue *q, unsigned count)
{
	mock_complete_sends(mock_qp(q->part.qp), count, IBV_WC_SUCCESS);
	if (count && q->armed == 2) {
		q->armed = 0;
		q->announced = q->completed + 1;
		q->due++;
	}
	q->completed += count;
}

static void asks(struct queue *q)
{
	CHECK_EQUAL(ibv_req_notify_cq(q->part.cq, 0), 0);
	if (q->completed > q->polled && q->completed > q->announced) {
		q->announced = q->completed;
		q->due++;
	} else {
		q->armed = 2;
	}
}

static void polls(struct queue *q, unsigned count)
{
	struct ibv_wc wc[8];
	int got = ibv_poll_cq(q->part.cq, count, wc);

	CHECK_EQUAL(got, q->completed - q->polled < count ? q->completed - q->polled : count);
	for (int i = 0; i < got; i++)
		CHECK_EQUAL(wc[i].wr_id, q->polled++);
}

static bool takes_event(struct fixture *f, struct queue *queues)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(f->channel, &cq, &context)) {
		CHECK_EQUAL(errno, EAGAIN);
		return false;
	}
	ibv_ack_cq_events(cq, 1);
	for (struct queue *q = queues; q < queues + QUEUES; q++) {
		if (q->part.cq != cq)
			continue;
		q->got++;
		CHECK(q->got <= q->due || q->loose);
	}
	return true;
}

/* With the real objects that it has; a queue that was flushed is reset. */
static void goes_on(struct queue *q, bool flushed)
{
	struct ibv_qp *real = &mock_qp(q->part.qp)->v;

	if (flushed) {
		CHECK_EQUAL(sv_qp_bind(q->part.qp, NULL), 0);
		CHECK_EQUAL(sv_qp_bind(q->part.qp, real), 0);
	} else {
		sv_qp_go_on(q->part.qp);
	}
	CHECK_EQUAL(sv_cq_go_on(q->part.cq), 0);
}

static void checkpoints(struct fixture *f, struct queue *queues, uint64_t *state)
{
	bool attached = random_below(state, 2), flushed[QUEUES] = { false };

	close_gate();
	for (struct queue *q = queues; q < queues + QUEUES; q++) {
		unsigned open = q->posted - q->completed;

		CHECK(sv_cq_drain(q->part.cq) >= 0);
		switch (random_below(state, 4)) {
		case 0:		/* all is executed, which a marker tells */
			CHECK_EQUAL(sv_qp_post_marker(q->part.qp), 0);
			completes(q, open);
			mock_complete_sends(mock_qp(q->part.qp), 1, IBV_WC_SUCCESS);
			break;
		case 1:		/* nothing more is, as a flush tells */
			mock_complete_sends(mock_qp(q->part.qp), open, IBV_WC_WR_FLUSH_ERR);
			CHECK(sv_cq_drain(q->part.cq) >= 0);
			CHECK_EQUAL(sv_qp_errors_withdraw(q->part.qp), 0);
			flushed[q - queues] = true;
			break;
		case 2:
			completes(q, open ? 1 : 0);
			break;
		}
		CHECK(sv_cq_drain(q->part.cq) >= 0);
		if (random_below(state, 2))
			mock_late_events(mock_cq(q->part.cq));
	}
	CHECK_EQUAL(sv_channel_drain(f->channel), 0);
	if (!attached)
		detach_and_reattach(f);
	for (struct queue *q = queues; q < queues + QUEUES; q++) {
		uint64_t position;

		if (attached)
			goes_on(q, flushed[q - queues]);
		if (!attached || flushed[q - queues])
			CHECK_EQUAL(sv_qp_replay_sends(q->part.qp, &position), 0);
	}
	sv_gate_open();
}

static void step(struct fixture *f, struct queue *queues, uint64_t *state)
{
	struct queue *q = &queues[random_below(state, QUEUES)];

	switch (random_below(state, 12)) {
	case 0: case 1: case 2:
		if (q->posted - q->polled < shape.send_wr)
			CHECK_EQUAL(post_send(&q->part, q->posted++, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
		break;
	case 3: case 4:
		completes(q, q->completed < q->posted ? 1 : 0);
		break;
	case 5: case 6:
		asks(q);
		break;
	case 7:
		if (random_below(state, 20) == 0) {
			CHECK_EQUAL(ibv_req_notify_cq(q->part.cq, 1), 0);
			q->armed = q->armed ? q->armed : 1;
			q->loose = true;
		}
		break;
	case 8:
		polls(q, 1 + random_below(state, 3));
		break;
	case 9:
		mock_late_events(mock_cq(q->part.cq));
		break;
	case 10:
		takes_event(f, queues);
		break;
	default:
		if (random_below(state, 3) == 0)
			checkpoints(f, queues, state);
		mock_events_late = random_below(state, 2);
	}
}

static void any_sequence(void)
{
	/* The thread sanitizer makes a fixture slow, and finds nothing in the one thread that there is. */
#ifdef __SANITIZE_THREAD__
	const uint64_t seeds = 20;
#else
	const uint64_t seeds = 300;
#endif

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct fixture *f = open_fixture(shape);
		struct queue queues[QUEUES] = { 0 };
		uint64_t state = seed;

		CHECK_EQUAL(fcntl(f->channel->fd, F_SETFL, fcntl(f->channel->fd, F_GETFL) | O_NONBLOCK), 0);
		for (struct queue *q = queues; q < queues + QUEUES; q++) {
			q->part = (struct fixture){ .context = f->context, .pd = f->pd, .mr = f->mr };
			q->part.cq = ibv_create_cq(f->context, 64, NULL, f->channel, 0);
			CHECK(q->part.cq);
			q->part.qp = make_qp(&q->part, shape);
			to_state(q->part.qp, IBV_QPS_INIT);
			to_state(q->part.qp, IBV_QPS_RTR);
			to_state(q->part.qp, IBV_QPS_RTS);
		}
		for (int i = 0; i < 150; i++)
			step(f, queues, &state);
		mock_events_late = false;
		for (struct queue *q = queues; q < queues + QUEUES; q++)
			mock_late_events(mock_cq(q->part.cq));
		while (readable(f->channel->fd, 0))
			takes_event(f, queues);
		for (struct queue *q = queues; q < queues + QUEUES; q++) {
			if (q->loose ? q->got < q->due : q->got != q->due)
				fprintf(stderr, "seed %llu: queue %d brought %u events, not %u\n",
					(unsigned long long)seed, (int)(q - queues), q->got, q->due);
			CHECK(q->loose ? q->got >= q->due : q->got == q->due);
			completes(q, q->posted - q->completed);
			while (q->polled < q->posted)
				polls(q, 8);
			CHECK_EQUAL(ibv_destroy_qp(q->part.qp), 0);
			CHECK_EQUAL(ibv_destroy_cq(q->part.cq), 0);
		}
		close_fixture(f);
	}
}

static void on_signal(int number)
{
	(void)number;
}

/* As read(2): restarted when the handler asks for it, else EINTR. */
static void interrupted(void)
{
	struct fixture *f = open_fixture(shape);
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct sleeper s = { .f = f };

	sigaction(SIGUSR1, &action, NULL);
	start(&s);
	for (int i = 0; i < 5; i++)
		pthread_kill(s.thread, SIGUSR1);
	usleep(20000);
	CHECK_EQUAL(__atomic_load_n(&s.done, __ATOMIC_ACQUIRE), 0);
	action.sa_flags = 0;
	sigaction(SIGUSR1, &action, NULL);
	pthread_kill(s.thread, SIGUSR1);
	CHECK_EQUAL(pthread_join(s.thread, NULL), 0);
	CHECK_EQUAL(s.result, -1);
	CHECK_EQUAL(s.err, EINTR);
	action.sa_handler = SIG_DFL;
	sigaction(SIGUSR1, &action, NULL);
	close_fixture(f);
}

/* What ends a poll while the gate is closed is the process checkpointer, and not for the application to know. */
static void interrupted_by_a_checkpoint(void)
{
	struct fixture *f = open_fixture(shape);
	struct sigaction action = { .sa_handler = on_signal };
	struct sleeper s = { .f = f };

	sigaction(SIGUSR1, &action, NULL);
	start(&s);
	close_gate();
	for (int i = 0; i < 5; i++)
		pthread_kill(s.thread, SIGUSR1);
	usleep(20000);
	sv_gate_open();
	CHECK_EQUAL(__atomic_load_n(&s.done, __ATOMIC_ACQUIRE), 0);
	arm_and_complete(f, 1);
	join(&s);
	expect(f->cq, 1, IBV_WC_SUCCESS);
	action.sa_handler = SIG_DFL;
	sigaction(SIGUSR1, &action, NULL);
	close_fixture(f);
}

/* A thread that is cancelled in its sleep leaves nothing locked. */
static void cancelled(void)
{
#ifndef __SANITIZE_ADDRESS__	/* which takes the unwound stack for an overflow */
	struct fixture *f = open_fixture(shape);
	struct sleeper s = { .f = f };
	void *result;

	start(&s);
	CHECK_EQUAL(pthread_cancel(s.thread), 0);
	CHECK_EQUAL(pthread_join(s.thread, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	close_gate();
	sv_gate_open();
	arm_and_complete(f, 1);
	one_event(f);
	close_fixture(f);
#endif
}

static void *destroy_cq(void *cq)
{
	CHECK_EQUAL(ibv_destroy_cq(cq), 0);
	return NULL;
}

/* Destroying waits for the application's acknowledgements, outside the gate. */
static void destroy_waits_for_acknowledgements(void)
{
	struct fixture *f = open_fixture(shape);
	unsigned before = driver_requests[SV_OP_DESTROY_CQ];
	struct ibv_cq *cq;
	void *context;
	pthread_t thread;

	arm_and_complete(f, 1);
	CHECK_EQUAL(ibv_get_cq_event(f->channel, &cq, &context), 0);
	CHECK_EQUAL(ibv_destroy_qp(f->qp), 0);
	CHECK_EQUAL(ibv_destroy_qp(f->other), 0);
	CHECK_EQUAL(pthread_create(&thread, NULL, destroy_cq, f->cq), 0);
	usleep(50000);
	CHECK_EQUAL(driver_requests[SV_OP_DESTROY_CQ], before);
	close_gate();
	sv_gate_open();
	ibv_ack_cq_events(cq, 1);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	CHECK_EQUAL(driver_requests[SV_OP_DESTROY_CQ], before + 1);
	f->cq = ibv_create_cq(f->context, 10, NULL, NULL, 0);
	f->qp = make_qp(f, shape);
	f->other = make_qp(f, shape);
	close_fixture(f);
}

/* Events of a CQ that is destroyed are gone. */
static void destroyed_cq_has_no_events(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_cq *shared = f->cq;

	f->cq = ibv_create_cq(f->context, 10, NULL, f->channel, 0);
	CHECK_EQUAL(ibv_destroy_qp(f->other), 0);
	f->other = make_qp(f, shape);
	arm_and_complete(&(struct fixture){ .cq = shared, .qp = f->qp, .mr = f->mr }, 1);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(shared), 1);
	CHECK_EQUAL(sv_channel_drain(f->channel), 0);
	sv_gate_open();
	CHECK(readable(f->channel->fd, 0));
	CHECK_EQUAL(ibv_destroy_qp(f->qp), 0);
	CHECK_EQUAL(ibv_destroy_cq(shared), 0);
	no_event(f);
	f->qp = make_qp(f, shape);
	close_fixture(f);
}

static void asynchronous_events(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_async_event event;
	int flags = fcntl(f->context->async_fd, F_GETFL);

	mock_async_event(f->context, IBV_EVENT_QP_ACCESS_ERR, sv_real(f->qp));
	CHECK(readable(f->context->async_fd, 0));
	CHECK_EQUAL(ibv_get_async_event(f->context, &event), 0);
	CHECK_EQUAL(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
	CHECK(event.element.qp == f->qp);
	ibv_ack_async_event(&event);
	mock_async_event(f->context, IBV_EVENT_CQ_ERR, sv_real(f->cq));
	mock_async_event(f->context, IBV_EVENT_PORT_ACTIVE, (void *)1);
	close_gate();
	CHECK_EQUAL(sv_context_drain(f->context), 0);
	detach_and_reattach(f);
	sv_gate_open();
	CHECK_EQUAL(ibv_get_async_event(f->context, &event), 0);
	CHECK_EQUAL(event.event_type, IBV_EVENT_CQ_ERR);
	CHECK(event.element.cq == f->cq);
	ibv_ack_async_event(&event);
	CHECK_EQUAL(ibv_get_async_event(f->context, &event), 0);
	CHECK_EQUAL(event.event_type, IBV_EVENT_PORT_ACTIVE);
	CHECK_EQUAL(event.element.port_num, 1);
	ibv_ack_async_event(&event);
	CHECK_EQUAL(fcntl(f->context->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
	CHECK_EQUAL(ibv_get_async_event(f->context, &event), -1);
	CHECK_EQUAL(errno, EAGAIN);
	close_fixture(f);
}

static void *destroy_qp(void *qp)
{
	CHECK_EQUAL(ibv_destroy_qp(qp), 0);
	return NULL;
}

static void destroying_a_qp_waits_too(void)
{
	struct fixture *f = open_fixture(shape);
	unsigned before = driver_requests[SV_OP_DESTROY_QP];
	struct ibv_async_event event;
	pthread_t thread;

	mock_async_event(f->context, IBV_EVENT_QP_FATAL, sv_real(f->other));
	CHECK_EQUAL(ibv_get_async_event(f->context, &event), 0);
	CHECK_EQUAL(pthread_create(&thread, NULL, destroy_qp, f->other), 0);
	usleep(50000);
	CHECK_EQUAL(driver_requests[SV_OP_DESTROY_QP], before);
	ibv_ack_async_event(&event);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	f->other = make_qp(f, shape);
	close_fixture(f);
}

int main(void)
{
	RUN(events_arrive);
	RUN(sleeper_wakes);
	RUN(sleeper_through_a_checkpoint);
	RUN(drained_without_its_event);
	RUN(unread_events);
	RUN(events_of_a_restored_process);
	RUN(armed_again_before_the_event_was_read);
	RUN(solicited_only_stays_so);
	RUN(completions_before_the_request_wake);
	RUN(a_qp_of_a_shared_queue_ends_beside_a_sleeper);
	RUN(completes_behind_one_of_our_doing);
	RUN(any_sequence);
	RUN(interrupted);
	RUN(cancelled);
	RUN(interrupted_by_a_checkpoint);
	RUN(destroy_waits_for_acknowledgements);
	RUN(destroyed_cq_has_no_events);
	RUN(asynchronous_events);
	RUN(destroying_a_qp_waits_too);
	return 0;
}
