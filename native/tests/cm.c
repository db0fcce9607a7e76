/* SPDX-License-Identifier: Apache-2.0 */
/* librdmacm's event channels over a checkpoint: resumed, restarted, and the gate of its functions. */
#include "test.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static const struct shape shape = { .send_wr = 4, .recv_wr = 4, .sge = 1 };

struct user {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	int file;			/* what the kernel has of the channel */
	int set;			/* an epoll set of the application's */
};

struct call {
	struct user *user;
	struct rdma_cm_event *event;
	int result;
	unsigned begun, done;
	pthread_t thread;
};

static struct user *open_user(void)
{
	struct user *user = calloc(1, sizeof(*user));
	struct epoll_event readable = { EPOLLIN, { .u64 = 0x123456789abcdefull } };

	user->channel = rdma_create_event_channel();
	CHECK(user->channel);
	CHECK_EQUAL(rdma_create_id(user->channel, &user->id, user, RDMA_PS_TCP), 0);
	user->file = dup(user->channel->fd);
	user->set = epoll_create1(EPOLL_CLOEXEC);
	CHECK_EQUAL(epoll_ctl(user->set, EPOLL_CTL_ADD, user->channel->fd, &readable), 0);
	return user;
}

static void close_user(struct user *user)
{
	CHECK_EQUAL(rdma_destroy_id(user->id), 0);
	rdma_destroy_event_channel(user->channel);
	close(user->file);
	close(user->set);
	free(user);
}

static void happen(struct user *user)
{
	uint64_t one = 1;

	CHECK_EQUAL(write(user->file, &one, sizeof(one)), sizeof(one));
}

static bool readable(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, 0) == 1;
}

