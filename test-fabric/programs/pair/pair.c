#include "pair.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../common/fork_ranks.h"

#define FILE_LOOK_EVERY_US 20000
#define CONTROL_RECEIVES 2

/* What ranks tell each other of a queue pair. */
struct card {
	struct qp_address qp;
	uint64_t memory;
	uint32_t rkey;
	uint32_t unused;
};


void area_create(struct pair *pair, struct area *area, size_t size, int access)
{
	area->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area->memory == MAP_FAILED)
		die(errno, "mmap of %zu bytes", size);
	memset(area->memory, POISON, size);
	area->size = size;
	area->mr = endpoint_register(&pair->endpoint, area->memory, size, access);
}

void area_destroy(struct area *area)
{
	mr_deregister(area->mr);
	munmap(area->memory, area->size);
}

void link_create(struct pair *pair, struct link *link, const struct link_wishes *wishes, const struct area *area)
{
	struct ibv_qp_init_attr init = {
		.send_cq = wishes->send_cq,
		.recv_cq = wishes->receive_cq,
		.srq = wishes->srq,
		.cap = {
			.max_send_wr = wishes->max_send,
			.max_recv_wr = wishes->max_receive,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = wishes->max_inline,
		},
		.qp_type = IBV_QPT_RC,
	};
	struct card mine = { .memory = (uintptr_t)area->memory, .rkey = area->mr->rkey }, theirs;
	struct qp_timing timing = qp_patient;

	link->qp = ibv_create_qp(pair->endpoint.pd, &init);
	if (!link->qp)
		die(errno, "ibv_create_qp");
	link->cap = init.cap;
	qp_initialize(&pair->endpoint, link->qp, wishes->access, &link->own);
	mine.qp = link->own;
	pair_exchange(pair, "addresses", &mine, &theirs, sizeof(mine));
	link->peer = theirs.qp;
	link->lkey = area->mr->lkey;
	link->rkey = theirs.rkey;
	link->remote = theirs.memory;
	if (wishes->timing)
		timing = *wishes->timing;
	if (pair->rnr_retry >= 0)
		timing.rnr_retry = pair->rnr_retry;
	if (pair->rnr_timer >= 0)
		timing.min_rnr_timer = pair->rnr_timer;
	qp_connect(&pair->endpoint, link->qp, &link->own, &link->peer, &timing);
}

void link_destroy(struct link *link)
{
	qp_destroy(link->qp);
}

static void post(struct link *link, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int err = ibv_post_send(link->qp, wr, &bad);

	if (err)
		die(err, "ibv_post_send of request %#lx, opcode %d", wr->wr_id, wr->opcode);
}

void link_post(struct link *link, enum ibv_wr_opcode opcode, uint64_t wr_id, int flags, void *local, uint32_t length,
	       size_t remote)
{
	struct ibv_sge sge = { .addr = (uintptr_t)local, .length = length, .lkey = link->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = length ? 1 : 0,
		.opcode = opcode,
		.send_flags = flags,
		.imm_data = (uint32_t)wr_id,
		.wr.rdma = { .remote_addr = link->remote + remote, .rkey = link->rkey },
	};

	post(link, &wr);
}

void link_fetch_add(struct link *link, uint64_t wr_id, int flags, void *old, size_t remote, uint64_t add)
{
	struct ibv_sge sge = { .addr = (uintptr_t)old, .length = 8, .lkey = link->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.send_flags = flags,
		.wr.atomic = { .remote_addr = link->remote + remote, .rkey = link->rkey, .compare_add = add },
	};

	post(link, &wr);
}

void link_receive(struct link *link, uint64_t wr_id, void *local, uint32_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)local, .length = length, .lkey = link->lkey };
	struct ibv_recv_wr *bad = NULL, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = length ? 1 : 0 };
	int err = ibv_post_recv(link->qp, &wr, &bad);

	if (err)
		die(err, "ibv_post_recv of request %#lx", wr_id);
}

