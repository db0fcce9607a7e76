/* Counts of what was verified and of what was wrong. Any thread may count. */
#ifndef SELFCHECK_TALLY_H
#define SELFCHECK_TALLY_H

#include <stdatomic.h>
#include <stdint.h>

enum finding { FOUND_LOST, FOUND_DOUBLED, FOUND_DAMAGED, FOUND_UNEXPECTED, FINDINGS };

struct tally {
	atomic_ulong posted;
	atomic_ulong verified;
	atomic_ulong found[FINDINGS];
};

static inline void tally_verified(struct tally *tally, uint64_t count)
{
	atomic_fetch_add_explicit(&tally->verified, count, memory_order_relaxed);
}

/* Counts, and says the first few on stderr. */
void tally_found(struct tally *tally, enum finding finding, uint64_t count, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

int tally_is_clean(const struct tally *tally);

#endif