static void *get_event(void *argument)
{
	struct call *call = argument;

	__atomic_store_n(&call->begun, 1, __ATOMIC_RELEASE);
	call->result = rdma_get_cm_event(call->user->channel, &call->event);
	__atomic_store_n(&call->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void *listen_to(void *argument)
{
	struct call *call = argument;

	__atomic_store_n(&call->begun, 1, __ATOMIC_RELEASE);
	call->result = rdma_listen(call->user->id, 1);
	__atomic_store_n(&call->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void begin(struct call *call, void *(*what)(void *))
{
	CHECK_EQUAL(pthread_create(&call->thread, NULL, what, call), 0);
	while (!__atomic_load_n(&call->begun, __ATOMIC_ACQUIRE))
		sched_yield();
	/* Most likely it is asleep by now; right is right in any case. */
	usleep(20000);
	CHECK_EQUAL(__atomic_load_n(&call->done, __ATOMIC_ACQUIRE), 0);
}

static void end(struct call *call)
{
	CHECK_EQUAL(pthread_join(call->thread, NULL), 0);
	CHECK_EQUAL(call->result, 0);
}

/* What the agent does at the end. */
static void send_descriptor(int socket, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec one = { "", 1 };
	struct msghdr message = { .msg_iov = &one, .msg_iovlen = 1, .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	CHECK_EQUAL(sendmsg(socket, &message, 0), 1);
}

/* Returns what the agent holds. */
static int detach(void)
{
	int socket, held;

	close_gate();
	socket = sv_cm_send();
	CHECK(socket >= 0);
	held = dup(socket);
	CHECK_EQUAL(sv_cm_detach(socket), 0);
	return held;
}

static void resume(int held)
{
	int receiver = sv_cm_receiver();

	CHECK(receiver >= 0);
	send_descriptor(receiver, held);
	close(held);
	CHECK_EQUAL(sv_cm_reattach(receiver), 0);
	sv_gate_open();
}

static void restart(int held)
{
	close(held);
	CHECK_EQUAL(sv_cm_reattach(-1), ENOENT);
	sv_gate_open();
}

static void nothing_is_sent_without_channels(void)
{
	struct fixture *f = open_fixture(shape);

	close_gate();
	CHECK_EQUAL(sv_cm_send(), -ENOENT);
	sv_gate_open();
	close_fixture(f);
}

static void a_resumed_process_has_its_channels(void)
{
	struct user *one = open_user(), *other = open_user();
	struct call sleeper = { .user = one }, caller = { .user = other };
	struct epoll_event ready;
	uint64_t none = 0;
	int held;

	fcntl(other->channel->fd, F_SETFL, O_RDWR | O_NONBLOCK);
	begin(&sleeper, get_event);
	held = detach();
	/* Nothing of the file is left in the process, and what it says meanwhile is not lost. */
	CHECK_EQUAL(write(one->channel->fd, &none, sizeof(none)), -1);
	happen(one);
	happen(other);
	CHECK(!readable(one->channel->fd) && !readable(other->channel->fd) && !readable(other->set));
	begin(&caller, listen_to);
	resume(held);
	end(&caller);
	end(&sleeper);
	CHECK_EQUAL(sleeper.event->event, RDMA_CM_EVENT_ESTABLISHED);
	CHECK_EQUAL(rdma_ack_cm_event(sleeper.event), 0);
	CHECK_EQUAL(epoll_wait(other->set, &ready, 1, 0), 1);
	CHECK_EQUAL(ready.data.u64, 0x123456789abcdefull);
	CHECK_EQUAL(rdma_get_cm_event(other->channel, &sleeper.event), 0);
	CHECK_EQUAL(rdma_ack_cm_event(sleeper.event), 0);
	CHECK_EQUAL(rdma_get_cm_event(other->channel, &sleeper.event), -1);
	CHECK_EQUAL(errno, EAGAIN);
	/* And once more. */
	resume(detach());
	CHECK_EQUAL(rdma_connect(one->id, NULL), 0);
	close_user(one);
	close_user(other);
}

static void a_restarted_process_is_told(void)
{
	struct fixture *f = open_fixture(shape);
	struct user *user = open_user(), *later;
	struct call sleeper = { .user = user };
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	user->id->qp = f->qp;
	begin(&sleeper, get_event);
	restart(detach());
	CHECK_EQUAL(rdma_connect(user->id, NULL), -1);
	CHECK_EQUAL(errno, ENODEV);
	/* It is as if the peer's connection manager did not answer any more. */
	CHECK_EQUAL(rdma_disconnect(user->id), 0);
	end(&sleeper);
	CHECK_EQUAL(sleeper.event->event, RDMA_CM_EVENT_DISCONNECTED);
	CHECK_EQUAL(sleeper.event->status, -ETIMEDOUT);
	CHECK(sleeper.event->id == user->id);
	CHECK_EQUAL(rdma_ack_cm_event(sleeper.event), 0);
	CHECK_EQUAL(ibv_query_qp(f->qp, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQUAL(attr.qp_state, IBV_QPS_ERR);
	/* Nothing of it is left for another checkpoint, and of a new one all is. */
	close_gate();
	CHECK_EQUAL(sv_cm_send(), -ENOENT);
	sv_gate_open();
	later = open_user();
	CHECK_EQUAL(rdma_connect(later->id, NULL), 0);
	resume(detach());
	CHECK_EQUAL(rdma_connect(later->id, NULL), 0);
	CHECK_EQUAL(rdma_connect(user->id, NULL), -1);
	close_user(later);
	free(user->id);
	user->id = calloc(1, sizeof(*user->id));
	user->id->channel = user->channel;
	close_user(user);
	close_fixture(f);
}

static void the_gate_waits_for_who_is_inside(void)
{
	void (*hold)(unsigned) = dlsym(dlopen("librdmacm.so.1", RTLD_NOW), "mock_cm_hold");
	struct user *user = open_user();
	struct call caller = { .user = user };
	struct sv_gate_report report;

	hold(1);
	begin(&caller, listen_to);
	CHECK_EQUAL(sv_gate_close(SECOND / 10, &report), ETIMEDOUT);
	CHECK_EQUAL(report.inside, 1);
	CHECK(strstr(report.verb, "librdmacm"));
	/* It is open again. */
	CHECK_EQUAL(rdma_connect(user->id, NULL), 0);
	hold(0);
	end(&caller);
	close_user(user);
}

int main(void)
{
	RUN(nothing_is_sent_without_channels);
	RUN(a_resumed_process_has_its_channels);
	RUN(a_restarted_process_is_told);
	RUN(the_gate_waits_for_who_is_inside);
	return 0;
}
