/* One port of one device, and queue pairs on it taken from RESET to RTS. Every failure ends the process. */
#ifndef PROGRAMS_ENDPOINT_H
#define PROGRAMS_ENDPOINT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define GID_INDEX_AUTO -1

#define ACCESS_NOTHING_REMOTE IBV_ACCESS_LOCAL_WRITE
#define ACCESS_ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct endpoint {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	union ibv_gid gid;
	int port_num;
	int gid_index;
	int with_gid;			/* addresses carry a GRH: the port has no lid, or a GID index was asked for */
};

/* That of all queue pairs of datagrams. */
#define ENDPOINT_QKEY 0x1ce

/* What a peer needs in order to connect to a queue pair. */
struct qp_address {
	union ibv_gid gid;
	uint32_t qp_num;
	uint32_t psn;
	uint16_t lid;
	uint16_t mtu;			/* enum ibv_mtu */
};

/* Units as in ibv_modify_qp(3). */
struct qp_timing {
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t min_rnr_timer;
};

extern const struct qp_timing qp_patient;	/* rnr_retry 7: infinite */

/* device NULL: the first. gid_index GID_INDEX_AUTO: none where the port has a lid, else the best entry. */
void endpoint_open(struct endpoint *endpoint, const char *device, int port_num, int gid_index);
void endpoint_close(struct endpoint *endpoint);

struct ibv_mr *endpoint_register(struct endpoint *endpoint, void *memory, size_t size, int access);
struct ibv_cq *endpoint_create_cq(struct endpoint *endpoint, int entries, struct ibv_comp_channel *channel);
/* To a peer, or a multicast group. `route`: with a GRH. */
struct ibv_ah *endpoint_create_ah(struct endpoint *endpoint, const union ibv_gid *gid, uint16_t lid, bool route);
/* A domain of XRC, of an open file or of the process alone (fd -1), and an SRQ in it. */
struct ibv_xrcd *endpoint_open_xrcd(struct endpoint *endpoint, int fd);
struct ibv_srq *endpoint_create_xrc_srq(struct endpoint *endpoint, struct ibv_xrcd *xrcd, struct ibv_cq *cq, int receives,
					int sges);

/* RESET to INIT. `access` is what the peer may do. Fills `address` for the peer. */
void qp_initialize(struct endpoint *endpoint, struct ibv_qp *qp, int access, struct qp_address *address);

/* INIT to RTR to RTS. */
void qp_connect(struct endpoint *endpoint, struct ibv_qp *qp, const struct qp_address *own,
		const struct qp_address *peer, const struct qp_timing *timing);

/* Each ends the process when the verb reports an error, as leaked objects would hide the next test's faults. */
void qp_destroy(struct ibv_qp *qp);
void cq_destroy(struct ibv_cq *cq);
void mr_deregister(struct ibv_mr *mr);
void srq_destroy(struct ibv_srq *srq);
void ah_destroy(struct ibv_ah *ah);
void xrcd_close(struct ibv_xrcd *xrcd);

/* The rd_atomic depth that every queue pair here is given. */
uint8_t endpoint_rd_atomic(const struct endpoint *endpoint);

#endif
