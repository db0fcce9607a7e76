/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two hosts of the job may have come back on one. A connection between their programs has one real address at both ends
 * then, which does not tell who speaks. So it comes from an address of the loopback network that does: 127.77.TO.FROM,
 * the numbers of the origins of both ends in the table (1 to 255; TO is 0 where nobody knows). Linux lets such a source
 * reach any address of its own host. There is no such network in IPv6.
 */
#ifndef SV_ADDRESS_ALIAS_H
#define SV_ADDRESS_ALIAS_H

#include "address/address_table.h"

/*
 * The source that a connection of this process to another of this host is to have; `virtual` and `real` are where it
 * goes. False: any will do.
 */
bool sv_alias_source(const struct sv_address_table *table, const struct sv_endpoint *virtual,
		     const struct sv_endpoint *real, struct sv_endpoint *source);

/* Is it such a source, as far as this table goes? */
bool sv_is_alias(const struct sv_address_table *table, const struct sv_endpoint *endpoint);

/* The virtual end of this process' socket; `peer` is the other end if there is one. Both are real. */
void sv_own_end(const struct sv_address_table *table, struct sv_endpoint *own, const struct sv_endpoint *peer);

/* The virtual end at which a socket's peer is; `own` is this end. Both are real. */
void sv_peer_end(const struct sv_address_table *table, struct sv_endpoint *peer, const struct sv_endpoint *own);

#endif
