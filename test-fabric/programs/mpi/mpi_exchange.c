/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi-exchange: ranks of an MPI job that send each other messages of all the ways that an MPI library has for them, from a
 * few bytes that go with their header to megabytes that the receiver fetches, and check every byte of each, and sums over
 * all ranks. Rank 0 prints a line for each round, until --go names a file that is there; then every rank says that it is done.
 */
#include <getopt.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/die.h"
#include "../common/pattern.h"

#define TAG 7
#define AHEAD 4			/* messages on their way at a time */
#define PAUSE_US 30000		/* after each round, for MPI libraries wait by looking without a rest */

static const char usage[] =
"usage: mpi-exchange --go FILE\n"
"Runs until FILE is there. Prints ROUND and its number at rank 0, and DONE ok at each rank.\n";

static const size_t sizes[] = { 8, 512, 4096, 65536, 2 << 20 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define MOST (2 << 20)

static int rank, ranks;
static char *sent[AHEAD], *received[AHEAD];

static uint64_t pattern(uint64_t round, int from, int slot)
{
	return mix64_two(mix64_two(round, from), slot);
}

/* Messages of one size to the rank so far behind this one, and from the one so far before it, several at a time. */
static void exchange(uint64_t round, size_t size, int distance)
{
	int next = (rank + distance) % ranks, before = (rank + ranks - distance) % ranks;
	MPI_Request requests[2 * AHEAD];
	MPI_Status statuses[2 * AHEAD];

	for (int i = 0; i < AHEAD; i++) {
		memset(received[i], POISON, size);
		pattern_fill(sent[i], size, pattern(round, rank, i), 0);
		MPI_Irecv(received[i], size, MPI_BYTE, before, TAG + i, MPI_COMM_WORLD, &requests[2 * i]);
		MPI_Isend(sent[i], size, MPI_BYTE, next, TAG + i, MPI_COMM_WORLD, &requests[2 * i + 1]);
	}
	MPI_Waitall(2 * AHEAD, requests, statuses);
	for (int i = 0; i < AHEAD; i++)
		if (!pattern_matches(received[i], size, pattern(round, before, i), 0))
			die(0, "round %llu: message %d of %zu bytes is not what rank %d sent", (unsigned long long)round, i, size,
			    before);
}

/* A sum that each rank knows beforehand, over numbers that no two rounds share. */
static void sum(uint64_t round)
{
	uint64_t own = mix64_two(round, rank), all = 0, expected = 0;

	MPI_Allreduce(&own, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++)
		expected += mix64_two(round, i);
	if (all != expected)
		die(0, "round %llu: the sum over all ranks is wrong", (unsigned long long)round);
}

/* As rank 0 sees it, so that all ranks end after the same round. */
static int is_over(const char *go)
{
	int over = rank == 0 && !access(go, F_OK);

	MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return over;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "go", required_argument, NULL, 'g' }, { "help", no_argument, NULL, 'h' }, { 0 },
	};
	const char *go = NULL;
	uint64_t round = 0;
	int option;

	die_name("mpi-exchange");
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (option) {
		case 'g': go = optarg; break;
		case 'h': fputs(usage, stdout); return 0;
		default: fputs(usage, stderr); return 2;
		}
	if (!go)
		die_usage("until when? --help says more");
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	die_name("mpi-exchange: rank %d", rank);
	for (int i = 0; i < AHEAD; i++)
		if (!(sent[i] = malloc(MOST)) || !(received[i] = malloc(MOST)))
			die(0, "no memory");
	do {
		for (size_t i = 0; i < SIZES; i++)
			exchange(round * SIZES + i, sizes[i], 1);
		sum(round++);
		if (rank == 0)
			printf("ROUND %llu\n", (unsigned long long)round), fflush(stdout);
		usleep(PAUSE_US);
	} while (!is_over(go));
	/* Where an MPI library makes connections when they are needed, these are new. */
	for (int distance = 2; distance < ranks; distance++)
		exchange(round * SIZES, sizes[SIZES - 1], distance);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	printf("DONE ok %llu\n", (unsigned long long)round);
	return 0;
}
