/* SPDX-License-Identifier: Apache-2.0 */
/* Lines on stderr. */
#ifndef SV_SAY_H
#define SV_SAY_H

void sv_sayf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says once in the life of the process that a verb cannot be virtualized; `said` is the verb's own flag. */
void sv_refuse(const char *verb, int *said);

#endif
