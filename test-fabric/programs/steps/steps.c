/*
 * usage: steps FILE
 *
 * Executes the verbs that FILE names, one a line, and prints what the program sees of each: return values, completions,
 * attributes, memory, with the numbers of its own slots in place of ids. So the output depends on FILE alone, and a run
 * with checkpoints and restarts between the lines must print what one without them prints.
 *
 *   pd P | unpd P                   slots 0 to 7 for protection domains,
 *   cq C ENTRIES | resize C ENTRIES | uncq C                                completion queues,
 *   mr M P ACCESS | rereg M ACCESS | unmr M                                 memory regions of REGION bytes,
 *   pair Q P SEND-CQ RECV-CQ SIG-ALL | unpair Q | reset Q                   queue pairs 2Q and 2Q + 1, connected
 *   error K                         queue pair K to ERR
 *   send K M AT LENGTH IMM INLINE | recv K M AT LENGTH                      wr_id: the number of the line
 *   write K M AT LENGTH REMOTE-M REMOTE-AT IMM | read K M AT LENGTH REMOTE-M REMOTE-AT
 *   add K M AT REMOTE-M REMOTE-AT VALUE | swap K M AT REMOTE-M REMOTE-AT COMPARE VALUE
 *   poll C COUNT                    waits for so many completions, and prints them by queue pair
 *   query K | sum M | ids           attributes; the memory's sum; whether all ids are told apart
 *   pause N                         prints "PAUSE N" and waits for FILE.N
 *
 * IMM 0: none. SEND-CQ and RECV-CQ are of both.
 */
#include "../common/die.h"
#include "../common/endpoint.h"
#include "../common/pattern.h"
#include "../common/work_clock.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	SLOTS = 8,
	QPS = 2 * SLOTS,
	REGION = 16384,
	DEPTH = 16,
	INLINE = 64,
	ARGUMENTS = 8,
	POLL_SECONDS = 60,
	PAUSE_SECONDS = 300,
};

static struct endpoint endpoint;
static struct ibv_pd *pds[SLOTS];
static struct ibv_cq *cqs[SLOTS];
static struct ibv_mr *mrs[SLOTS];
static struct ibv_qp *qps[QPS];
static struct qp_address addresses[QPS];
static char *memory[SLOTS];
static uint64_t line_number;
static const char *file;

static const struct qp_timing for_ever = { .timeout = 0, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1 };

static unsigned slot(uint64_t number, unsigned count)
{
	if (number >= count)
		die(0, "%s:%llu: there are %u slots", file, (unsigned long long)line_number, count);
	return number;
}

#define PD(n) pds[slot(n, SLOTS)]
#define CQ(n) cqs[slot(n, SLOTS)]
#define MR(n) mrs[slot(n, SLOTS)]
#define QP(n) qps[slot(n, QPS)]

static void result(int err)
{
	printf("%llu: %s\n", (unsigned long long)line_number, err ? strerrorname_np(err) : "ok");
}

static void made(const void *object)
{
	result(object ? 0 : errno);
}

static void connect_pair(unsigned first)
{
	for (unsigned k = first; k < first + 2; k++)
		qp_initialize(&endpoint, qps[k], ACCESS_ALL, &addresses[k]);
	for (unsigned k = first; k < first + 2; k++)
		qp_connect(&endpoint, qps[k], &addresses[k], &addresses[k ^ 1], &for_ever);
}

static void make_pair(const uint64_t *a)
{
	unsigned first = 2 * slot(a[0], SLOTS);

	for (unsigned k = first; k < first + 2; k++) {
		struct ibv_qp_init_attr init = {
			.send_cq = CQ(a[2]), .recv_cq = CQ(a[3]), .qp_type = IBV_QPT_RC, .sq_sig_all = a[4],
			.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1,
				 .max_inline_data = INLINE },
		};

		qps[k] = ibv_create_qp(PD(a[1]), &init);
		if (!qps[k])
			die(errno, "%s:%llu: ibv_create_qp", file, (unsigned long long)line_number);
	}
	connect_pair(first);
	result(0);
}

static void reset_pair(unsigned first)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	int err = 0;

	for (unsigned k = first; k < first + 2 && !err; k++)
		err = ibv_modify_qp(qps[k], &attr, IBV_QP_STATE);
	result(err);
	connect_pair(first);
}

static void destroy_pair(unsigned first)
{
	int err = 0;

	for (unsigned k = first; k < first + 2 && !err; k++) {
		err = ibv_destroy_qp(qps[k]);
		qps[k] = NULL;
	}
	result(err);
}

