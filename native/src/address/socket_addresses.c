/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of TCP and UDP: what the program says goes to the kernel as real addresses, what the kernel says comes back
 * as virtual ones. Results and errno are those of the real calls. Whatever else is passed on as it is. A table is
 * looked for after a call that may sleep: a restart may have come meanwhile.
 */
#include "base/next.h"
#include "address/address_book.h"
#include "address/address_sharing.h"
#include "address/socket_address.h"

#include <time.h>

typedef int (*give_function)(int, const struct sockaddr *, socklen_t);
typedef int (*take_function)(int, struct sockaddr *, socklen_t *);
typedef int (*accept4_function)(int, struct sockaddr *, socklen_t *, int);

/* ---- From the program to the kernel ----------------------------------------------------------------------------- */

/* Where to begin among so many ports: not where the last one was found. */
static unsigned somewhere(unsigned count)
{
	static uint32_t turn;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return ((uint32_t)now.tv_nsec + 2654435769u * sv_add(&turn, 1)) % count;
}

/* Binds at a port that tells whose it is; at any, where that is not needed or none of these is free. */
static int bind_anywhere(const struct sv_address_table *table, int fd, struct sockaddr *address, socklen_t length)
{
	give_function real = NEXT(give_function, bind);
	struct sv_endpoint end = sv_endpoint_of(address);
	unsigned first, step, start, count;

	if (!sv_own_ports(table, &end, &first, &step))
		return real(fd, address, length);
	count = (SV_LAST_CHOSEN - first) / step + 1;
	start = somewhere(count);
	for (unsigned i = 0; i < count; i++) {
		int result;

		end.port = first + (start + i) % count * step;
		sv_put(address, &end);
		result = real(fd, address, length);
		if (!result || errno != EADDRINUSE)
			return result;
	}
	end.port = 0;
	sv_put(address, &end);
	return real(fd, address, length);
}

/* A socket that is not bound gets its port now. When it can't have one the kernel says so at the connect. */
static void choose_port(const struct sv_address_table *table, int fd)
{
	union sv_socket_address own;
	socklen_t length = sizeof(own);
	int saved = errno;

	if (!NEXT(take_function, getsockname)(fd, &own.any, &length) && sv_is_inet(&own.any, length)) {
		struct sv_endpoint end = sv_endpoint_of(&own.any);

		if (!end.port && sv_is_any(end.address))
			bind_anywhere(table, fd, &own.any, length);
	}
	errno = saved;
}

static int connect_to(const struct sv_address_table *table, int fd, const struct sockaddr *address, socklen_t length)
{
	struct sv_endpoint there = sv_endpoint_of(address);
	union sv_socket_address translated;

	if (table->shares)
		choose_port(table, fd);
	sv_table_real(table, &there);
	return NEXT(give_function, connect)(fd, sv_with(&translated, address, &length, &there), length);
}

static int bind_to(const struct sv_address_table *table, int fd, const struct sockaddr *address, socklen_t length)
{
	struct sv_endpoint there = sv_endpoint_of(address);
	union sv_socket_address translated;
	struct sockaddr *real;

	sv_table_real(table, &there);
	real = sv_with(&translated, address, &length, &there);
	return there.port ? NEXT(give_function, bind)(fd, real, length) : bind_anywhere(table, fd, real, length);
}

#define GIVES(name, give)												\
	__attribute__((visibility("default"))) UNWATCHED								\
	int name(int fd, const struct sockaddr *address, socklen_t length)						\
	{														\
		const void *caller = __builtin_return_address(0);							\
		const struct sv_address_table *table = sv_is_inet(address, length) ? sv_addresses_for(caller) : NULL;	\
															\
		return likely(!table) ? NEXT(give_function, name)(fd, address, length) :				\
					give(table, fd, address, length);						\
	}

GIVES(connect, connect_to)
GIVES(bind, bind_to)

/* ---- From the kernel to the program ----------------------------------------------------------------------------- */

static SV_NOINLINE void give_back(const struct sv_address_table *table, struct sockaddr *address, bool peers)
{
	struct sv_endpoint end = sv_endpoint_of(address);

	sv_table_virtual(table, &end, peers ? sv_origin_at(table, &end) : table->own);
	sv_put(address, &end);
}

static UNWATCHED int taken(int result, struct sockaddr *address, const socklen_t *length, socklen_t room, bool peers,
			   const void *caller)
{
	const struct sv_address_table *table =
		result >= 0 && address && sv_is_whole(address, *length, room) ? sv_addresses_for(caller) : NULL;

	if (unlikely(table))
		give_back(table, address, peers);
	return result;
}

#define TAKES(name, type, parameters, arguments, peers)							\
	__attribute__((visibility("default"))) UNWATCHED int name parameters				\
	{												\
		socklen_t room = address && length ? *length : 0;					\
		int result = NEXT(type, name) arguments;						\
													\
		return taken(result, address, length, room, peers, __builtin_return_address(0));	\
	}

TAKES(getsockname, take_function, (int fd, struct sockaddr *address, socklen_t *length), (fd, address, length), false)
TAKES(getpeername, take_function, (int fd, struct sockaddr *address, socklen_t *length), (fd, address, length), true)
TAKES(accept, take_function, (int fd, struct sockaddr *address, socklen_t *length), (fd, address, length), true)
TAKES(accept4, accept4_function, (int fd, struct sockaddr *address, socklen_t *length, int flags),
      (fd, address, length, flags), true)
