/*
 * share-map: two ranks map one page and count in it by turns; each message says what the page must hold when it arrives.
 * If the page becomes two, the first message after that finds a count of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pair.h"

#define ROUNDS 200		/* before READY and after the go file, at least */
#define LAST_ROUND 1U

const char *const program_name = "share-map";
const char *const program_modes[] = { "run", "rest", NULL };

struct turn {
	uint64_t count;
	uint64_t flags;
};

struct table {
	struct ibv_cq *send_cq, *receive_cq;
	struct link link;
	struct area area;		/* the turn to send, the turn received */
	uint64_t *page;
};

/* Its name goes as soon as both have it: then its contents are saved with the processes, not left behind in a file. */
static uint64_t *map_page(struct pair *pair)
{
	char path[PATH_MAX];
	uint64_t *page;
	int fd;

	snprintf(path, sizeof(path), "%s/page", pair->dir.path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, 4096))
		die(errno, "open %s", path);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		die(errno, "mmap %s", path);
	close(fd);
	pair_sync(pair, "the peer's mapping");
	if (pair->rank == 0 && unlink(path))
		die(errno, "unlink %s", path);
	pair_sync(pair, "the page's name to go");
	return page;
}

static void post_receive(struct table *table)
{
	link_receive(&table->link, 1, table->area.memory + sizeof(struct turn), sizeof(struct turn));
}

/* Counts once and says so. */
static void say_turn(struct table *table, uint64_t flags)
{
	struct turn turn = { .count = __atomic_add_fetch(table->page, 1, __ATOMIC_ACQ_REL), .flags = flags };
	struct ibv_wc wc;

	memcpy(table->area.memory, &turn, sizeof(turn));
	link_post(&table->link, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, table->area.memory, sizeof(turn), 0);
	await_completion(table->send_cq, 2, &wc, "the completion of the own turn");
}

/* Nobody else counts between the peer's count and the look at the page here. Returns the peer's flags. */
static uint64_t hear_turn(struct table *table)
{
	struct turn turn;
	struct ibv_wc wc;

	await_completion(table->receive_cq, 1, &wc, "the peer's turn");
	memcpy(&turn, table->area.memory + sizeof(turn), sizeof(turn));
	post_receive(table);
	if (wc.byte_len != sizeof(turn) || load_word(table->page) != turn.count)
		die(0, "the peer has counted to %lu, the page here has %lu", turn.count, load_word(table->page));
	return turn.flags;
}

static void take_turn(struct table *table, uint64_t flags)
{
	say_turn(table, flags);
	hear_turn(table);
}

static uint64_t lead(struct pair *pair, struct table *table)
{
	uint64_t rounds = 0;

	for (; rounds < ROUNDS; rounds++)
		take_turn(table, 0);
	if (!strcmp(pair->mode, "rest"))
		pair_ready(pair);
	else
		pair_say_ready(pair);
	/* Each further round is at work in whatever happens now. */
	while (!pair_may_go(pair)) {
		take_turn(table, 0);
		rounds++;
	}
	for (int i = 1; i < ROUNDS; i++, rounds++)
		take_turn(table, 0);
	take_turn(table, LAST_ROUND);
	return rounds + 1;
}

static uint64_t follow(struct pair *pair, struct table *table)
{
	uint64_t rounds = 0;
	bool last = false;

	while (!last) {
		last = hear_turn(table) & LAST_ROUND;
		say_turn(table, 0);
		if (++rounds == ROUNDS)
			pair_say_ready(pair);
	}
	return rounds;
}

void program_run(struct pair *pair)
{
	struct table table = {
		.send_cq = endpoint_create_cq(&pair->endpoint, 8, NULL),
		.receive_cq = endpoint_create_cq(&pair->endpoint, 2, NULL),
	};
	struct link_wishes wishes = {
		.send_cq = table.send_cq, .receive_cq = table.receive_cq, .max_send = 8, .max_receive = 2,
		.access = ACCESS_NOTHING_REMOTE,
	};
	uint64_t rounds, theirs;

	area_create(pair, &table.area, 4096, ACCESS_NOTHING_REMOTE);
	table.page = map_page(pair);
	link_create(pair, &table.link, &wishes, &table.area);
	post_receive(&table);
	pair_sync(pair, "the peer's receive");
	rounds = pair->rank == 0 ? lead(pair, &table) : follow(pair, &table);
	pair_exchange(pair, "the rounds", &rounds, &theirs, sizeof(rounds));
	if (rounds != theirs || load_word(table.page) != 2 * rounds)
		die(0, "%lu rounds here, %lu at the peer, and the page has %lu", rounds, theirs, load_word(table.page));
	pair_sync(pair, "the peer's check");
	link_destroy(&table.link);
	area_destroy(&table.area);
	cq_destroy(table.send_cq);
	cq_destroy(table.receive_cq);
	munmap(table.page, 4096);
}
