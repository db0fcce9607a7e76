/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sections of the program that are kept free of checkpoints. They cost the data path nothing: who begins one counts itself in
 * and looks whether they are closed; who closes them waits for that count. What the driver needs of them is in shadowverbs.h.
 */
#ifndef SV_SECTIONS_H
#define SV_SECTIONS_H

#include "control/thread.h"

/* Waits while sections are closed, but for a thread that is in one already. */
void sv_section_begin(struct sv_thread *self);
/* false: the thread is in none. */
bool sv_section_end(struct sv_thread *self);

void sv_sections_thread_ended(struct sv_thread *thread);
/* In a forked child: only the calling thread is left, and sections are open. */
void sv_sections_forked(void);

#endif
