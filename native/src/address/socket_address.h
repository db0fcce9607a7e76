/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's form of an endpoint. */
#ifndef SV_SOCKET_ADDRESS_H
#define SV_SOCKET_ADDRESS_H

#include "base/next.h"
#include "address/address_table.h"

#include <netinet/in.h>
#include <sys/socket.h>

union sv_socket_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage storage;
};

/* Is there a whole address of IPv4 or IPv6? */
static inline UNWATCHED bool sv_is_inet(const struct sockaddr *address, socklen_t length)
{
	if (!address || length < sizeof(struct sockaddr_in))
		return false;
	return address->sa_family == AF_INET || (address->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6));
}

static inline struct sv_endpoint sv_endpoint_of(const struct sockaddr *address)
{
	struct sv_endpoint endpoint = { .address = { [10] = 0xff, [11] = 0xff } };

	if (address->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;

		memcpy(endpoint.address + 12, &v4->sin_addr, sizeof(v4->sin_addr));
		endpoint.port = ntohs(v4->sin_port);
	} else {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

		memcpy(endpoint.address, &v6->sin6_addr, sizeof(v6->sin6_addr));
		endpoint.port = ntohs(v6->sin6_port);
	}
	return endpoint;
}

/* Of the family that is there. */
static inline void sv_put(struct sockaddr *address, const struct sv_endpoint *endpoint)
{
	if (address->sa_family == AF_INET) {
		struct sockaddr_in *v4 = (struct sockaddr_in *)address;

		memcpy(&v4->sin_addr, endpoint->address + 12, sizeof(v4->sin_addr));
		v4->sin_port = htons(endpoint->port);
	} else {
		struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;

		memcpy(&v6->sin6_addr, endpoint->address, sizeof(v6->sin6_addr));
		v6->sin6_port = htons(endpoint->port);
	}
}

/* The address with that endpoint in a copy, without what may be behind it; `length` becomes the copy's. */
static inline struct sockaddr *sv_with(union sv_socket_address *copy, const struct sockaddr *address, socklen_t *length,
				       const struct sv_endpoint *endpoint)
{
	*length = address->sa_family == AF_INET ? sizeof(copy->v4) : sizeof(copy->v6);
	memcpy(copy, address, *length);
	sv_put(&copy->any, endpoint);
	return &copy->any;
}

/* `length` is what the kernel has said; it has cut what did not fit into `room`. */
static inline UNWATCHED bool sv_is_whole(const struct sockaddr *address, socklen_t length, socklen_t room)
{
	return length <= room && sv_is_inet(address, length);
}

#endif
