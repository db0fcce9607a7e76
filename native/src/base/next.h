/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that this library stands in front of. */
#ifndef SV_NEXT_H
#define SV_NEXT_H

#include "base/base.h"

#include <dlfcn.h>

/* dlsym(RTLD_NEXT, name) as if this library did not stand in front of dlsym. */
void *sv_next(const char *name);
/* dlsym likewise. */
void *sv_symbol(void *handle, const char *name);
/*
 * Where the functions of a library are: RTLD_NEXT if a program was started with one that has this function; else a handle
 * of the library, which the process then has for good, whatever the program closes. NULL: there is none, dlerror says why.
 */
void *sv_library(const char *soname, const char *function);

/* The function of the C library, or of who has been preloaded behind this library. */
#define NEXT(type, name)                                                \
	({                                                              \
		static type sv_function;                                \
                                                                        \
		if (unlikely(!sv_load(&sv_function)))                   \
			sv_store(&sv_function, (type)sv_next(#name));   \
		sv_load(&sv_function);                                  \
	})

/* ThreadSanitizer uses some of these functions itself before it can look at what they do. */
#define UNWATCHED __attribute__((no_sanitize("thread")))

#endif
