/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX takes a device for usable when its file in /dev/infiniband may be read and written; it never opens it. ib2tcp's device
 * has no file, and one that a restart has put behind another name has its file under its own. The functions that UCX looks
 * with find null(4) there. The system is asked first, so a path that is there costs nothing. Nothing here locks or allocates:
 * signal handlers and forked children may call these functions as before.
 */
#include "base/next.h"
#include "objects/objects.h"

#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/dev/infiniband/"
#define STAND_IN "/dev/null"

/* Is that where a device of ours has no file? After EFAULT there may be no path at all. */
static UNWATCHED bool is_to_be_there(int result, const char *path)
{
	return unlikely(result) && errno != EFAULT && !strncmp(path, FOLDER, strlen(FOLDER)) &&
	       sv_device_without_file(path + strlen(FOLDER));
}

#define LOOKS(name, parameters, there, instead)                         \
	__attribute__((visibility("default"))) int name parameters;     \
	UNWATCHED int name parameters                                   \
	{                                                               \
		__typeof__(&name) next = NEXT(__typeof__(&name), name); \
		int result = next there;                                \
									\
		return is_to_be_there(result, path) ? next instead : result; \
	}

LOOKS(access, (const char *path, int mode), (path, mode), (STAND_IN, mode))
LOOKS(stat, (const char *path, struct stat *status), (path, status), (STAND_IN, status))
LOOKS(stat64, (const char *path, struct stat64 *status), (path, status), (STAND_IN, status))
/* What stat was in glibc before 2.33, and is in programs that were built with that. */
LOOKS(__xstat, (int version, const char *path, struct stat *status), (version, path, status), (version, STAND_IN, status))
LOOKS(__xstat64, (int version, const char *path, struct stat64 *status), (version, path, status), (version, STAND_IN, status))
