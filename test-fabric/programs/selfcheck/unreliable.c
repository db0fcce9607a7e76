#include "unreliable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../common/die.h"
#include "../common/extended.h"
#include "../common/route.h"
#include "agree.h"

#define SENDS 16			/* of one queue pair */
#define SIGNALED_EVERY 4
#define RECEIVES 64
#define ROUTE ((uint32_t)ROUTE_SIZE)
#define LONGEST_DATAGRAM 1000		/* with the least MTU of use */
#define LONGEST 6000
#define STRIDE 6144			/* of a buffer: a route, a message, a guard */
#define WINDOW 4096			/* numbers in which a second arrival is told from a late one */
#define LOST_RECENTLY 256		/* numbers on both sides of the next one: what may have been lost of late */
#define PACE_NS 500000ULL
#define TO_ALL 0xff			/* the receiver of what goes to the group */
#define GROUP_LID 0xc000

struct head {
	uint32_t check;			/* of all that follows */
	uint32_t length;		/* with this head */
	uint64_t number;		/* of this sender's messages of that kind to this receiver */
	uint8_t kind, from, to;
	uint8_t ending;			/* sent after the stop */
	uint32_t zero;
};

struct stream {
	struct ibv_qp *qp;
	struct qp_address own;
	unsigned char *memory;		/* SENDS buffers, then RECEIVES */
	struct ibv_mr *mr;
	uint64_t posted, retired;
};

/* What came from one rank over one stream. */
struct arrivals {
	uint64_t next;			/* all that have arrived are below */
	uint64_t bits[WINDOW / 64];	/* of the last WINDOW numbers */
	bool ended;
};

struct unreliable {
	struct ibv_cq *send_cq, *receive_cq;
	struct stream streams[STREAM_UC + MAX_RANKS];	/* one for datagrams, one for the group, of UC one for each peer */
	struct ibv_ah *handles[MAX_RANKS], *group_handle;
	uint32_t remote_qps[MAX_RANKS];
	union ibv_gid gids[MAX_RANKS];
	uint64_t numbers[STREAM_KINDS][MAX_RANKS];	/* the next to each peer; to the group it is the first */
	struct arrivals arrivals[STREAM_KINDS][MAX_RANKS];
	union ibv_gid group;
	uint16_t group_lid;
	bool joined;
	uint64_t next_ns;
	uint64_t sent, arrived;
	uint64_t heard, told;			/* bit for each peer: has told that it heard, was told so */
};

static bool asked_for(const struct job *job, int kind)
{
	return job->settings.unreliable & 1U << kind;
}

static uint32_t head_sum(const struct head *head)
{
	uint64_t who = (uint64_t)head->kind << 24 | head->from << 16 | head->to << 8 | head->ending;

	return mix64_two(mix64_two(who, head->length), head->number);
}

static uint64_t body(const struct job *job, const struct head *head)
{
	return pattern_base(&job->settings, PATTERN_UNRELIABLE, head->from, head->to, head->kind, head->number);
}

static unsigned char *send_buffer(struct stream *stream, uint64_t index)
{
	return stream->memory + index % SENDS * STRIDE;
}

static unsigned char *receive_slot(struct stream *stream, uint32_t slot)
{
	return stream->memory + (SENDS + slot) * STRIDE;
}

static void receive_post(struct stream *stream, int which, uint32_t slot)
{
	struct ibv_sge sge = { .addr = (uintptr_t)receive_slot(stream, slot), .length = ROUTE + LONGEST,
			       .lkey = stream->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = (uint64_t)which << 48 | slot, .sg_list = &sge, .num_sge = 1 };
	int err = ibv_post_recv(stream->qp, &wr, &bad);

	if (err)
		die(err, "ibv_post_recv for messages that may be lost");
}

static void stream_create(struct job *job, int which)
{
	struct unreliable *u = job->unreliable;
	struct stream *stream = &u->streams[which];
	struct ibv_qp_init_attr init = {
		.send_cq = u->send_cq,
		.recv_cq = u->receive_cq,
		.cap = { .max_send_wr = SENDS, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = which < STREAM_UC ? IBV_QPT_UD : IBV_QPT_UC,
	};
	size_t size = (SENDS + RECEIVES) * STRIDE;

	stream->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stream->memory == MAP_FAILED)
		die(errno, "mmap of %zu bytes", size);
	memset(stream->memory, POISON, size);
	stream->mr = endpoint_register(&job->endpoint, stream->memory, size, ACCESS_NOTHING_REMOTE);
	stream->qp = job->way->create_qp(job->endpoint.pd, &init);
	if (!stream->qp)
		die(errno, "a queue pair of %s", which < STREAM_UC ? "UD" : "UC");
	qp_initialize(&job->endpoint, stream->qp, ACCESS_NOTHING_REMOTE, &stream->own);
	for (uint32_t slot = 0; slot < RECEIVES; slot++)
		receive_post(stream, which, slot);
}

