/* SPDX-License-Identifier: Apache-2.0 */
/* The route header in front of a datagram says the GIDs that the application knows, wherever the receive has put it. */
#include "test.h"

#include <endian.h>
#include <netinet/ip.h>

static const struct shape shape = { .send_wr = 8, .recv_wr = 8, .sge = 1, .payload = 0 };

#define SCRAMBLED (!strcmp(getenv("SHADOWVERBS_IDS"), "scrambled"))
#define NUMBER_MASK (SCRAMBLED ? 0x5a5a5au : 0)
#define LID_MASK (SCRAMBLED ? 0x0ff0u : 0)
#define GID_MASK (SCRAMBLED ? 0x0012345600780000ull : 0)

#define LINK_LOCAL 0xfe80000000000000ull
#define GROUP 0xff0e000000000000ull
#define MAPPED 0xffff00000000ull
#define ADDRESS(n) (MAPPED | 0x0a000000 | (n))
#define IPV4_GROUP (MAPPED | 0xe0000001)

#define HEADER 40
#define MESSAGE 64

struct gid {
	uint64_t prefix, interface_id;
};

static struct gid masked(struct gid gid)
{
	gid.interface_id ^= GID_MASK;
	return gid;
}

/* ---- Headers ---------------------------------------------------------------------------------------------------- */

static void put_gid(unsigned char *at, struct gid gid)
{
	uint64_t raw[2] = { htobe64(gid.prefix), htobe64(gid.interface_id) };

	memcpy(at, raw, sizeof(raw));
}

static struct gid get_gid(const unsigned char *at)
{
	uint64_t raw[2];

	memcpy(raw, at, sizeof(raw));
	return (struct gid){ be64toh(raw[0]), be64toh(raw[1]) };
}

static void make_v6(unsigned char *header, struct gid from, struct gid to)
{
	static const unsigned char start[8] = { 0x62, 0x31, 0x23, 0x45, 0, 48, 0x1b, 9 };

	memcpy(header, start, sizeof(start));
	put_gid(header + 8, from);
	put_gid(header + 24, to);
}

