/*
 * The fabric directory: one segment file for each open context of each process, named after its lid. Creation and the
 * removal of what dead processes left happen under one lock of the directory, which ends with its holder. A file stays
 * as long as other processes have XRC receive QPs of it open.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "hca.h"

#define LID_FIRST 1
#define LID_LAST 0xbfff

static uint64_t pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

static int directory_lock(const char *dir)
{
	uint64_t deadline = hca_now_ns() + 10000000000ULL;
	char path[448];
	int fd;

	snprintf(path, sizeof(path), "%s/lock", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0) {
		fprintf(stderr, "shadow-hca: cannot open %s: %s\n", path, strerror(errno));
		return -1;
	}
	/* flock has no deadline of its own, so it is asked again until ours passes. */
	while (flock(fd, LOCK_EX | LOCK_NB)) {
		struct timespec pause = { .tv_nsec = 500000 };

		if ((errno != EWOULDBLOCK && errno != EINTR) || hca_now_ns() > deadline) {
			fprintf(stderr, "shadow-hca: waited 10 s for the lock %s\n", path);
			close(fd);
			errno = EBUSY;
			return -1;
		}
		nanosleep(&pause, NULL);
	}
	return fd;
}

/* Directory lock held, so no file is in the making: what is neither alive nor kept is left over. */
static void remove_stale(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	unsigned int lid;
	struct seg *seg;
	char path[448];
	bool needed;

	if (!d)
		return;
	while ((e = readdir(d))) {
		if (sscanf(e->d_name, "lid-%x", &lid) != 1)
			continue;
		seg = seg_attach_remains(dir, lid);
		needed = seg && (seg_alive(seg) || seg_is_kept(seg, dir));
		if (seg)
			munmap(seg, SEG_SIZE);
		if (needed)
			continue;
		snprintf(path, sizeof(path), "%s/lid-%04x", dir, lid);
		unlink(path);
	}
	closedir(d);
}

void fabric_sweep(struct hca_context *ctx)
{
	int lock = directory_lock(ctx->fabric_dir);

	if (lock < 0)
		return;
	remove_stale(ctx->fabric_dir);
	close(lock);
}

static uint32_t port_count(const struct hca_context *ctx)
{
	uint32_t n = ctx->seg_settings.ports;

	return n < 1 ? 1 : n > SEG_PORTS ? SEG_PORTS : n;
}

static void segment_init(struct hca_context *ctx, struct seg *seg, const uint32_t *lids)
{
	static const uint8_t link_local[8] = { 0xfe, 0x80 };
	unsigned int i, port;

	seg->size = SEG_SIZE;
	seg->pid = getpid();
	seg->pidns = pid_namespace();
	seg->lid = lids[0];
	seg->ports = port_count(ctx);
	for (port = 0; port < seg->ports; port++) {
		uint64_t guid = ids_random(ctx);

		seg->port[port].lid = lids[port];
		for (i = 0; i < SEG_GIDS_USED; i++) {
			uint64_t prefix = ids_random(ctx);

			memcpy(seg->port[port].gid[i].raw, i ? (const void *)&prefix : link_local, 8);
			memcpy(seg->port[port].gid[i].raw + 8, &guid, 8);
		}
	}
	seg_lock_init(&seg->alive);
	seg_lock_init(&seg->atomics);
	seg_lock_init(&seg->mailbox.lock);
	seg_store(&seg->magic, SEG_MAGIC);
}

static void lid_path(const char *dir, uint32_t lid, char path[448])
{
	snprintf(path, 448, "%s/lid-%04x", dir, lid);
}

/*
 * Takes a lid that nobody has: as a new file, whose descriptor is returned, or as a link to the file of lid @same.
 */
static int lid_take(struct hca_context *ctx, const char *dir, uint32_t same, uint32_t *lid)
{
	uint32_t space = ctx->seg_settings.id_space;
	uint32_t last = space && space < LID_LAST ? (space < 256 ? 256 : space) : LID_LAST;
	char path[448], old[448];
	int attempt, ret;

	for (attempt = 0; attempt < 100000; attempt++) {
		*lid = LID_FIRST + (ids_random(ctx) >> 11) % (last - LID_FIRST + 1);
		lid_path(dir, *lid, path);
		if (same) {
			lid_path(dir, same, old);
			ret = link(old, path);
		} else {
			ret = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		}
		if (ret >= 0 || errno != EEXIST)
			return ret;
	}
	errno = ENOSPC;
	return -1;
}

