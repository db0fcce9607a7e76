/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of librdmacm: where the real ones are, which channels there are, and calls that only wait and pass on. */
#include "cm/cm_channel.h"
#include "base/arena.h"
#include "control/control.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/eventfd.h>

#define SV_CM_DEVICE "/dev/infiniband/rdma_cm"

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
#include "cm/cm.def"
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

void sv_cm_use(const struct rdma_event_channel *of)
{
	struct sv_cm_channel *channel;

	pthread_mutex_lock(&sv_cm_lock);
	channel = sv_cm_channel_locked(of);
	if (channel)
		channel->used = true;
	pthread_mutex_unlock(&sv_cm_lock);
}

int sv_cm_lost_in_use(void)
{
	int count = 0;

	for (const struct sv_cm_channel *channel = sv_cm_channels; channel; channel = channel->next)
		count += channel->lost && channel->used;
	return count;
}

static int is_in_program(struct dl_phdr_info *info, size_t size, void *caller)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD &&
		    (uintptr_t)caller - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
			return 1;
	return -1;	/* the program is the first: no further */
}

/* Libraries (UCX, libfabric) look whether there is one, and have other ways: what the program itself asks for it needs. */
void sv_cm_explain(const char *function, const void *caller)
{
	static int said;
	int err = errno;

	if ((err == ENOENT || err == ENODEV || err == ENXIO) && access(SV_CM_DEVICE, F_OK) &&
	    dl_iterate_phdr(is_in_program, (void *)caller) == 1 && !__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		sv_sayf("%s: there is no connection manager on this host (" SV_CM_DEVICE "); for its RDMA devices the kernel's module rdma_ucm is one, the software HCA and ib2tcp have none: let the program exchange its addresses by other means",
			function);
	errno = err;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct sv_cm_channel *channel = sv_block_alloc(sizeof(*channel));
	struct rdma_event_channel *made;

	sv_cm_enter();
	pthread_mutex_lock(&sv_cm_lock);
	if (sv_cm_wake_fd < 0)
		sv_cm_wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);	/* no semaphore: see sv_events_open */
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
		sv_cm_explain("rdma_create_event_channel", __builtin_return_address(0));
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

#define CALL(type, name, parameters, arguments, channel, fail, uses)    \
	type name parameters                                            \
	{                                                               \
		static int said;                                        \
		type result = fail;                                     \
									\
		sv_cm_enter();                                          \
		if (sv_cm_is_lost(channel))                             \
			sv_cm_refuse(#name, &said);                     \
		else if ((result = CM_REAL(name) arguments) == fail)    \
			sv_cm_explain(#name, __builtin_return_address(0)); \
		else if (uses)                                          \
			sv_cm_use(channel);                             \
		sv_cm_leave();                                          \
		return result;                                          \
	}
#define CM_GATED(type, name, parameters, arguments, channel, fail) \
	CALL(type, name, parameters, arguments, channel, fail, false)
#define CM_USES(type, name, parameters, arguments, channel, fail) \
	CALL(type, name, parameters, arguments, channel, fail, true)
#include "cm/cm.def"

static void unlock_in_child(void)
{
	pthread_mutex_init(&sv_cm_lock, NULL);
}

static __attribute__((constructor)) void watch_forks(void)
{
	pthread_atfork(NULL, NULL, unlock_in_child);
}
