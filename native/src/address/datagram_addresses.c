/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that have an address of their own, as those of UDP. There may be many in a second, so the table is not
 * looked for at each: one that is sent in the first moment after a restart may go where its host was before, and is
 * lost.
 */
#include "base/next.h"
#include "address/address_book.h"
#include "address/address_sharing.h"
#include "address/socket_address.h"

typedef ssize_t (*sendto_function)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
typedef ssize_t (*recvfrom_function)(int, void *, size_t, int, struct sockaddr *, socklen_t *);
typedef ssize_t (*sendmsg_function)(int, const struct msghdr *, int);
typedef ssize_t (*recvmsg_function)(int, struct msghdr *, int);

#define INTERPOSED __attribute__((visibility("default"))) UNWATCHED

/* The address where it really goes, which may be the copy. */
static UNWATCHED const struct sockaddr *to(const struct sockaddr *address, socklen_t *length,
					   union sv_socket_address *copy, const void *caller)
{
	const struct sv_address_table *table = sv_is_inet(address, *length) ? sv_addresses_lately(caller) : NULL;
	struct sv_endpoint there;

	if (likely(!table))
		return address;
	there = sv_endpoint_of(address);
	return sv_table_real(table, &there) ? sv_with(copy, address, length, &there) : address;
}

static UNWATCHED void from(struct sockaddr *address, socklen_t length, socklen_t room, const void *caller)
{
	const struct sv_address_table *table = sv_is_whole(address, length, room) ? sv_addresses_lately(caller) : NULL;
	struct sv_endpoint end;

	if (likely(!table))
		return;
	end = sv_endpoint_of(address);
	sv_table_virtual(table, &end, sv_origin_at(table, &end));
	sv_put(address, &end);
}

INTERPOSED ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *address,
			  socklen_t length)
{
	sendto_function real = NEXT(sendto_function, sendto);
	union sv_socket_address copy;

	if (!address)
		return real(fd, data, size, flags, address, length);
	address = to(address, &length, &copy, __builtin_return_address(0));
	return real(fd, data, size, flags, address, length);
}

INTERPOSED ssize_t recvfrom(int fd, void *data, size_t size, int flags, struct sockaddr *address, socklen_t *length)
{
	socklen_t room = address && length ? *length : 0;
	ssize_t result = NEXT(recvfrom_function, recvfrom)(fd, data, size, flags, address, length);

	if (result >= 0 && room)
		from(address, *length, room, __builtin_return_address(0));
	return result;
}

INTERPOSED ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	sendmsg_function real = NEXT(sendmsg_function, sendmsg);
	union sv_socket_address copy;
	struct msghdr translated;

	if (!message || !message->msg_name)
		return real(fd, message, flags);
	translated = *message;
	translated.msg_name = (void *)to(message->msg_name, &translated.msg_namelen, &copy, __builtin_return_address(0));
	return real(fd, &translated, flags);
}

INTERPOSED ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	socklen_t room = message && message->msg_name ? message->msg_namelen : 0;
	ssize_t result = NEXT(recvmsg_function, recvmsg)(fd, message, flags);

	if (result >= 0 && room)
		from(message->msg_name, message->msg_namelen, room, __builtin_return_address(0));
	return result;
}