static uint16_t checksum(const unsigned char *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += i == 10 ? 0 : ip[i] << 8 | ip[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* In front of it is what devices leave there: `garbage`. */
static void make_v4(unsigned char *header, uint32_t from, uint32_t to, unsigned char garbage)
{
	struct iphdr ip = {
		.version = 4, .ihl = 5, .tos = 0x12, .tot_len = htobe16(76), .ttl = 9, .protocol = 17,
		.saddr = htobe32(from), .daddr = htobe32(to),
	};

	memset(header, garbage, 20);
	memcpy(header + 20, &ip, sizeof(ip));
	ip.check = htobe16(checksum(header + 20));
	memcpy(header + 20, &ip, sizeof(ip));
}

static void expect_v6(const unsigned char *header, struct gid from, struct gid to)
{
	struct gid sgid = get_gid(header + 8), dgid = get_gid(header + 24);

	CHECK_EQUAL(header[0] >> 4, 6);
	CHECK_EQUAL(sgid.prefix, from.prefix);
	CHECK_EQUAL(sgid.interface_id, from.interface_id);
	CHECK_EQUAL(dgid.prefix, to.prefix);
	CHECK_EQUAL(dgid.interface_id, to.interface_id);
}

/* As ibv_init_ah_from_wc recognizes it. */
static void expect_v4(const unsigned char *header, uint32_t from, uint32_t to)
{
	struct iphdr ip;

	memcpy(&ip, header + 20, sizeof(ip));
	CHECK_EQUAL(ip.version, 4);
	CHECK_EQUAL(ip.ihl, 5);
	CHECK_EQUAL(be16toh(ip.check), checksum(header + 20));
	CHECK_EQUAL(be16toh(ip.tot_len), 76);
	CHECK_EQUAL(ip.ttl, 9);
	CHECK_EQUAL(be32toh(ip.saddr), from);
	CHECK_EQUAL(be32toh(ip.daddr), to);
}

/* ---- A queue pair, and who sends to it --------------------------------------------------------------------------- */

#define OWN 1
#define NEAR 2				/* a port of two processes, A and B */
#define FAR 3				/* another, with a queue pair of the same number */

static const struct gid own_now = { LINK_LOCAL, 0x11 }, own = { LINK_LOCAL, 0x1 };
static const struct gid near_now = { LINK_LOCAL, 0x22 }, a = { LINK_LOCAL, 0x2 }, b = { LINK_LOCAL, 0x3 };
static const struct gid far_now = { LINK_LOCAL, 0x33 }, far = { LINK_LOCAL, 0x4 };
static const struct gid own4_now = { 0, ADDRESS(11) }, own4 = { 0, ADDRESS(1) };
static const struct gid near4_now = { 0, ADDRESS(22) }, a4 = { 0, ADDRESS(2) };
static const struct gid group = { GROUP, 5 }, stranger = { LINK_LOCAL, 0x77 };

#define NAME(gid, v4) { (gid).prefix, (gid).interface_id, v4 }

static struct sv_routes *make_routes(void)
{
	/* Names of the port's two GIDs, of this process and of the senders A, B and that of the other port. */
	const struct sv_route_name names[] = {
		NAME(own, 0), NAME(own4, 1), NAME(a, 0), NAME(a4, 1), NAME(b, 0), NAME(b, 0), NAME(far, 0), NAME(own4, 1),
		NAME(own, 0),
	};
	const struct sv_route routes[] = {
		{ own_now.prefix, own_now.interface_id, OWN, 0, 1 },
		{ own4_now.prefix, own4_now.interface_id, OWN, 1, 2 },
		{ near_now.prefix, near_now.interface_id, NEAR, 0, 0 },
		{ near4_now.prefix, near4_now.interface_id, NEAR, 1, 0 },
		{ far_now.prefix, far_now.interface_id, FAR, 0, 0 },
		/* Two that change their kind: of this context, in both roles. */
		{ LINK_LOCAL, 0x44, OWN, 7, 8 },
		{ 0, ADDRESS(44), OWN, 8, 9 },
	};

	return sv_routes_new(routes, 7, names, 9);
}

#define VALUE(names, lid, number) ((uint64_t)(names) << 40 | (uint64_t)(lid) << 24 | (number))
#define BY_ROUTE(port, number) ((uint64_t)1 << 56 | (uint64_t)(port) << 24 | (number))
#define OWN_BY_ROUTE(port) ((uint64_t)3 << 56 | (uint64_t)(port) << 24)
#define OWN_BY_LID(lid) ((uint64_t)2 << 56 | (uint64_t)(lid) << 24)
#define BY_LID(lid, number) ((uint64_t)1 << 40 | (uint64_t)(lid) << 24 | (number))

static struct sv_idmap *make_sources(void)
{
	const uint64_t keys[] = {
		BY_ROUTE(OWN, 0), BY_ROUTE(NEAR, 0), BY_ROUTE(NEAR, 0xa0), BY_ROUTE(NEAR, 0xb0), BY_ROUTE(FAR, 0), BY_ROUTE(FAR, 0xa0),
		BY_LID(9, 0xa0), OWN_BY_ROUTE(NEAR), BY_LID(9, 0), OWN_BY_LID(9),
	};
	const uint64_t values[] = {
		VALUE(0, 0, 0), VALUE(2, 0x12, 0), VALUE(2, 0x12, 0x1a), VALUE(4, 0x13, 0x1b), VALUE(6, 0, 0), VALUE(6, 0, 0x1c),
		VALUE(0, 0x99, 0x1d), VALUE(0, 0x11, 0), VALUE(0, 0x99, 0), VALUE(0, 0x98, 0),
	};

	return sv_idmap_new(keys, values, 10);
}

struct listener {
	struct fixture *f;
	struct ibv_srq *srq;		/* or NULL */
	struct ibv_qp *qp;
	struct sv_routes *routes;
	struct sv_idmap *sources;
	unsigned posted;
	unsigned char *buffer;
};

static struct listener listen_with(bool shared)
{
	struct listener l = { .f = open_fixture(shape) };
	struct ibv_srq_init_attr srq = { .attr = { 4, 4, 0 } };
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 4, 0 }, .qp_type = IBV_QPT_UD };

	l.srq = shared ? ibv_create_srq(l.f->pd, &srq) : NULL;
	init.send_cq = init.recv_cq = l.f->cq;
	init.srq = l.srq;
	l.qp = ibv_create_qp(l.f->pd, &init);
	CHECK(l.qp && !l.srq == !shared);
	to_state(l.qp, IBV_QPS_INIT);
	to_state(l.qp, IBV_QPS_RTR);
	to_state(l.qp, IBV_QPS_RTS);
	l.buffer = (unsigned char *)l.f->buffer;
	return l;
}

