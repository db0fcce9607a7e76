/* What all parts of one process know of the run. */
#ifndef TCPCHECK_RUN_H
#define TCPCHECK_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "settings.h"

struct run {
	struct settings settings;
	/* Nothing new is opened, and every stream comes to its last message. */
	atomic_bool stopping;
	/* A fault that is to be injected and has not been yet. */
	atomic_int fault;
	atomic_ullong opened, received;
	atomic_ullong lost, doubled, damaged, errors;
	/* Connections that came from each process. */
	atomic_uint accepted_from[MAX_PROCESSES];
};

extern struct run run;

static inline uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

#endif
