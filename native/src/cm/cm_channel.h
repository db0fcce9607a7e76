/* SPDX-License-Identifier: Apache-2.0 */
/*
 * librdmacm's event channels over a checkpoint. Behind each is an open file of the kernel's connection manager, with all its
 * ids and connections, which no image can hold. While the image is made the agent holds the file, and an epoll descriptor
 * of ours stands in its place (cm_hold.c). When the process runs on the file comes back and nothing has happened; after a
 * restart there is none, and the stand-in stays: the queue pairs live, the connection manager's part of them is over, but that
 * their two ends tell each other, by way of the driver, when one disconnects (cm_connection.c).
 *
 * librdmacm's functions run inside a gate of their own (cm_gate.c). A channel is lost, and files and stand-ins change places,
 * while that is closed and nobody is inside.
 */
#ifndef SV_CM_CHANNEL_H
#define SV_CM_CHANNEL_H

#include "base/next.h"
#include "base/say.h"
#include "control/cm_gate.h"
#include "control/events.h"

#pragma GCC visibility push(default)
#include <rdma/rdma_cma.h>
#pragma GCC visibility pop

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* ---- The real functions ----------------------------------------------------------------------------------------- */

#define SV_CM_LIBRARY "librdmacm.so.1"

struct sv_cm_functions {
#define CM(name) __typeof__(&name) name;
#define CM_GATED(type, name, parameters, arguments, channel, fail) type(*name) parameters;
#include "cm/cm.def"
};
extern struct sv_cm_functions sv_cm_functions;

/* Finds them when it is first called, and ends the process where there is no librdmacm. By any thread. */
void sv_cm_find(void);

#define CM_REAL(name)                                                           \
	({                                                                      \
		sv_cm_find();                                                   \
		if (unlikely(!sv_cm_functions.name)) {                          \
			sv_say("the installed " SV_CM_LIBRARY           \
			       " has no " #name);                       \
			_exit(127);                                             \
		}                                                               \
		sv_cm_functions.name;                                           \
	})

/* ---- The gate (cm_gate.c) --------------------------------------------------------------------------------------- */


/* ---- Channels --------------------------------------------------------------------------------------------------- */

struct sv_cm_channel {
	struct sv_cm_channel *next;
	int fd;				/* the application's */
	bool lost;			/* by a restart */
	bool used;			/* by more than a look at what there is, see sv_cm_lost_in_use */
	struct sv_events events;	/* the stand-in while detached; when lost, with events of our own */
	pthread_mutex_t reading;	/* so that who has seen an event gets one, and does not sleep in the kernel */
};

/* Guards the lists of channels, connections and events of ours. Taken before the mutex of a channel's events. */
extern pthread_mutex_t sv_cm_lock;
extern struct sv_cm_channel *sv_cm_channels;
/*
 * poll(2) waits for a file but looks at a descriptor: a sleeper that the file wakes while a stand-in is in its place sleeps
 * on, and would not be woken again when it is back. So each gets a unit of this counter then.
 */
extern int sv_cm_wake_fd;
extern uint32_t sv_cm_sleepers;

/* NULL: one that we have not seen made, or none. The first with the lock held, the others without. */
struct sv_cm_channel *sv_cm_channel_locked(const struct rdma_event_channel *of);
struct sv_cm_channel *sv_cm_channel_of(const struct rdma_event_channel *of);
bool sv_cm_is_lost(const struct rdma_event_channel *of);
/* Sets errno, and says it once for each `said`. */
void sv_cm_refuse(const char *function, int *said);
/* Ids of it listen, are connected or belong to multicast groups. */
void sv_cm_use(const struct rdma_event_channel *of);
/* After a call that failed: says, once, that there is no connection manager on this host, if there is none. Leaves errno. */
void sv_cm_explain(const char *function, const void *caller);

#endif
