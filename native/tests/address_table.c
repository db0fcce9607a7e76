/* SPDX-License-Identifier: Apache-2.0 */
/* What the lines of the file `addresses` say: has the source that it tests in it. */
#include "test.h"
#include "../src/address/address_sharing.h"

#include <arpa/inet.h>

static char printed[INET6_ADDRSTRLEN + 8];

static struct sv_endpoint end(const char *address, unsigned port)
{
	struct sv_endpoint result = { .address = { [10] = 0xff, [11] = 0xff }, .port = port };

	CHECK(inet_pton(AF_INET, address, result.address + 12) == 1 ||
	      inet_pton(AF_INET6, address, result.address) == 1);
	return result;
}

static const char *text_of(const struct sv_endpoint *endpoint)
{
	char address[INET6_ADDRSTRLEN];
	bool v4 = sv_is_v4(endpoint->address);

	inet_ntop(v4 ? AF_INET : AF_INET6, endpoint->address + (v4 ? 12 : 0), address, sizeof(address));
	snprintf(printed, sizeof(printed), "%s %u", address, endpoint->port);
	return printed;
}

static void expect_text(const char *text, const char *expected, int line)
{
	if (strcmp(text, expected)) {
		fprintf(stderr, "line %d: \"%s\", not \"%s\"\n", line, text, expected);
		abort();
	}
}

/*
 * The text is behind no 0, and the table in no more memory than it asked for, so that AddressSanitizer sees what is
 * read beyond.
 */
static struct sv_address_table *make_of(const char *text, size_t length, const char *origin, unsigned *wrong)
{
	char *exact = memcpy(malloc(length + !length), text, length);
	void *memory = calloc(1, sv_table_size(exact, length));
	struct sv_address_table *table = sv_table_make(memory, exact, length, origin, wrong);

	free(exact);
	return table;
}

static struct sv_address_table *make_wrong(const char *text, const char *origin, unsigned *wrong)
{
	return make_of(text, strlen(text), origin, wrong);
}

static struct sv_address_table *make(const char *text, const char *origin)
{
	unsigned wrong;
	struct sv_address_table *table = make_wrong(text, origin, &wrong);

	CHECK_EQUAL(wrong, 0);
	return table;
}

static const char *real(const struct sv_address_table *table, const char *address, unsigned port)
{
	struct sv_endpoint there = end(address, port), before = there;

	CHECK_EQUAL(sv_table_real(table, &there), memcmp(&there, &before, sizeof(there)) != 0);
	return text_of(&there);
}

static const char *virtual(const struct sv_address_table *table, const char *address, unsigned port)
{
	struct sv_endpoint there = end(address, port);

	sv_table_virtual(table, &there, table->own);
	return text_of(&there);
}

/* As another host's, or that of another process. */
static const char *peer(const struct sv_address_table *table, const char *address, unsigned port)
{
	struct sv_endpoint there = end(address, port);

	sv_table_virtual(table, &there, sv_origin_at(table, &there));
	return text_of(&there);
}

#define EXPECT(text, expected) expect_text(text, expected, __LINE__)

static void what_no_line_names_means_itself(void)
{
	struct sv_address_table *empty = make("", "a"), *table = make("* 10.0.0.1 0 10.1.0.1 0\n", "a");

	EXPECT(real(empty, "10.0.0.1", 80), "10.0.0.1 80");
	EXPECT(virtual(empty, "10.0.0.1", 80), "10.0.0.1 80");
	EXPECT(real(table, "10.0.0.2", 80), "10.0.0.2 80");
	EXPECT(real(table, "10.1.0.1", 80), "10.1.0.1 80");
	EXPECT(virtual(table, "10.0.0.1", 80), "10.0.0.1 80");
	EXPECT(real(table, "10.0.0.1", 80), "10.1.0.1 80");
	EXPECT(real(table, "10.0.0.1", 0), "10.1.0.1 0");
	EXPECT(virtual(table, "10.1.0.1", 80), "10.0.0.1 80");
	EXPECT(virtual(table, "10.1.0.1", 0), "10.0.0.1 0");
}

