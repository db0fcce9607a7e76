/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of docs/MESSAGES.md, for programs of a tree that ask their host's agent something. */
#ifndef AGENT_FRAME_H
#define AGENT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROTOCOL_VERSION 13	/* FrameType.VERSION */

/* A frame that is being made. Zeroed: an empty one. */
struct bytes {
	char *data;		/* for free(3) */
	size_t size, room;
	bool failed;		/* there was no memory */
};

/* Begins one that has this type, and ends it. */
void frame_begin(struct bytes *b, char type);
void frame_end(struct bytes *b);

void add_byte(struct bytes *b, char value);
void add_i32(struct bytes *b, int32_t value);
void add_i64(struct bytes *b, int64_t value);
void add_string(struct bytes *b, const char *text);

/*
 * What is at *at, which moves behind it; false when it would be behind `end`. A string is read where it stands: its end goes where
 * its own length was, or that of what follows, which have been read then.
 */
bool read_i32(const char **at, const char *end, uint32_t *value);
bool read_i64(const char **at, const char *end, int64_t *value);
bool read_string(char **at, const char *end, const char **text);

/*
 * Connects to the agent, whose socket was `agent` when the program was launched into `job`; after a restart it is where the file
 * beside that says. Sending and receiving take at most so many seconds each. -1 when there is no agent.
 */
int agent_connect(const char *agent, const char *job, int seconds);

/* false when the agent is gone. */
bool agent_send(int fd, const struct bytes *frame);

/*
 * Waits for a frame of that type. Returns its body, and its size; for free(3). NULL when it does not come, or when it is another one.
 */
char *agent_receive(int fd, char type, size_t *size);

/* The same for a frame of any type. */
char *agent_receive_any(int fd, char *type, size_t *size);

#endif
