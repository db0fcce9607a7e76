/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of librdmacm: where the real ones are, which channels there are, and calls that only wait and pass on. */
#include "cm_channel.h"
#include "arena.h"
#include "control.h"

#include <sys/eventfd.h>

struct sv_cm_functions sv_cm_functions;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void)
{
	/* Whoever calls has it loaded, though maybe not where everybody sees it. */
	void *library = sv_library(SV_CM_LIBRARY, "rdma_create_id");

	if (!library) {
		sv_sayf(SV_CM_LIBRARY " cannot be loaded: %s", dlerror());
		_exit(127);
	}
#define CM(name) *(void **)&sv_cm_functions.name = sv_symbol(library, #name);
#define CM_GATED(type, name, parameters, arguments, channel, fail) CM(name)
#include "cm.def"
}

void sv_cm_find(void)
{
	pthread_once(&once, find);
}

/* ---- Channels --------------------------------------------------------------------------------------------------- */

pthread_mutex_t sv_cm_lock = PTHREAD_MUTEX_INITIALIZER;
struct sv_cm_channel *sv_cm_channels;
int sv_cm_wake_fd = -1;
uint32_t sv_cm_sleepers;

struct sv_cm_channel *sv_cm_channel_locked(const struct rdma_event_channel *of)
{
	struct sv_cm_channel *channel;

	for (channel = of ? sv_cm_channels : NULL; channel && channel->fd != of->fd; channel = channel->next)
		;
	return channel;
}

struct sv_cm_channel *sv_cm_channel_of(const struct rdma_event_channel *of)
{
	struct sv_cm_channel *channel;

	pthread_mutex_lock(&sv_cm_lock);
	channel = sv_cm_channel_locked(of);
	pthread_mutex_unlock(&sv_cm_lock);
	return channel;
}

bool sv_cm_is_lost(const struct rdma_event_channel *of)
{
	struct sv_cm_channel *channel = sv_cm_channel_of(of);

	return channel && channel->lost;
}

void sv_cm_refuse(const char *function, int *said)
{
	if (!__atomic_exchange_n(said, 1, __ATOMIC_RELAXED))
		sv_sayf("%s: the connection manager's ids did not survive the restart", function);
	errno = ENODEV;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct sv_cm_channel *channel = sv_block_alloc(sizeof(*channel));
	struct rdma_event_channel *made;

	sv_cm_enter();
	pthread_mutex_lock(&sv_cm_lock);
	if (sv_cm_wake_fd < 0)
		sv_cm_wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	pthread_mutex_unlock(&sv_cm_lock);
	made = channel ? CM_REAL(rdma_create_event_channel)() : NULL;
	if (made) {
		channel->fd = made->fd;
		pthread_mutex_init(&channel->reading, NULL);
		pthread_mutex_lock(&sv_cm_lock);
		channel->next = sv_cm_channels;
		sv_cm_channels = channel;
		pthread_mutex_unlock(&sv_cm_lock);
	} else {
		sv_block_free(channel, sizeof(*channel));
	}
	sv_cm_leave();
	/* Who only listens uses no verb yet; the checkpoint must know of it all the same. A refusal has been said. */
	if (made)
		sv_driver_start("rdma_create_event_channel");
	return made;
}

void rdma_destroy_event_channel(struct rdma_event_channel *of)
{
	struct sv_cm_channel *channel;

	sv_cm_enter();
	channel = sv_cm_channel_of(of);
	if (channel) {
		struct sv_cm_channel **at = &sv_cm_channels;

		pthread_mutex_lock(&sv_cm_lock);
		while (*at != channel)
			at = &(*at)->next;
		*at = channel->next;
		pthread_mutex_unlock(&sv_cm_lock);
		if (channel->lost) {
			channel->events.fd = -1;	/* that is closed now */
			sv_events_close(&channel->events);
		}
		sv_block_free(channel, sizeof(*channel));
	}
	CM_REAL(rdma_destroy_event_channel)(of);
	sv_cm_leave();
}

/* ---- Calls ------------------------------------------------------------------------------------------------------ */

#define CM_GATED(type, name, parameters, arguments, channel, fail)      \
	type name parameters                                            \
	{                                                               \
		static int said;                                        \
		type result = fail;                                     \
									\
		sv_cm_enter();                                          \
		if (sv_cm_is_lost(channel))                             \
			sv_cm_refuse(#name, &said);                     \
		else                                                    \
			result = CM_REAL(name) arguments;               \
		sv_cm_leave();                                          \
		return result;                                          \
	}
#include "cm.def"
