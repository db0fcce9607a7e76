/*
 * --churn: replaces objects while the job runs.
 *
 *   local region    registered again, the old key given up when no request uses it
 *   window          registered again, the peer told the new key; the old one given up when the peer says so
 *                   --windows: a window of type 2 bound to it instead, the one before invalidated, by the peer or here
 *   queue pair      of a connection, by both ends, led by the lower rank:
 *                   lower: pause, wait for own requests, offer      higher: the same, connect, answer
 *                   lower: connect, "switched" on the new pair      higher: destroy the old pair, "resume"
 *                   lower: destroy the old pair, go on
 */
#ifndef SELFCHECK_CHURN_H
#define SELFCHECK_CHURN_H

#include "job.h"

void churn_control(struct connection *connection, const struct control *control);

/* Goes on with what was begun. */
void churn_step(struct connection *connection);

/* Begins something at random, if nothing is under way. */
void churn_begin(struct connection *connection);

#endif