/* As after a restart. */
static void rename_all(struct listener *l)
{
	l->routes = make_routes();
	l->sources = make_sources();
	CHECK(l->routes && l->sources);
	sv_context_set_sources(l->f->context, l->sources, l->routes);
}

static void close_listener(struct listener *l)
{
	sv_context_set_sources(l->f->context, NULL, NULL);
	sv_routes_free(l->routes);
	sv_idmap_free(l->sources);
	CHECK_EQUAL(ibv_destroy_qp(l->qp), 0);
	if (l->srq)
		CHECK_EQUAL(ibv_destroy_srq(l->srq), 0);
	close_fixture(l->f);
}

static void post_sges(struct listener *l, struct ibv_sge *sges, int count)
{
	struct ibv_recv_wr recv = { .wr_id = 7, .sg_list = sges, .num_sge = count }, *bad;

	CHECK_EQUAL(l->srq ? ibv_post_srq_recv(l->srq, &recv, &bad) : ibv_post_recv(l->qp, &recv, &bad), 0);
	l->posted++;
}

static void post(struct listener *l)
{
	struct ibv_sge sge = { (uintptr_t)l->buffer, MESSAGE, l->f->mr->lkey };

	post_sges(l, &sge, 1);
}

/* The device has filled the receive that was posted last. */
static void arrive(struct listener *l, uint32_t number, uint16_t lid, unsigned flags, enum ibv_wc_status status)
{
	struct mock_qp *qp = mock_qp(l->qp);
	struct mock_queue *queue = l->srq ? &mock_srq(l->srq)->recv : &qp->recv;
	struct ibv_wc wc = {
		.wr_id = queue->requests[(queue->posted - 1) % MOCK_RING].recv.wr_id, .status = status, .opcode = IBV_WC_RECV,
		.byte_len = MESSAGE, .qp_num = qp->v.qp_num, .src_qp = number, .slid = lid, .wc_flags = flags,
	};

	queue->completed++;
	mock_push(mock_cq(l->qp->recv_cq), &wc);
}

static struct ibv_wc take(struct listener *l, uint32_t number, uint16_t lid)
{
	post(l);
	arrive(l, number, lid, IBV_WC_GRH, IBV_WC_SUCCESS);
	return expect(l->f->cq, 7, IBV_WC_SUCCESS);
}

/* ---- The tests -------------------------------------------------------------------------------------------------- */

static void nothing_before_a_restart(void)
{
	struct listener l = listen_with(false);
	struct ibv_wc wc;

	make_v6(l.buffer, near_now, own_now);
	wc = take(&l, 0xa0, 9);
	expect_v6(l.buffer, masked(near_now), masked(own_now));
	CHECK_EQUAL(wc.src_qp, 0xa0 ^ NUMBER_MASK);
	CHECK_EQUAL(wc.slid, 9 ^ LID_MASK);
	make_v6(l.buffer, near_now, group);
	take(&l, 0xa0, 9);
	expect_v6(l.buffer, masked(near_now), group);
	close_listener(&l);
}

