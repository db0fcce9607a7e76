/* SPDX-License-Identifier: Apache-2.0 */
/* The device list: needs no driver, so that programs that only look pay for none. */
#include "base/fork.h"
#include "base/tcp_abi.h"
#include "interpose/real.h"
#include "objects/objects.h"

#include <stdlib.h>

pthread_mutex_t sv_device_lock = PTHREAD_MUTEX_INITIALIZER;

static struct sv_device *devices;

static struct sv_device *find_device(const char *name)
{
	for (struct sv_device *device = devices; device; device = device->next)
		if (!strcmp(device->v.name, name))
			return device;
	return NULL;
}

/* The lock must be held. */
static struct sv_device *device_for(struct ibv_device *real)
{
	struct sv_device *device = find_device(real->name);

	if (device)
		return device;
	device = sv_slot_alloc(SV_KIND_DEVICE, sizeof(*device));
	if (!device)
		return NULL;
	device->v = *real;
	memset(&device->v._ops, 0, sizeof(device->v._ops));
	device->guid = SV_REAL(ibv_get_device_guid)(real);
	device->index = SV_REAL(ibv_get_device_index) ? SV_REAL(ibv_get_device_index)(real) : -1;
	device->next = devices;
	sv_store_release(&devices, device);
	return device;
}

struct ibv_device *sv_device_for(struct ibv_device *real)
{
	struct sv_device *device;

	pthread_mutex_lock(&sv_device_lock);
	device = device_for(real);
	pthread_mutex_unlock(&sv_device_lock);
	return device ? &device->v : NULL;
}

struct ibv_device *sv_device_real(struct ibv_device *vdevice)
{
	return sv_load_acquire(&sv_device_of(vdevice)->real);
}

void sv_device_bind(struct ibv_device *vdevice, struct ibv_device *real)
{
	struct sv_device *device = sv_device_of(vdevice);

	if (real)
		sv_store(&device->without_file, real == sv_tcp_device() || strcmp(real->dev_name, vdevice->dev_name));
	sv_store_release(&device->real, real);
}

bool sv_device_without_file(const char *dev_name)
{
	for (const struct sv_device *device = sv_load_acquire(&devices); device; device = device->next)
		if (sv_load(&device->without_file) && !strcmp(device->v.dev_name, dev_name))
			return true;
	return false;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	int count = 0;
	struct ibv_device **reals = SV_REAL(ibv_get_device_list)(&count), **list;
	bool keep = false;

	if (num_devices)
		*num_devices = 0;
	if (!reals)
		return NULL;
	list = calloc(count + 1, sizeof(*list));
	pthread_mutex_lock(&sv_device_lock);
	for (int i = 0; list && i < count; i++) {
		struct sv_device *device = device_for(reals[i]);

		if (!device) {
			free(list);
			list = NULL;
			break;
		}
		if (device->real != reals[i]) {
			sv_device_bind(&device->v, reals[i]);
			keep = true;
		}
		list[i] = &device->v;
	}
	pthread_mutex_unlock(&sv_device_lock);
	/* A real list keeps its devices valid; the first that has a device stays for as long as we may open that. */
	if (!keep)
		SV_REAL(ibv_free_device_list)(reals);
	if (!list) {
		errno = ENOMEM;
		return NULL;
	}
	if (num_devices)
		*num_devices = count;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	if (list[0] && !sv_ours(list[0]))
		SV_REAL(ibv_free_device_list)(list);
	else
		free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return sv_ours(device) ? device->name : SV_REAL(ibv_get_device_name)(device);
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return sv_ours(device) ? sv_device_of(device)->guid : SV_REAL(ibv_get_device_guid)(device);
}

uint64_t sv_device_guid(struct ibv_device *device)
{
	return ibv_get_device_guid(device);
}

int ibv_get_device_index(struct ibv_device *device)
{
	if (sv_ours(device))
		return sv_device_of(device)->index;
	return SV_REAL(ibv_get_device_index) ? SV_REAL(ibv_get_device_index)(device) : -1;
}
