// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded into CRIU, so that a verbs device in user space (test-fabric/hca) is saved as one of the kernel's: its file, a
 * regular one, looks like a character device, so that CRIU leaves it to the plugin (criu-devices.c). Of the major number that
 * the kernel has given to verbs devices.
 */
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "../src/base/device_path.h"

#define UVERBS_MAJOR 231

int fstat64(int fd, struct stat64 *status)
{
	int ret = syscall(SYS_fstat, fd, status);
	char path[PATH_MAX];

	if (!ret && S_ISREG(status->st_mode) && sv_path_of(fd, path) && sv_is_device_path(path)) {
		status->st_mode = (status->st_mode & ~S_IFMT) | S_IFCHR;
		status->st_rdev = makedev(UVERBS_MAJOR, 192);
	}
	return ret;
}

int fstat(int fd, struct stat *status) __attribute__((alias("fstat64")));
