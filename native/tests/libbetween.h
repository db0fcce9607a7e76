/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that is loaded behind ours and stands in front of functions of the C library and of libibverbs, as profilers do:
 * malloc, write and ibv_get_device_list find the next by RTLD_NEXT, ibv_free_device_list by the library's handle.
 */
#ifndef LIBBETWEEN_H
#define LIBBETWEEN_H

extern unsigned between_writes, between_lists, between_frees;

/* dlsym(RTLD_NEXT, name), from here. */
void *between_next(const char *name);
/* dlsym(handle, name), from here. */
void *between_symbol(void *handle, const char *name);

#endif
