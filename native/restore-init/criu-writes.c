// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded into CRIU, so that it saves increments on kernels without soft-dirty bits. There the agent has the kernel note
 * writes by userfaultfd(2) (asynchronous write protection, Linux 6.7), which tells of the same pages in other words: what CRIU
 * asks for as soft-dirty is each page that is not write-protected.
 *
 * It does so where SHADOWVERBS_CRIU_WRITES is set. The agent begins the next count by itself, when CRIU has read all.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of linux/fs.h since Linux 6.7. */
struct region {
	__u64 start, end, categories;
};

struct scan {
	__u64 size, flags, start, end, walk_end, vec, vec_len, max_pages, category_inverted, category_mask,
		category_anyof_mask, return_mask;
};

#define SCAN_REQUEST _IOWR('f', 16, struct scan)
#define PROTECTABLE (1ULL << 0)
#define WRITTEN (1ULL << 1)
#define SOFT_DIRTY (1ULL << 7)
/* In an entry of a page map. */
#define ENTRY_SOFT_DIRTY (1ULL << 55)

/* What CRIU has found out about a kernel it keeps there; of the one that we make of it, elsewhere. */
#define KERNEL_FACTS "/run/criu.kdat"
#define OUR_FACTS "/run/shadowverbs-criu.kdat"

static bool active;

static void __attribute__((constructor)) look(void)
{
	active = getenv("SHADOWVERBS_CRIU_WRITES") != NULL;
}

/* Whether the descriptor is that file of a process. */
static bool is_proc_file(int fd, const char *name)
{
	char link[32], path[64];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length < 0)
		return false;
	path[length] = '\0';
	return !strncmp(path, "/proc/", 6) && !strcmp(strrchr(path, '/') + 1, name);
}

static int scan(int fd, struct scan *asked)
{
	struct scan ours = *asked;
	struct region *regions = (struct region *)(uintptr_t)asked->vec;
	int found, joined = 0;

	ours.return_mask = (asked->return_mask & ~SOFT_DIRTY) | PROTECTABLE | WRITTEN;
	found = syscall(SYS_ioctl, fd, SCAN_REQUEST, &ours);
	asked->walk_end = ours.walk_end;
	for (int i = 0; i < found; i++) {
		struct region region = regions[i];

		if (!(region.categories & PROTECTABLE) || (region.categories & WRITTEN))
			region.categories |= SOFT_DIRTY;
		region.categories &= asked->return_mask;
		if (joined && regions[joined - 1].end == region.start &&
		    regions[joined - 1].categories == region.categories)
			regions[joined - 1].end = region.end;
		else
			regions[joined++] = region;
	}
	return found < 0 ? found : joined;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list list;
	void *argument;

	va_start(list, request);
	argument = va_arg(list, void *);
	va_end(list);
	if (active && request == SCAN_REQUEST && (((struct scan *)argument)->return_mask & SOFT_DIRTY))
		return scan(fd, argument);
	return syscall(SYS_ioctl, fd, request, argument);
}

/* "4" to clear_refs begins a count of soft-dirty pages. */
ssize_t write(int fd, const void *buffer, size_t size)
{
	ssize_t written = syscall(SYS_write, fd, buffer, size);

	if (active && written < 0 && errno == EINVAL && size && size <= 2 && *(const char *)buffer == '4' &&
	    is_proc_file(fd, "clear_refs"))
		return size;
	return written;
}

/* By one entry of its own page map CRIU finds out if there are such pages. */
ssize_t read(int fd, void *buffer, size_t size)
{
	ssize_t got = syscall(SYS_read, fd, buffer, size);

	if (active && got == sizeof(__u64) && is_proc_file(fd, "pagemap")) {
		__u64 entry;

		memcpy(&entry, buffer, sizeof(entry));
		entry |= ENTRY_SOFT_DIRTY;
		memcpy(buffer, &entry, sizeof(entry));
	}
	return got;
}

static const char *facts(const char *path, char *ours, size_t size)
{
	if (!active || strncmp(path, KERNEL_FACTS, sizeof(KERNEL_FACTS) - 1))
		return path;
	snprintf(ours, size, "%s%s", OUR_FACTS, path + sizeof(KERNEL_FACTS) - 1);
	return ours;
}

int open64(const char *path, int flags, ...)
{
	char ours[64];
	va_list list;
	mode_t mode;

	va_start(list, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0;
	va_end(list);
	return syscall(SYS_openat, AT_FDCWD, facts(path, ours, sizeof(ours)), flags, mode);
}

int rename(const char *from, const char *to)
{
	char ours[64], theirs[64];

	return syscall(SYS_renameat2, AT_FDCWD, facts(from, ours, sizeof(ours)), AT_FDCWD,
		       facts(to, theirs, sizeof(theirs)), 0);
}
