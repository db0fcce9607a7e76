/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: dataplane [-q QPS] [-m MRS] [-c CPU] [-n ROUNDS] [-r REQUESTS] [-s] [-w FOLDER] CASE
 *
 * Measures what a verbs library takes for a posted and completed one-SGE request, on a device that completes at once
 * (the software HCA's null mode), and prints lines "KEY VALUE". A plain verbs program. CASE:
 *
 *   send        SENDs, the queue pairs and the regions taking turns, one completion polled after each
 *   write       RDMA WRITEs, likewise
 *   recv        receives, likewise
 *   empty_poll  polls of an empty completion queue
 *
 * and with one queue pair of its own kind each, the regions taking turns:
 *
 *   wr_send     SENDs built by ibv_wr_start to ibv_wr_complete
 *   cq_ex       SENDs whose completions are read by ibv_start_poll to ibv_end_poll
 *   srq_recv    receives of a shared receive queue
 *   ud_send     datagrams
 *
 *   -q QPS      queue pairs on one completion queue (1)
 *   -m MRS      memory regions (1)
 *   -c CPU      the measuring thread runs on this processor
 *   -n, -r      rounds (501) and requests in each (2000); the result is the lower quartile of the rounds, which leaves
 *               out those that other programs have disturbed
 *   -s          also counts allocations and system calls of the measured loop
 *   -w FOLDER   afterwards stays, and for each file FOLDER/N (N = 1, 2, ...), whose content is "CASE QPS MRS" for the
 *               part of the queue pairs and regions to be used, measures again and writes FOLDER/N.result; ends
 *               when the content is "end"
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "counting.h"

enum {
	DEPTH = 16,
	MESSAGE = 64,
	QKEY = 0x1234,
	MAX_ROUNDS = 10000,
	REQUEST_SECONDS = 120,
};

/* A measured case: what it does times times, using the first qps queue pairs and the first mrs regions. */
struct test {
	const char *name;
	void (*run)(uint64_t times, uint32_t qps, uint32_t mrs);
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp **qps;
static struct ibv_mr **mrs;
static struct ibv_sge *sges;		/* one for each region */
/* For the cases with one queue pair of another kind. */
static struct ibv_cq_ex *cq_ex;
static struct ibv_srq *srq;
static struct ibv_ah *ah;
static struct ibv_qp *wr_qp, *cq_ex_qp, *srq_qp, *ud_qp;
static char *buffer;
static uint32_t qp_count = 1, mr_count = 1;
static int cpu = -1, rounds = 501, count_too;
static uint64_t requests = 2000;

__attribute__((noreturn, format(printf, 1, 2)))
static void die(const char *format, ...)
{
	va_list args;

	fputs("dataplane: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static void *need(void *object, const char *verb)
{
	if (!object)
		die("%s: %s", verb, strerror(errno));
	return object;
}

static void need_ok(int error, const char *verb)
{
	if (error)
		die("%s: %s", verb, strerror(error));
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static inline void take_completion(uint64_t wr_id)
{
	struct ibv_wc wc;
	int count = ibv_poll_cq(cq, 1, &wc);

	if (count != 1)
		die("request %llu: ibv_poll_cq returned %d where the device completes at once",
		    (unsigned long long)wr_id, count);
	if (wc.status != IBV_WC_SUCCESS || wc.wr_id != wr_id)
		die("request %llu: completion of request %llu: %s", (unsigned long long)wr_id,
		    (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
}

static inline __attribute__((always_inline))
void run_requests(enum ibv_wr_opcode opcode, uint64_t times, uint32_t used_qps, uint32_t used_mrs)
{
	struct ibv_send_wr wr = { .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED }, *bad;
	uint32_t qp = 0, mr = 0;

	for (uint64_t i = 0; i < times; i++) {
		int error;

		wr.wr_id = i;
		wr.sg_list = &sges[mr];
		if (opcode == IBV_WR_RDMA_WRITE) {
			wr.wr.rdma.remote_addr = sges[mr].addr;
			wr.wr.rdma.rkey = mrs[mr]->rkey;
		}
		error = ibv_post_send(qps[qp], &wr, &bad);
		if (error)
			die("request %llu: ibv_post_send: %s", (unsigned long long)i, strerror(error));
		take_completion(i);
		qp = qp + 1 == used_qps ? 0 : qp + 1;
		mr = mr + 1 == used_mrs ? 0 : mr + 1;
	}
}

static void run_send(uint64_t times, uint32_t used_qps, uint32_t used_mrs)
{
	run_requests(IBV_WR_SEND, times, used_qps, used_mrs);
}

static void run_write(uint64_t times, uint32_t used_qps, uint32_t used_mrs)
{
	run_requests(IBV_WR_RDMA_WRITE, times, used_qps, used_mrs);
}

static void run_recv(uint64_t times, uint32_t used_qps, uint32_t used_mrs)
{
	struct ibv_recv_wr wr = { .num_sge = 1 }, *bad;
	uint32_t qp = 0, mr = 0;

	for (uint64_t i = 0; i < times; i++) {
		int error;

		wr.wr_id = i;
		wr.sg_list = &sges[mr];
		error = ibv_post_recv(qps[qp], &wr, &bad);
		if (error)
			die("request %llu: ibv_post_recv: %s", (unsigned long long)i, strerror(error));
		take_completion(i);
		qp = qp + 1 == used_qps ? 0 : qp + 1;
		mr = mr + 1 == used_mrs ? 0 : mr + 1;
	}
}

static void run_empty_poll(uint64_t times, uint32_t used_qps, uint32_t used_mrs)
{
	struct ibv_wc wc;

	(void)used_qps;
	(void)used_mrs;
	for (uint64_t i = 0; i < times; i++)
		if (ibv_poll_cq(cq, 1, &wc) != 0)
			die("a completion in an empty completion queue");
}

static void run_wr_send(uint64_t times, uint32_t used_qps, uint32_t used_mrs)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(wr_qp);
	uint32_t mr = 0;

	(void)used_qps;
	for (uint64_t i = 0; i < times; i++) {
		int error;

		ibv_wr_start(qp);
		qp->wr_id = i;
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send(qp);
		ibv_wr_set_sge(qp, sges[mr].lkey, sges[mr].addr, sges[mr].length);
		error = ibv_wr_complete(qp);
		if (error)
			die("request %llu: ibv_wr_complete: %s", (unsigned long long)i, strerror(error));
		take_completion(i);
		mr = mr + 1 == used_mrs ? 0 : mr + 1;
	}
}

static void run_cq_ex(uint64_t times, uint32_t used_qps, uint32_t used_mrs)
{
	struct ibv_send_wr wr = { .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_poll_cq_attr attr = { 0 };
	uint32_t mr = 0;

	(void)used_qps;
	for (uint64_t i = 0; i < times; i++) {
		int error;

		wr.wr_id = i;
		wr.sg_list = &sges[mr];
		error = ibv_post_send(cq_ex_qp, &wr, &bad);
		if (error)
			die("request %llu: ibv_post_send: %s", (unsigned long long)i, strerror(error));
		error = ibv_start_poll(cq_ex, &attr);
		if (error)
			die("request %llu: ibv_start_poll: %s", (unsigned long long)i, strerror(error));
		if (cq_ex->status != IBV_WC_SUCCESS || cq_ex->wr_id != i || ibv_wc_read_opcode(cq_ex) != IBV_WC_SEND)
			die("request %llu: completion of request %llu: %s", (unsigned long long)i,
			    (unsigned long long)cq_ex->wr_id, ibv_wc_status_str(cq_ex->status));
		ibv_end_poll(cq_ex);
		mr = mr + 1 == used_mrs ? 0 : mr + 1;
	}
}

static void run_srq_recv(uint64_t times, uint32_t used_qps, uint32_t used_mrs)
{
	struct ibv_recv_wr wr = { .num_sge = 1 }, *bad;
	uint32_t mr = 0;

	(void)used_qps;
	for (uint64_t i = 0; i < times; i++) {
		int error;

		wr.wr_id = i;
		wr.sg_list = &sges[mr];
		error = ibv_post_srq_recv(srq, &wr, &bad);
		if (error)
			die("request %llu: ibv_post_srq_recv: %s", (unsigned long long)i, strerror(error));
		take_completion(i);
		mr = mr + 1 == used_mrs ? 0 : mr + 1;
	}
}

static void run_ud_send(uint64_t times, uint32_t used_qps, uint32_t used_mrs)
{
	struct ibv_send_wr wr = { .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
				  .wr.ud = { .ah = ah, .remote_qpn = ud_qp->qp_num, .remote_qkey = QKEY } }, *bad;
	uint32_t mr = 0;

	(void)used_qps;
	for (uint64_t i = 0; i < times; i++) {
		int error;

		wr.wr_id = i;
		wr.sg_list = &sges[mr];
		error = ibv_post_send(ud_qp, &wr, &bad);
		if (error)
			die("request %llu: ibv_post_send: %s", (unsigned long long)i, strerror(error));
		take_completion(i);
		mr = mr + 1 == used_mrs ? 0 : mr + 1;
	}
}

static const struct test tests[] = {
	{ "send", run_send },
	{ "write", run_write },
	{ "recv", run_recv },
	{ "empty_poll", run_empty_poll },
	{ "wr_send", run_wr_send },
	{ "cq_ex", run_cq_ex },
	{ "srq_recv", run_srq_recv },
	{ "ud_send", run_ud_send },
};

static const struct test *test_named(const char *name)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (!strcmp(tests[i].name, name))
			return &tests[i];
	die("no case %s; there are: send write recv empty_poll wr_send cq_ex srq_recv ud_send", name);
}

static void connect_to_itself(struct ibv_qp *qp, uint16_t lid)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
				   .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
				   .ah_attr = { .dlid = lid, .port_num = 1 } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
				   .max_rd_atomic = 1 };

	need_ok(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		"ibv_modify_qp to INIT");
	need_ok(ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "ibv_modify_qp to RTR");
	need_ok(ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "ibv_modify_qp to RTS");
}

static void make_ready_for_datagrams(struct ibv_qp *qp)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct ibv_qp_attr next = { .qp_state = IBV_QPS_RTR };

	need_ok(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		"ibv_modify_qp to INIT");
	need_ok(ibv_modify_qp(qp, &next, IBV_QP_STATE), "ibv_modify_qp to RTR");
	next.qp_state = IBV_QPS_RTS;
	need_ok(ibv_modify_qp(qp, &next, IBV_QP_STATE | IBV_QP_SQ_PSN), "ibv_modify_qp to RTS");
}

static struct ibv_qp *create_qp(enum ibv_qp_type type, struct ibv_cq *on, struct ibv_srq *receives, uint64_t send_ops)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = on, .recv_cq = on, .qp_type = type, .srq = receives, .pd = pd,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | (send_ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.send_ops_flags = send_ops,
	};

	return need(ibv_create_qp_ex(context, &init), "ibv_create_qp_ex");
}

/* One of each other kind. */
static void create_others(uint16_t lid)
{
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 4096, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct ibv_ah_attr to_itself = { .dlid = lid, .port_num = 1 };

	cq_ex = need(ibv_create_cq_ex(context, &cq_attr), "ibv_create_cq_ex");
	srq = need(ibv_create_srq(pd, &srq_attr), "ibv_create_srq");
	ah = need(ibv_create_ah(pd, &to_itself), "ibv_create_ah");
	wr_qp = create_qp(IBV_QPT_RC, cq, NULL, IBV_QP_EX_WITH_SEND);
	cq_ex_qp = create_qp(IBV_QPT_RC, ibv_cq_ex_to_cq(cq_ex), NULL, 0);
	srq_qp = create_qp(IBV_QPT_RC, cq, srq, 0);
	ud_qp = create_qp(IBV_QPT_UD, cq, NULL, 0);
	connect_to_itself(wr_qp, lid);
	connect_to_itself(cq_ex_qp, lid);
	connect_to_itself(srq_qp, lid);
	make_ready_for_datagrams(ud_qp);
}

static void destroy_others(void)
{
	need_ok(ibv_destroy_qp(ud_qp), "ibv_destroy_qp");
	need_ok(ibv_destroy_qp(srq_qp), "ibv_destroy_qp");
	need_ok(ibv_destroy_qp(cq_ex_qp), "ibv_destroy_qp");
	need_ok(ibv_destroy_qp(wr_qp), "ibv_destroy_qp");
	need_ok(ibv_destroy_ah(ah), "ibv_destroy_ah");
	need_ok(ibv_destroy_srq(srq), "ibv_destroy_srq");
	need_ok(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)), "ibv_destroy_cq");
}

