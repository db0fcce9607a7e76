/*
 * How ranks end together, by messages alone. Each step waits for the one before:
 *
 *   stop     a rank that is to stop tells all; whoever hears it stops posting, too
 *   final    all requests to a peer are done: what they were
 *   report   the finals of all ranks are here and checked: what was seen of the peer's requests
 *   bye      the reports of all ranks are here and agree: this rank's totals
 *
 * With every bye seen a rank knows the totals of the job and that no peer needs it any more.
 */
#ifndef SELFCHECK_AGREE_H
#define SELFCHECK_AGREE_H

#include "job.h"

void agree_control(struct connection *connection, const struct control *control);

/* Takes whatever step can be taken. To be called once posters have ended. Returns true when all is agreed. */
bool agree_step(struct job *job);

/* Tells all peers to stop. */
void agree_stop(struct job *job);

/* Puts a message into the connection's outbox, and posts from it what can be posted. */
void outbox_put(struct connection *connection, const struct control *control);
int outbox_post(struct connection *connection);

void totals_of(struct job *job, struct totals *totals);

/* What this connection is waited for, for the message when a deadline passes; NULL if nothing. */
const char *agree_waits_for(struct connection *connection);

#endif
