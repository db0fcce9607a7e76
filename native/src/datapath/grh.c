/* SPDX-License-Identifier: Apache-2.0 */
#include "datapath/grh.h"
#include "base/idmap.h"
#include "objects/build.h"
#include "objects/qp_numbers.h"
#include "objects/region.h"

#include <endian.h>
#include <netinet/in.h>
#include <netinet/ip.h>

union header {
	struct ibv_grh v6;
	struct {
		char nothing[20];
		struct iphdr v4;
	};
	uint64_t words[5];
};

_Static_assert(sizeof(union header) == 40, "what a datagram's receive begins with");

#define NEXT_IB 0x1b			/* a transport header of InfiniBand follows at once, no UDP */
#define UDP_HEADER 8
#define DONT_FRAGMENT 0x4000
#define MAPPED 0xffffull		/* ::ffff:a.b.c.d */

struct gid {
	uint64_t prefix, interface_id;	/* as numbers */
};

/* ---- The tables ------------------------------------------------------------------------------------------------- */

struct sv_routes {
	struct sv_route *routes;	/* a hash table; a prefix and interface id of 0: a free place */
	struct sv_route_name *names;
	uint32_t mask;
	uint32_t name_count;
};

static inline uint32_t home(const struct sv_routes *routes, uint64_t prefix, uint64_t interface_id)
{
	return ((prefix ^ interface_id * 0x9e3779b97f4a7c15ull) * 0x9e3779b97f4a7c15ull) >> 32 & routes->mask;
}

/* The GID's place, or the free one that would be. */
static struct sv_route *place_of(const struct sv_routes *routes, uint64_t prefix, uint64_t interface_id)
{
	for (uint32_t at = home(routes, prefix, interface_id);; at = (at + 1) & routes->mask) {
		struct sv_route *route = &routes->routes[at];

		if ((route->prefix == prefix && route->interface_id == interface_id) || !(route->prefix | route->interface_id))
			return route;
	}
}

struct sv_routes *sv_routes_new(const struct sv_route *given, uint32_t count, const struct sv_route_name *names,
				uint32_t name_count)
{
	struct sv_routes *routes = sv_block_alloc(sizeof(*routes));
	uint64_t size = 2;

	if (!routes)
		return NULL;
	while (size < 2 * (uint64_t)count)
		size *= 2;
	routes->mask = size - 1;
	routes->name_count = name_count;
	routes->routes = sv_block_alloc(size * sizeof(*given));
	routes->names = sv_block_alloc((name_count + (size_t)1) * sizeof(*names));
	if (!routes->routes || !routes->names) {
		sv_routes_free(routes);
		return NULL;
	}
	for (uint32_t i = 0; i < count; i++)
		*place_of(routes, given[i].prefix, given[i].interface_id) = given[i];
	if (name_count)
		memcpy(routes->names, names, name_count * sizeof(*names));
	return routes;
}

void sv_routes_free(struct sv_routes *routes)
{
	if (!routes)
		return;
	sv_block_free(routes->routes, (routes->mask + (size_t)1) * sizeof(*routes->routes));
	sv_block_free(routes->names, (routes->name_count + (size_t)1) * sizeof(*routes->names));
	sv_block_free(routes, sizeof(*routes));
}

/* NULL: it is no GID of the job. */
static const struct sv_route *route_of(const struct sv_routes *routes, const struct gid *gid)
{
	const struct sv_route *route = routes ? place_of(routes, gid->prefix, gid->interface_id) : NULL;

	return route && route->port ? route : NULL;
}

/* ---- The header ------------------------------------------------------------------------------------------------- */

/* RFC 791, with the field itself as 0. */
static uint16_t checksum(const struct iphdr *ip)
{
	struct iphdr copy = *ip;
	uint16_t words[sizeof(copy) / 2];
	uint32_t sum = 0;

	copy.check = 0;
	memcpy(words, &copy, sizeof(copy));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	return ~sum;
}

