/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptor of a completion channel or of a device's asynchronous events, as the application sees it: an epoll
 * descriptor of ours that holds the real one and an eventfd. What is inside changes at a re-attach; the application's
 * own epoll sets, and its threads that sleep on the descriptor, notice nothing.
 */
#ifndef SV_EVENTS_H
#define SV_EVENTS_H

#include "base/base.h"

#include <pthread.h>

struct sv_event {
	void *object;			/* virtual, or a port number */
	uint64_t type;			/* enum ibv_event_type; 0 for completion events */
};

struct sv_events {
	int fd;				/* the application's */
	int wake_fd;			/* readable while events are kept */
	int real_fd;			/* -1 while detached */
	pthread_mutex_t mutex;
	struct sv_event *kept;		/* a ring */
	uint32_t head, count, capacity;
};

int sv_events_open(struct sv_events *events);
void sv_events_close(struct sv_events *events);
/* Puts a real descriptor in (made non-blocking), or with -1 takes it out. Returns 0 or an errno value. */
int sv_events_bind(struct sv_events *events, int real_fd);
/* The mutex must be held for these. */
int sv_events_keep(struct sv_events *events, struct sv_event event);
bool sv_events_take(struct sv_events *events, struct sv_event *event);
void sv_events_forget(struct sv_events *events, const void *object);
/* Sleeps outside the gate until there may be an event. 0, or -1 with errno as read(2) on the real descriptor sets it. */
int sv_events_wait(struct sv_events *events);
/* Likewise on any descriptor, or until another (-1: none) becomes readable. */
int sv_readable_wait(int fd, int wake_fd);

/* The gate, for a verb that is a point of cancellation only while it sleeps. */
struct sv_thread *sv_events_enter(const char *verb, int *cancel);
void sv_events_leave(struct sv_thread *self, int cancel);

/* Before the gate opens: gives every completion queue that is due one its event. */
void sv_events_resume(void);

#endif
