/* SPDX-License-Identifier: Apache-2.0 */
/* Why a call of this thread has failed. */
#ifndef SV_PROBLEM_H
#define SV_PROBLEM_H

/* Sets errno and the words. Returns -1. */
int sv_problem(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *sv_problem_text(void);

#endif