/* 6, 4, or 0: none that is known. Devices leave what was in the bytes in front of an IPv4 header. */
static int version_of(const union header *header)
{
	if (be32toh(header->v6.version_tclass_flow) >> 28 != 6)
		return header->v4.version == 4 ? 4 : 0;
	return header->v4.ihl == 5 && header->v4.check == checksum(&header->v4) ? 4 : 6;
}

static bool is_mapped(const struct gid *gid)
{
	return !gid->prefix && gid->interface_id >> 32 == MAPPED;
}

static struct gid mapped(uint32_t address)
{
	return (struct gid){ 0, MAPPED << 32 | be32toh(address) };
}

static struct gid gid_of(const union ibv_gid *raw)
{
	return (struct gid){ be64toh(raw->global.subnet_prefix), be64toh(raw->global.interface_id) };
}

static void put_gid(union ibv_gid *raw, const struct gid *gid)
{
	raw->global.subnet_prefix = htobe64(gid->prefix);
	raw->global.interface_id = htobe64(gid->interface_id);
}

static void make_v6(union header *header)
{
	const struct iphdr ip = header->v4;

	header->v6 = (struct ibv_grh){
		.version_tclass_flow = htobe32(6u << 28 | (uint32_t)ip.tos << 20),
		.paylen = htobe16(be16toh(ip.tot_len) - sizeof(ip)),
		.next_hdr = ip.protocol,
		.hop_limit = ip.ttl,
	};
}

static void make_v4(union header *header)
{
	const struct ibv_grh grh = header->v6;

	memset(header, 0, sizeof(*header));
	header->v4 = (struct iphdr){
		.version = 4,
		.ihl = 5,
		.tos = be32toh(grh.version_tclass_flow) >> 20,
		.tot_len = htobe16(be16toh(grh.paylen) + sizeof(struct iphdr) + (grh.next_hdr == NEXT_IB ? UDP_HEADER : 0)),
		.frag_off = htobe16(DONT_FRAGMENT),
		.ttl = grh.hop_limit,
		.protocol = IPPROTO_UDP,
	};
}

/* Between GIDs of the one and of the other kind a header of the one becomes one of the other. */
static void put(union header *header, int version, const struct gid *from, const struct gid *to, bool v4)
{
	if (v4) {
		if (version != 4)
			make_v4(header);
		header->v4.saddr = htobe32(from->interface_id);
		header->v4.daddr = htobe32(to->interface_id);
		header->v4.check = checksum(&header->v4);
	} else {
		if (version != 6)
			make_v6(header);
		put_gid(&header->v6.sgid, from);
		put_gid(&header->v6.dgid, to);
	}
}

/* ---- Translation ------------------------------------------------------------------------------------------------ */

static bool same(const struct gid *one, const struct gid *other)
{
	return one->prefix == other->prefix && one->interface_id == other->interface_id;
}

/* ff00::/8, and what stands for an IPv4 group */
static bool is_multicast(const struct gid *gid)
{
	return gid->prefix >> 56 == 0xff || (is_mapped(gid) && (gid->interface_id >> 28 & 0xf) == 0xe);
}

/* A GID that belongs to no process of the job. */
static void unmask(struct gid *gid)
{
	if (!is_multicast(gid) && (gid->prefix | gid->interface_id))
		gid->interface_id ^= sv_masks.gid;
}

static void take_name(struct gid *gid, bool *v4, const struct sv_route_name *name)
{
	*gid = (struct gid){ name->prefix, name->interface_id };
	*v4 = name->ipv4;
}

