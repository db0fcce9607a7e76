/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the job's hosts mean what they meant at the launch, also where nobody else knows them or they mean something
 * else. The answers are virtual addresses, which connect(2) takes.
 */
#include "base/next.h"
#include "address/address_book.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>

typedef int (*getaddrinfo_function)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
typedef struct hostent *(*by_name_function)(const char *);
typedef struct hostent *(*by_name2_function)(const char *, int);
typedef int (*by_name_r_function)(const char *, struct hostent *, char *, size_t, struct hostent **, int *);
typedef int (*by_name2_r_function)(const char *, int, struct hostent *, char *, size_t, struct hostent **, int *);

#define INTERPOSED __attribute__((visibility("default")))

static const uint8_t *bytes_of(const struct sv_host_name *name)
{
	return name->address + (sv_is_v4(name->address) ? 12 : 0);
}

static int family_of(const struct sv_host_name *name)
{
	return sv_is_v4(name->address) ? AF_INET : AF_INET6;
}

/* The table, when this is a name of its. Numbers are no names, whatever a line says. */
static const struct sv_address_table *table_with(const char *name, const void *caller)
{
	const struct sv_address_table *table = name ? sv_addresses_for(caller) : NULL;
	uint8_t number[sizeof(struct in6_addr)];

	if (!table || !sv_table_name(table, name, NULL))
		return NULL;
	return inet_pton(AF_INET, name, number) == 1 || inet_pton(AF_INET6, name, number) == 1 ? NULL : table;
}

/* ---- getaddrinfo ------------------------------------------------------------------------------------------------ */

static bool has_v6(const struct sv_address_table *table, const char *name)
{
	for (const struct sv_host_name *at = NULL; (at = sv_table_name(table, name, at));)
		if (!sv_is_v4(at->address))
			return true;
	return false;
}

/* The number's answer has the number for a canonical name. */
static int rename_first(struct addrinfo *list, const char *name)
{
	char *copy;

	if (!list->ai_canonname)
		return 0;
	copy = strdup(name);
	if (!copy)
		return EAI_MEMORY;
	free(list->ai_canonname);
	list->ai_canonname = copy;
	return 0;
}

/*
 * One list of all addresses: the C library answers for each as for a number, which settles service, family and flags,
 * and frees each element by itself.
 */
static int answer(getaddrinfo_function real, const struct sv_address_table *table, const char *name,
		  const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
	/* What no hints mean: getaddrinfo(3). */
	struct addrinfo numeric = { .ai_flags = AI_V4MAPPED | AI_ADDRCONFIG }, *first = NULL, **end = &first;
	bool v6_only;
	int problem = EAI_NONAME;

	if (hints)
		numeric = *hints;
	v6_only = numeric.ai_family == AF_INET6 && !(numeric.ai_flags & AI_ALL) && has_v6(table, name);
	for (const struct sv_host_name *at = NULL; (at = sv_table_name(table, name, at));) {
		char number[INET6_ADDRSTRLEN];

		if (v6_only && sv_is_v4(at->address))
			continue;
		inet_ntop(family_of(at), bytes_of(at), number, sizeof(number));
		if (first)
			numeric.ai_flags &= ~AI_CANONNAME;
		problem = real(number, service, &numeric, end);
		while (!problem && *end)
			end = &(*end)->ai_next;
	}
	if (!first)
		return problem;
	problem = rename_first(first, sv_table_name(table, name, NULL)->name);
	if (problem)
		freeaddrinfo(first);
	else
		*list = first;
	return problem;
}

INTERPOSED int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
	const struct sv_address_table *table = table_with(name, __builtin_return_address(0));
	getaddrinfo_function real = NEXT(getaddrinfo_function, getaddrinfo);

	if (likely(!table) || (hints && hints->ai_flags & AI_NUMERICHOST))
		return real(name, service, hints, list);
	return answer(real, table, name, service, hints, list);
}

/* ---- gethostbyname ---------------------------------------------------------------------------------------------- */

