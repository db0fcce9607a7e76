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

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	CHECK_EQUAL(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static void expect_disconnected(const struct user *user, const struct rdma_cm_event *event, int status)
{
	CHECK_EQUAL(event->event, RDMA_CM_EVENT_DISCONNECTED);
	CHECK_EQUAL(event->status, status);
	CHECK(event->id == user->id);
}

/* librdmacm's memory of an id that was lost is not freed, see rdma_destroy_id. */
static void close_lost(struct user *user)
{
	struct rdma_cm_id *id = user->id;

	CHECK_EQUAL(rdma_destroy_id(id), 0);
	free(id);
	rdma_destroy_event_channel(user->channel);
	close(user->file);
	close(user->set);
	free(user);
}

static struct user *open_connected(struct ibv_qp *qp)
{
	struct user *user = open_user();

	user->id->qp = qp;
	CHECK_EQUAL(rdma_connect(user->id, NULL), 0);
	return user;
}

/* A program that has only looked whether there is a connection manager loses nothing that it must hear of. */
static void only_lost_channels_in_use_count(void)
{
	struct user *looked = open_user(), *listening = open_user();

	CHECK_EQUAL(rdma_listen(listening->id, 1), 0);
	CHECK_EQUAL(sv_cm_lost_in_use(), 0);
	restart(detach());
	CHECK_EQUAL(sv_cm_lost_in_use(), 1);
	close_lost(listening);
	CHECK_EQUAL(sv_cm_lost_in_use(), 0);
	close_lost(looked);
}

/* It is told of its own end when the peer has been told, and then once. */
static void a_restarted_process_disconnects(void)
{
	struct fixture *f = open_fixture(shape);
	struct user *user = open_connected(f->qp), *later;
	struct call sleeper = { .user = user };
	uint64_t token = 0;
	unsigned before = driver_requests[SV_OP_CM_DISCONNECT];

	CHECK_EQUAL(sv_cm_lost(&token, 1), 0);
	begin(&sleeper, get_event);
	restart(detach());
	CHECK_EQUAL(rdma_connect(user->id, NULL), -1);
	CHECK_EQUAL(errno, ENODEV);
	CHECK_EQUAL(sv_cm_lost(&token, 0), 1);
	CHECK_EQUAL(sv_cm_lost(&token, 1), 1);
	CHECK(token == (uintptr_t)f->qp);
	CHECK_EQUAL(rdma_disconnect(user->id), 0);
	CHECK_EQUAL(driver_requests[SV_OP_CM_DISCONNECT], before + 1);
	CHECK(driver_disconnected == token);
	CHECK_EQUAL(state_of(f->qp), IBV_QPS_ERR);
	CHECK(!readable(user->channel->fd));
	CHECK_EQUAL(sv_cm_lost(&token, 1), 0);
	sv_cm_ended(token, 0);
	end(&sleeper);
	expect_disconnected(user, sleeper.event, 0);
	CHECK_EQUAL(rdma_ack_cm_event(sleeper.event), 0);
	sv_cm_ended(token, -ETIMEDOUT);
	CHECK_EQUAL(rdma_disconnect(user->id), 0);
	CHECK(!readable(user->channel->fd));
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
	close_lost(user);
	CHECK_EQUAL(driver_requests[SV_OP_CM_DISCONNECT], before + 1);
	close_fixture(f);
}

/* The queue pair is the program's business then, as with the kernel's connection manager. */
static void a_restarted_process_is_told(void)
{
	struct fixture *f = open_fixture(shape);
	struct user *one = open_connected(f->qp), *other = open_user();
	struct rdma_cm_event *event;
	unsigned before = driver_requests[SV_OP_CM_DISCONNECT];

	/* Of a channel that lives on the kernel's connection manager tells. */
	sv_cm_ended((uintptr_t)f->qp, 0);
	CHECK(!readable(one->channel->fd));
	restart(detach());
	sv_cm_ended((uintptr_t)one, 0);
	CHECK(!readable(one->channel->fd));
	sv_cm_ended((uintptr_t)f->qp, 0);
	CHECK(readable(one->channel->fd) && readable(one->set) && !readable(other->channel->fd));
	CHECK_EQUAL(rdma_get_cm_event(one->channel, &event), 0);
	expect_disconnected(one, event, 0);
	CHECK_EQUAL(rdma_ack_cm_event(event), 0);
	CHECK_EQUAL(state_of(f->qp), IBV_QPS_RTS);
	CHECK_EQUAL(rdma_disconnect(one->id), 0);
	CHECK_EQUAL(state_of(f->qp), IBV_QPS_ERR);
	CHECK(!readable(one->channel->fd));
	close_lost(one);
	CHECK_EQUAL(driver_requests[SV_OP_CM_DISCONNECT], before);
	close_lost(other);
	close_fixture(f);
}

/* Who destroys its id without a word disconnects, too; and who cannot tell anybody is told so. */
static void the_peer_is_told_or_the_program(void)
{
	struct fixture *f = open_fixture(shape);
	struct user *user = open_connected(f->qp), *unknown = open_user();
	struct rdma_cm_event *event;
	unsigned before = driver_requests[SV_OP_CM_DISCONNECT];

	restart(detach());
	close_lost(user);
	CHECK_EQUAL(driver_requests[SV_OP_CM_DISCONNECT], before + 1);
	CHECK(driver_disconnected == (uintptr_t)f->qp);
	sv_cm_ended((uintptr_t)f->qp, 0);
	/* Nobody has seen it connect. */
	CHECK_EQUAL(rdma_disconnect(unknown->id), 0);
	CHECK_EQUAL(rdma_get_cm_event(unknown->channel, &event), 0);
	expect_disconnected(unknown, event, -ETIMEDOUT);
	CHECK_EQUAL(rdma_ack_cm_event(event), 0);
	close_lost(unknown);
	user = open_connected(f->qp);
	restart(detach());
	driver_fail_op = SV_OP_CM_DISCONNECT;
	driver_fail_err = EIO;
	CHECK_EQUAL(rdma_disconnect(user->id), 0);
	driver_fail_op = 0;
	CHECK_EQUAL(rdma_get_cm_event(user->channel, &event), 0);
	expect_disconnected(user, event, -ETIMEDOUT);
	CHECK_EQUAL(rdma_ack_cm_event(event), 0);
	close_lost(user);
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
	RUN(only_lost_channels_in_use_count);
	RUN(a_restarted_process_disconnects);
	RUN(a_restarted_process_is_told);
	RUN(the_peer_is_told_or_the_program);
	RUN(the_gate_waits_for_who_is_inside);
	return 0;
}
