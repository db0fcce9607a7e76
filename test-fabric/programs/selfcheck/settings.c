#include "settings.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/die.h"
#include "../common/endpoint.h"

static const char usage[] =
"usage: selfcheck -n RANKS [options]                         forks all ranks\n"
"       selfcheck -n RANKS --rank R --dir DIR [options]      one rank; DIR is the same and empty for all\n"
"Runs until SIGTERM or SIGINT, or:\n"
"  --seconds S       that many seconds of running time      --ops N         N operations of one rank\n"
"  --stop-file FILE  FILE appears\n"
"Device:\n"
"  -d NAME  device (the first)     -i PORT  port (1)     -g INDEX  GID index (only where there is no lid)\n"
"Load:\n"
"  --mix NAME[=WEIGHT],...  of send sendimm write writeimm read mirror hot add swap (all, weight 4)\n"
"  --seed N          --threads N   threads that post to each queue pair (1)\n"
"  --depth N         send queue entries of a thread (16)    --max-size BYTES  (65536)\n"
"  --unsignaled PCT  share of unsignaled requests (60)      --pace US         mean pause between posts of a thread\n"
"  --share PCT       rest so that a rank takes no more than so much of a processor on the whole\n"
"  --no-fence        no fenced requests: Soft-RoCE of Linux 6.1 hangs when one follows an RNR NAK\n"
"  --events          wait on a completion channel           --rnr             post receives late\n"
"  --churn           now and then replace a queue pair or a memory region\n"
"  --extended        post by ibv_wr_*, poll extended completion queues\n"
"  --srq             one shared receive queue for all queue pairs\n"
"  --xrc             queue pairs of XRC, and its shared receive queue: one for each rank\n"
"  --windows         peers get at memory through windows (type 2), which change as with --churn\n"
"  --unreliable KIND,...  beside, messages that may be lost, but neither damaged nor doubled: uc ud multicast\n"
"  --verify-ids      query ids and attributes again and again\n"
"  --shared-memory   ranks also count in a page that all map\n"
"Output:\n"
"  --progress S      a line of counts every S seconds       --json            one object at the end\n"
"  --deadline S      running time without any progress after which a rank gives up (60)\n";

enum {
	OPT_RANK = 256, OPT_DIR, OPT_SEED, OPT_THREADS, OPT_EVENTS, OPT_MIX, OPT_DEPTH, OPT_MAX_SIZE, OPT_PROGRESS,
	OPT_SHARED, OPT_RNR, OPT_PACE, OPT_SHARE, OPT_IDS, OPT_CHURN, OPT_SECONDS, OPT_OPS, OPT_STOP_FILE, OPT_JSON,
	OPT_DEADLINE, OPT_UNSIGNALED, OPT_NO_FENCE, OPT_EXTENDED, OPT_SRQ, OPT_XRC,
	OPT_UNRELIABLE, OPT_WINDOWS, OPT_HELP,
};

static const struct option options[] = {
	{ "rank", required_argument, NULL, OPT_RANK },
	{ "dir", required_argument, NULL, OPT_DIR },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "events", no_argument, NULL, OPT_EVENTS },
	{ "mix", required_argument, NULL, OPT_MIX },
	{ "depth", required_argument, NULL, OPT_DEPTH },
	{ "max-size", required_argument, NULL, OPT_MAX_SIZE },
	{ "progress", required_argument, NULL, OPT_PROGRESS },
	{ "shared-memory", no_argument, NULL, OPT_SHARED },
	{ "rnr", no_argument, NULL, OPT_RNR },
	{ "pace", required_argument, NULL, OPT_PACE },
	{ "share", required_argument, NULL, OPT_SHARE },
	{ "verify-ids", no_argument, NULL, OPT_IDS },
	{ "churn", no_argument, NULL, OPT_CHURN },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "ops", required_argument, NULL, OPT_OPS },
	{ "stop-file", required_argument, NULL, OPT_STOP_FILE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "deadline", required_argument, NULL, OPT_DEADLINE },
	{ "unsignaled", required_argument, NULL, OPT_UNSIGNALED },
	{ "no-fence", no_argument, NULL, OPT_NO_FENCE },
	{ "extended", no_argument, NULL, OPT_EXTENDED },
	{ "srq", no_argument, NULL, OPT_SRQ },
	{ "xrc", no_argument, NULL, OPT_XRC },
	{ "unreliable", required_argument, NULL, OPT_UNRELIABLE },
	{ "windows", no_argument, NULL, OPT_WINDOWS },
	{ "help", no_argument, NULL, OPT_HELP },
	{ 0 },
};

static const char *const mix_names[] = {
#define X(id, name) name,
	MIX_LIST(X)
#undef X
};

static const char *const stream_names[] = {
#define X(id, name) name,
	STREAM_LIST(X)
#undef X
};