/* Cuts a piece, aligned for pointers, off the caller's buffer; NULL when it is too small. */
static void *cut(char **buffer, size_t *size, size_t wanted)
{
	size_t gap = -(uintptr_t)*buffer % sizeof(char *);
	void *piece;

	if (*size < gap || *size - gap < wanted)
		return NULL;
	piece = *buffer + gap;
	*buffer += gap + wanted;
	*size -= gap + wanted;
	return piece;
}

/* As gethostbyname2_r(3). */
static int fill(const struct sv_address_table *table, const char *name, int family, struct hostent *host, char *buffer,
		size_t size, struct hostent **result, int *problem)
{
	int length = family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
	size_t count = 0, i = 0;
	char **list, *bytes, *own_name;

	*result = NULL;
	for (const struct sv_host_name *at = NULL; (at = sv_table_name(table, name, at));)
		count += family_of(at) == family;
	if (!count) {
		*problem = NO_DATA;
		return 0;
	}
	list = cut(&buffer, &size, (count + 2) * sizeof(*list));
	bytes = list ? cut(&buffer, &size, count * length) : NULL;
	own_name = bytes ? cut(&buffer, &size, strlen(name) + 1) : NULL;
	if (!own_name) {
		*problem = NETDB_INTERNAL;
		errno = ERANGE;
		return ERANGE;
	}
	for (const struct sv_host_name *at = NULL; (at = sv_table_name(table, name, at));)
		if (family_of(at) == family) {
			list[i] = memcpy(bytes + i * length, bytes_of(at), length);
			i++;
		}
	/* The end of this list is the whole list of other names. */
	list[count] = list[count + 1] = NULL;
	*host = (struct hostent){ .h_name = strcpy(own_name, name), .h_aliases = list + count, .h_addrtype = family,
				  .h_length = length, .h_addr_list = list };
	*result = host;
	*problem = NETDB_SUCCESS;
	return 0;
}

/* As gethostbyname2(3), whose answer is valid until the next one. */
static struct hostent *fill_own(const struct sv_address_table *table, const char *name, int family)
{
	static struct hostent host;
	static char *buffer;
	struct hostent *result = NULL;
	int problem = NETDB_INTERNAL;

	for (size_t size = 1024; size < 1 << 20; size *= 2) {
		char *larger = realloc(buffer, size);

		if (!larger)
			break;
		buffer = larger;
		if (fill(table, name, family, &host, buffer, size, &result, &problem) != ERANGE)
			break;
	}
	h_errno = problem;
	return result;
}

static bool is_known(int family)
{
	return family == AF_INET || family == AF_INET6;
}

INTERPOSED struct hostent *gethostbyname(const char *name)
{
	const struct sv_address_table *table = table_with(name, __builtin_return_address(0));

	return likely(!table) ? NEXT(by_name_function, gethostbyname)(name) : fill_own(table, name, AF_INET);
}

INTERPOSED struct hostent *gethostbyname2(const char *name, int family)
{
	const struct sv_address_table *table = is_known(family) ? table_with(name, __builtin_return_address(0)) : NULL;

	return likely(!table) ? NEXT(by_name2_function, gethostbyname2)(name, family) : fill_own(table, name, family);
}

INTERPOSED int gethostbyname_r(const char *name, struct hostent *host, char *buffer, size_t size,
			       struct hostent **result, int *problem)
{
	const struct sv_address_table *table = table_with(name, __builtin_return_address(0));

	return likely(!table) ? NEXT(by_name_r_function, gethostbyname_r)(name, host, buffer, size, result, problem) :
				fill(table, name, AF_INET, host, buffer, size, result, problem);
}

INTERPOSED int gethostbyname2_r(const char *name, int family, struct hostent *host, char *buffer, size_t size,
				struct hostent **result, int *problem)
{
	const struct sv_address_table *table = is_known(family) ? table_with(name, __builtin_return_address(0)) : NULL;

	return likely(!table) ?
		       NEXT(by_name2_r_function, gethostbyname2_r)(name, family, host, buffer, size, result, problem) :
		       fill(table, name, family, host, buffer, size, result, problem);
}
