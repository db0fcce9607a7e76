/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "mock.h"
#include "shadowverbs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_query_port

#define CONTEXT_MAGIC 0xc0117e87u
#define CHANNEL_MAGIC 0xc4a77e10u
#define PD_MAGIC 0x9d9d9d9du
#define MR_MAGIC 0x17171717u
#define CQ_MAGIC 0xc9c9c9c9u
#define QP_MAGIC 0x99999999u
#define DM_MAGIC 0xd3d3d3d3u
#define SRQ_MAGIC 0x59595959u
#define MW_MAGIC 0x3b3b3b3bu
#define AH_MAGIC 0xa4a4a4a4u
#define XRCD_MAGIC 0x7c7c7c7cu

struct mock_context {
	unsigned magic;
	struct verbs_context ex;
	int async_write;
};

struct mock_channel {
	unsigned magic;
	struct ibv_comp_channel v;
	int write_fd;
};

struct mock_pd {
	unsigned magic;
	struct ibv_pd v;
};

struct mock_xrcd {
	unsigned magic;
	struct ibv_xrcd v;
};

struct mock_mw {
	unsigned magic;
	struct ibv_mw v;
};

struct mock_mr {
	unsigned magic;
	struct ibv_mr v;
};

int mock_fail_after = -1;
int mock_objects;
bool mock_completes_at_once;
unsigned mock_forbidden;
unsigned mock_hold;
bool mock_yields;
#define YIELDS_ONE_OF 16
uint32_t mock_advised[4];
unsigned mock_advices;

