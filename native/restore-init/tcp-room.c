// SPDX-License-Identifier: Apache-2.0
/*
 * Room for what was sent and closed: see tcp-hold.h.
 *
 * What a process has sent before it closed its end no process has any more, only its kernel. What of it has not arrived can't
 * be saved there. So the other end makes room for all of it, and takes it in. Its program has the same buffer as before afterwards;
 * what has come beyond its size stays.
 */
#define _GNU_SOURCE
#include "tcp-hold.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* More than any other end has in its queue. The kernel doubles it. */
#define ROOM (512 << 20)

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif

struct room {
	int fd;
	int size, lock;			/* before */
};

static struct room *rooms;
static size_t nrooms;

void room_open(int fd)
{
	int size = ROOM;
	socklen_t length = sizeof(size);
	struct room *room;

	rooms = reallocarray(rooms, nrooms + 1, sizeof(*rooms));
	if (!rooms) {
		nrooms = 0;
		out_of_memory();
	}
	room = &rooms[nrooms];
	*room = (struct room){ .fd = fd };
	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room->size, &length))
		fail("SO_RCVBUF");
	/* Kernels before 5.14 keep that to themselves: the kernel does not change the size by itself from now on. */
	if (getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &room->lock, &length))
		room->lock = 0;
	nrooms++;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		fail("SO_RCVBUFFORCE");
}

/* A look at what has come makes the kernel tell of a window that has grown. */
void room_tell(void)
{
	char byte;

	for (size_t i = 0; i < nrooms; i++)
		recv(rooms[i].fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
}

void room_close(void)
{
	for (size_t i = 0; i < nrooms; i++) {
		int size = rooms[i].size / 2;

		setsockopt(rooms[i].fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
		setsockopt(rooms[i].fd, SOL_SOCKET, SO_BUF_LOCK, &rooms[i].lock, sizeof(rooms[i].lock));
		close(rooms[i].fd);
	}
	free(rooms);
	rooms = NULL;
	nrooms = 0;
}
