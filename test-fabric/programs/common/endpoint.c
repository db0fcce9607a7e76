#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "die.h"

#define RD_ATOMIC_WANTED 8

/*
 * The RNR timer: 41 ms, so that who waits for a receive leaves the processors to others. A thread that sleeps for less than
 * its turn on a processor can starve others: see Job.SLOW.
 */
const struct qp_timing qp_patient = { .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 24 };

static struct ibv_context *open_device(const char *name)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list;
	int count;

	list = ibv_get_device_list(&count);
	if (!list)
		die(errno, "ibv_get_device_list");
	if (count == 0)
		die(0, "there is no RDMA device");
	for (int i = 0; i < count; i++) {
		if (name && strcmp(name, ibv_get_device_name(list[i])))
			continue;
		context = ibv_open_device(list[i]);
		if (!context)
			die(errno, "ibv_open_device %s", ibv_get_device_name(list[i]));
		break;
	}
	ibv_free_device_list(list);
	if (!context)
		die(0, "there is no RDMA device named %s", name);
	return context;
}

static int is_empty(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

static int is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

/* On Ethernet the link-local entry often routes nowhere: prefer one made from an IPv4 address. */
static int best_gid_index(struct endpoint *endpoint)
{
	union ibv_gid gid;
	int best = -1;

	for (int i = 0; i < endpoint->port.gid_tbl_len && i < 64; i++) {
		if (ibv_query_gid(endpoint->context, endpoint->port_num, i, &gid) || is_empty(&gid))
			continue;
		if (is_ipv4(&gid))
			return i;
		if (best < 0)
			best = i;
	}
	if (best < 0)
		die(0, "port %d has neither a lid nor a GID", endpoint->port_num);
	return best;
}

void endpoint_open(struct endpoint *endpoint, const char *device, int port_num, int gid_index)
{
	int err;

	memset(endpoint, 0, sizeof(*endpoint));
	endpoint->context = open_device(device);
	endpoint->port_num = port_num;
	err = ibv_query_device(endpoint->context, &endpoint->device);
	if (err)
		die(err, "ibv_query_device");
	err = ibv_query_port(endpoint->context, port_num, &endpoint->port);
	if (err)
		die(err, "ibv_query_port %d", port_num);
	endpoint->with_gid = gid_index != GID_INDEX_AUTO || endpoint->port.lid == 0;
	if (endpoint->with_gid)
		endpoint->gid_index = gid_index != GID_INDEX_AUTO ? gid_index : best_gid_index(endpoint);
	err = ibv_query_gid(endpoint->context, port_num, endpoint->gid_index, &endpoint->gid);
	if (err)
		die(errno, "ibv_query_gid, index %d", endpoint->gid_index);
	endpoint->pd = ibv_alloc_pd(endpoint->context);
	if (!endpoint->pd)
		die(errno, "ibv_alloc_pd");
}

void endpoint_close(struct endpoint *endpoint)
{
	int err = ibv_dealloc_pd(endpoint->pd);

	if (err)
		die(err, "ibv_dealloc_pd");
	err = ibv_close_device(endpoint->context);
	if (err)
		die(errno, "ibv_close_device");
}

struct ibv_mr *endpoint_register(struct endpoint *endpoint, void *memory, size_t size, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(endpoint->pd, memory, size, access);

	if (!mr)
		die(errno, "ibv_reg_mr of %zu bytes", size);
	return mr;
}

struct ibv_cq *endpoint_create_cq(struct endpoint *endpoint, int entries, struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq = ibv_create_cq(endpoint->context, entries, NULL, channel, 0);

	if (!cq)
		die(errno, "ibv_create_cq of %d entries", entries);
	return cq;
}

struct ibv_ah *endpoint_create_ah(struct endpoint *endpoint, const union ibv_gid *gid, uint16_t lid, bool route)
{
	struct ibv_ah_attr attr = {
		.dlid = lid, .port_num = endpoint->port_num, .is_global = route,
		.grh = { .dgid = *gid, .hop_limit = 64, .sgid_index = endpoint->gid_index },
	};
	struct ibv_ah *ah = ibv_create_ah(endpoint->pd, &attr);

	if (!ah)
		die(errno, "ibv_create_ah");
	return ah;
}

struct ibv_xrcd *endpoint_open_xrcd(struct endpoint *endpoint, int fd)
{
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(endpoint->context, &init);

	if (!xrcd)
		die(errno, "ibv_open_xrcd");
	return xrcd;
}

struct ibv_srq *endpoint_create_xrc_srq(struct endpoint *endpoint, struct ibv_xrcd *xrcd, struct ibv_cq *cq, int receives,
					int sges)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = receives, .max_sge = sges },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC, .pd = endpoint->pd, .xrcd = xrcd, .cq = cq,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(endpoint->context, &init);

	if (!srq)
		die(errno, "ibv_create_srq_ex of XRC, %d receives", receives);
	return srq;
}