/* The time of the first verb that needs a device, which is where a library that starts something starts it. */
static void open_device(void)
{
	struct ibv_device **list = need(ibv_get_device_list(NULL), "ibv_get_device_list");
	uint64_t start;

	if (!list[0])
		die("no RDMA device");
	start = now_ns();
	context = need(ibv_open_device(list[0]), "ibv_open_device");
	printf("open_device_ns %llu\n", (unsigned long long)(now_ns() - start));
	ibv_free_device_list(list);
}

static void create_objects(void)
{
	struct ibv_port_attr port;

	pd = need(ibv_alloc_pd(context), "ibv_alloc_pd");
	need_ok(ibv_query_port(context, 1, &port), "ibv_query_port");
	cq = need(ibv_create_cq(context, 4096, NULL, NULL, 0), "ibv_create_cq");
	buffer = need(aligned_alloc(4096, (size_t)mr_count * MESSAGE + 4096), "aligned_alloc");
	memset(buffer, 0, (size_t)mr_count * MESSAGE + 4096);
	qps = need(calloc(qp_count, sizeof(*qps)), "calloc");
	mrs = need(calloc(mr_count, sizeof(*mrs)), "calloc");
	sges = need(calloc(mr_count, sizeof(*sges)), "calloc");
	for (uint32_t i = 0; i < mr_count; i++) {
		mrs[i] = need(ibv_reg_mr(pd, buffer + (size_t)i * MESSAGE, MESSAGE,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), "ibv_reg_mr");
		sges[i] = (struct ibv_sge){ (uintptr_t)mrs[i]->addr, MESSAGE, mrs[i]->lkey };
	}
	for (uint32_t i = 0; i < qp_count; i++) {
		qps[i] = create_qp(IBV_QPT_RC, cq, NULL, 0);
		connect_to_itself(qps[i], port.lid);
	}
	create_others(port.lid);
}