static void the_longest_match_wins(void)
{
	static const char text[] = "* 10.0.0.1 0 10.1.0.1 0\n"
				   "* 10.0.0.1 80 10.1.0.2 81\n"
				   "a 10.0.0.1 0 10.1.0.3 0\n"
				   "a 10.0.0.1 80 10.1.0.4 82\n"
				   "b 10.0.0.1 90 10.1.0.5 91\n";
	struct sv_address_table *a = make(text, "a"), *b = make(text, "b"), *none = make(text, "");

	EXPECT(real(a, "10.0.0.1", 80), "10.1.0.4 82");
	EXPECT(real(a, "10.0.0.1", 90), "10.1.0.3 90");
	EXPECT(real(b, "10.0.0.1", 80), "10.1.0.2 81");
	EXPECT(real(b, "10.0.0.1", 90), "10.1.0.5 91");
	EXPECT(real(b, "10.0.0.1", 70), "10.1.0.1 70");
	EXPECT(real(none, "10.0.0.1", 90), "10.1.0.1 90");
}

/* Virtual addresses of a host may be real ones of another. */
static void hosts_that_were_exchanged(void)
{
	struct sv_address_table *table = make("* 10.0.0.1 0 10.0.0.2 0\n* 10.0.0.2 0 10.0.0.1 0\n"
					      "* fd00::1 0 fd00::2 0\n* fd00::2 0 fd00::1 0\n", "a");

	EXPECT(real(table, "10.0.0.1", 80), "10.0.0.2 80");
	EXPECT(real(table, "10.0.0.2", 80), "10.0.0.1 80");
	EXPECT(virtual(table, "10.0.0.1", 80), "10.0.0.2 80");
	EXPECT(real(table, "fd00::2", 80), "fd00::1 80");
	EXPECT(virtual(table, "fd00::2", 80), "fd00::1 80");
}

/* Each answer leads back, so that a port which has moved is not taken for the one that is where it was. */
static void ports_that_moved_lead_back(void)
{
	static const char text[] = "* 10.0.0.1 0 10.1.0.1 0\n* 10.0.0.2 0 10.1.0.1 0\n"
				   "* 10.0.0.2 5000 10.1.0.1 6000\nb 0.0.0.0 5000 0.0.0.0 6000\n"
				   "b 127.0.0.1 5000 127.0.0.1 6000\n";
	struct sv_address_table *a = make(text, "a"), *b = make(text, "b");

	EXPECT(real(a, "10.0.0.1", 5000), "10.1.0.1 5000");
	EXPECT(real(a, "10.0.0.2", 5000), "10.1.0.1 6000");
	EXPECT(virtual(a, "10.1.0.1", 6000), "10.0.0.2 5000");
	EXPECT(virtual(a, "10.1.0.1", 5000), "10.0.0.1 5000");
	EXPECT(real(b, "0.0.0.0", 5000), "0.0.0.0 6000");
	EXPECT(real(b, "::", 5000), ":: 6000");
	EXPECT(virtual(b, "0.0.0.0", 6000), "0.0.0.0 5000");
	EXPECT(virtual(b, "::", 6000), ":: 5000");
	EXPECT(virtual(b, "127.0.0.1", 6000), "127.0.0.1 5000");
	EXPECT(real(a, "0.0.0.0", 5000), "0.0.0.0 5000");
	EXPECT(real(a, "127.0.0.1", 5000), "127.0.0.1 5000");
	EXPECT(virtual(a, "0.0.0.0", 6000), "0.0.0.0 6000");
}

