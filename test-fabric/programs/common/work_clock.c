#include "work_clock.h"

#include <time.h>

#define LOOKS_BEFORE_REST 10
#define SHORTEST_REST_US 50
#define LONGEST_REST_US 5000

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

void patience_renew(struct patience *patience)
{
	patience->looks = 0;
}

bool patience_spend(struct patience *patience)
{
	unsigned int rest = SHORTEST_REST_US;

	if (patience->looks < LOOKS_BEFORE_REST) {
		patience->looks++;
		return false;
	}
	for (unsigned int i = LOOKS_BEFORE_REST; i < patience->looks && rest < LONGEST_REST_US; i++)
		rest *= 2;
	if (rest < LONGEST_REST_US)
		patience->looks++;
	else
		rest = LONGEST_REST_US;
	work_clock_rest(rest);
	return true;
}
