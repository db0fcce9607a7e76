/*
 * A connection between each two processes by which they agree: where they accept late, that the run is to stop, and how many
 * connections one has opened to the other.
 */
#ifndef TCPCHECK_LINE_H
#define TCPCHECK_LINE_H

#include <stdbool.h>

struct end;

/* Before any may be accepted. */
void lines_prepare(void);

/* Connects to all processes with a higher number; waits for those that do not listen yet, at most for the deadline. */
void lines_open(void);

/* The line of a process with a lower number has come. From any thread. */
void line_accepted(struct end *end);

/* Tells all processes whose line is there, once, where this one accepts late. */
void lines_tell_late_port(int port);

/* Waits a moment for what the others say, and hears it. */
void lines_listen(int milliseconds);

/* Says what is to be said while the run stops. */
void lines_stop(void);

/* Whether all is said and heard, and all that the others have opened has been accepted. */
bool lines_are_over(void);

#endif