/* One turn of a wait: ends the process when it has lasted too long. */
static void wait_turn(struct work_clock *clock, struct patience *patience, unsigned int seconds, const char *what)
{
	if (patience_spend(patience) && work_clock_read(clock) > seconds * NS_PER_S)
		die(0, "waited %u s for %s", seconds, what);
}

void await_next_completion(struct ibv_cq *cq, struct ibv_wc *wc, const char *what)
{
	struct work_clock clock;
	struct patience patience = { 0 };
	int got;

	work_clock_start(&clock);
	while ((got = ibv_poll_cq(cq, 1, wc)) == 0)
		wait_turn(&clock, &patience, PAIR_DEADLINE_S, what);
	if (got < 0)
		die(0, "ibv_poll_cq fails while waiting for %s", what);
}

void await_completion(struct ibv_cq *cq, uint64_t wr_id, struct ibv_wc *wc, const char *what)
{
	await_next_completion(cq, wc, what);
	if (wc->status != IBV_WC_SUCCESS)
		die(0, "%s: status '%s', vendor error %#x, request %#lx", what, ibv_wc_status_str(wc->status),
		    wc->vendor_err, wc->wr_id);
	if (wc->wr_id != wr_id)
		die(0, "%s: completion of request %#lx instead of %#lx", what, wc->wr_id, wr_id);
}

void expect_no_completion(struct ibv_cq *cq, const char *what)
{
	struct ibv_wc wc;
	int got = ibv_poll_cq(cq, 1, &wc);

	if (got)
		die(0, "%s: there is a completion, request %#lx, status '%s'", what, wc.wr_id,
		    ibv_wc_status_str(wc.status));
}

uint64_t load_word(const void *word)
{
	return __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE);
}

void store_word(void *word, uint64_t value)
{
	__atomic_store_n((uint64_t *)word, value, __ATOMIC_RELEASE);
}

void await_word(const void *word, uint64_t value, const char *what)
{
	struct work_clock clock;
	struct patience patience = { 0 };

	work_clock_start(&clock);
	while (load_word(word) != value)
		wait_turn(&clock, &patience, PAIR_DEADLINE_S, what);
}

static void control_receive(struct pair *pair, int number)
{
	link_receive(&pair->control, number, pair->control_area.memory + (1 + number) * PAIR_EXCHANGE_MAX,
		     PAIR_EXCHANGE_MAX);
}

static void exchange_messages(struct pair *pair, const char *what, const void *mine, void *theirs, size_t size)
{
	struct ibv_wc wc;

	if (size)
		memcpy(pair->control_area.memory, mine, size);
	link_post(&pair->control, IBV_WR_SEND, 0, IBV_SEND_SIGNALED, pair->control_area.memory, size, 0);
	await_next_completion(pair->control_receive_cq, &wc, what);
	if (wc.status != IBV_WC_SUCCESS || wc.wr_id >= CONTROL_RECEIVES || wc.byte_len != size)
		die(0, "%s: status '%s', %u bytes instead of %zu", what, ibv_wc_status_str(wc.status), wc.byte_len, size);
	if (size)
		memcpy(theirs, pair->control_area.memory + (1 + wc.wr_id) * PAIR_EXCHANGE_MAX, size);
	control_receive(pair, wc.wr_id);
	await_completion(pair->control_send_cq, 0, &wc, what);
}

void pair_exchange(struct pair *pair, const char *what, const void *mine, void *theirs, size_t size)
{
	if (pair->control_up) {
		exchange_messages(pair, what, mine, theirs, size);
		return;
	}
	rank_dir_publish(&pair->dir, what, mine, size);
	rank_dir_await(&pair->dir, what, !pair->rank, theirs, size);
}

void pair_sync(struct pair *pair, const char *what)
{
	pair_exchange(pair, what, NULL, NULL, 0);
}