uint8_t endpoint_rd_atomic(const struct endpoint *endpoint)
{
	int depth = endpoint->device.max_qp_rd_atom;

	if (endpoint->device.max_qp_init_rd_atom < depth)
		depth = endpoint->device.max_qp_init_rd_atom;
	return depth < RD_ATOMIC_WANTED ? depth : RD_ATOMIC_WANTED;
}

void qp_initialize(struct endpoint *endpoint, struct ibv_qp *qp, int access, struct qp_address *address)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = 0,
		.port_num = endpoint->port_num,
		.qp_access_flags = access,
		.qkey = ENDPOINT_QKEY,
	};
	int err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				(qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));

	if (err)
		die(err, "ibv_modify_qp to INIT");
	memset(address, 0, sizeof(*address));
	address->gid = endpoint->gid;
	address->lid = endpoint->port.lid;
	address->mtu = endpoint->port.active_mtu;
	address->qp_num = qp->qp_num;
	/* Any start will do, as long as the two directions differ. */
	address->psn = (qp->qp_num * 2654435761U ^ (uint32_t)getpid()) & 0xffffff;
}

void qp_connect(struct endpoint *endpoint, struct ibv_qp *qp, const struct qp_address *own,
		const struct qp_address *peer, const struct qp_timing *timing)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = own->mtu < peer->mtu ? own->mtu : peer->mtu,
		.dest_qp_num = peer->qp_num,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = endpoint_rd_atomic(endpoint),
		.min_rnr_timer = timing->min_rnr_timer,
		.ah_attr = { .dlid = peer->lid, .port_num = endpoint->port_num, .is_global = endpoint->with_gid },
	};
	enum ibv_qp_type type = qp->qp_type;
	bool reliable = type != IBV_QPT_UC && type != IBV_QPT_UD;
	/* Of XRC one end has requests, and the other what answers them. */
	int responder = !reliable || type == IBV_QPT_XRC_SEND ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	int requester = !reliable || type == IBV_QPT_XRC_RECV ? 0
		      : IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	int connection = type == IBV_QPT_UD ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	int err;

	if (endpoint->with_gid) {
		attr.ah_attr.grh.dgid = peer->gid;
		attr.ah_attr.grh.sgid_index = endpoint->gid_index;
		attr.ah_attr.grh.hop_limit = 64;
	}
	err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | connection | responder);
	if (err)
		die(err, "ibv_modify_qp to RTR");
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = own->psn;
	attr.timeout = timing->timeout;
	attr.retry_cnt = timing->retry_cnt;
	attr.rnr_retry = timing->rnr_retry;
	attr.max_rd_atomic = endpoint_rd_atomic(endpoint);
	err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (reliable ? IBV_QP_TIMEOUT : 0) | requester);
	if (err)
		die(err, "ibv_modify_qp to RTS");
}

void qp_destroy(struct ibv_qp *qp)
{
	int err = ibv_destroy_qp(qp);

	if (err)
		die(err, "ibv_destroy_qp");
}

void cq_destroy(struct ibv_cq *cq)
{
	int err = ibv_destroy_cq(cq);

	if (err)
		die(err, "ibv_destroy_cq");
}

void mr_deregister(struct ibv_mr *mr)
{
	int err = ibv_dereg_mr(mr);

	if (err)
		die(err, "ibv_dereg_mr");
}

void srq_destroy(struct ibv_srq *srq)
{
	int err = ibv_destroy_srq(srq);

	if (err)
		die(err, "ibv_destroy_srq");
}

void ah_destroy(struct ibv_ah *ah)
{
	int err = ibv_destroy_ah(ah);

	if (err)
		die(err, "ibv_destroy_ah");
}

void xrcd_close(struct ibv_xrcd *xrcd)
{
	int err = ibv_close_xrcd(xrcd);

	if (err)
		die(err, "ibv_close_xrcd");
}
