#include "work_clock.h"

#include <time.h>

static uint64_t monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

void work_clock_start(struct work_clock *clock)
{
	clock->last_ns = monotonic_ns();
	clock->elapsed_ns = 0;
}

uint64_t work_clock_read(struct work_clock *clock)
{
	uint64_t now = monotonic_ns();
	/* A restored process may find an earlier monotonic clock: another boot. */
	uint64_t step = now > clock->last_ns ? now - clock->last_ns : 0;

	clock->elapsed_ns += step < WORK_CLOCK_STEP_NS ? step : WORK_CLOCK_STEP_NS;
	clock->last_ns = now;
	return clock->elapsed_ns;
}

void work_clock_rest(unsigned int microseconds)
{
	struct timespec ts = { .tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000L };

	nanosleep(&ts, NULL);
}
