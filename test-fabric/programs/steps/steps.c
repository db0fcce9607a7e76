/*
 * usage: steps FILE
 *
 * Executes the verbs that FILE names, one a line, and prints what the program sees of each: return values, completions,
 * attributes, memory, with the numbers of its own slots in place of ids. So the output depends on FILE alone, and a run
 * with checkpoints and restarts between the lines must print what one without them prints.
 *
 *   pd P | unpd P                   slots 0 to 7 for protection domains,
 *   cq C ENTRIES EX EVENTS | resize C ENTRIES | uncq C                      completion queues (EX: extended),
 *   mr M P ACCESS | rereg M ACCESS | unmr M                                 memory regions of REGION bytes,
 *   ah A P | unah A | xrcd D | unxrcd D                                     address handles, XRC domains,
 *   srq S P | xsrq S P D C | unsrq S                                        shared receive queues, of RC and of XRC,
 *   pair Q TYPE P SEND-CQ RECV-CQ SIG-ALL EX S0 S1                          queue pairs 2Q and 2Q + 1, connected
 *   unpair Q | reset Q              TYPE: enum type; EX: for ibv_wr_*; S0, S1: 0 or 1 + slot of the ends' shared receive
 *                                   queues, S0 of XRC the slot of the domain
 *   open H K | unopen H             slots 16 to 23 for further handles of the receiver K of XRC
 *   inherit H K                     the first handle of K is destroyed, H takes its slot
 *   error K | hold K | release K    queue pair K to ERR; from RTS to SQD; back
 *   send K M AT LENGTH IMM INLINE WAY TO A | recv K M AT LENGTH             wr_id: the number of the line
 *   srecv S M AT LENGTH             of a shared receive queue
 *   write K M AT LENGTH REMOTE-M REMOTE-AT IMM WAY TO | read K M AT LENGTH REMOTE-M REMOTE-AT WAY TO
 *   add K M AT REMOTE-M REMOTE-AT VALUE WAY TO | swap K M AT REMOTE-M REMOTE-AT COMPARE VALUE WAY TO
 *   poll C COUNT WAY                waits for so many completions, and prints them by queue pair
 *   arm C | sleep C                 asks for the next event; sleeps until it has come, of a queue with EVENTS
 *   query K | sum M | ids           attributes; the memory's sum; whether all ids are told apart
 *   pause N                         prints "PAUSE N" and waits for FILE.N
 *
 * IMM 0: none. WAY 1: by ibv_wr_*, or ibv_start_poll. TO: the receiver of a datagram, by address handle A; of XRC the shared
 * receive queue. SEND-CQ and RECV-CQ are of both.
 */
#include "steps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/die.h"
#include "../common/pattern.h"
#include "../common/work_clock.h"

enum {
	ARGUMENTS = 9,
	PAUSE_SECONDS = 300,
};

struct endpoint endpoint;
struct ibv_pd *pds[SLOTS];
struct ibv_cq *cqs[SLOTS];
struct ibv_mr *mrs[SLOTS];
struct ibv_ah *ahs[SLOTS];
struct ibv_xrcd *xrcds[SLOTS];
struct ibv_srq *srqs[SLOTS];
struct ibv_qp *qps[QPS + HANDLES];
struct ibv_qp_cap caps[QPS];
char *memory[SLOTS];
uint64_t line_number;
const char *file;

unsigned slot(uint64_t number, unsigned count)
{
	if (number >= count)
		die(0, "%s:%llu: there are %u slots", file, (unsigned long long)line_number, count);
	return number;
}

void result(int err)
{
	printf("%llu: %s\n", (unsigned long long)line_number, err ? strerrorname_np(err) : "ok");
}

void made(const void *object)
{
	result(object ? 0 : errno);
}

unsigned qp_of(uint32_t qp_num)
{
	for (unsigned k = 0; k < QPS; k++)
		if (qps[k] && qps[k]->qp_num == qp_num)
			return k;
	die(0, "%s:%llu: queue pair number 0x%x is none of this program's", file, (unsigned long long)line_number,
	    qp_num);
}

