/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the real libibverbs. */
#ifndef SV_REAL_H
#define SV_REAL_H

#include "base/real_functions.h"

/*
 * A function that the installed library does not have stays NULL; only those that came after version 1.1 may be.
 * Exits with one line when there is no library at all, as the loader would.
 */
const struct sv_real_functions *sv_real_functions(void);

/* What the loader does when a program needs a function that its library does not have. */
void sv_real_missing(const char *name) __attribute__((noreturn));

#define SV_REAL(name) (sv_real_functions()->name)

#endif