/* The peer may end as soon as it has this message, so an error of its completion says nothing. */
static void say_bye(struct pair *pair)
{
	struct ibv_wc wc;

	link_post(&pair->control, IBV_WR_SEND, 0, IBV_SEND_SIGNALED, pair->control_area.memory, 0, 0);
	await_next_completion(pair->control_receive_cq, &wc, "the peer's end");
	if (wc.status != IBV_WC_SUCCESS)
		die(0, "the peer's end: status '%s'", ibv_wc_status_str(wc.status));
	await_next_completion(pair->control_send_cq, &wc, "the end of the own last message");
}

void pair_await_end(struct pair *pair, pid_t peer)
{
	struct work_clock clock;
	struct patience patience = { 0 };

	work_clock_start(&clock);
	while (!kill(peer, 0))
		wait_turn(&clock, &patience, PAIR_DEADLINE_S, "the end of the peer");
	pair->alone = true;
}

void pair_say_ready(struct pair *pair)
{
	if (!pair->alone)
		pair_sync(pair, "the peer's READY");
	printf("READY %s rank %d\n", program_name, pair->rank);
	fflush(stdout);
}

static bool is_there(const char *file)
{
	return !file || access(file, F_OK) == 0;
}

static void await_file(const char *file)
{
	struct work_clock clock;

	work_clock_start(&clock);
	while (!is_there(file)) {
		if (work_clock_read(&clock) > PAIR_FILE_DEADLINE_S * NS_PER_S)
			die(0, "waited %d s for %s", PAIR_FILE_DEADLINE_S, file);
		work_clock_rest(FILE_LOOK_EVERY_US);
	}
}

bool pair_may_go(struct pair *pair)
{
	return is_there(pair->go_file);
}

void pair_ready(struct pair *pair)
{
	pair_say_ready(pair);
	await_file(pair->go_file);
}

static void control_create(struct pair *pair)
{
	struct link_wishes wishes = {
		.max_send = 1, .max_receive = CONTROL_RECEIVES, .access = ACCESS_NOTHING_REMOTE,
	};
	char nothing;

	pair->control_send_cq = endpoint_create_cq(&pair->endpoint, 2, NULL);
	pair->control_receive_cq = endpoint_create_cq(&pair->endpoint, CONTROL_RECEIVES, NULL);
	wishes.send_cq = pair->control_send_cq;
	wishes.receive_cq = pair->control_receive_cq;
	area_create(pair, &pair->control_area, (1 + CONTROL_RECEIVES) * PAIR_EXCHANGE_MAX, ACCESS_NOTHING_REMOTE);
	link_create(pair, &pair->control, &wishes, &pair->control_area);
	for (int i = 0; i < CONTROL_RECEIVES; i++)
		control_receive(pair, i);
	rank_dir_publish(&pair->dir, "connected", "", 0);
	rank_dir_await(&pair->dir, "connected", !pair->rank, &nothing, 0);
	pair->control_up = true;
}

static void control_destroy(struct pair *pair)
{
	link_destroy(&pair->control);
	area_destroy(&pair->control_area);
	cq_destroy(pair->control_send_cq);
	cq_destroy(pair->control_receive_cq);
	rank_dir_remove(&pair->dir, "addresses");
	rank_dir_remove(&pair->dir, "connected");
}

static void usage(FILE *to)
{
	fprintf(to, "usage: %s [options]                         forks both ranks\n"
		"       %s --rank 0|1 --dir DIR [options]    one rank; DIR is the same and empty for both\n"
		"  --begin FILE  do what comes before READY when FILE appears (at once)\n"
		"  --go FILE     go on after READY when FILE appears (at once)\n"
		"  --mode MODE   one of:", program_name, program_name);
	for (int i = 0; program_modes[i]; i++)
		fprintf(to, " %s", program_modes[i]);
	fprintf(to, "\n  --signaled    requests that are unsignaled otherwise are signaled, where the program allows it\n"
		"  --zero-length messages have no bytes, where the program allows it\n"
		"  --rnr-retry N --rnr-timer N    as in ibv_modify_qp\n"
		"  --count N     queue pairs, where the program has many\n"
		"  --poll-delay US    so long each poll of rank 0's device takes, where that is the software HCA\n"
		"  --domain FILE of the XRC domain that both share, where they do (one of their own)\n"
		"  -d NAME  device (the first)     -i PORT  port (1)     -g INDEX  GID index (only where there is no lid)\n");
}