static struct ibv_cq *create_cq(struct job *job, int entries)
{
	struct ibv_cq *cq = job->way->create_cq(job->endpoint.context, entries, NULL, NULL);

	if (!cq)
		die(errno, "a completion queue of %d entries", entries);
	return cq;
}

static void set_joined(struct job *job, bool joined)
{
	struct unreliable *u = job->unreliable;
	int err = (joined ? ibv_attach_mcast : ibv_detach_mcast)(u->streams[STREAM_GROUP].qp, &u->group, u->group_lid);

	if (err)
		die(err, joined ? "ibv_attach_mcast" : "ibv_detach_mcast");
	u->joined = joined;
}

/* Of this job alone: `number` is that of a queue pair of rank 0. */
static void set_group(struct job *job, uint32_t number)
{
	struct unreliable *u = job->unreliable;

	u->group = (union ibv_gid){ .raw = { 0xff, 0x0e, [12] = number >> 24, number >> 16, number >> 8, number } };
	u->group_lid = GROUP_LID | (number & 0xfff);
	u->group_handle = endpoint_create_ah(&job->endpoint, &u->group, u->group_lid, true);
	set_joined(job, true);
}

void unreliable_create(struct job *job)
{
	struct unreliable *u;
	int ranks = job->settings.ranks;

	if (!job->settings.unreliable)
		return;
	u = job->unreliable = calloc(1, sizeof(*u));
	if (!u)
		die(ENOMEM, "messages that may be lost");
	u->send_cq = create_cq(job, (STREAM_UC + ranks) * SENDS);
	u->receive_cq = create_cq(job, (STREAM_UC + ranks) * RECEIVES);
	for (int kind = STREAM_DATAGRAM; kind <= STREAM_GROUP; kind++) {
		if (!asked_for(job, kind))
			continue;
		stream_create(job, kind);
		qp_connect(&job->endpoint, u->streams[kind].qp, &u->streams[kind].own, &u->streams[kind].own, &qp_patient);
	}
	for (int peer = 0; peer < ranks; peer++)
		if (asked_for(job, STREAM_UC) && peer != job->rank)
			stream_create(job, STREAM_UC + peer);
	if (asked_for(job, STREAM_GROUP) && job->rank == 0)
		set_group(job, u->streams[STREAM_GROUP].own.qp_num);
}

void unreliable_card_fill(struct job *job, int peer, struct unreliable_card *card)
{
	struct unreliable *u = job->unreliable;

	if (!u)
		return;
	card->gid = job->endpoint.gid;
	card->uc = u->streams[STREAM_UC + peer].own;
	card->datagram = u->streams[STREAM_DATAGRAM].own;
	card->group = u->streams[STREAM_GROUP].own.qp_num;
}

/* Where the port has a lid, half of the datagrams do without a route. */
static bool with_route(const struct job *job, int peer)
{
	return (job->rank ^ peer) & 1;
}

void unreliable_connect(struct job *job, int peer, const struct unreliable_card *card)
{
	struct unreliable *u = job->unreliable;
	const struct qp_address *to = &card->datagram;

	if (!u)
		return;
	u->gids[peer] = card->gid;
	if (asked_for(job, STREAM_UC)) {
		struct stream *stream = &u->streams[STREAM_UC + peer];

		qp_connect(&job->endpoint, stream->qp, &stream->own, &card->uc, &qp_patient);
	}
	if (asked_for(job, STREAM_DATAGRAM)) {
		u->handles[peer] = endpoint_create_ah(&job->endpoint, &to->gid, to->lid, job->endpoint.with_gid || with_route(job, peer));
		u->remote_qps[peer] = to->qp_num;
	}
	if (asked_for(job, STREAM_GROUP) && peer == 0)
		set_group(job, card->group);
}

