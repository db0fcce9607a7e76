/* Threads that serve many ends each: by epoll (level or edge triggered) or by poll. */
#ifndef TCPCHECK_POLLER_H
#define TCPCHECK_POLLER_H

struct end;

void pollers_start(void);

/* Hands an end to one of them, in turn. From any thread. */
void pollers_take(struct end *end);

#endif
