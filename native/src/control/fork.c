/* SPDX-License-Identifier: Apache-2.0 */
/* A forked child: nothing of the parent's threads is left, and the driver did not come along. */
#include "base/fork.h"
#include "control/cm_gate.h"
#include "control/control.h"
#include "control/handlers.h"
#include "control/sections.h"
#include "control/thread.h"

static void before(void)
{
	pthread_mutex_lock(&sv_device_lock);
	pthread_mutex_lock(&sv_registry_lock);
	pthread_mutex_lock(&sv_arena_lock);
}

static void after(void)
{
	pthread_mutex_unlock(&sv_arena_lock);
	pthread_mutex_unlock(&sv_registry_lock);
	pthread_mutex_unlock(&sv_device_lock);
}

static void in_child(void)
{
	after();
	sv_gate_forked();
	sv_sections_forked();
	sv_cm_forked();
	sv_handlers_forked();
	sv_mailbox_forked();
	sv_driver_forked();
}

static __attribute__((constructor)) void watch_forks(void)
{
	pthread_atfork(before, after, in_child);
}