static void lids_remove(const char *dir, const uint32_t *lids, uint32_t n)
{
	char path[448];

	while (n--) {
		lid_path(dir, lids[n], path);
		unlink(path);
	}
}

static int fabric_open_null(struct hca_context *ctx)
{
	uint32_t lids[SEG_PORTS], i;

	ctx->seg = mmap(NULL, SEG_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (ctx->seg == MAP_FAILED) {
		ctx->seg = NULL;
		return -1;
	}
	madvise(ctx->seg, SEG_SIZE, MADV_DONTDUMP);
	for (i = 0; i < SEG_PORTS; i++)
		lids[i] = LID_FIRST + (ids_random(ctx) >> 11) % LID_LAST;
	segment_init(ctx, ctx->seg, lids);
	ctx->seg->settings = ctx->seg_settings;
	seg_store(&ctx->seg->state, SEG_LIVE);
	return 0;
}

static int fabric_create_locked(struct hca_context *ctx, const char *dir)
{
	uint32_t lids[SEG_PORTS], n, ports = port_count(ctx);
	int fd;

	remove_stale(dir);
	fd = lid_take(ctx, dir, 0, &lids[0]);
	if (fd < 0) {
		fprintf(stderr, "shadow-hca: cannot create a segment in %s: %s\n", dir, strerror(errno));
		return -1;
	}
	for (n = 1; n < ports; n++) {
		if (lid_take(ctx, dir, lids[0], &lids[n])) {
			fprintf(stderr, "shadow-hca: cannot link a segment in %s: %s\n", dir, strerror(errno));
			goto fail;
		}
	}
	if (ftruncate(fd, SEG_SIZE) || !(ctx->seg = seg_map(fd))) {
		fprintf(stderr, "shadow-hca: cannot map a segment in %s: %s\n", dir, strerror(errno));
		goto fail;
	}
	segment_init(ctx, ctx->seg, lids);
	ctx->seg->settings = ctx->seg_settings;
	if (engine_start(ctx))
		goto fail;
	seg_store(&ctx->seg->state, SEG_LIVE);
	ctx->seg_fd = fd;
	return 0;

fail:
	if (ctx->seg)
		munmap(ctx->seg, SEG_SIZE);
	ctx->seg = NULL;
	lids_remove(dir, lids, n);
	close(fd);
	return -1;
}

int fabric_open(struct hca_context *ctx)
{
	char dir[400];
	int lock, ret;

	if (ctx->null_mode)
		return fabric_open_null(ctx);

	hca_fabric_path(dir, sizeof(dir));
	if (mkdir(dir, 0700) && errno != EEXIST) {
		fprintf(stderr, "shadow-hca: cannot create the fabric directory %s: %s\n", dir, strerror(errno));
		return -1;
	}
	snprintf(ctx->fabric_dir, sizeof(ctx->fabric_dir), "%s", dir);
	/* Peers copy to and from this process; where Yama restricts ptrace they need to be told. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);

	lock = directory_lock(dir);
	if (lock < 0)
		return -1;
	ret = fabric_create_locked(ctx, dir);
	close(lock);
	return ret;
}

void fabric_close(struct hca_context *ctx)
{
	struct hca_peer *peer;

	seg_store(&ctx->seg->state, SEG_CLOSED);
	if (!ctx->null_mode) {
		uint32_t lids[SEG_PORTS], i;

		engine_stop(ctx);
		for (i = 0; i < ctx->seg->ports; i++)
			lids[i] = ctx->seg->port[i].lid;
		if (!seg_is_kept(ctx->seg, ctx->fabric_dir))
			lids_remove(ctx->fabric_dir, lids, ctx->seg->ports);
		close(ctx->seg_fd);
	}
	while ((peer = ctx->peers)) {
		ctx->peers = peer->next;
		if (peer->seg != ctx->seg)
			munmap(peer->seg, SEG_SIZE);
		free(peer);
	}
	munmap(ctx->seg, SEG_SIZE);
	ctx->seg = NULL;
}

static struct hca_peer *peer_known(struct hca_context *ctx, uint32_t lid, bool remains)
{
	struct hca_peer *peer;

	for (peer = ctx->peers; peer; peer = peer->next)
		if (peer->lid == lid && (remains || seg_alive(peer->seg)))
			return peer;
	return NULL;
}

static bool lid_is_own(const struct hca_context *ctx, uint32_t lid)
{
	uint32_t i;

	for (i = 0; i < ctx->seg->ports; i++)
		if (ctx->seg->port[i].lid == lid)
			return true;
	return false;
}

static struct hca_peer *peer_find(struct hca_context *ctx, uint32_t lid, bool remains)
{
	struct hca_peer *peer;
	struct seg *seg;

	pthread_rwlock_rdlock(&ctx->peers_lock);
	peer = peer_known(ctx, lid, remains);
	pthread_rwlock_unlock(&ctx->peers_lock);
	if (peer)
		return peer;

	pthread_rwlock_wrlock(&ctx->peers_lock);
	/*
	 * Mappings of peers that are gone stay until the context is closed: another thread may be in the middle of
	 * finding out.
	 */
	peer = peer_known(ctx, lid, remains);
	if (peer)
		seg = NULL;
	else if (lid_is_own(ctx, lid))
		seg = ctx->seg;
	else
		seg = (remains ? seg_attach_remains : seg_attach)(ctx->fabric_dir, lid);
	if (seg && seg->pidns != ctx->seg->pidns) {
		static int said;

		if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
			fprintf(stderr, "shadow-hca: lid %u is in another pid namespace and cannot be reached\n", lid);
		munmap(seg, SEG_SIZE);
		seg = NULL;
	}
	if (seg) {
		peer = calloc(1, sizeof(*peer));
		if (peer) {
			peer->seg = seg;
			peer->lid = lid;
			peer->next = ctx->peers;
			ctx->peers = peer;
		} else if (seg != ctx->seg) {
			munmap(seg, SEG_SIZE);
		}
	}
	pthread_rwlock_unlock(&ctx->peers_lock);
	return peer;
}

struct hca_peer *fabric_peer(struct hca_context *ctx, uint32_t lid)
{
	return peer_find(ctx, lid, false);
}

struct hca_peer *fabric_peer_or_remains(struct hca_context *ctx, uint32_t lid)
{
	struct hca_peer *peer = fabric_peer(ctx, lid);

	return peer ? peer : peer_find(ctx, lid, true);
}

struct seg_qp *fabric_find_qp(struct seg *seg, uint32_t qpn, uint32_t *index, uint32_t *gen)
{
	uint32_t i, max = seg_load(&seg->max_qp);

	for (i = 0; i < max; i++) {
		struct seg_qp *qp = &seg->qp[i];

		if (seg_load(&qp->in_use) && qp->qp_num == qpn) {
			*index = i;
			*gen = seg_load(&qp->gen);
			return qp;
		}
	}
	return NULL;
}

static void each(struct hca_context *ctx, struct hca_peer *(*find)(struct hca_context *ctx, uint32_t lid),
		 void (*visit)(struct hca_context *ctx, struct seg *seg, void *arg), void *arg)
{
	DIR *d = opendir(ctx->fabric_dir);
	struct dirent *e;
	unsigned int lid;

	if (!d)
		return;
	while ((e = readdir(d))) {
		struct hca_peer *peer;

		if (sscanf(e->d_name, "lid-%x", &lid) != 1)
			continue;
		peer = find(ctx, lid);
		/* A segment is found once for each of its ports. */
		if (peer && peer->seg->lid == lid && !seg_load(&peer->seg->fatal))
			visit(ctx, peer->seg, arg);
	}
	closedir(d);
}

void fabric_each(struct hca_context *ctx, void (*visit)(struct hca_context *ctx, struct seg *seg, void *arg), void *arg)
{
	each(ctx, fabric_peer, visit, arg);
}

void fabric_each_or_remains(struct hca_context *ctx, void (*visit)(struct hca_context *ctx, struct seg *seg, void *arg),
			    void *arg)
{
	each(ctx, fabric_peer_or_remains, visit, arg);
}
