#include "shared_page.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../common/die.h"

struct shared_page {
	atomic_ulong total;
	atomic_ulong by_rank[MAX_RANKS];
};

static uint64_t own_count;

/*
 * A file without a name: a process checkpointer saves its contents with the processes, as it does for anonymous
 * shared memory. One with a name would keep what was counted after the checkpoint.
 */
void shared_page_map(struct job *job)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/page", job->dir.path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct shared_page)))
		die(errno, "open %s", path);
	job->shared_page = mmap(NULL, sizeof(struct shared_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (job->shared_page == MAP_FAILED)
		die(errno, "mmap %s", path);
	close(fd);
	rank_dir_barrier(&job->dir, "mapped");
	if (job->rank == 0 && unlink(path))
		die(errno, "unlink %s", path);
}

void shared_page_count(struct job *job, uint64_t count)
{
	if (!job->shared_page || !count)
		return;
	own_count += count;
	atomic_fetch_add(&job->shared_page->total, count);
	atomic_fetch_add(&job->shared_page->by_rank[job->rank], count);
}

uint64_t shared_page_own_count(struct job *job)
{
	return job->shared_page ? own_count : 0;
}

void shared_page_check(struct job *job, uint64_t all)
{
	uint64_t total, mine;

	if (!job->shared_page)
		return;
	total = atomic_load(&job->shared_page->total);
	mine = atomic_load(&job->shared_page->by_rank[job->rank]);
	if (mine != own_count)
		tally_found(&job->tally, FOUND_DAMAGED, 1, "the shared page has %lu for this rank instead of %lu", mine,
			    own_count);
	if (total != all)
		tally_found(&job->tally, FOUND_DAMAGED, 1, "the shared page has %lu in all instead of %lu", total, all);
}