static void stream_destroy(struct stream *stream)
{
	if (!stream->qp)
		return;
	qp_destroy(stream->qp);
	mr_deregister(stream->mr);
	munmap(stream->memory, (SENDS + RECEIVES) * STRIDE);
}

void unreliable_destroy(struct job *job)
{
	struct unreliable *u = job->unreliable;

	if (!u)
		return;
	if (u->joined)
		set_joined(job, false);
	for (int which = 0; which < STREAM_UC + MAX_RANKS; which++)
		stream_destroy(&u->streams[which]);
	for (int peer = 0; peer < MAX_RANKS; peer++)
		if (u->handles[peer])
			ah_destroy(u->handles[peer]);
	if (u->group_handle)
		ah_destroy(u->group_handle);
	cq_destroy(u->send_cq);
	cq_destroy(u->receive_cq);
	free(u);
	job->unreliable = NULL;
}

void unreliable_churn(struct job *job)
{
	if (!job->unreliable || !job->unreliable->joined)
		return;
	set_joined(job, false);
	set_joined(job, true);
}

/* False if the number has arrived before, or is older than anybody remembers. */
static bool is_new(struct arrivals *arrivals, uint64_t number)
{
	uint64_t *word = &arrivals->bits[number % WINDOW / 64], bit = 1ULL << number % 64;

	if (number < arrivals->next) {
		if (arrivals->next - number > WINDOW || *word & bit)
			return false;
	} else {
		for (uint64_t n = arrivals->next; n <= number && n < arrivals->next + WINDOW; n++)
			arrivals->bits[n % WINDOW / 64] &= ~(1ULL << n % 64);
		arrivals->next = number + 1;
	}
	*word |= bit;
	return true;
}

static bool has_arrived(const struct arrivals *arrivals, uint64_t number)
{
	return number < arrivals->next && arrivals->bits[number % WINDOW / 64] & 1ULL << number % 64;
}

/* Whether a message has left these bytes, which would begin so far behind its head, and poison follows it. */
static bool is_left_of(struct job *job, const struct head *lost, const unsigned char *rest, uint32_t offset)
{
	unsigned char expected[GUARD + 8];
	uint32_t part = offset % 8, same = 0;

	pattern_fill(expected, sizeof(expected), body(job, lost), offset - part);
	while (same < GUARD && rest[same] == expected[part + same])
		same++;
	return same && is_poison(rest + same, GUARD - same);
}

/*
 * Whether what follows a message is of a longer one that was lost. A device may write a message and lose it: the packets that
 * follow are dropped, or the process is restarted from an image that was made before the completion. Its receive then takes
 * another message. Behind what a receive may take nobody writes.
 */
static bool is_left_by_a_lost_one(struct job *job, int which, const struct head *head, const unsigned char *memory)
{
	for (int from = 0; from < job->settings.ranks; from++) {
		const struct arrivals *arrivals = &job->unreliable->arrivals[head->kind][from];
		struct head lost = { .kind = head->kind, .from = from, .to = head->to };
		uint64_t first = arrivals->next > LOST_RECENTLY ? arrivals->next - LOST_RECENTLY : 0;

		if (which >= STREAM_UC && from != head->from)
			continue;
		for (lost.number = first; lost.number < arrivals->next + LOST_RECENTLY; lost.number++)
			if (!has_arrived(arrivals, lost.number) &&
			    is_left_of(job, &lost, memory + head->length, head->length - sizeof(*head)))
				return is_poison(memory + LONGEST, GUARD);
	}
	return false;
}

/* Whether the head is one of a message that was sent to this rank over that stream. */
static bool is_meant(struct job *job, int which, const struct head *head)
{
	int kind = which < STREAM_UC ? which : STREAM_UC;

	return head->check == head_sum(head) && !head->zero && head->kind == kind && head->from < job->settings.ranks &&
	       head->to == (kind == STREAM_GROUP ? TO_ALL : job->rank) && (kind != STREAM_UC || head->from == which - STREAM_UC);
}

/* In front of a datagram are the GIDs that its sender and this rank have had from the beginning. */
static void check_route(struct job *job, int which, const unsigned char *route, const struct head *head)
{
	const struct unreliable *u = job->unreliable;

	if (!route_says(route, &u->gids[head->from], which == STREAM_GROUP ? &u->group : &job->endpoint.gid))
		tally_found(&job->tally, FOUND_UNEXPECTED, 1, "other GIDs in the route header of datagram %lu of rank %u over "
			    "stream %d", head->number, head->from, which);
}

