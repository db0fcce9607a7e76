/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper's part of the programs' lines to their launcher (pmi.h): it copies from one to the other, both ways. */
#ifndef LINES_H
#define LINES_H

#include <poll.h>
#include <stddef.h>

void lines_add(int launcher, int program);

/* Two entries for each line, which lines_copy() takes again. */
size_t lines_count(void);
void lines_wait(struct pollfd *wait);
void lines_copy(const struct pollfd *wait, size_t n);

#endif
