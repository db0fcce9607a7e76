/*
 * A tree that looks like the kernel's, in the fabric directory, for programs that read device files by themselves. What
 * differs from one open to the next (GUIDs, lids, GIDs) is not in it; the verbs tell that.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "hca.h"

const char *ibv_get_sysfs_path(void)
{
	static __thread char path[416];
	const char *env = getenv("SYSFS_PATH");
	char dir[400];

	if (env && *env)
		return env;
	hca_fabric_path(dir, sizeof(dir));
	snprintf(path, sizeof(path), "%s/sysfs", dir);
	return path;
}

/* Makes the folders on the way to @path. */
static void make_parents(char *path)
{
	char *slash;

	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
}

/* Another process may write the same at the same time, so each file appears whole. */
static void put(const char *root, const char *text, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void put(const char *root, const char *text, const char *format, ...)
{
	char name[128], path[640], temporary[700];
	va_list args;
	FILE *f;
	int fd;

	va_start(args, format);
	vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	snprintf(path, sizeof(path), "%s/%s", root, name);
	snprintf(temporary, sizeof(temporary), "%s.%d", path, getpid());
	make_parents(path);
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f) {
		if (fd >= 0)
			close(fd);
		return;
	}
	fprintf(f, "%s\n", text);
	if (fclose(f) || rename(temporary, path))
		unlink(temporary);
}

/*
 * UCX takes a device for usable when there is a node for it that may be read and written; it never opens it. Where we may
 * not make one, UCX does without us.
 */
static void make_node(unsigned int index)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/infiniband/uverbs%u", index);
	if (!access(path, F_OK) || (mkdir("/dev/infiniband", 0755) && errno != EEXIST))
		return;
	if (!mknod(path, S_IFCHR | 0666, makedev(1, 3)))	/* null(4) */
		chmod(path, 0666);
}

void sysfs_create(unsigned int index)
{
	const char *root = ibv_get_sysfs_path();
	char last[512], device[64], ibdev[32];
	struct hca_settings settings;
	unsigned int i;

	make_node(index);
	snprintf(ibdev, sizeof(ibdev), "shadow%u", index);
	snprintf(last, sizeof(last), "%s/class/infiniband_verbs/uverbs%u/ibdev", root, index);
	if (getenv("SYSFS_PATH") || !access(last, F_OK))
		return;
	hca_settings_read(&settings);
	snprintf(device, sizeof(device), "class/infiniband/%s", ibdev);
	put(root, "1: CA", "%s/node_type", device);
	put(root, "shadow software HCA", "%s/node_desc", device);
	put(root, "1.0.0", "%s/fw_ver", device);
	put(root, "SHADOW", "%s/hca_type", device);
	put(root, "SHADOW0000001", "%s/board_id", device);
	put(root, "4: ACTIVE", "%s/ports/1/state", device);
	put(root, "5: LinkUp", "%s/ports/1/phys_state", device);
	put(root, "100 Gb/sec (4X EDR)", "%s/ports/1/rate", device);
	put(root, personality_limits(settings.personality)->ethernet ? "Ethernet" : "InfiniBand", "%s/ports/1/link_layer",
	    device);
	for (i = 0; i < personality_limits(settings.personality)->pkeys; i++)
		put(root, i ? "0x0000" : "0xffff", "%s/ports/1/pkeys/%u", device, i);
	put(root, "6", "class/infiniband_verbs/abi_version");
	put(root, "1", "class/infiniband_verbs/uverbs%u/abi_version", index);
	/* The last one: where it is, all are. */
	put(root, ibdev, "class/infiniband_verbs/uverbs%u/ibdev", index);
}