static void the_own_hosts_address_is_preferred(void)
{
	static const char text[] = "origin a 10.0.0.1\norigin b 10.0.0.2\n"
				   "* 10.0.0.1 0 10.1.0.1 0\n* 10.0.0.2 0 10.1.0.1 0\n";

	EXPECT(virtual(make(text, "a"), "10.1.0.1", 80), "10.0.0.1 80");
	EXPECT(virtual(make(text, "b"), "10.1.0.1", 80), "10.0.0.2 80");
	EXPECT(virtual(make(text, ""), "10.1.0.1", 80), "10.0.0.1 80");
}

static const char shared[] = "origin a 10.0.0.1\norigin a 10.9.0.1\norigin b 10.0.0.2\norigin c 10.0.0.3\n"
			     "origin a fd00::1\norigin b fd00::2\n"
			     "* 10.0.0.1 0 10.1.0.1 0\n* 10.0.0.2 0 10.1.0.1 0\n"
			     "* 10.0.0.3 0 10.1.0.3 0\n* 10.9.0.1 0 10.1.9.1 0\n"
			     "* fd00::1 0 fd01::1 0\n* fd00::2 0 fd01::1 0\n";

/* The ports that a process may choose at a real address: the remainder of all. */
static const char *ports(const struct sv_address_table *table, const char *address)
{
	struct sv_endpoint there = end(address, 0);
	unsigned first, step;

	if (!sv_own_ports(table, &there, &first, &step))
		return "any";
	CHECK(first >= SV_FIRST_CHOSEN && first < SV_FIRST_CHOSEN + step);
	snprintf(printed, sizeof(printed), "%u of %u", first % step, step);
	return printed;
}

static void ports_tell_whose_they_are_at_a_shared_address(void)
{
	struct sv_address_table *a = make(shared, "a"), *b = make(shared, "b"), *c = make(shared, "c");
	struct sv_address_table *none = make(shared, "");

	EXPECT(ports(a, "10.1.0.1"), "0 of 2");
	EXPECT(ports(b, "10.1.0.1"), "1 of 2");
	EXPECT(ports(b, "0.0.0.0"), "1 of 2");
	EXPECT(ports(b, "::"), "1 of 2");
	EXPECT(ports(b, "fd01::1"), "1 of 2");
	EXPECT(ports(a, "10.1.9.1"), "any");
	EXPECT(ports(a, "10.1.0.3"), "any");
	EXPECT(ports(a, "127.0.0.1"), "any");
	EXPECT(ports(c, "0.0.0.0"), "any");
	EXPECT(ports(c, "10.1.0.1"), "any");
	EXPECT(ports(none, "0.0.0.0"), "any");

	/* For the programs of all hosts. */
	EXPECT(peer(a, "10.1.0.1", 40000), "10.0.0.1 40000");
	EXPECT(peer(a, "10.1.0.1", 40001), "10.0.0.2 40001");
	EXPECT(peer(b, "10.1.0.1", 40000), "10.0.0.1 40000");
	EXPECT(peer(c, "10.1.0.1", 40001), "10.0.0.2 40001");
	EXPECT(peer(c, "fd01::1", 40001), "fd00::2 40001");
	EXPECT(peer(none, "10.1.0.1", 40001), "10.0.0.2 40001");
	/* Ports that programs choose say nothing, and an address that nobody shares says all. */
	EXPECT(peer(c, "10.1.0.1", 81), "10.0.0.1 81");
	EXPECT(peer(c, "10.1.0.1", 61001), "10.0.0.1 61001");
	EXPECT(peer(a, "10.1.0.3", 40001), "10.0.0.3 40001");
	EXPECT(peer(a, "10.1.9.1", 40001), "10.9.0.1 40001");
	/* Its own end a process knows, whatever the port. */
	EXPECT(virtual(b, "10.1.0.1", 40000), "10.0.0.2 40000");
}