static void names_of_senders(bool shared)
{
	struct listener l = listen_with(shared);
	uint32_t mine = mock_qp(l.qp)->v.qp_num;
	struct ibv_wc wc;

	rename_all(&l);
	/* Two processes at one real port, whom the number tells apart; and what has been made since. */
	make_v6(l.buffer, near_now, own_now);
	memset(l.buffer + HEADER, 0x5c, MESSAGE);
	wc = take(&l, 0xa0, 0);
	expect_v6(l.buffer, a, own);
	CHECK_EQUAL(l.buffer[3], 0x45);
	CHECK_EQUAL(l.buffer[HEADER], 0x5c);
	CHECK_EQUAL(wc.src_qp, 0x1a);
	CHECK_EQUAL(wc.slid, 0x12);
	CHECK_EQUAL(wc.qp_num, l.qp->qp_num);
	make_v6(l.buffer, near_now, own_now);
	wc = take(&l, 0xb0, 0);
	expect_v6(l.buffer, b, own);
	CHECK_EQUAL(wc.src_qp, 0x1b);
	CHECK_EQUAL(wc.slid, 0x13);
	make_v6(l.buffer, near_now, own_now);
	wc = take(&l, 0xc0, 0);
	expect_v6(l.buffer, a, own);
	CHECK_EQUAL(wc.src_qp, 0xc0 ^ NUMBER_MASK);
	/* But this process knows its own, also where another port has one of that number. */
	make_v6(l.buffer, near_now, own_now);
	wc = take(&l, mine, 0);
	expect_v6(l.buffer, own, own);
	CHECK_EQUAL(wc.src_qp, l.qp->qp_num);
	CHECK_EQUAL(wc.slid, 0x11);
	make_v6(l.buffer, far_now, own_now);
	wc = take(&l, mine, 0);
	expect_v6(l.buffer, far, own);
	CHECK_EQUAL(wc.src_qp, mine ^ NUMBER_MASK);
	/* Another HCA has a queue pair of that number: no lid tells, but the header does. */
	make_v6(l.buffer, far_now, own_now);
	wc = take(&l, 0xa0, 0);
	expect_v6(l.buffer, far, own);
	CHECK_EQUAL(wc.src_qp, 0x1c);
	CHECK_EQUAL(wc.slid, 0);
	/* A group is the same everywhere, and a stranger nobody else, whatever the number. */
	make_v6(l.buffer, far_now, group);
	take(&l, 0xa0, 0);
	expect_v6(l.buffer, far, group);
	make_v6(l.buffer, stranger, own_now);
	wc = take(&l, 0xa0, 0);
	expect_v6(l.buffer, masked(stranger), own);
	CHECK_EQUAL(wc.src_qp, 0xa0 ^ NUMBER_MASK);
	/* Without a header it is the lid that tells, and what is there stays. */
	make_v6(l.buffer, near_now, own_now);
	post(&l);
	arrive(&l, 0xa0, 9, 0, IBV_WC_SUCCESS);
	wc = expect(l.f->cq, 7, IBV_WC_SUCCESS);
	expect_v6(l.buffer, near_now, own_now);
	CHECK_EQUAL(wc.src_qp, 0x1d);
	CHECK_EQUAL(wc.slid, 0x99);
	post(&l);
	arrive(&l, mine, 9, 0, IBV_WC_SUCCESS);
	wc = expect(l.f->cq, 7, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.src_qp, l.qp->qp_num);
	CHECK_EQUAL(wc.slid, 0x98);
	post(&l);
	arrive(&l, 0xa0, 0, IBV_WC_GRH, IBV_WC_LOC_PROT_ERR);
	expect(l.f->cq, 7, IBV_WC_LOC_PROT_ERR);
	expect_v6(l.buffer, near_now, own_now);
	close_listener(&l);
}

static void names(void)
{
	names_of_senders(false);
}

static void names_of_a_shared_queue(void)
{
	names_of_senders(true);
}

/* Ipv4 means RoCE of that kind: between GIDs of one kind and of the other the header changes, too. */
static void both_kinds(void)
{
	struct listener l = listen_with(false);
	const struct gid becomes4 = { LINK_LOCAL, 0x44 };
	const uint32_t becomes6 = 0x0a000000 | 44;

	rename_all(&l);
	for (int garbage = 0; garbage < 256; garbage += 0x65) {
		make_v4(l.buffer, (uint32_t)near4_now.interface_id, (uint32_t)own4_now.interface_id, garbage);
		CHECK_EQUAL(take(&l, 0xa0, 0).src_qp, 0x1a);
		expect_v4(l.buffer, (uint32_t)a4.interface_id, (uint32_t)own4.interface_id);
		CHECK_EQUAL(l.buffer[0], garbage);
	}
	/* B was known by another kind of GID; so it takes both to be of that. */
	make_v4(l.buffer, (uint32_t)near4_now.interface_id, (uint32_t)own4_now.interface_id, 0);
	CHECK_EQUAL(take(&l, 0xb0, 0).src_qp, 0x1b);
	expect_v6(l.buffer, b, own4);
	CHECK_EQUAL(l.buffer[0], 0x61);
	CHECK_EQUAL(l.buffer[1], 0x20);
	CHECK_EQUAL(l.buffer[5], 56);
	CHECK_EQUAL(l.buffer[7], 9);
	make_v4(l.buffer, becomes6, becomes6, 0);
	take(&l, 0xd0, 0);
	expect_v6(l.buffer, own, own);
	make_v6(l.buffer, becomes4, becomes4);
	take(&l, 0xd0, 0);
	expect_v4(l.buffer, (uint32_t)own4.interface_id, (uint32_t)own4.interface_id);
	CHECK_EQUAL(l.buffer[0], 0);
	CHECK_EQUAL(l.buffer[21], 0x23);
	make_v4(l.buffer, (uint32_t)near4_now.interface_id, (uint32_t)IPV4_GROUP, 0);
	take(&l, 0xa0, 0);
	expect_v4(l.buffer, (uint32_t)a4.interface_id, (uint32_t)IPV4_GROUP);
	/* Neither: it stays. */
	memset(l.buffer, 0xa5, HEADER);
	take(&l, 0xa0, 0);
	for (int i = 0; i < HEADER; i++)
		CHECK_EQUAL(l.buffer[i], 0xa5);
	close_listener(&l);
}

