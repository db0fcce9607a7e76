/* Address handles, and what an address says. */
#include <netinet/in.h>
#include <netinet/ip.h>

#include "hca.h"

uint32_t av_lid(const struct seg *own, const struct ibv_ah_attr *av)
{
	return own->ethernet ? (uint32_t)av->grh.dgid.raw[14] << 8 | av->grh.dgid.raw[15] : av->dlid;
}

bool av_is_multicast(const struct seg *own, const struct ibv_ah_attr *av)
{
	return own->ethernet ? av->grh.dgid.raw[0] == 0xff : av->dlid >= LID_MULTICAST;
}

static const uint8_t ipv4_prefix[12] = { [10] = 0xff, [11] = 0xff };

bool gid_is_ipv4(const union ibv_gid *gid)
{
	return !memcmp(gid->raw, ipv4_prefix, sizeof(ipv4_prefix));
}

uint16_t ipv4_checksum(const void *header)
{
	uint16_t words[10];
	uint32_t sum = 0;
	int i;

	memcpy(words, header, sizeof(words));
	words[5] = 0;	/* the checksum itself */
	for (i = 0; i < 10; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

/* Both GIDs, of an IPv4 header too; as rdma-core's get_grh_header_version tells one from the other. */
static void grh_gids(const struct ibv_grh *grh, union ibv_gid *sgid, union ibv_gid *dgid)
{
	const struct iphdr *ip = (const void *)((const char *)grh + sizeof(*grh) - sizeof(*ip));

	*sgid = grh->sgid;
	*dgid = grh->dgid;
	if (ip->version != 4 || ip->ihl != 5 || ip->check != ipv4_checksum(ip))
		return;
	memcpy(sgid->raw, ipv4_prefix, sizeof(ipv4_prefix));
	memcpy(sgid->raw + sizeof(ipv4_prefix), &ip->saddr, 4);
	memcpy(dgid->raw, ipv4_prefix, sizeof(ipv4_prefix));
	memcpy(dgid->raw + sizeof(ipv4_prefix), &ip->daddr, 4);
}

int ah_attr_check(const struct seg *seg, const struct ibv_ah_attr *attr, bool multicast)
{
	if (!port_exists(seg, attr->port_num) || attr->sl > 15)
		return EINVAL;
	/* The kernel's rdma_check_ah_attr: there are no paths without a route on Ethernet. */
	if (seg->ethernet ? !attr->is_global : !attr->dlid)
		return EINVAL;
	if (av_is_multicast(seg, attr) && !multicast)
		return EINVAL;
	if (attr->is_global && attr->grh.sgid_index >= SEG_GIDS_USED)
		return EINVAL;
	return 0;
}

static struct ibv_ah *ah_create(struct hca_pd *pd, const struct ibv_ah_attr *attr)
{
	struct hca_context *ctx = context_of(pd->pd.context);
	struct hca_ah *ah;

	/* A multicast packet has a global route header always. */
	if (ah_attr_check(ctx->seg, attr, attr->is_global)) {
		errno = EINVAL;
		return NULL;
	}
	if (seg_load(&ctx->seg->fatal)) {
		errno = EIO;
		return NULL;
	}
	ah = object_alloc(sizeof(*ah));
	if (!ah)
		return NULL;
	ah->ah.context = pd->pd.context;
	ah->ah.pd = &pd->pd;
	ah->attr = *attr;
	pthread_mutex_lock(&ctx->lock);
	ah->ah.handle = ctx->handles++;
	pd->users++;
	ctx->ahs++;
	pthread_mutex_unlock(&ctx->lock);
	ah->magic = OBJECT_MAGIC(MAGIC_AH, ah);
	return &ah->ah;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	return ah_create(to_pd(pd, "ibv_create_ah"), attr);
}

/* The index of one of our own GIDs; -1 with errno. */
static int gid_index(struct hca_context *ctx, uint8_t port_num, const union ibv_gid *gid)
{
	unsigned int i;

	for (i = 0; port_exists(ctx->seg, port_num) && i < SEG_GIDS_USED; i++)
		if (!memcmp(&seg_port(ctx->seg, port_num)->gid[i], gid, sizeof(*gid)))
			return i;
	errno = EINVAL;
	return -1;
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh,
			struct ibv_ah_attr *attr)
{
	struct hca_context *ctx = to_context(context, "ibv_init_ah_from_wc");
	union ibv_gid sgid, dgid;
	uint32_t version_tclass_flow;
	int index;

	memset(attr, 0, sizeof(*attr));
	attr->dlid = wc->slid;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port_num;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	grh_gids(grh, &sgid, &dgid);
	index = gid_index(ctx, port_num, &dgid);
	if (index < 0)
		return -1;
	version_tclass_flow = be32toh(grh->version_tclass_flow);
	attr->is_global = 1;
	attr->grh.dgid = sgid;
	attr->grh.sgid_index = index;
	attr->grh.flow_label = version_tclass_flow & 0xfffff;
	attr->grh.traffic_class = version_tclass_flow >> 20;
	attr->grh.hop_limit = grh->hop_limit;
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *ibpd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port_num)
{
	struct hca_pd *pd = to_pd(ibpd, "ibv_create_ah_from_wc");
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(ibpd->context, port_num, wc, grh, &attr))
		return NULL;
	return ah_create(pd, &attr);
}

int ibv_destroy_ah(struct ibv_ah *ibah)
{
	struct hca_ah *ah = to_ah(ibah, "ibv_destroy_ah");
	struct hca_context *ctx = context_of(ibah->context);

	pthread_mutex_lock(&ctx->lock);
	((struct hca_pd *)ibah->pd)->users--;
	ctx->ahs--;
	pthread_mutex_unlock(&ctx->lock);
	object_free(ah, sizeof(*ah));
	return 0;
}