/* Which QP of which process sent it: the real port that the header names tells apart those of one number. */
static bool translate_sender(struct ibv_context *vcontext, struct ibv_wc *wc, struct gid *from, bool *v4)
{
	const struct sv_context *context = sv_context_of(vcontext);
	const struct sv_routes *routes = sv_load(&context->routes);
	const struct sv_route *route = route_of(routes, from);
	const struct sv_qp *own = route ? sv_qp_by_number(vcontext, wc->src_qp) : NULL;
	uint64_t found;

	if (own && sv_idmap_find(context->sources, sv_own_route_key(route->port), &found)) {
		wc->src_qp = own->v.qp_num;
	} else if (route && sv_idmap_find(context->sources, sv_route_key(route->port, wc->src_qp), &found)) {
		wc->src_qp = found & 0xffffff;
	} else if (route && sv_idmap_find(context->sources, sv_route_key(route->port, 0), &found)) {
		wc->src_qp ^= sv_masks.qp_num;
	} else {
		unmask(from);
		/* One of the job would be known; without a lid there is nothing else that could tell. */
		if (routes && !wc->slid)
			wc->src_qp ^= sv_masks.qp_num;
		return routes && !wc->slid;
	}
	wc->slid = found >> 24;
	take_name(from, v4, &routes->names[(found >> 40) + route->slot]);
	return true;
}

static void translate_destination(const struct sv_context *context, struct gid *to, bool *v4)
{
	const struct sv_routes *routes = sv_load(&context->routes);
	const struct sv_route *route = route_of(routes, to);

	if (route && route->own)
		take_name(to, v4, &routes->names[route->own - 1]);
	else
		unmask(to);
}

/* *changed: the header was rewritten. */
static bool translate(struct ibv_context *vcontext, struct ibv_wc *wc, union header *header, bool *changed)
{
	int version = version_of(header);
	struct gid from, to, old_from, old_to;
	bool v4 = version == 4, told;

	*changed = false;
	if (!version)
		return false;
	old_from = from = v4 ? mapped(header->v4.saddr) : gid_of(&header->v6.sgid);
	old_to = to = v4 ? mapped(header->v4.daddr) : gid_of(&header->v6.dgid);
	translate_destination(sv_context_of(vcontext), &to, &v4);
	told = translate_sender(vcontext, wc, &from, &v4);
	v4 = v4 && is_mapped(&from) && is_mapped(&to);
	*changed = !same(&from, &old_from) || !same(&to, &old_to);
	if (*changed)
		put(header, version, &from, &to, v4);
	return told;
}

static bool has_header(const struct ibv_wc *wc)
{
	return wc->status == IBV_WC_SUCCESS && (wc->wc_flags & IBV_WC_GRH) && wc->byte_len >= sizeof(union header);
}

/* The first bytes of what a receive was scattered to, or back. False: some are where the processor cannot go. */
static bool copy(struct ibv_context *vcontext, struct sv_recv_entry *entry, union header *header, bool back)
{
	const struct ibv_sge *sges = sv_recv_sges(entry);
	char *at = (char *)header;
	size_t left = sizeof(*header);

	for (uint32_t i = 0; i < entry->num_sge && left; i++) {
		size_t part = left < sges[i].length ? left : sges[i].length;
		void *memory = part ? sv_region_at(vcontext, sges[i].lkey, sges[i].addr) : at;

		if (!memory)
			return false;
		if (back)
			memcpy(memory, at, part);
		else
			memcpy(at, memory, part);
		at += part;
		left -= part;
	}
	return !left;
}

bool sv_grh_translate(struct ibv_context *vcontext, struct ibv_wc *wc, struct sv_recv_entry *entry)
{
	union header header;
	bool changed, told;

	if (!has_header(wc) || !copy(vcontext, entry, &header, false))
		return false;
	told = translate(vcontext, wc, &header, &changed);
	if (changed)
		copy(vcontext, entry, &header, true);
	return told;
}

bool sv_grh_translate_at(struct ibv_context *vcontext, struct ibv_wc *wc, void *header)
{
	bool changed;

	return header && has_header(wc) && translate(vcontext, wc, header, &changed);
}
