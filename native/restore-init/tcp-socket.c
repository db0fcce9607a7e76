// SPDX-License-Identifier: Apache-2.0
/* What the kernel says of a TCP socket, and repair mode. */
#define _GNU_SOURCE
#include "tcp-hold.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/* Of linux/tcp.h, which cannot be included beside netinet/tcp.h: repair mode ends without a probe of the other end's window. */
#define REPAIR_OFF_QUIETLY (-1)

int set_repair(int fd, bool on)
{
	int mode = on ? 1 : REPAIR_OFF_QUIETLY;

	return setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &mode, sizeof(mode));
}

uint32_t sequence(int fd, int queue)
{
	uint32_t number;
	socklen_t size = sizeof(number);

	if (setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue, sizeof(queue)) ||
	    getsockopt(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, &number, &size))
		fail("TCP_QUEUE_SEQ");
	return number;
}

int state_of(int fd)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) ? TCP_CLOSE : info.tcpi_state;
}
