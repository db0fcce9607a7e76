/*
 * Time during which this process really ran. A process may be frozen, saved and restored minutes later, on another
 * host: such a gap must end no run early and let no deadline pass, so it counts as WORK_CLOCK_STEP_NS at most.
 * One clock per thread.
 */
#ifndef PROGRAMS_WORK_CLOCK_H
#define PROGRAMS_WORK_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define WORK_CLOCK_STEP_NS 250000000ULL
#define NS_PER_S 1000000000ULL

struct work_clock {
	uint64_t last_ns;
	uint64_t elapsed_ns;
};

void work_clock_start(struct work_clock *clock);

/* Nanoseconds of work since the start. */
uint64_t work_clock_read(struct work_clock *clock);

/* Gives the processor away for a moment between two looks at something that another process changes. */
void work_clock_rest(unsigned int microseconds);

/*
 * Looks in vain, one after the other: who looks again at once is the first to see a change, and who has looked often leaves the
 * processor to those that bring it about, for longer and longer.
 */
struct patience {
	unsigned int looks;
};

void patience_renew(struct patience *patience);

/* After a look in vain. Returns true if it has rested, which may be for as long as a millisecond. */
bool patience_spend(struct patience *patience);

#endif
