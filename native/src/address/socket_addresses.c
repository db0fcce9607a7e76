/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of TCP and UDP: what the program says goes to the kernel as real addresses, what the kernel says comes back
 * as virtual ones. Results and errno are those of the real calls. Whatever else is passed on as it is. A table is
 * looked for after a call that may sleep: a restart may have come meanwhile.
 */
#include "base/next.h"
#include "address/address_alias.h"
#include "address/address_book.h"
#include "address/socket_address.h"

#include <unistd.h>

typedef int (*give_function)(int, const struct sockaddr *, socklen_t);
typedef int (*take_function)(int, struct sockaddr *, socklen_t *);
typedef int (*accept4_function)(int, struct sockaddr *, socklen_t *, int);

/* One end of a socket by getsockname(2) or getpeername(2); false: it has none. errno stays as it is. */
static bool end_of(take_function real, int fd, struct sv_endpoint *end)
{
	union sv_socket_address address;
	socklen_t length = sizeof(address);
	int saved = errno;
	bool there = !real(fd, &address.any, &length) && sv_is_inet(&address.any, length);

	errno = saved;
	if (there)
		*end = sv_endpoint_of(&address.any);
	return there;
}

/* ---- From the program to the kernel ----------------------------------------------------------------------------- */

static bool is_stream(int fd)
{
	int type = 0;
	socklen_t length = sizeof(type);

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) && type == SOCK_STREAM;
}

/*
 * The port is chosen at the connect, so that two connections to different ends may have the same one, as without this.
 */
static void bind_source(int fd, sa_family_t family, const struct sv_endpoint *source)
{
	union sv_socket_address address = { .any.sa_family = family };
	const int late = 1, early = 0;

	sv_put(&address.any, source);
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &late, sizeof(late));
	NEXT(give_function, bind)(fd, &address.any, family == AF_INET ? sizeof(address.v4) : sizeof(address.v6));
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &early, sizeof(early));
}

/*
 * A socket that the program has bound keeps its source; one that an attempt before this has left with an alias does
 * not.
 */
static void choose_source(const struct sv_address_table *table, int fd, sa_family_t family,
			  const struct sv_endpoint *virtual, const struct sv_endpoint *real)
{
	static const struct sv_endpoint any_v6;
	static const struct sv_endpoint any_v4 = { .address = { [10] = 0xff, [11] = 0xff } };
	const struct sv_endpoint *any = family == AF_INET ? &any_v4 : &any_v6;
	struct sv_endpoint own, source;
	int saved = errno;

	if (table->shares && is_stream(fd) && end_of(NEXT(take_function, getsockname), fd, &own)) {
		bool unbound = !own.port && !memcmp(own.address, any->address, sizeof(own.address));
		bool wanted = sv_alias_source(table, virtual, real, &source);

		if (sv_is_alias(table, &own) || (wanted && unbound))
			bind_source(fd, family, wanted ? &source : any);
	}
	errno = saved;
}

static int give(give_function real, const struct sv_address_table *table, int fd, const struct sockaddr *address,
		socklen_t length, bool connects)
{
	struct sv_endpoint virtual = sv_endpoint_of(address), there = virtual;
	union sv_socket_address translated;

	sv_table_real(table, &there);
	if (connects)
		choose_source(table, fd, address->sa_family, &virtual, &there);
	return real(fd, sv_with(&translated, address, &length, &there), length);
}

#define GIVES(name, connects)											\
	__attribute__((visibility("default"))) UNWATCHED							\
	int name(int fd, const struct sockaddr *address, socklen_t length)					\
	{													\
		const void *caller = __builtin_return_address(0);						\
		const struct sv_address_table *table = sv_is_inet(address, length) ? sv_addresses_for(caller) : NULL;	\
		give_function real = NEXT(give_function, name);							\
														\
		return likely(!table) ? real(fd, address, length) : give(real, table, fd, address, length, connects);	\
	}

GIVES(connect, true)
GIVES(bind, false)

/* ---- From the kernel to the program ----------------------------------------------------------------------------- */

static SV_NOINLINE void give_back(const struct sv_address_table *table, int fd, struct sockaddr *address, bool peers)
{
	take_function other_end = peers ? NEXT(take_function, getsockname) : NEXT(take_function, getpeername);
	struct sv_endpoint end = sv_endpoint_of(address), other;
	bool there = end_of(other_end, fd, &other);

	if (peers)
		sv_peer_end(table, &end, there ? &other : NULL);
	else
		sv_own_end(table, &end, there ? &other : NULL);
	sv_put(address, &end);
}

static UNWATCHED int taken(int result, int fd, struct sockaddr *address, const socklen_t *length, socklen_t room,
			   bool peers, const void *caller)
{
	const struct sv_address_table *table =
		result >= 0 && address && sv_is_whole(address, *length, room) ? sv_addresses_for(caller) : NULL;

	if (unlikely(table))
		give_back(table, fd, address, peers);
	return result;
}

#define TAKES(name, type, parameters, arguments, newest, peers)						\
	__attribute__((visibility("default"))) UNWATCHED int name parameters				\
	{												\
		socklen_t room = address && length ? *length : 0;					\
		int result = NEXT(type, name) arguments;						\
													\
		return taken(result, newest, address, length, room, peers, __builtin_return_address(0));\
	}

TAKES(getsockname, take_function, (int fd, struct sockaddr *address, socklen_t *length), (fd, address, length), fd, false)
TAKES(getpeername, take_function, (int fd, struct sockaddr *address, socklen_t *length), (fd, address, length), fd, true)
TAKES(accept, take_function, (int fd, struct sockaddr *address, socklen_t *length), (fd, address, length), result, true)
TAKES(accept4, accept4_function, (int fd, struct sockaddr *address, socklen_t *length, int flags),
      (fd, address, length, flags), result, true)
