/* Opens this process's connections to the others, again and again those that last only for a while, and accepts theirs. */
#ifndef TCPCHECK_OPEN_H
#define TCPCHECK_OPEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct slot;

/* A socket that listens at an address. With port 0 it gets one, which is put into the address. */
int open_listener(struct sockaddr_storage *address, socklen_t length);

/* Accepts at once what comes to the one, and after seconds what comes to the other. */
void open_acceptors(int prompt, int late);

/* Where a process accepts late. Before that is known nothing is opened to it. */
void open_set_late_port(int process, uint16_t port);

/* Opens what is due. */
void open_due(void);

/* Whether all slots have had a connection. */
bool open_is_complete(void);

/* Whether none to that process is left of those that this process has opened. */
bool open_is_over(int process);

/* How many have been opened to it. */
uint32_t open_count(int process);

/* A slot's connection has ended. */
void slot_ended(struct slot *slot);

#endif
