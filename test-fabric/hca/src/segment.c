/* Mapping, robust locks, liveness and the mailbox of a shared segment. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "segment.h"

struct seg *seg_map(int fd)
{
	struct seg *seg = mmap(NULL, SEG_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (seg == MAP_FAILED)
		return NULL;
	/* As a driver's mappings: a forked child does not have them. */
	madvise(seg, SEG_SIZE, MADV_DONTFORK);
	/* Gigabytes of holes have no place in a core dump. */
	madvise(seg, SEG_SIZE, MADV_DONTDUMP);
	return seg;
}

void seg_path(const char *dir, uint32_t id, char path[448])
{
	snprintf(path, 448, "%s/uverbs-%08x", dir, id);
}

uint32_t seg_id_of(const char *name)
{
	unsigned int id;

	return sscanf(name, "uverbs-%8x", &id) == 1 ? id : 0;
}

struct seg *seg_attach_remains(const char *dir, uint32_t id)
{
	struct stat st;
	struct seg *seg;
	char path[448];
	int fd;

	seg_path(dir, id, path);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) || (uint64_t)st.st_size != SEG_SIZE) {
		close(fd);
		return NULL;
	}
	seg = seg_map(fd);
	close(fd);
	if (seg && seg_load(&seg->magic) != SEG_MAGIC) {
		munmap(seg, SEG_SIZE);
		seg = NULL;
	}
	return seg;
}

struct seg *seg_attach(const char *dir, uint32_t id)
{
	struct seg *seg = seg_attach_remains(dir, id);

	if (seg && !seg_alive(seg)) {
		munmap(seg, SEG_SIZE);
		seg = NULL;
	}
	return seg;
}

void seg_lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

int seg_lock(pthread_mutex_t *lock, const char *what)
{
	int ret = pthread_mutex_trylock(lock);

	while (ret == EBUSY || ret == ETIMEDOUT) {
		struct timespec deadline;

		if (ret == ETIMEDOUT)
			fprintf(stderr, "shadow-hca: waited 10 s for %s, its owner may be stopped; waiting on\n", what);
		clock_gettime(CLOCK_REALTIME, &deadline);
		deadline.tv_sec += 10;
		ret = pthread_mutex_timedlock(lock, &deadline);
	}
	if (ret == EOWNERDEAD) {
		pthread_mutex_consistent(lock);
		return 1;
	}
	if (ret) {
		fprintf(stderr, "shadow-hca: %s cannot be locked: error %d\n", what, ret);
		abort();
	}
	return 0;
}

void seg_unlock(pthread_mutex_t *lock)
{
	pthread_mutex_unlock(lock);
}

/*
 * The kernel sets FUTEX_OWNER_DIED in the lock word when the engine thread ends, however that happens, in whichever
 * pid namespace. The word is the first of a glibc mutex; trylock would ask the same at the price of a locked
 * instruction on a line that all peers share.
 */
int seg_alive(struct seg *seg)
{
	uint32_t word = seg_load((uint32_t *)&seg->alive.__data.__lock);

	return seg_load(&seg->state) == SEG_LIVE && word && !(word & FUTEX_OWNER_DIED);
}

static int context_is_alive(const char *dir, uint32_t id)
{
	struct seg *seg = seg_attach(dir, id);

	if (seg)
		munmap(seg, SEG_SIZE);
	return !!seg;
}

int seg_is_kept(struct seg *seg, const char *dir)
{
	uint32_t i, j, max = seg_load(&seg->max_qp);

	for (i = 0; i < max; i++) {
		struct seg_qp *qp = &seg->qp[i];

		for (j = 0; seg_load(&qp->in_use) && seg_load(&qp->openers) && j < SEG_MAX_OPENERS; j++) {
			uint32_t id = seg_load(&qp->opener[j].context);

			if (id && context_is_alive(dir, id))
				return 1;
		}
	}
	return 0;
}

void seg_ring_doorbell(struct seg *seg)
{
	__atomic_add_fetch(&seg->doorbell, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &seg->doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void seg_mail(struct seg *seg, uint32_t type, uint32_t index, uint32_t gen, uint32_t detail)
{
	struct seg_mailbox *box = &seg->mailbox;

	seg_lock(&box->lock, "the mailbox of an HCA");
	if (box->prod - box->cons == SEG_MAIL_SLOTS) {
		box->overflow = 1;
	} else {
		box->slots[box->prod % SEG_MAIL_SLOTS] = (struct seg_mail){
			.type = type, .index = index, .gen = gen, .detail = detail,
		};
		box->prod++;
	}
	seg_unlock(&box->lock);
	seg_ring_doorbell(seg);
}

int seg_take_mail(struct seg *seg, struct seg_mail *mail)
{
	struct seg_mailbox *box = &seg->mailbox;
	int ret = 0;

	seg_lock(&box->lock, "the own mailbox of an HCA");
	if (box->prod != box->cons) {
		*mail = box->slots[box->cons % SEG_MAIL_SLOTS];
		box->cons++;
		ret = 1;
	} else if (box->overflow) {
		box->overflow = 0;
		ret = -1;
	}
	seg_unlock(&box->lock);
	return ret;
}