static void post(uint64_t k, struct ibv_send_wr *wr, uint64_t m, uint64_t at, uint64_t length)
{
	struct ibv_sge sge = { (uintptr_t)memory[slot(m, SLOTS)] + at, length, MR(m)->lkey };
	struct ibv_send_wr *bad;

	wr->wr_id = line_number;
	wr->sg_list = &sge;
	wr->num_sge = 1;
	/* Fenced: else a read may see what a later write puts there. */
	wr->send_flags |= IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	result(ibv_post_send(QP(k), wr, &bad));
}

static void post_rdma(const uint64_t *a, enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr wr = { .opcode = opcode, .imm_data = htobe32(a[6]) };

	wr.wr.rdma.remote_addr = (uintptr_t)memory[slot(a[4], SLOTS)] + a[5];
	wr.wr.rdma.rkey = MR(a[4])->rkey;
	post(a[0], &wr, a[1], a[2], a[3]);
}

static void post_atomic(const uint64_t *a, enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr wr = { .opcode = opcode };

	wr.wr.atomic.remote_addr = (uintptr_t)memory[slot(a[3], SLOTS)] + a[4];
	wr.wr.atomic.rkey = MR(a[3])->rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	post(a[0], &wr, a[1], a[2], 8);
}

static void post_send(const uint64_t *a)
{
	struct ibv_send_wr wr = { .opcode = a[4] ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, .imm_data = htobe32(a[4]),
				  .send_flags = a[5] ? IBV_SEND_INLINE : 0 };

	post(a[0], &wr, a[1], a[2], a[3]);
}

static void post_recv(const uint64_t *a)
{
	struct ibv_sge sge = { (uintptr_t)memory[slot(a[1], SLOTS)] + a[2], a[3], MR(a[1])->lkey };
	struct ibv_recv_wr wr = { .wr_id = line_number, .sg_list = &sge, .num_sge = 1 }, *bad;

	result(ibv_post_recv(QP(a[0]), &wr, &bad));
}

static unsigned qp_of(uint32_t qp_num)
{
	for (unsigned k = 0; k < QPS; k++)
		if (qps[k] && qps[k]->qp_num == qp_num)
			return k;
	die(0, "%s:%llu: queue pair number 0x%x is none of this program's", file, (unsigned long long)line_number,
	    qp_num);
}

/* Between queue pairs there is no order, and none between the two queues of one. */
static int by_queue(const void *left, const void *right)
{
	const struct ibv_wc *a = left, *b = right;
	unsigned ka = qp_of(a->qp_num), kb = qp_of(b->qp_num);

	return ka != kb ? (ka > kb) - (ka < kb) : (a->wr_id > b->wr_id) - (a->wr_id < b->wr_id);
}

static void print_completion(const struct ibv_wc *wc)
{
	printf("%llu:   qp %u, request %llu: %s", (unsigned long long)line_number, qp_of(wc->qp_num),
	       (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status));
	/* Nothing else means anything after an error. */
	if (wc->status == IBV_WC_SUCCESS) {
		printf(", opcode %d, flags %u", wc->opcode, wc->wc_flags);
		if (wc->opcode & IBV_WC_RECV)
			printf(", %u bytes from qp %u", wc->byte_len, qp_of(wc->src_qp));
		if (wc->wc_flags & IBV_WC_WITH_IMM)
			printf(", immediate %u", be32toh(wc->imm_data));
	}
	putchar('\n');
}

static void poll_completions(uint64_t c, uint64_t count)
{
	struct ibv_wc wcs[4 * QPS * DEPTH];
	struct work_clock clock;
	uint64_t got = 0;

	if (count > sizeof(wcs) / sizeof(wcs[0]))
		die(0, "%s:%llu: too many completions", file, (unsigned long long)line_number);
	work_clock_start(&clock);
	while (got < count) {
		int n = ibv_poll_cq(CQ(c), count - got, wcs + got);

		if (n < 0)
			die(0, "%s:%llu: ibv_poll_cq returned %d", file, (unsigned long long)line_number, n);
		got += n;
		if (n)
			continue;
		if (work_clock_read(&clock) > POLL_SECONDS * NS_PER_S)
			die(0, "%s:%llu: %llu of %llu completions came within %d s", file,
			    (unsigned long long)line_number, (unsigned long long)got, (unsigned long long)count,
			    POLL_SECONDS);
		work_clock_rest(100);
	}
	qsort(wcs, got, sizeof(wcs[0]), by_queue);
	for (uint64_t i = 0; i < got; i++)
		print_completion(&wcs[i]);
}

