// SPDX-License-Identifier: Apache-2.0
/*
 * A plugin of CRIU that takes verbs devices through a checkpoint which leaves them open.
 *
 * Saved is that there are a device's file, its event descriptors and its mappings, and at which numbers and addresses; not
 * what is in them. Restored are stand-ins: descriptors of which nothing comes, and empty memory. A restored rank gives them
 * back before it opens a device again (../src/interpose/lost_device.c); the names of the memory's descriptors say which it was
 * left with.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "../src/base/device_path.h"
#include "criu-standby.h"

/*
 * What CRIU and a plugin know of each other (criu-plugin.h of CRIU 3.17 and later, which is not packaged with each of them):
 * numbers of hooks stay what they are, and CRIU asks for no more of them than a plugin has.
 */
enum { DUMP_EXT_FILE = 2, RESTORE_EXT_FILE = 3, HANDLE_DEVICE_VMA = 7, UPDATE_VMA_MAP = 8, HOOKS };
enum { STAGE_DUMP };
#define PLUGIN_VERSION ((0 << 16) + (2 << 8) + 0)

struct plugin {
	const char *name;
	int (*init)(int stage);
	void (*exit)(int stage, int ret);
	unsigned int version;
	unsigned int max_hooks;
	void *hooks[HOOKS];
};

/* More than any device maps; a sparse file. */
#define LARGEST_MAPPING (1ULL << 40)
/* Of completion channels, and of a device's asynchronous events. */
#define EVENT_FILES "anon_inode:[infiniband"

static int dump_file(int fd, int id)
{
	char path[PATH_MAX];

	(void)id;
	if (!sv_path_of(fd, path))
		return -errno;
	return sv_is_device_path(path) || !strncmp(path, EVENT_FILES, strlen(EVENT_FILES)) ? 0 : -ENOTSUP;
}

/* Epoll sets take it, and it is never readable. */
static int restore_file(int id)
{
	(void)id;
	return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static int handle_mapping(int fd, const struct stat *stat)
{
	char path[PATH_MAX];

	(void)stat;
	return sv_path_of(fd, path) && sv_is_device_path(path) ? 0 : -ENOTSUP;
}

/*
 * A descriptor for each mapping: CRIU closes one after it has mapped with it, and does not look at that of a mapping whose
 * file is that of the one before, which so is left over.
 */
static int map_memory(const char *path, uint64_t address, uint64_t offset, uint64_t *new_offset, int *fd)
{
	(void)address;
	(void)offset;
	if (!sv_is_device_path(path))
		return -ENOTSUP;
	*fd = memfd_create(SV_LOST_MEMORY, MFD_CLOEXEC);
	if (*fd < 0 || ftruncate(*fd, LARGEST_MAPPING))
		return -errno;
	*new_offset = 0;
	return 1;
}

/* CRIU has learnt all that it needs to know of the kernel by now, and nothing of the tree. */
static int begin(int stage)
{
	if (stage == STAGE_DUMP)
		sv_stand_by();
	return 0;
}

static void end(int stage, int ret)
{
	(void)stage;
	(void)ret;
}

struct plugin CR_PLUGIN_DESC = {
	.name = "shadowverbs_devices",
	.init = begin,
	.exit = end,
	.version = PLUGIN_VERSION,
	.max_hooks = HOOKS,
	.hooks = {
		[DUMP_EXT_FILE] = dump_file,
		[RESTORE_EXT_FILE] = restore_file,
		[HANDLE_DEVICE_VMA] = handle_mapping,
		[UPDATE_VMA_MAP] = map_memory,
	},
};
