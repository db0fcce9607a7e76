/* SPDX-License-Identifier: Apache-2.0 */
/* The application's handlers of signals. */
#ifndef SV_HANDLERS_H
#define SV_HANDLERS_H

#include "base/base.h"

/* SIGSEGV and the like, which a running thread causes and the Java virtual machine needs. */
bool sv_is_fault(int number);
/* Handlers of the Java virtual machine's own libraries, which the application does not know. */
bool sv_is_the_jvms(const void *handler);
/* Looks for handlers that were not installed through the C library, like those of Go's runtime. */
void sv_handlers_look(void);

/*
 * Between these two no handler of the application runs on the calling thread, but those of faults. One thread at a time.
 * The word is what sv_handlers_out needs. As long as the application has no handlers that costs no system call.
 */
bool sv_handlers_out(uint64_t *mask);
void sv_handlers_in(bool out, const uint64_t *mask);
/* In a forked child: the thread that was between them has not come along. */
void sv_handlers_forked(void);

#endif