static void many_hosts_share_an_address(void)
{
	char text[4096] = "", name[16];
	struct sv_address_table *table;

	for (int i = 0; i < 30; i++)
		sprintf(text + strlen(text), "origin h%d 10.0.0.%d\norigin h%d 10.0.1.%d\n* 10.0.0.%d 0 10.1.0.1 0\n"
			"* 10.0.1.%d 0 10.1.0.1 0\n", i, i, i, i, i, i);
	for (int i = 0; i < 30; i++) {
		char expected[40];

		snprintf(name, sizeof(name), "h%d", i);
		table = make(text, name);
		snprintf(expected, sizeof(expected), "%d of 30", i);
		EXPECT(ports(table, "10.1.0.1"), expected);
		snprintf(expected, sizeof(expected), "10.0.0.%d %d", i, 33000 + i);
		EXPECT(peer(table, "10.1.0.1", 33000 + i), expected);
	}
}

/* Its address is what it was, so that no line says what it means. */
static void a_host_that_stayed_and_one_that_came(void)
{
	static const char text[] = "origin a 10.0.0.1\norigin b 10.0.0.2\n* 10.0.0.2 0 10.0.0.1 0\n";
	struct sv_address_table *a = make(text, "a"), *b = make(text, "b");

	EXPECT(real(a, "10.0.0.1", 80), "10.0.0.1 80");
	EXPECT(real(a, "10.0.0.2", 80), "10.0.0.1 80");
	EXPECT(ports(a, "10.0.0.1"), "0 of 2");
	EXPECT(ports(b, "10.0.0.1"), "1 of 2");
	EXPECT(virtual(a, "10.0.0.1", 40001), "10.0.0.1 40001");
	EXPECT(virtual(b, "10.0.0.1", 40000), "10.0.0.2 40000");
	EXPECT(peer(a, "10.0.0.1", 40000), "10.0.0.1 40000");
	EXPECT(peer(a, "10.0.0.1", 40001), "10.0.0.2 40001");
	EXPECT(peer(b, "10.0.0.1", 80), "10.0.0.1 80");
}

/* A connection that came back has the port that it had. */
static void a_line_for_a_port_says_more_than_the_port(void)
{
	static const char lines[] = "* 10.0.0.1 40001 10.1.0.1 40001\n* 10.0.0.2 81 10.1.0.1 81\n";
	char text[sizeof(shared) + sizeof(lines)];
	struct sv_address_table *c;

	snprintf(text, sizeof(text), "%s%s", shared, lines);
	c = make(text, "c");
	EXPECT(peer(c, "10.1.0.1", 40001), "10.0.0.1 40001");
	EXPECT(peer(c, "10.1.0.1", 40003), "10.0.0.2 40003");
	EXPECT(peer(c, "10.1.0.1", 81), "10.0.0.2 81");
}

static void names_have_all_their_addresses(void)
{
	struct sv_address_table *table = make("name Node1 10.0.0.1\nname node2 10.0.0.2\nname node1 fd00::1\n", "a");
	const struct sv_host_name *first = sv_table_name(table, "nODE1", NULL);
	const struct sv_host_name *second = sv_table_name(table, "node1.", first);
	struct sv_endpoint v4 = end("10.0.0.1", 0), v6 = end("fd00::1", 0);

	CHECK(first && second && !sv_table_name(table, "node1", second));
	CHECK(!memcmp(first->address, v4.address, sizeof(v4.address)));
	CHECK(!memcmp(second->address, v6.address, sizeof(v6.address)));
	CHECK(!sv_table_name(table, "node", NULL) && !sv_table_name(table, "node11", NULL));
	CHECK(!sv_table_name(table, "", NULL) && !sv_table_name(table, ".", NULL));
}

