#include "settings.h"

#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/die.h"
#include "kinds.h"

static const char usage[] =
"usage: tcpcheck -n PROCESSES [options]                       forks all, on this host\n"
"       tcpcheck --me I --at HOST:PORT,HOST:PORT,... [options]  one process, the I-th of those (from 0)\n"
"Each process holds connections to each other one, in all states, and checks every byte of them.\n"
"Runs until SIGTERM or SIGINT at one process, or:\n"
"  --seconds S       that many seconds of running time      --stop-file FILE  FILE appears\n"
"  --connections N   that each process holds open to each other one (32)\n"
"  --kinds KIND,...  of busy blocking idle half-opener half-acceptor short late left crossed (all)\n"
"  --ipv6            with -n: over ::1; with --at an address of IPv6 is [ADDRESS]:PORT\n"
"  --deadline S      running time that a start and an end may take (60)\n"
"  --fault KIND      a fault that must be found: drop double flip reset\n"
"Prints READY when all is open, and in the end a line of what it has seen.\n";

enum { OPT_ME = 256, OPT_AT, OPT_SECONDS, OPT_STOP_FILE, OPT_CONNECTIONS, OPT_KINDS, OPT_IPV6, OPT_DEADLINE, OPT_FAULT, OPT_HELP };

static const struct option options[] = {
	{ "me", required_argument, NULL, OPT_ME },
	{ "at", required_argument, NULL, OPT_AT },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "stop-file", required_argument, NULL, OPT_STOP_FILE },
	{ "connections", required_argument, NULL, OPT_CONNECTIONS },
	{ "kinds", required_argument, NULL, OPT_KINDS },
	{ "ipv6", no_argument, NULL, OPT_IPV6 },
	{ "deadline", required_argument, NULL, OPT_DEADLINE },
	{ "fault", required_argument, NULL, OPT_FAULT },
	{ "help", no_argument, NULL, OPT_HELP },
	{ 0 },
};

static const char *const fault_names[] = { "none", "drop", "double", "flip", "reset" };

static enum fault parse_fault(const char *name)
{
	for (int fault = FAULT_DROP; fault <= FAULT_RESET; fault++)
		if (!strcmp(name, fault_names[fault]))
			return fault;
	die_usage("--fault: there is no fault '%s'", name);
}

static uint32_t parse_kinds(const char *list)
{
	char *copy = strdup(list), *rest = copy, *item;
	uint32_t kinds = 0;

	if (!copy)
		die(0, "out of memory");
	while ((item = strsep(&rest, ","))) {
		int kind = 0;

		while (kind < KINDS && strcmp(item, behaviours[kind].name))
			kind++;
		if (kind == KINDS)
			die_usage("--kinds: there is no kind '%s'", item);
		kinds |= 1U << kind;
	}
	free(copy);
	return kinds;
}

static void parse_place(struct place *place, char *text)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
	char *colon = strrchr(text, ':'), *host = text;
	char port[8];
	int error;

	place->name = strdup(text);
	if (!place->name)
		die(0, "out of memory");
	if (!colon || colon == text)
		die_usage("--at: '%s' is not HOST:PORT", text);
	*colon = 0;
	snprintf(port, sizeof(port), "%llu", parse_number("--at: the port", colon + 1, 1, 65535));
	if (*host == '[' && colon[-1] == ']') {
		host++;
		colon[-1] = 0;
	}
	error = getaddrinfo(host, port, &hints, &found);
	if (error)
		die_usage("--at: %s: %s", place->name, gai_strerror(error));
	memcpy(&place->address, found->ai_addr, found->ai_addrlen);
	place->length = found->ai_addrlen;
	freeaddrinfo(found);
}

static void parse_places(struct settings *settings, const char *list)
{
	char *copy = strdup(list), *rest = copy, *item;

	if (!copy)
		die(0, "out of memory");
	settings->processes = 0;
	while ((item = strsep(&rest, ","))) {
		if (settings->processes == MAX_PROCESSES)
			die_usage("--at: more than %d processes", MAX_PROCESSES);
		parse_place(&settings->places[settings->processes++], item);
	}
	free(copy);
}

static void parse_option(struct settings *settings, int option, int *forked, int *listed)
{
	switch (option) {
	case 'n': *forked = settings->processes = parse_number("-n", optarg, 2, MAX_PROCESSES); break;
	case OPT_ME: settings->me = parse_number("--me", optarg, 0, MAX_PROCESSES - 1); break;
	case OPT_AT: parse_places(settings, optarg); *listed = 1; break;
	case OPT_SECONDS: settings->seconds = parse_number("--seconds", optarg, 1, 1 << 30); break;
	case OPT_STOP_FILE: settings->stop_file = optarg; break;
	case OPT_CONNECTIONS: settings->slots = parse_number("--connections", optarg, 1, MAX_SLOTS); break;
	case OPT_KINDS: settings->kinds = parse_kinds(optarg); break;
	case OPT_IPV6: settings->ipv6 = 1; break;
	case OPT_DEADLINE: settings->deadline_s = parse_number("--deadline", optarg, 1, 1 << 20); break;
	case OPT_FAULT: settings->fault = parse_fault(optarg); break;
	case OPT_HELP:
		fputs(usage, stdout);
		exit(0);
	default:
		fputs(usage, stderr);
		exit(2);
	}
}

void settings_parse(struct settings *settings, int argc, char **argv)
{
	int option, forked = 0, listed = 0;

	*settings = (struct settings){ .me = -1, .slots = 32, .kinds = ALL_KINDS, .deadline_s = 60 };
	while ((option = getopt_long(argc, argv, "n:", options, NULL)) != -1)
		parse_option(settings, option, &forked, &listed);
	if (optind < argc)
		die_usage("what is '%s'? --help lists the options", argv[optind]);
	if (!forked && !listed)
		die_usage("-n or --at is missing: how many processes, or where? --help lists the options");
	if (forked && (listed || settings->me >= 0))
		die_usage("-n excludes --at and --me");
	if (listed && settings->me < 0)
		die_usage("--me is missing: which of those of --at is this process?");
	if (listed && settings->ipv6)
		die_usage("--ipv6 goes with -n: --at says the addresses");
	if (settings->processes < 2)
		die_usage("--at: a process needs another one to connect to");
	if (settings->me >= settings->processes)
		die_usage("--me %d: the processes are 0 to %d", settings->me, settings->processes - 1);
}
