/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the C library that this library stands in front of. */
#ifndef SV_NEXT_H
#define SV_NEXT_H

#include "base.h"

#include <dlfcn.h>

/* The function of the C library, or of who has been preloaded behind this library. */
#define NEXT(type, name)                                                \
	({                                                              \
		static type sv_next;                                    \
                                                                        \
		if (unlikely(!sv_load(&sv_next)))                       \
			sv_store(&sv_next, (type)dlsym(RTLD_NEXT, #name)); \
		sv_load(&sv_next);                                      \
	})

/* ThreadSanitizer uses some of these functions itself before it can look at what they do. */
#define UNWATCHED __attribute__((no_sanitize("thread")))

#endif
