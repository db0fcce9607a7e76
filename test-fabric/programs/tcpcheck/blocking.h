/* Connections with two threads of their own, of which one blocks in connect and send, and one in recv. */
#ifndef TCPCHECK_BLOCKING_H
#define TCPCHECK_BLOCKING_H

struct end;

/* Serves an end from now on. One that is opened here is connected first. From any thread. */
void blocking_take(struct end *end);

#endif
