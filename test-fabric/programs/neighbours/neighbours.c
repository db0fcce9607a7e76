/* SPDX-License-Identifier: Apache-2.0 */
/*
 * neighbours 0|1 FILE STOP_FILE: two of them that were started apart take turns in memory that they share, as ranks of one host
 * do: a segment of System V's, whose key is made from FILE, and FILE itself, mapped. A turn counts both up. Each says "turn" for
 * every 1,000 of its own, and "done" when the stop file is there. Status 1: the two counts differ, so that one of the memories
 * is not the neighbour's any more.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include "../common/die.h"

const char *const program_name = "neighbours";

struct shared {
	_Atomic long count;
	_Atomic int segment;	/* 1 more than its id; 0: not made yet. Only in the file */
};

/* A key is made from the file's number, which a file of an earlier neighbour that was killed may have had. */
static int make_segment(const char *path)
{
	key_t key = ftok(path, 1);
	int left = shmget(key, 0, 0), id;

	if (left >= 0)
		shmctl(left, IPC_RMID, NULL);
	id = shmget(key, sizeof(struct shared), IPC_CREAT | IPC_EXCL | 0600);
	if (id < 0)
		die(errno, "shmget");
	return id;
}

int main(int argc, char **argv)
{
	struct shared *segment, *file;
	long turns = 0;
	int me, fd, id = -1;

	if (argc < 4)
		die(0, "neighbours 0|1 FILE STOP_FILE [file]");
	me = atoi(argv[1]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	fd = open(argv[2], O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*file)))
		die(errno, "%s", argv[2]);
	file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		die(errno, "mmap");
	close(fd);
	segment = file;
	if (argc == 4) {
		if (me == 0)
			atomic_store(&file->segment, make_segment(argv[2]) + 1);
		while (!(id = atomic_load(&file->segment)))
			usleep(50);
		segment = shmat(--id, NULL, 0);
		if (segment == (void *)-1)
			die(errno, "shmat");
	}
	while (access(argv[3], F_OK)) {
		long count = atomic_load(&file->count);

		if (count % 2 != me) {
			usleep(50);
			continue;
		}
		if (segment != file && atomic_fetch_add(&segment->count, 1) != count)
			die(0, "the segment says %ld, the file %ld", atomic_load(&segment->count), count);
		atomic_store(&file->count, count + 1);
		if (++turns % 1000 == 0)
			printf("turn %ld\n", turns);
	}
	if (segment != file && me == 0)
		shmctl(shmget(ftok(argv[2], 1), 0, 0), IPC_RMID, NULL);	/* after a restart its id may be another */
	printf("done\n");
	return 0;
}
