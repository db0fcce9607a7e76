#include "rank_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "die.h"
#include "work_clock.h"

#define LOOK_EVERY_US 2000

static void record_path(char *path, const struct rank_dir *dir, const char *name, int rank)
{
	if (snprintf(path, PATH_MAX, "%s/%s.%d", dir->path, name, rank) >= PATH_MAX)
		die(ENAMETOOLONG, "%s", dir->path);
}

void rank_dir_publish(const struct rank_dir *dir, const char *name, const void *data, size_t size)
{
	char path[PATH_MAX], fresh[PATH_MAX + 16];
	ssize_t written;
	int fd;

	record_path(path, dir, name, dir->rank);
	if (access(path, F_OK) == 0)
		die(0, "%s is there already: another rank has this number, or the folder is of an earlier job", path);
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		die(errno, "open %s", fresh);
	written = write(fd, data, size);
	if (written < 0 || (size_t)written != size)
		die(written < 0 ? errno : ENOSPC, "write %s", fresh);
	close(fd);
	if (rename(fresh, path))
		die(errno, "rename %s", fresh);
}

void rank_dir_await(const struct rank_dir *dir, const char *name, int rank, void *data, size_t size)
{
	struct work_clock clock;
	char path[PATH_MAX];
	ssize_t got;
	int fd;

	record_path(path, dir, name, rank);
	work_clock_start(&clock);
	while ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0) {
		if (errno != ENOENT)
			die(errno, "open %s", path);
		if (work_clock_read(&clock) > RANK_DIR_DEADLINE_S * NS_PER_S)
			die(0, "waited %d s for rank %d to publish '%s' in %s", RANK_DIR_DEADLINE_S, rank, name,
			    dir->path);
		work_clock_rest(LOOK_EVERY_US);
	}
	got = read(fd, data, size);
	if (got < 0)
		die(errno, "read %s", path);
	if ((size_t)got != size)
		die(0, "%s has %zd bytes instead of %zu: rank %d is of another build", path, got, size, rank);
	close(fd);
}

void rank_dir_barrier(const struct rank_dir *dir, const char *name)
{
	char nothing;

	rank_dir_publish(dir, name, "", 0);
	for (int rank = 0; rank < dir->ranks; rank++)
		rank_dir_await(dir, name, rank, &nothing, 0);
}

void rank_dir_remove(const struct rank_dir *dir, const char *name)
{
	char path[PATH_MAX];

	record_path(path, dir, name, dir->rank);
	unlink(path);
}

const char *rank_dir_create(void)
{
	const char *tmp = getenv("TMPDIR");
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/ranks.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(path))
		die(errno, "cannot create the folder %s for the ranks", path);
	return path;
}

void rank_dir_destroy(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(path);
}
