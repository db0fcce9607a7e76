/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for notification, and the events that they bring. As on a device the first completion that comes after a request
 * uses it up and makes one event. One too few is a sleeper that never wakes; and one too many is one too many for programs
 * that count, as perftest does. So it must be known at a checkpoint which events have not come that would have:
 *
 * - What is in the real queue at a request has come before it: it goes to the virtual queue then. So whatever is polled of
 *   the real queue afterwards has come later, and its event is due.
 * - The device's event, when it is seen, is the one that was due; if none was, it is of a completion that nobody has seen.
 * - What completes by our doing, at a checkpoint or before a queue pair ends, uses up the device's request, but not the
 *   application's.
 * - Mellanox's HCAs make an event at the request, too, if a completion is unread that came after the one of the last event
 *   (last_notified_index in mlx5_ifc.h), and UCX does not poll again after its request. As a request moves what is unread
 *   to the virtual queue, where the device does not see it, the event is made here.
 *
 * Whether a message was solicited no completion says. Of those requests an event may be one too many.
 */
#ifndef SV_NOTIFY_H
#define SV_NOTIFY_H

#include "objects/objects.h"

/* The real queue is asked for its next event. With the queue's lock held, as the next; or while the gate is closed. */
void sv_notify_asked(struct sv_cq *cq, bool solicited_only);
/*
 * What the real queue has had until now goes to the virtual one; with the queue's lock held. Errors of `ending` are of our
 * doing, as are completions that go nowhere then: cq->disarmed says whether they have used up the device's request. With a
 * queue pair that ends, the mutex of the channel's events must be held, too. Returns 0 or an errno value.
 */
int sv_notify_set_aside(struct sv_cq *cq, const struct sv_qp *ending);
/*
 * With the queue's lock held, at a request after that: true if something unread has come since the last event, and for that
 * there is to be an event now. False: the device is to be asked.
 */
bool sv_notify_missed(struct sv_cq *cq, bool solicited_only);
/* The same of messages alone, while the device was not asked for solicited ones. */
bool sv_notify_missed_message(struct sv_cq *cq);
/* A completion was taken from the real queue that came after the request for any, if there is one. */
void sv_notify_came(struct sv_cq *cq);
/* Drained: one of the application's. [gate closed] */
void sv_notify_drained(struct sv_cq *cq, const struct ibv_wc *wc);
/*
 * Taken: one of our doing, or of which that is not known; an error may use up a request for solicited ones, too. With the gate
 * closed, or the events' mutex held.
 */
void sv_notify_ours(struct sv_cq *cq, bool error);
/* A completion that no device has made: the application's request is used up, and cq->event_made says so. */
void sv_notify_made(struct sv_cq *cq);
/* An event of the device was taken from its channel, with the events' mutex held. False: it is none of the application's. */
bool sv_notify_event(struct sv_cq *cq);
/* The queue is about to be bound anew. Returns how many events the old one owed. [gate closed] */
uint32_t sv_notify_owed(struct sv_cq *cq);
/* How many events are due; and one of them is given, which the device will not make. With the events' mutex held, if any. */
uint32_t sv_notify_due(const struct sv_cq *cq);
void sv_notify_given(struct sv_cq *cq);

static inline enum sv_armed sv_notify_armed(const struct sv_cq *cq)
{
	return sv_load(&cq->notify) & SV_ARMED_MASK;
}

#endif