/* In every place where a list of SGEs can cut the header, with a region that is elsewhere than its requests say. */
static void scattered(void)
{
	struct listener l = listen_with(false);
	struct ibv_mr *shifted;

	rename_all(&l);
	shifted = ibv_reg_mr_iova2(l.f->pd, l.f->buffer, BUFFER, 0x10000, IBV_ACCESS_LOCAL_WRITE);
	CHECK(shifted);
	for (int cut = 0; cut <= HEADER; cut++) {
		const int first = cut / 2, second = cut - first;
		unsigned char whole[MESSAGE], *parts[] = { l.buffer + 1, l.buffer + 500, l.buffer + 1000 };
		const int lengths[] = { first, second, MESSAGE - cut };
		struct ibv_sge sges[] = {
			{ (uintptr_t)parts[0], first, l.f->mr->lkey },
			{ 0x10000 + 500, second, shifted->lkey },
			{ (uintptr_t)parts[2], MESSAGE - cut, l.f->mr->lkey },
		};
		int at = 0;

		memset(l.buffer, 0xee, BUFFER);
		memset(whole, 0x3c, sizeof(whole));
		make_v6(whole, near_now, own_now);
		post_sges(&l, sges, 3);
		for (int i = 0; i < 3; at += lengths[i++])
			memcpy(parts[i], whole + at, lengths[i]);
		arrive(&l, 0xb0, 0, IBV_WC_GRH, IBV_WC_SUCCESS);
		CHECK_EQUAL(expect(l.f->cq, 7, IBV_WC_SUCCESS).src_qp, 0x1b);
		at = 0;
		for (int i = 0; i < 3; at += lengths[i++]) {
			memcpy(whole + at, parts[i], lengths[i]);
			memset(parts[i], 0xee, lengths[i]);
		}
		expect_v6(whole, b, own);
		for (int i = HEADER; i < MESSAGE; i++)
			CHECK_EQUAL(whole[i], 0x3c);
		for (int i = 0; i < BUFFER; i++)
			CHECK_EQUAL(l.buffer[i], 0xee);
	}
	CHECK_EQUAL(ibv_dereg_mr(shifted), 0);
	close_listener(&l);
}

/* Regions come and go; what the key of one that went says then counts no more. */
static void regions_elsewhere(void)
{
	struct listener l = listen_with(false);
	struct ibv_mr *regions[200];

	rename_all(&l);
	for (int round = 0; round < 12; round++) {
		for (int i = 0; i < 200; i++) {
			regions[i] = ibv_reg_mr_iova2(l.f->pd, l.f->buffer, BUFFER, (i + 1) * 0x10000ull, IBV_ACCESS_LOCAL_WRITE);
			CHECK(regions[i]);
		}
		for (int i = 0; i < 200; i++) {
			struct ibv_sge sge = { (i + 1) * 0x10000ull + i, MESSAGE, regions[i]->lkey };

			make_v6(l.buffer + i, near_now, own_now);
			post_sges(&l, &sge, 1);
			arrive(&l, 0xa0, 0, IBV_WC_GRH, IBV_WC_SUCCESS);
			expect(l.f->cq, 7, IBV_WC_SUCCESS);
			expect_v6(l.buffer + i, a, own);
		}
		for (int i = 0; i < 200; i++)
			CHECK_EQUAL(ibv_dereg_mr(regions[i]), 0);
	}
	close_listener(&l);
}

