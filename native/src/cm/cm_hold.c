/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files behind librdmacm's channels while an image is made: the agent holds them, epoll descriptors of ours stand in their
 * places, also in the application's epoll sets. For the driver, which has closed the gate: nobody is inside, so the list of
 * channels is read without its lock.
 */
#include "cm/cm_channel.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* SCM_MAX_FD is 253. */
#define MOST_IN_A_MESSAGE 128
/* Descriptors of epoll sets that one channel is in. */
#define MOST_SETS 64

/* The end of a pair through which the agent gives back what it has held; -1: none. */
static int receiving = -1;

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

	for (const struct sv_cm_channel *channel = sv_cm_channels; channel; channel = channel->next)
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
	for (struct sv_cm_channel *channel = sv_cm_channels; channel && !err; channel = channel->next) {
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
static int put_back(struct sv_cm_channel *channel, int real)
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
	uint64_t woken = sv_load_acquire(&sv_cm_sleepers);

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
	for (struct sv_cm_channel *channel = sv_cm_channels; channel; channel = channel->next) {
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
		(void)!write(sv_cm_wake_fd, &woken, sizeof(woken));
	return err;
}
