/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that stand, in a restored process, for the files of devices that it has no more (interpose/lost_device.c). */
#ifndef SV_LOST_FILES_H
#define SV_LOST_FILES_H

#include "base/base.h"
#include "base/next.h"

/* More devices than a process has open. */
#define SV_MOST_LOST 64

struct sv_lost_files {
	uint32_t count;			/* 0 but while they are given back */
	int fd[SV_MOST_LOST];
};
extern struct sv_lost_files sv_lost_files;

/* Any thread. To such a file ioctl(2) answers as the kernel does for a device that was unplugged: EIO. */
static inline UNWATCHED bool sv_is_lost(int fd)
{
	for (uint32_t at = sv_load_acquire(&sv_lost_files.count); unlikely(at > 0); at--)
		if (sv_lost_files.fd[at - 1] == fd)
			return true;
	return false;
}

#endif
