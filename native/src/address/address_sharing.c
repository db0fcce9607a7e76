/* SPDX-License-Identifier: Apache-2.0 */
#include "address/address_sharing.h"

#include <string.h>

/* Is this home, of those at its real address, the first of its origin? */
static bool counts(const struct sv_address_table *table, const struct sv_home *home)
{
	const struct sv_home *at = sv_table_home(table, home->real.address, NULL);

	while (at->origin != home->origin)
		at = sv_table_home(table, home->real.address, at);
	return at == home;
}

/* How many origins have come back there; `place` is how many of these come before one. */
static unsigned sharers(const struct sv_address_table *table, const uint8_t *address, unsigned origin, unsigned *place)
{
	unsigned count = 0;

	for (const struct sv_home *at = NULL; (at = sv_table_home(table, address, at));)
		if (counts(table, at)) {
			if (at->origin == origin)
				*place = count;
			count++;
		}
	return count;
}

unsigned sv_origin_at(const struct sv_address_table *table, const struct sv_endpoint *real)
{
	unsigned place = 0, count = sharers(table, real->address, 0, &place);

	if (!count || (count > 1 && (real->port < SV_FIRST_CHOSEN || real->port > SV_LAST_CHOSEN)))
		return 0;
	place = real->port % count;
	for (const struct sv_home *at = NULL; (at = sv_table_home(table, real->address, at));)
		if (counts(table, at) && !place--)
			return at->origin;
	return 0;
}

/* The first address of the own host that others share, when none is given. */
static const uint8_t *shared_address(const struct sv_address_table *table, const struct sv_endpoint *real)
{
	unsigned place;

	if (!sv_is_any(real->address))
		return real->address;
	for (uint32_t i = 0; i < table->home_count; i++) {
		const struct sv_home *home = &table->homes[i];

		if (home->origin == table->own && sharers(table, home->real.address, 0, &place) > 1)
			return home->real.address;
	}
	return real->address;
}

bool sv_own_ports(const struct sv_address_table *table, const struct sv_endpoint *real, unsigned *first, unsigned *step)
{
	unsigned place = UINT32_MAX;

	if (!table->shares)
		return false;
	*step = sharers(table, shared_address(table, real), table->own, &place);
	if (*step < 2 || place >= *step)
		return false;
	*first = SV_FIRST_CHOSEN + (*step + place - SV_FIRST_CHOSEN % *step) % *step;
	return true;
}
