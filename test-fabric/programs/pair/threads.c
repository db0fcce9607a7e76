/*
 * threads: several threads post to one queue pair all the time, before and after the go file appears. The messages of
 * each thread must arrive once, in order and intact, whatever the others do.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "pair.h"

#define THREADS 4
#define WINDOW 8		/* messages of a thread that may be outstanding */
#define BEFORE 200		/* messages of each thread before READY and after the go file, at least */
#define RECEIVES 64
#define SIZE 256
#define LAST_FLAG 1U

const char *const program_name = "threads";
const char *const program_modes[] = { "signaled", "every-fourth", NULL };

struct message {
	uint32_t thread;
	uint32_t flags;
	uint64_t number;
};

struct sender {
	struct pair *pair;
	struct link *link;
	unsigned char *buffers;		/* WINDOW of them */
	uint32_t number;
	bool last_posted;
	uint64_t posted;		/* messages; the thread writes it */
	uint64_t done;			/* messages known to be done; the poller writes it */
	uint64_t *stop_at;		/* shared: messages of each thread, UINT64_MAX for as yet unknown */
};

static uint64_t send_id(uint32_t thread, uint64_t number)
{
	return (uint64_t)thread << 48 | number;
}

static void post_message(struct sender *sender, uint64_t number, bool last)
{
	unsigned char *memory = sender->buffers + number % WINDOW * SIZE;
	struct message message = { .thread = sender->number, .flags = last ? LAST_FLAG : 0, .number = number };
	uint32_t size = sizeof(message) + number % (SIZE - sizeof(message));
	bool signaled = !strcmp(sender->pair->mode, "signaled") || number % 4 == 3 || last;

	memcpy(memory, &message, sizeof(message));
	pattern_fill(memory + sizeof(message), size - sizeof(message), send_id(sender->number, number) << 8, 0);
	link_post(sender->link, IBV_WR_SEND, send_id(sender->number, number), signaled ? IBV_SEND_SIGNALED : 0, memory,
		  size, 0);
}

static void *send_messages(void *argument)
{
	struct sender *sender = argument;
	struct work_clock clock;
	uint64_t seen = 0;

	work_clock_start(&clock);
	for (uint64_t number = 0; ; number++) {
		/* `stop_at` is set ahead of all threads, so each passes it. */
		bool last = number == __atomic_load_n(sender->stop_at, __ATOMIC_ACQUIRE);

		while (number - __atomic_load_n(&sender->done, __ATOMIC_ACQUIRE) >= WINDOW) {
			if (sender->done != seen) {
				seen = sender->done;
				work_clock_start(&clock);
			}
			if (work_clock_read(&clock) > PAIR_DEADLINE_S * NS_PER_S)
				die(0, "thread %u waited %d s for a completion of its messages from %lu on",
				    sender->number, PAIR_DEADLINE_S, sender->done);
			work_clock_rest(50);
		}
		work_clock_start(&clock);
		post_message(sender, number, last);
		__atomic_store_n(&sender->posted, number + 1, __ATOMIC_RELEASE);
		if (last)
			return NULL;
	}
}

/* Reads completions until each thread has `enough`, or all are done. */
static void read_completions(struct sender *senders, struct ibv_cq *cq, uint64_t enough)
{
	struct work_clock clock;
	struct ibv_wc wc;
	int behind;

	work_clock_start(&clock);
	do {
		int got = ibv_poll_cq(cq, 1, &wc);

		if (got < 0)
			die(0, "ibv_poll_cq fails");
		if (got == 0) {
			if (work_clock_read(&clock) > PAIR_DEADLINE_S * NS_PER_S)
				die(0, "waited %d s for completions of the threads' messages", PAIR_DEADLINE_S);
			/* Not sched_yield: Linux 6.18 lets a thread that yields in a loop starve others for many seconds. */
			work_clock_rest(20);
		} else {
			struct sender *sender = &senders[wc.wr_id >> 48];
			uint64_t number = wc.wr_id & 0xffffffffffffULL;

			work_clock_start(&clock);
			if (wc.status != IBV_WC_SUCCESS)
				die(0, "message %lu of thread %lu: status '%s'", number, wc.wr_id >> 48,
				    ibv_wc_status_str(wc.status));
			if (wc.wr_id >> 48 >= THREADS || number < sender->done || number >= sender->done + WINDOW)
				die(0, "completion %#lx is not due", wc.wr_id);
			__atomic_store_n(&sender->done, number + 1, __ATOMIC_RELEASE);
		}
		behind = 0;
		for (int i = 0; i < THREADS; i++)
			behind += senders[i].done < enough && senders[i].done <= *senders[i].stop_at;
	} while (behind);
}