static void parse_mix(struct settings *settings, const char *list)
{
	char *copy = strdup(list), *rest = copy, *item;

	if (!copy)
		die(0, "out of memory");
	memset(settings->weights, 0, sizeof(settings->weights));
	while ((item = strsep(&rest, ","))) {
		char *weight = strchr(item, '=');
		int mix;

		if (weight)
			*weight++ = 0;
		for (mix = 0; mix < MIX_COUNT && strcmp(item, mix_names[mix]); mix++)
			;
		if (mix == MIX_COUNT)
			die_usage("--mix: there is no operation '%s'", item);
		settings->weights[mix] = weight ? (int)parse_number("--mix", weight, 1, 1000) : 4;
	}
	free(copy);
}

static void parse_streams(struct settings *settings, const char *list)
{
	char *copy = strdup(list), *rest = copy, *item;

	if (!copy)
		die(0, "out of memory");
	while ((item = strsep(&rest, ","))) {
		int kind;

		for (kind = 0; kind < STREAM_KINDS && strcmp(item, stream_names[kind]); kind++)
			;
		if (kind == STREAM_KINDS)
			die_usage("--unreliable: there are no messages over '%s'", item);
		settings->unreliable |= 1U << kind;
	}
	free(copy);
}

static void parse_option(struct settings *settings, int option)
{
	switch (option) {
	case 'n': settings->ranks = parse_number("-n", optarg, 2, MAX_RANKS); break;
	case 'd': settings->device = optarg; break;
	case 'i': settings->port = parse_number("-i", optarg, 1, 255); break;
	case 'g': settings->gid_index = parse_number("-g", optarg, 0, 255); break;
	case OPT_RANK: settings->rank = parse_number("--rank", optarg, 0, MAX_RANKS - 1); break;
	case OPT_DIR: settings->dir = optarg; break;
	case OPT_SEED: settings->seed = parse_number("--seed", optarg, 0, UINT64_MAX); break;
	case OPT_THREADS: settings->lanes = parse_number("--threads", optarg, 1, MAX_LANES); break;
	case OPT_EVENTS: settings->events = 1; break;
	case OPT_MIX: parse_mix(settings, optarg); break;
	case OPT_DEPTH: settings->depth = parse_number("--depth", optarg, 8, 1024); break;
	case OPT_MAX_SIZE: settings->max_size = parse_number("--max-size", optarg, 256, 1 << 20); break;
	case OPT_PROGRESS: settings->progress_s = parse_number("--progress", optarg, 1, 1 << 20); break;
	case OPT_SHARED: settings->shared_memory = 1; break;
	case OPT_RNR: settings->rnr = 1; break;
	case OPT_PACE: settings->pace_us = parse_number("--pace", optarg, 1, 60000000); break;
	case OPT_SHARE: settings->share_percent = parse_number("--share", optarg, 1, 100); break;
	case OPT_IDS: settings->verify_ids = 1; break;
	case OPT_CHURN: settings->churn = 1; break;
	case OPT_SECONDS: settings->seconds = parse_number("--seconds", optarg, 1, 1 << 30); break;
	case OPT_OPS: settings->ops = parse_number("--ops", optarg, 1, UINT64_MAX); break;
	case OPT_STOP_FILE: settings->stop_file = optarg; break;
	case OPT_JSON: settings->json = 1; break;
	case OPT_DEADLINE: settings->deadline_s = parse_number("--deadline", optarg, 1, 1 << 20); break;
	case OPT_UNSIGNALED: settings->unsignaled_percent = parse_number("--unsignaled", optarg, 0, 100); break;
	case OPT_NO_FENCE: settings->no_fence = 1; break;
	case OPT_EXTENDED: settings->extended = 1; break;
	case OPT_SRQ: settings->srq = 1; break;
	case OPT_XRC: settings->xrc = 1; break;
	case OPT_WINDOWS: settings->windows = settings->churn = 1; break;
	case OPT_UNRELIABLE: parse_streams(settings, optarg); break;
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
	int option;

	*settings = (struct settings){
		.rank = -1, .port = 1, .gid_index = GID_INDEX_AUTO, .seed = 1, .lanes = 1, .depth = 16,
		.max_size = 65536, .unsignaled_percent = 60, .deadline_s = 60,
	};
	for (int mix = 0; mix < MIX_COUNT; mix++)
		settings->weights[mix] = 4;
	while ((option = getopt_long(argc, argv, "n:d:i:g:h", options, NULL)) != -1)
		parse_option(settings, option);
	if (optind < argc)
		die_usage("what is '%s'? --help lists the options", argv[optind]);
	if (!settings->ranks)
		die_usage("-n is missing: how many ranks? --help lists the options");
	if ((settings->rank < 0) != !settings->dir)
		die_usage("--rank and --dir go together");
	if (settings->rank >= settings->ranks)
		die_usage("--rank %d: the ranks are 0 to %d", settings->rank, settings->ranks - 1);
	if (settings->srq && settings->xrc)
		die_usage("--srq and --xrc exclude each other: XRC has a shared receive queue of its own");
	if (settings->windows && settings->xrc)
		die_usage("--windows and --xrc exclude each other: a window belongs to a queue pair that is posted to");
	settings->receive_depth = settings->depth * settings->lanes;
}
