/* SPDX-License-Identifier: Apache-2.0 */
#include "address/address_table.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#define FIELDS 5

struct sv_route {
	struct sv_endpoint virtual, real;
	uint32_t next_virtual, next_real;	/* of the same hash value, plus one; 0: none */
	unsigned origin;			/* that had the virtual address; 0: nobody knows */
	bool own;				/* for the own origin only */
};

static const uint8_t v4_prefix[12] = { [10] = 0xff, [11] = 0xff };
static const uint8_t v4_any[SV_ADDRESS_BYTES] = { [10] = 0xff, [11] = 0xff };
static const uint8_t v6_any[SV_ADDRESS_BYTES];

bool sv_is_v4(const uint8_t *address)
{
	return !memcmp(address, v4_prefix, sizeof(v4_prefix));
}

static bool same_address(const uint8_t *one, const uint8_t *other)
{
	return !memcmp(one, other, SV_ADDRESS_BYTES);
}

static bool same(const struct sv_endpoint *one, const struct sv_endpoint *other)
{
	return one->port == other->port && same_address(one->address, other->address);
}

bool sv_is_any(const uint8_t *address)
{
	return same_address(address, v4_any) || same_address(address, v6_any);
}

/* FNV-1a. */
static uint32_t hash_of(const struct sv_endpoint *endpoint)
{
	uint32_t hash = 2166136261u;

	for (int i = 0; i < SV_ADDRESS_BYTES; i++)
		hash = (hash ^ endpoint->address[i]) * 16777619u;
	hash = (hash ^ (endpoint->port & 0xff)) * 16777619u;
	return (hash ^ (endpoint->port >> 8)) * 16777619u;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

static uint32_t lines_of(const char *text, size_t length)
{
	uint32_t count = 1;

	for (size_t i = 0; i < length; i++)
		count += text[i] == '\n';
	return count;
}

static uint32_t heads_of(uint32_t lines)
{
	uint32_t heads = 2;

	while (heads < lines)
		heads *= 2;
	return heads;
}

size_t sv_table_size(const char *text, size_t length)
{
	uint32_t lines = lines_of(text, length);

	return sizeof(struct sv_address_table) + (size_t)lines * (sizeof(struct sv_route) + sizeof(struct sv_home) +
								    sizeof(struct sv_host_name)) +
	       4 * (size_t)heads_of(lines) * sizeof(uint32_t) + length + 1;
}

/* Ends each word with a 0 and finds their beginnings; one too many is counted, too. */
static int split(char *line, char *words[FIELDS + 1])
{
	int count = 0;

	while (count <= FIELDS) {
		line += strspn(line, " \t\r");
		if (!*line)
			break;
		words[count++] = line;
		line += strcspn(line, " \t\r");
		if (*line)
			*line++ = 0;
	}
	return count;
}

static bool read_address(const char *word, uint8_t *address)
{
	if (inet_pton(AF_INET6, word, address) == 1)
		return true;
	memcpy(address, v4_prefix, sizeof(v4_prefix));
	return inet_pton(AF_INET, word, address + sizeof(v4_prefix)) == 1;
}

static bool read_port(const char *word, uint16_t *port)
{
	unsigned value = 0;

	if (!*word)
		return false;
	for (; *word; word++) {
		if (*word < '0' || *word > '9')
			return false;
		value = value * 10 + (*word - '0');
		if (value > UINT16_MAX)
			return false;
	}
	*port = value;
	return true;
}

static bool read_route(struct sv_address_table *table, char *const *words, const char *origin)
{
	struct sv_route route = { .own = strcmp(words[0], "*") != 0 };

	if (!read_address(words[1], route.virtual.address) || !read_port(words[2], &route.virtual.port) ||
	    !read_address(words[3], route.real.address) || !read_port(words[4], &route.real.port) ||
	    sv_is_v4(route.virtual.address) != sv_is_v4(route.real.address) ||
	    !route.virtual.port != !route.real.port)
		return false;
	if (!route.own || !strcmp(words[0], origin))
		table->routes[table->route_count++] = route;
	return true;
}

static bool read_home(struct sv_address_table *table, char *const *words, const char *origin, unsigned *origins)
{
	struct sv_home *home = &table->homes[table->home_count];

	*home = (struct sv_home){ .origin_name = words[1] };
	if (!read_address(words[2], home->virtual.address))
		return false;
	/* Those of one host mostly stand together. */
	for (uint32_t i = table->home_count; i > 0 && !home->origin; i--)
		if (!strcmp(table->homes[i - 1].origin_name, words[1]))
			home->origin = table->homes[i - 1].origin;
	if (!home->origin)
		home->origin = ++*origins;
	if (!strcmp(words[1], origin))
		table->own = home->origin;
	table->home_count++;
	return true;
}

static bool read_name(struct sv_address_table *table, char *const *words)
{
	struct sv_host_name *name = &table->names[table->name_count];

	name->name = words[1];
	if (!read_address(words[2], name->address))
		return false;
	table->name_count++;
	return true;
}

static bool read_line(struct sv_address_table *table, char *line, const char *origin, unsigned *origins)
{
	char *words[FIELDS + 1];

	switch (split(line, words)) {
	case 0:
		return true;
	case 3:
		if (!strcmp(words[0], "origin"))
			return read_home(table, words, origin, origins);
		return !strcmp(words[0], "name") && read_name(table, words);
	case FIELDS:
		return read_route(table, words, origin);
	default:
		return false;
	}
}

/* From the last, so that in each chain the first comes first; so below. */
static void hash_routes(struct sv_address_table *table)
{
	for (uint32_t i = table->route_count; i > 0; i--) {
		struct sv_route *route = &table->routes[i - 1];
		uint32_t *virtual = &table->by_virtual[hash_of(&route->virtual) & table->mask];
		uint32_t *real = &table->by_real[hash_of(&route->real) & table->mask];

		route->next_virtual = *virtual;
		*virtual = i;
		route->next_real = *real;
		*real = i;
	}
}

static void hash_homes(struct sv_address_table *table)
{
	for (uint32_t i = table->home_count; i > 0; i--) {
		struct sv_home *home = &table->homes[i - 1];
		uint32_t *virtual = &table->by_home[hash_of(&home->virtual) & table->mask], *real;

		home->real = home->virtual;
		sv_table_real(table, &home->real);
		real = &table->by_real_home[hash_of(&home->real) & table->mask];
		home->next_virtual = *virtual;
		*virtual = i;
		home->next_real = *real;
		*real = i;
	}
}

/* What the lines say together. */
static void join(struct sv_address_table *table)
{
	hash_routes(table);
	hash_homes(table);
	for (uint32_t i = 0; i < table->route_count; i++)
		table->routes[i].origin = sv_table_origin(table, table->routes[i].virtual.address);
	for (uint32_t i = 0; i < table->home_count; i++) {
		const struct sv_home *home = &table->homes[i], *at = NULL;

		while (home->origin == table->own && (at = sv_table_home(table, home->real.address, at)))
			table->shares |= at->origin != table->own;
	}
}

struct sv_address_table *sv_table_make(void *memory, const char *text, size_t length, const char *origin,
				       unsigned *wrong)
{
	struct sv_address_table *table = memory;
	uint32_t lines = lines_of(text, length), heads = heads_of(lines);
	unsigned origins = 0, number = 0;
	char *copy;

	/* Those that need the wider alignment first. */
	table->homes = (struct sv_home *)(table + 1);
	table->names = (struct sv_host_name *)(table->homes + lines);
	table->routes = (struct sv_route *)(table->names + lines);
	table->by_virtual = (uint32_t *)(table->routes + lines);
	table->by_real = table->by_virtual + heads;
	table->by_home = table->by_real + heads;
	table->by_real_home = table->by_home + heads;
	table->mask = heads - 1;
	copy = memcpy(table->by_real_home + heads, text, length);
	*wrong = 0;
	for (char *line = copy, *end = copy + length; line < end;) {
		char *stop = memchr(line, '\n', end - line);

		stop = stop ? stop : end;
		*stop = 0;
		number++;
		/* No text has a 0 in it. */
		if ((strlen(line) != (size_t)(stop - line) || !read_line(table, line, origin, &origins)) && !*wrong)
			*wrong = number;
		line = stop + 1;
	}
	join(table);
	return table;
}

/* ---- Looking up ------------------------------------------------------------------------------------------------- */

static const struct sv_route *find(const struct sv_address_table *table, const struct sv_endpoint *virtual, bool own)
{
	uint32_t at = table->by_virtual[hash_of(virtual) & table->mask];

	for (; at; at = table->routes[at - 1].next_virtual) {
		const struct sv_route *route = &table->routes[at - 1];

		if (route->own == own && same(&route->virtual, virtual))
			return route;
	}
	return NULL;
}

static const struct sv_route *longest(const struct sv_address_table *table, const struct sv_endpoint *virtual)
{
	struct sv_endpoint all = *virtual;
	const struct sv_route *route;

	all.port = 0;
	route = find(table, virtual, true);
	route = route ? route : find(table, &all, true);
	route = route ? route : find(table, virtual, false);
	return route ? route : find(table, &all, false);
}

/* A socket of IPv6 that listens everywhere has IPv4's port, too. */
static bool as_v4_any(const struct sv_endpoint *endpoint, struct sv_endpoint *v4)
{
	*v4 = *endpoint;
	memcpy(v4->address, v4_any, sizeof(v4_any));
	return same_address(endpoint->address, v6_any);
}

bool sv_table_real(const struct sv_address_table *table, struct sv_endpoint *endpoint)
{
	const struct sv_route *route = longest(table, endpoint);
	struct sv_endpoint before = *endpoint, v4;

	if (route) {
		memcpy(endpoint->address, route->real.address, SV_ADDRESS_BYTES);
		endpoint->port = route->virtual.port ? route->real.port : endpoint->port;
	} else if (as_v4_any(endpoint, &v4) && sv_table_real(table, &v4)) {
		endpoint->port = v4.port;
	}
	return !same(endpoint, &before);
}

static bool leads_to(const struct sv_address_table *table, struct sv_endpoint virtual, const struct sv_endpoint *real)
{
	sv_table_real(table, &virtual);
	return same(&virtual, real);
}

/* An address that an origin had, or any of them (0); one that is what it was has no route. */
static bool lead_home(const struct sv_address_table *table, const struct sv_endpoint *real, unsigned origin,
		      struct sv_endpoint *virtual)
{
	for (const struct sv_home *at = NULL; (at = sv_table_home(table, real->address, at));) {
		*virtual = at->virtual;
		virtual->port = real->port;
		if ((!origin || at->origin == origin) && leads_to(table, *virtual, real))
			return true;
	}
	return false;
}

/* Of the routes to one real end the first that leads there for this process; `origin` 0: of any. */
static bool lead_back(const struct sv_address_table *table, const struct sv_endpoint *real, bool all_ports,
		      unsigned origin, struct sv_endpoint *virtual)
{
	struct sv_endpoint wanted = *real;

	if (all_ports)
		wanted.port = 0;
	for (uint32_t at = table->by_real[hash_of(&wanted) & table->mask]; at; at = table->routes[at - 1].next_real) {
		const struct sv_route *route = &table->routes[at - 1];

		if (!same(&route->real, &wanted) || (origin && route->origin != origin))
			continue;
		*virtual = route->virtual;
		virtual->port = all_ports ? real->port : virtual->port;
		if (leads_to(table, *virtual, real))
			return true;
	}
	return false;
}

void sv_table_virtual(const struct sv_address_table *table, struct sv_endpoint *endpoint, unsigned origin)
{
	struct sv_endpoint virtual, v4;

	if ((origin && lead_back(table, endpoint, false, origin, &virtual)) ||
	    lead_back(table, endpoint, false, 0, &virtual) ||
	    (origin && lead_home(table, endpoint, origin, &virtual)) || lead_home(table, endpoint, 0, &virtual) ||
	    lead_back(table, endpoint, true, 0, &virtual)) {
		*endpoint = virtual;
	} else if (as_v4_any(endpoint, &v4)) {
		sv_table_virtual(table, &v4, origin);
		endpoint->port = v4.port;
	}
}

unsigned sv_table_origin(const struct sv_address_table *table, const uint8_t *address)
{
	struct sv_endpoint wanted = { .port = 0 };

	memcpy(wanted.address, address, SV_ADDRESS_BYTES);
	for (uint32_t at = table->by_home[hash_of(&wanted) & table->mask]; at; at = table->homes[at - 1].next_virtual)
		if (same(&table->homes[at - 1].virtual, &wanted))
			return table->homes[at - 1].origin;
	return 0;
}

const struct sv_home *sv_table_home(const struct sv_address_table *table, const uint8_t *real,
				    const struct sv_home *after)
{
	struct sv_endpoint wanted = { .port = 0 };
	uint32_t at;

	memcpy(wanted.address, real, SV_ADDRESS_BYTES);
	at = after ? after->next_real : table->by_real_home[hash_of(&wanted) & table->mask];
	for (; at; at = table->homes[at - 1].next_real)
		if (same(&table->homes[at - 1].real, &wanted))
			return &table->homes[at - 1];
	return NULL;
}

const struct sv_host_name *sv_table_name(const struct sv_address_table *table, const char *name,
					 const struct sv_host_name *after)
{
	const struct sv_host_name *at = after ? after + 1 : table->names, *end = table->names + table->name_count;
	size_t length = strlen(name);

	/* A name may end with the dot of the root. */
	if (length && name[length - 1] == '.')
		length--;
	for (; at < end; at++)
		if (length && strlen(at->name) == length && !strncasecmp(at->name, name, length))
			return at;
	return NULL;
}
