/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"
#include "address/address_book.h"
#include "base/agent_place.h"
#include "base/say.h"
#include "control/handlers.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_NAME "addresses"
#define LARGEST (64 << 20)
/* What has changed less than this ago may change again and not look changed: file systems count time in ticks. */
#define YOUNG_SECONDS 2
/* Far less than it takes to save a process and to restore it. */
#define LATELY 10000000

/* What a look at a file or folder has found; all 0: none. */
struct look {
	uint64_t device, inode, size;
	int64_t seconds, nanoseconds;
};

/* One state of the file. It does not change once others can see it. */
struct book {
	char folder[SV_SOCKET_PATH];	/* of the agent's socket */
	struct look file;
	const struct sv_address_table *table;
};

/* What the program was launched with. It may change its environment later. */
static bool launched;
static char agent[SV_SOCKET_PATH], folder[SV_SOCKET_PATH], job[NAME_MAX + 1], origin[HOST_NAME_MAX * 4 + 1];

static const struct book *current;	/* NULL: there has been none yet */
/* What the folders looked like when `current` was found right; 0: nobody can tell. */
static uint64_t right;
static int64_t looked;			/* by the wall clock, in nanoseconds */

static bool take(const char *variable, char *value, size_t size)
{
	const char *given = getenv(variable);

	if (!given || strlen(given) >= size)
		return false;
	strcpy(value, given);
	return true;
}

static __attribute__((constructor)) void remember_launch(void)
{
	take("SHADOWVERBS_JOB", job, sizeof(job));
	take("SHADOWVERBS_ORIGIN", origin, sizeof(origin));
	launched = take("SHADOWVERBS_AGENT", agent, sizeof(agent)) && sv_beside(agent, "", folder, sizeof(folder));
}

static struct look look_of(const struct stat *status)
{
	return (struct look){ .device = status->st_dev, .inode = status->st_ino, .size = status->st_size,
			      .seconds = status->st_mtim.tv_sec, .nanoseconds = status->st_mtim.tv_nsec };
}

static struct look look_at(const char *path)
{
	struct stat status;

	return fstatat(AT_FDCWD, path, &status, 0) ? (struct look){ 0 } : look_of(&status);
}

static bool same_look(const struct look *one, const struct look *other)
{
	return !memcmp(one, other, sizeof(*one));
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
	return hash ^ (hash >> 29);
}

/* Takes a look at a folder into a hash, and when it has changed last into `youngest`. */
static uint64_t sign_of(const char *path, uint64_t hash, int64_t *youngest)
{
	struct look look = look_at(path);

	if (look.seconds > *youngest)
		*youngest = look.seconds;
	return mix(mix(mix(mix(hash, look.device), look.inode), look.seconds), look.nanoseconds);
}

/* What the folders look like now, which is never 0, and when one has changed last. */
static uint64_t signs(const struct book *book, int64_t *youngest)
{
	uint64_t hash = sign_of(folder, (uintptr_t)book, youngest);

	if (book && strcmp(book->folder, folder))
		hash = sign_of(book->folder, hash, youngest);
	return hash | 1;
}

static void *map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static size_t read_whole(int fd, char *text, size_t size)
{
	size_t length = 0;
	ssize_t n;

	while (length < size && (n = read(fd, text + length, size - length)) > 0)
		length += n;
	return length;
}

/* The file's table in memory of its own, behind the book; NULL when that can't be had, which stderr says. */
static struct book *read_book(const char *path, int fd, size_t size, size_t *mapped)
{
	struct book *book = NULL;
	char *text = size <= LARGEST ? map(size + 1) : NULL;
	unsigned wrong;

	if (text) {
		size_t length = read_whole(fd, text, size);

		*mapped = sizeof(*book) + sv_table_size(text, length);
		book = map(*mapped);
		if (book)
			book->table = sv_table_make(book + 1, text, length, origin, &wrong);
		if (book && wrong)
			sv_sayf("line %u of %s can't be read and is left out", wrong, path);
		munmap(text, size + 1);
	}
	if (!book)
		sv_sayf("%s can't be read: connections to hosts that the job has left may fail", path);
	return book;
}

/* The book now: `old`, or a new one. */
static const struct book *open_book(const struct book *old, size_t *mapped)
{
	char socket[SV_SOCKET_PATH], now[SV_SOCKET_PATH], path[SV_SOCKET_PATH + sizeof(FILE_NAME)];
	struct book *book = NULL;
	struct look look = { 0 };
	struct stat status;
	int fd;

	if (!sv_agent_socket(agent, job, socket, sizeof(socket)) || !sv_beside(socket, "", now, sizeof(now)) ||
	    !sv_beside(socket, FILE_NAME, path, sizeof(path)))
		return old;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && !fstat(fd, &status))
		look = look_of(&status);
	if (old ? same_look(&old->file, &look) && !strcmp(old->folder, now) : !look.inode && !strcmp(folder, now)) {
		if (fd >= 0)
			close(fd);
		return old;
	}
	if (look.inode)
		book = read_book(path, fd, look.size, mapped);
	if (fd >= 0)
		close(fd);
	if (!book) {
		*mapped = sizeof(*book);
		book = map(*mapped);
	}
	if (!book)
		return old;
	strcpy(book->folder, now);
	book->file = look;
	return book;
}

static const struct sv_address_table *table_of(const struct book *book)
{
	return book ? book->table : NULL;
}

static SV_NOINLINE const struct sv_address_table *look_again(void)
{
	for (;;) {
		const struct book *old = sv_load_acquire(&current), *expected = old, *found;
		int64_t youngest = 0;
		uint64_t before = signs(old, &youngest);
		struct timespec now;
		size_t mapped = 0;

		found = open_book(old, &mapped);
		if (found == old) {
			clock_gettime(CLOCK_REALTIME_COARSE, &now);
			sv_store(&right, now.tv_sec < youngest + YOUNG_SECONDS ? 0 : before);
			return table_of(old);
		}
		if (sv_cas(&current, &expected, found))
			return table_of(found);
		/* Another thread was faster; nobody has seen this one. */
		munmap((void *)found, mapped);
	}
}

const struct sv_address_table *sv_addresses(void)
{
	const struct sv_address_table *table;
	const struct book *book;
	int64_t youngest = 0;
	int saved;

	if (likely(!launched))
		return NULL;
	saved = errno;
	book = sv_load_acquire(&current);
	table = signs(book, &youngest) == sv_load(&right) ? table_of(book) : look_again();
	errno = saved;
	return table;
}

const struct sv_address_table *sv_addresses_for(const void *caller)
{
	const struct sv_address_table *table = sv_addresses();

	return likely(!table) || sv_is_the_jvms(caller) ? NULL : table;
}

const struct sv_address_table *sv_addresses_lately(const void *caller)
{
	const struct sv_address_table *table;
	struct timespec time;
	int64_t now, before;

	if (likely(!launched))
		return NULL;
	clock_gettime(CLOCK_REALTIME_COARSE, &time);
	now = time.tv_sec * 1000000000LL + time.tv_nsec;
	before = sv_load(&looked);
	if (now >= before && now < before + LATELY) {
		table = table_of(sv_load_acquire(&current));
	} else {
		table = sv_addresses();
		sv_store(&looked, now);
	}
	return likely(!table) || sv_is_the_jvms(caller) ? NULL : table;
}
