/*
 * fault.so: preloaded under a program, it does to one request what must never happen, so that tests can show that the
 * program finds it. FAULT=<what>-<which>:
 *   drop     the request is not posted              double   it is posted twice
 *   replay   a WRITE is posted again, with the bytes of then, some requests later, REPLAYS times
 *   damage   a bit of its bytes is changed; a READ reads 8 bytes further on
 * <which> is what it says in fits().
 * It happens to the first fit request after SKIP, in each process.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SKIP 200
#define REPLAY_EVERY 12
#define REPLAYS 1000

static struct {
	char what[16], which[16];
	bool done;
	unsigned long seen, replay_at;
	struct ibv_send_wr replay;
	struct ibv_sge replay_sge;
	int replays;
	pthread_mutex_t lock;
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
} fault = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t length_of(const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	return length;
}

static bool fits(const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	uint64_t length = length_of(wr);

	if (!strcmp(fault.which, "datagram"))
		return qp->qp_type == IBV_QPT_UD;
	if (!strcmp(fault.which, "uc"))
		return qp->qp_type == IBV_QPT_UC;
	if (qp->qp_type == IBV_QPT_UD || qp->qp_type == IBV_QPT_UC)
		return false;
	if (!strcmp(fault.which, "empty"))
		return wr->opcode == IBV_WR_SEND && length == 0;
	if (!strcmp(fault.which, "send"))
		return wr->opcode == IBV_WR_SEND && length > 200 && length < 2048;
	if (!strcmp(fault.which, "write"))
		return wr->opcode == IBV_WR_RDMA_WRITE && length > 32;
	if (!strcmp(fault.which, "read"))
		return wr->opcode == IBV_WR_RDMA_READ && length > 32;
	if (!strcmp(fault.which, "add"))
		return wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	if (!strcmp(fault.which, "bind"))
		return wr->opcode == IBV_WR_BIND_MW;
	return !strcmp(fault.which, "swap") && wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static int post_one(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	wr->next = NULL;
	return fault.post_send(qp, wr, &bad);
}

/* A copy of the request and of its bytes: both are the program's again before it is replayed. */
static void keep_for_replay(struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	unsigned char *bytes = malloc(length_of(wr)), *to = bytes;
	struct ibv_mr *mr = ibv_reg_mr(qp->pd, bytes, length_of(wr), IBV_ACCESS_LOCAL_WRITE);

	if (!mr)
		abort();
	for (int i = 0; i < wr->num_sge; i++) {
		memcpy(to, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
	fault.replay = *wr;
	fault.replay_sge = (struct ibv_sge){ .addr = (uintptr_t)bytes, .length = length_of(wr), .lkey = mr->lkey };
	fault.replay.sg_list = &fault.replay_sge;
	fault.replay.num_sge = 1;
	fault.replay.next = NULL;
	fault.replay.send_flags = 0;
	fault.replay_at = fault.seen + REPLAY_EVERY;
}

static int commit(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	int err;

	if (!strcmp(fault.what, "drop")) {
		/* Whoever waits for its completion would hang: only an unsignaled one vanishes without a trace. */
		if (wr->send_flags & IBV_SEND_SIGNALED) {
			fault.done = false;
			return post_one(qp, wr);
		}
		return 0;
	}
	if (!strcmp(fault.what, "double")) {
		unsigned int flags = wr->send_flags;

		wr->send_flags &= ~IBV_SEND_SIGNALED;
		err = post_one(qp, wr);
		wr->send_flags = flags;
		return err ? err : post_one(qp, wr);
	}
	if (!strcmp(fault.what, "replay")) {
		keep_for_replay(qp, wr);
	} else if (wr->opcode == IBV_WR_RDMA_READ) {
		wr->wr.rdma.remote_addr += 8;
	} else {
		const struct ibv_sge *last = &wr->sg_list[wr->num_sge - 1];

		((unsigned char *)(uintptr_t)last->addr)[last->length - 1] ^= 4;
	}
	return post_one(qp, wr);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int err = 0;

	pthread_mutex_lock(&fault.lock);
	while (wr && !err) {
		struct ibv_send_wr copy = *wr;

		fault.seen++;
		if (fault.replay_at && fault.seen >= fault.replay_at) {
			fault.replay_at = ++fault.replays < REPLAYS ? fault.seen + REPLAY_EVERY : 0;
			post_one(qp, &fault.replay);
		}
		if (!fault.done && fault.seen > SKIP && fits(qp, wr)) {
			fault.done = true;
			err = commit(qp, &copy);
		} else {
			err = post_one(qp, &copy);
		}
		if (err)
			*bad = wr;
		wr = wr->next;
	}
	pthread_mutex_unlock(&fault.lock);
	return err;
}

/* With room for the replays. */
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *(*real)(struct ibv_pd *, struct ibv_qp_init_attr *) = dlsym(RTLD_NEXT, "ibv_create_qp");

	attr->cap.max_send_wr += REPLAYS;
	return real(pd, attr);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *(*real)(struct ibv_device *) = dlsym(RTLD_NEXT, "ibv_open_device");
	struct ibv_context *context = real(device);
	const char *wanted = getenv("FAULT");

	if (!context || !wanted || sscanf(wanted, "%15[a-z]-%15[a-z]", fault.what, fault.which) != 2)
		return context;
	fault.post_send = context->ops.post_send;
	context->ops.post_send = post_send;
	return context;
}
