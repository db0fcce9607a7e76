/* SPDX-License-Identifier: Apache-2.0 */
/*
 * librdmacm's event channels over a checkpoint. Behind each is an open file of the kernel's connection manager, with all its
 * ids and connections, which no image can hold. While the image is made the agent holds the file, and an epoll descriptor
 * of ours stands in its place. When the process runs on the file comes back and nothing has happened; after a restart
 * there is none, and the stand-in stays: the queue pairs live, the connection manager's part of them is over, but that their
 * two ends tell each other, by way of the driver, when one disconnects.
 */
#include "cm.h"
#include "arena.h"
#include "control.h"
#include "events.h"
#include "futex.h"
#include "next.h"
#include "say.h"

#pragma GCC visibility push(default)
#include <rdma/rdma_cma.h>
#pragma GCC visibility pop

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define LIBRARY "librdmacm.so.1"
/* SCM_MAX_FD is 253. */
#define MOST_IN_A_MESSAGE 128
/* Descriptors of epoll sets that one channel is in. */
#define MOST_SETS 64

struct channel {
	struct channel *next;
	int fd;				/* the application's */
	bool lost;			/* by a restart */
	struct sv_events events;	/* the stand-in while detached; when lost, with events of our own */
	pthread_mutex_t reading;	/* so that who has seen an event gets one, and does not sleep in the kernel */
};

/* Of an id that was connected with a QP of its own. */
struct connection {
	struct connection *next;
	struct rdma_cm_id *id;
	struct ibv_qp *qp;		/* which may have been destroyed */
	bool asked;			/* the driver was asked to tell the peer */
	bool ended;			/* the program has its RDMA_CM_EVENT_DISCONNECTED */
};

/* An event of ours, until it is acknowledged. */
struct made_event {
	struct made_event *next;
	struct rdma_cm_event event;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct channel *channels;
static struct connection *connections;
static struct made_event *made_events;
/*
 * poll(2) waits for a file but looks at a descriptor: a sleeper that the file wakes while a stand-in is in its place sleeps
 * on, and would not be woken again when it is back. So each gets a unit of this counter then.
 */
static int wake_fd = -1;
static uint32_t sleepers;
/* The end of a pair through which the agent gives back what it has held; -1: none. */
static int receiving = -1;

/* ---- The real functions ----------------------------------------------------------------------------------------- */

static struct {
#define CM(name) __typeof__(&name) name;
#define CM_GATED(type, name, parameters, arguments, channel, fail) type(*name) parameters;
#include "cm.def"
} functions;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void)
{
	/* Whoever calls has it loaded, though maybe not where everybody sees it. */
	void *library = sv_library(LIBRARY, "rdma_create_id");

	if (!library) {
		sv_sayf(LIBRARY " cannot be loaded: %s", dlerror());
		_exit(127);
	}
#define CM(name) *(void **)&functions.name = sv_symbol(library, #name);
#define CM_GATED(type, name, parameters, arguments, channel, fail) CM(name)
#include "cm.def"
}

