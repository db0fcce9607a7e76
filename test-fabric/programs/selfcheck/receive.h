/* Verifying what arrives: messages, and the writes that they announce. */
#ifndef SELFCHECK_RECEIVE_H
#define SELFCHECK_RECEIVE_H

#include "job.h"

/* A completion of the receive queue. Returns false if the queue pair is of no more use. */
bool receive_completed(struct job *job, const struct ibv_wc *wc);

/* All that the peer did is done: compares what was seen with what it says. */
void receive_check_final(struct connection *connection);

/* --rnr: posts receives of queues that have been empty for a while. Otherwise there is nothing to do. */
void receive_feed(struct connection *connection);

#endif
