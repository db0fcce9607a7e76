/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint may leave the device open. A process that is restored from its image has stand-ins for the device's files and
 * mappings (restore-init/criu-devices.c), and structs of libibverbs and its provider for objects that are no more. These are
 * destroyed as those of a device that was unplugged: libibverbs and the providers free what they have in the process when the
 * kernel answers EIO and verbs_allow_disassociate_destroy is set (RDMAV_ALLOW_DISASSOC_DESTROY, ibv_open_device(3)). Our
 * ioctl(2) gives that answer (address/interface_addresses.c), so nothing reaches a device.
 */
#include "base/base.h"
#include "base/device_path.h"
#include "base/lost_files.h"
#include "base/next.h"
#include "objects/objects.h"

#include <dirent.h>
#include <stdlib.h>

struct sv_lost_files sv_lost_files;

int sv_context_attachable(struct ibv_context *vcontext)
{
	struct ibv_context *real = sv_context_of(vcontext)->real;
	char path[PATH_MAX];

	/* One of null(4) has nothing but memory of the process. */
	return real && sv_path_of(real->cmd_fd, path) && (sv_is_device_path(path) || !strcmp(path, "/dev/null"));
}

int sv_context_lost(struct ibv_context *vcontext)
{
	bool *allow = sv_symbol(sv_library("libibverbs.so.1", "ibv_open_device"), "verbs_allow_disassociate_destroy");
	uint32_t count = sv_lost_files.count;

	if (!allow)
		return ENOSYS;
	if (count == SV_MOST_LOST)
		return EMFILE;
	*allow = true;
	sv_lost_files.fd[count] = sv_context_of(vcontext)->real->cmd_fd;
	sv_store_release(&sv_lost_files.count, count + 1);
	return 0;
}

/* CRIU leaves descriptors of the memory that it has mapped. */
static void close_memory(void)
{
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;
	char path[PATH_MAX];

	if (!folder)
		return;
	while ((entry = readdir(folder))) {
		int fd = atoi(entry->d_name);

		if (fd > 0 && fd != dirfd(folder) && sv_path_of(fd, path) && strstr(path, "/memfd:" SV_LOST_MEMORY))
			close(fd);
	}
	closedir(folder);
}

void sv_lost_over(void)
{
	sv_store_release(&sv_lost_files.count, 0);
	close_memory();
}
