/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process with so much memory, a tenth of which it writes to again and again, for the benchmark of checkpoints:
 *
 *     memory MIB [verbs]
 *
 * With "verbs" it holds a device open and has all of the memory registered, for the device to read, and 64 KiB of it to write.
 * Half of each page is noise. It says "ready" when all is there, and runs until it is killed.
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

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

static void open_device(char *memory, size_t size)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && *devices ? ibv_open_device(*devices) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;

	if (!pd || !ibv_reg_mr(pd, memory, WRITTEN_BY_DEVICE, IBV_ACCESS_LOCAL_WRITE)) {
		perror("memory: the device cannot be used");
		exit(1);
	}
	for (size_t at = 0; at < size; at += REGISTERED) {
		if (!ibv_reg_mr(pd, memory + at, size - at < REGISTERED ? size - at : REGISTERED, 0)) {
			perror("memory: ibv_reg_mr");
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	const struct timespec pause = { .tv_nsec = PASS_NS / STEPS };
	size_t size = argc > 1 ? strtoul(argv[1], NULL, 10) << 20 : 0;
	char *memory = size ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;

	if (memory == MAP_FAILED) {
		fprintf(stderr, "usage: memory MIB [verbs]\n");
		return 1;
	}
	for (size_t at = 0; at < size; at += PAGE)
		fill(memory + at);
	if (argc > 2 && !strcmp(argv[2], "verbs"))
		open_device(memory, size);
	puts("ready");
	fflush(stdout);
	for (size_t pages = size / PAGE / 10, step = 0;; step = (step + 1) % STEPS) {
		for (size_t page = pages * step / STEPS; page < pages * (step + 1) / STEPS; page++)
			memory[page * PAGE]++;
		nanosleep(&pause, NULL);
	}
}