/* route: the header in front of it, or NULL. */
static void check_message(struct job *job, int which, const unsigned char *route, unsigned char *memory, uint32_t length)
{
	struct unreliable *u = job->unreliable;
	struct arrivals *arrivals;
	struct head head;

	memcpy(&head, memory, sizeof(head));
	if (length < sizeof(head) || !is_meant(job, which, &head) || head.length != length ||
	    !pattern_matches(memory + sizeof(head), length - sizeof(head), body(job, &head), 0) ||
	    (!is_poison(memory + length, GUARD) && !is_left_by_a_lost_one(job, which, &head, memory))) {
		tally_found(&job->tally, FOUND_DAMAGED, 1, "unreliable message of %u bytes over stream %d, perhaps number %lu "
			    "of rank %u", length, which, head.number, head.from);
		return;
	}
	arrivals = &u->arrivals[head.kind][head.from];
	if (!is_new(arrivals, head.number)) {
		tally_found(&job->tally, FOUND_DOUBLED, 1, "unreliable message %lu of rank %u, kind %u, when %lu was due",
			    head.number, head.from, head.kind, arrivals->next);
		return;
	}
	/* The group may also bring what this rank has sent itself. */
	if (head.from == job->rank)
		return;
	if (route)
		check_route(job, which, route, &head);
	tally_verified(&job->tally, 1);
	u->arrived++;
	arrivals->ended = arrivals->ended || head.ending;
}

static struct stream *stream_of(struct job *job, const struct ibv_wc *wc, const char *what)
{
	uint64_t which = wc->wr_id >> 48;
	struct stream *stream = which < STREAM_UC + MAX_RANKS ? &job->unreliable->streams[which] : NULL;

	if (stream && stream->qp && wc->status == IBV_WC_SUCCESS && wc->qp_num == stream->own.qp_num)
		return stream;
	tally_found(&job->tally, FOUND_UNEXPECTED, 1, "unreliable %s %#lx, qp_num %#x: status '%s', vendor error %#x", what,
		    wc->wr_id, wc->qp_num, ibv_wc_status_str(wc->status), wc->vendor_err);
	return NULL;
}

static void receive_completed(struct job *job, const struct ibv_wc *wc)
{
	struct stream *stream = stream_of(job, wc, "receive");
	uint32_t which = wc->wr_id >> 48, slot = wc->wr_id & 0xffff, route = which < STREAM_UC ? ROUTE : 0;
	unsigned char *memory;

	if (!stream)
		return;
	memory = receive_slot(stream, slot);
	if (wc->byte_len < route || wc->byte_len > ROUTE + LONGEST)
		tally_found(&job->tally, FOUND_DAMAGED, 1, "unreliable message of %u bytes", wc->byte_len);
	else
		check_message(job, which, wc->wc_flags & IBV_WC_GRH ? memory : NULL, memory + route, wc->byte_len - route);
	memset(memory, POISON, STRIDE);
	receive_post(stream, which, slot);
}

static void send_completed(struct job *job, const struct ibv_wc *wc)
{
	struct stream *stream = stream_of(job, wc, "send");
	uint64_t index = wc->wr_id & 0xffffffffffffULL;

	if (!stream)
		return;
	if (index < stream->retired || index >= stream->posted || (index + 1) % SIGNALED_EVERY)
		tally_found(&job->tally, index < stream->retired ? FOUND_DOUBLED : FOUND_UNEXPECTED, 1,
			    "completion of unreliable send %lu of stream %lu, %lu to %lu are outstanding", index,
			    wc->wr_id >> 48, stream->retired, stream->posted);
	else if (index >= stream->retired + SIGNALED_EVERY)
		tally_found(&job->tally, FOUND_LOST, 1, "completions of unreliable sends before %lu of stream %lu", index,
			    wc->wr_id >> 48);
	stream->retired = index + 1;
}

static int poll_all(struct job *job, struct ibv_cq *cq, void (*completed)(struct job *, const struct ibv_wc *))
{
	int moved = 0, got;
	struct ibv_wc wc;

	while ((got = job->way->poll(cq, 1, &wc)) > 0) {
		completed(job, &wc);
		moved++;
	}
	if (got < 0)
		die(0, "ibv_poll_cq for messages that may be lost fails");
	return moved;
}

