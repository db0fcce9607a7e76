#include "verify_ids.h"

#include <string.h>

#include "../common/die.h"

#define QUERIED (IBV_QP_STATE | IBV_QP_DEST_QPN | IBV_QP_AV | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MTU | \
		 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER | IBV_QP_ACCESS_FLAGS | \
		 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_RQ_PSN | IBV_QP_CAP)

static void compare(struct connection *connection, const char *what, uint64_t now, uint64_t before)
{
	if (now != before)
		tally_found(&connection->job->tally, FOUND_UNEXPECTED, 1, "%s of the connection to rank %d was %#lx, is %#lx",
			    what, connection->peer, before, now);
}

static void verify_port(struct connection *connection)
{
	struct endpoint *endpoint = &connection->job->endpoint;
	struct ibv_port_attr port;
	union ibv_gid gid;
	int err = ibv_query_port(endpoint->context, endpoint->port_num, &port);

	if (err)
		die(err, "ibv_query_port");
	compare(connection, "port lid", port.lid, endpoint->port.lid);
	compare(connection, "port state", port.state, endpoint->port.state);
	if (!endpoint->with_gid)
		return;
	if (ibv_query_gid(endpoint->context, endpoint->port_num, endpoint->gid_index, &gid))
		die(0, "ibv_query_gid fails");
	compare(connection, "port GID, prefix", gid.global.subnet_prefix, endpoint->gid.global.subnet_prefix);
	compare(connection, "port GID, interface", gid.global.interface_id, endpoint->gid.global.interface_id);
}

static void verify_queue(struct connection *connection, struct ibv_qp *qp, struct ids *ids,
			 const struct qp_address *own, const struct qp_address *peer)
{
	struct job *job = connection->job;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err;

	memset(&attr, 0, sizeof(attr));
	err = ibv_query_qp(qp, &attr, QUERIED, &init);
	if (err)
		die(err, "ibv_query_qp");
	if (!ids->known) {
		ids->known = true;
		ids->attr = attr;
		ids->qp_num = own->qp_num;
		ids->window_rkey = connection->window_mr->rkey;
		ids->receive_lkey = connection->receive_mr->lkey;
		compare(connection, "dest_qp_num", attr.dest_qp_num, peer->qp_num);
		compare(connection, "dlid", attr.ah_attr.dlid, peer->lid);
	}
	compare(connection, "qp_num", qp->qp_num, ids->qp_num);
	compare(connection, "rkey", connection->window_mr->rkey, ids->window_rkey);
	compare(connection, "lkey", connection->receive_mr->lkey, ids->receive_lkey);
	compare(connection, "qp_state", attr.qp_state, IBV_QPS_RTS);
#define COMPARE(field) compare(connection, #field, attr.field, ids->attr.field)
	COMPARE(dest_qp_num);
	COMPARE(ah_attr.dlid);
	COMPARE(ah_attr.is_global);
	COMPARE(ah_attr.port_num);
	COMPARE(ah_attr.grh.sgid_index);
	COMPARE(ah_attr.grh.dgid.global.subnet_prefix);
	COMPARE(ah_attr.grh.dgid.global.interface_id);
	COMPARE(port_num);
	COMPARE(pkey_index);
	COMPARE(path_mtu);
	COMPARE(timeout);
	COMPARE(retry_cnt);
	COMPARE(rnr_retry);
	COMPARE(min_rnr_timer);
	COMPARE(qp_access_flags);
	COMPARE(max_rd_atomic);
	COMPARE(max_dest_rd_atomic);
	COMPARE(cap.max_send_wr);
	COMPARE(cap.max_recv_wr);
	COMPARE(cap.max_send_sge);
	COMPARE(cap.max_recv_sge);
	COMPARE(cap.max_inline_data);
#undef COMPARE
	/* Of XRC neither end has a receive queue, and the receiver has nothing of all that. */
	if (qp->qp_type != IBV_QPT_XRC_RECV &&
	    (init.send_cq != job->send_cq || init.recv_cq != (job->xrcd ? NULL : job->receive_cq) ||
	     qp->send_cq != job->send_cq || qp->pd != job->endpoint.pd))
		tally_found(&job->tally, FOUND_UNEXPECTED, 1,
			    "the queue pair to rank %d is of other queues than it was created with", connection->peer);
}

void verify_ids(struct connection *connection)
{
	struct queue *queue = &connection->queue;

	verify_port(connection);
	verify_queue(connection, queue->qp, &connection->sender_ids, &queue->own.sender, &queue->peer.receiver);
	if (queue->receiver != queue->qp)
		verify_queue(connection, queue->receiver, &connection->receiver_ids, &queue->own.receiver,
			     &queue->peer.sender);
}
