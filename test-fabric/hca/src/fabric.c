/*
 * The fabric directory: one segment file for each open context of each process. Creation, the removal of what dead processes
 * left, and giving QPs their numbers happen under one lock of the directory, which ends with its holder. A file stays as long as
 * other processes have XRC receive QPs of it open. The contexts of one device have its ports in common, from the one that opens
 * it first to the one that closes it last.
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

#define LID_FIRST SEG_PORTS	/* of a device; those of its ports follow each other */
#define LID_LAST 0xbfff

static uint64_t namespace(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : st.st_ino;
}

static int directory_lock(const char *dir)
{
	uint64_t deadline = hca_now_ns() + 10000000000ULL;
	char path[448];
	int fd;

	snprintf(path, sizeof(path), "%s/lock", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
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
	struct seg *seg;
	char path[448];
	uint32_t id;
	bool needed;

	if (!d)
		return;
	while ((e = readdir(d))) {
		id = seg_id_of(e->d_name);
		if (!id)
			continue;
		seg = seg_attach_remains(dir, id);
		needed = seg && (seg_alive(seg) || seg_is_kept(seg, dir));
		if (seg)
			munmap(seg, SEG_SIZE);
		if (needed)
			continue;
		seg_path(dir, id, path);
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

/* The lids of all devices that there are, and the ports of ours when another context has it open. */
struct neighbours {
	uint64_t host;
	uint32_t device, ports;
	bool found;
	__be64 guid;
	struct seg_port port[SEG_PORTS];
	uint32_t used;
	uint32_t lids[1024];
};

/* Directory lock held, what nobody needs is removed. */
static void neighbours_look(const char *dir, struct neighbours *all)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	struct seg *seg;

	if (!d)
		return;
	while ((e = readdir(d))) {
		uint32_t id = seg_id_of(e->d_name);

		seg = id ? seg_attach_remains(dir, id) : NULL;
		if (!seg)
			continue;
		if (all->used < sizeof(all->lids) / sizeof(all->lids[0]))
			all->lids[all->used++] = seg->port[0].lid;
		if (seg->host == all->host && seg->device == all->device && seg->ports == all->ports && seg_alive(seg)) {
			all->found = true;
			all->guid = seg->guid;
			memcpy(all->port, seg->port, sizeof(all->port));
		}
		munmap(seg, SEG_SIZE);
	}
	closedir(d);
}

/* The lid of the first port of a new device: one that no other has. */
static uint32_t lid_draw(struct hca_context *ctx, const struct neighbours *all)
{
	uint32_t space = ctx->seg_settings.id_space, attempt, i, lid;
	uint32_t last = space && space < LID_LAST ? (space < 256 ? 256 : space) : LID_LAST;

	for (attempt = 0; attempt < 100000; attempt++) {
		lid = LID_FIRST + (ids_random(ctx) >> 11) % ((last - LID_FIRST) / SEG_PORTS) * SEG_PORTS;
		for (i = 0; i < all->used && all->lids[i] != lid; i++)
			;
		if (i == all->used)
			return lid;
	}
	return 0;
}

/* On Ethernet the address is that of a network card, as EUI-64, and its IPv4 address: their last bytes are the lid. */
static void port_init(struct hca_context *ctx, struct seg_port *port, uint32_t lid)
{
	static const uint8_t link_local[8] = { 0xfe, 0x80 };
	uint64_t guid = ids_random(ctx), prefix = ids_random(ctx);

	port->lid = lid;
	memcpy(port->gid[0].raw, link_local, 8);
	memcpy(port->gid[0].raw + 8, &guid, 8);
	if (!ctx->limits->ethernet) {
		memcpy(port->gid[1].raw, &prefix, 8);
		memcpy(port->gid[1].raw + 8, &guid, 8);
		return;
	}
	port->gid[0].raw[8] &= ~1;	/* not of a group */
	port->gid[0].raw[11] = 0xff;
	port->gid[0].raw[12] = 0xfe;
	port->gid[1].raw[10] = port->gid[1].raw[11] = 0xff;
	port->gid[1].raw[12] = 10;
	port->gid[1].raw[13] = port->gid[0].raw[13];
	port->gid[0].raw[14] = port->gid[1].raw[14] = lid >> 8;
	port->gid[0].raw[15] = port->gid[1].raw[15] = lid;
}

static int segment_init(struct hca_context *ctx, struct seg *seg, uint32_t id, struct neighbours *all)
{
	uint32_t lid = all->found ? all->port[0].lid : lid_draw(ctx, all), i;

	if (!lid) {
		errno = ENOSPC;
		return -1;
	}
	seg->size = SEG_SIZE;
	seg->pid = getpid();
	seg->pidns = namespace("/proc/self/ns/pid");
	seg->id = id;
	seg->host = all->host;
	seg->device = all->device;
	seg->ports = all->ports;
	seg->ethernet = ctx->limits->ethernet;
	seg->guid = all->found ? all->guid : ibv_get_device_guid(ctx->vctx.context.device);
	for (i = 0; i < seg->ports; i++)
		if (all->found)
			seg->port[i] = all->port[i];
		else
			port_init(ctx, &seg->port[i], lid + i);
	seg->settings = ctx->seg_settings;
	seg_lock_init(&seg->alive);
	seg_lock_init(&seg->atomics);
	seg_lock_init(&seg->mailbox.lock);
	seg_store(&seg->magic, SEG_MAGIC);
	return 0;
}

static struct neighbours neighbours_of(const struct hca_context *ctx)
{
	uint64_t host = namespace("/proc/self/ns/net") << 32 ^ namespace("/proc/self/ns/pid");

	return (struct neighbours){
		.host = ctx->seg_settings.own_lid ? (uint64_t)ids_context() << 32 | getpid() : host,
		.device = ((struct hca_device *)ctx->vctx.context.device)->index,
		.ports = port_count(ctx),
	};
}

static int fabric_open_null(struct hca_context *ctx)
{
	struct neighbours none = neighbours_of(ctx);

	/* What a command to it would be written to; there is none. */
	ctx->seg_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (ctx->seg_fd < 0)
		return -1;
	ctx->seg = mmap(NULL, SEG_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (ctx->seg == MAP_FAILED) {
		close(ctx->seg_fd);
		ctx->seg = NULL;
		return -1;
	}
	madvise(ctx->seg, SEG_SIZE, MADV_DONTDUMP);
	segment_init(ctx, ctx->seg, 1, &none);
	seg_store(&ctx->seg->state, SEG_LIVE);
	return 0;
}

/* A new file, under a number that no other has. */
static int context_create(const char *dir, uint32_t *id)
{
	char path[448];
	int fd;

	do {
		*id = ids_context();
		seg_path(dir, *id, path);
		fd = *id ? open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
	} while (fd < 0 && (!*id || errno == EEXIST));
	return fd;
}

static int fabric_create_locked(struct hca_context *ctx, const char *dir)
{
	struct neighbours all = neighbours_of(ctx);
	char path[448];
	uint32_t id;
	int fd;

	remove_stale(dir);
	neighbours_look(dir, &all);
	fd = context_create(dir, &id);
	if (fd < 0) {
		fprintf(stderr, "shadow-hca: cannot create a segment in %s: %s\n", dir, strerror(errno));
		return -1;
	}
	if (ftruncate(fd, SEG_SIZE) || !(ctx->seg = seg_map(fd)) || segment_init(ctx, ctx->seg, id, &all)) {
		fprintf(stderr, "shadow-hca: cannot map a segment in %s: %s\n", dir, strerror(errno));
		goto fail;
	}
	if (engine_start(ctx))
		goto fail;
	seg_store(&ctx->seg->state, SEG_LIVE);
	ctx->seg_fd = fd;
	return 0;

fail:
	if (ctx->seg)
		munmap(ctx->seg, SEG_SIZE);
	ctx->seg = NULL;
	seg_path(dir, id, path);
	unlink(path);
	close(fd);
	return -1;
}

int fabric_open(struct hca_context *ctx)
{
	struct stat st;
	char dir[400];
	int lock, ret;

	if (ctx->null_mode)
		return fabric_open_null(ctx);

	hca_fabric_path(dir, sizeof(dir));
	if (mkdir(dir, 0700) && errno != EEXIST) {
		fprintf(stderr, "shadow-hca: cannot create the fabric directory %s: %s\n", dir, strerror(errno));
		return -1;
	}
	/* Its name can be guessed, and what it holds is memory of the processes that use it. */
	if (lstat(dir, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid()) {
		fprintf(stderr, "shadow-hca: the fabric directory %s belongs to another user\n", dir);
		errno = EACCES;
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
		char path[448];

		engine_stop(ctx);
		seg_path(ctx->fabric_dir, ctx->seg->id, path);
		if (!context_is_lost(ctx) && !seg_is_kept(ctx->seg, ctx->fabric_dir))
			unlink(path);
	}
	close(ctx->seg_fd);
	while ((peer = ctx->peers)) {
		ctx->peers = peer->next;
		if (peer->seg != ctx->seg)
			munmap(peer->seg, SEG_SIZE);
		free(peer);
	}
	munmap(ctx->seg, SEG_SIZE);
	ctx->seg = NULL;
}

static struct hca_peer *peer_known(struct hca_context *ctx, uint32_t id, bool remains)
{
	struct hca_peer *peer;

	for (peer = ctx->peers; peer; peer = peer->next)
		if (peer->id == id && (remains || seg_alive(peer->seg)))
			return peer;
	return NULL;
}

static struct hca_peer *peer_find(struct hca_context *ctx, uint32_t id, bool remains)
{
	struct hca_peer *peer;
	struct seg *seg;

	pthread_rwlock_rdlock(&ctx->peers_lock);
	peer = peer_known(ctx, id, remains);
	pthread_rwlock_unlock(&ctx->peers_lock);
	if (peer)
		return peer;

	pthread_rwlock_wrlock(&ctx->peers_lock);
	/*
	 * Mappings of peers that are gone stay until the context is closed: another thread may be in the middle of
	 * finding out.
	 */
	peer = peer_known(ctx, id, remains);
	if (peer)
		seg = NULL;
	else if (id == ctx->seg->id)
		seg = ctx->seg;
	else
		seg = (remains ? seg_attach_remains : seg_attach)(ctx->fabric_dir, id);
	/* Its memory cannot be reached. */
	if (seg && seg->pidns != ctx->seg->pidns) {
		munmap(seg, SEG_SIZE);
		seg = NULL;
	}
	if (seg) {
		peer = calloc(1, sizeof(*peer));
		if (peer) {
			peer->seg = seg;
			peer->id = id;
			peer->next = ctx->peers;
			ctx->peers = peer;
		} else if (seg != ctx->seg) {
			munmap(seg, SEG_SIZE);
		}
	}
	pthread_rwlock_unlock(&ctx->peers_lock);
	return peer;
}

struct hca_peer *fabric_peer(struct hca_context *ctx, uint32_t id)
{
	return peer_find(ctx, id, false);
}

struct hca_peer *fabric_peer_or_remains(struct hca_context *ctx, uint32_t id)
{
	struct hca_peer *peer = fabric_peer(ctx, id);

	return peer ? peer : peer_find(ctx, id, true);
}

static bool find_in(struct hca_peer *peer, uint32_t lid, uint32_t qpn, struct destination *found)
{
	struct seg *seg = peer->seg;
	uint32_t i, max = seg_load(&seg->max_qp);

	if (!seg_has_lid(seg, lid))
		return false;
	for (i = 0; i < max; i++) {
		struct seg_qp *qp = &seg->qp[i];

		if (seg_load(&qp->in_use) && qp->qp_num == qpn) {
			*found = (struct destination){ .peer = peer, .qp = qp, .index = i, .gen = seg_load(&qp->gen) };
			return true;
		}
	}
	return false;
}

typedef struct hca_peer *peer_finder(struct hca_context *ctx, uint32_t id);

/* Calls @visit for each context of the directory, until it returns true. */
static bool each_until(struct hca_context *ctx, peer_finder *find, bool (*visit)(struct hca_peer *peer, void *arg), void *arg)
{
	DIR *d = opendir(ctx->fabric_dir);
	struct dirent *e;
	bool done = false;

	while (d && !done && (e = readdir(d))) {
		uint32_t id = seg_id_of(e->d_name);
		struct hca_peer *peer = id ? find(ctx, id) : NULL;

		done = peer && visit(peer, arg);
	}
	if (d)
		closedir(d);
	return done;
}

struct search {
	uint32_t lid, number;
	struct destination *found;
};

static bool search_in(struct hca_peer *peer, void *arg)
{
	const struct search *search = arg;

	return find_in(peer, search->lid, search->number, search->found);
}

/* A device of that lid is there, but in another pid namespace: said once. */
static void say_unreachable(struct hca_context *ctx, uint32_t lid)
{
	static int said;
	DIR *d = __atomic_load_n(&said, __ATOMIC_RELAXED) ? NULL : opendir(ctx->fabric_dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		uint32_t id = seg_id_of(e->d_name);
		struct seg *seg = id ? seg_attach(ctx->fabric_dir, id) : NULL;

		if (seg && seg->pidns != ctx->seg->pidns && seg_has_lid(seg, lid) &&
		    !__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
			fprintf(stderr, "shadow-hca: lid %u is in another pid namespace and cannot be reached\n", lid);
		if (seg)
			munmap(seg, SEG_SIZE);
	}
	if (d)
		closedir(d);
}

bool fabric_find(struct hca_context *ctx, uint32_t lid, uint32_t qpn, bool remains, struct destination *found)
{
	struct search search = { .lid = lid, .number = qpn, .found = found };
	struct hca_peer *peer;
	bool known = false;

	/* Most peers were met before. */
	pthread_rwlock_rdlock(&ctx->peers_lock);
	for (peer = ctx->peers; peer && !known; peer = peer->next)
		known = seg_alive(peer->seg) && find_in(peer, lid, qpn, found);
	pthread_rwlock_unlock(&ctx->peers_lock);
	if (known || each_until(ctx, remains ? fabric_peer_or_remains : fabric_peer, search_in, &search))
		return true;
	say_unreachable(ctx, lid);
	return false;
}

int fabric_numbers_lock(struct hca_context *ctx)
{
	/* In the null mode there is nobody else, and 0 no descriptor of ours. */
	return ctx->null_mode ? 0 : directory_lock(ctx->fabric_dir);
}

void fabric_numbers_unlock(int lock)
{
	if (lock)
		close(lock);
}

bool fabric_number_is_taken(struct hca_context *ctx, uint32_t qpn)
{
	struct hca_peer own = { .seg = ctx->seg };
	struct destination found;
	struct search search = { .lid = ctx->seg->port[0].lid, .number = qpn, .found = &found };

	return find_in(&own, search.lid, qpn, &found) ||
	       (!ctx->null_mode && each_until(ctx, fabric_peer_or_remains, search_in, &search));
}

static bool search_srq_in(struct hca_peer *peer, void *arg)
{
	const struct search *search = arg;
	struct seg *seg = peer->seg;
	uint32_t i, max = seg_load(&seg->max_srq);

	for (i = 0; seg_has_lid(seg, search->lid) && i < max; i++)
		if (seg_load(&seg->srq[i].in_use) && seg->srq[i].srq_num == search->number)
			return true;
	return false;
}

bool fabric_srq_number_is_taken(struct hca_context *ctx, uint32_t number)
{
	struct search search = { .lid = ctx->seg->port[0].lid, .number = number };
	struct hca_peer own = { .seg = ctx->seg };

	return search_srq_in(&own, &search) ||
	       (!ctx->null_mode && each_until(ctx, fabric_peer_or_remains, search_srq_in, &search));
}

/* 32 random bits are another number every time. */
static bool keys_are_few(const struct hca_context *ctx)
{
	return !ctx->null_mode && (ctx->personality != PERSONALITY_STRICT || ctx->seg->settings.id_space);
}

int fabric_keys_lock(struct hca_context *ctx)
{
	return keys_are_few(ctx) ? fabric_numbers_lock(ctx) : 0;
}

struct key_search {
	struct hca_context *ctx;
	uint32_t first, count;
};

static bool search_key_in(struct hca_peer *peer, void *arg)
{
	const struct key_search *search = arg;
	uint32_t i;

	if (peer->seg == search->ctx->seg || !seg_has_lid(peer->seg, search->ctx->seg->port[0].lid))
		return false;
	for (i = 0; i < search->count; i++)
		if (mr_find(peer->seg, search->first + i, true) || mr_find(peer->seg, search->first + i, false))
			return true;
	return false;
}

bool fabric_keys_are_taken(struct hca_context *ctx, uint32_t first, uint32_t count)
{
	struct key_search search = { .ctx = ctx, .first = first, .count = count };

	return keys_are_few(ctx) && each_until(ctx, fabric_peer, search_key_in, &search);
}

struct visitor {
	struct hca_context *ctx;
	void (*visit)(struct hca_context *ctx, struct seg *seg, void *arg);
	void *arg;
};

static bool visit_one(struct hca_peer *peer, void *arg)
{
	const struct visitor *visitor = arg;

	if (!seg_load(&peer->seg->fatal))
		visitor->visit(visitor->ctx, peer->seg, visitor->arg);
	return false;
}

void fabric_each(struct hca_context *ctx, void (*visit)(struct hca_context *ctx, struct seg *seg, void *arg), void *arg)
{
	each_until(ctx, fabric_peer, visit_one, &(struct visitor){ .ctx = ctx, .visit = visit, .arg = arg });
}

void fabric_each_or_remains(struct hca_context *ctx, void (*visit)(struct hca_context *ctx, struct seg *seg, void *arg),
			    void *arg)
{
	each_until(ctx, fabric_peer_or_remains, visit_one, &(struct visitor){ .ctx = ctx, .visit = visit, .arg = arg });
}