#define CM_REAL(name)                                                           \
	({                                                                      \
		pthread_once(&once, find);                                      \
		if (unlikely(!functions.name)) {                                \
			sv_say("the installed " LIBRARY " has no " #name);      \
			_exit(127);                                             \
		}                                                               \
		functions.name;                                                 \
	})

/* ---- The gate --------------------------------------------------------------------------------------------------- */

#define CLOSED (1u << 31)

static uint32_t gate;			/* CLOSED | threads inside */
static __thread uint32_t depth;		/* librdmacm's functions call each other */

static void enter(void)
{
	uint32_t word = sv_load_acquire(&gate);

	if (depth++)
		return;
	for (;;) {
		if (word & CLOSED) {
			sv_futex_wait(&gate, word, -1);
			word = sv_load_acquire(&gate);
		} else if (sv_cas(&gate, &word, word + 1)) {
			return;
		}
	}
}

static void leave(void)
{
	if (!--depth && sv_add(&gate, -1u) & CLOSED)
		sv_futex_wake(&gate, INT_MAX);
}

/* For a thread that sleeps until there is an event, however deep it is inside. */
static uint32_t leave_wholly(void)
{
	uint32_t was = depth;

	depth = 1;
	leave();
	return was;
}

static void enter_again(uint32_t was)
{
	enter();
	depth = was;
}

int sv_cm_close(int64_t deadline, int *inside)
{
	uint32_t word = __atomic_or_fetch(&gate, CLOSED, __ATOMIC_SEQ_CST);

	for (; word != CLOSED; word = sv_load_acquire(&gate)) {
		int64_t left = deadline < 0 ? -1 : deadline - sv_now();

		if (deadline >= 0 && left <= 0) {
			*inside = word & ~CLOSED;
			sv_cm_open();
			return ETIMEDOUT;
		}
		sv_futex_wait(&gate, word, left);
	}
	return 0;
}

void sv_cm_open(void)
{
	if (__atomic_fetch_and(&gate, ~CLOSED, __ATOMIC_SEQ_CST) & CLOSED)
		sv_futex_wake(&gate, INT_MAX);
}

void sv_cm_forked(void)
{
	gate = depth ? 1 : 0;
	pthread_mutex_init(&lock, NULL);
}

/* ---- Channels --------------------------------------------------------------------------------------------------- */

/* NULL: one that we have not seen made, or none. */
static struct channel *channel_locked(const struct rdma_event_channel *of)
{
	struct channel *channel;

	for (channel = of ? channels : NULL; channel && channel->fd != of->fd; channel = channel->next)
		;
	return channel;
}

static struct channel *channel_of(const struct rdma_event_channel *of)
{
	struct channel *channel;

	pthread_mutex_lock(&lock);
	channel = channel_locked(of);
	pthread_mutex_unlock(&lock);
	return channel;
}

static bool is_lost(const struct rdma_event_channel *of)
{
	struct channel *channel = channel_of(of);

	return channel && channel->lost;
}

static void lost(const char *function, int *said)
{
	if (!__atomic_exchange_n(said, 1, __ATOMIC_RELAXED))
		sv_sayf("%s: the connection manager's ids did not survive the restart", function);
	errno = ENODEV;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *channel = sv_block_alloc(sizeof(*channel));
	struct rdma_event_channel *made;

	enter();
	pthread_mutex_lock(&lock);
	if (wake_fd < 0)
		wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	pthread_mutex_unlock(&lock);
	made = channel ? CM_REAL(rdma_create_event_channel)() : NULL;
	if (made) {
		channel->fd = made->fd;
		pthread_mutex_init(&channel->reading, NULL);
		pthread_mutex_lock(&lock);
		channel->next = channels;
		channels = channel;
		pthread_mutex_unlock(&lock);
	} else {
		sv_block_free(channel, sizeof(*channel));
	}
	leave();
	/* Who only listens uses no verb yet; the checkpoint must know of it all the same. A refusal has been said. */
	if (made)
		sv_driver_start("rdma_create_event_channel");
	return made;
}

void rdma_destroy_event_channel(struct rdma_event_channel *of)
{
	struct channel *channel;

	enter();
	channel = channel_of(of);
	if (channel) {
		struct channel **at = &channels;

		pthread_mutex_lock(&lock);
		while (*at != channel)
			at = &(*at)->next;
		*at = channel->next;
		pthread_mutex_unlock(&lock);
		if (channel->lost) {
			channel->events.fd = -1;	/* that is closed now */
			sv_events_close(&channel->events);
		}
		sv_block_free(channel, sizeof(*channel));
	}
	CM_REAL(rdma_destroy_event_channel)(of);
	leave();
}

/* ---- Calls ------------------------------------------------------------------------------------------------------ */

#define CM_GATED(type, name, parameters, arguments, channel, fail)      \
	type name parameters                                            \
	{                                                               \
		static int said;                                        \
		type result = fail;                                     \
									\
		enter();                                                \
		if (is_lost(channel))                                   \
			lost(#name, &said);                             \
		else                                                    \
			result = CM_REAL(name) arguments;               \
		leave();                                                \
		return result;                                          \
	}
#include "cm.def"

/* ---- Connections ------------------------------------------------------------------------------------------------ */

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
	pthread_mutex_lock(&lock);
	connection->next = connections;
	connections = connection;
	pthread_mutex_unlock(&lock);
}

static void forget(const struct rdma_cm_id *id)
{
	struct connection **at = &connections, *connection;

	pthread_mutex_lock(&lock);
	while ((connection = *at)) {
		if (connection->id != id) {
			at = &connection->next;
			continue;
		}
		*at = connection->next;
		sv_block_free(connection, sizeof(*connection));
	}
	pthread_mutex_unlock(&lock);
}

#define CONNECT(name)                                                           \
	int name(struct rdma_cm_id *id, struct rdma_conn_param *param)          \
	{                                                                       \
		static int said;                                                \
		int result = -1;                                                \
										\
		enter();                                                        \
		if (is_lost(id->channel))                                       \
			lost(#name, &said);                                     \
		else                                                            \
			result = CM_REAL(name)(id, param);                      \
		if (!result)                                                    \
			note(id);                                               \
		leave();                                                        \
		return result;                                                  \
	}
CONNECT(rdma_connect)
CONNECT(rdma_accept)

/* The status is in the upper half. */
static int keep_disconnected(struct channel *channel, struct rdma_cm_id *id, int status)
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

	pthread_mutex_lock(&lock);
	connection = connection_locked(id);
	if (connection && !connection->asked && !connection->ended) {
		connection->asked = true;
		token = SV_POINTER(connection->qp);
	}
	pthread_mutex_unlock(&lock);
	if (token && SV_CONTROL(SV_OP_CM_DISCONNECT, "rdma_disconnect", NULL, token))
		sv_cm_ended(token, -ETIMEDOUT);
	return connection;
}

uint32_t sv_cm_lost(uint64_t *tokens, uint32_t room)
{
	uint32_t count = 0;

	pthread_mutex_lock(&lock);
	for (const struct connection *connection = connections; connection; connection = connection->next) {
		const struct channel *channel = channel_locked(connection->id->channel);

		if (!channel || !channel->lost || connection->asked || connection->ended)
			continue;
		if (count < room)
			tokens[count] = SV_POINTER(connection->qp);
		count++;
	}
	pthread_mutex_unlock(&lock);
	return count;
}

void sv_cm_ended(uint64_t token, int status)
{
	pthread_mutex_lock(&lock);
	for (struct connection *connection = connections; connection; connection = connection->next) {
		struct channel *channel = channel_locked(connection->id->channel);

		if (SV_POINTER(connection->qp) != token || connection->ended || !channel || !channel->lost)
			continue;
		connection->ended = !keep_disconnected(channel, connection->id, status);
		break;
	}
	pthread_mutex_unlock(&lock);
}

/* The queue pair is disconnected. The event comes when the peer has been told, or cannot be. */
static int disconnect_lost(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int err = id->qp ? ibv_modify_qp(id->qp, &attr, IBV_QP_STATE) : 0;

	if (!err && !end_connection(id))
		err = keep_disconnected(channel_of(id->channel), id, -ETIMEDOUT);
	if (!err)
		return 0;
	errno = err;
	return -1;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	int result;

	enter();
	result = is_lost(id->channel) ? disconnect_lost(id) : CM_REAL(rdma_disconnect)(id);
	leave();
	return result;
}

/* Of a lost one the kernel has nothing; librdmacm's memory of it cannot be freed without. */
int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct channel *channel;
	int result = 0;

	enter();
	channel = channel_of(id->channel);
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
	leave();
	return result;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	enter();
	if (is_lost(id->channel))
		end_connection(id);
	forget(id);
	CM_REAL(rdma_destroy_ep)(id);
	leave();
}

