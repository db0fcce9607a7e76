/* SPDX-License-Identifier: Apache-2.0 */
/* The gate of librdmacm's functions, which the gate of the verbs closes and opens with its own: they call verbs. */
#ifndef SV_CM_GATE_H
#define SV_CM_GATE_H

#include "base/base.h"

/* 0, or ETIMEDOUT and it is open again; *inside: how many threads were in such a function. */
int sv_cm_close(int64_t deadline, int *inside);
void sv_cm_open(void);
/* Waits while it is closed. Nests: librdmacm's functions call each other. */
void sv_cm_enter(void);
void sv_cm_leave(void);
/* For a thread that sleeps until there is an event, however deep it is inside; what it returns is for entering again. */
uint32_t sv_cm_leave_wholly(void);
void sv_cm_enter_again(uint32_t was);

void sv_cm_forked(void);

#endif