static void destroy_objects(void)
{
	destroy_others();
	for (uint32_t i = 0; i < qp_count; i++)
		need_ok(ibv_destroy_qp(qps[i]), "ibv_destroy_qp");
	for (uint32_t i = 0; i < mr_count; i++)
		need_ok(ibv_dereg_mr(mrs[i]), "ibv_dereg_mr");
	need_ok(ibv_destroy_cq(cq), "ibv_destroy_cq");
	need_ok(ibv_dealloc_pd(pd), "ibv_dealloc_pd");
	need_ok(ibv_close_device(context), "ibv_close_device");
	free(sges);
	free(mrs);
	free(qps);
	free(buffer);
}

/* At each measurement, because what happens to the process between two of them may unpin it. */
static void pin(void)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity to processor %d: %s", cpu, strerror(errno));
}

static int by_value(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

static void measure(FILE *out, const struct test *test, uint32_t used_qps, uint32_t used_mrs)
{
	static uint64_t times[MAX_ROUNDS];

	pin();
	/* Every queue pair and region twice, so that no first use is measured. */
	test->run(2 * (used_qps > used_mrs ? used_qps : used_mrs) + requests, used_qps, used_mrs);
	for (int i = 0; i < rounds; i++) {
		const uint64_t start = now_ns();

		test->run(requests, used_qps, used_mrs);
		times[i] = now_ns() - start;
	}
	qsort(times, rounds, sizeof(times[0]), by_value);
	fprintf(out, "ns %.3f\n", (double)times[rounds / 4] / requests);
}

/* The counters are first seen to count: an allocation and a system call that are really made. */
static void count(const struct test *test)
{
	void *volatile block;
	int error = counting_begin();

	if (error)
		die("system calls can't be counted (Syscall User Dispatch, Linux 5.11): %s", strerror(error));
	block = malloc(100);
	getppid();
	counting_end();
	free(block);
	if (counting_allocations() != 1 || counting_system_calls() != 1)
		die("the counters do not count: %lu allocations, %lu system calls instead of 1 and 1",
		    counting_allocations(), counting_system_calls());

	need_ok(counting_begin(), "counting_begin");
	test->run(requests, qp_count, mr_count);
	counting_end();
	printf("counted_requests %llu\nallocations %lu\nsystem_calls %lu\n", (unsigned long long)requests,
	       counting_allocations(), counting_system_calls());
}

/* Not Private_Dirty, which has the pages of files that were written just before. */
static void print_memory(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	unsigned long kilobytes;

	if (!file)
		die("/proc/self/smaps_rollup: %s", strerror(errno));
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "Anonymous: %lu kB", &kilobytes) == 1)
			printf("private_kb %lu\n", kilobytes);
	fclose(file);
}

