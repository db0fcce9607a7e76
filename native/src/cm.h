/* SPDX-License-Identifier: Apache-2.0 */
/* The gate of librdmacm's functions, which the gate of the verbs closes and opens with its own: they call verbs. */
#ifndef SV_CM_H
#define SV_CM_H

#include "base.h"

/* 0, or ETIMEDOUT and it is open again; *inside: how many threads were in such a function. */
int sv_cm_close(int64_t deadline, int *inside);
void sv_cm_open(void);
void sv_cm_forked(void);

#endif