struct mock_ah {
	unsigned magic;
	struct ibv_ah v;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
uint32_t mock_next_qp_num = 0x100;
static uint32_t next_key = 0x1000, next_window = 0x500000, next_srq_number = 0x700;
static struct ibv_device device = { .node_type = IBV_NODE_CA, .name = "mock0", .dev_name = "mock-uverbs0" };

#define OBJECT(p, kind, constant)                                                               \
	({                                                                                      \
		struct kind *object = (struct kind *)((char *)(p) - offsetof(struct kind, v));  \
		if (object->magic != (constant))                                                \
			die(#kind);                                                             \
		object;                                                                         \
	})

static void die(const char *kind)
{
	fprintf(stderr, "mock: a struct that is no %s of mine\n", kind);
	abort();
}

static void *make(size_t size, unsigned magic)
{
	void *object = calloc(1, size);

	if (!object)
		abort();
	*(unsigned *)object = magic;
	__atomic_add_fetch(&mock_objects, 1, __ATOMIC_RELAXED);
	return object;
}

static void end(void *object, size_t size)
{
	memset(object, 0xdb, size);
	free(object);
	__atomic_sub_fetch(&mock_objects, 1, __ATOMIC_RELAXED);
}

static struct mock_context *context_of(struct ibv_context *v)
{
	struct mock_context *context = (struct mock_context *)((char *)v - offsetof(struct mock_context, ex.context));

	if (context->magic != CONTEXT_MAGIC)
		die("mock_context");
	return context;
}

struct mock_qp *mock_qp(struct ibv_qp *vqp)
{
	return OBJECT(sv_real(vqp), mock_qp, QP_MAGIC);
}

struct mock_cq *mock_cq(struct ibv_cq *vcq)
{
	return OBJECT(sv_real(vcq), mock_cq, CQ_MAGIC);
}

struct mock_srq *mock_srq(struct ibv_srq *vsrq)
{
	return OBJECT(sv_real(vsrq), mock_srq, SRQ_MAGIC);
}

/* ---- Data plane ------------------------------------------------------------------------------------------------- */

bool mock_events_late;

static void send_event(struct mock_cq *cq)
{
	struct ibv_cq *v = &cq->v;

	if (v->channel && write(OBJECT(v->channel, mock_channel, CHANNEL_MAGIC)->write_fd, &v, sizeof(v)) != sizeof(v))
		abort();
}

void mock_late_events(struct mock_cq *cq)
{
	for (; cq->late; cq->late--)
		send_event(cq);
}

static void event_if_armed(struct mock_cq *cq, const struct ibv_wc *wc)
{
	if (!cq->armed || (cq->armed == 1 && wc->status == IBV_WC_SUCCESS))
		return;
	cq->armed = 0;
	if (mock_events_late)
		cq->late++;
	else
		send_event(cq);
}

static void push(struct mock_cq *cq, const struct ibv_wc *wc)
{
	cq->ring[cq->tail++ % MOCK_RING] = *wc;
	if (cq->tail - cq->head > MOCK_RING)
		die("completion queue with room");
	event_if_armed(cq, wc);
}

static void complete_send(struct mock_qp *qp, enum ibv_wc_status status)
{
	struct ibv_send_wr *wr = &qp->send.requests[qp->send.completed++ % MOCK_RING].send;
	struct ibv_wc wc = {
		.wr_id = wr->wr_id,
		.status = status,
		.opcode = IBV_WC_SEND,
		.qp_num = qp->v.qp_num,
		.src_qp = 0xbad,
		.slid = 0xbad,
	};

	if (status || qp->signal_all || (wr->send_flags & IBV_SEND_SIGNALED))
		push(OBJECT(qp->v.send_cq, mock_cq, CQ_MAGIC), &wc);
}

static void take_receive(struct mock_qp *qp, struct ibv_cq *cq, const struct mock_request *request,
			 enum ibv_wc_status status, uint32_t byte_len)
{
	struct ibv_wc wc = {
		.wr_id = request->recv.wr_id,
		.status = status,
		.opcode = IBV_WC_RECV,
		.byte_len = byte_len,
		.qp_num = qp->v.qp_num,
		.src_qp = 0xbad,
		.slid = 0xbad,
	};

	push(OBJECT(cq, mock_cq, CQ_MAGIC), &wc);
}

static void complete_recv(struct mock_qp *qp, enum ibv_wc_status status, uint32_t byte_len)
{
	take_receive(qp, qp->v.recv_cq, &qp->recv.requests[qp->recv.completed++ % MOCK_RING], status, byte_len);
}

static void check_permitted(void)
{
	if (__atomic_load_n(&mock_forbidden, __ATOMIC_SEQ_CST))
		die("verb that the gate let through");
}

static int poll_cq(struct ibv_cq *v, int count, struct ibv_wc *wc)
{
	struct mock_cq *cq = OBJECT(v, mock_cq, CQ_MAGIC);
	int given = 0;

	check_permitted();
	pthread_mutex_lock(&lock);
	while (given < count && cq->head != cq->tail)
		wc[given++] = cq->ring[cq->head++ % MOCK_RING];
	pthread_mutex_unlock(&lock);
	return given;
}

/* Fields that were not asked for have no function; between start and end the queue is in use. */
static int next_poll(struct ibv_cq_ex *v)
{
	struct mock_cq *cq = OBJECT((struct ibv_cq *)v, mock_cq, CQ_MAGIC);

	if (!poll_cq(&cq->v, 1, &cq->current))
		return ENOENT;
	v->wr_id = cq->current.wr_id;
	v->status = cq->current.status;
	cq->timestamp = 1000 + cq->head - 1;
	return 0;
}

static int start_poll(struct ibv_cq_ex *v, struct ibv_poll_cq_attr *attr)
{
	struct mock_cq *cq = OBJECT((struct ibv_cq *)v, mock_cq, CQ_MAGIC);

	if (attr->comp_mask || cq->polled)
		die("poll that was ended");
	if (next_poll(v))
		return ENOENT;
	cq->polled = true;
	return 0;
}

static void end_poll(struct ibv_cq_ex *v)
{
	struct mock_cq *cq = OBJECT((struct ibv_cq *)v, mock_cq, CQ_MAGIC);

	if (!cq->polled)
		die("poll that was started");
	cq->polled = false;
}

#define READER(type, name, field)                                                               \
	static type read_##name(struct ibv_cq_ex *v)                                            \
	{                                                                                       \
		struct mock_cq *cq = OBJECT((struct ibv_cq *)v, mock_cq, CQ_MAGIC);             \
		return cq->polled ? (type)(cq->field) : (die("poll under way"), (type)0);       \
	}
READER(enum ibv_wc_opcode, opcode, current.opcode)
READER(uint32_t, vendor_err, current.vendor_err)
READER(uint32_t, byte_len, current.byte_len)
READER(__be32, imm_data, current.imm_data)
READER(unsigned int, wc_flags, current.wc_flags)
READER(uint32_t, src_qp, current.src_qp)
READER(uint32_t, slid, current.slid)
READER(uint64_t, completion_ts, timestamp)

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *v, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *ex;

	if (attr->wc_flags & ~(uint64_t)(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)) {
		errno = ENOSYS;
		return NULL;
	}
	ex = (struct ibv_cq_ex *)ibv_create_cq(v, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector);
	OBJECT((struct ibv_cq *)ex, mock_cq, CQ_MAGIC)->extended = true;
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
	if (attr->wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		ex->read_byte_len = read_byte_len;
	if (attr->wc_flags & IBV_WC_EX_WITH_IMM)
		ex->read_imm_data = read_imm_data;
	if (attr->wc_flags & IBV_WC_EX_WITH_SRC_QP)
		ex->read_src_qp = read_src_qp;
	if (attr->wc_flags & IBV_WC_EX_WITH_SLID)
		ex->read_slid = read_slid;
	if (attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		ex->read_completion_ts = read_completion_ts;
	return ex;
}

static int modify_cq(struct ibv_cq *v, struct ibv_modify_cq_attr *attr)
{
	struct mock_cq *cq = OBJECT(v, mock_cq, CQ_MAGIC);

	if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
		return EINVAL;
	cq->moderation[0] = attr->moderate.cq_count;
	cq->moderation[1] = attr->moderate.cq_period;
	return 0;
}

static int req_notify_cq(struct ibv_cq *v, int solicited_only)
{
	struct mock_cq *cq = OBJECT(v, mock_cq, CQ_MAGIC);

	pthread_mutex_lock(&lock);
	cq->armed = solicited_only && cq->armed != 2 ? 1 : 2;
	cq->arms++;
	pthread_mutex_unlock(&lock);
	return 0;
}

static bool fails(void)
{
	if (mock_fail_after < 0)
		return false;
	return mock_fail_after-- == 0;
}

static void copy_sges(struct mock_request *request, const struct ibv_sge *list, int count)
{
	if (count > MOCK_SGES)
		die("list of so many SGEs");
	for (int i = 0; i < count; i++)
		request->sges[i] = list[i];
}

/* Where the next request of this queue is kept. */
static struct mock_request *next_place(struct mock_queue *queue)
{
	if (queue->posted - queue->completed >= MOCK_RING) {
		fprintf(stderr, "mock: more than %d requests of a queue have not completed\n", MOCK_RING);
		abort();
	}
	return &queue->requests[queue->posted % MOCK_RING];
}

static int post_send_alone(struct mock_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_qp *v = &qp->v;

	pthread_mutex_lock(&lock);
	for (; wr; wr = wr->next) {
		struct mock_request *request = next_place(&qp->send);

		if (fails() || v->state < IBV_QPS_RTS) {
			*bad = wr;
			pthread_mutex_unlock(&lock);
			return v->state < IBV_QPS_RTS ? EINVAL : ENOSPC;
		}
		if (v->qp_type == IBV_QPT_UD)
			OBJECT(wr->wr.ud.ah, mock_ah, AH_MAGIC);
		request->send = *wr;
		request->payload_length = 0;
		copy_sges(request, wr->sg_list, wr->num_sge);
		for (int i = 0; (wr->send_flags & IBV_SEND_INLINE) && i < wr->num_sge; i++) {
			memcpy(request->payload + request->payload_length, (void *)(uintptr_t)wr->sg_list[i].addr,
			       wr->sg_list[i].length);
			request->payload_length += wr->sg_list[i].length;
		}
		qp->send.posted++;
		if (mock_completes_at_once)
			complete_send(qp, IBV_WC_SUCCESS);
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

static int post_send(struct ibv_qp *v, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct mock_qp *qp = OBJECT(v, mock_qp, QP_MAGIC);
	int err;

	check_permitted();
	if (__atomic_add_fetch(&qp->users, 1, __ATOMIC_SEQ_CST) != 1)
		die("send queue with one thread in it");
	while (__atomic_load_n(&mock_hold, __ATOMIC_SEQ_CST))
		usleep(1000);
	err = post_send_alone(qp, wr, bad);
	__atomic_sub_fetch(&qp->users, 1, __ATOMIC_SEQ_CST);
	return err;
}

static void queue_receive(struct mock_queue *queue, const struct ibv_recv_wr *wr)
{
	struct mock_request *request = next_place(queue);

	queue->posted++;
	request->recv = *wr;
	copy_sges(request, wr->sg_list, wr->num_sge);
}

static int post_srq_recv(struct ibv_srq *v, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct mock_srq *srq = OBJECT(v, mock_srq, SRQ_MAGIC);
	int err = 0;

	check_permitted();
	if (__atomic_add_fetch(&srq->inside, 1, __ATOMIC_SEQ_CST) != 1)
		die("shared receive queue with one thread in it");
	/* On a busy machine it is long before this thread runs again. */
	if (mock_yields && srq->posts++ % YIELDS_ONE_OF == 0)
		sched_yield();
	pthread_mutex_lock(&lock);
	for (; wr && !err; wr = wr->next) {
		if (fails()) {
			*bad = wr;
			err = ENOSPC;
		} else {
			queue_receive(&srq->recv, wr);
		}
	}
	pthread_mutex_unlock(&lock);
	__atomic_sub_fetch(&srq->inside, 1, __ATOMIC_SEQ_CST);
	return err;
}

static void complete_shared(struct mock_srq *srq, unsigned number, struct mock_qp *qp, enum ibv_wc_status status,
			    uint32_t byte_len)
{
	take_receive(qp, srq->cq ? srq->cq : qp->v.recv_cq, &srq->recv.requests[number % MOCK_RING], status, byte_len);
	srq->recv.completed++;
}

void mock_complete_shared(struct mock_srq *srq, unsigned number, struct mock_qp *qp, enum ibv_wc_status status,
			  uint32_t byte_len)
{
	pthread_mutex_lock(&lock);
	complete_shared(srq, number, qp, status, byte_len);
	pthread_mutex_unlock(&lock);
}

void mock_complete_shared_oldest(struct mock_srq *srq, struct mock_qp *qp)
{
	pthread_mutex_lock(&lock);
	complete_shared(srq, srq->recv.completed, qp, IBV_WC_SUCCESS, 1);
	pthread_mutex_unlock(&lock);
}

static int post_recv(struct ibv_qp *v, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct mock_qp *qp = OBJECT(v, mock_qp, QP_MAGIC);

	check_permitted();
	pthread_mutex_lock(&lock);
	for (; wr; wr = wr->next) {
		if (fails() || v->state == IBV_QPS_RESET) {
			*bad = wr;
			pthread_mutex_unlock(&lock);
			return v->state == IBV_QPS_RESET ? EINVAL : ENOSPC;
		}
		queue_receive(&qp->recv, wr);
		if (mock_completes_at_once)
			complete_recv(qp, IBV_WC_SUCCESS, 1);
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

unsigned mock_polled(struct mock_cq *cq)
{
	unsigned polled;

	pthread_mutex_lock(&lock);
	polled = cq->head;
	pthread_mutex_unlock(&lock);
	return polled;
}

void mock_push(struct mock_cq *cq, const struct ibv_wc *wc)
{
	pthread_mutex_lock(&lock);
	push(cq, wc);
	pthread_mutex_unlock(&lock);
}

void mock_complete_sends(struct mock_qp *qp, unsigned count, enum ibv_wc_status status)
{
	pthread_mutex_lock(&lock);
	while (count--)
		complete_send(qp, status);
	pthread_mutex_unlock(&lock);
}

void mock_complete_recvs(struct mock_qp *qp, unsigned count, enum ibv_wc_status status, uint32_t byte_len)
{
	pthread_mutex_lock(&lock);
	while (count--)
		complete_recv(qp, status, byte_len);
	pthread_mutex_unlock(&lock);
}

void mock_receive(struct mock_qp *qp, const void *bytes, uint32_t length)
{
	struct mock_request *request = &qp->recv.requests[qp->recv.completed % MOCK_RING];

	if (length)
		memcpy((void *)(uintptr_t)request->sges[0].addr, bytes, length);
	mock_complete_recvs(qp, 1, IBV_WC_SUCCESS, length);
}

/* ---- Objects ---------------------------------------------------------------------------------------------------- */

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	list[0] = &device;
	if (count)
		*count = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

__be64 ibv_get_device_guid(struct ibv_device *v)
{
	if (v != &device)
		die("device");
	return 0x1122334455667788;
}

int ibv_get_device_index(struct ibv_device *v)
{
	return v == &device ? 7 : -1;
}

const char *ibv_get_device_name(struct ibv_device *v)
{
	return v->name;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status == IBV_WC_SUCCESS ? "success" : "failure";
}

int ibv_fork_init(void)
{
	return 0;
}

static int query_port(struct ibv_context *v, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct ibv_port_attr full = { .state = IBV_PORT_ACTIVE, .lid = 0x11, .port_cap_flags2 = 0x7777 };

	context_of(v);
	if (port != 1)
		return EINVAL;
	memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
	return 0;
}

int ibv_close_device(struct ibv_context *v)
{
	struct mock_context *context = context_of(v);

	close(v->async_fd);
	close(context->async_write);
	end(context, sizeof(*context));
	return 0;
}

int ibv_query_device(struct ibv_context *v, struct ibv_device_attr *attr)
{
	context_of(v);
	memset(attr, 0, sizeof(*attr));
	attr->max_qp = 42;
	return 0;
}

int ibv_query_gid(struct ibv_context *v, uint8_t port, int index, union ibv_gid *gid)
{
	context_of(v);
	if (port != 1 || index) {
		errno = EINVAL;
		return -1;
	}
	memset(gid, 0xab, sizeof(*gid));
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *v)
{
	struct mock_pd *pd;

	context_of(v);
	pd = make(sizeof(*pd), PD_MAGIC);
	pd->v.context = v;
	return &pd->v;
}

int ibv_dealloc_pd(struct ibv_pd *v)
{
	end(OBJECT(v, mock_pd, PD_MAGIC), sizeof(struct mock_pd));
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *v, void *addr, size_t length, int access)
{
	struct mock_mr *mr;

	(void)access;
	OBJECT(v, mock_pd, PD_MAGIC);
	if (!length) {
		errno = EINVAL;
		return NULL;
	}
	mr = make(sizeof(*mr), MR_MAGIC);
	mr->v.context = v->context;
	mr->v.pd = v;
	mr->v.addr = addr;
	mr->v.length = length;
	mr->v.lkey = next_key += 0x100;
	mr->v.rkey = mr->v.lkey + 1;
	return &mr->v;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *v, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	(void)iova;
	return ibv_reg_mr(v, addr, length, access);
}

int ibv_dereg_mr(struct ibv_mr *v)
{
	end(OBJECT(v, mock_mr, MR_MAGIC), sizeof(struct mock_mr));
	return 0;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *v, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)iova;
	if (fd < 0) {
		errno = EBADF;
		return NULL;
	}
	return ibv_reg_mr(v, (void *)(uintptr_t)offset, length, access);
}

static struct ibv_mr *alloc_null_mr(struct ibv_pd *v)
{
	struct ibv_mr *mr = ibv_reg_mr(v, NULL, 1, 0);

	mr->length = 0;
	return mr;
}

/* As some devices do, it copies whole words only. */
static int memcpy_to_dm(struct ibv_dm *v, uint64_t offset, const void *host, size_t length)
{
	struct mock_dm *dm = OBJECT(v, mock_dm, DM_MAGIC);

	check_permitted();
	if ((offset | length) % 4 || offset + length > dm->length)
		return EINVAL;
	memcpy(dm->bytes + offset, host, length);
	return 0;
}

static int memcpy_from_dm(void *host, struct ibv_dm *v, uint64_t offset, size_t length)
{
	struct mock_dm *dm = OBJECT(v, mock_dm, DM_MAGIC);

	check_permitted();
	if ((offset | length) % 4 || offset + length > dm->length)
		return EINVAL;
	memcpy(host, dm->bytes + offset, length);
	return 0;
}

static struct ibv_dm *alloc_dm(struct ibv_context *v, struct ibv_alloc_dm_attr *attr)
{
	struct mock_dm *dm;

	if (attr->length > sizeof(dm->bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	dm = make(sizeof(*dm), DM_MAGIC);
	dm->v.context = v;
	dm->v.memcpy_to_dm = memcpy_to_dm;
	dm->v.memcpy_from_dm = memcpy_from_dm;
	dm->length = attr->length;
	return &dm->v;
}

static int free_dm(struct ibv_dm *v)
{
	end(OBJECT(v, mock_dm, DM_MAGIC), sizeof(struct mock_dm));
	return 0;
}

static struct ibv_mr *reg_dm_mr(struct ibv_pd *v, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned access)
{
	OBJECT(dm, mock_dm, DM_MAGIC);
	(void)offset;
	return ibv_reg_mr(v, NULL, length, access);
}

static struct ibv_mw *alloc_mw(struct ibv_pd *v, enum ibv_mw_type type)
{
	struct mock_mw *mw;

	OBJECT(v, mock_pd, PD_MAGIC);
	mw = make(sizeof(*mw), MW_MAGIC);
	mw->v.context = v->context;
	mw->v.pd = v;
	mw->v.type = type;
	next_window += 0x100;
	mw->v.rkey = next_window + next_window / 0x100 % 7;
	return &mw->v;
}

static int dealloc_mw(struct ibv_mw *v)
{
	end(OBJECT(v, mock_mw, MW_MAGIC), sizeof(struct mock_mw));
	return 0;
}

/* It looks like a request of type 2 in the queue. */
static int bind_mw(struct ibv_qp *v, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
	}, *bad;
	int err;

	OBJECT(mw, mock_mw, MW_MAGIC);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = bind->bind_info;
	err = post_send(v, &wr, &bad);
	if (!err)
		mw->rkey = wr.bind_mw.rkey;
	return err;
}

static int advise_mr(struct ibv_pd *v, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list,
		     uint32_t count)
{
	(void)advice;
	(void)flags;
	OBJECT(v, mock_pd, PD_MAGIC);
	for (uint32_t i = 0; i < count; i++)
		mock_advised[mock_advices++ % 4] = list[i].lkey;
	return list->length ? 0 : ENOENT;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *v)
{
	struct mock_channel *channel;
	int fds[2];

	context_of(v);
	if (pipe(fds))
		return NULL;
	channel = make(sizeof(*channel), CHANNEL_MAGIC);
	channel->v.context = v;
	channel->v.fd = fds[0];
	channel->write_fd = fds[1];
	return &channel->v;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *v)
{
	struct mock_channel *channel = OBJECT(v, mock_channel, CHANNEL_MAGIC);

	if (v->refcnt)
		return EBUSY;
	close(v->fd);
	close(channel->write_fd);
	end(channel, sizeof(*channel));
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *v, struct ibv_cq **cq, void **cq_context)
{
	OBJECT(v, mock_channel, CHANNEL_MAGIC);
	if (read(v->fd, cq, sizeof(*cq)) != sizeof(*cq))
		return -1;
	OBJECT(*cq, mock_cq, CQ_MAGIC);
	*cq_context = (*cq)->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *v, unsigned int count)
{
	OBJECT(v, mock_cq, CQ_MAGIC);
	v->comp_events_completed += count;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *v, int cqe, void *cq_context, struct ibv_comp_channel *channel,
			     int vector)
{
	struct mock_cq *cq;

	context_of(v);
	(void)vector;
	cq = make(sizeof(*cq), CQ_MAGIC);
	cq->v.context = v;
	cq->v.channel = channel;
	cq->v.cq_context = cq_context;
	cq->v.cqe = cqe;
	if (channel)
		OBJECT(channel, mock_channel, CHANNEL_MAGIC)->v.refcnt++;
	return &cq->v;
}

int ibv_destroy_cq(struct ibv_cq *v)
{
	struct mock_cq *cq = OBJECT(v, mock_cq, CQ_MAGIC);

	if (v->channel)
		v->channel->refcnt--;
	end(cq, sizeof(*cq));
	return 0;
}

int ibv_resize_cq(struct ibv_cq *v, int cqe)
{
	OBJECT(v, mock_cq, CQ_MAGIC);
	v->cqe = cqe;
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *v, struct ibv_qp_init_attr *attr)
{
	struct mock_qp *qp;

	OBJECT(v, mock_pd, PD_MAGIC);
	qp = make(sizeof(*qp), QP_MAGIC);
	qp->v.context = v->context;
	qp->v.qp_context = attr->qp_context;
	qp->v.pd = v;
	qp->v.send_cq = attr->send_cq;
	qp->v.recv_cq = attr->recv_cq;
	qp->v.srq = attr->srq;
	if (attr->srq)
		OBJECT(attr->srq, mock_srq, SRQ_MAGIC)->users++;
	qp->v.qp_num = mock_next_qp_num++;
	qp->v.qp_type = attr->qp_type;
	qp->signal_all = attr->sq_sig_all;
	return &qp->v;
}

int ibv_modify_qp(struct ibv_qp *v, struct ibv_qp_attr *attr, int mask)
{
	struct mock_qp *qp = OBJECT(v, mock_qp, QP_MAGIC);

	if (mask & IBV_QP_STATE) {
		v->state = attr->qp_state;
		if (v->state == IBV_QPS_RESET)
			qp->send.posted = qp->send.completed = qp->recv.posted = qp->recv.completed = 0;
		if (v->state == IBV_QPS_ERR && qp->flushes)
			mock_complete_sends(qp, qp->send.posted - qp->send.completed, IBV_WC_WR_FLUSH_ERR);
	}
	qp->attr = *attr;
	return 0;
}

static int modify_qp_rate_limit(struct ibv_qp *v, struct ibv_qp_rate_limit_attr *attr)
{
	OBJECT(v, mock_qp, QP_MAGIC)->limit = *attr;
	return attr->rate_limit ? 0 : ERANGE;
}

int ibv_query_qp(struct ibv_qp *v, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	(void)mask;
	*attr = OBJECT(v, mock_qp, QP_MAGIC)->attr;
	attr->qp_state = v->state;
	memset(init, 0, sizeof(*init));
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *v)
{
	if (v->srq)
		OBJECT(v->srq, mock_srq, SRQ_MAGIC)->users--;
	end(OBJECT(v, mock_qp, QP_MAGIC), sizeof(struct mock_qp));
	return 0;
}

static struct ibv_xrcd *open_xrcd(struct ibv_context *v, struct ibv_xrcd_init_attr *attr)
{
	struct mock_xrcd *xrcd = make(sizeof(*xrcd), XRCD_MAGIC);

	(void)attr;
	xrcd->v.context = v;
	return &xrcd->v;
}

static int close_xrcd(struct ibv_xrcd *v)
{
	end(OBJECT(v, mock_xrcd, XRCD_MAGIC), sizeof(struct mock_xrcd));
	return 0;
}

static struct ibv_srq *create_srq_ex(struct ibv_context *v, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq *srq = ibv_create_srq(attr->pd, (struct ibv_srq_init_attr *)attr);

	(void)v;
	OBJECT(attr->xrcd, mock_xrcd, XRCD_MAGIC);
	OBJECT(attr->cq, mock_cq, CQ_MAGIC);
	OBJECT(srq, mock_srq, SRQ_MAGIC)->cq = attr->cq;
	OBJECT(srq, mock_srq, SRQ_MAGIC)->number = next_srq_number++;
	return srq;
}

static int get_srq_num(struct ibv_srq *v, uint32_t *number)
{
	*number = OBJECT(v, mock_srq, SRQ_MAGIC)->number;
	return 0;
}

/* The receive QPs of XRC; the others are made the plain way. */
static struct ibv_qp *create_qp_ex(struct ibv_context *v, struct ibv_qp_init_attr_ex *attr)
{
	struct mock_qp *qp = make(sizeof(*qp), QP_MAGIC);

	OBJECT(attr->xrcd, mock_xrcd, XRCD_MAGIC);
	qp->v.context = v;
	qp->v.qp_context = attr->qp_context;
	qp->v.qp_num = mock_next_qp_num++;
	qp->v.qp_type = attr->qp_type;
	return &qp->v;
}

/* A handle without queues. */
static struct ibv_qp *open_qp(struct ibv_context *v, struct ibv_qp_open_attr *attr)
{
	struct mock_qp *qp = make(sizeof(*qp), QP_MAGIC);

	OBJECT(attr->xrcd, mock_xrcd, XRCD_MAGIC);
	qp->v.context = v;
	qp->v.qp_context = attr->qp_context;
	qp->v.qp_num = attr->qp_num;
	qp->v.qp_type = attr->qp_type;
	return &qp->v;
}

/* What programs of 2006 get. */
struct ibv_context *open_device_of_1_0(struct ibv_device *v);
__attribute__((symver("ibv_open_device@IBVERBS_1.0"))) struct ibv_context *open_device_of_1_0(struct ibv_device *v)
{
	(void)v;
	die("version");
	return NULL;
}

struct ibv_context *ibv_open_device(struct ibv_device *v)
{
	struct mock_context *context;
	int fds[2];

	if (v != &device)
		die("device");
	if (pipe(fds))
		return NULL;
	context = make(sizeof(*context), CONTEXT_MAGIC);
	context->async_write = fds[1];
	context->ex.sz = sizeof(context->ex);
	context->ex.query_port = query_port;
	context->ex.create_cq_ex = create_cq_ex;
	context->ex.modify_cq = modify_cq;
	context->ex.open_xrcd = open_xrcd;
	context->ex.close_xrcd = close_xrcd;
	context->ex.create_srq_ex = create_srq_ex;
	context->ex.get_srq_num = get_srq_num;
	context->ex.create_qp_ex = create_qp_ex;
	context->ex.open_qp = open_qp;
	context->ex.modify_qp_rate_limit = modify_qp_rate_limit;
	context->ex.alloc_null_mr = alloc_null_mr;
	context->ex.alloc_dm = alloc_dm;
	context->ex.free_dm = free_dm;
	context->ex.reg_dm_mr = reg_dm_mr;
	context->ex.advise_mr = advise_mr;
	context->ex.context.device = v;
	context->ex.context.ops.poll_cq = poll_cq;
	context->ex.context.ops.req_notify_cq = req_notify_cq;
	context->ex.context.ops.post_send = post_send;
	context->ex.context.ops.post_recv = post_recv;
	context->ex.context.ops.post_srq_recv = post_srq_recv;
	context->ex.context.ops.alloc_mw = alloc_mw;
	context->ex.context.ops.bind_mw = bind_mw;
	context->ex.context.ops.dealloc_mw = dealloc_mw;
	context->ex.context.async_fd = fds[0];
	context->ex.context.num_comp_vectors = 3;
	context->ex.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	return &context->ex.context;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *v, struct ibv_ah_attr *attr)
{
	struct mock_ah *ah;

	(void)attr;
	OBJECT(v, mock_pd, PD_MAGIC);
	ah = make(sizeof(*ah), AH_MAGIC);
	ah->v.context = v->context;
	ah->v.pd = v;
	return &ah->v;
}

int ibv_destroy_ah(struct ibv_ah *v)
{
	end(OBJECT(v, mock_ah, AH_MAGIC), sizeof(struct mock_ah));
	return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *v, struct ibv_srq_init_attr *attr)
{
	struct mock_srq *srq;

	OBJECT(v, mock_pd, PD_MAGIC);
	srq = make(sizeof(*srq), SRQ_MAGIC);
	srq->v.context = v->context;
	srq->v.srq_context = attr->srq_context;
	srq->v.pd = v;
	return &srq->v;
}

int ibv_modify_srq(struct ibv_srq *v, struct ibv_srq_attr *attr, int mask)
{
	if (mask & IBV_SRQ_LIMIT)
		OBJECT(v, mock_srq, SRQ_MAGIC)->limit = attr->srq_limit;
	return 0;
}

int ibv_query_srq(struct ibv_srq *v, struct ibv_srq_attr *attr)
{
	attr->srq_limit = OBJECT(v, mock_srq, SRQ_MAGIC)->limit;
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *v)
{
	struct mock_srq *srq = OBJECT(v, mock_srq, SRQ_MAGIC);

	if (srq->users)
		return EBUSY;
	end(srq, sizeof(*srq));
	return 0;
}

/* ---- Asynchronous events ---------------------------------------------------------------------------------------- */

void mock_async_event(struct ibv_context *vcontext, enum ibv_event_type type, void *real_element)
{
	struct mock_context *context = context_of(sv_real(vcontext));
	struct ibv_async_event event = { .element.qp = real_element, .event_type = type };

	if (write(context->async_write, &event, sizeof(event)) != sizeof(event))
		abort();
}

int ibv_get_async_event(struct ibv_context *v, struct ibv_async_event *event)
{
	context_of(v);
	return read(v->async_fd, event, sizeof(*event)) == sizeof(*event) ? 0 : -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	if (event->event_type == IBV_EVENT_CQ_ERR)
		OBJECT(event->element.cq, mock_cq, CQ_MAGIC);
}