/* The content of FOLDER/number, waited for. It is renamed into place, so it is whole when it is there. */
static void read_request(const char *folder, int number, char *text, size_t size)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	const uint64_t deadline = now_ns() + REQUEST_SECONDS * 1000000000ULL;
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d", folder, number);
	while (!(file = fopen(path, "r"))) {
		if (errno != ENOENT)
			die("%s: %s", path, strerror(errno));
		if (now_ns() > deadline)
			die("waited %d s for the file %s", REQUEST_SECONDS, path);
		nanosleep(&pause, NULL);
	}
	if (!fgets(text, size, file))
		die("%s: empty", path);
	fclose(file);
}

static void serve(const char *folder)
{
	char text[128], name[32], part[4096], path[4096];
	uint32_t used_qps, used_mrs;
	FILE *file;

	for (int number = 1;; number++) {
		read_request(folder, number, text, sizeof(text));
		if (!strcmp(text, "end\n"))
			return;
		if (sscanf(text, "%31s %u %u", name, &used_qps, &used_mrs) != 3 || used_qps < 1 || used_mrs < 1 ||
		    used_qps > qp_count || used_mrs > mr_count)
			die("%s/%d: not CASE QPS MRS within %u and %u: %s", folder, number, qp_count, mr_count, text);
		snprintf(path, sizeof(path), "%s/%d.result", folder, number);
		snprintf(part, sizeof(part), "%s/%d.part", folder, number);
		file = need(fopen(part, "w"), part);
		measure(file, test_named(name), used_qps, used_mrs);
		if (fclose(file) || rename(part, path))
			die("%s: %s", path, strerror(errno));
	}
}