static const char *parse_mode(const char *mode)
{
	for (int i = 0; program_modes[i]; i++)
		if (!strcmp(program_modes[i], mode))
			return program_modes[i];
	die_usage("there is no mode '%s'; --help lists them", mode);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "rank", required_argument, NULL, 'R' },
		{ "dir", required_argument, NULL, 'D' },
		{ "begin", required_argument, NULL, 'B' },
		{ "go", required_argument, NULL, 'G' },
		{ "mode", required_argument, NULL, 'M' },
		{ "signaled", no_argument, NULL, 'S' },
		{ "zero-length", no_argument, NULL, 'Z' },
		{ "rnr-retry", required_argument, NULL, 'r' },
		{ "rnr-timer", required_argument, NULL, 't' },
		{ "count", required_argument, NULL, 'C' },
		{ "poll-delay", required_argument, NULL, 'P' },
		{ "domain", required_argument, NULL, 'X' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct pair pair = { .rank = -1, .mode = program_modes[0], .rnr_retry = -1, .rnr_timer = -1, .count = 64 };
	const char *device = NULL, *begin_file = NULL, *poll_delay = NULL;
	int port = 1, gid_index = GID_INDEX_AUTO, option;

	die_name("%s", program_name);
	while ((option = getopt_long(argc, argv, "d:i:g:h", options, NULL)) != -1) {
		switch (option) {
		case 'd': device = optarg; break;
		case 'i': port = parse_number("-i", optarg, 1, 255); break;
		case 'g': gid_index = parse_number("-g", optarg, 0, 255); break;
		case 'R': pair.rank = parse_number("--rank", optarg, 0, 1); break;
		case 'D': pair.dir.path = optarg; break;
		case 'B': begin_file = optarg; break;
		case 'G': pair.go_file = optarg; break;
		case 'M': pair.mode = parse_mode(optarg); break;
		case 'S': pair.signaled = true; break;
		case 'Z': pair.zero_length = true; break;
		case 'r': pair.rnr_retry = parse_number("--rnr-retry", optarg, 0, 7); break;
		case 'P': parse_number("--poll-delay", optarg, 0, 1000000); poll_delay = optarg; break;
		case 'X': pair.domain = optarg; break;
		case 'C': pair.count = parse_number("--count", optarg, 1, 65536); break;
		case 't': pair.rnr_timer = parse_number("--rnr-timer", optarg, 0, 31); break;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	}
	if (optind < argc)
		die_usage("what is '%s'? --help lists the options", argv[optind]);
	if ((pair.rank < 0) != !pair.dir.path)
		die_usage("--rank and --dir go together");
	if (pair.rank < 0)
		pair.rank = fork_ranks(2, &pair.dir.path);
	pair.dir.rank = pair.rank;
	pair.dir.ranks = 2;
	die_name("%s: rank %d", program_name, pair.rank);
	if (poll_delay && !pair.rank)
		setenv("SV_HCA_POLL_DELAY_US", poll_delay, 1);
	endpoint_open(&pair.endpoint, device, port, gid_index);
	control_create(&pair);
	await_file(begin_file);
	program_run(&pair);
	if (!pair.alone)
		say_bye(&pair);
	control_destroy(&pair);
	endpoint_close(&pair.endpoint);
	printf("DONE ok %s rank %d\n", program_name, pair.rank);
	return 0;
}
