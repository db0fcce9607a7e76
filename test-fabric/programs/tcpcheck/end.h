/*
 * One end of a connection: what it sends, and what it has received and checked. It is one thread's at a time, but for a
 * connection of blocking threads, of which one writes and one reads.
 */
#ifndef TCPCHECK_END_H
#define TCPCHECK_END_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "content.h"
#include "kinds.h"

/* The first bytes of the opener: which connection it is. */
struct greeting {
	uint32_t magic, opener, target, number, kind, sum;
};

/* What this process says first on a connection that it has opened. */
struct greeting greeting_of(uint32_t target, uint32_t number, enum kind kind);

struct slot;

struct outgoing {
	uint64_t seed;
	_Atomic uint64_t position;
	uint32_t message; /* the next one */
	uint8_t bytes[sizeof(struct greeting) + 2 * MESSAGE_BYTES]; /* of the one that is being sent */
	size_t length, sent;
	bool last; /* that is the last */
	bool over; /* all is sent, and the direction is shut down where the role does that */
	uint64_t pause_until; /* now_ms() */
};

struct incoming {
	uint64_t seed;
	_Atomic uint64_t position;
	uint32_t message; /* the next one */
	uint64_t next_message; /* its position */
	bool last; /* the one before it is the last */
	bool over; /* the end of the stream has come */
	uint64_t pause_until;
};

struct end {
	int fd;
	uint32_t opener, target, number;
	enum kind kind;
	const struct role *role; /* null: the greeting has not come yet */
	struct slot *slot; /* of the opener; null: accepted here */
	bool connecting;
	struct greeting greeting;
	size_t greeted; /* bytes of the greeting that have come */
	struct outgoing out;
	struct incoming in;
	atomic_bool broken;
	/* What its poller knows of it: poller.c. */
	bool readable, writable;
	uint32_t watched;
	struct end *next_of_poller;
	/* All ends of the process. */
	struct end *next, *before;
};

struct end *end_accepted(int fd);
struct end *end_opened(int fd, uint32_t target, uint32_t number, enum kind kind, struct slot *slot);

/* Options and buffers that differ from connection to connection. For an opened one before it is connected. */
void end_set_options(struct end *end);

enum greeted { GREETING_INCOMPLETE, GREETING_COMPLETE, GREETING_WRONG };

/* Takes what has come of the greeting of an accepted one; then it has its kind. */
enum greeted end_greet(struct end *end);

/*
 * Sends, or receives and checks, as much as there is to do now. What there is to do later begins at pause_until. False: the
 * descriptor has to become writable or readable first. With blocking, it is waited for.
 */
bool end_write(struct end *end, bool blocking);
bool end_read(struct end *end, bool blocking);

bool end_is_over(const struct end *end);

/* Counts a fault as an error, and says so with what the connection is and does. */
void end_error(struct end *end, int err, const char *call);

/* Closes it, and tells its slot. */
void end_close(struct end *end);

/* Whether there are none. */
bool ends_are_over(void);

/* A line on stderr for each one that there still is. */
void ends_describe(const char *what);

#endif
