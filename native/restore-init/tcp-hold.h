// SPDX-License-Identifier: Apache-2.0
/* What holds TCP connections still, or makes them again: one file for each thing that is done to them. */
#ifndef TCP_HOLD_H
#define TCP_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- tcp-hold.c, or tcp-release.c where there are two of a name ---- */

/* Lets go of all that is held, says why, and ends the program. */
_Noreturn void fail(const char *what);
/* Says it, and goes on. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);
/* A descriptor of ours for one of another process; another socket than the one with that inode is an error. */
int descriptor_of(int pid, int fd, unsigned long inode);
/* Nothing is taken in any more; false: the socket has a filter of its program's own, and keeps it. */
bool filter(int fd);
_Noreturn void out_of_memory(void);

/* ---- tcp-socket.c ---- */

/* In repair mode a socket says nothing to the other end, also when it is closed. */
int set_repair(int fd, bool on);
/* The sequence number of the next byte in that direction: TCP_RECV_QUEUE or TCP_SEND_QUEUE. In repair mode only. */
uint32_t sequence(int fd, int queue);
/* The kernel's number of the state. */
int state_of(int fd);

/* ---- tcp-pending.c: connections that no program has accepted yet ---- */

void pending_listen(int fd, unsigned room);
/* Accepts what waits, and tells of each. */
void pending_take(void);
/* Another socket of the other end's will come in its place. */
void pending_passed(unsigned long number);
/* Closes what was accepted. The other ends of those that were passed on, or of all, hear nothing of it. */
void pending_release(bool silent);

/* ---- tcp-again.c: connections that are made again by their client's end ---- */

/* The socket's own connection. What its other end has had is DATA, up to a sequence number; NULL: it has had nothing. */
void again_socket(int fd, const uint32_t *upto, uint8_t *data, size_t size);
/* A connection whose client has closed it, and its end has arrived. */
void again_closed(const char *local, int local_port, const char *remote, int remote_port, uint8_t *data, size_t size);
/* Forgets what the sockets were connected to. Nobody hears of it, whatever comes in. */
void again_unmake(void);
/* Then connects them again, and sends all. */
void again_make(void);

/* ---- tcp-room.c: room for what was sent and closed; what has a filter takes nothing in, so this comes before ---- */

/* The socket makes room for all that its other end has left to send. */
void room_open(int fd);

/* All of them tell so to their other ends, again when more has come meanwhile. */
void room_tell(void);

/* They have their sizes again. */
void room_close(void);

#endif