/* ---- Events ----------------------------------------------------------------------------------------------------- */

static bool is_readable(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, 0) == 1;
}

/* 1: *event is one; 0: there is none yet; -1 with errno. */
static int next_event(struct rdma_event_channel *of, struct channel *channel, struct rdma_cm_event **event)
{
	struct made_event *made;
	struct sv_event kept;
	int result = 0;

	if (!channel->lost) {
		pthread_mutex_lock(&channel->reading);
		if (is_readable(of->fd))
			result = CM_REAL(rdma_get_cm_event)(of, event) ? -1 : 1;
		pthread_mutex_unlock(&channel->reading);
		return result;
	}
	pthread_mutex_lock(&channel->events.mutex);
	result = sv_events_take(&channel->events, &kept);
	pthread_mutex_unlock(&channel->events.mutex);
	if (!result)
		return 0;
	made = sv_block_alloc(sizeof(*made));
	if (!made) {
		errno = ENOMEM;
		return -1;
	}
	made->event.id = kept.object;
	made->event.event = (uint32_t)kept.type;
	made->event.status = (int32_t)(kept.type >> 32);
	pthread_mutex_lock(&lock);
	made->next = made_events;
	made_events = made;
	pthread_mutex_unlock(&lock);
	*event = &made->event;
	return 1;
}

