/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several hosts of the job may have come back on one, at one real address, which does not tell whose a connection is.
 * So where the system would choose a port, from 32768 to 60999, the programs there choose it themselves: its remainder
 * by the number of the hosts at that address tells whose it is, to the programs of all hosts.
 */
#ifndef SV_ADDRESS_SHARING_H
#define SV_ADDRESS_SHARING_H

#include "address/address_table.h"

/* The origin whose a real endpoint is, as far as the address or the port tells; 0: it does not. */
unsigned sv_origin_at(const struct sv_address_table *table, const struct sv_endpoint *real);

/*
 * Which ports this process may choose at one of its real addresses, or at the wildcard address: `first`, and each
 * `step`th behind it up to SV_LAST_CHOSEN. False: any, as nobody shares the address.
 */
bool sv_own_ports(const struct sv_address_table *table, const struct sv_endpoint *real, unsigned *first, unsigned *step);

#define SV_FIRST_CHOSEN 32768
#define SV_LAST_CHOSEN 60999

#endif
