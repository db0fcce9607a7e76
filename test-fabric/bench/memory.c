/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes with so much memory each, a tenth of which they write to again and again, for the benchmark of checkpoints:
 *
 *     memory MIB PROCESSES [QUEUE-PAIRS]
 *
 * With a number of queue pairs each holds a device open and has all of the memory registered, for the device to read, and 64 KiB
 * of it to write; and its queue pairs are connected with each other. Half of each page is noise. Each says "ready" when all is
 * there, and runs until it is killed.
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define REGISTERED (1UL << 30)
#define WRITTEN_BY_DEVICE (64UL << 10)
/* So often it writes to all pages of the tenth. */
#define PASS_NS 500000000L
#define STEPS 50

static uint64_t state = 88172645463325252ULL;

static void fill(char *page)
{
	uint64_t *words = (uint64_t *)page;

	for (int i = 0; i < PAGE / 16; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		words[i] = state;
	}
}

static void give_up(const char *what)
{
	perror(what);
	exit(1);
}

static void connect_to(struct ibv_qp *qp, uint32_t number, const struct ibv_port_attr *port, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_READ };
	struct ibv_ah_attr to = { .dlid = port->lid, .port_num = 1 };

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		give_up("memory: ibv_modify_qp to INIT");
	if (port->link_layer == IBV_LINK_LAYER_ETHERNET) {
		to.is_global = 1;
		to.grh.dgid = *gid;
		to.grh.hop_limit = 1;
	}
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = number, .rq_psn = 1,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = to };
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		give_up("memory: ibv_modify_qp to RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = 1,
		.max_rd_atomic = 1 };
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				     IBV_QP_MAX_QP_RD_ATOMIC))
		give_up("memory: ibv_modify_qp to RTS");
}

static void connect_queue_pairs(struct ibv_context *context, struct ibv_pd *pd, int count)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct ibv_qp *pair[2];

	init.send_cq = init.recv_cq = ibv_create_cq(context, 256, NULL, NULL, 0);
	if (!init.send_cq || ibv_query_port(context, 1, &port) || ibv_query_gid(context, 1, 0, &gid))
		give_up("memory: the device cannot be used");
	for (int i = 0; i < count; i += 2) {
		if (!(pair[0] = ibv_create_qp(pd, &init)) || !(pair[1] = ibv_create_qp(pd, &init)))
			give_up("memory: ibv_create_qp");
		connect_to(pair[0], pair[1]->qp_num, &port, &gid);
		connect_to(pair[1], pair[0]->qp_num, &port, &gid);
	}
}

static void open_device(char *memory, size_t size, int queue_pairs)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && *devices ? ibv_open_device(*devices) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;

	if (!pd || !ibv_reg_mr(pd, memory, WRITTEN_BY_DEVICE, IBV_ACCESS_LOCAL_WRITE))
		give_up("memory: the device cannot be used");
	for (size_t at = 0; at < size; at += REGISTERED) {
		if (!ibv_reg_mr(pd, memory + at, size - at < REGISTERED ? size - at : REGISTERED, 0))
			give_up("memory: ibv_reg_mr");
	}
	connect_queue_pairs(context, pd, queue_pairs);
}

int main(int argc, char **argv)
{
	const struct timespec pause = { .tv_nsec = PASS_NS / STEPS };
	size_t size = argc > 2 ? strtoul(argv[1], NULL, 10) << 20 : 0;
	char *memory;

	if (!size) {
		fprintf(stderr, "usage: memory MIB PROCESSES [QUEUE-PAIRS]\n");
		return 1;
	}
	for (int others = atoi(argv[2]) - 1; others > 0; others--) {
		pid_t pid = fork();

		if (pid == -1)
			give_up("memory: fork");
		if (!pid)
			break;
	}
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		give_up("memory: mmap");
	for (size_t at = 0; at < size; at += PAGE)
		fill(memory + at);
	if (argc > 3)
		open_device(memory, size, atoi(argv[3]));
	puts("ready");
	fflush(stdout);
	for (size_t pages = size / PAGE / 10, step = 0;; step = (step + 1) % STEPS) {
		for (size_t page = pages * step / STEPS; page < pages * (step + 1) / STEPS; page++)
			memory[page * PAGE]++;
		nanosleep(&pause, NULL);
	}
}
