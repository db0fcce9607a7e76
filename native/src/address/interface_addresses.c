/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of this host, as its programs know it: one that looks for them after a restart, as MPI does when it
 * starts, tells them to others, who are to know the same ones as those that accept(2) names.
 */
#include "base/lost_files.h"
#include "base/next.h"
#include "address/address_book.h"
#include "address/socket_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <stdarg.h>
#include <sys/ioctl.h>

typedef int (*getifaddrs_function)(struct ifaddrs **);
typedef int (*ioctl_function)(int, unsigned long, ...);

#define INTERPOSED __attribute__((visibility("default"))) UNWATCHED

static void make_virtual(const struct sv_address_table *table, struct sockaddr *address)
{
	struct sv_endpoint end;

	if (!address || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
		return;
	end = sv_endpoint_of(address);
	sv_table_virtual(table, &end, table->own);
	sv_put(address, &end);
}

INTERPOSED int getifaddrs(struct ifaddrs **list)
{
	int result = NEXT(getifaddrs_function, getifaddrs)(list);
	const struct sv_address_table *table = result ? NULL : sv_addresses_for(__builtin_return_address(0));

	if (unlikely(table))
		for (struct ifaddrs *at = *list; at; at = at->ifa_next)
			make_virtual(table, at->ifa_addr);
	return result;
}

static SV_NOINLINE void make_list_virtual(const struct sv_address_table *table, const struct ifconf *list)
{
	if (list->ifc_buf)
		for (size_t i = 0; i < list->ifc_len / sizeof(struct ifreq); i++)
			make_virtual(table, &list->ifc_req[i].ifr_addr);
}

/*
 * Those of netdevice(7) that say addresses of IPv4; all others are passed on with one look at the number. Of a device that a
 * restart has left behind nothing is.
 */
INTERPOSED int ioctl(int fd, unsigned long request, ...)
{
	const struct sv_address_table *table;
	va_list arguments;
	void *argument;
	int result;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (unlikely(sv_is_lost(fd))) {
		errno = EIO;
		return -1;
	}
	result = NEXT(ioctl_function, ioctl)(fd, request, argument);
	if (likely(request != SIOCGIFCONF && request != SIOCGIFADDR) || result)
		return result;
	table = sv_addresses_for(__builtin_return_address(0));
	if (table && request == SIOCGIFCONF)
		make_list_virtual(table, argument);
	else if (table)
		make_virtual(table, &((struct ifreq *)argument)->ifr_addr);
	return result;
}
