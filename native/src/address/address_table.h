/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exceptions, virtual -> real, from the addresses and ports that the job's programs know to those that they have after
 * a restart. What no line names means itself. The text is that of the agent's file `addresses` (AddressBook.java):
 *
 *	ORIGIN VIRTUAL_ADDRESS VIRTUAL_PORT REAL_ADDRESS REAL_PORT
 *	name HOST_NAME VIRTUAL_ADDRESS
 *	origin ORIGIN VIRTUAL_ADDRESS
 *
 * An origin is a host on which processes were launched first; they keep it. A line of the first kind is for processes
 * of that origin, or with * for all. Both ports are 0 for all that no line with a port names. Of several lines the
 * first counts that is for the own origin and port, the own origin, all and the port, all. The third kind says which
 * addresses the host had. Origins are numbered from 1 in their order there.
 *
 * A table does not change once it is made; it needs no lock.
 */
#ifndef SV_ADDRESS_TABLE_H
#define SV_ADDRESS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SV_ADDRESS_BYTES 16

struct sv_endpoint {
	uint8_t address[SV_ADDRESS_BYTES];	/* of IPv6; one of IPv4 is mapped into it (RFC 4291, 2.5.5.2) */
	uint16_t port;				/* in the host's byte order */
};

struct sv_route;

/* An address that a host had. */
struct sv_home {
	const char *origin_name;
	struct sv_endpoint virtual, real;	/* ports are 0 */
	unsigned origin;
	uint32_t next_virtual, next_real;	/* of the same hash value, plus one; 0: none */
};

struct sv_host_name {
	const char *name;
	uint8_t address[SV_ADDRESS_BYTES];
};

struct sv_address_table {
	struct sv_route *routes;		/* those of the own origin and those for all, in the text's order */
	uint32_t *by_virtual, *by_real;		/* hash tables of indices in routes, plus one */
	uint32_t *by_home, *by_real_home;	/* of those in homes */
	uint32_t mask;
	uint32_t route_count, home_count, name_count;
	unsigned own;				/* number of the own origin; 0: it has none */
	bool shares;				/* another origin has come back at a real address of the own one */
	struct sv_home *homes;
	struct sv_host_name *names;
};

/* How much memory the table of this text needs, at most. */
size_t sv_table_size(const char *text, size_t length);

/*
 * Makes it, in zeroed memory of that size. A line that is none of these is left out; `wrong` becomes the number of the
 * first such line, or 0.
 */
struct sv_address_table *sv_table_make(void *memory, const char *text, size_t length, const char *origin,
				       unsigned *wrong);

/* From virtual to real. False: it means itself. */
bool sv_table_real(const struct sv_address_table *table, struct sv_endpoint *endpoint);

/*
 * From real to virtual: such that sv_table_real would lead back. When several would, those that name the port go before
 * those for all ports; among these an address that an origin had, if its number is not 0; then the first.
 */
void sv_table_virtual(const struct sv_address_table *table, struct sv_endpoint *endpoint, unsigned origin);

/* The number of the origin that had a virtual address; 0: none. */
unsigned sv_table_origin(const struct sv_address_table *table, const uint8_t *address);

/* The next home at a real address, behind `after` or from the beginning (NULL). */
const struct sv_home *sv_table_home(const struct sv_address_table *table, const uint8_t *real,
				    const struct sv_home *after);

/*
 * The next address of a host of the job, behind `after` or from the beginning (NULL). The case of letters does not
 * count.
 */
const struct sv_host_name *sv_table_name(const struct sv_address_table *table, const char *name,
					 const struct sv_host_name *after);

/* Is it of IPv4? */
bool sv_is_v4(const uint8_t *address);
/* Is it the wildcard address of IPv4 or IPv6? */
bool sv_is_any(const uint8_t *address);

#endif