static uint64_t number(const char *text, uint64_t least, uint64_t most)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || value < least || value > most)
		die("not a number from %llu to %llu: %s", (unsigned long long)least, (unsigned long long)most, text);
	return value;
}

int main(int argc, char **argv)
{
	const char *folder = NULL;
	const struct test *test;
	int option;

	while ((option = getopt(argc, argv, "q:m:c:n:r:sw:")) != -1) {
		switch (option) {
		case 'q': qp_count = number(optarg, 1, 1 << 16); break;
		case 'm': mr_count = number(optarg, 1, 1 << 20); break;
		case 'c': cpu = number(optarg, 0, CPU_SETSIZE - 1); break;
		case 'n': rounds = number(optarg, 1, MAX_ROUNDS); break;
		case 'r': requests = number(optarg, 1, 1ULL << 40); break;
		case 's': count_too = 1; break;
		case 'w': folder = optarg; break;
		default: return 2;
		}
	}
	if (optind != argc - 1) {
		fprintf(stderr, "usage: dataplane [-q QPS] [-m MRS] [-c CPU] [-n ROUNDS] [-r REQUESTS] [-s] "
			"[-w FOLDER] CASE\n");
		return 2;
	}
	test = test_named(argv[optind]);

	open_device();
	create_objects();
	measure(stdout, test, qp_count, mr_count);
	print_memory();
	if (count_too)
		count(test);
	if (folder) {
		puts("ready");
		fflush(stdout);
		serve(folder);
	}
	destroy_objects();
	return 0;
}
