/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line between a launching command and its host's agent (docs/MESSAGES.md, "Launching command and agent"): what the program
 * comes to and what the user wants goes one way, lines for the user and the end of the job the other. When the agent is lost it is
 * connected to again, and started anew if nobody else does.
 */
#ifndef ATTEND_H
#define ATTEND_H

#include <stdbool.h>

/* So long an agent may be gone before the programs that it looked after are to end: another one may be elsewhere by then. */
#define AGENT_GONE_SECONDS 20

enum attend_news {
	ATTEND_NOTHING,
	ATTEND_JOB_ENDED,	/* with the job's exit status */
	ATTEND_LEFT_ALONE,	/* the job goes on, and nobody looks after it */
	ATTEND_AGENT_GONE,	/* for AGENT_GONE_SECONDS */
};

/*
 * Begins it. `agent` is the agent's socket, `program` what was launched, for messages. `stays` says whether this process outlives
 * its program: only then an agent is started anew.
 */
void attend(const char *agent, const char *program, bool stays);

/* For poll(2): the descriptor, -1 while there is none, and milliseconds to wait at most, -1 for ever. */
int attend_fd(void);
int attend_timeout(void);

/* To be called when poll(2) returns. Writes lines for the user. */
enum attend_news attend_serve(bool readable, int *status);

/* The program has ended, with what wait(2) says. One agent is told: this one, or the next. */
void attend_program_ended(int status);

/* This process was sent a signal that the agent is to know of. */
void attend_signal(int signal);

#endif