static void a_line_that_is_wrong_is_left_out(void)
{
	static const char *const lines[] = {
		"*", "* 10.0.0.1", "* 10.0.0.1 0 10.1.0.1", "* 10.0.0.1 0 10.1.0.1 0 0", "* 10.0.0 0 10.1.0.1 0",
		"* 10.0.0.1 0 10.1.0.1 5", "* 10.0.0.1 5 10.1.0.1 0", "* 10.0.0.1 65536 10.1.0.1 1",
		"* 10.0.0.1 -1 10.1.0.1 1",
		"* 10.0.0.1 4294967297 10.1.0.1 1", "* 10.0.0.1 0 fd00::1 0", "* fe80::1%eth0 0 fe80::2 0", "name a",
		"name a b",
		"origin a b", "origin a", "host a 10.0.0.1",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		struct sv_address_table *table;
		char text[256];
		unsigned wrong;

		snprintf(text, sizeof(text), "* 10.0.0.2 0 10.1.0.2 0\n\n%s\n* 10.0.0.3 0 10.1.0.3 0", lines[i]);
		table = make_wrong(text, "*", &wrong);
		CHECK_EQUAL(wrong, 3);
		CHECK_EQUAL(table->home_count + table->name_count, 0);
		EXPECT(real(table, "10.0.0.1", 5), "10.0.0.1 5");
		EXPECT(real(table, "10.0.0.2", 5), "10.1.0.2 5");
		EXPECT(real(table, "10.0.0.3", 5), "10.1.0.3 5");
	}
}

static void many_lines(void)
{
	enum { HOSTS = 3000 };
	char *text = malloc(HOSTS * 64), address[32], expected[32];
	size_t length = 0;
	struct sv_address_table *table;

	for (int i = 0; i < HOSTS; i++)
		length += sprintf(text + length, "* 10.0.%d.%d 0 10.1.%d.%d 0\n", i / 250, i % 250, i / 250, i % 250);
	table = make(text, "a");
	for (int i = 0; i < HOSTS; i++) {
		snprintf(address, sizeof(address), "10.0.%d.%d", i / 250, i % 250);
		snprintf(expected, sizeof(expected), "10.1.%d.%d 7", i / 250, i % 250);
		EXPECT(real(table, address, 7), expected);
	}
}

/* The same sequence in every run. */
static unsigned chance(unsigned below)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 33) % below;
}

/* Whatever the file has become, nothing is read beyond it, and what is found for a real end leads back to it. */
static void damaged_files_do_no_harm(void)
{
	static const char pieces[] = "*ab .:0158\n\t%\0f";
	char text[sizeof(shared)];

	for (int i = 0; i < 20000; i++) {
		struct sv_address_table *table;
		unsigned length = 1 + chance(sizeof(shared) - 1), wrong;

		memcpy(text, shared, sizeof(shared));
		for (unsigned damage = chance(20); damage > 0; damage--)
			text[chance(length)] = pieces[chance(sizeof(pieces) - 1)];
		table = make_of(text, length, "a", &wrong);
		for (int j = 0; j < 10; j++) {
			struct sv_endpoint real_end = end("10.1.0.1", chance(3)), there = real_end;

			real_end.address[15] = there.address[15] = chance(4);
			sv_table_virtual(table, &there, chance(4));
			if (memcmp(&there, &real_end, sizeof(there))) {
				sv_table_real(table, &there);
				CHECK(!memcmp(&there, &real_end, sizeof(there)));
			}
			sv_table_virtual(table, &there, sv_origin_at(table, &there));
		}
		sv_table_name(table, "a", NULL);
		free(table);
	}
}

int main(void)
{
	RUN(what_no_line_names_means_itself);
	RUN(the_longest_match_wins);
	RUN(hosts_that_were_exchanged);
	RUN(ports_that_moved_lead_back);
	RUN(the_own_hosts_address_is_preferred);
	RUN(ports_tell_whose_they_are_at_a_shared_address);
	RUN(many_hosts_share_an_address);
	RUN(a_host_that_stayed_and_one_that_came);
	RUN(a_line_for_a_port_says_more_than_the_port);
	RUN(names_have_all_their_addresses);
	RUN(a_line_that_is_wrong_is_left_out);
	RUN(many_lines);
	RUN(damaged_files_do_no_harm);
	return 0;
}
