/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of librdmacm's ids, and their end when a restart has taken the connection manager from them: who disconnects,
 * destroys its id or ends has the driver tell the peer, and each end gets its RDMA_CM_EVENT_DISCONNECTED from us.
 */
#include "base/arena.h"
#include "cm/cm_channel.h"
#include "control/control.h"

/* The connection of an id that has a QP of its own. */
struct connection {
	struct connection *next;
	struct rdma_cm_id *id;
	struct ibv_qp *qp;		/* which may have been destroyed */
	bool asked;			/* the driver was asked to tell the peer */
	bool ended;			/* the program has its RDMA_CM_EVENT_DISCONNECTED */
};

static struct connection *connections;	/* sv_cm_lock */

static struct connection *connection_locked(const struct rdma_cm_id *id)
{
	struct connection *connection;

	for (connection = connections; connection && connection->id != id; connection = connection->next)
		;
	return connection;
}

static void note(struct rdma_cm_id *id)
{
	struct connection *connection = id->qp ? sv_block_alloc(sizeof(*connection)) : NULL;

	if (!connection)
		return;
	connection->id = id;
	connection->qp = id->qp;
	pthread_mutex_lock(&sv_cm_lock);
	connection->next = connections;
	connections = connection;
	pthread_mutex_unlock(&sv_cm_lock);
}

static void forget(const struct rdma_cm_id *id)
{
	struct connection **at = &connections, *connection;

	pthread_mutex_lock(&sv_cm_lock);
	while ((connection = *at)) {
		if (connection->id != id) {
			at = &connection->next;
			continue;
		}
		*at = connection->next;
		sv_block_free(connection, sizeof(*connection));
	}
	pthread_mutex_unlock(&sv_cm_lock);
}

#define CONNECT(name)                                                           \
	int name(struct rdma_cm_id *id, struct rdma_conn_param *param)          \
	{                                                                       \
		static int said;                                                \
		int result = -1;                                                \
										\
		sv_cm_enter();                                                  \
		if (sv_cm_is_lost(id->channel))                                 \
			sv_cm_refuse(#name, &said);                             \
		else                                                            \
			result = CM_REAL(name)(id, param);                      \
		if (!result) {                                                  \
			note(id);                                               \
			sv_cm_use(id->channel);                                 \
		}                                                               \
		sv_cm_leave();                                                  \
		return result;                                                  \
	}
CONNECT(rdma_connect)
CONNECT(rdma_accept)

/* The status is in the upper half. */
static int keep_disconnected(struct sv_cm_channel *channel, struct rdma_cm_id *id, int status)
{
	int err;

	pthread_mutex_lock(&channel->events.mutex);
	err = sv_events_keep(&channel->events,
			     (struct sv_event){ id, RDMA_CM_EVENT_DISCONNECTED | (uint64_t)(uint32_t)status << 32 });
	pthread_mutex_unlock(&channel->events.mutex);
	return err;
}

/* Has the peer told, if nobody has begun to. False: there is no such connection. */
static bool end_connection(struct rdma_cm_id *id)
{
	struct connection *connection;
	uint64_t token = 0;

	pthread_mutex_lock(&sv_cm_lock);
	connection = connection_locked(id);
	if (connection && !connection->asked && !connection->ended) {
		connection->asked = true;
		token = SV_POINTER(connection->qp);
	}
	pthread_mutex_unlock(&sv_cm_lock);
	if (token && SV_CONTROL(SV_OP_CM_DISCONNECT, "rdma_disconnect", NULL, token))
		sv_cm_ended(token, -ETIMEDOUT);
	return connection;
}

uint32_t sv_cm_lost(uint64_t *tokens, uint32_t room)
{
	uint32_t count = 0;

	pthread_mutex_lock(&sv_cm_lock);
	for (const struct connection *connection = connections; connection; connection = connection->next) {
		const struct sv_cm_channel *channel = sv_cm_channel_locked(connection->id->channel);

		if (!channel || !channel->lost || connection->asked || connection->ended)
			continue;
		if (count < room)
			tokens[count] = SV_POINTER(connection->qp);
		count++;
	}
	pthread_mutex_unlock(&sv_cm_lock);
	return count;
}

void sv_cm_ended(uint64_t token, int status)
{
	pthread_mutex_lock(&sv_cm_lock);
	for (struct connection *connection = connections; connection; connection = connection->next) {
		struct sv_cm_channel *channel = sv_cm_channel_locked(connection->id->channel);

		if (SV_POINTER(connection->qp) != token || connection->ended || !channel || !channel->lost)
			continue;
		connection->ended = !keep_disconnected(channel, connection->id, status);
		break;
	}
	pthread_mutex_unlock(&sv_cm_lock);
}

/* The queue pair is disconnected. The event comes when the peer has been told, or cannot be. */
static int disconnect_lost(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int err = id->qp ? ibv_modify_qp(id->qp, &attr, IBV_QP_STATE) : 0;

	if (!err && !end_connection(id))
		err = keep_disconnected(sv_cm_channel_of(id->channel), id, -ETIMEDOUT);
	if (!err)
		return 0;
	errno = err;
	return -1;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	int result;

	sv_cm_enter();
	result = sv_cm_is_lost(id->channel) ? disconnect_lost(id) : CM_REAL(rdma_disconnect)(id);
	sv_cm_leave();
	return result;
}

/* The kernel does not know a lost id, and without the kernel librdmacm cannot free its memory of it. */
int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct sv_cm_channel *channel;
	int result = 0;

	sv_cm_enter();
	channel = sv_cm_channel_of(id->channel);
	if (channel && channel->lost)
		end_connection(id);
	forget(id);
	if (channel && channel->lost) {
		pthread_mutex_lock(&channel->events.mutex);
		sv_events_forget(&channel->events, id);
		pthread_mutex_unlock(&channel->events.mutex);
	} else {
		result = CM_REAL(rdma_destroy_id)(id);
	}
	sv_cm_leave();
	return result;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	sv_cm_enter();
	if (sv_cm_is_lost(id->channel))
		end_connection(id);
	forget(id);
	CM_REAL(rdma_destroy_ep)(id);
	sv_cm_leave();
}