static void send(struct pair *pair, struct link *link, struct area *area, struct ibv_cq *cq)
{
	uint64_t stop_at = UINT64_MAX, most = 0;
	struct sender senders[THREADS];
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		int err;

		senders[i] = (struct sender){
			.pair = pair, .link = link, .number = i, .stop_at = &stop_at,
			.buffers = area->memory + i * WINDOW * SIZE,
		};
		err = pthread_create(&threads[i], NULL, send_messages, &senders[i]);
		if (err)
			die(err, "pthread_create");
	}
	read_completions(senders, cq, BEFORE);
	pair_say_ready(pair);
	do {
		for (int i = 0; i < THREADS; i++)
			most = senders[i].done > most ? senders[i].done : most;
		read_completions(senders, cq, most + 1);
	} while (!pair_may_go(pair));
	for (int i = 0; i < THREADS; i++)
		most = senders[i].done > most ? senders[i].done : most;
	/* No thread is further ahead of its completions than its window. */
	__atomic_store_n(&stop_at, most + BEFORE + WINDOW, __ATOMIC_RELEASE);
	read_completions(senders, cq, UINT64_MAX);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pair_exchange(pair, "the final counts", &stop_at, &most, sizeof(stop_at));
	if (most != stop_at)
		die(0, "the receiver saw %lu messages of each thread instead of %lu", most, stop_at);
	expect_no_completion(cq, "after all");
}

static bool check_message(unsigned char *memory, const struct ibv_wc *wc, uint64_t *due, uint64_t *last)
{
	struct message message;

	memcpy(&message, memory, sizeof(message));
	if (wc->byte_len < sizeof(message) || message.thread >= THREADS)
		die(0, "a message without head, %u bytes", wc->byte_len);
	if (message.number != due[message.thread])
		die(0, "message %lu of thread %u when %lu was due: %s", message.number, message.thread,
		    due[message.thread], message.number < due[message.thread] ? "doubled" : "one is lost");
	if (wc->byte_len != sizeof(message) + message.number % (SIZE - sizeof(message)) ||
	    !pattern_matches(memory + sizeof(message), wc->byte_len - sizeof(message),
			     send_id(message.thread, message.number) << 8, 0))
		die(0, "message %lu of thread %u is damaged, %u bytes", message.number, message.thread, wc->byte_len);
	due[message.thread]++;
	if (message.flags & LAST_FLAG)
		*last = message.number;
	return message.flags & LAST_FLAG;
}

static void receive(struct pair *pair, struct link *link, struct area *area, struct ibv_cq *cq)
{
	uint64_t due[THREADS] = { 0 }, last = 0, theirs;
	struct work_clock clock;
	bool said = false;
	int ended = 0;

	work_clock_start(&clock);
	while (ended < THREADS) {
		bool all_began = true;
		struct ibv_wc wc;
		int got = ibv_poll_cq(cq, 1, &wc);

		if (got < 0)
			die(0, "ibv_poll_cq fails");
		if (got == 0) {
			if (work_clock_read(&clock) > PAIR_DEADLINE_S * NS_PER_S)
				die(0, "waited %d s for messages; due are %lu %lu %lu %lu", PAIR_DEADLINE_S, due[0], due[1],
				    due[2], due[3]);
			work_clock_rest(20);
			continue;
		}
		work_clock_start(&clock);
		if (wc.status != IBV_WC_SUCCESS)
			die(0, "receive %lu: status '%s'", wc.wr_id, ibv_wc_status_str(wc.status));
		ended += check_message(area->memory + wc.wr_id * SIZE, &wc, due, &last);
		link_receive(link, wc.wr_id, area->memory + wc.wr_id * SIZE, SIZE);
		for (int i = 0; i < THREADS; i++)
			all_began = all_began && due[i] >= BEFORE;
		if (all_began && !said) {
			pair_say_ready(pair);
			said = true;
		}
	}
	pair_exchange(pair, "the final counts", &last, &theirs, sizeof(last));
	expect_no_completion(cq, "after all");
}

void program_run(struct pair *pair)
{
	struct ibv_cq *cq = endpoint_create_cq(&pair->endpoint, RECEIVES + THREADS * WINDOW, NULL);
	struct link_wishes wishes = {
		.send_cq = cq, .receive_cq = cq, .max_send = THREADS * WINDOW, .max_receive = RECEIVES,
		.access = ACCESS_NOTHING_REMOTE,
	};
	struct area area;
	struct link link;

	area_create(pair, &area, RECEIVES * SIZE, ACCESS_NOTHING_REMOTE);
	link_create(pair, &link, &wishes, &area);
	for (int i = 0; pair->rank == 1 && i < RECEIVES; i++)
		link_receive(&link, i, area.memory + i * SIZE, SIZE);
	pair_sync(pair, "the peer's receives");
	if (pair->rank == 0)
		send(pair, &link, &area, cq);
	else
		receive(pair, &link, &area, cq);
	link_destroy(&link);
	area_destroy(&area);
	cq_destroy(cq);
}