static void query(uint64_t k)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	int err = ibv_query_qp(QP(k), &attr, IBV_QP_STATE | IBV_QP_CAP | IBV_QP_AV | IBV_QP_DEST_QPN, &init);

	result(err);
	if (err)
		return;
	printf("%llu:   state %d (%d), to qp %u, lid %s, mtu %d, timeout %u, retry %u, rnr %u and %u, access 0x%x, "
	       "cap %u %u %u %u, sig_all %d, own objects %s\n", (unsigned long long)line_number, attr.qp_state,
	       QP(k)->state, qp_of(attr.dest_qp_num), attr.ah_attr.dlid == endpoint.port.lid ? "own" : "strange",
	       attr.path_mtu, attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer, attr.qp_access_flags,
	       attr.cap.max_send_wr, attr.cap.max_recv_wr, attr.cap.max_send_sge, attr.cap.max_recv_sge,
	       init.sq_sig_all, init.send_cq == QP(k)->send_cq && init.recv_cq == QP(k)->recv_cq ? "yes" : "no");
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
			good &= !mrs[i] || !mrs[j] || (mrs[i]->lkey != mrs[j]->lkey && mrs[i]->rkey != mrs[j]->rkey);
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
	if (!strcmp(verb, "pd"))
		made(PD(a[0]) = ibv_alloc_pd(endpoint.context));
	else if (!strcmp(verb, "unpd"))
		result(ibv_dealloc_pd(PD(a[0])));
	else if (!strcmp(verb, "cq"))
		made(CQ(a[0]) = ibv_create_cq(endpoint.context, a[1], NULL, NULL, 0));
	else if (!strcmp(verb, "resize"))
		result(ibv_resize_cq(CQ(a[0]), a[1]));
	else if (!strcmp(verb, "uncq"))
		result(ibv_destroy_cq(CQ(a[0])));
	else if (!strcmp(verb, "mr"))
		made(MR(a[0]) = ibv_reg_mr(PD(a[1]), memory[slot(a[0], SLOTS)], REGION, a[2]));
	else if (!strcmp(verb, "rereg"))
		result(ibv_rereg_mr(MR(a[0]), IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, a[1]));
	else if (!strcmp(verb, "unmr")) {
		result(ibv_dereg_mr(MR(a[0])));
		MR(a[0]) = NULL;
	} else if (!strcmp(verb, "pair"))
		make_pair(a);
	else if (!strcmp(verb, "unpair"))
		destroy_pair(2 * slot(a[0], SLOTS));
	else if (!strcmp(verb, "reset"))
		reset_pair(2 * slot(a[0], SLOTS));
	else if (!strcmp(verb, "error"))
		result(ibv_modify_qp(QP(a[0]), &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE));
	else if (!strcmp(verb, "send"))
		post_send(a);
	else if (!strcmp(verb, "recv"))
		post_recv(a);
	else if (!strcmp(verb, "write"))
		post_rdma(a, a[6] ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE);
	else if (!strcmp(verb, "read"))
		post_rdma(a, IBV_WR_RDMA_READ);
	else if (!strcmp(verb, "add"))
		post_atomic(a, IBV_WR_ATOMIC_FETCH_AND_ADD, a[5], 0);
	else if (!strcmp(verb, "swap"))
		post_atomic(a, IBV_WR_ATOMIC_CMP_AND_SWP, a[5], a[6]);
	else if (!strcmp(verb, "poll"))
		poll_completions(a[0], a[1]);
	else if (!strcmp(verb, "query"))
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
	for (unsigned i = 0; i < SLOTS; i++) {
		memory[i] = aligned_alloc(4096, REGION);
		if (!memory[i])
			die(errno, "aligned_alloc");
		pattern_fill(memory[i], REGION, i, 0);
	}
	while (fgets(line, sizeof(line), steps)) {
		uint64_t a[ARGUMENTS] = { 0 };
		char *verb = strtok(line, " \n"), *word;

		line_number++;
		for (unsigned i = 0; i < ARGUMENTS && (word = strtok(NULL, " \n")); i++)
			a[i] = strtoull(word, NULL, 0);
		if (verb)
			execute(verb, a);
	}
	fclose(steps);
	return 0;
}
