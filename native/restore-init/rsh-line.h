/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line between `shadowverbs rsh` and the command that it runs on another host: one TCP connection, of which both ends are
 * processes of the job. It carries the three standard streams, signals and the exit status.
 *
 * A frame is a type, the number of a stream, two bytes of zero, and a number (u32, big-endian):
 *
 *   DATA    stream  n      n bytes of the stream follow
 *   ACK     stream  n      n bytes of it have been written where they go: so many more may be on their way
 *   END     stream  0      from who reads it: it has ended. From who writes it: nobody takes more
 *   SIGNAL  0       n      for the command
 *   EXIT    0       n      the command has ended; n is what wait(2) says
 *
 * Of each stream at most RSH_WINDOW bytes are on their way. So an end always has room for what comes, and a stream that stands still
 * holds up no other.
 */
#ifndef RSH_LINE_H
#define RSH_LINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RSH_WINDOW (64 << 10)
#define RSH_PLACE "SHADOWVERBS_RSH"	/* for rshd: token, port, and addresses at which `rsh` may be reached */
#define RSH_TOKEN 64			/* characters; the first half is rshd's word, the other one rsh's answer */
#define RSH_HELLO_SECONDS 5		/* for either half */

enum rsh_frame { RSH_DATA = 1, RSH_ACK, RSH_END, RSH_SIGNAL, RSH_EXIT };

/* The line of this process, at this socket. SIGPIPE is to be ignored. */
void rsh_open(int socket);

/* What is read from fd goes to the other side as this stream, or what comes as this stream is written to fd. Closed by this. */
void rsh_read_from(int stream, int fd);
void rsh_write_to(int stream, int fd);

/* Sends one of RSH_SIGNAL and RSH_EXIT. */
void rsh_tell(enum rsh_frame type, uint32_t value);

/*
 * Moves what can be moved, once, and waits for that, for `other` to be readable (-1: no such) or so many milliseconds (-1: any).
 * Calls `told` for each RSH_SIGNAL and RSH_EXIT. Returns whether `other` is readable.
 */
bool rsh_move(int other, int timeout, void (*told)(enum rsh_frame type, uint32_t value));

/* Whether the connection has ended or broken. */
bool rsh_is_over(void);

/* Whether no stream is read any more; and whether all that has come has been written. */
bool rsh_has_read_all(void);
bool rsh_has_written_all(void);

/* Of a socket whose other side may be lost with its host. */
void rsh_keep_alive(int socket);

/* Exactly so many bytes, within RSH_HELLO_SECONDS. */
bool rsh_hear_word(int socket, const char *word, size_t size);
bool rsh_say_word(int socket, const char *word, size_t size);

#endif