int rdma_get_cm_event(struct rdma_event_channel *of, struct rdma_cm_event **event)
{
	uint64_t unit;
	int result;

	enter();
	for (;;) {
		struct channel *channel = channel_of(of);
		uint32_t was;

		result = channel ? next_event(of, channel, event) : CM_REAL(rdma_get_cm_event)(of, event) ? -1 : 1;
		if (result)
			break;
		sv_add(&sleepers, 1);
		was = leave_wholly();
		result = sv_readable_wait(of->fd, wake_fd);
		enter_again(was);
		sv_add(&sleepers, -1u);
		(void)!read(wake_fd, &unit, sizeof(unit));
		if (result)
			break;
	}
	leave();
	return result > 0 ? 0 : -1;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct made_event **at, *made = NULL;

	pthread_mutex_lock(&lock);
	for (at = &made_events; *at && &(*at)->event != event; at = &(*at)->next)
		;
	if (*at) {
		made = *at;
		*at = made->next;
	}
	pthread_mutex_unlock(&lock);
	if (!made)
		return CM_REAL(rdma_ack_cm_event)(event);
	sv_block_free(made, sizeof(*made));
	return 0;
}

/* ---- For the driver --------------------------------------------------------------------------------------------- */

/* The application's epoll sets that a descriptor is in: what stands in its place must be in them, too. */
struct set {
	int fd;
	struct epoll_event event;
};

static unsigned int take_out_of_set(int set, int fd, struct set *sets)
{
	char path[64], line[256];
	unsigned int count = 0;
	FILE *info;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", set);
	info = fopen(path, "re");
	while (info && fgets(line, sizeof(line), info)) {
		unsigned long long data;
		unsigned int events;
		int target;

		if (sscanf(line, "tfd: %d events: %x data: %llx", &target, &events, &data) == 3 && target == fd &&
		    !epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL)) {
			sets[count++] = (struct set){ set, { events, { .u64 = data } } };
			break;
		}
	}
	if (info)
		fclose(info);
	return count;
}

static unsigned int take_out_of_sets(int fd, struct set *sets)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned int count = 0;
	struct dirent *entry;

	while (folder && count < MOST_SETS && (entry = readdir(folder))) {
		char target[64];
		ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);

		if (length > 0 && (target[length] = 0, !strcmp(target, "anon_inode:[eventpoll]")))
			count += take_out_of_set(atoi(entry->d_name), fd, sets + count);
	}
	if (folder)
		closedir(folder);
	return count;
}

