/* SPDX-License-Identifier: Apache-2.0 */
/* How the preload, CRIU's plugin and what is preloaded into CRIU know the files of a verbs device. */
#ifndef SV_DEVICE_PATH_H
#define SV_DEVICE_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The name of the memory that a restored process has in the place of its device's mappings (memfd_create(2)). */
#define SV_LOST_MEMORY "shadowverbs-lost-device"

/* The kernel's are /dev/infiniband/uverbsN; a device in user space (test-fabric/hca) has names of that kind, too. */
static inline bool sv_is_device_path(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && !strncmp(slash + 1, "uverbs", 6);
}

/* Where a descriptor of this process leads, as /proc says. False: that cannot be read. */
static inline bool sv_path_of(int fd, char path[PATH_MAX])
{
	char link[40];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, PATH_MAX - 1);
	if (length < 0)
		return false;
	path[length] = 0;
	return true;
}

#endif
