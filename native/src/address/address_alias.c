/* SPDX-License-Identifier: Apache-2.0 */
#include "address/address_alias.h"

#include <string.h>

/* In an address of IPv4 that is mapped into one of IPv6. */
#define NETWORK 12
#define TO 14
#define FROM 15
#define MOST UINT8_MAX

static const uint8_t network[2] = { 127, 77 };

static bool same_address(const struct sv_endpoint *one, const struct sv_endpoint *other)
{
	return !memcmp(one->address, other->address, SV_ADDRESS_BYTES);
}

bool sv_alias_source(const struct sv_address_table *table, const struct sv_endpoint *virtual,
		     const struct sv_endpoint *real, struct sv_endpoint *source)
{
	unsigned to = sv_table_origin(table, virtual->address);
	bool here = false;

	if (!table->shares || table->own > MOST || !sv_is_v4(real->address))
		return false;
	for (uint32_t i = 0; i < table->home_count && !here; i++)
		here = table->homes[i].origin == table->own && same_address(&table->homes[i].real, real);
	if (!here)
		return false;
	*source = *real;
	memcpy(source->address + NETWORK, network, sizeof(network));
	source->address[TO] = to > MOST ? 0 : to;
	source->address[FROM] = table->own;
	source->port = 0;
	return true;
}

bool sv_is_alias(const struct sv_address_table *table, const struct sv_endpoint *endpoint)
{
	return table->shares && sv_is_v4(endpoint->address) &&
	       !memcmp(endpoint->address + NETWORK, network, sizeof(network));
}

/* The address that an origin had and that is now the real one of `here`, else its first of IPv4. */
static void stand_for(const struct sv_address_table *table, struct sv_endpoint *alias, const struct sv_endpoint *here)
{
	const struct sv_home *found = NULL;

	for (uint32_t i = 0; i < table->home_count; i++) {
		const struct sv_home *home = &table->homes[i];

		if (home->origin != alias->address[FROM] || !sv_is_v4(home->virtual.address))
			continue;
		if (here && same_address(&home->real, here)) {
			found = home;
			break;
		}
		found = found ? found : home;
	}
	if (found)
		memcpy(alias->address, found->virtual.address, SV_ADDRESS_BYTES);
}

void sv_own_end(const struct sv_address_table *table, struct sv_endpoint *own, const struct sv_endpoint *peer)
{
	if (sv_is_alias(table, own))
		stand_for(table, own, peer);
	else
		sv_table_virtual(table, own, table->own);
}

void sv_peer_end(const struct sv_address_table *table, struct sv_endpoint *peer, const struct sv_endpoint *own)
{
	if (sv_is_alias(table, peer))
		stand_for(table, peer, own);
	else
		sv_table_virtual(table, peer, own && sv_is_alias(table, own) ? own->address[TO] : 0);
}
