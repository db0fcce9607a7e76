/* What the two sides of a connection do, and so in which states a checkpoint meets it. */
#ifndef TCPCHECK_KINDS_H
#define TCPCHECK_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kind {
	KIND_BUSY, /* both directions full most of the time */
	KIND_BLOCKING, /* the same, by threads that block */
	KIND_IDLE, /* one message, then nothing until the end */
	KIND_HALF_OPENER, /* the opener has shut down its direction, the other one goes on */
	KIND_HALF_ACCEPTOR, /* the other way round */
	KIND_SHORT, /* a few messages, then a new connection */
	KIND_LATE, /* likewise, but it is accepted seconds after it has sent its data */
	KIND_LEFT, /* the opener has sent and closed, and the acceptor reads seconds later */
	KIND_CROSSED, /* both have sent all and shut down before either reads */
	KINDS,
	KIND_LINE = KINDS, /* how processes agree: line.h */
};

#define UNTIL_STOP UINT32_MAX

struct role {
	uint32_t messages; /* 0: it sends nothing, and so does not shut down either */
	uint32_t first_read_ms; /* it reads nothing before */
	bool slow; /* it reads little at a time, and now and then nothing for a while, so that the window closes */
	bool rests; /* after the first message it sends nothing until the stop */
	bool leaves; /* it closes when it has sent all, without having read */
};

struct behaviour {
	const char *name;
	struct role opener, acceptor;
	uint32_t again_ms; /* one that has ended is opened anew so long after; 0: it lasts until the stop */
};

extern const struct behaviour behaviours[KINDS];

#define ALL_KINDS ((1U << KINDS) - 1)

/* The kind of a process's connections in that slot, among those whose bits are set: at least one. */
enum kind kind_of_slot(int slot, uint32_t among);

#endif