/* To a peer, or to TO_ALL. Returns 1 if there was room. */
static int send_one(struct job *job, int which, int to, bool ending)
{
	struct unreliable *u = job->unreliable;
	struct stream *stream = &u->streams[which];
	struct head head = { .kind = which < STREAM_UC ? which : STREAM_UC, .from = job->rank, .to = to, .ending = ending };
	unsigned char *memory = send_buffer(stream, stream->posted);
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .lkey = stream->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = (uint64_t)which << 48 | stream->posted, .sg_list = &sge, .num_sge = 1,
					.opcode = IBV_WR_SEND };
	int err;

	if (stream->posted - stream->retired == SENDS)
		return 0;
	head.number = u->numbers[head.kind][to == TO_ALL ? 0 : to]++;
	head.length = sizeof(head) + rng_below(&job->rng, (which < STREAM_UC ? LONGEST_DATAGRAM : LONGEST) - sizeof(head) + 1);
	head.check = head_sum(&head);
	memcpy(memory, &head, sizeof(head));
	pattern_fill(memory + sizeof(head), head.length - sizeof(head), body(job, &head), 0);
	sge.length = head.length;
	if (which == STREAM_DATAGRAM) {
		wr.wr.ud.ah = u->handles[to];
		wr.wr.ud.remote_qpn = u->remote_qps[to];
		wr.wr.ud.remote_qkey = ENDPOINT_QKEY;
	} else if (which == STREAM_GROUP) {
		wr.wr.ud.ah = u->group_handle;
		wr.wr.ud.remote_qpn = 0xffffff;
		wr.wr.ud.remote_qkey = ENDPOINT_QKEY;
	}
	stream->posted++;
	if (stream->posted % SIGNALED_EVERY == 0)
		wr.send_flags = IBV_SEND_SIGNALED;
	err = job->way->post(stream->qp, &wr, &bad);
	if (err)
		die(err, "ibv_post_send of a message that may be lost");
	u->sent += to == TO_ALL ? job->settings.ranks - 1 : 1;
	return 1;
}

static int send_all(struct job *job, bool ending)
{
	struct unreliable *u = job->unreliable;
	bool to_group = false;
	int posted = 0;

	for (int peer = 0; peer < job->settings.ranks; peer++) {
		if (peer == job->rank || u->heard & 1ULL << peer)
			continue;
		to_group = true;
		if (asked_for(job, STREAM_DATAGRAM))
			posted += send_one(job, STREAM_DATAGRAM, peer, ending);
		if (asked_for(job, STREAM_UC))
			posted += send_one(job, STREAM_UC + peer, peer, ending);
	}
	if (to_group && asked_for(job, STREAM_GROUP))
		posted += send_one(job, STREAM_GROUP, TO_ALL, ending);
	return posted;
}

/* Tells those peers of which the last was heard over all streams. */
static void tell(struct job *job)
{
	static const struct control heard = { .type = CONTROL_HEARD };
	struct unreliable *u = job->unreliable;

	for (int peer = 0; peer < job->settings.ranks; peer++) {
		bool all = peer != job->rank && !(u->told & 1ULL << peer);

		for (int kind = STREAM_DATAGRAM; kind < STREAM_KINDS; kind++)
			all = all && (!asked_for(job, kind) || u->arrivals[kind][peer].ended);
		if (!all)
			continue;
		outbox_put(job->connections[peer], &heard);
		u->told |= 1ULL << peer;
	}
}

int unreliable_step(struct job *job, bool ending)
{
	struct unreliable *u = job->unreliable;
	int moved;

	if (!u)
		return 0;
	moved = poll_all(job, u->receive_cq, receive_completed) + poll_all(job, u->send_cq, send_completed);
	tell(job);
	if (job->now_ns >= u->next_ns) {
		u->next_ns = job->now_ns + PACE_NS;
		moved += send_all(job, ending);
	}
	return moved;
}

void unreliable_heard(struct connection *connection)
{
	connection->job->unreliable->heard |= 1ULL << connection->peer;
}

bool unreliable_is_over(const struct connection *connection)
{
	const struct unreliable *u = connection->job->unreliable;

	return !u || u->heard & u->told & 1ULL << connection->peer;
}

void unreliable_totals(const struct job *job, struct totals *totals)
{
	totals->sent = job->unreliable ? job->unreliable->sent : 0;
	totals->arrived = job->unreliable ? job->unreliable->arrived : 0;
}