static void query(uint64_t k)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	int err = ibv_query_qp(QP(k), &attr, IBV_QP_STATE | IBV_QP_CAP | IBV_QP_AV | IBV_QP_DEST_QPN, &init);

	result(err);
	if (err)
		return;
	printf("%llu:   state %d (%d), cap %s, sig_all %d, own objects %s",
	       (unsigned long long)line_number, attr.qp_state, QP(k)->state,
	       memcmp(&attr.cap, &caps[k], sizeof(attr.cap)) ? "not as created" : "as created", init.sq_sig_all,
	       init.send_cq == QP(k)->send_cq && init.recv_cq == QP(k)->recv_cq && init.srq == QP(k)->srq &&
	       init.qp_context == QP(k)->qp_context ? "yes" : "no");
	if (QP(k)->qp_type == IBV_QPT_UD)
		printf(", qkey 0x%x\n", attr.qkey);
	else
		printf(", to qp %u, lid %s, mtu %d, timeout %u, retry %u, rnr %u and %u, access 0x%x\n",
		       qp_of(attr.dest_qp_num), attr.ah_attr.dlid == endpoint.port.lid ? "own" : "strange",
		       attr.path_mtu, attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer,
		       attr.qp_access_flags);
}

static void check_ids(void)
{
	struct ibv_port_attr port;
	bool good = !ibv_query_port(endpoint.context, endpoint.port_num, &port) && port.lid == endpoint.port.lid;

	for (unsigned i = 0; i < QPS; i++)
		for (unsigned j = 0; j < i; j++)
			good &= !qps[i] || !qps[j] || qps[i]->qp_num != qps[j]->qp_num;
	for (unsigned i = 0; i < SLOTS; i++)
		for (unsigned j = 0; j < i; j++)
			/* Who cannot be reached may have no rkey, which is 0. */
			good &= !mrs[i] || !mrs[j] || (mrs[i]->lkey != mrs[j]->lkey && (!mrs[i]->rkey || mrs[i]->rkey != mrs[j]->rkey));
	printf("%llu: ids %s\n", (unsigned long long)line_number, good ? "told apart" : "MIXED UP");
}

static void print_sum(uint64_t m)
{
	const uint64_t *words = (const uint64_t *)memory[slot(m, SLOTS)];
	uint64_t sum = 0;

	for (size_t i = 0; i < REGION / sizeof(*words); i++)
		sum = mix64_two(sum, words[i]);
	printf("%llu: sum %016llx\n", (unsigned long long)line_number, (unsigned long long)sum);
}

static void wait_for_file(uint64_t number)
{
	struct work_clock clock;
	char path[4096];

	snprintf(path, sizeof(path), "%s.%llu", file, (unsigned long long)number);
	printf("PAUSE %llu\n", (unsigned long long)number);
	work_clock_start(&clock);
	while (access(path, F_OK)) {
		if (work_clock_read(&clock) > PAUSE_SECONDS * NS_PER_S)
			die(0, "waited %d s for %s", PAUSE_SECONDS, path);
		work_clock_rest(5000);
	}
}

static void execute(const char *verb, const uint64_t *a)
{
	if (object_step(verb, a) || request_step(verb, a) || event_step(verb, a))
		return;
	if (!strcmp(verb, "query"))
		query(a[0]);
	else if (!strcmp(verb, "sum"))
		print_sum(a[0]);
	else if (!strcmp(verb, "ids"))
		check_ids();
	else if (!strcmp(verb, "pause"))
		wait_for_file(a[0]);
	else
		die(0, "%s:%llu: no verb %s", file, (unsigned long long)line_number, verb);
}

int main(int argc, char **argv)
{
	char line[256];
	FILE *steps;

	die_name("steps");
	if (argc != 2)
		die_usage("usage: steps FILE");
	file = argv[1];
	steps = fopen(file, "r");
	if (!steps)
		die(errno, "%s", file);
	setvbuf(stdout, NULL, _IOLBF, 0);
	endpoint_open(&endpoint, NULL, 1, GID_INDEX_AUTO);
	events_open();
	for (unsigned i = 0; i < SLOTS; i++) {
		memory[i] = aligned_alloc(4096, HEADER(LINES));
		if (!memory[i])
			die(errno, "aligned_alloc");
		pattern_fill(memory[i], REGION, i, 0);
	}
	while (fgets(line, sizeof(line), steps)) {
		uint64_t a[ARGUMENTS] = { 0 };
		char *verb = strtok(line, " \n"), *word;

		if (++line_number == LINES)
			die(0, "%s: more than %d lines", file, LINES);
		for (unsigned i = 0; i < ARGUMENTS && (word = strtok(NULL, " \n")); i++)
			a[i] = strtoull(word, NULL, 0);
		if (verb)
			execute(verb, a);
	}
	fclose(steps);
	return 0;
}