/* The descriptor `with`, which it closes, takes the place of another. */
static int replace(int fd, int with)
{
	struct set sets[MOST_SETS];
	unsigned int count = take_out_of_sets(fd, sets);
	int flags = fcntl(fd, F_GETFD), err = 0;

	if (dup3(with, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0)
		err = errno;
	close(with);
	for (unsigned int i = 0; i < count; i++)
		if (epoll_ctl(sets[i].fd, EPOLL_CTL_ADD, fd, &sets[i].event) && !err)
			err = errno;
	return err;
}

static int pass(int socket, const int *fds, unsigned int count)
{
	char control[CMSG_SPACE(MOST_IN_A_MESSAGE * sizeof(int))] = { 0 };
	struct iovec one = { "", 1 };
	struct msghdr message = {
		.msg_iov = &one,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = CMSG_SPACE(count * sizeof(int)),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(header), fds, count * sizeof(int));
	return sendmsg(socket, &message, MSG_NOSIGNAL) == 1 ? 0 : errno;
}

/* How many descriptors came, or a negative errno value. */
static int take(int socket, int *fds)
{
	char control[CMSG_SPACE(MOST_IN_A_MESSAGE * sizeof(int))] = { 0 }, byte;
	struct iovec one = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &one,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int count;

	if (got < 0)
		return -errno;
	if (got != 1 || !header || header->cmsg_type != SCM_RIGHTS)
		return -ENOMSG;
	count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(header), count * sizeof(int));
	return count;
}

int sv_cm_send(void)
{
	int pair[2], fds[MOST_IN_A_MESSAGE], err = 0;
	unsigned int count = 0;

	for (const struct channel *channel = channels; channel; channel = channel->next)
		if (!channel->lost && count < MOST_IN_A_MESSAGE)
			fds[count++] = channel->fd;
		else if (!channel->lost)
			err = EMFILE;
	if (err)
		return -err;
	if (!count)
		return -ENOENT;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	err = pass(pair[0], fds, count);
	close(pair[0]);
	if (!err)
		return pair[1];
	close(pair[1]);
	return -err;
}

int sv_cm_detach(int socket)
{
	int err = 0;

	close(socket);
	for (struct channel *channel = channels; channel && !err; channel = channel->next) {
		int stand_in;

		if (channel->lost)
			continue;
		err = sv_events_open(&channel->events);
		if (err)
			break;
		stand_in = channel->events.fd;
		fcntl(stand_in, F_SETFL, fcntl(channel->fd, F_GETFL) & O_NONBLOCK);
		channel->events.fd = channel->fd;
		err = replace(channel->fd, stand_in);
	}
	return err;
}

int sv_cm_receiver(void)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	receiving = pair[0];
	return pair[1];
}

/* Sleepers on the stand-in are woken by what the file has for them. */
static int put_back(struct channel *channel, int real)
{
	struct epoll_event readable = { .events = EPOLLIN };
	int err;

	epoll_ctl(channel->fd, EPOLL_CTL_ADD, real, &readable);
	err = replace(channel->fd, real);
	channel->events.fd = -1;
	sv_events_close(&channel->events);
	return err;
}

int sv_cm_reattach(int socket)
{
	int fds[MOST_IN_A_MESSAGE], count = -ENOENT, i = 0, err = 0;
	uint64_t woken = sv_load_acquire(&sleepers);

	if (socket >= 0) {
		count = take(receiving, fds);
		if (count == 1) {
			int held = fds[0];

			count = take(held, fds);
			close(held);
		}
		close(socket);
		close(receiving);
		receiving = -1;
	}
	for (struct channel *channel = channels; channel; channel = channel->next) {
		if (channel->lost)
			continue;
		if (i < count) {
			int bad = put_back(channel, fds[i++]);

			err = err ? err : bad;
			continue;
		}
		err = err ? err : -count;
		channel->lost = true;
	}
	if (woken)
		(void)!write(wake_fd, &woken, sizeof(woken));
	return err;
}
