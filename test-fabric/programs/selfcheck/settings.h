/* What the command line asks for. */
#ifndef SELFCHECK_SETTINGS_H
#define SELFCHECK_SETTINGS_H

#include <stdint.h>

#define MAX_RANKS 64
#define MAX_LANES 8

/* Families of operations that --mix chooses from. */
#define MIX_LIST(X) \
	X(SEND, "send") \
	X(SEND_IMM, "sendimm") \
	X(WRITE, "write") \
	X(WRITE_IMM, "writeimm") \
	X(READ, "read") \
	X(MIRROR, "mirror") \
	X(HOT, "hot") \
	X(ADD, "add") \
	X(SWAP, "swap")

/* Streams of messages that may be lost, that --unreliable chooses from. */
#define STREAM_LIST(X) \
	X(DATAGRAM, "ud") \
	X(GROUP, "multicast") \
	X(UC, "uc")

enum stream_kind {
#define X(id, name) STREAM_##id,
	STREAM_LIST(X)
#undef X
	STREAM_KINDS
};

enum mix {
#define X(id, name) MIX_##id,
	MIX_LIST(X)
#undef X
	MIX_COUNT
};

struct settings {
	int ranks;
	int rank;			/* -1: fork them all */
	const char *dir;
	const char *device;
	int port;
	int gid_index;
	uint64_t seed;
	int lanes;			/* threads that post to each queue pair */
	int depth;			/* send queue entries of one lane */
	int receive_depth;
	uint32_t max_size;		/* bytes of the longest message or write */
	int weights[MIX_COUNT];
	int unsignaled_percent;
	int no_fence;
	uint64_t seconds;		/* 0: no limit */
	uint64_t ops;			/* 0: no limit */
	const char *stop_file;
	uint64_t progress_s;
	uint64_t pace_us;
	int share_percent;		/* of a processor; 0: as much as there is */
	uint64_t deadline_s;
	int events;
	int shared_memory;
	int rnr;
	int verify_ids;
	int churn;
	int extended;
	int srq;
	int xrc;
	int windows;
	unsigned int unreliable;	/* bit for each of uc, ud, multicast: see unreliable.h */
	int json;
};

void settings_parse(struct settings *settings, int argc, char **argv);

#endif