#define STAYING 12	/* of so many, in a table of 64 places, some lie in others' way */

static uint32_t all_have_gone;

static void *come_and_go(void *arg)
{
	struct listener *l = arg;

	for (int i = 0; i < 4000; i++) {
		struct ibv_mr *mr = ibv_reg_mr_iova2(l->f->pd, l->f->buffer, BUFFER, 0x800000, IBV_ACCESS_LOCAL_WRITE);

		CHECK(mr);
		CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	}
	__atomic_store_n(&all_have_gone, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* What is known of a region is known all the time. */
static void regions_elsewhere_while_others_come_and_go(void)
{
	struct listener l = listen_with(false);
	struct ibv_mr *staying[STAYING];
	pthread_t thread;

	rename_all(&l);
	for (int i = 0; i < STAYING; i++) {
		staying[i] = ibv_reg_mr_iova2(l.f->pd, l.f->buffer, BUFFER, (i + 1) * 0x10000, IBV_ACCESS_LOCAL_WRITE);
		CHECK(staying[i]);
	}
	CHECK_EQUAL(pthread_create(&thread, NULL, come_and_go, &l), 0);
	for (int i = 0; !__atomic_load_n(&all_have_gone, __ATOMIC_ACQUIRE); i = (i + 1) % STAYING) {
		struct ibv_sge sge = { (i + 1) * 0x10000, MESSAGE, staying[i]->lkey };

		make_v6(l.buffer, near_now, own_now);
		post_sges(&l, &sge, 1);
		arrive(&l, 0xa0, 0, IBV_WC_GRH, IBV_WC_SUCCESS);
		expect(l.f->cq, 7, IBV_WC_SUCCESS);
		expect_v6(l.buffer, a, own);
	}
	pthread_join(thread, NULL);
	for (int i = 0; i < STAYING; i++)
		CHECK_EQUAL(ibv_dereg_mr(staying[i]), 0);
	close_listener(&l);
}

/* Then only the lid tells who sent. */
static void nowhere_to_write(void)
{
	struct listener l = listen_with(false);
	struct ibv_mr *nothing = ibv_alloc_null_mr(l.f->pd);
	struct ibv_alloc_dm_attr attr = { .length = MESSAGE };
	struct ibv_dm *dm = ibv_alloc_dm(l.f->context, &attr);
	struct ibv_mr *device = ibv_reg_dm_mr(l.f->pd, dm, 0, MESSAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);

	rename_all(&l);
	CHECK(nothing && device);
	for (int i = 0; i < 2; i++) {
		struct ibv_sge sges[] = {
			{ (uintptr_t)l.buffer, 30, l.f->mr->lkey },
			{ i ? 0 : (uintptr_t)l.buffer + 30, MESSAGE - 30, i ? device->lkey : nothing->lkey },
		};
		struct ibv_wc wc;

		make_v6(l.buffer, near_now, own_now);
		post_sges(&l, sges, 2);
		arrive(&l, 0xa0, 9, IBV_WC_GRH, IBV_WC_SUCCESS);
		wc = expect(l.f->cq, 7, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.src_qp, 0x1d);
		CHECK_EQUAL(wc.slid, 0x99);
		expect_v6(l.buffer, near_now, own_now);
	}
	CHECK_EQUAL(ibv_dereg_mr(nothing), 0);
	CHECK_EQUAL(ibv_dereg_mr(device), 0);
	CHECK_EQUAL(ibv_free_dm(dm), 0);
	close_listener(&l);
}

/* Translated by what counted when it came, once, and not by what counts when the application looks. */
static void kept_through_a_restart(bool shared)
{
	struct listener l = listen_with(shared);
	/* After it the GIDs of before are those of others. */
	const struct sv_route_name names[] = { NAME(far, 0) };
	const struct sv_route routes[] = { { own.prefix, own.interface_id, OWN, 0, 1 }, { a.prefix, a.interface_id, NEAR, 0, 0 } };
	const uint64_t keys[] = { BY_ROUTE(NEAR, 0) }, values[] = { VALUE(0, 0, 0) };
	struct sv_routes *others = sv_routes_new(routes, 2, names, 1);
	struct sv_idmap *other_sources = sv_idmap_new(keys, values, 1);
	uint64_t position;
	struct ibv_wc wc;

	rename_all(&l);
	make_v6(l.buffer, near_now, own_now);
	post(&l);
	arrive(&l, 0xa0, 0, IBV_WC_GRH, IBV_WC_SUCCESS);
	close_gate();
	CHECK_EQUAL(sv_cq_drain(l.f->cq), 1);
	expect_v6(l.buffer, a, own);
	driver_detach(l.f->context);
	driver_reattach(l.f->context);
	sv_context_set_sources(l.f->context, other_sources, others);
	CHECK_EQUAL(l.srq ? sv_srq_replay(l.srq, &position) : sv_qp_replay_receives(l.qp, &position), 0);
	sv_gate_open();
	wc = expect(l.f->cq, 7, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.src_qp, 0x1a);
	CHECK_EQUAL(wc.slid, 0x12);
	expect_v6(l.buffer, a, own);
	close_listener(&l);
	sv_routes_free(others);
	sv_idmap_free(other_sources);
}

static void kept(void)
{
	kept_through_a_restart(false);
	kept_through_a_restart(true);
}

/* A datagram that a landing has taken is the application's next receive, with the names of when it came. */
static void landed(void)
{
	struct listener l = listen_with(true);
	unsigned char message[MESSAGE] = { 0 };
	struct mock_request *request;
	uint64_t position;
	struct ibv_wc wc;

	rename_all(&l);
	make_v6(message, near_now, own_now);
	close_gate();
	CHECK_EQUAL(sv_srq_post_landing(l.srq, MESSAGE), 0);
	request = &mock_srq(l.srq)->recv.requests[mock_srq(l.srq)->recv.posted - 1];
	memcpy((void *)(uintptr_t)request->sges[0].addr, message, MESSAGE);
	arrive(&l, 0xa0, 0, IBV_WC_GRH, IBV_WC_SUCCESS);
	CHECK_EQUAL(sv_cq_drain(l.f->cq), 1);
	driver_detach(l.f->context);
	driver_reattach(l.f->context);
	sv_context_set_sources(l.f->context, NULL, NULL);
	CHECK_EQUAL(sv_srq_replay(l.srq, &position), 0);
	sv_gate_open();
	post(&l);
	wc = expect(l.f->cq, 7, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.src_qp, 0x1a);
	CHECK_EQUAL(wc.slid, 0x12);
	CHECK_EQUAL(wc.qp_num, l.qp->qp_num);
	expect_v6(l.buffer, a, own);
	close_listener(&l);
}

/* Of an extended queue that was not asked for it, too. */
static void extended_queues(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 8, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};
	struct ibv_poll_cq_attr poll = { 0 };
	struct ibv_cq_ex *ex = ibv_create_cq_ex(f->context, &attr);
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_UD };
	struct listener l = { .f = f, .buffer = (unsigned char *)f->buffer };

	CHECK(ex);
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(ex);
	l.qp = ibv_create_qp(f->pd, &init);
	CHECK(l.qp);
	to_state(l.qp, IBV_QPS_INIT);
	to_state(l.qp, IBV_QPS_RTR);
	rename_all(&l);
	for (int i = 0; i < 2; i++) {
		make_v6(l.buffer, near_now, own_now);
		post(&l);
		arrive(&l, i ? 0xb0 : 0xa0, 0, IBV_WC_GRH, IBV_WC_SUCCESS);
		CHECK_EQUAL(ibv_start_poll(ex, &poll), 0);
		CHECK_EQUAL(ex->wr_id, 7);
		expect_v6(l.buffer, i ? b : a, own);
		ibv_end_poll(ex);
	}
	sv_context_set_sources(f->context, NULL, NULL);
	sv_routes_free(l.routes);
	sv_idmap_free(l.sources);
	CHECK_EQUAL(ibv_destroy_qp(l.qp), 0);
	CHECK_EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
	close_fixture(f);
}

int main(void)
{
	RUN(nothing_before_a_restart);
	RUN(names);
	RUN(names_of_a_shared_queue);
	RUN(both_kinds);
	RUN(scattered);
	RUN(regions_elsewhere);
	RUN(regions_elsewhere_while_others_come_and_go);
	RUN(nowhere_to_write);
	RUN(kept);
	RUN(landed);
	RUN(extended_queues);
	return 0;
}
