// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CAP_WORDS _LINUX_CAPABILITY_U32S_3

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = write(fd, text, strlen(text));
	close(fd);
	return n == (ssize_t)strlen(text);
}

bool user_namespace(const char **what)
{
	uid_t user = geteuid();
	gid_t group = getegid();
	char map[64];

	*what = "a user namespace";
	if (unshare(CLONE_NEWUSER))
		return false;
	/* Who has no privilege may map his group only when nobody in the namespace can drop groups. */
	*what = "/proc/self/setgroups";
	if (!write_file(*what, "deny") && errno != ENOENT)
		return false;
	snprintf(map, sizeof(map), "%u %u 1\n", user, user);
	*what = "/proc/self/uid_map";
	if (!write_file(*what, map))
		return false;
	snprintf(map, sizeof(map), "%u %u 1\n", group, group);
	*what = "/proc/self/gid_map";
	return write_file(*what, map);
}

bool hand_on_capabilities(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[CAP_WORDS];

	if (syscall(SYS_capget, &head, data))
		return false;
	for (int i = 0; i < CAP_WORDS; i++)
		data[i].inheritable = data[i].permitted;
	data[CAP_TO_INDEX(CAP_SETUID)].inheritable &= ~CAP_TO_MASK(CAP_SETUID);
	if (syscall(SYS_capset, &head, data))
		return false;
	for (int cap = 0; cap < 32 * CAP_WORDS; cap++)
		if (data[CAP_TO_INDEX(cap)].inheritable & CAP_TO_MASK(cap) &&
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0))
			return false;
	return true;
}

bool own_proc(void)
{
	return !mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) && !mount("proc", "/proc", "proc", 0, NULL);
}

int open_again(int fd, int flags)
{
	char link[64], path[4096];
	struct stat before, after;
	ssize_t n;
	int again;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0 || fstat(fd, &before))
		return -1;
	if (!S_ISREG(before.st_mode) && !S_ISCHR(before.st_mode) && !S_ISDIR(before.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	path[n] = 0;
	again = open(path, flags | O_NOCTTY | O_CLOEXEC);
	if (again >= 0 && (fstat(again, &after) || after.st_dev != before.st_dev || after.st_ino != before.st_ino)) {
		close(again);
		errno = ESTALE;
		return -1;
	}
	return again;
}
